import APNsProtocol
import EvidenceJournal
import Foundation
import TokenHygiene
import TokenTable

/// The result of a sweep or a replay, feed by feed: one JSON object for scripts. Fields may be added,
/// never renamed.
package struct SweepReport: RunReport, Codable, Hashable {
    /// The run's name, a random UUID.
    package var run: String
    /// `sweep`, `replay` or `release`.
    package var kind: String
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// The start of the run, RFC 3339 in UTC.
    package var started: String
    /// The end of the run, RFC 3339 in UTC.
    package var ended = ""
    /// One entry per feed.
    package var apps: [FeedReport] = []
    /// One entry per app with rows whose grace period (`policy.delete-after`) has ended.
    package var removals: [Removal] = []
    /// Tuples of feeds that joined the hold after the preview and wait for the next sweep; only after a
    /// release, and absent where there are none.
    package var waiting: Int?
    /// The failures of the run, in order.
    package var problems: [RunProblem] = []
    /// The exit code.
    package var exit: Int32 = 0

    /// Makes the report of a run that begins.
    package init(run: String, kind: String, dryRun: Bool, started: EpochMilliseconds) {
        self.run = run
        self.kind = kind
        self.dryRun = dryRun
        self.started = started.rfc3339
    }

    /// The guard's result for the run's record: `passed`, `held` with the partitions and gates, or
    /// `released`; at most 255 characters.
    var guardResult: String {
        if kind == "release" { return "released" }
        let held = apps.compactMap { feed in
            feed.gate.map { "\(feed.app)/\(feed.environment) \($0)" }
        }
        return GuardLog.summary(Set(held).sorted())
    }

    /// The counts of tuples.
    package var closingCounts: ClosingCounts {
        apps.reduce(into: ClosingCounts(pending: waiting ?? 0)) { counts, feed in
            if feed.state == FeedState.pending.rawValue { counts.pending += feed.tuples }
            if !dryRun { counts.applied += feed.applied }
            counts.held += feed.held
        }
    }
}
