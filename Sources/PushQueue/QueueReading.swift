import Database
import TokenHygiene
import TokenTable

/// What a run would do with the rows that are due now, found out without claiming any.
package struct QueuePreview: Hashable, Sendable {
    /// Rows that would be sent.
    package internal(set) var sendable = 0
    /// Rows that would be skipped, by reason.
    package internal(set) var skipped: [SkipReason: Int] = [:]
    /// Whether every row that is due was looked at.
    package internal(set) var isComplete = false

    /// Rows looked at.
    package var rows: Int { sendable + skipped.values.reduce(0, +) }
}

extension TokenTable {
    /// Rows read at once.
    private static let previewBatch = 2_000

    /// Looks at the first at most `limit` rows of a partition that are due, as a claim would. Reads
    /// only, and needs no right but SELECT.
    package func previewClaims(
        _ partition: Partition, limit: Int = .max, shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) -> QueuePreview {
        let layout = try queueLayout()
        var scan = try QueueScan(layout, connection.dialect, partition)
        if !layout.delivery.isInRow { scan.readsDelivery = try canReadDelivery() }
        let seesClaims = try canReadClaims()
        var preview = QueuePreview()
        var position = Int64.min
        while preview.rows < limit && !preview.isComplete && !shouldStop() {
            let size = min(limit - preview.rows, Self.previewBatch)
            let batch = try attempts.retrying("reading rows of \(layout.table)") {
                () throws(SQLFailure) in
                let now = try connection.dialect.instant(
                    connection.query("SELECT \(connection.dialect.now)")[0, 0])
                let claimed = seesClaims ? try claimedKeys(layout) : KeySet()
                return try scan.read(
                    after: position, limit: size, except: claimed, now: now, space: 0, connection)
            }
            position = batch.last ?? position
            preview.isComplete = batch.isAtEnd
            let judged = try judged(batch.rows, partition)
            preview.sendable += judged.notifications.count
            for row in judged.skipped { preview.skipped[row.reason, default: 0] += 1 }
        }
        return preview
    }

    /// Whether `pushsweep_delivery` is there and may be read.
    func canReadDelivery() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_delivery", "queue_key, state, answered_at")
    }

    /// Whether `pushsweep_claim` is there and may be read.
    private func canReadClaims() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_claim", "queue, state, row_keys")
    }

    private func claimedKeys(_ layout: QueueLayout) throws(SQLFailure) -> KeySet {
        try ClaimRecord.claimedKeys(of: layout.name, connection)
    }

    /// How many rows of the queue are in each state, of all apps. Reads the whole queue, which takes
    /// seconds where it keeps millions of rows.
    package func queueCounts() throws(StoreFailure) -> [DeliveryState: Int] {
        let layout = try queueLayout()
        var counts = try writtenCounts(layout)
        guard try canReadClaims() else { return counts }
        // What a claim holds still stands in its row as what it was before.
        let statements = QueueStatements(layout: layout, dialect: connection.dialect)
        let held = try attempts.retrying("counting the rows that are claimed") {
            () throws(SQLFailure) -> [DeliveryState: Int] in
            let keys = try claimedKeys(layout)
            var held: [DeliveryState: Int] = [:]
            for (word, count) in try statements.states(of: keys, connection) {
                if let state = DeliveryState(rawValue: word) { held[state] = count }
            }
            // The side table does not know rows that never had a result.
            if !layout.delivery.isInRow {
                held[.pending, default: 0] += keys.count - held.values.reduce(0, +)
            }
            return held
        }
        for (state, count) in held where !state.isFinal {
            let moved = min(count, counts[state] ?? 0)
            guard moved > 0 else { continue }
            counts[.claimed, default: 0] += moved
            counts[state, default: 0] -= moved
        }
        return counts.filter { $0.value > 0 }
    }

    /// The states as they stand in the rows.
    private func writtenCounts(
        _ layout: QueueLayout
    ) throws(StoreFailure) -> [DeliveryState: Int] {
        let dialect = connection.dialect
        let delivery = layout.delivery
        if delivery.isInRow {
            let state = dialect.quoted(delivery.state)
            return try states(
                "SELECT \(state), COUNT(*) FROM \(layout.table.sql(dialect)) GROUP BY \(state)", [])
        }
        let readsDelivery = try canReadDelivery()
        let sent = layout.sentAt.map { "q.\(dialect.quoted($0.name)) IS NOT NULL" } ?? "1 = 0"
        let known = readsDelivery ? "d.state" : "NULL"
        let join =
            readsDelivery
            ? " LEFT JOIN pushsweep_delivery AS d ON d.queue = ? "
                + "AND d.queue_key = q.\(dialect.quoted(layout.key))" : ""
        // Rows that another program sent have no state beside them.
        return try states(
            "SELECT CASE WHEN \(sent) THEN 'sent' ELSE COALESCE(\(known), 'pending') END AS what, "
                + "COUNT(*) FROM \(layout.table.sql(dialect)) AS q\(join) GROUP BY what",
            readsDelivery ? [.text(layout.name)] : [])
    }

    private func states(
        _ sql: String, _ values: [SQLValue]
    ) throws(StoreFailure) -> [DeliveryState: Int] {
        let rows = try attempts.retrying("counting the queue's rows") { () throws(SQLFailure) in
            try connection.query(sql, values)
        }
        var counts: [DeliveryState: Int] = [:]
        for row in 0..<rows.count {
            guard let state = DeliveryState(rawValue: rows[row, 0].text ?? "") else { continue }
            counts[state, default: 0] += rows[row, 1].count ?? 0
        }
        return counts
    }
}
