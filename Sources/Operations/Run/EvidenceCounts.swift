import EvidenceJournal

/// A count that reports of earlier versions lack; read as 0 there.
@propertyWrapper
package struct LaterCount: Codable, Hashable, Sendable {
    /// The count.
    package var wrappedValue: Int

    /// Starts at a number.
    package init(wrappedValue: Int) { self.wrappedValue = wrappedValue }

    /// Reads a bare number.
    package init(from decoder: any Decoder) throws {
        wrappedValue = try decoder.singleValueContainer().decode(Int.self)
    }

    /// Writes a bare number.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(wrappedValue)
    }
}

extension KeyedDecodingContainer {
    /// Reads the count of a report, 0 where the report is from before it.
    func decode(_ type: LaterCount.Type, forKey key: Key) throws -> LaterCount {
        try decodeIfPresent(type, forKey: key) ?? LaterCount(wrappedValue: 0)
    }
}

/// What became of evidence, whichever way it came: part of the reports of sweeps and senders. Fields may
/// be added, never renamed.
package struct EvidenceCounts: Codable, Hashable, Sendable {
    /// Whole tuples, or answers that called a token dead: the sum of the seven below.
    package var tuples = 0
    /// Made at least one living row invalid.
    package var applied = 0
    /// Rows invalid before.
    package var already = 0
    /// Registered again later.
    package var newer = 0
    /// No row carries the token.
    package var unknown = 0
    /// A row could not be judged, or refused the change.
    @LaterCount package var refused = 0
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
        refused += other.refused
        held += other.held
        quarantined += other.quarantined
    }
}
