import Encodings
import Findings
import Glibc

// A sweep after a quarter without one may have millions of rows to mark, on a server in production. Chunks
// keep its locks short, and the throttle limits its load. Between two chunks, never inside a transaction,
// it checks the configured conditions, at most once a second:
//
//   continue --over max-lag or max-load--> pause --back below--> continue
//            --over critical-load, past the time budget, stop file--> stop
//                                          pause --ten minutes----> stop
//
// Stopping costs nothing: the evidence is in the journal, the checkpoint stores the progress, and the next run
// continues. So a condition that lasts too long ends the run instead of keeping the lease.
//
// Without limits the throttle only checks for the stop file and sends no query.

/// The conditions under which a run pauses or ends early; by default none.
package struct Throttle: Sendable {
    /// The seconds that a replica may lag.
    package var maxLag: Double?
    /// The load above which the run pauses.
    package var maxLoad: LoadLimits?
    /// The load above which the run ends.
    package var criticalLoad: LoadLimits?
    /// The milliseconds that the run may last.
    package var timeBudget: Double?
    /// A file whose presence ends the run.
    package var stopFile: String?
    /// The replicas whose lag counts; empty: the server's own lag.
    package var replicas: [StoreSettings] = []
    /// The start of the run on the pacing's clock, in milliseconds; nil: the budget does not count
    /// yet.
    package var began: Double?
    /// Receives messages about the start of a pause, with its reason, and its end.
    package var report: @Sendable (String) -> Void = { _ in }
    /// Replaces the queries to servers, for tests.
    package var scripted: (@Sendable () -> ThrottleReading)?

    /// Makes a throttle without limits.
    package init() {}

    /// Milliseconds between two checks of servers.
    static let interval = 1_000.0
    /// Milliseconds of a pause until the next check of limits and stop signal.
    static let pause = 500
    /// Milliseconds of pausing after which the run ends.
    static let longestPause = 600_000.0

    /// Whether the limits need queries to servers.
    package var asksServers: Bool { maxLag != nil || maxLoad != nil || criticalLoad != nil }

    /// The consequence of a reading.
    enum Decision: Hashable, Sendable {
        case proceed
        case pause(StopReason, String)
        case stop(StopReason, String)
    }

    /// The milliseconds that are left of the budget, 0 when it is used up; nil without a budget that counts.
    package func budgetLeft(at now: Double) -> Double? {
        guard let timeBudget, let began else { return nil }
        return max(0, timeBudget - (now - began))
    }

    /// The decision without a query to a server; nil: no obstacle.
    func ending(at now: Double) -> Decision? {
        if let stopFile, access(stopFile, F_OK) == 0 {
            return .stop(.stopFile, "the stop file \(stopFile) exists")
        }
        if let timeBudget, let began, now - began >= timeBudget {
            return .stop(
                .timeBudget, "the time budget of \(Self.seconds(timeBudget / 1_000)) is used up")
        }
        return nil
    }

    /// The consequence of a reading; the most urgent limit decides.
    func decision(for reading: ThrottleReading) -> Decision {
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
        return .proceed
    }

    static func seconds(_ seconds: Double) -> String { "\(LoadLimits.text(seconds)) s" }
}

/// The values read from servers for the limits.
package struct ThrottleReading: Hashable, Sendable {
    /// The lag of one replication.
    package struct Lag: Hashable, Sendable {
        /// The replica's address, or the name of the server's replication.
        package let name: String
        /// The seconds behind; nil where replication has stopped or the replica does not answer.
        package let seconds: Double?
    }

    /// Values of SHOW GLOBAL STATUS by variable name in lower case.
    package var status: [String: Double] = [:]
    /// The lags, one per replication.
    package var lags: [Lag] = []
}

/// Limits on values of a server's status: `Threads_running=25,wsrep_local_recv_queue=100`, or a
/// number alone for `Threads_running`. The spelling is that of gh-ost and pt-online-schema-change.
package struct LoadLimits: Hashable, Sendable, CustomStringConvertible {
    /// The variable for a number alone: the statements running on the server, including this
    /// program's.
    static let usual = "Threads_running"

    /// The limit of one variable.
    struct Limit: Hashable, Sendable {
        /// A variable of SHOW GLOBAL STATUS.
        let name: String
        /// The highest allowed value.
        let most: Double
    }

    let limits: [Limit]

    /// Parses limits.
    ///
    /// - Throws: the error in the text, as the end of a sentence that begins with the setting.
    package init(_ text: String) throws(Refusal) {
        var limits: [Limit] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let halves = part.split(separator: "=", omittingEmptySubsequences: false)
            let name = halves.count == 2 ? String(halves[0]) : Self.usual
            guard halves.count <= 2, let number = halves.last, Self.isName(name),
                let most = Self.number(number)
            else {
                throw Refusal(
                    "must be a number of running threads, or figures of SHOW GLOBAL STATUS with their "
                        + "limits, such as Threads_running=25,Threads_connected=400")
            }
            guard !limits.contains(where: { $0.name.lowercased() == name.lowercased() }) else {
                throw Refusal("limits \(name) twice; keep one")
            }
            limits.append(Limit(name: name, most: most))
        }
        self.limits = limits
    }

    /// Names go into a statement unquoted, so they may have letters, digits and underscores only.
    private static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { PlainText.isAlphanumeric($0) || $0 == UInt8(ascii: "_") }
    }

    private static func number(_ text: Substring) -> Double? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ PlainText.wholeNumber($0) != nil }) else {
            return nil
        }
        return Double(text)
    }

    /// The limits in the spelling that `init` accepts.
    package var description: String {
        limits.map { "\($0.name)=\(Self.text($0.most))" }.joined(separator: ",")
    }

    /// A number without a needless fraction.
    static func text(_ number: Double) -> String {
        Int64(exactly: number).map(String.init) ?? String(number)
    }

    /// The first variable above its limit, in words; nil where none is.
    func excess(_ status: [String: Double]) -> String? {
        for limit in limits {
            guard let figure = status[limit.name.lowercased()], figure > limit.most else {
                continue
            }
            return "\(limit.name) is \(Self.text(figure)), the limit \(Self.text(limit.most))"
        }
        return nil
    }
}
