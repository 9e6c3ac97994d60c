// Times of evidence are judged by this host's clock, registrations and leases by that of the database. Where
// the two are apart, a report that is true waits in quarantine, or one that is not is believed. `check` and
// `preflight` say so in one sentence.

import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

/// How far the clock of the database is from that of this host.
package struct ClockDifference: Hashable, Sendable {
    /// Milliseconds of a difference that is worth a word.
    private static let slack: Int64 = 5_000

    /// Milliseconds by which that of the database is ahead, negative where it is behind.
    package private(set) var ahead: Int64 = 0
    /// Milliseconds by which `ahead` may be wrong: half of the time that the answer took.
    private var error: Int64 = 0

    /// Makes that of one clock.
    package init() {}

    /// Asks the database for its time.
    ///
    /// - Throws: any failure of a query.
    package init(to store: TokenTable, _ now: () -> EpochMilliseconds) throws(StoreFailure) {
        let before = now().rawValue
        let theirs = try store.session.databaseTime().rawValue
        error = (now().rawValue - before) / 2
        ahead = theirs - (before + error)
    }

    /// `ahead` where it is more than the asking may have taken and the times of a clock differ by; else 0.
    package var worthwhile: Int64 { ahead.magnitude > (1_000 + error).magnitude ? ahead : 0 }

    /// The finding, high from where evidence is not believed any more; nil where the clocks agree.
    package func finding(about object: String) -> Finding? {
        guard ahead.magnitude > (Self.slack + error).magnitude else { return nil }
        return Finding(
            ahead.magnitude > EvidenceBounds.lead.magnitude ? .high : .medium, object,
            "the clock of the database is \(ahead.magnitude / 1_000) s "
                + (ahead > 0 ? "ahead of" : "behind") + " this host's",
            cure: "synchronize both with NTP")
    }
}
