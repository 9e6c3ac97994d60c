import Foundation

// A sweep that follows a quarter's silence may have millions of rows to mark, on a server with
// customers. Chunks keep its locks short; the throttle keeps its pace bearable. Between two chunks,
// never inside a transaction, it looks at what it was asked to look at, once a second at the most:
//
//   go on --over max-lag or max-load--> pause --back below--> go on
//         --over critical-load, past the time budget, stop file--> stop
//                                       pause --ten minutes----> stop
//
// To stop costs nothing: what was read is in the journal, the marker says how far it is applied, and
// the next run goes on. So whatever lasts too long ends the run instead of holding the lease.
//
// Who asks for nothing pays one look for the stop file and no query.

/// When a run pauses and when it ends early; by default never.
package struct Throttle: Sendable {
    /// Seconds a replica may lag.
    package var maxLag: Double?
    /// Load beyond which the run pauses.
    package var maxLoad: LoadLimits?
    /// Load beyond which the run ends.
    package var criticalLoad: LoadLimits?
    /// Milliseconds the run may last.
    package var timeBudget: Double?
    /// A file whose presence ends the run.
    package var stopFile: String?
    /// The replicas whose lag counts; none: the server's own.
    package var replicas: [StoreSettings] = []
    /// When the run began, on the clock of the pacing; nil: it has no budget yet.
    package var began: Double?
    /// Hears when a run pauses, and why, and when it goes on.
    package var story: @Sendable (String) -> Void = { _ in }
    /// Takes the place of asking servers.
    package var scripted: (@Sendable () -> ThrottleReading)?

    /// Starts without limits.
    package init() {}

    /// Milliseconds between two looks at servers.
    static let interval = 1_000.0
    /// Milliseconds a pause lasts until the next look; a stop signal is heard as often.
    static let pause = 500
    /// Milliseconds of pausing after which the run ends.
    static let longestPause = 600_000.0

    /// Whether servers have to be asked.
    package var asksServers: Bool { maxLag != nil || maxLoad != nil || criticalLoad != nil }

    /// What to do about a reading.
    enum Decision: Hashable, Sendable {
        case goOn
        case pause(StopReason, String)
        case stop(StopReason, String)
    }

    /// What there is to do without asking a server; nil: nothing stands in the way.
    func ending(at now: Double) -> Decision? {
        if let stopFile, access(stopFile, F_OK) == 0 {
            return .stop(.stopFile, "the stop file \(stopFile) is there")
        }
        if let timeBudget, let began, now - began >= timeBudget {
            return .stop(
                .timeBudget, "the time budget of \(Self.seconds(timeBudget / 1_000)) is used up")
        }
        return nil
    }

    /// What to do about a reading, the most urgent first.
    func decide(_ reading: ThrottleReading) -> Decision {
        if let excess = criticalLoad?.excess(reading.status) {
            return .stop(.criticalLoad, "\(excess) (critical-load)")
        }
        if let maxLag {
            for replica in reading.lags {
                guard let lag = replica.seconds else {
                    return .pause(.maxLag, "\(replica.name) does not replicate")
                }
                if lag > maxLag {
                    return .pause(
                        .maxLag,
                        "\(replica.name) lags \(Self.seconds(lag)), the limit is "
                            + Self.seconds(maxLag))
                }
            }
        }
        if let excess = maxLoad?.excess(reading.status) { return .pause(.maxLoad, excess) }
        return .goOn
    }

    static func seconds(_ seconds: Double) -> String { "\(LoadLimits.text(seconds)) s" }
}

/// What servers say about how they are.
package struct ThrottleReading: Hashable, Sendable {
    /// One replica.
    package struct Lag: Hashable, Sendable {
        /// Its address, or which replication of the server.
        package let name: String
        /// Seconds behind; nil where replication stands still or nobody answers.
        package let seconds: Double?

        /// States a lag.
        package init(name: String, seconds: Double?) {
            self.name = name
            self.seconds = seconds
        }
    }

    /// Figures of SHOW GLOBAL STATUS by name in lower case.
    package var status: [String: Double]
    /// One entry per replication.
    package var lags: [Lag]

    /// States a reading.
    package init(status: [String: Double] = [:], lags: [Lag] = []) {
        self.status = status
        self.lags = lags
    }
}
