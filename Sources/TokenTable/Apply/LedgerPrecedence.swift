// A person who undoes changes says that they were wrong. Evidence that was there before must not make them again:
// neither a batch that waits, nor rows of `pushsweep_evidence` that nobody has taken, nor reports that are judged
// again under another mapping. Evidence that comes later counts, also where APNs names an old time, because a dead
// token is answered with the same time for ever. So what decides is when evidence was heard, and not its time.
//
// The ledger knows when an undo changed something, by the database's clock. Such a token is left as it is.
//
// A log that has grown is imported again, each hour perhaps, with the lines from before an undo. When those were heard
// is not known; but a line that says no later time than a report from before the undo says nothing new.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The undos in the ledger to which evidence gives way.
package struct LedgerPrecedence: Hashable, Sendable {
    /// When the evidence was heard; later undos precede it.
    package let heard: EpochMilliseconds
    /// Whether an undo also precedes evidence that was heard after it and says no more than reports from before.
    package let ofRepeats: Bool

    /// Makes the precedence of undos over evidence.
    package init(heard: EpochMilliseconds, ofRepeats: Bool = false) {
        (self.heard, self.ofRepeats) = (heard, ofRepeats)
    }

    /// Those tokens of evidence of which a later undo changed something.
    func preceded(
        _ evidence: ArraySlice<TokenEvidence>, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Set<DeviceToken> {
        var found: Set<DeviceToken> = []
        let time = connection.dialect.ownTime("changed_at").value(heard)
        for some in Array(evidence).runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some.map { SQLValue.bytes($0.token.bytes) })
            let rows = try connection.query(
                "SELECT DISTINCT token FROM pushsweep_change WHERE token IN "
                    + "(\(placeholders(padded.count))) AND seq >= 0 AND changed_at > ? "
                    + "AND source = '\(LedgerEntry.undoSource)'",
                padded + [time])
            for row in 0..<rows.count {
                if let token = rows.token(row, 0) { found.insert(token) }
            }
            if ofRepeats { try found.formUnion(repeats(some, padded, connection)) }
        }
        return found
    }

    /// Those tokens of evidence about which a report from before an undo says as much.
    private func repeats(
        _ evidence: ArraySlice<TokenEvidence>, _ tokens: [SQLValue], _ connection: any SQLConnection
    ) throws(SQLFailure) -> Set<DeviceToken> {
        let rows = try connection.query(
            "SELECT c.token, MAX(r.evidence_at) FROM pushsweep_change AS c JOIN pushsweep_report AS r "
                + "ON r.token = c.token JOIN pushsweep_feed AS f ON f.feed = r.batch AND f.part = 0 "
                + "WHERE c.token IN (\(placeholders(tokens.count))) AND c.seq >= 0 "
                + "AND c.source = '\(LedgerEntry.undoSource)' AND f.opened_at < c.changed_at "
                + "GROUP BY c.token", tokens)
        let time = connection.dialect.ownTime("evidence_at")
        var known: [DeviceToken: EpochMilliseconds] = [:]
        for row in 0..<rows.count {
            if let token = rows.token(row, 0) { known[token] = time.mark(rows[row, 1]) }
        }
        return Set(
            evidence.filter { item in known[item.token].map { item.time <= $0 } ?? false }
                .map(\.token))
    }
}

extension TokenTable {
    /// Whether the account sees all that tells what an undo precedes.
    ///
    /// - Throws: any failure of a query.
    package func seesUndos() throws(StoreFailure) -> Bool {
        let columns = "run, feed, part, seq, source, changed_at, token"
        guard try session.canRead(PushsweepTable.change.name, columns) else { return false }
        return try Batches(self).visibility() == .readable
    }

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

    /// The precedence of undos over evidence; nil where none is later. While somebody may undo, as beside a run
    /// without the lease that an undo needs, it is kept.
    ///
    /// - Throws: any failure of a query.
    func precedence(
        _ precedence: LedgerPrecedence?, mayGrow: Bool
    ) throws(StoreFailure) -> LedgerPrecedence? {
        guard let precedence, !mayGrow else { return precedence }
        let after = precedence.ofRepeats ? EpochMilliseconds(.min) : precedence.heard
        return try undoTimes().contains { $0 > after } ? precedence : nil
    }
}
