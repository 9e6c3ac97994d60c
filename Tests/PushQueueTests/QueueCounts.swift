import APNsProtocol
import Database
import TokenTable

@testable import PushQueue

extension TokenTable {
    /// How many rows of the queue are in each state, of all apps. Reads the whole queue, which
    /// takes seconds where it keeps millions of rows.
    func queueCounts() throws(StoreFailure) -> [DeliveryState: Int] {
        let layout = try queueLayout()
        var counts = try writtenCounts(layout)
        guard try session.canRead("pushsweep_claim", "queue, state, row_keys") else {
            return counts
        }
        // What a claim holds still stands in its row as what it was before.
        let statements = QueueStatements(layout: layout, connection: connection)
        let held = try retries.retrying("counting the rows that are claimed") {
            () throws(SQLFailure) -> [DeliveryState: Int] in
            let keys = try ClaimRecord.claimedKeys(of: layout.name, connection)
            var held: [DeliveryState: Int] = [:]
            for (word, count) in try statements.states(of: keys) {
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

    /// The states in the rows.
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
        // Rows that another program sent have no row in the side table.
        return try states(
            "SELECT CASE WHEN \(sent) THEN 'sent' ELSE COALESCE(\(known), 'pending') END AS what, "
                + "COUNT(*) FROM \(layout.table.sql(dialect)) AS q\(join) GROUP BY what",
            readsDelivery ? [.text(layout.name)] : [])
    }

    private func states(
        _ sql: String, _ values: [SQLValue]
    ) throws(StoreFailure) -> [DeliveryState: Int] {
        let rows = try retries.retrying("counting the queue's rows") { () throws(SQLFailure) in
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
