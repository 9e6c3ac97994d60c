import Findings

/// Makes a run wait between two chunks while a limit of the throttle is exceeded. Confined to the
/// store's thread.
final class Throttler {
    private let throttle: Throttle
    private let pacing: Pacing
    private let probe: ThrottleProbe
    private var nextCheck: Double

    init(_ pacing: Pacing, _ probe: ThrottleProbe) {
        throttle = pacing.throttle
        self.pacing = pacing
        self.probe = probe
        nextCheck = pacing.monotonic()
    }

    /// Returns true as soon as the run may continue, and false when `shouldStop` ends a pause.
    ///
    /// - Throws: `stopped` where the run has to end; any failure of a query to a server.
    func wait(shouldStop: () -> Bool) throws(StoreFailure) -> Bool {
        try end(throttle.ending(at: pacing.monotonic()), after: nil)
        guard throttle.asksServers, pacing.monotonic() >= nextCheck else { return true }
        var pausedSince: Double?
        while true {
            let decision = throttle.decision(for: try probe.read())
            let now = pacing.monotonic()
            guard case .pause(let reason, let sentence) = decision else {
                try end(decision, after: pausedSince)
                if let pausedSince {
                    throttle.report(
                        "continues after a pause of \(Throttle.seconds(((now - pausedSince) / 1_000).rounded()))"
                    )
                }
                nextCheck = now + Throttle.interval
                return true
            }
            if pausedSince == nil { throttle.report("pauses: \(sentence)") }
            let since = pausedSince ?? now
            pausedSince = since
            if now - since >= Throttle.longestPause {
                try end(.stop(reason, sentence), after: since)
            }
            if shouldStop() { return false }
            pacing.sleep(Throttle.pause)
            try end(throttle.ending(at: pacing.monotonic()), after: since)
        }
    }

    private func end(
        _ decision: Throttle.Decision?, after pausedSince: Double?
    ) throws(StoreFailure) {
        guard case .stop(let reason, let sentence)? = decision else { return }
        let pause = pausedSince.map {
            ", after a pause of "
                + Throttle.seconds(((pacing.monotonic() - $0) / 1_000).rounded())
        }
        throw StoreFailure(
            .stopped,
            "ending this run early: \(sentence)\(pause ?? ""); its changes stay, "
                + (reason == .stopFile ? "remove that file, then " : "") + "run again to continue",
            reason: reason)
    }
}

/// Reads the throttle's values from servers. Confined to the store's thread; keeps its connections
/// to replicas.
final class ThrottleProbe {
    private let throttle: Throttle
    private let connection: any SQLConnection
    private let retries: RetryPolicy
    private let location: StoreLocation
    private var replicas: [(settings: StoreSettings, connection: any SQLConnection)?]
    /// The statement for a server's lag, by server, once it is known.
    private var statements: [String: String] = [:]

    init(
        _ connection: any SQLConnection, _ pacing: Pacing, _ location: StoreLocation
    ) {
        throttle = pacing.throttle
        self.connection = connection
        retries = RetryPolicy(connection: connection, pacing: pacing)
        self.location = location
        replicas = Array(repeating: nil, count: throttle.replicas.count)
    }

    /// Reads only the values that have limits.
    ///
    /// - Throws: `configuration` where a server does not have a value, `permission` where the
    ///   account may not read it; any failure of the store's own server. A replica that does not
    ///   answer counts as one that does not replicate.
    func read() throws(StoreFailure) -> ThrottleReading {
        if let scripted = throttle.scripted { return scripted() }
        guard connection.dialect.engine == .mariaDB else {
            throw StoreFailure(
                .configuration,
                "reading the load of \(location): a file has no load and no replicas; remove "
                    + "throttle.max-lag, max-load and critical-load")
        }
        return ThrottleReading(status: try status(), lags: try lags())
    }

