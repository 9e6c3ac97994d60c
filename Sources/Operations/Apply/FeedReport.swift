import APNsProtocol
import EvidenceJournal
import TokenHygiene
import TokenTable

/// What became of one feed: an entry of the reports of sweeps and replays. Fields may be added, never renamed.
package struct FeedReport: Codable, Hashable, Sendable {
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// `host:port`, or the file it came from.
    package var source: String
    /// How it ended, in one word.
    package var end: String
    /// Whether a connection to the gateway was tried; not where our own certificate kept us from it.
    package var asked = true
    /// What is to be said about the end, in one sentence.
    package var detail: String?
    /// The feed's name in the journal and the database; absent where nothing was opened.
    package var feed: String?
    /// Where the feed stands now: pending, applied, held or discarded.
    package var state: String?
    /// Whether an earlier run had read it.
    package var resumed = false
    /// Bytes read.
    package var bytes = 0
    /// Whole tuples read.
    package var tuples = 0
    /// Tuples that made at least one living row invalid; in a dry run, that would.
    package var applied = 0
    /// Tuples whose rows were invalid before.
    package var already = 0
    /// Tuples whose token registered again later.
    package var newer = 0
    /// Tuples whose token no row carries.
    package var unknown = 0
    /// Tuples of which a row could not be judged, or refused the change; `refusals` names them.
    @LaterCount package var refused = 0
    /// Rows that stayed as they are against the evidence, the first ones; absent where there are none.
    package var refusals: [String]?
    /// How many rows `refusals` names.
    static let mostRefusals = 10
    /// Tuples that wait for a person.
    package var held = 0
    /// Whole tuples that are no usable evidence.
    package var quarantined = 0
    /// Bytes after the last whole tuple.
    package var quarantinedBytes = 0
    /// Rows changed in the database, refreshed marks included.
    package var rowsChanged = 0
    /// The gate of the guard that holds it or, in a dry run, would.
    package var gate: String?
    /// Why it is held, or would be, in one sentence.
    package var cause: String?
    /// Living rows that would become invalid, where the guard stopped them.
    package var candidates: Int?
    /// When our own certificate ends.
    package var certificateExpires: String?

    /// Opens the entry of a feed.
    package init(_ partition: Partition, source: String, end: FeedEnd) {
        app = partition.app
        environment = partition.environment
        self.source = source
        self.end = end.rawValue
    }

    /// Copies what became of the tuples.
    mutating func enter(_ outcome: OutcomeCounts) {
        applied = outcome.applied
        already = outcome.already
        newer = outcome.newer
        unknown = outcome.unknown
        refused = outcome.refused
    }

    /// Copies the books of the feed.
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
    /// Whether nothing of it is left to do.
    var isApplied: Bool { state == FeedState.applied.rawValue }

    /// What became of its evidence.
    var counts: EvidenceCounts {
        EvidenceCounts(
            tuples: tuples, applied: applied, already: already, newer: newer, unknown: unknown,
            refused: refused, held: held, quarantined: quarantined)
    }

    /// Takes away what was counted before.
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
