import Database
import TokenHygiene
import TokenTable

/// The queue as the store uses it: the mapping of the settings, resolved against the database.
struct QueueLayout: Hashable, Sendable {
    let table: TableName
    /// Its name in the side tables, the same for every spelling in the settings.
    let name: String
    /// The integer column that identifies a row.
    let key: String
    let token: TokenColumn
    /// The column of the JSON to send.
    let payload: String
    /// Whether the payload column holds bytes rather than text.
    let payloadIsBinary: Bool
    /// The app column, where the table has one.
    let app: PartitionColumn?
    /// The environment column, where the table has one.
    let environment: PartitionColumn?
    /// The columns of push type, priority, expiration and collapse id, where the table has them.
    let options: Options
    /// The time at which a row was queued, where the table has it.
    let queuedAt: TimeColumn?
    /// The time at which a row was sent, where the table has it.
    let sentAt: TimeColumn?
    /// The columns of a row's delivery state.
    let delivery: DeliveryColumns
    /// The index that finds open rows without reading closed ones, where the table has one.
    let openIndex: String?

    /// The columns of the `apns-` headers.
    struct Options: Hashable, Sendable {
        let pushType: String?
        let priority: String?
        let expiration: String?
        let collapseID: String?

        /// The names of the columns that the table has.
        var names: [String] { [pushType, priority, expiration, collapseID].compactMap { $0 } }
    }

    /// The condition that selects a partition, with an alias for the table.
    func partitionCondition(
        _ partition: Partition, _ dialect: SQLDialect
    ) throws(StoreFailure) -> (sql: String, values: [SQLValue]) {
        var sql = ""
        var values: [SQLValue] = []
        for (column, word) in [(app, partition.app), (environment, partition.environment)] {
            guard let column else { continue }
            sql += " AND q.\(dialect.quoted(column.name)) = ?"
            values.append(try column.value(for: word))
        }
        return (sql, values)
    }
}

/// The columns of each row's delivery state: in the row itself, or in `pushsweep_delivery` under
/// the row's key. The columns have the same meaning in both.
struct DeliveryColumns: Hashable, Sendable {
    /// The table that has the columns.
    let table: TableName
    /// The table's column that holds the row's key.
    let key: String
    /// The queue's name in the side table; nil where the columns are in the queue's own rows.
    let queue: String?
    let state: String
    let attempts: String
    let reason: String
    let notBefore: TimeColumn
    let answeredAt: TimeColumn

    /// Whether the columns are in the queue's own rows.
    var isInRow: Bool { queue == nil }

    /// The columns of the side table `pushsweep_delivery`.
    static func beside(_ queue: String, _ dialect: SQLDialect) -> DeliveryColumns {
        DeliveryColumns(
            table: TableName(name: PushsweepTable.delivery.name), key: "queue_key",
            queue: queue, state: "state", attempts: "attempts", reason: "reason",
            notBefore: dialect.ownTime("not_before"),
            answeredAt: dialect.ownTime("answered_at"))
    }
}
