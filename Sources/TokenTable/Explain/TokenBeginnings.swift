// Finds the tokens that begin with the digits that messages print. Each place has an index over its
// tokens, so the search reads a range of it: bytes from the first to those after the last, text by LIKE
// on a server, and by the same range on SQLite, whose LIKE uses no index for a bound value.

import APNsProtocol
import Database

extension TokenTable {
    /// The tokens that begin so in the token table, in `pushsweep_invalid` and in the ledger, in byte
    /// order; at most `limit` of each. Places that the account may not read are passed over.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func tokens(
        beginning: TokenBeginning, limit: Int
    ) throws(StoreFailure) -> [DeviceToken] {
        let column = try layout().token
        var found: Set<DeviceToken> = []
        for search in try searches(beginning, limit: limit) {
            let rows = try retries.retrying(
                "looking up tokens in \(search.table)",
                do: connection.query(search.statement.sql, search.statement.values))
            for row in 0..<rows.count {
                let token = search.isOurs ? rows.token(row, 0) : column.token(rows[row, 0])
                if let token, beginning.begins(token) { found.insert(token) }
            }
        }
        return found.sorted()
    }

    /// One statement that selects stored tokens which begin so.
    struct BeginningSearch {
        let table: String
        /// Whether the table is one of ours, whose tokens are bytes.
        let isOurs: Bool
        let statement: BoundSQL
    }

    /// The statements of a search, each over one index.
    func searches(
        _ beginning: TokenBeginning, limit: Int
    ) throws(StoreFailure) -> [BeginningSearch] {
        let (layout, dialect) = (try layout(), connection.dialect)
        func search(
            _ table: String, _ source: String, _ column: String, _ condition: BoundSQL,
            isOurs: Bool
        ) -> BeginningSearch {
            BeginningSearch(
                table: table, isOurs: isOurs,
                statement: (
                    "SELECT DISTINCT \(column) FROM \(source) WHERE \(condition.sql) "
                        + "ORDER BY \(column) LIMIT \(limit)", condition.values
                ))
        }
        let source = layout.table.sql(dialect) + dialect.indexHint(layout.tokenIndex)
        var searches = layout.token.conditions(beginning, dialect).map {
            search(
                layout.table.description, source, dialect.quoted(layout.token.name), $0,
                isOurs: false)
        }
        for table in [PushsweepTable.invalid, .change]
        where try session.canRead(table.name, "token") {
            let condition = beginning.condition(on: "token")
            searches.append(search(table.name, table.name, "token", condition, isOurs: true))
        }
        return searches
    }
}

extension TokenBeginning {
    /// The condition on a column of bytes.
    fileprivate func condition(on column: String) -> BoundSQL {
        let (from, to) = range
        return (
            "\(column) >= ?" + (to == nil ? "" : " AND \(column) < ?"),
            [from, to].compactMap { $0.map(SQLValue.bytes) }
        )
    }
}

extension TokenColumn {
    /// The conditions that lead to the stored values of tokens that begin so, each by the index.
    fileprivate func conditions(_ beginning: TokenBeginning, _ dialect: SQLDialect) -> [BoundSQL] {
        let column = dialect.quoted(name)
        guard encoding == .hex else { return [beginning.condition(on: column)] }
        var texts = [beginning.digits]
        let upper = beginning.digits.uppercased()
        if tellsCaseApart && upper != beginning.digits { texts.append(upper) }
        return texts.flatMap { text -> [BoundSQL] in
            var makes: [(String) -> SQLValue] = isBinary ? [] : [SQLValue.text]
            if isBinary || mixesTextAndBytes { makes.append { .bytes(Array($0.utf8)) } }
            return makes.map { make in
                dialect.engine == .sqlite
                    // No digit comes after `g`, in either case.
                    ? ("\(column) >= ? AND \(column) < ?", [make(text), make(text + "g")])
                    : ("\(column) LIKE ?", [make(text + "%")])
            }
        }
    }
}
