// The statement that counts the rows of a range. It groups them by what their columns say, each
// expression once per row, and leaves all conclusions to RowGroup: the groups are few. Two
// things keep it nearly as fast as a plain aggregate:
//
//   each time is calculated once, and its range of age found by one function on the server
//   what is the same for all rows of a table, such as a missing column, is no term of the grouping

import APNsProtocol
import Database
import TokenHygiene

/// Counts rows of a table by what their columns say.
struct AuditStatement {
    /// The rules of the sender.
    let rows: SendableRows
    /// Where the ranges of ages begin; see `AgeRange.beginnings`.
    private let ages: [Int64]
    private var layout: TableLayout { rows.layout }
    private var dialect: SQLDialect { rows.dialect }

    /// Prepares the statement.
    init(_ rows: SendableRows, _ ages: [Int64]) { (self.rows, self.ages) = (rows, ages) }

    /// The numbers of values that are no token; a token has its length.
    private enum NoToken: Int {
        case empty = 0
        case truncated = -1
        case malformed = -2
    }

    /// Counts the rows of a range of the key.
    ///
    /// - Throws: any failure of the query.
    func groups(
        of source: String, _ range: BoundSQL, on connection: any SQLConnection
    ) throws(SQLFailure) -> [RowGroup] {
        let condition = ([range.sql] + rows.platform).joined(separator: " AND ")
        let columns = columns
        // A number in GROUP BY is a place in the list. A name could be a column of the table.
        let places = columns.indices.filter { columns[$0] != nil }.map { "\($0 + 1)" }
        let list = columns.map { $0 ?? "NULL" }.joined(separator: ", ")
        let found = try connection.query(
            "SELECT \(list), COUNT(*) FROM \(source)\(sideMarks) "
                + "WHERE \(condition) GROUP BY \(places.joined(separator: ", "))", range.values)
        try found.require(width: columns.count + 1)
        return (0..<found.count).map { row in
            func number(_ column: Int) -> Int? { found[row, column].count }
            let form = number(2) ?? NoToken.malformed.rawValue
            return RowGroup(
                app: found[row, 0], environment: found[row, 1], form: Self.form(form),
                registration: layout.registration.map { _ in AgeRange(number: number(4) ?? -1) },
                isUnreadable: number(5) == 1,
                mark: AgeRange(number: number(6) ?? -1),
                isLater: number(7) == 1, isDead: layout.living.map { _ in number(8) == 1 },
                isUpper: number(3).map { $0 == 1 }, storedReason: found[row, 9].text,
                count: number(10) ?? 0)
        }
    }

    private static func form(_ number: Int) -> RowGroup.Form {
        switch NoToken(rawValue: number) {
        case .empty: .empty
        case .truncated: .truncated
        case .malformed: .malformed
        case nil: .token(bytes: number)
        }
    }

    /// The join with the marks beside the table; empty where none count.
    private var sideMarks: String {
        guard let words = rows.sideMarks else { return "" }
        return " LEFT JOIN pushsweep_invalid ON \(rows.besideToken) "
            + "AND \(rows.beside("app", is: words.app)) "
            + "AND \(rows.beside("environment", is: words.environment))"
    }

    /// The columns of the result; nil for those that this table does not need.
    private var columns: [String?] {
        [
            layout.app.map(value), layout.environment.map(value), form, isUpper,
            registered.map(age), isUnreadable, marked.map(age), isLater,
            layout.living.map { "NOT \(rows.living($0))" }, reason,
        ]
    }

    private func value(_ column: PartitionColumn) -> String {
        let name = rows.column(column.name)
        guard !column.isInteger, !column.isExact else { return name }
        // Groups of SQL ignore case and spaces where the collation does.
        return dialect.engine == .mariaDB
            ? "CAST(CONVERT(\(name) USING utf8mb4) AS BINARY)" : "\(name) COLLATE BINARY"
    }

    // MARK: Times

    private var registration: InstantExpression? { layout.registration.map(rows.instant) }

