import APNsProtocol
import Database
import Encodings
import TokenHygiene

// A statement searches a token in the spellings that programs write, so that an index serves it.
// Other spellings of the same token can be read by people, but no search finds them. `check` tells
// which ones a column has, and prints the statement that rewrites them as plain lower-case hex. Each
// statement leaves every value alone that is not of its spelling: identifiers of other platforms,
// shortened descriptions and placeholders may be in the same column.

/// A spelling of tokens that no search finds.
enum UnfindableSpelling: Hashable {
    /// Hex with these characters between the digits or around them, or of both cases.
    case grouped(Set<UInt8>)
    /// Hex after these characters.
    case prefixed(String)
    /// Base64 in either alphabet, with or without padding.
    case base64

    /// Digits of the tokens that Apple issues today. Other identifiers are shorter, and those of
    /// Android are longer than `mostBytes`.
    fileprivate static let usualDigits = 64
    /// Bytes of the longest token that Apple announced.
    fileprivate static let mostBytes = 100
    /// Characters that programs put between groups of digits or around them.
    fileprivate static let separators = Array(" <>[](){}:-.,;\"'|/_".utf8)
    private static let longestPrefix = 32

    /// The spelling of a text that a search does not find; nil for plain hex and for other texts.
    init?(ofText text: [UInt8]) {
        let digits = text.filter { Hex.value(of: $0) != nil }
        if digits.count == text.count { return nil }
        let used = Set(text).intersection(Self.separators)
        if digits.count == Self.usualDigits,
            text.count(where: used.contains) + digits.count == text.count
        {
            self = .grouped(used)
        } else if let prefix = Self.prefix(text) {
            self = .prefixed(prefix)
        } else if Self.isBase64(text) {
            self = .base64
        } else {
            return nil
        }
    }

    /// The characters before a token in hex. Letters that are hex digits too are part of the digits, so
    /// without a separator only the usual number of digits tells where the token begins.
    private static func prefix(_ text: [UInt8]) -> String? {
        let digits = text.reversed().prefix { Hex.value(of: $0) != nil }.count
        let prefix = text.dropLast(digits)
        guard (1...longestPrefix).contains(prefix.count), digits % 2 == 0,
            let last = prefix.last, digits >= usualDigits,
            digits == usualDigits || !PlainText.isAlphanumeric(last),
            let word = String(validating: prefix, as: UTF8.self)
        else { return nil }
        return PlainText.hasControlCharacter(word) ? nil : word
    }

    /// Whether a text is base64 of as many bytes as a token may have, and no hex.
    static func isBase64(_ text: [UInt8]) -> Bool {
        let unpadded = text.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()
        guard text.count - unpadded.count <= 2,
            unpadded.contains(where: { Hex.value(of: $0) == nil })
        else { return false }
        let plain = unpadded.map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        guard let bytes = Base64URL.decode(plain) else { return false }
        return (usualDigits / 2...mostBytes).contains(bytes.count)
    }
}

extension TokenColumn {
    /// The spelling of a stored token that no search finds; nil for one that is found, and for a
    /// value that is no token.
    func unfindableSpelling(of value: SQLValue) -> UnfindableSpelling? {
        let text: [UInt8]
        switch (encoding, value) {
        case (.hex, .text(let word)): text = Array(word.utf8)
        case (_, .bytes(let bytes)): text = bytes
        default: return nil
        }
        if encoding == .binary { return UnfindableSpelling.isBase64(text) ? .base64 : nil }
        if isScattered(value) { return .grouped(Set(" <>".utf8)) }
        guard token(value) == nil else { return nil }
        return UnfindableSpelling(ofText: text)
    }
}

