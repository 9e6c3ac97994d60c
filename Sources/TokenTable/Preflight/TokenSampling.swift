import Database
import Encodings
import TokenHygiene

// The sample comes from the whole range of the key. Without an order a server reads the token's index
// where that has all columns, and so the smallest tokens only: those that begin with a digit, which are
// hex more often than others. The first rows of the key are the oldest ones, of the time before the app
// had another platform. So slices are read, each from a place further on in the key, and each by the
// key's index, whose cost does not depend on the size of the table.

/// Reads a bounded sample of rows of a token table.
struct TokenSampling {
    /// The number of rows in the sample.
    static let size = 1_000
    /// How many times as many rows of a mixed table are read.
    private static let mixedShare = 20
    /// The number of places in a large table where rows are read.
    private static let slices = 20

    let layout: TableLayout
    let catalog: CatalogTable
    let connection: any SQLConnection

    private var dialect: SQLDialect { connection.dialect }
    private var table: String { layout.table.sql(dialect) + hint }
    private var hint: String { layout.isSpread ? "" : dialect.indexHint(layout.keyIndex) }

    /// The rows that are read to find as many as the sample has.
    private var reach: Int { Self.size * (layout.platform == nil ? 1 : Self.mixedShare) }

    /// The columns of the key in the order of its index.
    private var order: [String] {
        let index = catalog.indexes.first { $0.name == layout.keyIndex }
        return index?.columns ?? layout.key.map(\.name)
    }

    /// The rows of the sample with some columns, which are at the start of each row.
    ///
    /// - Throws: any failure of a query.
    func rows(_ columns: [String]) throws(SQLFailure) -> [ArraySlice<SQLValue>] {
        guard !layout.isSpread, let leading = order.first, try isLarger(than: reach) else {
            return try slice(columns, reach, Self.size)
        }
        guard let (least, greatest) = try range(of: leading) else {
            // A key of text has no middle to count to: its two ends.
            return try slice(columns, reach / 2, Self.size / 2)
                + slice(columns, reach / 2, Self.size / 2, isReversed: true)
        }
        var rows: [ArraySlice<SQLValue>] = []
        var next = least
        let step = (greatest / Int64(Self.slices)) - (least / Int64(Self.slices))
        for place in 0..<Self.slices {
            next = max(next, least + step * Int64(place))
            let found = try slice(
                columns, reach / Self.slices, Self.size / Self.slices, from: (leading, next))
            rows += found
            if let last = found.last?.last?.integer, last < .max { next = max(next, last + 1) }
        }
        return rows
    }

    private func isLarger(than count: Int) throws(SQLFailure) -> Bool {
        let key = order.map(dialect.quoted).joined(separator: ", ")
        return try connection.query(
            "SELECT 1 FROM \(table) ORDER BY \(key) LIMIT 1 OFFSET \(count)"
        ).count > 0
    }

    /// The least and the greatest value of a column of whole numbers; nil for other columns.
    private func range(of column: String) throws(SQLFailure) -> (Int64, Int64)? {
        guard layout.key.contains(where: { $0.isInteger && $0.name == column }) else { return nil }
        let name = dialect.quoted(column)
        let rows = try connection.query("SELECT MIN(\(name)), MAX(\(name)) FROM \(table)")
        guard rows.count == 1, let least = rows[0, 0].integer, let greatest = rows[0, 1].integer
        else { return nil }
        return (least, greatest)
    }

    /// At most `most` rows of Apple's devices among `read` rows in the order of the key. With a place to
    /// begin, the value of its column ends each row.
    private func slice(
        _ columns: [String], _ read: Int, _ most: Int, from: (column: String, value: Int64)? = nil,
        isReversed: Bool = false
    ) throws(SQLFailure) -> [ArraySlice<SQLValue>] {
        let list = columns.map(dialect.quoted)
        let ends = list + [from.map { dialect.quoted($0.column) }].compactMap { $0 }
        let ordered = layout.isSpread ? [] : order
        var sql = ""
        if let from { sql += " WHERE \(dialect.quoted(from.column)) >= ?" }
        if !ordered.isEmpty {
            sql += " ORDER BY "
            sql += ordered.map { dialect.quoted($0) + (isReversed ? " DESC" : "") }
                .joined(separator: ", ")
        }
        var values = [from.map { SQLValue.integer($0.value) }].compactMap { $0 }
        if let platform = layout.platform {
            // A table with few rows of the platform is not read to its end.
            let condition = platform.condition(dialect)
            let names = columns + ordered + [platform.column.name]
            var seen: Set<String> = []
            // A derived table takes no column twice.
            let all = names.filter { seen.insert($0.lowercased()).inserted }.map(dialect.quoted)
            sql =
                "SELECT \(ends.joined(separator: ", ")) FROM (SELECT \(all.joined(separator: ", ")) "
                + "FROM \(table)\(sql) LIMIT \(read)) AS sampled WHERE 1 = 1\(condition.sql) "
                + "LIMIT \(most)"
            values += condition.values
        } else {
            sql = "SELECT \(ends.joined(separator: ", ")) FROM \(table)\(sql) LIMIT \(most)"
        }
        let rows = try connection.query(sql, values)
        return (0..<rows.count).map { rows.row($0) }
    }
}

// Other platforms' identifiers among Apple's tokens match no evidence, and make counts of the table
// wrong. A column whose value is the same in all rows with a token of Apple, and another in all others,
// is what the settings should name.

extension TokenSampling {
    /// The longest value of a column that may tell platforms apart.
    private static let longestWord = 32
    /// The most such columns that are read, and the most other platforms.
    private static let mostColumns = 12

    /// What to write into the settings so that rows of other platforms are left alone; nil where no
    /// column tells them apart, or the account may not read it. `isApple` judges a stored value of the
    /// token; nil for one that tells nothing.
    ///
    /// - Throws: any failure of a query but a missing right.
    func platformAdvice(_ isApple: (SQLValue) -> Bool?) throws(SQLFailure) -> String? {
        let used = Set(
            ([layout.token.name, layout.registration?.name, layout.mark?.name, layout.reason]
                + [layout.living?.name, layout.app?.name, layout.environment?.name]
                + layout.key.map(\.name)).compactMap { $0?.lowercased() })
        let candidates = catalog.columns.filter {
            !used.contains($0.name.lowercased())
                && ($0.isText && $0.length ?? 0 <= 255 || $0.isInteger || $0.type == "enum")
        }.prefix(Self.mostColumns).map(\.name)
        guard !candidates.isEmpty else { return nil }
        let rows: [ArraySlice<SQLValue>]
        do throws(SQLFailure) {
            rows = try self.rows([layout.token.name] + candidates)
        } catch {
            guard error.kind == .permission else { throw error }
            return nil
        }
        for (place, name) in candidates.enumerated() {
            var words: [Bool: Set<String>] = [true: [], false: []]
            for row in rows {
                guard let isApple = isApple(row[row.startIndex]) else { continue }
                let value = row[row.startIndex + place + 1]
                words[isApple]?.insert(value.text ?? value.integer.map(String.init) ?? "")
            }
            guard let own = words[true], own.count == 1, let word = own.first,
                let others = words[false], !others.isEmpty, others.count <= Self.mostColumns,
                !others.contains(word), (1...Self.longestWord).contains(word.count),
                word.utf8.allSatisfy({ PlainText.isAlphanumeric($0) || $0 == UInt8(ascii: "_") })
            else { continue }
            return
                "column \(name) tells them apart: platform: {column: \(name), value: \(word)} under "
                + "store.active-users leaves the others alone"
        }
        return nil
    }
}