    private var registered: String? { registration?.milliseconds(roundingUp: true) }

    private var isUnreadable: String? {
        guard let registration, !registration.isAlwaysReadable else { return nil }
        return "COALESCE(\(registration.isUnreadable), 0)"
    }

    private var isLater: String? {
        guard layout.living == nil, let registered, let marked else { return nil }
        return "COALESCE(\(registered) > \(marked), 0)"
    }

    /// The time of the mark in milliseconds; nil where rows have none.
    private var marked: String? {
        var times: [String] = []
        if let mark = layout.mark {
            times.append(rows.instant(mark).milliseconds(roundingUp: false))
        }
        if rows.sideMarks != nil {
            let time = dialect.ownTime("invalidated_at")
            times.append(
                InstantExpression(
                    column: time, name: "pushsweep_invalid.\(dialect.quoted(time.name))",
                    isTimestamp: false, dialect: dialect
                ).milliseconds(roundingUp: false))
        }
        return first(of: times)
    }

    private func first(of values: [String]) -> String? {
        values.count > 1 ? "COALESCE(\(values.joined(separator: ", ")))" : values.first
    }

    /// The number of a time; see `AgeScale`.
    private func age(_ time: String) -> String {
        if dialect.engine == .mariaDB {
            return "INTERVAL(\(time), \(ages.map(String.init).joined(separator: ", ")))"
        }
        // Without the LIMIT the engine writes the expression into each comparison and calculates it there.
        let instant = "pushsweep_instant"
        let cases = ages.enumerated().reversed().map {
            "WHEN \(instant) >= \($0.element) THEN \($0.offset + 1)"
        }
        return "(SELECT CASE WHEN \(instant) IS NULL THEN -1 \(cases.joined(separator: " ")) "
            + "ELSE 0 END FROM (SELECT \(time) AS \(instant) LIMIT 1))"
    }

    // MARK: Token

    private var tokenName: String { rows.column(layout.token.name) }

    /// The length of a token, or a number of `NoToken`. Most values are tokens, so that comes first.
    private var form: String {
        let isToken = rows.tokenTerms.map { "(\($0))" }.joined(separator: " AND ")
        let isTruncated = isTruncated.map { "WHEN \($0) THEN \(NoToken.truncated.rawValue) " } ?? ""
        return "CASE WHEN \(isToken) THEN \(length) WHEN \(isEmpty) "
            + "THEN \(NoToken.empty.rawValue) \(isTruncated)ELSE \(NoToken.malformed.rawValue) END"
    }

    private var isEmpty: String {
        layout.token.encoding == .binary
            ? "\(tokenName) IS NULL OR LENGTH(\(tokenName)) = 0"
            : "\(tokenName) IS NULL OR TRIM(\(rows.hexText)) IN ('', '0')"
    }

    private var isTruncated: String? {
        layout.token.encoding == .hex ? "\(rows.hexText) LIKE '{length%'" : nil
    }

    private var length: String {
        let isServer = dialect.engine == .mariaDB
        var length = "LENGTH(\(tokenName))"
        if layout.token.encoding == .hex {
            length =
                isServer
                ? "CHAR_LENGTH(TRIM(\(tokenName))) DIV 2" : "LENGTH(TRIM(\(rows.hexText))) / 2"
        }
        return "\(isServer ? "LEAST" : "MIN")(\(length), \(RowGroup.longest + 1))"
    }

    private var isUpper: String? {
        guard layout.token.encoding == .hex else { return nil }
        // Digits alone are no upper case.
        let text = rows.hexText
        return dialect.engine == .mariaDB
            ? "CAST(\(text) AS BINARY) <> CAST(LOWER(\(text)) AS BINARY)"
            : "\(text) COLLATE BINARY <> LOWER(\(text))"
    }

    private var reason: String? {
        var reasons: [String] = []
        if let own = layout.reason { reasons.append(rows.column(own)) }
        if rows.sideMarks != nil { reasons.append("pushsweep_invalid.reason") }
        return first(of: reasons)
    }
}
