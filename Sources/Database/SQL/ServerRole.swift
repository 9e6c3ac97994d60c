// A list can be read once, so the server that takes its changes must be the right one. Two mistakes are not
// noticed by any statement that fails:
//
//   a replica that takes changes   every change succeeds, and its primary never hears of it
//   a proxy that splits reads      changes go to the primary, reads to a replica that lags behind it
//
// Both are found by asking, right after connecting. A replica knows that it is one. A split shows when two
// servers answer on one connection: every proxy must keep a transaction on one server, and reads outside of
// transactions are what it sends elsewhere. So the server is asked who it is several times outside of a
// transaction, as several replicas may share the reads, and then inside of one, once by a locking read.
// All other questions are asked inside of that transaction, since they are about the server that takes the
// changes.
//
// What an account may not see stays unknown, and unknown is no objection. Without any right MariaDB counts the
// replications that run; a replication that is stopped, and all of MySQL's, need a right.

/// How a server names itself. Two servers differ in one of its parts: replicas have other numbers, and
/// servers on one machine other ports and folders.
package struct ServerIdentity: Hashable, Sendable, CustomStringConvertible {
    /// The values of the statement, in its order.
    let values: [String]

    /// The variables are the same in MariaDB and MySQL.
    static let statement = "SELECT @@hostname, @@port, @@server_id, @@pid_file, @@datadir"

    /// `host:port (server 1)`.
    package var description: String { "\(values[0]):\(values[1]) (server \(values[2]))" }
}

/// Whether a server replicates another one, as far as the account may see.
package enum Replication: Hashable, Sendable {
    /// It replicates nothing.
    case none
    /// It is a replica of the named primary. `isRunning` is false where its replication is stopped.
    case replica(of: String, isRunning: Bool)
    /// The account may not ask. `isKnownIdle` states whether at least no replication runs.
    case hidden(isKnownIdle: Bool)
}

/// The state of a Galera node.
package struct GaleraState: Hashable, Sendable {
    /// The state in words, such as `Synced`.
    package let comment: String
    /// The status of its part of the cluster: `Primary`, or another word without a majority.
    package let clusterStatus: String
    /// The number of nodes in its part of the cluster.
    package let size: Int
    /// Whether it takes statements.
    package let isReady: Bool

    /// The value of `wsrep_provider` on a server that belongs to no cluster, also where `wsrep_on` is on.
    static let noProvider = "none"
}

/// The place of a server in a group of MySQL's Group Replication, as the server itself sees it.
package enum GroupMembership: Hashable, Sendable {
    /// It is a member in a state such as `ONLINE` (`OFFLINE` outside of the group), and reaches so many of
    /// the members that it knows, itself included.
    case member(state: String, reachable: Int, of: Int)
    /// The account may not see the members; the grant that lets it.
    case hidden(grant: String)

    /// The right to see the members. It shows names and states of servers only.
    static let right = Privilege(
        purpose: "see the members of the replication group of", privileges: "SELECT",
        table: "performance_schema.replication_group_members", probe: "")
}

/// What a server is, for a connection that wants to change rows.
package struct ServerRole: Hashable, Sendable {
    /// The server inside of a transaction; nil where it does not say.
    package let identity: ServerIdentity?
    /// Another server that answered on the same connection; nil where one answered all.
    package let other: ServerIdentity?
    /// Whether it refuses changes of accounts without a special right.
    package let isReadOnly: Bool
    /// Whether it replicates another server.
    package let replication: Replication
    /// Its state as a node of a Galera cluster; nil for other servers.
    package let galera: GaleraState?
    /// Its place in a group of Group Replication; nil where it is configured for none.
    package var group: GroupMembership?
}

// A member that was lost comes back as a server by itself: until it has joined again it takes changes, and
// the group never hears of them. A member without the majority shows rows that may be old. So only a member
// that is ONLINE and reaches the majority may be asked, and one that cannot be seen is not taken for one.

extension GroupMembership {
    /// Why rows of this server are not those of the group; nil where they are.
    var obstacle: SQLFailure? {
        switch self {
        case .hidden(let grant):
            return SQLFailure(
                kind: .permission, code: Self.denied,
                message:
                    "the server is configured for Group Replication, and this account may not see "
                    + "whether it is a member of its group; run \(grant)", longest: 600)
        case .member(let state, let reachable, let size):
            guard state != "ONLINE" || reachable * 2 <= size else { return nil }
            let place =
                state == "ONLINE"
                ? "reaches \(reachable) of \(size) members" : "is \(state) in its group"
            return SQLFailure(
                kind: .lost, code: 0,
                message:
                    "the server is configured for Group Replication and \(place), so its rows are not "
                    + "those of the group; let it join (START GROUP_REPLICATION)", longest: 600)
        }
    }

