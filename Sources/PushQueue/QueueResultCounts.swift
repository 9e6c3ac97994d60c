import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// Rows of the queue that got the same result.
package struct QueueResult: Hashable, Sendable {
    /// The state that the result left: `sent`, `skipped`, `gone`, `failed` or `unknown`.
    package let state: String
    /// The reason, such as `stale`; nil where the state says all.
    package let reason: String?
    /// The number of rows.
    package let rows: Int
}

extension TokenTable {
    /// The results that rows of a partition got in a period, most first. One statement counts them; it
    /// reads the index over the time of the answer, where the queue has one.
    ///
    /// - Throws: `configuration` where the queue does not fit the settings; any failure of a query.
    package func queueResults(
        of partition: Partition, from first: EpochMilliseconds, to last: EpochMilliseconds
    ) throws(StoreFailure) -> [QueueResult] {
        let layout = try queueLayout()
        let delivery = layout.delivery
        if !delivery.isInRow {
            guard try canReadDelivery() else { return [] }
        }
        let dialect = connection.dialect
        let selection = try layout.selection(of: partition).condition(dialect, alias: "q.")
        // The columns are in the queue's own rows, or beside them.
        let alias = delivery.isInRow ? "q" : "d"
        let state = "\(alias).\(dialect.quoted(delivery.state))"
        let reason = "\(alias).\(dialect.quoted(delivery.reason))"
        let time = "\(alias).\(dialect.quoted(delivery.answeredAt.name))"
        var sources = "\(layout.table.sql(dialect)) q"
        var values: [SQLValue] = []
        if let queue = delivery.queue {
            sources +=
                " JOIN \(delivery.table.sql(dialect)) d ON d.queue = ? AND "
                + "d.\(dialect.quoted(delivery.key)) = q.\(dialect.quoted(layout.key))"
            values.append(.text(queue))
        }
        let sql =
            "SELECT \(state), \(reason), COUNT(*) FROM \(sources) WHERE \(time) >= ? "
            + "AND \(time) <= ?\(selection.sql) GROUP BY \(state), \(reason)"
        let column = delivery.answeredAt
        return try retries.retrying("counting the results of \(layout.table)") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                sql, values + [column.value(first), column.value(last)] + selection.values)
            try rows.require(width: 3)
            return (0..<rows.count).map { row in
                QueueResult(
                    state: rows[row, 0].text ?? "", reason: rows[row, 1].text,
                    rows: rows[row, 2].count ?? 0)
            }.sorted { ($1.rows, $0.state, $0.reason ?? "") < ($0.rows, $1.state, $1.reason ?? "") }
        }
    }
}
