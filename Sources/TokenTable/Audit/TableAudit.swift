// Counts all rows of the token table by what they are. The database counts, because it reads a
// row without sending it: each statement groups the rows of one range of the key (KeyRanges), so
// memory stays flat and no statement is long. The rules are those of the view of sendable rows
// (SendableRows); a test compares the counts with rows that the sender's own code judges.
//
// Nothing is locked. Rows that change during the audit are counted in their old or their new state.

import APNsProtocol
import Database
import TokenHygiene

/// Counts the rows of the token table.
package struct TableAudit {
    /// The most rows of one statement.
    package static let span = 100_000

    private let table: TokenTable
    private let partitions: [Partition]
    private let now: EpochMilliseconds
    private let overwritten: Bool
    private let span: Int
    private let rows: SendableRows
    private var layout: TableLayout { rows.layout }
    private var dialect: SQLDialect { rows.dialect }
    private var connection: any SQLConnection { table.connection }

    /// Prepares the counting. `partitions` are those of the settings, with apps by the table's
    /// value; ages are counted at `now`. With `overwritten`, a row that registered after `now` or has
    /// a later mark counts as that: what it was at `now` its columns do not say.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(
        _ table: TokenTable, _ partitions: [Partition], at now: EpochMilliseconds,
        overwritten: Bool = false, span: Int = TableAudit.span
    ) throws(StoreFailure) {
        self.table = table
        self.partitions = partitions
        self.now = now
        self.overwritten = overwritten
        self.span = span
        let layout = try table.layout()
        // With a column of two values the times of marks are beside it.
        var countsSide = false
        if layout.mark == nil { countsSide = try table.canReadTokenMarks() }
        rows = try table.sendableRows(partitions, countingSideMarks: countsSide)
    }

    /// Counts all rows, range by range. `report` gets the number of rows so far.
    ///
    /// - Returns: the tallies by app and environment of the settings, and the number of rows of
    ///   others; nil if `shouldStop` ended the counting early.
    /// - Throws: any failure of a query.
    package func tallies(
        shouldStop: () -> Bool = { false }, report: (Int) -> Void = { _ in }
    ) throws(StoreFailure) -> (tallies: [Partition: RowTally], others: Int)? {
        let ranges = try KeyRanges(layout, table.catalogTable(), connection, span: span)
        var tallies: [Partition: RowTally] = [:]
        for partition in partitions { tallies[partition] = RowTally() }
        var (others, counted) = (0, 0)
        var position: [SQLValue] = []
        let finder = try PartitionFinder(partitions, layout)
        while true {
            if shouldStop() { return nil }
            guard try table.session.waitForThrottle(shouldStop: shouldStop) else { return nil }
            let start = position
            let (found, end) = try table.retries.retrying("counting the rows of \(layout.table)") {
                () throws(SQLFailure) -> ([(TokenGroup, Int)], [SQLValue]?) in
                let end = try ranges.end(after: start)
                return (try groups(ranges, after: start, upTo: end), end)
            }
            for (group, count) in found {
                counted += count
                guard let partition = finder.partition(of: group) else {
                    others += count
                    continue
                }
                tallies[partition, default: RowTally()].add(group, count)
            }
            report(counted)
            guard let end else { return (tallies, others) }
            position = end
        }
    }

    // MARK: Statement

    private func groups(
        _ ranges: KeyRanges, after position: [SQLValue], upTo end: [SQLValue]?
    ) throws(SQLFailure) -> [(TokenGroup, Int)] {
        let range = ranges.condition(after: position, upTo: end)
        var condition = range.sql
        if !rows.platform.isEmpty {
            condition += " AND " + rows.platform.joined(separator: " AND ")
        }
        let names = ["a", "e", "c", "r", "n", "u", "w"]
        let list = zip(columns, names).map { "\($0) AS \($1)" }.joined(separator: ", ")
        let found = try connection.query(
            "SELECT \(list), COUNT(*) FROM \(ranges.source)\(sideMarks) WHERE \(condition) "
                + "GROUP BY \(names.joined(separator: ", "))", range.values)
        try found.require(width: 8)
        return (0..<found.count).compactMap { row in
            let code = found[row, 2].count ?? 0
            guard let kind = TokenClass(rawValue: code / 100),
                let age = AgeRange(rawValue: code % 100),
                let registration = AgeRange(rawValue: found[row, 3].count ?? 0)
            else { return nil }
            let group = TokenGroup(
                app: found[row, 0], environment: found[row, 1], kind: kind, age: age,
                registration: registration, length: found[row, 4].count ?? 0,
                isUpper: found[row, 5].integer.map { $0 == 1 }, reason: found[row, 6].text)
            return (group, found[row, 7].count ?? 0)
        }
    }

    /// The join with the marks beside the table; empty where none count.
    private var sideMarks: String {
        guard let words = rows.sideMarks else { return "" }
        return " LEFT JOIN pushsweep_invalid ON \(rows.besideToken) "
            + "AND \(rows.beside("app", is: words.app)) "
            + "AND \(rows.beside("environment", is: words.environment))"
    }

    private var columns: [String] {
        [
            value(layout.app), value(layout.environment), kind, registrationKind, length, isUpper,
            reason,
        ]
    }

    private func value(_ column: PartitionColumn?) -> String {
        guard let column else { return "NULL" }
        let name = rows.column(column.name)
        guard !column.isInteger, !column.isExact else { return name }
        // Groups of SQL ignore case and spaces where the collation does.
        return dialect.engine == .mariaDB
            ? "CAST(CONVERT(\(name) USING utf8mb4) AS BINARY)" : "\(name) COLLATE BINARY"
    }

    private var registration: InstantExpression? { layout.registration.map(rows.instant) }

    private var registered: String {
        registration?.milliseconds(roundingUp: true) ?? "NULL"
    }

    private var isUnreadable: String {
        registration.map { "COALESCE(\($0.isUnreadable), 0)" } ?? "0"
    }

    /// The time of the mark in milliseconds; NULL without one.
    private var marked: String {
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
        switch times.count {
        case 0: return "NULL"
        case 1: return times[0]
        default: return "COALESCE(\(times.joined(separator: ", ")))"
        }
    }

    /// A hundred times the class, plus the range of age.
    private var kind: String {
        let isToken = rows.tokenTerms.map { "(\($0))" }.joined(separator: " AND ")
        func code(_ kind: TokenClass, _ time: String? = nil) -> String {
            time.map { "\(kind.rawValue * 100) + \(age($0))" }
                ?? "\(kind.rawValue * 100 + AgeRange.unknown.rawValue)"
        }
        var cases: [(when: String, then: String)] = []
        if overwritten {
            for time in [registered, marked] where time != "NULL" {
                cases.append(("\(time) > \(now.rawValue)", code(.overwritten)))
            }
        }
        cases.append((isEmpty, code(.empty)))
        cases.append((isTruncated, code(.truncated)))
        cases.append(("NOT (\(isToken))", code(.malformed)))
        if let living = layout.living {
            cases.append(("NOT \(rows.living(living))", code(.stale, marked)))
        } else if marked != "NULL" {
            cases.append(("\(marked) IS NULL", code(.living, registered)))
            cases.append(
                (
                    "\(isUnreadable) OR COALESCE(\(registered) > \(marked), 0)",
                    code(.revived, registered)
                ))
            cases.append(("1 = 1", code(.stale, marked)))
        }
        let list = cases.map { "WHEN \($0.when) THEN \($0.then)" }.joined(separator: " ")
        return "CASE \(list) ELSE \(code(.living, registered)) END"
    }

    /// The range of age of a time, as its number.
    private func age(_ time: String) -> String {
        guard time != "NULL" else { return "\(AgeRange.unknown.rawValue)" }
        var cases = [
            "WHEN \(time) IS NULL THEN \(AgeRange.unknown.rawValue)",
            "WHEN \(time) > \(now.rawValue) THEN \(AgeRange.future.rawValue)",
        ]
        for range in AgeRange.allCases {
            guard let days = range.days else { continue }
            cases.append(
                "WHEN \(time) > \(now.rawValue - days * 86_400_000) THEN \(range.rawValue)")
        }
        return "CASE \(cases.joined(separator: " ")) ELSE \(AgeRange.over2Years.rawValue) END"
    }

    private var registrationKind: String {
        guard registration != nil else { return "\(AgeRange.over2Years.rawValue)" }
        return "CASE WHEN \(registered) > \(now.rawValue) THEN \(AgeRange.future.rawValue) "
            + "WHEN \(registered) IS NULL AND NOT \(isUnreadable) "
            + "THEN \(AgeRange.unknown.rawValue) ELSE \(AgeRange.over2Years.rawValue) END"
    }

    private var tokenName: String { rows.column(layout.token.name) }

    private var isEmpty: String {
        let name = tokenName
        switch (layout.token.encoding, dialect.engine) {
        case (.binary, .mariaDB): return "\(name) IS NULL OR OCTET_LENGTH(\(name)) = 0"
        case (.binary, .sqlite): return "\(name) IS NULL OR length(\(name)) = 0"
        case (.hex, .mariaDB):
            return "\(name) IS NULL OR TRIM(\(rows.serverText)) IN ('', '0')"
        case (.hex, .sqlite):
            return "\(name) IS NULL OR trim(CAST(\(name) AS TEXT)) IN ('', '0')"
        }
    }

    private var isTruncated: String {
        guard layout.token.encoding == .hex else { return "0 = 1" }
        return dialect.engine == .mariaDB
            ? "\(rows.serverText) LIKE '{length%'" : "CAST(\(tokenName) AS TEXT) LIKE '{length%'"
    }

    private var length: String {
        let name = tokenName
        switch (layout.token.encoding, dialect.engine) {
        case (.binary, .mariaDB): return "LEAST(OCTET_LENGTH(\(name)), 1025)"
        case (.binary, .sqlite): return "MIN(length(\(name)), 1025)"
        case (.hex, .mariaDB): return "LEAST(CHAR_LENGTH(TRIM(\(name))) DIV 2, 1025)"
        case (.hex, .sqlite): return "MIN(length(trim(CAST(\(name) AS TEXT))) / 2, 1025)"
        }
    }

    private var isUpper: String {
        guard layout.token.encoding == .hex else { return "NULL" }
        // Digits alone are no upper case.
        switch dialect.engine {
        case .mariaDB:
            let text = rows.serverText
            return "CAST(\(text) AS BINARY) <> CAST(LOWER(\(text)) AS BINARY)"
        case .sqlite:
            let text = "CAST(\(tokenName) AS TEXT)"
            return "\(text) COLLATE BINARY <> lower(\(text))"
        }
    }

    private var reason: String {
        var reasons: [String] = []
        if let own = layout.reason { reasons.append(rows.column(own)) }
        if rows.sideMarks != nil { reasons.append("pushsweep_invalid.reason") }
        guard !reasons.isEmpty else { return "NULL" }
        let first = reasons.count == 1 ? reasons[0] : "COALESCE(\(reasons.joined(separator: ", ")))"
        return layout.living == nil ? "CASE WHEN \(marked) IS NOT NULL THEN \(first) END" : first
    }
}

/// Finds the partition of the settings that rows belong to.
struct PartitionFinder {
    private struct Value: Hashable {
        let app: SQLValue
        let environment: SQLValue
    }

    private var partitions: [Value: Partition] = [:]

    init(_ partitions: [Partition], _ layout: TableLayout) throws(StoreFailure) {
        for partition in partitions {
            let app = try layout.app?.value(for: partition.app) ?? .null
            let environment = try layout.environment?.value(for: partition.environment) ?? .null
            self.partitions[Value(app: app, environment: environment)] = partition
        }
    }

    /// The partition of a group; nil for rows that the settings do not name.
    func partition(of group: TokenGroup) -> Partition? {
        partition(app: group.app, environment: group.environment)
    }

    /// The partition of rows with these values; nil for rows that the settings do not name.
    func partition(app: SQLValue, environment: SQLValue) -> Partition? {
        partitions[Value(app: Self.plain(app), environment: Self.plain(environment))]
    }

    /// Text that was compared as bytes.
    private static func plain(_ value: SQLValue) -> SQLValue {
        guard case .bytes(let bytes) = value else { return value }
        return .text(String(decoding: bytes, as: UTF8.self))
    }
}
