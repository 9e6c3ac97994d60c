/// One result of examining the database.
package struct StoreFinding: Hashable, Sendable, CustomStringConvertible {
    /// The consequence of a finding.
    package enum Severity: Hashable, Sendable {
        /// No problem.
        case ok
        /// No obstacle, but the user should know it.
        case warning
        /// Evidence must not be taken or applied: code 77 or 78.
        case failure(StoreFailure.Code)
    }

    /// The consequence of the finding.
    package let severity: Severity
    /// One line: the finding, and the remedy where one is needed.
    package let sentence: String
    /// A clause after the sentence that names the command which tells more; see `StoreFailure.hint`.
    package let hint: String
    /// The GRANT statement that removes the obstacle; nil where no single one does.
    package let grant: String?
    /// Whether it is about the values in the rows: commands that only show what the table has go on.
    package let isAboutRows: Bool

    /// States a finding.
    package init(
        _ severity: Severity, _ sentence: String, hint: String = "", grant: String? = nil,
        isAboutRows: Bool = false
    ) {
        self.severity = severity
        self.sentence = sentence
        self.hint = hint
        self.grant = grant
        self.isAboutRows = isAboutRows
    }

    /// The finding that a failure amounts to.
    package init(_ failure: StoreFailure) {
        self.init(.failure(failure.code), failure.sentence, hint: failure.hint)
    }

    /// The failure that the finding amounts to; nil where it forbids nothing.
    package var failure: StoreFailure? {
        guard case .failure(let code) = severity else { return nil }
        return StoreFailure(code, sentence, hint: hint)
    }

    /// The finding's sentence, without its severity.
    package var description: String { sentence }
}

extension DatabaseSession {
    /// Examines the throttle's sources for this session and the holder of a lease: the conditions
    /// that keep runs apart and slow them down.
    ///
    /// - Throws: only failures of reading the lease.
    package func examineThrottle(lease name: String) throws(StoreFailure) -> [StoreFinding] {
        var findings: [StoreFinding] = []
        if let holder = try leaseHolder(of: name) {
            findings.append(
                StoreFinding(.ok, "the lease on \(name) is held by \(holder)"))
        }
        guard pacing.throttle.asksServers else { return findings }
        let reading: ThrottleReading
        do {
            reading = try probe.read()
        } catch {
            return findings + [StoreFinding(error)]
        }
        let load = reading.status.sorted { $0.key < $1.key }
            .map { "\($0.key) is \(LoadLimits.text($0.value))" }
        if !load.isEmpty {
            findings.append(StoreFinding(.ok, "load: \(load.joined(separator: ", "))"))
        }
        for replica in reading.lags {
            if let lag = replica.seconds {
                findings.append(
                    StoreFinding(.ok, "\(replica.name) lags \(Throttle.seconds(lag))"))
            } else {
                findings.append(
                    StoreFinding(
                        .warning,
                        "\(replica.name) does not replicate or does not answer, so runs would pause; "
                            + "start it, or correct throttle.replicas"))
            }
        }
        return findings
    }

    /// The GRANT statement for reading the server's own replica lag; empty where the throttle does
    /// not need it. Named replicas need the same, each on its own server.
    ///
    /// - Throws: any failure of reading the server's description.
    package func lagGrants() throws(StoreFailure) -> [String] {
        let throttle = pacing.throttle
        guard throttle.maxLag != nil, case .server(let server) = settings.location else {
            return []
        }
        let right = try replicationRight(purpose: "read the replica lag of")
        return [right.grant(to: try describe().account ?? server.user)]
    }
}
