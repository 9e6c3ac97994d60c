import APNsProtocol
import EvidenceJournal
import TokenHygiene
import TokenTable

/// The result of one feed: an entry of the reports of sweeps and replays. Fields may be added, never
/// renamed.
package struct FeedReport: Codable, Hashable, Sendable {
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// `host:port` of the gateway, or the path of the file.
    package var source: String
    /// How the feed ended, in one word.
    package var end: String
    /// Whether a connection to the gateway was tried; false when our own certificate prevented it.
    package var asked = true
    /// One sentence about the end; absent for a complete list.
    package var detail: String?
    /// The feed's name in the journal and the database; absent when no feed was opened.
    package var feed: String?
    /// The feed's state: pending, applied, held or discarded.
    package var state: String?
    /// Whether an earlier run read the feed.
    package var resumed = false
    /// Number of bytes read.
    package var bytes = 0
    /// Number of whole tuples read.
    package var tuples = 0
    /// Tuples that made at least one living row invalid; in a dry run, the tuples that would.
    package var applied = 0
    /// Tuples whose rows were invalid before.
    package var already = 0
    /// Tuples whose token registered again later.
    package var newer = 0
    /// Tuples whose token is in no row.
    package var unknown = 0
    /// Tuples with a row that could not be judged or refused the change; `refusals` names the rows.
    @LaterCount package var refused = 0
    /// The first rows that stayed unchanged against the evidence; absent when there are none.
    package var refusals: [String]?
    /// The most rows that `refusals` names.
    static let mostRefusals = 10
    /// Tuples that wait for a person's decision.
    package var held = 0
    /// Whole tuples that are not usable evidence.
    package var quarantined = 0
    /// Number of bytes after the last whole tuple.
    package var quarantinedBytes = 0
    /// Rows changed in the database, including refreshed marks.
    package var rowsChanged = 0
    /// The guard's gate that holds the feed or, in a dry run, would hold it.
    package var gate: String?
    /// Why the feed is held, or would be, in one sentence.
    package var cause: String?
    /// Living rows that would become invalid; present when the guard stopped them.
    package var candidates: Int?
    /// The end of our own certificate's validity.
    package var certificateExpires: String?

    /// Makes the entry of a feed.
    package init(_ partition: Partition, source: String, end: FeedEnd) {
        app = partition.app
        environment = partition.environment
        self.source = source
        self.end = end.rawValue
    }

    /// Copies the counts of tuples by outcome.
    mutating func enter(_ outcome: OutcomeCounts) {
        applied = outcome.applied
        already = outcome.already
        newer = outcome.newer
        unknown = outcome.unknown
        refused = outcome.refused
    }

    /// Copies the byte and tuple counts of the feed.
    package mutating func enter(_ books: FeedAccounting) {
        bytes = books.bytes
        tuples = books.tuples
        enter(books.outcome)
        held = books.held
        quarantined = books.quarantined
        quarantinedBytes = books.quarantinedBytes
    }
}

extension FeedReport {
    /// Whether the feed is completely applied.
    var isApplied: Bool { state == FeedState.applied.rawValue }

    /// The feed's tuples, counted by outcome.
    var counts: EvidenceCounts {
        EvidenceCounts(
            tuples: tuples, applied: applied, already: already, newer: newer, unknown: unknown,
            refused: refused, held: held, quarantined: quarantined)
    }

    /// Subtracts counts that were reported before.
    mutating func subtract(_ counts: EvidenceCounts) {
        tuples -= counts.tuples
        applied -= counts.applied
        already -= counts.already
        newer -= counts.newer
        unknown -= counts.unknown
        refused -= counts.refused
        held -= counts.held
        quarantined -= counts.quarantined
    }
}
