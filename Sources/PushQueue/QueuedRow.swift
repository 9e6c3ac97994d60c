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

/// Reads rows with their delivery state, whatever table has it: the columns, the tables, and the
/// meaning of the values.
struct QueuedRowReader {
    /// The number of columns that are read.
    static let width = 11

    let layout: QueueLayout
    let dialect: SQLDialect
    /// Whether the delivery states may be read, where they are in a side table.
    let readsDelivery: Bool
    /// The time of queueing, where the table has it and it may be read.
    let queuedAt: TimeColumn?
    /// The partitions of the settings with their values in the queue's columns.
    private let terms: [(partition: Partition, selection: PartitionSelection)]

    /// Prepares the reading of rows of the settings' partitions.
    ///
    /// - Throws: `configuration` where a column cannot hold a partition's value.
    init(
        _ layout: QueueLayout, _ dialect: SQLDialect, readsDelivery: Bool, readsQueuedAt: Bool,
        partitions: [Partition]
    ) throws(StoreFailure) {
        (self.layout, self.dialect) = (layout, dialect)
        self.readsDelivery = readsDelivery || layout.delivery.isInRow
        queuedAt = readsQueuedAt ? layout.queuedAt : nil
        terms = try partitions.map { partition throws(StoreFailure) in
            (partition, try layout.selection(of: partition))
        }
    }

    private var delivery: DeliveryColumns { layout.delivery }

    /// The key column in a statement.
    var key: String { own(layout.key) }

    /// A column of the queue in a statement; NULL for one that the table lacks.
    func own(_ column: String?) -> String {
        column.map { "q.\(dialect.quoted($0))" } ?? "NULL"
    }

    /// A delivery column in a statement; NULL where it may not be read.
    func state(_ column: String) -> String {
        readsDelivery ? layout.state(column, dialect) : "NULL"
    }

    /// `SELECT` and `FROM`, with their values: key, token, state, attempts, reason, the times, app and
    /// environment.
    func selection(hint: String) -> (sql: String, values: [SQLValue]) {
        let columns = [
            key, own(layout.token.name), state(delivery.state), state(delivery.attempts),
            state(delivery.reason), own(queuedAt?.name), state(delivery.notBefore.name),
            state(delivery.answeredAt.name), own(layout.sentAt?.name), own(layout.app?.name),
            own(layout.environment?.name),
        ]
        let source = layout.source(dialect, hint: hint, readsDelivery: readsDelivery)
        return (
            "SELECT \(columns.joined(separator: ", ")) FROM \(source.sql)", source.values
        )
    }

    /// The partitions of the settings whose rows include this one.
    func partitions(of values: ArraySlice<SQLValue>) -> [Partition] {
        let first = values.startIndex
        return terms.filter { term in
            term.selection.values.allSatisfy { column, value in
                values[first + (column.name == layout.app?.name ? 9 : 10)] == value
            }
        }.map(\.partition)
    }

    /// The row of the values read.
    ///
    /// - Throws: `configuration` for a key that is no whole number of 64 bits.
    func row(
        _ values: ArraySlice<SQLValue>, of partition: Partition?, claimed: KeySet
    ) throws(SQLFailure) -> QueuedRow {
        let first = values.startIndex
        let key = try layout.rowKey(values[first])
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
            key: key, token: layout.token.token(values[first + 1]), partition: partition,
            state: state, reason: values[first + 4].text, attempts: values[first + 3].count ?? 0,
            queued: queuedAt?.mark(values[first + 5]),
            notBefore: delivery.notBefore.mark(values[first + 6]),
            answered: delivery.answeredAt.mark(values[first + 7]) ?? sent)
    }
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
    /// Whether the claims of senders could not be read, so that a claimed row looks pending.
    package var lacksClaims = false
    /// Whether the side table with the states could not be read.
    package var lacksStates = false
    /// Whether the time of queueing could not be read.
    package var lacksTimes = false
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
        var filter = QueueFilter()
        filter.tokens = tokens
        var listing = try QueueListing(self, filter, in: partitions)
        var found = QueueFound(
            lacksClaims: listing.lacksClaims, lacksStates: listing.lacksStates,
            lacksTimes: listing.lacksTimes)
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
        if !delivery.isInRow {
            guard try canReadDelivery() else { return [] }
        }
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