    /// ER_TABLEACCESS_DENIED_ERROR.
    private static let denied = 1_142
}

/// How old the rows of a server may be, by what it is; from the newest.
enum StateAge: Int, CaseIterable, Comparable {
    /// The rows of a server that takes changes.
    case newest
    /// Those of one that is set to read-only, and may not have the newest for as long as another takes over.
    case untilTakeover
    /// Those of a replica.
    case replicas

    static func < (one: StateAge, other: StateAge) -> Bool { one.rawValue < other.rawValue }
}

extension ServerRole {
    /// Whether it is what a server that is to take over one day usually is: a replica that keeps up, or
    /// set to read-only. No node of a Galera cluster is one, since all of them take changes.
    var isStandby: Bool {
        guard other == nil, galera == nil else { return false }
        guard case .replica(_, let isRunning) = replication else { return isReadOnly }
        return isRunning
    }

    /// The objection to changes over this connection; nil where there is none. `acceptsReplica` is the
    /// setting, `hasOthers` whether other hosts could be tried.
    func objection(acceptsReplica: Bool, hasOthers: Bool) -> SQLFailure? {
        if let unready { return unready }
        if let obstacle, !acceptsReplica || (hasOthers && isReplica) {
            let message = acceptsReplica ? Self.amongSeveral(obstacle) : obstacle
            return SQLFailure(kind: .misplaced, code: 0, message: message, longest: 600)
        }
        guard isReadOnly, hasOthers || !acceptsReplica else { return nil }
        return readOnly
    }

    /// The objection to reads that decide, where rows may be as old as `age`; nil where there is none. A
    /// proxy is no obstacle to them, since they are asked of the primary.
    func objection(toRowsOlderThan age: StateAge) -> SQLFailure? {
        if let unready { return unready }
        if isReplica, age < .replicas, let obstacle {
            return SQLFailure(kind: .misplaced, code: 0, message: obstacle, longest: 600)
        }
        return isReadOnly && age < .untilTakeover ? readOnly : nil
    }

    /// Whether it replicates another server, so that its rows may be old.
    package var isReplica: Bool {
        guard case .replica = replication else { return false }
        return true
    }

    private var unready: SQLFailure? {
        if let obstacle = group?.obstacle { return obstacle }
        guard let galera, !galera.isReady || galera.clusterStatus != "Primary" else { return nil }
        return SQLFailure(
            kind: .lost, code: Self.notReady,
            message:
                "the Galera node is not ready: \(galera.comment), its part of the cluster is "
                + galera.clusterStatus)
    }

    private var readOnly: SQLFailure {
        SQLFailure(
            kind: .readOnly, code: Self.readOnlyCode, message: "the server is set to read-only")
    }

    /// An obstacle that the settings accept, but not in a list of hosts. A run that goes on at a replica
    /// would repeat what the lost host has committed and the replica has not read yet.
    private static func amongSeveral(_ obstacle: String) -> String {
        String(obstacle.prefix { $0 != ";" })
            + "; store.accept-replica does not accept it beside other hosts, because the last commits of a "
            + "lost host may be missing there, so write this one host into store.url, or the primary's only"
    }

    /// ER_UNKNOWN_COM_ERROR, the number of a Galera node that takes no statements.
    private static let notReady = 1_047
    /// ER_OPTION_PREVENTS_STATEMENT.
    private static let readOnlyCode = 1_290

    /// Why changes would be lost or decided by old rows, with what to do; nil where nothing is known
    /// of that.
    package var obstacle: String? {
        if let other {
            return
                "two servers answer on one connection, \(name) inside of a transaction and \(other) "
                + "outside, so a proxy splits reads from changes and old rows could decide; write the "
                + "primary's own address into store.url, turn the splitting off for this account, or "
                + "accept it with store.accept-replica: true"
        }
        guard case .replica(let primary, let isRunning) = replication else { return nil }
        return
            "\(name) is a replica of \(primary)\(isRunning ? "" : ", although it is stopped"), and a "
            + "change there would never reach its primary; write the primary's address into store.url, "
            + (isRunning
                ? ""
                : "remove the old replication with RESET REPLICA ALL if this server is the "
                    + "primary now, ")
            + "or accept it with store.accept-replica: true"
    }

    private var name: String { identity?.description ?? "the server" }
}
