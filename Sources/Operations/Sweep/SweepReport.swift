import APNsProtocol
import EvidenceJournal
import Foundation
import TokenHygiene
import TokenTable

/// What a sweep or a replay did, feed by feed: one JSON object for scripts. Fields may be added,
/// never renamed.
package struct SweepReport: RunReport, Codable, Hashable {
    /// The run's name, a random UUID.
    package var run: String
    /// `sweep`, `replay` or `release`.
    package var kind: String
    /// Whether nothing was to be changed.
    package var dryRun: Bool
    /// RFC 3339, UTC.
    package var started: String
    /// RFC 3339, UTC.
    package var ended = ""
    /// One entry per feed.
    package var apps: [FeedReport] = []
    /// One entry per app with rows whose grace period (`policy.delete-after`) has ended.
    package var removals: [Removal] = []
    /// Tuples of feeds that joined the hold after the look, which wait for the next sweep; only after a
    /// release, and absent where there are none.
    package var waiting: Int?
    /// What went wrong, in order.
    package var problems: [RunProblem] = []
    /// What the run ends with.
    package var exit: Int32 = 0

    /// Opens the report of a run.
    package init(run: String, kind: String, dryRun: Bool, started: EpochMilliseconds) {
        self.run = run
        self.kind = kind
        self.dryRun = dryRun
        self.started = started.rfc3339
    }

    /// What the guard said, for the run's record: `passed`, `held` with the partitions and gates,
    /// `released`; at most 255 characters.
    var guardResult: String {
        if kind == "release" { return "released" }
        let held = apps.compactMap { feed in
            feed.gate.map { "\(feed.app)/\(feed.environment) \($0)" }
        }
        return GuardOpinions.summary(Set(held).sorted())
    }

    /// Tuples.
    package var closingCounts: ClosingCounts {
        apps.reduce(into: ClosingCounts(pending: waiting ?? 0)) { counts, feed in
            if feed.state == FeedState.pending.rawValue { counts.pending += feed.tuples }
            if !dryRun { counts.applied += feed.applied }
            counts.held += feed.held
        }
    }
}
