import APNsProtocol
import Database
import TokenHygiene

/// The user's table as the store uses it: the mapping of the settings, resolved against the
/// database. It has all that is needed to write statements, and does not change during a run.
package struct TableLayout: Hashable, Sendable {
    /// The name of the table, with its schema where the settings name one.
    package let table: TableName
    /// The columns that identify a row, at least one.
    let key: [KeyColumn]
    /// The token column and its encoding.
    package let token: TokenColumn
    /// The index for lookups by token, where the table has one.
    let tokenIndex: String?
    /// The app column, where the table has one.
    let app: PartitionColumn?
    /// The environment column, where the table has one.
    let environment: PartitionColumn?
    /// The column of the last registration, where the table has one.
    let registration: TimeColumn?
    /// Whether the engine sets the registration at every change of the row (ON UPDATE
    /// CURRENT_TIMESTAMP, which MariaDB before 10.10 adds to the first TIMESTAMP column by itself).
    /// A mark would then look like a registration, so changes assign the column to itself.
    let registrationMovesItself: Bool
    /// The mark column; nil: marks go to `pushsweep_invalid`.
    let mark: TimeColumn?
    /// The column of the mark's reason, where the table has one.
    let reason: String?
    /// All columns of a row in the table's order, without generated ones.
    let columns: [String]
    /// An SQL expression that is 0 for rows with a value that is lost between the database and this
    /// program; nil where no type of the table can lose one.
    let exactness: String?

    /// Whether changing a row runs triggers, which may undo the change.
    var hasUpdateTriggers = false

    /// The key columns as markers store them, at most 255 characters.
    var keyNames: String {
        String(key.map { $0.name.lowercased() }.joined(separator: ",").prefix(255))
    }

    /// One column of the key.
    struct KeyColumn: Hashable, Sendable {
        let name: String
        /// Whether the column has an integer type.
        let isInteger: Bool
    }

    /// The instant stored for a mark of this time: rounded down to the precision of the mark
    /// column.
    func floor(_ time: EpochMilliseconds) -> EpochMilliseconds { mark?.floor(time) ?? time }

    /// The condition that selects a partition, with its values; empty where the table has neither
    /// app nor environment column.
    package func partitionCondition(
        _ partition: Partition, _ dialect: SQLDialect
    ) throws(StoreFailure) -> (sql: String, values: [SQLValue]) {
        var sql = ""
        var values: [SQLValue] = []
        if let app {
            sql += " AND \(dialect.quoted(app.name)) = ?"
            values.append(try app.value(for: partition.app))
        }
        if let environment {
            sql += " AND \(dialect.quoted(environment.name)) = ?"
            values.append(try environment.value(for: partition.environment))
        }
        return (sql, values)
    }
}