extension TableLayout {
    /// The findings about tokens in spellings that no search finds, each with the statement that
    /// rewrites them.
    func spellingFindings(
        _ counts: [UnfindableSpelling: Int], of total: Int, _ table: CatalogTable,
        _ dialect: SQLDialect
    ) -> [StoreFinding] {
        var findings: [StoreFinding] = []
        var grouped = (count: 0, separators: Set<UInt8>())
        var prefixes: [(word: String, count: Int)] = []
        for (spelling, count) in counts {
            switch spelling {
            case .grouped(let separators):
                grouped.count += count
                grouped.separators.formUnion(separators)
            case .prefixed(let word): prefixes.append((word, count))
            case .base64:
                findings.append(
                    finding(
                        "\(count) of \(total) rows read have Base64", dialect, table,
                        base64(dialect)))
            }
        }
        if grouped.count > 0 {
            findings.append(
                finding(
                    "\(grouped.count) of \(total) rows read have hex in groups, in brackets or in "
                        + "mixed case", dialect, table, ungrouping(grouped.separators, dialect)))
        }
        // Apps, devices or users may be in front of each token; then one example tells enough.
        for prefix in prefixes.sorted(by: { ($1.count, $0.word) < ($0.count, $1.word) }).prefix(3) {
            findings.append(
                finding(
                    "\(prefix.count) of \(total) rows read have hex after `\(prefix.word)`",
                    dialect,
                    table, cutting(prefix.word, dialect)))
        }
        return findings
    }

    private func finding(
        _ what: String, _ dialect: SQLDialect, _ table: CatalogTable, _ statement: String?
    ) -> StoreFinding {
        let form = token.encoding == .binary ? "the bytes of tokens" : "plain lower-case hex"
        var cure = "let the app store \(form), then run \(statement ?? "")"
        if statement == nil {
            cure =
                "SQLite has no function that makes bytes of it, so let the app store \(form) and "
                + "rewrite the rows"
        } else if dialect.engine == .mariaDB, hasUpdateTriggers {
            cure =
                "let the app store \(form), then run SET \(MariaDBConnection.ownMark) = 1, so that no "
                + "trigger takes it for a registration, and in the same session \(statement ?? "")"
        }
        var room = ""
        if token.encoding == .hex, let length = table.column(token.name)?.length,
            length < UnfindableSpelling.usualDigits
        {
            room = "widen the column to VARCHAR(200), "
        }
        return StoreFinding(
            .refusedByCheck,
            "column \(token.name) of \(self.table): \(what), and sweep, send and enqueue find none of "
                + "their tokens; \(room)\(cure)")
    }

    // MARK: Statements

    /// The column as text. LOWER has no effect on bytes.
    private func text(_ dialect: SQLDialect) -> String {
        let name = dialect.quoted(token.name)
        return dialect.engine == .mariaDB && (token.isBinary || token.encoding == .binary)
            ? "CONVERT(\(name) USING latin1)" : name
    }

    /// The statement that gives the rows under a condition another token.
    private func rewriting(
        as value: String, where condition: String, _ dialect: SQLDialect
    ) -> String {
        var assignments = ["\(dialect.quoted(token.name)) = \(value)"]
        if registrationMovesItself, let registration {
            let column = dialect.quoted(registration.name)
            assignments.append("\(column) = \(column)")
        }
        var condition = condition
        if let platform {
            let word =
                platform.column.isInteger ? platform.word : dialect.literal(platform.word)
            condition += " AND \(dialect.quoted(platform.column.name)) = \(word)"
        }
        return "UPDATE \(table.sql(dialect)) SET \(assignments.joined(separator: ", ")) WHERE "
            + condition
    }

    /// The statement that rewrites hex in groups, in brackets or in mixed case as plain hex.
    private func ungrouping(_ separators: Set<UInt8>, _ dialect: SQLDialect) -> String {
        let text = text(dialect)
        let characters = separators.union(" <>".utf8).sorted().map {
            String(decoding: [$0], as: UTF8.self)
        }
        let plain = characters.reduce(text) {
            "REPLACE(\($0), \(dialect.literal($1)), '')"
        }
        // Rows of other forms, such as shortened descriptions, stay as they are.
        let usual = Set(" <>".utf8)
        let isHex: String
        if separators.isSubset(of: usual) {
            isHex =
                dialect.engine == .mariaDB
                ? "\(text) NOT REGEXP '[^0-9A-Fa-f <>]'" : "\(text) NOT GLOB '*[^0-9A-Fa-f <>]*'"
        } else {
            isHex =
                isPlainHex(plain, dialect)
                + " AND LENGTH(\(plain)) = \(UnfindableSpelling.usualDigits)"
        }
        return rewriting(
            as: "LOWER(\(plain))", where: "\(isHex) AND \(text) <> ''", dialect)
    }

