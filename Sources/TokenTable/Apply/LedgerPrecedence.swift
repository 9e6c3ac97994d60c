// A person who undoes changes says that they were wrong. Evidence that was there before must not make them again:
// neither a batch that waits, nor rows of `pushsweep_evidence` that nobody has taken, nor reports that are judged
// again under other terms. Evidence that comes later counts, also where APNs names an old time, because a dead
// token is answered with the same time for ever. So what decides is when evidence was heard, and not its time.
//
// The ledger knows when a change was made, by the database's clock. A token with a later change is left as it is.

import APNsProtocol
import Database
import Findings
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
    /// When each undo has last changed something, by the database's clock, as far as the ledger still has it. An app
    /// may have had another value then, so undos of all partitions count.
    ///
    /// - Throws: any failure of a query.
    package func undoTimes() throws(StoreFailure) -> [EpochMilliseconds] {
        try retries.retrying("looking for undos") { () throws(SQLFailure) in
            // Their checkpoints are whole at once and have no time, which an index finds.
            let undos = try connection.query(
                "SELECT feed, part FROM pushsweep_feed WHERE state = 'applied' AND trimmed = 0 AND "
                    + "changed_at IS NULL AND source = '\(LedgerEntry.undoSource)'")
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

    /// Finds among evidence the tokens of which an undo changed something after a time.
    ///
    /// - Throws: any failure of a query, as the function that it returns.
    package func undoneTokens(
        since time: EpochMilliseconds
    ) throws(StoreFailure) -> ([TokenEvidence]) throws(StoreFailure) -> Set<DeviceToken> {
        let isAny = try undoTimes().contains { $0 > time }
        let precedence = LedgerPrecedence(heard: time)
        return { evidence throws(StoreFailure) in
            guard isAny else { return [] }
            return try self.retries.retrying("looking for undone changes") {
                () throws(SQLFailure) in
                try precedence.preceded(evidence[...], self.connection)
            }
        }
    }

    /// The precedence of changes over evidence; nil where no change is later and none can be made meanwhile,
    /// because an undo needs the `lease` that the caller has.
    ///
    /// - Throws: any failure of a query.
    func precedence(
        _ precedence: LedgerPrecedence?, under lease: Lease? = nil
    ) throws(StoreFailure) -> LedgerPrecedence? {
        guard let precedence, precedence.undosAlone, lease != nil else { return precedence }
        return try undoTimes().contains { $0 > precedence.heard } ? precedence : nil
    }
}
