import Database
import Encodings

// The statements that rewrite tokens as the searches find them. They run on live tables, so:
//
//   other values    A row changes only if its value is wholly of the spelling, the new value is
//                   another one of the usual length, and the column has room for it. A longer one
//                   changes only its case: of two tokens in one text no statement makes one.
//   unique tokens   After the application stores the new spelling, a device may have a row of each.
//                   The statement leaves out the row whose new value another one has, and a second
//                   one empties the token of that row, or removes the row if it must have a token.
//   registrations   No trigger may take the statement for a registration: it would revive every dead
//                   device. On a server the session says whose it is. SQLite has no such variable;
//                   there the trigger is dropped and made again in one transaction.

/// Writes the statements that rewrite odd spellings of a table's tokens.
struct SpellingRewriting {
    let layout: TableLayout
    let table: CatalogTable
    /// The triggers of the table.
    let triggers: [TableReach.Trigger]
    let dialect: SQLDialect

    private var isServer: Bool { dialect.engine == .mariaDB }

    /// The most characters or bytes of a token; nil without a limit.
    var length: Int? { table.column(layout.token.name)?.length }

    /// What else the statements do, as a part of a sentence; nil where they only rewrite.
    var note: String? {
        guard !uniqueIndexes.isEmpty else { return nil }
        return
            "the column is unique, so of two rows with the same token the one in the odd spelling "
            + (mayBeEmpty ? "loses its token" : "is removed")
    }

    // MARK: Spellings

    /// The statements that rewrite hex in groups, in brackets or in mixed case as plain hex.
    func ungrouping(_ separators: Set<UInt8>) -> [String] {
        let plain = separators.union(" <>".utf8).sorted().reduce(text) {
            "REPLACE(\($0), \(sign($1)), '')"
        }
        let isUsual = "\(characterCount)(\(plain)) = \(UnfindableSpelling.usualDigits)"
        // A longer one has nothing between its digits.
        let isWhole =
            "\(isLongHex(plain)) AND \(characterCount)(TRIM(\(text))) = \(characterCount)(\(plain))"
        return rewriting(
            as: "LOWER(\(plain))", where: "(\(isPlainHex(plain)) AND \(isUsual) OR \(isWhole))")
    }

    private func sign(_ byte: UInt8) -> String {
        dialect.literal(String(decoding: [byte], as: UTF8.self))
    }

    /// The statements that cut off what stands before the hex.
    func cutting(_ prefix: String) -> [String] {
        let count = prefix.unicodeScalars.count
        let rest = "SUBSTR(\(text), \(count + 1))"
        return rewriting(
            as: "LOWER(\(rest))",
            where: "SUBSTR(\(text), 1, \(count)) = \(dialect.literal(prefix)) AND "
                + isLongHex(rest))
    }

    /// The statements that rewrite Base64; nil where the engine cannot.
    var base64: [String]? {
        guard isServer else { return nil }
        // 43 and 134 characters are the usual and the longest token without padding.
        let plain = ["-": "+", "_": "/", "=": ""].sorted { $0.key < $1.key }.reduce(text) {
            "REPLACE(\($0), '\($1.key)', '\($1.value)')"
        }
        let bytes =
            "FROM_BASE64(CONCAT(\(plain), REPEAT('=', (4 - CHAR_LENGTH(\(plain)) % 4) % 4)))"
        let token = layout.token.encoding == .binary ? bytes : "LOWER(HEX(\(bytes)))"
        // Hex is longer than Base64, and a session may let the server cut it off.
        let fits = length.map { " AND CHAR_LENGTH(\(token)) <= \($0)" } ?? ""
        return rewriting(
            as: token,
            where: "\(text) REGEXP '^[0-9A-Za-z+/_-]{43,134}=*$' "
                + "AND \(text) REGEXP '[^0-9A-Fa-f]' AND CHAR_LENGTH(\(plain)) % 4 <> 1 "
                + "AND \(bytes) IS NOT NULL\(fits)")
    }

    // MARK: Parts

    private var tableName: String { layout.table.sql(dialect) }

    /// A column of the row that changes, with the table where the statement reads other rows too.
    private func column(_ name: String) -> String {
        let isAlone = isServer && uniqueIndexes.isEmpty
        return isAlone ? dialect.quoted(name) : "\(tableName).\(dialect.quoted(name))"
    }

    private var name: String { column(layout.token.name) }

    /// The token as text. LOWER has no effect on bytes.
    private var text: String {
        isServer && (layout.token.isBinary || layout.token.encoding == .binary)
            ? "CONVERT(\(name) USING latin1)" : name
    }

