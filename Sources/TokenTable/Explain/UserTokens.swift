import APNsProtocol
import Database
import Findings

// A person asks about a user, not about a token: the column of users, and the tokens in a user's rows.

extension TokenTable {
    /// The tokens in all rows of a user, of any app and state, each once; at most those of `limit` rows.
    ///
    /// - Throws: `configuration` if the token table has no user column.
    package func tokens(ofUser user: String, limit: Int) throws(StoreFailure) -> [DeviceToken] {
        let layout = try layout()
        let dialect = connection.dialect
        let column = try seeingColumns(of: layout.table) { () throws(StoreFailure) in
            if let column = try userColumn() { return column }
            var failure = StoreFailure(
                .configuration,
                "looking up a user's tokens in \(layout.table): it has neither a column user_id "
                    + "nor udid with text or whole numbers; name the column of users under store.active-users.user.column"
            )
            failure.unseenColumn = "user_id"
            throw failure
        }
        guard let value = column.value(for: user) else { return [] }
        let platform = layout.platformCondition(dialect)
        let lookup =
            "SELECT \(dialect.quoted(layout.token.name)) "
            + "FROM \(layout.table.sql(dialect)) WHERE \(dialect.quoted(column.name)) = ?"
            + "\(platform.sql) LIMIT \(limit)"
        let rows = try retries.retrying(
            "looking up a user's tokens in \(layout.table)",
            do: connection.query(lookup, [value] + platform.values))
        var tokens: [DeviceToken] = []
        for row in 0..<rows.count {
            if let token = layout.token.token(rows[row, 0]), !tokens.contains(token) {
                tokens.append(token)
            }
        }
        return tokens
    }

    /// The user column; nil where the token table has none, also where a column with the usual name holds
    /// something else, such as a UUID as bytes, and the settings name none.
    ///
    /// - Throws: `configuration` where the one that the settings name cannot be used.
    package func userColumn() throws(StoreFailure) -> PartitionColumn? {
        let columns = ColumnResolver(
            table: try catalogTable(), dialect: connection.dialect, group: "store.active-users")
        let candidates =
            settings.mapping.user.map { [$0] } ?? [.detect("user_id"), .detect("udid")]
        for candidate in candidates {
            do throws(StoreFailure) {
                let column = try columns.partition(candidate, setting: "user.column", values: [:])
                if let column { return column }
            } catch {
                guard case .detect = candidate else { throw error }
            }
        }
        return nil
    }
}

extension PartitionColumn {
    /// The user as a value of the column; nil where a number column cannot hold it.
    fileprivate func value(for user: String) -> SQLValue? {
        isInteger ? Int64(user).map(SQLValue.integer) : .text(user)
    }
}
