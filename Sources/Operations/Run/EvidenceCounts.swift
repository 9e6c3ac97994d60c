import EvidenceJournal

/// What became of evidence, whichever way it came: part of the reports of sweeps and senders. Fields may
/// be added, never renamed.
package struct EvidenceCounts: Codable, Hashable, Sendable {
    /// Whole tuples, or answers that called a token dead: the sum of the six below.
    package var tuples = 0
    /// Made at least one living row invalid.
    package var applied = 0
    /// Rows invalid before.
    package var already = 0
    /// Registered again later.
    package var newer = 0
    /// No row carries the token.
    package var unknown = 0
    /// Wait for a person.
    package var held = 0
    /// No usable evidence.
    package var quarantined = 0

    /// Adds what became of more.
    mutating func add(_ other: EvidenceCounts) {
        tuples += other.tuples
        applied += other.applied
        already += other.already
        newer += other.newer
        unknown += other.unknown
        held += other.held
        quarantined += other.quarantined
    }
}

extension SweepReport.Feed {
    /// Whether nothing of it is left to do.
    var isApplied: Bool { state == FeedState.applied.rawValue }

    /// What became of its evidence.
    var counts: EvidenceCounts {
        EvidenceCounts(
            tuples: tuples, applied: applied, already: already, newer: newer, unknown: unknown,
            held: held, quarantined: quarantined)
    }

    /// Takes away what was counted before.
    mutating func subtract(_ counts: EvidenceCounts) {
        tuples -= counts.tuples
        applied -= counts.applied
        already -= counts.already
        newer -= counts.newer
        unknown -= counts.unknown
        held -= counts.held
        quarantined -= counts.quarantined
    }
}
