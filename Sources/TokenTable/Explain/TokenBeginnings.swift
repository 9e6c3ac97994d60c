// Finds the tokens that begin with the digits that messages print. Each place has an index over its
// tokens, so the search reads a range of it: bytes from the first to those after the last, text by LIKE
// on a server, and by the same range on SQLite, whose LIKE uses no index for a bound value. Among the
// texts may be names of other devices that begin so, so the range is read page by page until enough
// tokens are found.

import APNsProtocol
import Database
import Findings

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
        for search in try searches(beginning) {
            var (own, last): (Set<DeviceToken>, SQLValue?) = ([], nil)
            repeat {
                let (sql, values) = search.statement(after: last)
                let rows = try retries.retrying(
                    "looking up tokens in \(search.table)", do: connection.query(sql, values))
                for row in 0..<rows.count where own.count < limit {
                    let token = search.isOurs ? rows.token(row, 0) : column.token(rows[row, 0])
                    if let token, beginning.begins(token) { own.insert(token) }
                }
                let isWhole = rows.count < BeginningSearch.page || own.count == limit
                last = isWhole ? nil : rows[rows.count - 1, 0]
            } while last != nil
            found.formUnion(own)
        }
        return found.sorted()
    }

    /// A search for stored values which begin so, by one index.
    struct BeginningSearch {
        /// The most values of one statement.
        static let page = 1_000

        let table: String
        /// Whether the table is one of ours, whose tokens are bytes.
        let isOurs: Bool
        fileprivate let source, column: String
        fileprivate let condition: BoundSQL

        /// The statement that selects the next page of values, after the last one of the page before.
        func statement(after last: SQLValue?) -> BoundSQL {
            (
                "SELECT DISTINCT \(column) FROM \(source) WHERE \(condition.sql)"
                    + (last == nil ? "" : " AND \(column) > ?")
                    + " ORDER BY \(column) LIMIT \(Self.page)",
                condition.values + [last].compactMap { $0 }
            )
        }
    }

    /// The searches, each over one index. Rows of other platforms are left out.
    func searches(_ beginning: TokenBeginning) throws(StoreFailure) -> [BeginningSearch] {
        let (layout, dialect) = (try layout(), connection.dialect)
        let source = layout.table.sql(dialect) + dialect.indexHint(layout.tokenIndex)
        let platform = layout.platformCondition(dialect)
        var searches = layout.token.conditions(beginning, dialect).map { condition in
            BeginningSearch(
                table: layout.table.description, isOurs: false, source: source,
                column: dialect.quoted(layout.token.name),
                condition: (condition.sql + platform.sql, condition.values + platform.values))
        }
        for table in [PushsweepTable.invalid, .change]
        where try session.canRead(table.name, "token") {
            searches.append(
                BeginningSearch(
                    table: table.name, isOurs: true, source: table.name, column: "token",
                    condition: beginning.condition(on: "token")))
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
