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
    /// Number of attempts.
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
        guard readsDelivery else { return "NULL" }
        return "\(delivery.isInRow ? "q" : "d").\(dialect.quoted(column))"
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
        let sql =
            "SELECT \(columns.joined(separator: ", ")) FROM \(layout.table.sql(dialect)) AS q\(hint)"
        guard readsDelivery, let queue = delivery.queue else { return (sql, []) }
        let side =
            " LEFT JOIN \(delivery.table.sql(dialect)) AS d ON d.queue = ? AND d.queue_key = \(key)"
        return (sql + side, [.text(queue)])
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
