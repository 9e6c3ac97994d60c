import Database
import Encodings
import TokenHygiene

// The sample comes from the whole range of the key. Without an order a server reads the token's index
// where that has all columns, and so the smallest tokens only: those that begin with a digit, which are
// hex more often than others. The first rows of the key are the oldest ones, of the time before the app
// had another platform. So slices are read, each from a place further on in the key, and each by the
// key's index, whose cost does not depend on the size of the table.
//
//   whole numbers      places at even steps between the least value and the greatest
//   text and bytes     the same between the first and the last, by the bytes after their common start
//   one value only     the next column of the key, within it
//   uneven values      steps find few rows: more slices at doubled distances from both ends
//
// The newest rows are at the end of the key, so the last slice is read from there. A row is in the sample once: where
// the values of a key leave a gap, the steps within it lead to the same rows.
//
// What is wrong in the rows of one place, or in the newest, is wrong in few rows of the table, however many of the
// sample they are (SampledRows).

/// Reads a bounded sample of the rows of a table.
package struct RowSampling {
    /// The number of rows in the sample.
    static let size = 1_000
    /// How many times as many rows of a mixed table are read.
    private static let mixedShare = 20
    /// The number of places in a large table where rows are read.
    private static let slices = 20
    /// The number of distances from each end at which rows are read where steps find few. The last one,
    /// 128,000 rows, bounds the cost.
    private static let distances = 11

    private let connection: any SQLConnection
    /// The table in SQL, with the hint for the index.
    private let table: String
    /// The columns of the key in the order of its index; empty without a key.
    private let order: [String]
    /// The rows that count; nil: all.
    private let platform: PlatformRows?

    private var dialect: SQLDialect { connection.dialect }

    /// The rows that are read to find as many as the sample has.
    private var reach: Int { Self.size * (platform == nil ? 1 : Self.mixedShare) }

    /// Prepares a sample of the rows of Apple's devices.
    init(_ layout: TableLayout, _ catalog: CatalogTable, _ connection: any SQLConnection) {
        self.init(
            catalog, connection, key: layout.key.map(\.name), index: layout.keyIndex,
            platform: layout.platform)
    }

    /// Prepares a sample of all rows of a table that no settings describe.
    package init(_ catalog: CatalogTable, _ connection: any SQLConnection) {
        let key = catalog.primaryKey
        let index = catalog.uniqueIndex(within: key).flatMap { $0.isUsable ? $0.name : nil }
        self.init(catalog, connection, key: key, index: index, platform: nil)
    }

    private init(
        _ catalog: CatalogTable, _ connection: any SQLConnection, key: [String], index: String?,
        platform: PlatformRows?
    ) {
        (self.connection, self.platform) = (connection, platform)
        table = catalog.name.sql(connection.dialect) + connection.dialect.indexHint(index)
        order = catalog.indexes.first { $0.name == index }?.columns ?? key
    }

    /// The rows of the sample with some columns, which are at the start of each row.
    ///
    /// - Throws: any failure of a query.
    package func rows(_ columns: [CatalogColumn]) throws(SQLFailure) -> SampledRows {
        try rows(
            columns.map(\.name),
            as: columns.map { Self.bounded($0, dialect) }.joined(separator: ", "))
    }

    /// The same with the value of an expression behind the columns, which it is made of.
    package func rows(
        _ columns: [CatalogColumn], and expression: String
    ) throws(SQLFailure) -> SampledRows {
        let list = columns.map { Self.bounded($0, dialect) } + [expression]
        return try rows(columns.map(\.name), as: list.joined(separator: ", "))
    }

    /// The most bytes or characters of a value that say what it is.
    package static let longestValue = 4_096

    /// A column in the list of a SELECT, whose long values are cut one character behind what a value may have.
    /// SQLite keeps values of any length and type in any column.
    static func bounded(_ column: CatalogColumn, _ dialect: SQLDialect) -> String {
        let name = dialect.quoted(column.name)
        let cut = "SUBSTR(\(name), 1, \(longestValue + 1))"
        guard dialect.engine == .mariaDB else {
            return
                "CASE WHEN length(CAST(\(name) AS BLOB)) > \(longestValue) THEN \(cut) ELSE \(name) END"
        }
        let isLong = column.isText || column.isBinary || column.type == "json"
        return isLong && column.length ?? .max > longestValue ? cut : name
    }

    /// The same with a list in SQL in place of the columns, of which it is made.
    private func rows(
        _ columns: [String], as list: String
    ) throws(SQLFailure) -> SampledRows {
        guard !order.isEmpty, try isLarger(than: reach) else {
            return SampledRows(
                whole: try slice(Slice(read: reach, most: Self.size), columns, list),
                key: order.count)
        }
        let part = Slice(read: reach / Self.slices, most: Self.size / Self.slices)
        var sample = SampledRows(key: order.count)
        for place in try places(Self.slices - 1) {
            var slice = part
            slice.start = place
            sample.add(try self.slice(slice, columns, list))
        }
        var newest = part
        newest.isReversed = true
        sample.add(newest: try slice(newest, columns, list))
        guard sample.all.count * 2 < Self.size else { return sample }
        sample.leaveOutParts()
        for distance in 0..<Self.distances {
            for isReversed in [false, true] where distance > 0 || !isReversed {
                var slice = part
                slice.skipped = distance == 0 ? 0 : 125 << distance
                slice.isReversed = isReversed
                sample.add(try self.slice(slice, columns, list), share: 1 << distance)
            }
        }
        return sample
    }

    /// The places at which slices begin: values of the first columns of the key. The last value of each is a
    /// step, those before it are the same in all rows, or one of few.
    private func places(
        _ count: Int, within fixed: [(column: String, value: SQLValue)] = []
    ) throws(SQLFailure) -> [[(column: String, value: SQLValue)]] {
        guard let column = order.dropFirst(fixed.count).first else { return [] }
        let (condition, values) = Self.equal(fixed, dialect)
        func end(_ direction: String) throws(SQLFailure) -> SQLValue {
            let list = (fixed.map(\.column) + [column]).map { dialect.quoted($0) + direction }
            return try connection.query(
                "SELECT \(dialect.quoted(column)) FROM \(table)\(condition) "
                    + "ORDER BY \(list.joined(separator: ", ")) LIMIT 1", values
            ).scalar ?? .null
        }
        let (least, greatest) = (try end(""), try end(" DESC"))
        guard fixed.count + 1 < order.count,
            let few = Self.few(least, greatest, atMost: count)
        else { return Self.steps(least, greatest, count).map { fixed + [(column, $0)] } }
        var places: [[(column: String, value: SQLValue)]] = []
        for value in few {
            places += try self.places(max(1, count / few.count), within: fixed + [(column, value)])
        }
        return places
    }

    /// All values between two, where these are so few; nil for more.
    private static func few(
        _ least: SQLValue, _ greatest: SQLValue, atMost count: Int
    ) -> [SQLValue]? {
        if least == greatest { return [least] }
        // Rows may change between the two statements.
        guard case (.integer(let first), .integer(let last)) = (least, greatest), first < last,
            case (let span, false) = last.subtractingReportingOverflow(first), span < count
        else { return nil }
        return (first...last).map(SQLValue.integer)
    }

    /// Values between two of a column, at most `count` and the first included; none where they have no middle
    /// to count to.
    static func steps(
        _ least: SQLValue, _ greatest: SQLValue, _ count: Int = slices
    ) -> [SQLValue] {
        switch (least, greatest) {
        case (.integer(let first), .integer(let last)):
            guard first <= last, count > 0 else { return [] }
            let step = max(1, last / Int64(count) &- first / Int64(count))
            // The products may pass the range, the sums do not.
            return (0..<Int64(count)).map { first &+ step &* $0 }.filter { (first...last) ~= $0 }
                .map(SQLValue.integer)
        case (.text(let first), .text(let last)):
            // A step within a character would be no text.
            return steps(Array(first.utf8), Array(last.utf8), count).map { bytes in
                .text(String(decoding: bytes.map { min(max($0, 0x21), 0x7E) }, as: UTF8.self))
            }
        case (.bytes(let first), .bytes(let last)):
            return steps(first, last, count).map(SQLValue.bytes)
        default: return []
        }
    }

    private static func steps(
        _ least: [UInt8], _ greatest: [UInt8], _ count: Int
    ) -> [[UInt8]] {
        let start = zip(least, greatest).prefix { $0 == $1 }.count
        func number(_ bytes: [UInt8]) -> UInt64 {
            (0..<6).reduce(0) { $0 << 8 | UInt64(bytes.dropFirst(start + $1).first ?? 0) }
        }
        let (first, last) = (number(least), number(greatest))
        guard first < last else { return [] }
        return (0..<UInt64(count)).map { place in
            let value = first + (last - first) / UInt64(count) * place
            return least.prefix(start)
                + (0..<6).map { UInt8(truncatingIfNeeded: value >> (40 - 8 * $0)) }
        }
    }

    private static func equal(
        _ fixed: [(column: String, value: SQLValue)], _ dialect: SQLDialect
    ) -> (sql: String, values: [SQLValue]) {
        guard !fixed.isEmpty else { return ("", []) }
        let terms = fixed.map { "\(dialect.quoted($0.column)) = ?" }
        return (" WHERE \(terms.joined(separator: " AND "))", fixed.map(\.value))
    }

    private func isLarger(than count: Int) throws(SQLFailure) -> Bool {
        let key = order.map(dialect.quoted).joined(separator: ", ")
        return try connection.query(
            "SELECT 1 FROM \(table) ORDER BY \(key) LIMIT 1 OFFSET \(count)"
        ).count > 0
    }

    /// A part of the sample.
    private struct Slice {
        /// The most rows that are read, and those of them, of Apple's devices, that are taken.
        let read: Int
        let most: Int
        /// Where it begins, as `places` gives it; empty for an end of the key.
        var start: [(column: String, value: SQLValue)] = []
        /// The rows that are passed over from there.
        var skipped = 0
        var isReversed = false
    }

    /// The rows of a slice in the order of the key, with the values of the key behind the list.
    private func slice(
        _ slice: Slice, _ columns: [String], _ list: String
    ) throws(SQLFailure) -> [ArraySlice<SQLValue>] {
        let ordered = order
        let list = ([list] + ordered.map(dialect.quoted)).joined(separator: ", ")
        var (sql, values) = Self.equal(Array(slice.start.dropLast()), dialect)
        if let last = slice.start.last {
            sql += "\(sql.isEmpty ? " WHERE" : " AND") \(dialect.quoted(last.column)) >= ?"
            values.append(last.value)
        }
        if !ordered.isEmpty {
            sql += " ORDER BY "
            sql += ordered.map { dialect.quoted($0) + (slice.isReversed ? " DESC" : "") }
                .joined(separator: ", ")
        }
        let end = slice.skipped > 0 ? " OFFSET \(slice.skipped)" : ""
        if let platform {
            // A table with few rows of the platform is not read to its end.
            let condition = platform.condition(dialect)
            let names = columns + ordered + [platform.column.name]
            var seen: Set<ExactText> = []
            // A derived table takes no column twice.
            let all = names.filter { seen.insert(ExactText($0.lowercased())).inserted }
                .map(dialect.quoted)
            sql =
                "SELECT \(list) FROM (SELECT \(all.joined(separator: ", ")) FROM \(table)\(sql) "
                + "LIMIT \(slice.read)\(end)) AS sampled WHERE 1 = 1\(condition.sql) "
                + "LIMIT \(slice.most)"
            values += condition.values
        } else {
            sql = "SELECT \(list) FROM \(table)\(sql) LIMIT \(slice.most)\(end)"
        }
        let rows = try connection.query(sql, values)
        return (0..<rows.count).map { rows.row($0) }
    }
}
