import APNsProtocol
import Database
import Findings
import TokenHygiene

// A table is read in ranges of its key. A statement that searches for the next few marked rows
// would read the whole table where marks are few, and a table may be too large for the time limit
// of a statement. So the end of a range is found first, by counting keys, and only the range is
// searched. Each statement reads at most as many rows as the span.
//
// The order is that of the unique index over the key, whatever the order of its columns in the
// settings. The statement names the index, because an engine without the hint chooses another one
// and sorts.

/// The reading of a table in the order of its key.
struct KeyRanges {
    /// The most rows that one statement reads.
    static let span = 10_000

    /// The columns that order the reading; their values are a position.
    let columns: [String]
    /// Those of them that may be NULL, which SQLite allows.
    private let nullable: [String]
    /// Whether rows with NULL there are left out.
    private let namedOnly: Bool
    private let table: TableName
    private let hint: String
    private let connection: any SQLConnection
    /// The most rows of a range.
    private let span: Int
    private var dialect: SQLDialect { connection.dialect }

    /// Prepares the reading along the index that makes the key unique. `namedOnly` leaves out rows with
    /// NULL in their key, which the ledger cannot name and no change reaches. Else the first range
    /// has all of them.
    init(
        _ layout: TableLayout, _ catalog: CatalogTable, _ connection: any SQLConnection,
        span: Int = KeyRanges.span, namedOnly: Bool = false
    ) {
        (self.connection, self.span, self.namedOnly) = (connection, span, namedOnly)
        table = layout.table
        let names = Dictionary(
            layout.key.map { ($0.name.lowercased(), $0.name) },
            uniquingKeysWith: { first, _ in first })
        let index = catalog.uniqueIndex(within: layout.key.map(\.name))
        columns = index?.columns.compactMap { names[$0.lowercased()] } ?? layout.key.map(\.name)
        // SQLite calls its own number of a row nullable, too. It is the one primary key of which SQLite keeps no
        // index: not one of several columns, of another type than INTEGER, or INTEGER with DESC.
        let isRowid =
            columns.count == 1 && columns == catalog.primaryKey
            && !catalog.indexes.contains(where: \.isOfPrimaryKey)
        nullable = isRowid ? [] : columns.filter { catalog.column($0)?.isNullable == true }
        hint = connection.dialect.indexHint(index?.name)
    }

    /// Prepares the reading of the marks in `pushsweep_invalid`, in the order of their tokens.
    init(ofTokenMarks connection: any SQLConnection) {
        (self.connection, span, namedOnly) = (connection, KeyRanges.span, true)
        table = TableName(name: PushsweepTable.invalid.name)
        (columns, nullable, hint) = (["token"], [], "")
    }

    /// The key at the end of the range after `position` (empty: the start); nil where the rest of
    /// the table fits into the span.
    func end(
        after position: [SQLValue]
    ) throws(SQLFailure) -> [SQLValue]? {
        let range = condition(after: position, upTo: nil)
        let named = position.isEmpty ? columns.map { "\(name($0)) IS NOT NULL" } : [range.sql]
        let rows = try connection.query(
            "SELECT \(list) FROM \(source) WHERE \(named.joined(separator: " AND ")) "
                + "ORDER BY \(list) LIMIT 1 OFFSET \(span - 1)", range.values)
        guard rows.count > 0 else { return nil }
        try rows.require(width: columns.count)
        return Array(rows.row(0))
    }

    /// Selects from a range; `condition` is the end of the WHERE.
    func query(
        _ list: String, in range: BoundSQL, _ condition: BoundSQL, _ end: String = ""
    ) throws(SQLFailure) -> SQLRows {
        try connection.query(
            "SELECT \(list) FROM \(source) WHERE \(range.sql)\(condition.sql)\(end)",
            range.values + condition.values)
    }

    /// The table in SQL, with the hint for the index.
    var source: String { "\(table.sql(dialect))\(hint)" }

    /// The columns of the order, as an SQL list.
    var list: String { columns.map(dialect.quoted).joined(separator: ", ") }

    /// A column with its table's name, so that a statement may join other tables.
    private func name(_ column: String) -> String {
        "\(table.sql(dialect)).\(dialect.quoted(column))"
    }

    /// The condition that selects a range, with its values.
    func condition(after position: [SQLValue], upTo end: [SQLValue]?) -> BoundSQL {
        var (parts, values): ([String], [SQLValue]) = ([], [])
        if position.isEmpty {
            parts += columns.map { "\(name($0)) IS NOT NULL" }
        } else {
            let bound = comparison(">", ">", position)
            parts.append(bound.sql)
            values += bound.values
            // Where a column is greater, the comparison does not look at those behind it.
            parts += nullable.map { "\(name($0)) IS NOT NULL" }
        }
        if let end {
            let bound = comparison("<", "<=", end)
            parts.append(bound.sql)
            values += bound.values
        }
        let range = parts.joined(separator: " AND ")
        guard position.isEmpty, !namedOnly, !nullable.isEmpty else { return (range, values) }
        let unnamed = nullable.map { "\(name($0)) IS NULL" }
        return ("(\(range) OR \(unnamed.joined(separator: " OR ")))", values)
    }

    /// `(a, b) > (x, y)`, spelled so that the engine uses its index: servers can use it only with
    /// the long form, SQLite only with the short one.
    private func comparison(_ sign: String, _ last: String, _ key: [SQLValue]) -> BoundSQL {
        if columns.count == 1 { return ("\(name(columns[0])) \(last) ?", key) }
        if dialect.engine == .sqlite {
            let list = columns.map(name).joined(separator: ", ")
            return ("(\(list)) \(last) (\(placeholders(key.count)))", key)
        }
        let names = columns.map(name)
        let steps = names.indices.map { place in
            (names[..<place].map { "\($0) = ?" }
                + ["\(names[place]) \(place == names.count - 1 ? last : sign) ?"])
                .joined(separator: " AND ")
        }
        return (
            "(\(steps.joined(separator: " OR ")))", names.indices.flatMap { Array(key[...$0]) }
        )
    }
}

extension TokenTable {
    /// Reads a table range by range after `position`, which is nil once its end is reached. `read` reads
    /// the rows of a condition, and `take` returns whether to go on.
    func walk<Found>(
        _ ranges: KeyRanges, after position: inout [SQLValue]?, doing: String,
        _ read: (BoundSQL) throws(SQLFailure) -> Found,
        take: (Found, _ isLast: Bool) throws(StoreFailure) -> Bool
    ) throws(StoreFailure) {
        while let start = position {
            let (found, end) = try retries.retrying(doing) { () throws(SQLFailure) in
                let end = try ranges.end(after: start)
                return (try read(ranges.condition(after: start, upTo: end)), end)
            }
            position = end
            guard try take(found, end == nil) else { return }
        }
    }
}
