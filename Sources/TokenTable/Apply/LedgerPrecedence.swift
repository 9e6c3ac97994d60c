// A person who undoes changes says that they were wrong. Evidence that was there before must not make them again:
// neither a batch that waits, nor rows of `pushsweep_evidence` that nobody has taken, nor reports that are judged
// again under other terms. Evidence that comes later counts, also where APNs names an old time, because a dead
// token is answered with the same time for ever. So what decides is when evidence was heard, and not its time.
//
// The ledger knows when a change was made, by the database's clock. A token with a later change is left as it is.

import APNsProtocol
import Database
import TokenHygiene

/// The changes of the ledger to which evidence gives way.
package struct LedgerPrecedence: Hashable, Sendable {
    /// When the evidence was heard; later changes precede it.
    package let heard: EpochMilliseconds
    /// Whether undos alone precede it, or every change.
    package let undosAlone: Bool

    /// Makes the precedence of undos, or of all changes, over evidence.
    package init(heard: EpochMilliseconds, undosAlone: Bool = true) {
        (self.heard, self.undosAlone) = (heard, undosAlone)
    }

    /// Those tokens of evidence that have a later change.
    func preceded(
        _ evidence: ArraySlice<TokenEvidence>, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Set<DeviceToken> {
        var found: Set<DeviceToken> = []
        let time = connection.dialect.ownTime("changed_at").value(heard)
        let only = undosAlone ? " AND source = '\(LedgerEntry.undoSource)'" : ""
        for some in Array(evidence).runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some.map { SQLValue.bytes($0.token.bytes) })
            let rows = try connection.query(
                "SELECT DISTINCT token FROM pushsweep_change WHERE token IN "
                    + "(\(placeholders(padded.count))) AND seq >= 0 AND changed_at > ?\(only)",
                padded + [time])
            for row in 0..<rows.count {
                if let token = rows.token(row, 0) { found.insert(token) }
            }
        }
        return found
    }
}

extension TokenTable {
    /// When each undo of a partition has last changed something, by the database's clock, as far as the ledger
    /// still has it; the partition as the table's rows name it.
    ///
    /// - Throws: any failure of a query.
    package func undoTimes(in partition: Partition) throws(StoreFailure) -> [EpochMilliseconds] {
        try retries.retrying("looking for undos") { () throws(SQLFailure) in
            // Their checkpoints have no time, which the index finds.
            let undos = try connection.query(
                "SELECT feed, part FROM pushsweep_feed WHERE app = ? AND environment = ? AND "
                    + "changed_at IS NULL AND source = '\(LedgerEntry.undoSource)'",
                [.text(partition.app), .text(partition.environment)])
            let time = connection.dialect.ownTime("changed_at")
            var times: [EpochMilliseconds] = []
            for undo in 0..<undos.count {
                let last = try connection.query(
                    "SELECT changed_at FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? "
                        + "ORDER BY seq DESC LIMIT 1",
                    [undos[undo, 0], undos[undo, 0], undos[undo, 1]])
                if let value = last.scalar, let at = time.mark(value) { times.append(at) }
            }
            return times
        }
    }

    /// The precedence of changes over evidence of a partition; nil where no change is later and none can be
    /// made meanwhile, because an undo needs the `lease` that the caller has.
    ///
    /// - Throws: any failure of a query.
    func precedence(
        _ precedence: LedgerPrecedence?, in partition: Partition, under lease: Lease? = nil
    ) throws(StoreFailure) -> LedgerPrecedence? {
        guard let precedence, precedence.undosAlone, lease != nil else { return precedence }
        return try undoTimes(in: partition).contains { $0 > precedence.heard } ? precedence : nil
    }
}
