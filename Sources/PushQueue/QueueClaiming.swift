// The transaction of a claim. A notification must not go to a token that was removed, and a row that is
// skipped is never sent. So everything that decides is read in the transaction of the claim itself, from
// its first statement: the time, the claims of others, the rows that are due, and what the token table
// says of each token. The results of skipped rows are committed with the claim.
//
// Behind a proxy that splits reads from writes this matters. Such a proxy may answer a SELECT outside a
// transaction from a replica that lags by seconds, where a new token is unknown and a removed one lives.
// It sends a transaction to the primary as a whole.
//
// The reads of the token table lock nothing. A lock on a token's row would make its registration wait, and
// would not help: a row that is marked after the look is a row that is marked after the claim.

import APNsProtocol
import Database
import TokenHygiene
import TokenTable

extension PushQueue {
    /// Claims the next rows of a partition that wait and are due, at most `limit`, and skips those
    /// whose token must not be sent to. Nil: no row is due. A claim without notifications had rows
    /// to skip only.
    ///
    /// - Throws: `busy`, `unreachable` and similar failures after the usual tries. Rows of a
    ///   committed claim return to the queue when its lease ends.
    package func claim(
        _ partition: Partition, limit: Int, from cursor: inout QueueCursor
    ) throws(StoreFailure) -> QueueClaim? {
        let reader = try DueRowReader(layout, connection, partition)
        let lookup = try lookup(of: partition)
        let start = cursor.position
        var claimed = try claimRows(reader, lookup, limit: max(limit, 1), after: start, &cursor)
        // After the mark no row waits; before it a row may have become due.
        if claimed == nil && start > .min {
            claimed = try claimRows(reader, lookup, limit: max(limit, 1), after: .min, &cursor)
        }
        guard let claimed else { return nil }
        var claim = QueueClaim(
            id: claimed.id, partition: partition, notifications: claimed.rows.notifications,
            outstanding: claimed.outstanding, lease: lease)
        claim.finished = claimed.finished
        for row in claimed.rows.skipped { claim.skipped[row.reason, default: 0] += 1 }
        finishedClaims = claimed.outstanding.isEmpty ? [claim.id] : []
        return claim
    }

    private func lookup(of partition: Partition) throws(StoreFailure) -> TokenStatusLookup {
        if let known = lookups[partition] { return known }
        let lookup = try store.lastingTokenStatuses(in: partition)
        lookups[partition] = lookup
        return lookup
    }

    /// The rows of a claim.
    private struct ClaimedRows {
        let id: Int64
        let rows: VettedRows
        /// Keys of the rows that may be sent.
        let outstanding: KeySet
        /// Keys of the rows that were skipped.
        let finished: KeySet

        init(id: Int64, _ rows: VettedRows) {
            self.id = id
            self.rows = rows
            outstanding = KeySet(sorted: rows.notifications.lazy.map(\.key))
            finished = KeySet(sorted: rows.skipped.lazy.map(\.key))
        }
    }

    private func claimRows(
        _ reader: DueRowReader, _ lookup: TokenStatusLookup, limit: Int, after start: Int64,
        _ cursor: inout QueueCursor
    ) throws(StoreFailure) -> ClaimedRows? {
        let space = try apnsSpace()
        let id = Int64.random(in: 1...Int64.max)
        var position = start
        var planned: ClaimedRows?
        let claimed = try store.retries.retrying("claiming rows of \(name)") {
            () throws(SQLFailure) -> ClaimedRows? in
            try connection.begin()
            if let planned, try isCommitted(id) {
                connection.rollBack()
                return planned
            }
            guard let now = try lockQueue(for: id) else {
                // The earlier try was committed after all.
                connection.rollBack()
                return planned
            }
            planned = nil
            position = start
            let others = try ClaimRecord.claimedKeys(of: name, connection)
            var batch = DueRowReader.Batch()
            while batch.rows.isEmpty && !batch.isAtEnd {
                batch = try reader.read(
                    after: position, limit: limit, except: others, now: now, space: space)
                position = batch.last ?? position
            }
            if batch.isAtEnd { position = .min }
            guard !batch.rows.isEmpty else {
                connection.rollBack()
                return nil
            }
            let claimed = ClaimedRows(id: id, try vet(batch.rows, lookup))
            try insert(claimed, now)
            planned = claimed
            try connection.commit()
            return claimed
        }
        cursor.position = position
        return claimed
    }

    private func vet(
        _ rows: [DueRow], _ lookup: TokenStatusLookup
    ) throws(SQLFailure) -> VettedRows {
        VettedRows(
            rows, try lookup.skipReasons(of: rows.compactMap { $0.notification?.token }))
    }

    /// Whether a claim was committed, where the answer to its commit was lost.
    private func isCommitted(_ id: Int64) throws(SQLFailure) -> Bool {
        try connection.query("SELECT 1 FROM pushsweep_claim WHERE id = ?", [.integer(id)]).count > 0
    }

    /// Makes other senders wait until this claim is committed. Returns the time, or nil if the
    /// claim exists already. Where an engine ignores the lock of the SELECT, the UPDATE detects the
    /// changed number.
    private func lockQueue(for id: Int64) throws(SQLFailure) -> EpochMilliseconds? {
        let rows = try connection.query(
            "SELECT \(dialect.now), last_claim FROM pushsweep_queue WHERE name = ?"
                + dialect.rowLock, [.text(name)])
        guard rows.count > 0 else {
            throw SQLFailure(
                kind: .other, code: 0,
                message: "the queue's row in pushsweep_queue was deleted; run again")
        }
        if rows[0, 1].integer == id { return nil }
        let now = try dialect.instant(rows[0, 0])
        let isLocked = try connection.changesRow(
            "UPDATE pushsweep_queue SET last_claim = ? WHERE name = ? AND last_claim = ?",
            [.integer(id), .text(name), rows[0, 1]]
        ) { () throws(SQLFailure) in
            try connection.query(
                "SELECT last_claim FROM pushsweep_queue WHERE name = ?", [.text(name)]
            ).scalar?.integer == id
        }
        guard isLocked else {
            throw SQLFailure(kind: .conflict, code: 0, message: "another sender is claiming rows")
        }
        return now
    }

    /// Writes the claim, and the results of its rows that are skipped.
    private func insert(
        _ claimed: ClaimedRows, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        let expiry = dialect.ownTime("expires_at").value(now.adding(seconds: lease.seconds))
        let state = claimed.outstanding.isEmpty ? ClaimRecord.State.done : .held
        do throws(SQLFailure) {
            _ = try connection.execute(
                "INSERT INTO pushsweep_claim (id, queue, run, host, state, expires_at, row_keys) "
                    + "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    .integer(claimed.id), .text(name), .text(lease.run),
                    .text(String(lease.host.prefix(255))), .text(state.rawValue), expiry,
                    .bytes(claimed.outstanding.encoded),
                ])
        } catch {
            guard error.isDuplicate else { throw error }
            throw SQLFailure(kind: .conflict, code: error.code, message: "the claim exists")
        }
        let results = claimed.rows.skipped.map { DeliveryResult(key: $0.key, .skipped($0.reason)) }
        let groups = ResultGroups(results, of: claimed.finished)
        _ = try write(groups, of: claimed.finished, KeySet(), now: now)
        try removeFinishedClaims()
    }
}
