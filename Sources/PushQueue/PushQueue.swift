import APNsProtocol
import Database
import TokenHygiene
import TokenTable

// Several senders on several hosts share one queue. Each row is sent by one of them, and no row is lost
// when a sender is killed:
//
//   pending --claim--> claimed --hand over--> (may be on the wire) --results--> sent, gone, failed,
//      ^                  |                           |                         skipped, unknown, retry
//      |                  | lease ended               | lease ended
//      +------------------+                           +--> unknown, or retry under the same apns-id
//
// A claim is one row of `pushsweep_claim`: run, lease, the keys of its rows without a result, and
// whether its batch was handed to the wire. The queue's own rows do not change with a claim; each is
// written once, with its result. So claiming, renewing, handing over or taking away a batch of a thousand
// rows writes one row. Every transaction that writes results first locks the claim's row and checks that
// the claim still belongs to this run (the fence). It then removes the keys from the claim and counts
// itself there, so that a commit whose answer was lost is neither repeated nor given up.
//
// Claims must not overlap, so they are made one after the other. Each claim replaces the number of the
// last claim in the queue's row of `pushsweep_queue`, then reads the claimed keys, then reads the waiting
// rows, in this order. If a result is committed between the two reads, its row appears as claimed and is
// left for the next claim. In the other order the row could appear as waiting and be sent twice.
//
// Tokens are looked up after the claim is committed and before any row is handed over. So no other sender
// waits for the lookup, and rows with tokens that are stale at that time are not sent.
//
// A claim that was never handed over returns to the queue when its lease ends. In a claim that was handed
// over, every row without a result has an unknown outcome.

/// One sender's access to the queue: one connection, used by one thread.
package final class PushQueue {
    let store: TokenTable
    let layout: QueueLayout
    let lease: QueueLease
    let statements: QueueStatements
    /// The random part of the queue's `apns-id`s.
    private var space: Int64?
    /// Claims whose last results are certainly committed and whose rows are no longer needed.
    var finishedClaims: [Int64] = []

    var connection: any SQLConnection { store.connection }
    var dialect: SQLDialect { connection.dialect }
    var name: String { layout.name }

    /// Opens the queue of a store for one run. Throws `configuration` if the table does not fit the
    /// settings.
    package init(_ store: TokenTable, _ lease: QueueLease) throws(StoreFailure) {
        self.store = store
        self.lease = lease
        layout = try store.queueLayout()
        statements = QueueStatements(layout: layout, connection: store.connection)
    }

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
        let start = cursor.position
        var claimed = try claimRows(reader, limit: max(limit, 1), after: start, &cursor)
        // After the mark no row waits; before it a row may have become due.
        if claimed == nil && start > .min {
            claimed = try claimRows(reader, limit: max(limit, 1), after: .min, &cursor)
        }
        guard let claimed else { return nil }
        return try checkingTokens(of: claimed, in: partition)
    }

    /// The rows of a committed claim, whose tokens are not yet looked up.
    private struct ClaimedRows {
        let id: Int64
        let rows: [DueRow]
    }

    private func claimRows(
        _ reader: DueRowReader, limit: Int, after start: Int64, _ cursor: inout QueueCursor
    ) throws(StoreFailure) -> ClaimedRows? {
        let space = try apnsSpace()
        let id = Int64.random(in: 1...Int64.max)
        var position = start
        var planned: [DueRow]?
        let rows = try store.retries.retrying("claiming rows of \(name)") {
            () throws(SQLFailure) -> [DueRow] in
            if let planned, try isCommitted(id) { return planned }
            try connection.begin()
            guard let now = try lockQueue(for: id) else {
                // The earlier try was committed after all.
                connection.rollBack()
                return planned ?? []
            }
            planned = nil
            position = start
            let claimed = try ClaimRecord.claimedKeys(of: name, connection)
            var batch = DueRowReader.Batch()
            while batch.rows.isEmpty && !batch.isAtEnd {
                batch = try reader.read(
                    after: position, limit: limit, except: claimed, now: now, space: space)
                position = batch.last ?? position
            }
            if batch.isAtEnd { position = .min }
            guard !batch.rows.isEmpty else {
                connection.rollBack()
                return []
            }
            try insertClaim(id, KeySet(sorted: batch.rows.lazy.map(\.key)), now)
            planned = batch.rows
            try connection.commit()
            return batch.rows
        }
        cursor.position = position
        return rows.isEmpty ? nil : ClaimedRows(id: id, rows: rows)
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

    private func insertClaim(
        _ id: Int64, _ keys: KeySet, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        let expiry = dialect.ownTime("expires_at").value(now.adding(seconds: lease.seconds))
        do throws(SQLFailure) {
            _ = try connection.execute(
                "INSERT INTO pushsweep_claim (id, queue, run, host, state, expires_at, row_keys) "
                    + "VALUES (?, ?, ?, ?, 'held', ?, ?)",
                [
                    .integer(id), .text(name), .text(lease.run),
                    .text(String(lease.host.prefix(255))), expiry, .bytes(keys.encoded),
                ])
        } catch {
            guard error.isDuplicate else { throw error }
            throw SQLFailure(kind: .conflict, code: error.code, message: "the claim exists")
        }
    }

    /// The random part of the queue's `apns-id`s. The first sender of the queue creates it.
    private func apnsSpace() throws(StoreFailure) -> Int64 {
        if let space { return space }
        let known = try store.retries.retrying("naming the notifications of \(name)") {
            () throws(SQLFailure) -> Int64 in
            func read() throws(SQLFailure) -> Int64? {
                try connection.query(
                    "SELECT apns_space FROM pushsweep_queue WHERE name = ?", [.text(name)]
                ).scalar?.integer
            }
            if let known = try read() { return known }
            do throws(SQLFailure) {
                _ = try connection.execute(
                    "INSERT INTO pushsweep_queue (name, apns_space) VALUES (?, ?)",
                    [.text(name), .integer(Int64.random(in: 0..<1 << 60))])
            } catch {
                guard error.isDuplicate else { throw error }
            }
            guard let known = try read() else {
                throw SQLFailure(
                    kind: .other, code: 0, message: "a row of pushsweep_queue was not kept")
            }
            return known
        }
        space = known
        return known
    }

    /// Looks up the tokens of a claim and skips the rows that must not be sent.
    private func checkingTokens(
        of claimed: ClaimedRows, in partition: Partition
    ) throws(StoreFailure) -> QueueClaim {
        let checked = try store.checkedTokens(of: claimed.rows, in: partition)
        var claim = QueueClaim(
            id: claimed.id, partition: partition, notifications: checked.notifications,
            outstanding: KeySet(sorted: claimed.rows.lazy.map(\.key)), lease: lease)
        guard !checked.skipped.isEmpty else { return claim }
        let outcome = try record(
            checked.skipped.map { DeliveryResult(key: $0.key, .skipped($0.reason)) }, of: &claim)
        guard case .recorded = outcome else {
            throw StoreFailure(
                .busy,
                "claiming rows of \(name): the lease of \(lease.seconds) s ended before their "
                    + "tokens were looked up; run again, nothing is lost")
        }
        for row in checked.skipped { claim.skipped[row.reason, default: 0] += 1 }
        return claim
    }
}

