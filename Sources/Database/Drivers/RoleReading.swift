/// Asks a server for its role, see `ServerRole`. Leaves no transaction open.
struct RoleReading {
    let connection: any SQLConnection

    /// How often the server is asked outside of a transaction: a proxy with two replicas and the
    /// primary behind it answers all of them from the primary in one of 27 cases, and then the next
    /// connection finds it.
    private static let asked = 3
    /// ER_UNKNOWN_SYSTEM_VARIABLE and ER_PARSE_ERROR.
    private static let unknown = [1_193, 1_064]

    /// Asks.
    ///
    /// - Throws: any failure but those of a right and of a variable that the server does not have.
    func read() throws(SQLFailure) -> ServerRole {
        var outside: Set<ServerIdentity> = []
        for _ in 0..<Self.asked {
            if let identity = try identity(ServerIdentity.statement) { outside.insert(identity) }
        }
        try connection.begin()
        do {
            let role = try readInside(outside)
            connection.rollBack()
            return role
        } catch {
            connection.rollBack()
            throw error
        }
    }

    private func readInside(_ outside: Set<ServerIdentity>) throws(SQLFailure) -> ServerRole {
        let inside = try identity(ServerIdentity.statement)
        let locking = try identity(ServerIdentity.statement + connection.dialect.rowLock)
        let variables = try values(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN "
                + "('read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', "
                + "'wsrep_provider', 'group_replication_group_name')")
        let isGrouped = variables["group_replication_group_name"].map { !$0.isEmpty } ?? false
        let isNode =
            variables["wsrep_on"] == "ON" && variables["wsrep_provider"] != GaleraState.noProvider
        let others = outside.union([locking].compactMap { $0 }).filter { $0 != inside }
        return ServerRole(
            identity: inside, other: inside == nil ? nil : others.first,
            isReadOnly: variables.contains { name, value in
                name.hasSuffix("read_only") && !["OFF", "0"].contains(value)
            },
            replication: try replication(), galera: isNode ? try galera() : nil,
            group: isGrouped ? try group() : nil)
    }

    private func identity(_ statement: String) throws(SQLFailure) -> ServerIdentity? {
        do throws(SQLFailure) {
            let rows = try connection.query(statement)
            guard rows.count == 1, rows.width == 5 else { return nil }
            return ServerIdentity(values: rows.row(0).map(\.word))
        } catch {
            guard Self.unknown.contains(error.code) else { throw error }
            return nil
        }
    }

    /// Names and values of a SHOW statement, the names in lower case.
    private func values(_ statement: String) throws(SQLFailure) -> [String: String] {
        let rows = try connection.query(statement)
        var values: [String: String] = [:]
        for row in 0..<rows.count {
            guard let name = rows[row, 0].text, rows.width > 1 else { continue }
            values[name.lowercased()] = rows[row, 1].word
        }
        return values
    }

    private func replication() throws(SQLFailure) -> Replication {
        let rows: SQLRows
        do throws(SQLFailure) {
            rows = try ReplicationStatus.read(connection).rows
        } catch {
            if Self.unknown.contains(error.code) { return .hidden(isKnownIdle: false) }
            guard error.kind == .permission else { throw error }
            return try countedReplication()
        }
        guard let row = ReplicationStatus.sources(rows).first else { return .none }
        return .replica(of: row.primary, isRunning: row.isRunning)
    }

    /// Without a right, MariaDB still counts the replications that run.
    private func countedReplication() throws(SQLFailure) -> Replication {
        guard let count = try values("SHOW GLOBAL STATUS LIKE 'Slaves_running'")["slaves_running"]
        else { return .hidden(isKnownIdle: false) }
        return count == "0"
            ? .hidden(isKnownIdle: true)
            : .replica(of: "a primary that this account may not see", isRunning: true)
    }

    private func group() throws(SQLFailure) -> GroupMembership {
        do throws(SQLFailure) {
            let rows = try connection.query(
                "SELECT MEMBER_STATE, MEMBER_ID = @@server_uuid FROM "
                    + GroupMembership.right.table)
            let states = (0..<rows.count).map { rows[$0, 0].word }
            let own = (0..<rows.count).first { rows[$0, 1].count == 1 }
            return .member(
                state: own.map { states[$0] } ?? "OFFLINE",
                reachable: states.count { $0 != "UNREACHABLE" }, of: states.count)
        } catch {
            guard error.kind == .permission else { throw error }
            let account = try connection.query("SELECT CURRENT_USER()").scalar?.text ?? ""
            return .hidden(grant: GroupMembership.right.grant(to: account))
        }
    }

    private func galera() throws(SQLFailure) -> GaleraState {
        let found = try values(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state_comment', "
                + "'wsrep_cluster_status', 'wsrep_cluster_size', 'wsrep_ready')")
        return GaleraState(
            comment: found["wsrep_local_state_comment"] ?? "unknown",
            clusterStatus: found["wsrep_cluster_status"] ?? "unknown",
            size: found["wsrep_cluster_size"].flatMap { Int($0) } ?? 0,
            isReady: found["wsrep_ready"] == "ON")
    }
}

/// The statement that lists what a server replicates, and its answer.
struct ReplicationStatus {
    /// The answer, a row for each primary.
    let rows: SQLRows
    /// The statement that this server understands.
    let statement: String

    /// MariaDB lists all its replications by a statement of its own, MySQL by one that was renamed
    /// in 8.0.22.
    private static let statements = [
        "SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS",
    ]

    /// Asks by the first statement that the server understands.
    ///
    /// - Throws: any failure of it; `permission` where the account may not ask.
    static func read(_ connection: any SQLConnection) throws(SQLFailure) -> ReplicationStatus {
        for statement in statements.dropLast() {
            do throws(SQLFailure) {
                return ReplicationStatus(
                    rows: try connection.query(statement), statement: statement)
            } catch {
                guard error.code == notUnderstood else { throw error }
            }
        }
        let last = statements[statements.count - 1]
        return ReplicationStatus(rows: try connection.query(last), statement: last)
    }

    /// ER_PARSE_ERROR.
    private static let notUnderstood = 1_064

    /// The primaries of an answer. The members of a replication group replicate each other by channels
    /// of fixed names, which make none of them a replica.
    static func sources(_ rows: SQLRows) -> [(primary: String, isRunning: Bool)] {
        func text(_ row: Int, _ names: [String]) -> String? {
            rows.names.firstIndex(where: names.contains).map { rows[row, $0].word }
        }
        return (0..<rows.count).compactMap { row in
            if text(row, ["Channel_Name"])?.hasPrefix("group_replication_") == true { return nil }
            let host = text(row, ["Source_Host", "Master_Host"]) ?? "another server"
            let port = text(row, ["Source_Port", "Master_Port"])
            let threads = [
                text(row, ["Replica_IO_Running", "Slave_IO_Running"]),
                text(row, ["Replica_SQL_Running", "Slave_SQL_Running"]),
            ]
            return (
                String(host.prefix(60)) + (port.map { ":\($0)" } ?? ""),
                threads.contains { $0 != nil && $0 != "No" }
            )
        }
    }
}

extension SQLValue {
    /// A text, or a number in digits.
    fileprivate var word: String {
        switch self {
        case .integer(let number): String(number)
        case .unsigned(let number): String(number)
        default: text ?? ""
        }
    }
}
