// Every tuple read is counted in exactly one place, and so is every byte. A mistake on the way,
// such as a lost chunk or a double count over a retry, shows as a difference between the sums. A
// difference ends the run with code 70 before a feed is reported as applied.

/// The outcomes of the statements about tokens of one partition. Each statement counts once, even
/// if several rows carry its token.
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
    package var total: Int { applied + already + newer + unknown + refused }

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

    /// Adds the counts of another part of the same feed.
    package static func += (left: inout OutcomeCounts, right: OutcomeCounts) {
        left.applied += right.applied
        left.already += right.already
        left.newer += right.newer
        left.unknown += right.unknown
        left.refused += right.refused
    }

    /// Subtracts the counts of some of the statements.
    package static func -= (left: inout OutcomeCounts, right: OutcomeCounts) {
        left.applied -= right.applied
        left.already -= right.already
        left.newer -= right.newer
        left.unknown -= right.unknown
        left.refused -= right.refused
    }
}

/// The counts of bytes and tuples of one captured feed.
package struct FeedAccounting: Hashable, Sendable {
    /// Bytes read from the gateway.
    package var bytes = 0
    /// Bytes of whole tuples.
    package var tupleBytes = 0
    /// Bytes after the last whole tuple, kept raw in quarantine.
    package var quarantinedBytes = 0
    /// The number of whole tuples.
    package var tuples = 0
    /// Whole tuples that are not usable evidence.
    package var quarantined = 0
    /// Tuples that wait for a person to release them.
    package var held = 0
    /// Outcomes of the tuples that were judged against the token table.
    package var outcome = OutcomeCounts()

    /// Starts with all counts at 0.
    package init() {}

    /// The sum that does not add up, as a clause; nil when every byte and every tuple is accounted
    /// for.
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