extension TokenTable {
    /// The queue's settings, resolved against the database.
    func queueLayout() throws(StoreFailure) -> QueueLayout {
        try QueueResolver(
            mapping: settings.queue, environmentValues: settings.mapping.environmentValues,
            table: queueTable(), dialect: connection.dialect
        ).layout()
    }

    /// The queue's table as the database describes it.
    func queueTable() throws(StoreFailure) -> CatalogTable {
        let setting = "store.push-queue.table"
        return try session.catalogTable(
            TableName(settings.queue.table, setting: setting), setting: setting,
            cure: "run `pushsweep schema apply`, which makes it where an app has a provider or the "
                + "settings name this table")
    }

    /// The tokens of a partition that must not be sent to, with the reasons.
    func skipReasons(
        of tokens: [DeviceToken], in partition: Partition
    ) throws(StoreFailure) -> [DeviceToken: SkipReason] {
        let lookup = try tokenStatuses(in: partition)
        return try retries.retrying("looking up tokens in \(settings.mapping.table)") {
            () throws(SQLFailure) in
            try lookup.statuses(of: tokens).compactMapValues { status in
                switch status {
                case .living: nil
                case .stale: .stale
                case .unknown: .unknown
                }
            }
        }
    }

    /// The rows, divided into those that may be sent and those that must not.
    func checkedTokens(
        of rows: [DueRow], in partition: Partition
    ) throws(StoreFailure) -> (
        notifications: [QueuedNotification], skipped: [(key: Int64, reason: SkipReason)]
    ) {
        let tokens = rows.compactMap { $0.notification?.token }
        let reasons = try skipReasons(of: tokens, in: partition)
        var notifications: [QueuedNotification] = []
        notifications.reserveCapacity(rows.count)
        var skipped: [(key: Int64, reason: SkipReason)] = []
        for row in rows {
            guard let notification = row.notification else {
                skipped.append((row.key, .malformed))
                continue
            }
            if let reason = reasons[notification.token] {
                skipped.append((row.key, reason))
            } else {
                notifications.append(notification)
            }
        }
        return (notifications, skipped)
    }
}
