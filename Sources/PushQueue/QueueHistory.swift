// The rows of the queue that carry given tokens, for a person who asks why a device got nothing. The
// queue belongs to the application, and usually has no index over its tokens: senders read it in the
// order of its keys. Without one only the newest rows are read, and the result says how many.

import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// A row of the queue, with its delivery state.
package struct QueuedRow: Hashable, Sendable {
    /// The row's key in the queue.
    package let key: Int64
    /// The app, by the table's value, and the environment; nil where the row fits none of the
    /// settings, or several.
    package let partition: Partition?
    /// The state as stored, or `claimed` where a sender holds the row.
    package let state: String
    /// APNs' reason, or the reason for which the row was skipped.
    package let reason: String?
    /// Number of attempts.
    package let attempts: Int
    /// When the row was queued; nil where the table does not say.
    package let queued: EpochMilliseconds?
    /// Not to be sent before this time.
    package let notBefore: EpochMilliseconds?
    /// When the row got its final state.
    package let answered: EpochMilliseconds?
}

/// The rows found, with the limits that were reached.
package struct QueueFound: Hashable, Sendable {
    /// The rows by token, newest first.
    package var rows: [DeviceToken: [QueuedRow]] = [:]
    /// Whether there are more rows than were read.
    package var isCut = false
    /// Without an index over the tokens: how many of the newest rows were looked at; nil for all.
    package var newest: Int?
    /// Whether the claims of senders could not be read, so that a claimed row looks pending.
    package var lacksClaims = false
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
            let known = try retries.retrying("reading the schema") { () throws(SQLFailure) in
                try Catalog(connection: connection).table(name)
            }
            if known == nil { return nil }
        }
        let layout = try queueLayout()
        var found = QueueFound()
        let hasIndex =
            try queueTable().index(
                onToken: layout.token.name,
                after: [layout.app?.name, layout.environment?.name].compactMap { $0 }) != nil
        let reading = QueueHistoryStatement(layout: layout, dialect: connection.dialect)
        let rows = try retries.retrying("reading the rows of \(layout.table)") {
            () throws(SQLFailure) in
            var first: Int64?
            if !hasIndex {
                first = try connection.query(reading.limit).scalar?.integer
                found.newest = first == nil ? nil : Self.mostQueueRowsSearched
            }
            let statement = reading.rows(of: tokens, after: first)
            return try connection.query(statement.sql, statement.values)
        }
        let claimed = try claimedKeys(in: rows, layout, &found)
        let terms = try partitions.map { partition throws(StoreFailure) in
            (partition, try layout.selection(of: partition).values)
        }
        for row in 0..<min(rows.count, Self.mostQueueRowsRead) {
            let values = Array(rows.row(row))
            guard let token = layout.token.token(values[1]), tokens.contains(token) else {
                continue
            }
            let fitting = terms.filter { term in
                term.1.allSatisfy { reading.value($0.column, in: values) == $0.value }
            }
            found.rows[token, default: []].append(
                reading.row(
                    values, of: fitting.count == 1 ? fitting[0].0 : nil,
                    isClaimed: claimed.contains(values[0].integer ?? 0)))
        }
        found.isCut = rows.count > Self.mostQueueRowsRead
        return found
    }

    /// The keys that senders hold, where an open row was found.
    private func claimedKeys(
        in rows: SQLRows, _ layout: QueueLayout, _ found: inout QueueFound
    ) throws(StoreFailure) -> KeySet {
        let hasOpen = (0..<rows.count).contains { row in
            DeliveryState(rawValue: rows[row, 2].text ?? "pending")?.isFinal != true
        }
        guard hasOpen else { return KeySet() }
        guard try session.canRead("pushsweep_claim", "queue, state, row_keys") else {
            found.lacksClaims = true
            return KeySet()
        }
        return try retries.retrying("reading the claims of \(layout.name)") {
            () throws(SQLFailure) in try ClaimRecord.claimedKeys(of: layout.name, connection)
        }
    }
}

/// The statements that find rows of the queue by token.
private struct QueueHistoryStatement {
    let layout: QueueLayout
    let dialect: SQLDialect

    private var delivery: DeliveryColumns { layout.delivery }
    private var key: String { "q.\(dialect.quoted(layout.key))" }

    /// Selects the key before the newest rows.
    var limit: String {
        "SELECT \(key) FROM \(layout.table.sql(dialect)) AS q ORDER BY \(key) DESC "
            + "LIMIT 1 OFFSET \(TokenTable.mostQueueRowsSearched)"
    }

    /// Selects key, token, state, attempts, reason, the times, app and environment.
    func rows(of tokens: [DeviceToken], after first: Int64?) -> (sql: String, values: [SQLValue]) {
        let source = delivery.isInRow ? "q" : "d"
        func name(_ alias: String, _ column: String?) -> String {
            column.map { "\(alias).\(dialect.quoted($0))" } ?? "NULL"
        }
        let columns = [
            key, name("q", layout.token.name), name(source, delivery.state),
            name(source, delivery.attempts), name(source, delivery.reason),
            name("q", layout.queuedAt?.name), name(source, delivery.notBefore.name),
            name(source, delivery.answeredAt.name), name("q", layout.sentAt?.name),
            name("q", layout.app?.name), name("q", layout.environment?.name),
        ]
        var sql =
            "SELECT \(columns.joined(separator: ", ")) FROM \(layout.table.sql(dialect)) AS q"
        var values: [SQLValue] = []
        if let queue = delivery.queue {
            sql +=
                " LEFT JOIN \(delivery.table.sql(dialect)) AS d ON d.queue = ? "
                + "AND d.queue_key = \(key)"
            values.append(.text(queue))
        }
        var searched: [SQLValue] = []
        for token in tokens { layout.token.appendSearchValues(for: token, to: &searched) }
        searched = StatementShape.padded(searched)
        sql += " WHERE \(name("q", layout.token.name)) IN (\(placeholders(searched.count)))"
        values += searched
        if let first {
            sql += " AND \(key) > ?"
            values.append(.integer(first))
        }
        return (
            "\(sql) ORDER BY \(key) DESC LIMIT \(TokenTable.mostQueueRowsRead + 1)", values
        )
    }

    /// The value of an app or environment column in a row.
    func value(_ column: PartitionColumn, in values: [SQLValue]) -> SQLValue {
        column.name == layout.app?.name ? values[9] : values[10]
    }

    func row(_ values: [SQLValue], of partition: Partition?, isClaimed: Bool) -> QueuedRow {
        let sent = layout.sentAt?.mark(values[8])
        var state = values[2].text ?? (sent == nil ? "pending" : "sent")
        if isClaimed, DeliveryState(rawValue: state)?.isFinal != true {
            state = DeliveryState.claimed.rawValue
        }
        return QueuedRow(
            key: values[0].integer ?? 0, partition: partition, state: state,
            reason: values[4].text, attempts: values[3].count ?? 0,
            queued: layout.queuedAt?.mark(values[5]),
            notBefore: delivery.notBefore.mark(values[6]),
            answered: delivery.answeredAt.mark(values[7]) ?? sent)
    }
}
