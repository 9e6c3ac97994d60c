// What `check` says about the hosts of a list that do not answer to it. A run goes to them after the loss of
// another, and then it is too late to learn that one of them cannot be used. Two things are asked: whether
// changes may go there, and what time it is there. The time matters because a lease is compared by the clock
// of the host that answers: where it is ahead by more than the lease has left, a living run loses it.

/// One of several hosts, examined by a connection of its own.
struct HostExamination {
    /// The findings about it.
    private(set) var findings: [StoreFinding]
    /// Whether a run would use it.
    private(set) var takesChanges = false

    /// Seconds for the connection, as runs have for one of several hosts.
    private static let longest = 3

    /// Connects once, since a check is no run and need not wait.
    ///
    /// - Parameter answering: the host that answers to the check, and its clock.
    init(
        _ address: StoreLocation.Address, of server: StoreLocation.Server,
        _ settings: StoreSettings, answering: (host: String, clock: ClockReading?)
    ) {
        findings = []
        let alone = StoreLocation.Server(
            addresses: [address], user: server.user, database: server.database)
        var asked = settings
        asked.location = .server(alone)
        asked.hosts = HostChoice()
        asked.timeouts.connect = min(asked.timeouts.connect, Self.longest)
        asked.timeouts.read = min(asked.timeouts.read, 10)
        do throws(SQLFailure) {
            let other = MariaDBConnection(alone, asked)
            try other.connect()
            let standing = try other.standing()
            let objection = standing?.objection(
                acceptsReplica: settings.acceptsReplica, hasOthers: true)
            findings = [try Self.finding(address, standing, objection)]
            takesChanges = objection == nil
            if let own = answering.clock, let clock = ClockReading(other) {
                findings += [clock.finding(address, comparedWith: own, of: answering.host)]
                    .compactMap { $0 }
            }
        } catch {
            let cause = error.code == 0 ? error.message : "\(error.message) (\(error.code))"
            findings = [
                StoreFinding(
                    .warning,
                    "of the hosts in store.url, \(address) cannot be used: \(cause); a run that loses its "
                        + "host would not go on there, so mend it or take it out of store.url")
            ]
        }
    }

    private static func finding(
        _ address: StoreLocation.Address, _ standing: ServerStanding?, _ objection: SQLFailure?
    ) throws(SQLFailure) -> StoreFinding {
        guard let objection else {
            if case .hidden(let isKnownIdle) = standing?.replication, !isKnownIdle {
                return StoreFinding(
                    .warning,
                    "\(address) answers too, and takes changes; whether it is a replica, this account "
                        + "may not see there")
            }
            return StoreFinding(.ok, "\(address) answers too, and takes changes")
        }
        // The usual state of a server that is to take over one day.
        guard let standing, standing.isStandby else { throw objection }
        return StoreFinding(
            .ok,
            "\(address) answers too, as a replica or read-only; runs pass it over until it takes changes"
        )
    }
}

/// The clock of a server, against the steady clock of this process.
struct ClockReading {
    /// Milliseconds from the start of this process's count to the time that the server showed.
    private let offset: Int64
    /// Milliseconds by which the offset may be wrong: half of the time that the answer took.
    private let uncertainty: Int64

    /// Leases are renewed with ten seconds or more to spare, and synchronized clocks differ by
    /// milliseconds.
    private static let most: Int64 = 2_000
    private static let start = ContinuousClock.now

    /// Makes a reading of known values, in milliseconds.
    init(offset: Int64, uncertainty: Int64) {
        self.offset = offset
        self.uncertainty = uncertainty
    }

    /// Asks the server; nil where it returns no time.
    init?(_ connection: any SQLConnection) {
        let dialect = connection.dialect
        let asked = Self.start.duration(to: .now)
        guard let answer = try? connection.query("SELECT \(dialect.now)").scalar,
            let time = try? dialect.instant(answer)
        else { return nil }
        let answered = Self.start.duration(to: .now)
        self.init(
            offset: time.rawValue - Self.milliseconds(asked + answered) / 2,
            uncertainty: Self.milliseconds(answered - asked) / 2 + 1)
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        Int64(duration / .milliseconds(1))
    }

    /// Milliseconds by which this clock is ahead of the other one; nil where they may differ by less
    /// than two seconds.
    func lead(over other: ClockReading) -> Int64? {
        let difference = offset - other.offset
        return abs(difference) - uncertainty - other.uncertainty > Self.most ? difference : nil
    }

    /// The warning that the clocks of two hosts differ; nil where they agree.
    fileprivate func finding(
        _ address: StoreLocation.Address, comparedWith other: ClockReading, of host: String
    ) -> StoreFinding? {
        guard let lead = lead(over: other) else { return nil }
        let seconds = (abs(lead) + 500) / 1_000
        return StoreFinding(
            .warning,
            "the clock of \(address) is \(seconds) seconds \(lead > 0 ? "ahead of" : "behind") that of "
                + "\(host); leases are compared by the clock of the host that answers, so a living run "
                + "can lose its lease to another one; keep the clocks together, for instance with chrony"
        )
    }
}
