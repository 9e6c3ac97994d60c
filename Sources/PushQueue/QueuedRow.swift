import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// A row of the queue, with its delivery state.
package struct QueuedRow: Hashable, Sendable {
    /// The row's key in the queue.
    package let key: Int64
    /// The device token; nil where the column holds none.
    package let token: DeviceToken?
    /// The app, by the table's value, and the environment; nil where the row fits none of the
    /// settings, or several.
    package let partition: Partition?
    /// The state as stored, or `claimed` where a sender holds the row. A row without a final state
    /// that another program marked as sent is `sent`.
    package let state: String
    /// APNs' reason, or the reason for which the row was skipped.
    package let reason: String?
    package let attempts: Int
    /// When the row was queued; nil where the table does not say.
    package let queued: EpochMilliseconds?
    /// Not to be sent before this time.
    package let notBefore: EpochMilliseconds?
    /// When the row got its final state.
    package let answered: EpochMilliseconds?
}

extension QueueLayout {
    /// The key in a value of the key column.
    ///
    /// - Throws: `configuration` for one that is no whole number of 64 bits.
    func rowKey(_ value: SQLValue?) throws(SQLFailure) -> Int64 {
        guard let key = value?.integer else {
            throw SQLFailure(
                kind: .configuration, code: 0,
                message: "a key of \(table) is no whole number of 64 bits")
        }
        return key
    }
}

// The rows of the queue that carry given tokens, for a person who asks why a device got nothing. Without
// an index over its tokens only the newest rows are read, and the result says how many.

/// The rows found, with the limits that were reached.
package struct QueueFound: Hashable, Sendable {
    /// The rows by token, newest first.
    package var rows: [DeviceToken: [QueuedRow]] = [:]
    /// Whether there are more rows than were read.
    package var isCut = false
    /// Without an index over the tokens: how many of the newest rows were looked at; nil for all.
    package var newest: Int?
    /// What could not be read, and so not be told of the rows.
    package var gaps: [String] = []
}

extension TokenTable {
    /// The most rows of the queue that are searched without an index.
    package static let mostQueueRowsSearched = 50_000
    /// The most rows of the queue that are read.
    package static let mostQueueRowsRead = 500

    /// The rows of the queue with given tokens. Nil where there is no queue and none is wanted.
    ///
    /// - Throws: `configuration` where the queue does not fit the settings; any failure of a query.
    package func queueHistory(
        of tokens: [DeviceToken], in partitions: [Partition]
    ) throws(StoreFailure) -> QueueFound? {
        let name = try TableName(settings.queue.table, setting: "store.push-queue.table")
        if !settings.wantsQueue {
            guard try described(name) != nil else { return nil }
        }
        var filter = QueueFilter()
        filter.tokens = tokens
        var listing = try QueueListing(self, filter, in: partitions)
        var found = QueueFound(gaps: listing.gaps)
        var count = 0
        while count <= Self.mostQueueRowsRead {
            let rows = try listing.next()
            if rows.isEmpty { break }
            for row in rows.prefix(Self.mostQueueRowsRead - count) {
                if let token = row.token { found.rows[token, default: []].append(row) }
            }
            count += rows.count
        }
        found.isCut = count > Self.mostQueueRowsRead
        found.newest = listing.newest
        return found
    }
}

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
