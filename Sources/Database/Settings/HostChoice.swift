// Several hosts in store.url stand for one database: the nodes of a cluster, or a primary and the servers
// that may take its place. Each connection tries them in order and keeps the first that can be used:
//
//   first connection --> from the head of the list
//   lost connection  --> from the host after the lost one, the lost one last
//   other connection of the same run --> from the host that was chosen last
//
// So a run stays on one server while that server lasts, and all its connections follow when one of them had
// to move. What a lost connection had committed is no question of this file: the checkpoint in the database
// shows it, whichever host is asked.
//
// An error that time or another host may cure (no answer, not ready, overloaded, read-only, a replica) leads
// to the next host. An error of the settings (a wrong password, an untrusted certificate, an unknown database)
// ends the search at once: a person has to see it before the day on which that host is the last one.

import Synchronization

/// Which of several hosts the connections of one run use.
package final class HostChoice: Sendable {
    private struct State {
        /// The host that was chosen last; nil before the first choice.
        var current: StoreLocation.Address?
        var wereUsed = false
        var oldest: StateAge?
        var tell: @Sendable (String) -> Void = { _ in }
    }

    private let state = Mutex(State())

    /// Makes a choice that was not made yet.
    package init() {}

    /// Says to `tell` which host is used, whenever that changes. Lists of one host are not told.
    package func telling(_ tell: @escaping @Sendable (String) -> Void) {
        state.withLock { $0.tell = tell }
    }

    /// Whether a connection of this run could be opened, also to a single host.
    package var wereUsed: Bool { state.withLock { $0.wereUsed } }

    /// Notes that a connection was opened.
    package func noteUse() { state.withLock { $0.wereUsed = true } }

    /// The oldest rows that may decide in this run, as its first connection for such reads found them; nil
    /// before it.
    var oldest: StateAge? {
        get { state.withLock { $0.oldest } }
        set { state.withLock { $0.oldest = newValue } }
    }

    /// The hosts in the order in which a connection tries them. `lost` is the host that it was
    /// connected to before.
    func order(
        of hosts: [StoreLocation.Address], after lost: StoreLocation.Address?
    ) -> [StoreLocation.Address] {
        let current = state.withLock { $0.current }
        let start = current.flatMap { hosts.firstIndex(of: $0) } ?? 0
        let first = lost != nil && lost == hosts[start] ? start + 1 : start
        return hosts.indices.map { hosts[(first + $0) % hosts.count] }
    }

    /// Tries the hosts until `connect` succeeds; returns the host that is used now.
    ///
    /// - Throws: an error of the settings at once, with the host's name; else, when no host can be
    ///   used, one failure with the errors of all.
    func choose(
        among hosts: [StoreLocation.Address], after lost: StoreLocation.Address?,
        _ connect: (StoreLocation.Address) throws(SQLFailure) -> Void
    ) throws(SQLFailure) -> StoreLocation.Address {
        guard hosts.count > 1 else {
            try connect(hosts[0])
            return hosts[0]
        }
        var failures: [(host: StoreLocation.Address, failure: SQLFailure)] = []
        for host in order(of: hosts, after: lost) {
            do {
                try connect(host)
                let loss = lost.map { ["the connection with \($0) was lost"] } ?? []
                settle(on: host, loss + failures.map { Self.sentence($0.host, $0.failure) })
                return host
            } catch {
                guard error.kind.leadsToNextHost else {
                    throw SQLFailure(
                        kind: error.kind, code: error.code, message: "\(host): \(error.message)")
                }
                failures.append((host, error))
            }
        }
        // What time may cure decides: the host that is down may be the one that will work.
        let standby: [SQLFailure.Kind] = [.misplaced, .readOnly]
        let decisive =
            failures.map(\.failure).first { !standby.contains($0.kind) }
            ?? failures.map(\.failure).first { $0.kind == .readOnly }
        let cause = failures.compactMap(\.failure.temporaryCause).first.map { "; \($0)" } ?? ""
        throw SQLFailure(
            kind: decisive?.kind ?? .misplaced, code: 0,
            message: "none of \(hosts.count) hosts can be used: "
                + failures.map { host, failure in
                    Self.sentence(host, failure, isPassedOver: decisive != nil)
                }.joined(separator: "; ") + cause,
            longest: Self.longest)
    }

    /// What happened at a host. A replica that was passed over needs no advice, since the address of its
    /// primary is in the list.
    private static func sentence(
        _ host: StoreLocation.Address, _ failure: SQLFailure, isPassedOver: Bool = true
    ) -> String {
        let isBrief = isPassedOver && failure.kind == .misplaced
        let message =
            isBrief ? String(failure.message.prefix { $0 != ";" }) : failure.message
        return "\(host): \(message)" + (failure.code == 0 ? "" : " (\(failure.code))")
    }

    /// Characters of a message with the errors of all hosts.
    private static let longest = 2_000

    private func settle(on host: StoreLocation.Address, _ causes: [String]) {
        let tell = state.withLock { state -> (@Sendable (String) -> Void)? in
            defer { state.current = host }
            return state.current == host ? nil : state.tell
        }
        let why = causes.isEmpty ? "" : ", since \(causes.joined(separator: "; "))"
        tell?("the token database is used at \(host)\(why)")
    }
}

extension SQLFailure.Kind {
    /// Whether another host may do better.
    fileprivate var leadsToNextHost: Bool {
        switch self {
        case .conflict, .lost, .overloaded, .unreachable, .readOnly, .misplaced: true
        case .tooLarge, .untrusted, .permission, .configuration, .refused, .leaseLost,
            .inconsistent, .other:
            false
        }
    }
}
