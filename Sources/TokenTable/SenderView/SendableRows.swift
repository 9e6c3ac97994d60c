import Database

// Which rows a sender may send to, as one SQL condition: for a view, and for the WHERE of a sender
// that stays. A row is sendable where `TokenStatusLookup` finds it by its token and does not call
// it stale. The condition repeats each of these rules:
//
//   platform   the row belongs to an Apple device
//   token      the value is a token in a spelling that a search finds
//   mark       the row has no mark, or a registration later than the mark; with a column of two
//              values that column alone decides
//
// A mark is in the row, else in pushsweep_invalid. Names carry the table's name, because the
// condition has a subquery, and so it fits into any SELECT from the table.

/// The condition under which a row of the token table may be sent to.
package struct SendableRows {
    /// How a row names its app and environment in `pushsweep_invalid`.
    enum Word: Hashable {
        /// By a column.
        case column(PartitionColumn)
        /// All rows have the same.
        case constant(String)
    }

    let layout: TableLayout
    let table: CatalogTable
    let dialect: SQLDialect
    /// The app and environment of marks in `pushsweep_invalid`; nil where none count.
    let sideMarks: (app: Word, environment: Word)?

    /// The parts of the condition, which are joined by AND.
    var terms: [String] {
        platform + tokenTerms + mark
    }

    /// The condition of sendable rows for a SELECT that other platforms share: of their rows nothing is known.
    func keepingOtherPlatforms(_ condition: [String]) -> [String] {
        guard let ours = platform.first else { return condition }
        let rest = condition.dropFirst(platform.count).joined(separator: "\n    AND ")
        return ["(NOT COALESCE(\(ours), FALSE)\n    OR \(rest))"]
    }

    func column(_ name: String) -> String {
        "\(layout.table.sql(dialect)).\(dialect.quoted(name))"
    }

    // MARK: Platform and column of two values

    var platform: [String] {
        guard let platform = layout.platform else { return [] }
        let name = column(platform.column.name)
        guard let word = platform.value.text else {
            return ["\(name) = \(platform.word)"]
        }
        return [equality(name, word, isExact: platform.column.isExact, ignoresCase: false)]
    }

    /// Equality of characters, whatever the collation of the column is. The plain comparison lets an
    /// index serve.
    private func equality(
        _ name: String, _ word: String, isExact: Bool, ignoresCase: Bool
    ) -> String {
        let literal = dialect.literal(word)
        if isExact { return "\(name) = \(literal)" }
        guard dialect.engine == .mariaDB else { return "\(name) = \(literal) COLLATE BINARY" }
        func bytes(_ text: String) -> String {
            let text = "CONVERT(\(text) USING utf8mb4)"
            return "CAST(\(ignoresCase ? "LOWER(\(text))" : text) AS BINARY)"
        }
        // LOWER makes ASCII of some other letters.
        let isASCII =
            ignoresCase
            ? " AND OCTET_LENGTH(CONVERT(\(name) USING utf8mb4)) = CHAR_LENGTH(\(name))" : ""
        return "(\(name) = \(literal) AND \(bytes(name)) = \(bytes(literal))\(isASCII))"
    }

    func living(_ living: LivingColumn) -> String {
        let name = column(living.name)
        let isDead: String
        switch living.compared(living.dead) {
        case .text(let word):
            isDead = equality(name, word.string, isExact: false, ignoresCase: living.ignoresCase)
        case .real(let number): isDead = "\(name) = \(number)"
        case let value: isDead = "\(name) = \(value.integer ?? 0)"
        }
        return "(\(name) IS NULL OR NOT \(isDead))"
    }

    // MARK: Token

    var tokenTerms: [String] {
        let name = column(layout.token.name)
        switch (layout.token.encoding, dialect.engine) {
        case (.binary, .mariaDB): return ["OCTET_LENGTH(\(name)) > 0"]
        case (.binary, .sqlite): return ["typeof(\(name)) = 'blob'", "length(\(name)) > 0"]
        case (.hex, .mariaDB):
            // The end of a pattern also matches before a line feed at the end of the text.
            // Spaces there hide the token from a search, unless the comparison ignores them.
            let space = layout.token.ignoresSpaces ? " " : ""
            var terms = [
                "\(serverText) REGEXP '^([0-9A-Fa-f][0-9A-Fa-f])+\(space.isEmpty ? "" : " *")$'",
                "\(serverText) NOT REGEXP '[^0-9A-Fa-f\(space)]'",
            ]
            if layout.token.tellsCaseApart {
                let own = layout.token.isBinary ? " COLLATE latin1_bin" : ""
                terms.append(
                    "(\(serverText)\(own) = LOWER(\(serverText)) OR "
                        + "\(serverText)\(own) = UPPER(\(serverText)))")
            }
            return terms
        case (.hex, .sqlite):
            let text = layout.token.mixesTextAndBytes ? "CAST(\(name) AS TEXT)" : name
            let types = layout.token.mixesTextAndBytes ? "('text', 'blob')" : "('text')"
            return [
                "typeof(\(name)) IN \(types)", "rtrim(\(text)) NOT GLOB '*[^0-9A-Fa-f]*'",
                "length(rtrim(\(text))) > 0", "length(rtrim(\(text))) % 2 = 0",
                // In the column's own collation, as in a search.
                "(\(text) = lower(rtrim(\(text))) OR \(text) = upper(rtrim(\(text))))",
            ]
        }
    }

    /// The column of hex as text.
    var serverText: String {
        let name = column(layout.token.name)
        return layout.token.isBinary ? "CONVERT(\(name) USING latin1)" : name
    }

    /// The same on either engine, where SQLite may have bytes too.
    var hexText: String {
        dialect.engine == .mariaDB ? serverText : "CAST(\(column(layout.token.name)) AS TEXT)"
    }

    // MARK: Mark

    var mark: [String] {
        if let living = layout.living { return [self.living(living)] }
        let registration = layout.registration.map(instant)
        guard let own = layout.mark.map(instant) else {
            return besideTerm(registration).map { [$0] } ?? []
        }
        let name = own.name
        let marked = own.milliseconds(roundingUp: false)
        // Without a time in the row the mark beside counts, and the plain comparison takes a zero date
        // for a time.
        let isDirect = sideMarks == nil && registration?.isComparable(to: own) == true
        let hasNone =
            isDirect || registration == nil && !own.isTimestamp && dialect.engine == .mariaDB
            ? "\(name) IS NULL OR TO_DAYS(\(name)) IS NULL" : "\(marked) IS NULL"
        var parts = [hasNone]
        if case .epochSeconds = own.column.storage { parts = ["\(marked) IS NULL"] }
        if case .epochMilliseconds = own.column.storage { parts = ["\(marked) IS NULL"] }
        if let beside = besideTerm(registration) { parts = ["(\(parts[0])) AND \(beside)"] }
        if let registration {
            parts.append(registration.isUnreadable)
            parts.append(
                isDirect
                    ? "\(registration.name) > \(name)"
                    : "\(registration.milliseconds(roundingUp: true)) > \(marked)")
        }
        return ["(\(parts.joined(separator: " OR ")))"]
    }

    func instant(_ column: TimeColumn) -> InstantExpression {
        InstantExpression(
            column: column, name: self.column(column.name),
            isTimestamp: table.column(column.name)?.type == "timestamp", dialect: dialect)
    }

    /// The condition that no mark in `pushsweep_invalid` counts.
    private func besideTerm(_ registration: InstantExpression?) -> String? {
        guard let sideMarks else { return nil }
        var sql =
            "NOT EXISTS (SELECT 1 FROM pushsweep_invalid WHERE \(besideToken) "
            + "AND \(beside("app", is: sideMarks.app)) "
            + "AND \(beside("environment", is: sideMarks.environment))\(ownResult)"
        if let registration {
            let mark = InstantExpression(
                column: dialect.ownTime("invalidated_at"),
                name: "pushsweep_invalid.\(dialect.quoted("invalidated_at"))", isTimestamp: false,
                dialect: dialect)
            let isLater =
                registration.isComparable(to: mark)
                ? "\(registration.name) > \(mark.name)"
                : "\(registration.milliseconds(roundingUp: true)) > "
                    + mark.milliseconds(roundingUp: false)
            sql +=
                " AND NOT COALESCE(\(registration.isUnreadable), FALSE)"
                + " AND NOT COALESCE(\(isLater), FALSE)"
        }
        return sql + ")"
    }

    /// MariaDB keeps the results of a subquery by the values of the outer row, and takes `chat` and
    /// `Chat` for one value where the collation does. With the row's key every row has its own result.
    private var ownResult: String {
        guard dialect.engine == .mariaDB else { return "" }
        // Hex mixes with no other collation.
        let key = layout.key.map { "HEX(\(column($0.name)))" }.joined(separator: ", ")
        return " AND CONCAT_WS('-', HEX(pushsweep_invalid.app), \(key)) <> ''"
    }

    var besideToken: String {
        let name = column(layout.token.name)
        switch (layout.token.encoding, dialect.engine) {
        case (.binary, _): return "pushsweep_invalid.token = \(name)"
        case (.hex, .mariaDB):
            // UNHEX reads the bytes of wide character sets.
            return "pushsweep_invalid.token = UNHEX(TRIM(CONVERT(\(name) USING latin1)))"
        // SQLite has no function for bytes from hex before 3.41.
        case (.hex, .sqlite):
            return "hex(pushsweep_invalid.token) = upper(rtrim(CAST(\(name) AS TEXT)))"
        }
    }

    func beside(_ own: String, is word: Word) -> String {
        "pushsweep_invalid.\(own) = \(value(of: word))"
    }

    /// What stands in `pushsweep_invalid` for the app or the environment of a row.
    func value(of word: Word) -> String {
        switch word {
        case .constant(let word): return dialect.literal(word)
        case .column(let other):
            var value = column(other.name)
            if !other.values.isEmpty {
                let cases = other.values.sorted { $0.key < $1.key }.map {
                    "WHEN \(other.isInteger ? $0.value : dialect.literal($0.value)) "
                        + "THEN \(dialect.literal($0.key))"
                }
                let rest = other.isInteger ? "" : " ELSE \(value)"
                value = "CASE \(value) \(cases.joined(separator: " "))\(rest) END"
            } else if other.isInteger {
                value =
                    "CAST(\(value) AS \(dialect.engine == .mariaDB ? "CHAR" : "TEXT"))"
            }
            guard dialect.engine == .mariaDB else { return value }
            return "CONVERT(\(value) USING utf8mb4) COLLATE utf8mb4_bin"
        }
    }
}
