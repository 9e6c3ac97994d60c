import Database
import TokenHygiene
import TokenTable

/// The queue as the store uses it: the mapping of the settings, resolved against the database.
struct QueueLayout: Hashable, Sendable {
    /// The table.
    let table: TableName
    /// Its name in our own tables, the same however the settings spell it.
    let name: String
    /// The column of whole numbers that names a row.
    let key: String
    /// The token.
    let token: TokenColumn
    /// The JSON to send.
    let payload: String
    /// Whether the payload's column holds bytes rather than text.
    let payloadIsBinary: Bool
    /// The app, where the table tells.
    let app: PartitionColumn?
    /// The environment, where the table tells.
    let environment: PartitionColumn?
    /// The columns of push type, priority, expiration and collapse identifier, where there are any.
    let options: Options
    /// When a row was queued, where the table tells.
    let queuedAt: TimeColumn?
    /// When a row was sent, where the table tells.
    let sentAt: TimeColumn?
    /// Where the state of a row's delivery stands.
    let delivery: DeliveryColumns
    /// The index that finds open rows without reading closed ones, where there is one.
    let openIndex: String?

    /// The columns of the `apns-` headers.
    struct Options: Hashable, Sendable {
        let pushType: String?
        let priority: String?
        let expiration: String?
        let collapseID: String?

        /// Those there are.
        var names: [String] { [pushType, priority, expiration, collapseID].compactMap { $0 } }
    }

    /// The condition that selects a partition, its columns under an alias.
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

/// Where the state of each row's delivery stands: in the row, or in `pushsweep_delivery` under the
/// row's key. The columns mean the same in both.
struct DeliveryColumns: Hashable, Sendable {
    /// The table that has the columns.
    let table: TableName
    /// Its column of the row's key.
    let key: String
    /// The queue's name in the side table; nil where the columns stand in the queue's own rows.
    let queue: String?
    let state: String
    let attempts: String
    let reason: String
    let notBefore: TimeColumn
    let answeredAt: TimeColumn

    /// Whether the columns stand in the queue's own rows.
    var isInRow: Bool { queue == nil }

    /// The columns of `pushsweep_delivery`.
    static func beside(_ queue: String, _ dialect: SQLDialect) -> DeliveryColumns {
        DeliveryColumns(
            table: TableName(name: PushsweepTable.delivery.name), key: "queue_key",
            queue: queue, state: "state", attempts: "attempts", reason: "reason",
            notBefore: dialect.ownTime("not_before"),
            answeredAt: dialect.ownTime("answered_at"))
    }
}
