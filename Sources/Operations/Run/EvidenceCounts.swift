import EvidenceJournal

/// A count that reports of earlier versions lack. It is 0 when read from such a report.
@propertyWrapper
package struct LaterCount: Codable, Hashable, Sendable {
    /// The count.
    package var wrappedValue: Int

    /// Starts at a number.
    package init(wrappedValue: Int) { self.wrappedValue = wrappedValue }

    /// Decodes a bare number.
    package init(from decoder: any Decoder) throws {
        wrappedValue = try decoder.singleValueContainer().decode(Int.self)
    }

    /// Encodes a bare number.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(wrappedValue)
    }
}

extension KeyedDecodingContainer {
    /// Decodes the count, or 0 when the report is older than the count.
    func decode(_ type: LaterCount.Type, forKey key: Key) throws -> LaterCount {
        try decodeIfPresent(type, forKey: key) ?? LaterCount(wrappedValue: 0)
    }
}

/// Evidence counted by outcome, for both sources of evidence: part of the reports of sweeps and
/// senders. Fields may be added, never renamed.
package struct EvidenceCounts: Codable, Hashable, Sendable {
    /// Whole tuples, or answers that called a token dead: the sum of the seven below.
    package var tuples = 0
    /// Tuples that made at least one living row invalid.
    package var applied = 0
    /// Tuples whose rows were invalid before.
    package var already = 0
    /// Tuples whose token registered again later.
    package var newer = 0
    /// Tuples whose token is in no row.
    package var unknown = 0
    /// Tuples with a row that could not be judged or refused the change.
    @LaterCount package var refused = 0
    /// Tuples that wait for a person's decision.
    package var held = 0
    /// Tuples that are not usable evidence.
    package var quarantined = 0

    /// Adds other counts.
    mutating func add(_ other: EvidenceCounts) {
        tuples += other.tuples
        applied += other.applied
        already += other.already
        newer += other.newer
        unknown += other.unknown
        refused += other.refused
        held += other.held
        quarantined += other.quarantined
    }
}
