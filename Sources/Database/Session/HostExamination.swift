// What `check` says about the hosts of a list that do not answer to it. A run goes to them after the loss of
// another, and then it is too late to learn that one of them cannot be used. Two things are asked: whether
// changes may go there, and what time it is there. The time matters because a lease is compared by the clock
// of the host that answers: where it is ahead by more than the lease has left, a living run loses it.

import Findings

/// One of several hosts, examined by a connection of its own.
struct HostExamination {
    /// Whether a run would use it.
    let finding: Finding
    /// Its clock; nil where it returned no time.
    let clock: ClockReading?

    /// Seconds for the connection, as runs have for one of several hosts.
    private static let longest = 3

    /// Connects once, since a check is no run and need not wait.
    init(
        _ address: StoreLocation.Address, of server: StoreLocation.Server,
        _ settings: StoreSettings
    ) {
        let alone = StoreLocation.Server(
            addresses: [address], user: server.user, database: server.database)
        var asked = settings.used(for: .reports)
        asked.location = .server(alone)
        asked.hosts = HostChoice()
        asked.timeouts.connect = min(asked.timeouts.connect, Self.longest)
        asked.timeouts.read = min(asked.timeouts.read, 10)
        var clock: ClockReading?
        do throws(SQLFailure) {
            let other = MariaDBConnection(alone, asked)
            try other.connect()
            clock = ClockReading(other, address.description)
            let role = try other.role()
            let objection = role?.objection(
                acceptsReplica: settings.acceptsReplica, hasOthers: true)
            finding = try Self.finding(address, role, objection)
        } catch {
            let cause = error.code == 0 ? error.message : "\(error.message) (\(error.code))"
            finding = .warning(
                "host-unusable",
                "of the hosts in store.url, \(address) cannot be used: \(cause); a run that loses its "
                    + "host would not go on there, so mend it or take it out of store.url")
        }
        self.clock = clock
    }

    private static func finding(
        _ address: StoreLocation.Address, _ role: ServerRole?, _ objection: SQLFailure?
    ) throws(SQLFailure) -> Finding {
        guard let objection else {
            if case .hidden(let isKnownIdle) = role?.replication, !isKnownIdle {
                return .warning(
                    "server-in-doubt",
                    "\(address) answers too, and takes changes; whether it is a replica, this account "
                        + "may not see there")
            }
            return .ok("\(address) answers too, and takes changes")
        }
        // The usual state of a server that is to take over one day.
        guard let role, role.isStandby else { throw objection }
        return .ok(
            "\(address) answers too, as a replica or read-only; runs pass it over until it takes changes"
        )
    }
}

/// The clock of a host, against the steady clock of this process.
struct ClockReading {
    private let host: String
    /// Milliseconds from the start of this process's count to the time that the server showed.
    private let offset: Int64
    /// Milliseconds by which the offset may be wrong: half of the time that the answer took.
    private let uncertainty: Int64

    /// Leases are renewed with ten seconds or more to spare, and synchronized clocks differ by
    /// milliseconds.
    private static let most: Int64 = 2_000
    private static let start = ContinuousClock.now

    /// Makes a reading of known values, in milliseconds.
    init(_ host: String, offset: Int64, uncertainty: Int64) {
        self.host = host
        self.offset = offset
        self.uncertainty = uncertainty
    }

    /// Asks the host; nil where it returns no time.
    init?(_ connection: any SQLConnection, _ host: String) {
        let dialect = connection.dialect
        let asked = Self.start.duration(to: .now)
        guard let answer = try? connection.query("SELECT \(dialect.now)").scalar,
            let time = try? dialect.instant(answer)
        else { return nil }
        let answered = Self.start.duration(to: .now)
        self.init(
            host, offset: time.rawValue - Self.milliseconds(asked + answered) / 2,
            uncertainty: Self.milliseconds(answered - asked) / 2 + 1)
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        Int64(duration / .milliseconds(1))
    }

    /// The warning that two of the clocks differ; nil where they may all agree to two seconds.
    static func finding(_ clocks: [ClockReading]) -> Finding? {
        guard let last = clocks.min(by: { $0.offset < $1.offset }),
            let first = clocks.max(by: { $0.offset < $1.offset })
        else { return nil }
        let lead = first.offset - last.offset
        guard lead - first.uncertainty - last.uncertainty > most else { return nil }
        return .warning(
            "clocks-of-hosts",
            "the clock of \(first.host) is \((lead + 500) / 1_000) seconds ahead of that of "
                + "\(last.host); leases are compared by the clock of the host that answers, so a living "
                + "run can lose its lease to another one; keep the clocks together, for instance with "
                + "chrony")
    }
}
