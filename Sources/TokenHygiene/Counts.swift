// Every tuple read is counted in exactly one place. A mistake on the way,
// such as a lost chunk or a double count over a retry, shows as a difference between the sums. A
// difference ends the run with code 70 before a batch is reported as applied.

/// How often each outcome: of the statements about tokens of one partition, of a batch, of several. Each
/// statement counts once, even if several rows carry its token. A part of every report.
package struct Counts: Hashable, Sendable, Codable {
    /// Whole tuples, or answers that called a token dead; 0 where only outcomes are counted.
    package var tuples = 0
    /// Made at least one living row invalid.
    package var applied = 0
    /// Every row that carries the token was invalid before, or a later statement of the same batch
    /// made it so.
    package var already = 0
    /// The token registered again after the statement.
    package var newer = 0
    /// No row carries the token.
    package var unknown = 0
    /// A row that carries the token could not be judged, or refused the change. Other rows with the
    /// same token may have been changed.
    package var refused = 0
    /// Tuples that wait for a person's decision.
    package var held = 0
    /// Whole tuples that are not usable evidence.
    package var quarantined = 0

    package init(
        applied: Int = 0, already: Int = 0, newer: Int = 0, unknown: Int = 0, refused: Int = 0
    ) {
        (self.applied, self.already, self.newer) = (applied, already, newer)
        (self.unknown, self.refused) = (unknown, refused)
    }

    /// The statements that were judged against the token table.
    package var total: Int { applied + already + newer + unknown + refused }

    /// The tuples that can be judged.
    package var usable: Int { tuples - quarantined }

    /// The same tuples with the outcomes of others.
    package func judged(_ outcomes: Counts) -> Counts {
        var counts = outcomes
        (counts.tuples, counts.held, counts.quarantined) = (tuples, held, quarantined)
        return counts
    }

    /// The sum that does not add up, as a clause; nil when every tuple is accounted for.
    package var imbalance: String? {
        tuples == total + held + quarantined
            ? nil
            : "\(tuples) tuples were read, but \(total) were judged, \(held) held and "
                + "\(quarantined) quarantined"
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

    package static func += (left: inout Counts, right: Counts) { left.add(right, sign: 1) }

    package static func -= (left: inout Counts, right: Counts) { left.add(right, sign: -1) }

    /// Each token adds its counts once, so this is no walk over key paths.
    private mutating func add(_ other: Counts, sign: Int) {
        tuples += sign * other.tuples
        applied += sign * other.applied
        already += sign * other.already
        newer += sign * other.newer
        unknown += sign * other.unknown
        refused += sign * other.refused
        held += sign * other.held
        quarantined += sign * other.quarantined
    }
}
