import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

/// Rows of the queue that got the same result.
package struct QueueResult: Hashable, Sendable {
    /// The state that the result left: `sent`, `skipped`, `gone`, `failed` or `unknown`.
    package let state: String
    /// The reason, such as `stale`; nil where the state says all.
    package let reason: String?
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
        let isReadable = delivery.isInRow ? true : try canReadDelivery()
        guard isReadable else { return [] }
        let dialect = connection.dialect
        let selection = try layout.selection(of: partition).condition(dialect, alias: "q.")
        let columns =
            [delivery.state, delivery.reason].map { layout.state($0, dialect) }
            .joined(separator: ", ")
        let time = layout.state(delivery.answeredAt.name, dialect)
        let source = layout.source(dialect)
        let sql =
            "SELECT \(columns), COUNT(*) FROM \(source.sql) WHERE \(time) >= ? "
            + "AND \(time) <= ?\(selection.sql) GROUP BY \(columns)"
        let column = delivery.answeredAt
        return try retries.retrying("counting the results of \(layout.table)") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                sql,
                source.values + [column.value(first), column.value(last)] + selection.values)
            try rows.require(width: 3)
            return (0..<rows.count).map { row in
                QueueResult(
                    state: rows[row, 0].text ?? "", reason: rows[row, 1].text,
                    rows: rows[row, 2].count ?? 0)
            }.sorted { ($1.rows, $0.state, $0.reason ?? "") < ($0.rows, $1.state, $1.reason ?? "") }
        }
    }
}