    private func status() throws(StoreFailure) -> [String: Double] {
        let names = ((throttle.maxLoad?.limits ?? []) + (throttle.criticalLoad?.limits ?? []))
            .map(\.name)
        guard !names.isEmpty else { return [:] }
        let list = Set(names).sorted().map { "'\($0)'" }.joined(separator: ", ")
        let found = try retries.retrying("reading the load of \(location)") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SHOW GLOBAL STATUS WHERE Variable_name IN (\(list))")
            var found: [String: Double] = [:]
            for row in 0..<rows.count {
                guard let name = rows[row, 0].text, let figure = rows[row, 1].figure else {
                    continue
                }
                found[name.lowercased()] = figure
            }
            return found
        }
        for name in names where found[name.lowercased()] == nil {
            throw StoreFailure(
                .configuration,
                "reading the load of \(location): SHOW GLOBAL STATUS has no figure \(name); correct "
                    + "throttle.max-load and critical-load")
        }
        return found
    }

    private func lags() throws(StoreFailure) -> [ThrottleReading.Lag] {
        guard throttle.maxLag != nil else { return [] }
        if throttle.replicas.isEmpty {
            let doing = "reading the replica lag of \(location)"
            let found = try retries.retrying(doing, do: lags(of: connection, "\(location)"))
            guard !found.isEmpty else {
                throw StoreFailure(
                    .configuration,
                    "\(doing): it is no replica; name the replicas to watch with "
                        + "throttle.replicas or --lag-replica")
            }
            return found
        }
        var found: [ThrottleReading.Lag] = []
        for number in replicas.indices { found += try lags(ofReplica: number) }
        return found
    }

    private func lags(ofReplica number: Int) throws(StoreFailure) -> [ThrottleReading.Lag] {
        let settings = throttle.replicas[number]
        let doing = "reading the lag of replica \(settings.location)"
        do throws(SQLFailure) {
            let found = try lags(of: try replica(number), "\(settings.location)")
            if !found.isEmpty { return found }
        } catch {
            replicas[number] = nil
            switch error.kind {
            case .permission, .configuration, .untrusted:
                throw StoreFailure(error, while: doing)
            default: return [.init(name: "\(settings.location)", seconds: nil)]
            }
        }
        throw StoreFailure(
            .configuration,
            "\(doing): it is no replica; correct throttle.replicas or --lag-replica")
    }

    private func replica(_ number: Int) throws(SQLFailure) -> any SQLConnection {
        if let known = replicas[number] { return known.connection }
        let settings = throttle.replicas[number]
        guard case .server(let server) = settings.location else {
            throw SQLFailure(kind: .configuration, code: 0, message: "a file is no replica")
        }
        let connection = MariaDBConnection(server, settings.used(for: .reports))
        try connection.connect()
        replicas[number] = (settings, connection)
        return connection
    }

    /// The lag of every replication of a server; empty where the server is not a replica.
    private func lags(
        of connection: any SQLConnection, _ name: String
    ) throws(SQLFailure) -> [ThrottleReading.Lag] {
        let rows = try replicationStatus(connection, name)
        guard rows.count > 0 else { return [] }
        let names = ["Seconds_Behind_Source", "Seconds_Behind_Master"]
        guard let column = rows.names.firstIndex(where: names.contains) else {
            throw SQLFailure(
                kind: .configuration, code: 0, message: "the server does not report its lag")
        }
        return (0..<rows.count).map {
            ThrottleReading.Lag(name: name, seconds: rows[$0, column].figure)
        }
    }

    private func replicationStatus(
        _ connection: any SQLConnection, _ name: String
    ) throws(SQLFailure) -> SQLRows {
        if let known = statements[name] { return try connection.query(known) }
        let status = try ReplicationStatus.read(connection)
        statements[name] = status.statement
        return status.rows
    }
}

extension SQLValue {
    /// A number in any representation; nil for any other value.
    fileprivate var figure: Double? {
        switch self {
        case .integer(let number): Double(number)
        case .unsigned(let number): Double(number)
        case .real(let number): number
        default: text.flatMap { Double($0) }
        }
    }
}