    private func isPlainHex(_ text: String, _ dialect: SQLDialect) -> String {
        dialect.engine == .mariaDB
            ? "\(text) NOT REGEXP '[^0-9A-Fa-f]'" : "\(text) NOT GLOB '*[^0-9A-Fa-f]*'"
    }

    /// The statement that cuts off what stands before the hex.
    private func cutting(_ prefix: String, _ dialect: SQLDialect) -> String {
        let text = text(dialect)
        let count = prefix.unicodeScalars.count
        let rest = "SUBSTR(\(text), \(count + 1))"
        let length = dialect.engine == .mariaDB ? "CHAR_LENGTH" : "length"
        return rewriting(
            as: "LOWER(\(rest))",
            where: "SUBSTR(\(text), 1, \(count)) = \(dialect.literal(prefix)) "
                + "AND \(isPlainHex(rest, dialect)) AND \(length)(\(rest)) >= "
                + "\(UnfindableSpelling.usualDigits) AND \(length)(\(rest)) % 2 = 0", dialect)
    }

    /// The statement that rewrites Base64; nil where the engine cannot.
    private func base64(_ dialect: SQLDialect) -> String? {
        let text = text(dialect)
        // 43 and 134 characters are the usual and the longest token without padding.
        switch dialect.engine {
        case .mariaDB:
            let plain = ["-": "+", "_": "/", "=": ""].sorted { $0.key < $1.key }.reduce(text) {
                "REPLACE(\($0), '\($1.key)', '\($1.value)')"
            }
            let bytes =
                "FROM_BASE64(CONCAT(\(plain), REPEAT('=', (4 - CHAR_LENGTH(\(plain)) % 4) % 4)))"
            return rewriting(
                as: token.encoding == .binary ? bytes : "LOWER(HEX(\(bytes)))",
                where: "\(text) REGEXP '^[0-9A-Za-z+/_-]{43,134}=*$' "
                    + "AND \(text) REGEXP '[^0-9A-Fa-f]' AND CHAR_LENGTH(\(plain)) % 4 <> 1",
                dialect)
        case .sqlite:
            guard token.encoding == .hex else { return nil }
            let name = "\(dialect.quoted(table.name)).\(dialect.quoted(token.name))"
            let plain = "replace(replace(rtrim(\(name), '='), '-', '+'), '_', '/')"
            let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            let bits = [262_144, 4_096, 64, 1].enumerated().map {
                "max(instr('\(alphabet)', substr(\(plain), place + \($0.offset), 1)) - 1, 0) * "
                    + "\($0.element)"
            }.joined(separator: " + ")
            return rewriting(
                as:
                    "(WITH RECURSIVE decoded(place, hex) AS (SELECT 1, '' UNION ALL SELECT place + 4, "
                    + "hex || printf('%06x', \(bits)) FROM decoded WHERE place <= length(\(plain))) "
                    + "SELECT substr(hex, 1, length(\(plain)) * 3 / 4 * 2) FROM decoded "
                    + "ORDER BY place DESC LIMIT 1)",
                where: "typeof(\(name)) = 'text' AND length(\(plain)) BETWEEN 43 AND 134 "
                    + "AND \(plain) NOT GLOB '*[^0-9A-Za-z+/]*' AND \(name) GLOB '*[^0-9A-Fa-f]*' "
                    + "AND length(\(plain)) % 4 <> 1", dialect)
        }
    }
}
