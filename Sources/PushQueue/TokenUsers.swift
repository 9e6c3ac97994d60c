import APNsProtocol
import Database
import TokenHygiene
import TokenTable

// The users of the token table: their tokens, and the users of tokens.

extension TokenTable {
    /// The tokens that a user may be reached by: those of the user's rows in a partition that are
    /// not stale, each once.
    ///
    /// - Throws: `configuration` if the token table has no user column.
    package func tokens(
        ofUser user: String, in partition: Partition
    ) throws(StoreFailure) -> [DeviceToken] {
        let condition = try layout().selection(of: partition).condition(connection.dialect)
        let tokens = try tokens(ofUser: user, where: condition, limit: nil)
        let reasons = try skipReasons(of: tokens, in: partition)
        return tokens.filter { reasons[$0] == nil }
    }

    /// The tokens in all rows of a user, of any app and state, each once; at most those of `limit`
    /// rows.
    ///
    /// - Throws: `configuration` if the token table has no user column.
    package func allTokens(
        ofUser user: String, limit: Int
    ) throws(StoreFailure) -> [DeviceToken] {
        let platform = try layout().platformCondition(connection.dialect)
        return try tokens(ofUser: user, where: platform, limit: limit)
    }

    private func tokens(
        ofUser user: String, where condition: (sql: String, values: [SQLValue]), limit: Int?
    ) throws(StoreFailure) -> [DeviceToken] {
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
        let lookup =
            "SELECT \(dialect.quoted(layout.token.name)) "
            + "FROM \(layout.table.sql(dialect)) WHERE \(dialect.quoted(column.name)) = ?"
        guard let value = column.value(for: user) else { return [] }
        let end = limit.map { " LIMIT \($0)" } ?? ""
        let rows = try retries.retrying("looking up a user's tokens in \(layout.table)") {
            () throws(SQLFailure) in
            try connection.query(lookup + condition.sql + end, [value] + condition.values)
        }
        var tokens: [DeviceToken] = []
        for row in 0..<rows.count {
            if let token = layout.token.token(rows[row, 0]), !tokens.contains(token) {
                tokens.append(token)
            }
        }
        return tokens
    }

    /// The users in the rows of tokens, of any app and state, each once, in the order of their names; at
    /// most `StatementShape.longest` search values are in a statement. Nil where the token table has no
    /// user column.
    ///
    /// - Throws: any failure of a query.
    package func users(
        of tokens: Set<DeviceToken>
    ) throws(StoreFailure) -> [DeviceToken: [String]]? {
        let layout = try layout()
        let dialect = connection.dialect
        guard let column = try userColumn() else { return nil }
        let platform = layout.platformCondition(dialect)
        let name = dialect.quoted(layout.token.name)
        var found: [DeviceToken: Set<String>] = [:]
        for run in tokens.sorted().runs(of: StatementShape.longest / layout.token.spellings) {
            var values: [SQLValue] = []
            for token in run { layout.token.appendSearchValues(for: token, to: &values) }
            values = StatementShape.padded(values)
            let lookup =
                "SELECT \(name), \(dialect.quoted(column.name)) FROM \(layout.table.sql(dialect)) "
                + "WHERE \(name) IN (\(placeholders(values.count)))\(platform.sql)"
            let rows = try retries.retrying("looking up users in \(layout.table)") {
                () throws(SQLFailure) in try connection.query(lookup, values + platform.values)
            }
            for row in 0..<rows.count {
                guard let token = layout.token.token(rows[row, 0]), tokens.contains(token),
                    let user = rows[row, 1].text ?? rows[row, 1].integer.map(String.init)
                else { continue }
                found[token, default: []].insert(user)
            }
        }
        return found.mapValues { $0.sorted() }
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