    private var characterCount: String { isServer ? "CHAR_LENGTH" : "length" }

    private func isPlainHex(_ text: String) -> String {
        isServer ? "\(text) NOT REGEXP '[^0-9A-Fa-f]'" : "\(text) NOT GLOB '*[^0-9A-Fa-f]*'"
    }

    /// Whether a text is hex of the usual length or a greater one.
    private func isLongHex(_ text: String) -> String {
        "\(isPlainHex(text)) AND \(characterCount)(\(text)) >= \(UnfindableSpelling.usualDigits) "
            + "AND \(characterCount)(\(text)) % 2 = 0"
    }

    /// The unique indexes with the token in them, by the names of their other columns.
    private var uniqueIndexes: [[String]] {
        let token = layout.token.name.lowercased()
        return table.indexes.filter(\.isUnique).map { $0.columns }.filter {
            $0.contains { $0.lowercased() == token }
        }.map { $0.filter { $0.lowercased() != token } }
    }

    private var mayBeEmpty: Bool {
        table.column(layout.token.name)?.isNullable == true
            && !table.primaryKey.contains(layout.token.name)
    }

    // MARK: Statements

    /// The statements that give the rows under a condition another token.
    private func rewriting(as value: String, where condition: String) -> [String] {
        var terms = [condition]
        // A server leaves a row alone that gets the values it has.
        if !isServer {
            terms.append("\(value) <> CAST(\(name) AS TEXT) COLLATE BINARY")
        } else if !uniqueIndexes.isEmpty {
            terms.append("CAST(\(value) AS BINARY) <> CAST(\(name) AS BINARY)")
        }
        if let platform = layout.platform {
            let word = platform.column.isInteger ? platform.word : dialect.literal(platform.word)
            terms.append("\(column(platform.column.name)) = \(word)")
        }
        let found = terms.joined(separator: " AND ")
        var assignments = ["\(dialect.quoted(layout.token.name)) = \(value)"]
        assignments += layout.heldColumns.map(dialect.quoted).map { "\($0) = \($0)" }
        let update =
            uniqueIndexes.isEmpty ? "UPDATE" : isServer ? "UPDATE IGNORE" : "UPDATE OR IGNORE"
        return withoutTriggers(
            ["\(update) \(tableName) SET \(assignments.joined(separator: ", ")) WHERE \(found)"]
                + uniqueIndexes.map { clearing(value, where: found, sameIn: $0) })
    }

    /// The statement for rows whose new token another row has, where a unique index covers the token
    /// and these columns.
    private func clearing(
        _ value: String, where condition: String, sameIn columns: [String]
    ) -> String {
        func kept(_ name: String) -> String { "kept.\(dialect.quoted(name))" }
        let isSame = isServer ? "<=>" : "IS"
        let isItself = layout.key.map { "\(kept($0.name)) \(isSame) \(column($0.name))" }
        let terms =
            ["\(kept(layout.token.name)) = \(value)"]
            + columns.map { "\(kept($0)) = \(column($0))" }
            + ["NOT (\(isItself.joined(separator: " AND ")))"]
        let isTaken = terms.joined(separator: " AND ")
        guard isServer else {
            let rows =
                "WHERE \(condition) AND EXISTS (SELECT 1 FROM \(tableName) AS kept WHERE \(isTaken))"
            return mayBeEmpty
                ? "UPDATE \(tableName) SET \(dialect.quoted(layout.token.name)) = NULL \(rows)"
                : "DELETE FROM \(tableName) \(rows)"
        }
        // A server does not read the table that it changes in a subquery.
        let join = "\(tableName) JOIN \(tableName) AS kept ON \(isTaken)"
        return mayBeEmpty
            ? "UPDATE \(join) SET \(name) = NULL WHERE \(condition)"
            : "DELETE \(tableName) FROM \(join) WHERE \(condition)"
    }

    /// Statements in a form in which no trigger of ours takes them for registrations; one of others may.
    private func withoutTriggers(_ statements: [String]) -> [String] {
        if isServer {
            guard layout.mayHaveUpdateTriggers else { return statements }
            return ["SET \(MariaDBConnection.ownMark) = 1"] + statements
                + ["SET \(MariaDBConnection.ownMark) = NULL"]
        }
        let writers = triggers.filter { $0.event == "UPDATE" && layout.owns($0) }
        guard !writers.isEmpty else { return statements }
        let drops = writers.map {
            "DROP TRIGGER "
                + TableName(schema: layout.table.schema, name: $0.name).sql(dialect)
        }
        return ["BEGIN IMMEDIATE"] + drops + statements + writers.map(\.body) + ["COMMIT"]
    }
}
