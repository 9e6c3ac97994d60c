import APNsProtocol
import EvidenceJournal
import TokenHygiene
import TokenTable

/// The result of one batch: an entry of the reports of sweeps and replays. Fields may be added, never
/// renamed.
package struct BatchReport: Codable, Hashable, Sendable {
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// `host:port` of the gateway, or the path of the file.
    package var source: String
    /// How the reading ended, in one word.
    package var end: String
    /// Whether a connection to the gateway was tried; false when our own certificate prevented it.
    package var asked = true
    /// One sentence about the end; absent for a complete list.
    package var detail: String?
    /// The batch's name in the state folder and the database; absent when no batch was opened.
    package var batch: String?
    /// The batch's state: pending, applied, held or discarded.
    package var state: String?
    /// Whether an earlier run read the batch.
    package var resumed = false
    package var bytes = 0
    /// Bytes after the last whole tuple, kept raw in quarantine.
    package var quarantinedBytes = 0
    /// The tuples by outcome, as `Counts` has them: in JSON they stand beside the other fields. In a dry
    /// run, `applied` counts the tuples that would be.
    package var tuples = 0
    package var applied = 0
    package var already = 0
    package var newer = 0
    package var unknown = 0
    package var refused = 0
    package var held = 0
    package var quarantined = 0
    /// True for rows whose grace period has ended, which are removed and not marked; absent for reports.
    package var grace: Bool?
    /// Among `newer`: reports that change nothing because a person said no to them; absent for none.
    package var spared: Int?
    /// The first rows that stayed unchanged against the evidence; absent when there are none.
    package var refusals: [String]?
    /// The most rows that `refusals` names.
    static let mostRefusals = 10
    /// Rows changed in the database, including refreshed marks.
    package var rowsChanged = 0
    /// The guard's gate that holds the batch or, in a dry run, would hold it.
    package var gate: String?
    /// Why the batch is held, or would be, in one sentence.
    package var cause: String?
    /// Whether the batch is held as the first look at a table where nothing was removed in 30 days;
    /// absent otherwise.
    package var firstLook: Bool?
    /// When a released batch was held, RFC 3339 in UTC; absent for other batches.
    package var heldSince: String?
    /// Why a released batch was held, in one sentence; absent for other batches.
    package var heldCause: String?
    /// Living rows that would become invalid; present when the guard stopped them.
    package var candidates: Int?
    /// The end of our own certificate's validity.
    package var certificateExpires: String?

    /// Makes the entry of a batch.
    package init(_ partition: Partition, source: String, end: ListEnd) {
        app = partition.app
        environment = partition.environment
        self.source = source
        self.end = end.rawValue
    }

    /// The app and the environment as the settings name them.
    package var partition: Partition { Partition(app: app, environment: environment) }

    /// The fields of numbers as one value.
    package var counts: Counts {
        get {
            var counts = Counts(
                applied: applied, already: already, newer: newer, unknown: unknown,
                refused: refused)
            (counts.tuples, counts.held, counts.quarantined) = (tuples, held, quarantined)
            return counts
        }
        set {
            (tuples, held, quarantined) = (newValue.tuples, newValue.held, newValue.quarantined)
            (applied, already, newer) = (newValue.applied, newValue.already, newValue.newer)
            (unknown, refused) = (newValue.unknown, newValue.refused)
        }
    }

    /// Whether the batch is completely applied.
    var isApplied: Bool { state == ListState.applied.rawValue }
}
