// Every tuple read ends in exactly one place, and so does every byte. The books are kept so that a
// mistake anywhere on the way (a lost chunk, a double count over a retry) shows as a difference,
// which ends the run with code 70 before anything is called applied.

/// What became of the statements about tokens of one partition. Each statement counts once, however
/// many rows carry its token.
package struct OutcomeCounts: Hashable, Sendable, Codable {
    /// Made at least one living row invalid.
    package var applied = 0
    /// Every row that carries the token was invalid before, or a later statement of the same feed
    /// made it so.
    package var already = 0
    /// The token registered again after the statement.
    package var newer = 0
    /// No row carries the token.
    package var unknown = 0
    /// A row that carries the token could not be judged, or refused the change; others with the same
    /// token may have been changed.
    package var refused = 0

    /// Starts at nothing, or at given counts.
    package init(
        applied: Int = 0, already: Int = 0, newer: Int = 0, unknown: Int = 0, refused: Int = 0
    ) {
        self.applied = applied
        self.already = already
        self.newer = newer
        self.unknown = unknown
        self.refused = refused
    }

    /// All statements counted.
    package var total: Int { applied + already + newer + unknown + refused }

    /// Counts one token with all its statements by the verdicts on the rows that carry it: none for
    /// an unknown token. Only the latest statement can have changed a row; the earlier ones found
    /// it invalid already.
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

    /// Adds the counts of another part of the same feed.
    package static func += (left: inout OutcomeCounts, right: OutcomeCounts) {
        left.applied += right.applied
        left.already += right.already
        left.newer += right.newer
        left.unknown += right.unknown
        left.refused += right.refused
    }

    /// Takes away what was counted of some statements.
    package static func -= (left: inout OutcomeCounts, right: OutcomeCounts) {
        left.applied -= right.applied
        left.already -= right.already
        left.newer -= right.newer
        left.unknown -= right.unknown
        left.refused -= right.refused
    }
}

/// The books of one captured feed.
package struct FeedAccounting: Hashable, Sendable {
    /// Bytes read from the gateway.
    package var bytes = 0
    /// Bytes of whole tuples.
    package var tupleBytes = 0
    /// Bytes after the last whole tuple, kept raw.
    package var quarantinedBytes = 0
    /// Whole tuples.
    package var tuples = 0
    /// Whole tuples that are no usable evidence.
    package var quarantined = 0
    /// Tuples whose application waits for a person.
    package var held = 0
    /// Tuples judged against the token table.
    package var outcome = OutcomeCounts()

    /// Starts empty.
    package init() {}

    /// Says which sum does not add up, or nil when every byte and every tuple has its place.
    package var imbalance: String? {
        if bytes != tupleBytes + quarantinedBytes {
            return "\(bytes) bytes were read, but \(tupleBytes) lie in whole tuples and "
                + "\(quarantinedBytes) in quarantine"
        }
        if tuples != outcome.total + held + quarantined {
            return "\(tuples) tuples were read, but \(outcome.total) were judged, \(held) held and "
                + "\(quarantined) quarantined"
        }
        return nil
    }
}
