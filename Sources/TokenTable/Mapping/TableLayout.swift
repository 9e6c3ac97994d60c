import APNsProtocol
import Database
import TokenHygiene

/// The user's table as the store uses it: the mapping of the settings, resolved against the
/// database. Everything needed to write statements, and nothing that changes during a run.
package struct TableLayout: Hashable, Sendable {
    /// The table.
    package let table: TableName
    /// The columns that identify a row, at least one.
    let key: [KeyColumn]
    /// The token.
    package let token: TokenColumn
    /// The index that serves lookups by token, where there is one.
    let tokenIndex: String?
    /// The app, where the table tells.
    let app: PartitionColumn?
    /// The environment, where the table tells.
    let environment: PartitionColumn?
    /// The last registration, where the table tells.
    let registration: TimeColumn?
    /// Whether the engine moves the registration at every change of the row (ON UPDATE
    /// CURRENT_TIMESTAMP, which MariaDB before 10.10 gives the first TIMESTAMP column unasked). A
    /// mark would then look like a registration, so changes assign the column to itself.
    let registrationMovesItself: Bool
    /// The mark; nil: marks go to `pushsweep_invalid`.
    let mark: TimeColumn?
    /// The reason of the mark, where the table has room for it.
    let reason: String?
    /// Every column that a row is made of, in the table's order, without generated ones.
    let columns: [String]
    /// An SQL expression that is 0 for rows with a value that is lost on the way to this program and
    /// back; nil where no type of the table can lose one.
    let exactness: String?

    /// Whether changing a row runs triggers, which may undo the change.
    var hasUpdateTriggers = false

    /// The key's columns as markers name them, at most 255 characters.
    var keyNames: String {
        String(key.map { $0.name.lowercased() }.joined(separator: ",").prefix(255))
    }

    /// One column of the key.
    struct KeyColumn: Hashable, Sendable {
        let name: String
        /// Whether it holds whole numbers.
        let isInteger: Bool
    }

    /// The instant a mark of this time carries: floored to what the mark's column can hold.
    func floor(_ time: EpochMilliseconds) -> EpochMilliseconds { mark?.floor(time) ?? time }

    /// The condition that selects a partition, with its values; empty where the table has neither
    /// column.
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
