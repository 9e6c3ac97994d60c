// Every tuple read is counted in exactly one place, and so is every byte. A mistake on the way,
// such as a lost chunk or a double count over a retry, shows as a difference between the sums. A
// difference ends the run with code 70 before a feed is reported as applied.

/// The outcomes of the statements about tokens of one partition. Each statement counts once, even
/// if several rows carry its token.
package struct OutcomeCounts: Hashable, Sendable, Codable, AddedCounts {
    /// Made at least one living row invalid.
    package var applied = 0
    /// Every row that carries the token was invalid before, or a later statement of the same feed
    /// made it so.
    package var already = 0
    /// The token registered again after the statement.
    package var newer = 0
    /// No row carries the token.
    package var unknown = 0
    /// A row that carries the token could not be judged, or refused the change. Other rows with the
    /// same token may have been changed.
    package var refused = 0

    /// Starts with the given counts, each 0 by default.
    package init(
        applied: Int = 0, already: Int = 0, newer: Int = 0, unknown: Int = 0, refused: Int = 0
    ) {
        self.applied = applied
        self.already = already
        self.newer = newer
        self.unknown = unknown
        self.refused = refused
    }

    /// The sum of the five counts.
    package var total: Int { Self.counts.reduce(0) { $0 + self[keyPath: $1] } }

    package static var counts: [WritableKeyPath<OutcomeCounts, Int>] {
        [\.applied, \.already, \.newer, \.unknown, \.refused]
    }

    /// Counts one token with all its statements by the verdicts on the rows that carry it. There
    /// are no verdicts for an unknown token. Only the latest statement can have changed a row; the
    /// earlier ones count as already invalid.
    package mutating func count(_ evidence: TokenEvidence, verdicts: some Sequence<Verdict>) {
        var invalidated = false
        var stale = false
        var fresh = false
        for verdict in verdicts {
            switch verdict {
            case .mark, .delete: invalidated = true
            case .advance, .already: stale = true
            case .newer: fresh = true
            }
        }
        if invalidated {
            applied += 1
            already += evidence.statements - 1
        } else if stale {
            already += evidence.statements
        } else if fresh {
            newer += evidence.statements
        } else {
            unknown += evidence.statements
        }
    }
}

/// Numbers that are added one by one.
package protocol AddedCounts {
    static var counts: [WritableKeyPath<Self, Int>] { get }
}

extension AddedCounts {
    /// Adds the counts of another part.
    package static func += (left: inout Self, right: Self) {
        for count in counts { left[keyPath: count] += right[keyPath: count] }
    }

    /// Subtracts the counts of a part.
    package static func -= (left: inout Self, right: Self) {
        for count in counts { left[keyPath: count] -= right[keyPath: count] }
    }
}

/// All evidence of a feed or of several, by outcome: a part of every report. In JSON the outcomes
/// stand beside the other counts, in one object.
@dynamicMemberLookup
package struct EvidenceCounts: Codable, Hashable, Sendable, AddedCounts {
    /// Whole tuples, or answers that called a token dead.
    package var tuples = 0
    /// Tuples that were judged against the token table, by outcome.
    package var outcome = OutcomeCounts()
    /// Tuples that wait for a person's decision.
    package var held = 0
    /// Whole tuples that are not usable evidence.
    package var quarantined = 0

    private enum CodingKeys: String, CodingKey { case tuples, held, quarantined }

    package init() {}

    /// Reads the counts from one JSON object.
    package init(from decoder: any Decoder) throws {
        let object = try decoder.container(keyedBy: CodingKeys.self)
        tuples = try object.decode(Int.self, forKey: .tuples)
        held = try object.decode(Int.self, forKey: .held)
        quarantined = try object.decode(Int.self, forKey: .quarantined)
        outcome = try OutcomeCounts(from: decoder)
    }

    /// Writes the counts into one JSON object.
    package func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: CodingKeys.self)
        try object.encode(tuples, forKey: .tuples)
        try object.encode(held, forKey: .held)
        try object.encode(quarantined, forKey: .quarantined)
        try outcome.encode(to: encoder)
    }

    /// One of the outcomes.
    package subscript(dynamicMember count: WritableKeyPath<OutcomeCounts, Int>) -> Int {
        get { outcome[keyPath: count] }
        set { outcome[keyPath: count] = newValue }
    }

    package static var counts: [WritableKeyPath<EvidenceCounts, Int>] {
        let outcome: WritableKeyPath<EvidenceCounts, OutcomeCounts> = \.outcome
        return [\.tuples, \.held, \.quarantined]
            + OutcomeCounts.counts.map { outcome.appending(path: $0) }
    }
}

/// The bytes and the evidence of one captured feed.
@dynamicMemberLookup
package struct FeedAccounting: Hashable, Sendable {
    /// Bytes read from the gateway.
    package var bytes = 0
    /// Bytes of whole tuples.
    package var tupleBytes = 0
    /// Bytes after the last whole tuple, kept raw in quarantine.
    package var quarantinedBytes = 0
    /// The feed's tuples.
    package var counts = EvidenceCounts()

    package init() {}

    /// One of the counts of tuples.
    package subscript<Count>(dynamicMember count: WritableKeyPath<EvidenceCounts, Count>) -> Count {
        get { counts[keyPath: count] }
        set { counts[keyPath: count] = newValue }
    }

    /// The sum that does not add up, as a clause; nil when every byte and every tuple is accounted
    /// for.
    package var imbalance: String? {
        if bytes != tupleBytes + quarantinedBytes {
            return "\(bytes) bytes were read, but \(tupleBytes) lie in whole tuples and "
                + "\(quarantinedBytes) in quarantine"
        }
        if counts.tuples != counts.outcome.total + counts.held + counts.quarantined {
            return "\(counts.tuples) tuples were read, but \(counts.outcome.total) were judged, "
                + "\(counts.held) held and \(counts.quarantined) quarantined"
        }
        return nil
    }
}
