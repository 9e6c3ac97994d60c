import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

// The rows of the queue that carry given tokens, for a person who asks why a device got nothing.
//
// The queue belongs to the application, may have millions of rows, and often has no index over its tokens.
// Then only the newest rows are read, and the result says how many.
//
// Senders write while the rows are read. The claims are read before the rows: a row that gets its result in
// between has that result. In the other order it would look as if it waited.

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

    /// The rows of the queue with given tokens, at most a hundred. `partitions` are those of the settings,
    /// which name the apps of rows. Nil where there is no queue and none is wanted.
    ///
    /// - Throws: `configuration` where the queue does not fit the settings; any failure of a query.
    package func queueHistory(
        of tokens: [DeviceToken], in partitions: [Partition]
    ) throws(StoreFailure) -> QueueFound? {
        let name = try TableName(settings.queue.table, setting: "store.push-queue.table")
        if !settings.wantsQueue {
            guard try described(name) != nil else { return nil }
        }
        return try QueueSearch(self, in: partitions).rows(of: tokens)
    }
}

/// Searches the queue for rows with given tokens. Reads only.
private struct QueueSearch {
    private let store: TokenTable
    private let layout: QueueLayout
    private let readsClaims: Bool
    /// Whether the delivery states may be read, where they are in a side table.
    private let readsDelivery: Bool
    /// The time of queueing, where the table has it and it may be read.
    private let queuedAt: TimeColumn?
    /// Whether there is such a column, or may be one, that the account may not read.
    private let hidesQueuedAt: Bool
    /// The partitions of the settings with their values in the queue's columns.
    private let named: [(partition: Partition, selection: PartitionSelection)]

    private var connection: any SQLConnection { store.connection }
    private var dialect: SQLDialect { connection.dialect }
    private var delivery: DeliveryColumns { layout.delivery }

    init(_ store: TokenTable, in partitions: [Partition]) throws(StoreFailure) {
        let layout = try store.queueLayout()
        (self.store, self.layout) = (store, layout)
        queuedAt = try store.canReadQueuedAt(layout) ? layout.queuedAt : nil
        let usual: [OptionalColumn] =
            store.settings.queue.queuedAt == nil
            ? [.detect("time_queued"), .detect("queued_at")] : []
        let unread = try store.withHidden(usual, of: store.queueTable()).hidden
        hidesQueuedAt = queuedAt == nil && (layout.queuedAt != nil || !unread.isEmpty)
        readsDelivery = layout.delivery.isInRow ? true : try store.canReadDelivery()
        named = try partitions.map { partition throws(StoreFailure) in
            (partition, try layout.selection(of: partition))
        }
        readsClaims = try store.canReadClaims()
    }

    func rows(of tokens: [DeviceToken]) throws(StoreFailure) -> QueueFound {
        var found = QueueFound(gaps: gaps)
        guard !tokens.isEmpty else { return found }
        let index = try store.queueTable().index(onToken: layout.token.name, after: [])
        let floor = index == nil ? try floor() : nil
        let statement = statement(for: tokens, above: floor, dialect.indexHint(index?.name))
        let read = try store.retries.retrying("reading the rows of \(layout.table)") {
            () throws(SQLFailure) in
            var claimed = KeySet()
            if readsClaims {
                claimed = try ClaimRecord.openClaims(of: layout.name, connection).keys
            }
            let rows = try connection.query(statement.sql, statement.values)
            try rows.require(width: columns.count)
            return try (0..<rows.count).map { place throws(SQLFailure) in
                try row(rows.row(place), claimed)
            }
        }
        found.isCut = read.count > TokenTable.mostQueueRowsRead
        if floor != nil && !found.isCut { found.newest = TokenTable.mostQueueRowsSearched }
        for row in read.prefix(TokenTable.mostQueueRowsRead) {
            // A collation may call other characters equal.
            guard let token = row.token, tokens.contains(token) else { continue }
            found.rows[token, default: []].append(row)
        }
        return found
    }

    /// What cannot be read, and so not be told of the rows.
    private var gaps: [String] {
        var gaps: [String] = []
        if !readsClaims {
            gaps.append(
                "pushsweep_claim: the account may not read it, so a row that a sender holds looks "
                    + "pending; grant SELECT on it")
        }
        if !readsDelivery {
            gaps.append(
                "pushsweep_delivery: the account may not read it or there is none, so only the time of "
                    + "sending tells the state of a row; grant SELECT on it, or run `pushsweep schema "
                    + "apply`")
        }
        if hidesQueuedAt {
            gaps.append(
                "the time of queueing: the account may not read the column of \(layout.table); grant SELECT on it, as "
                    + "`pushsweep check --grants` says")
        }
        return gaps
    }

    // MARK: Statements

    private var key: String { own(layout.key) }

    /// A column of the queue; NULL for one that the table lacks.
    private func own(_ column: String?) -> String {
        column.map { "q.\(dialect.quoted($0))" } ?? "NULL"
    }

    /// A delivery column; NULL where it may not be read.
    private func state(_ column: String) -> String {
        readsDelivery ? layout.state(column, dialect) : "NULL"
    }

    private var columns: [String] {
        [
            key, own(layout.token.name), state(delivery.state), state(delivery.attempts),
            state(delivery.reason), own(queuedAt?.name), state(delivery.notBefore.name),
            state(delivery.answeredAt.name), own(layout.sentAt?.name), own(layout.app?.name),
            own(layout.environment?.name),
        ]
    }

    /// The key below the newest rows that are searched; nil where there are no more.
    private func floor() throws(StoreFailure) -> Int64? {
        let statement =
            "SELECT \(key) FROM \(layout.table.sql(dialect)) AS q ORDER BY \(key) DESC LIMIT 1 "
            + "OFFSET \(TokenTable.mostQueueRowsSearched)"
        return try store.retries.retrying(
            "reading the keys of \(layout.table)", do: connection.query(statement).scalar?.integer)
    }

    private func statement(
        for tokens: [DeviceToken], above floor: Int64?, _ hint: String
    ) -> BoundSQL {
        let source = layout.source(dialect, hint: hint, readsDelivery: readsDelivery)
        var values: [SQLValue] = []
        for token in tokens { layout.token.appendSearchValues(for: token, to: &values) }
        values = StatementShape.padded(values)
        let sql =
            "SELECT \(columns.joined(separator: ", ")) FROM \(source.sql) "
            + "WHERE \(own(layout.token.name)) IN (\(placeholders(values.count)))"
            + (floor == nil ? "" : " AND \(key) > ?")
            + " ORDER BY \(key) DESC LIMIT \(TokenTable.mostQueueRowsRead + 1)"
        return (sql, source.values + values + (floor.map { [.integer($0)] } ?? []))
    }

    private func row(
        _ values: ArraySlice<SQLValue>, _ claimed: KeySet
    ) throws(SQLFailure) -> QueuedRow {
        let first = values.startIndex
        let key = try layout.rowKey(values[first])
        let partitions = named.filter { _, selection in
            selection.values.allSatisfy { column, value in
                values[first + (column.name == layout.app?.name ? 9 : 10)] == value
            }
        }.map(\.partition)
        let sent = layout.sentAt?.mark(values[first + 8])
        var state = values[first + 2].text ?? DeliveryState.pending.rawValue
        if DeliveryState(rawValue: state)?.isFinal == false {
            if sent != nil {
                state = DeliveryState.sent.rawValue
            } else if claimed.contains(key) {
                state = DeliveryState.claimed.rawValue
            }
        }
        return QueuedRow(
            key: key, token: layout.token.token(values[first + 1]),
            partition: partitions.count == 1 ? partitions[0] : nil, state: state,
            reason: values[first + 4].text, attempts: values[first + 3].count ?? 0,
            queued: queuedAt?.mark(values[first + 5]),
            notBefore: delivery.notBefore.mark(values[first + 6]),
            answered: delivery.answeredAt.mark(values[first + 7]) ?? sent)
    }
}
