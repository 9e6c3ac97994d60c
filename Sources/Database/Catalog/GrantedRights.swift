import Encodings

// MySQL shows the triggers of a table to accounts with the right TRIGGER on it, and no error to others, so
// an empty list proves nothing. No statement that changes nothing needs that right alone: so its own list
// of an account's rights is read, in which those of active roles are added up. An entry that is not
// understood counts as none.
//
// The schema of a right on all its tables is a pattern, and of several that fit the server uses the most
// specific one alone. So one of several counts only where it names the schema by every letter. With
// partial_revokes the server takes each schema for a plain name.

// The same list says whether an account sees the foreign keys of all tables: with some right on every one of
// them, and no line that takes it away in a schema. The server's own schemas have no table of an application.

/// The rights of an account as the lines of SHOW GRANTS list them.
struct GrantedRights {
    /// One line: rights that are given or taken, and the tables they are for.
    private struct Entry {
        var isRevoked = false
        var rights: [String] = []
        var schema = ""
        var table = ""
    }

    private let entries: [Entry]
    private let ignoresCase: Bool
    private let hasPatterns: Bool

    /// Reads the lines. `ignoresCase` states that the server takes names of tables for equal whatever
    /// their case, `hasPatterns` that schemas are patterns.
    init(_ lines: [String], ignoresCase: Bool = false, hasPatterns: Bool = true) {
        entries = lines.compactMap(Self.entry)
        self.ignoresCase = ignoresCase
        self.hasPatterns = hasPatterns
    }

    /// Whether the account has a right on a table: for itself, for its schema or for all.
    func include(_ right: String, on table: String, of schema: String) -> Bool {
        func isForSchema(_ entry: Entry) -> Bool {
            guard entry.table == "*", entry.schema != "*" else { return false }
            let (name, pattern) = (word(schema), word(entry.schema))
            return hasPatterns ? Self.fits(name, pattern) : name == pattern
        }
        let patterns = Set(entries.filter(isForSchema).map { word($0.schema) })
        func isFor(_ entry: Entry) -> Bool {
            guard entry.rights.contains(right) || entry.rights.contains("ALL PRIVILEGES") else {
                return false
            }
            guard entry.table == "*" else {
                return word(entry.schema) == word(schema) && word(entry.table) == word(table)
            }
            return entry.schema == "*"
                || isForSchema(entry) && (patterns.count == 1 || !Self.isOpen(entry.schema))
        }
        let fitting = entries.filter(isFor)
        // A part that is taken away again is only one of a right on everything.
        let isTaken = fitting.contains { $0.isRevoked }
        return fitting.contains { !$0.isRevoked && !(isTaken && $0.schema == "*") }
    }

    /// The rights of which any one shows a table.
    private static let showing = [
        "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "REFERENCES", "INDEX", "ALTER",
        "CREATE VIEW", "SHOW VIEW", "TRIGGER",
    ]
    private static let serversOwn: Set<ExactText> = [
        "mysql", "sys", "performance_schema", "information_schema",
    ]

    /// The rights on all tables that show them, each with the schemas in which it was taken away.
    private var wideRights: [Set<ExactText>] {
        let wide = entries.filter { !$0.isRevoked && $0.schema == "*" && $0.table == "*" }
        func names(_ entry: Entry, _ right: String) -> Bool {
            entry.rights.contains(right) || entry.rights.contains("ALL PRIVILEGES")
                || entry.rights.contains("ALL")
        }
        return Self.showing.filter { right in wide.contains { names($0, right) } }.map { right in
            Set(entries.filter { $0.isRevoked && names($0, right) }.map { ExactText($0.schema) })
        }
    }

    /// Whether the account has a right on all tables, at least on those of most schemas.
    var areWide: Bool { !wideRights.isEmpty }

    /// The schemas whose tables the account may not see although it has a right on all tables, in order.
    var hiddenSchemas: [String] {
        let taken = wideRights
        guard let first = taken.first else { return [] }
        return taken.dropFirst().reduce(first) { $0.intersection($1) }
            .subtracting(Self.serversOwn).sorted().map(\.string)
    }

    private func word(_ name: String) -> String { ignoresCase ? name.lowercased() : name }

    private static func entry(_ line: String) -> Entry? {
        let tokens = tokens(line)
        guard let verb = tokens.first?.text, ["GRANT", "REVOKE"].contains(verb) else { return nil }
        var entry = Entry(isRevoked: verb == "REVOKE")
        var depth = 0
        var words: [String] = []
        var rest = tokens.dropFirst()
        while let token = rest.popFirst() {
            if token.isName { continue }
            switch token.text {
            case "(": depth += 1
            case ")": depth -= 1
            case _ where depth > 0: break
            case ",", "ON":
                entry.rights.append(words.joined(separator: " ").uppercased())
                words = []
            default: words.append(token.text)
            }
            guard depth == 0 && token.text == "ON" else { continue }
            let place = Array(rest.prefix(3))
            guard place.count == 3, place[1].text == "." else { return nil }
            (entry.schema, entry.table) = (place[0].text, place[2].text)
            return entry
        }
        return nil
    }

    /// The words, names and signs of a line.
    private static func tokens(_ line: String) -> [(text: String, isName: Bool)] {
        var tokens: [(text: String, isName: Bool)] = []
        var rest = Array(line.unicodeScalars)[...]
        while let scalar = rest.popFirst() {
            if scalar == " " { continue }
            var text = String.UnicodeScalarView()
            if scalar == "`" || scalar == "\"" {
                while let next = rest.popFirst() {
                    if next == scalar {
                        guard rest.first == scalar else { break }
                        rest.removeFirst()
                    }
                    text.append(next)
                }
                tokens.append((String(text), true))
                continue
            }
            text.append(scalar)
            if scalar.properties.isAlphabetic || scalar == "_" {
                while let next = rest.first, next.properties.isAlphabetic || next == "_" {
                    text.append(next)
                    rest.removeFirst()
                }
            }
            tokens.append((String(text), false))
        }
        return tokens
    }

    /// Whether a pattern of LIKE fits more than one name.
    private static func isOpen(_ pattern: String) -> Bool {
        var isEscaped = false
        for sign in pattern.unicodeScalars {
            if !isEscaped && (sign == "%" || sign == "_") { return true }
            isEscaped = sign == "\\" && !isEscaped
        }
        return false
    }

    /// Whether a name fits a pattern of LIKE.
    private static func fits(_ name: String, _ pattern: String) -> Bool {
        fits(Array(name.unicodeScalars)[...], Array(pattern.unicodeScalars)[...])
    }

    private static func fits(
        _ name: ArraySlice<Unicode.Scalar>, _ pattern: ArraySlice<Unicode.Scalar>
    ) -> Bool {
        guard var sign = pattern.first else { return name.isEmpty }
        var left = pattern.dropFirst()
        if sign == "%" {
            return fits(name, left) || !name.isEmpty && fits(name.dropFirst(), pattern)
        }
        let isAny = sign == "_"
        if sign == "\\", let next = left.popFirst() { sign = next }
        guard let first = name.first, isAny || first == sign else { return false }
        return fits(name.dropFirst(), left)
    }
}

extension Catalog {
    /// Whether an account that may change rows of a table sees its triggers, so that an empty list of
    /// them proves that there are none. MariaDB shows their names to every such account.
    ///
    /// - Throws: any failure of a query.
    package func seesTriggers(of name: TableName) throws(SQLFailure) -> Bool {
        guard connection.dialect.engine == .mariaDB else { return true }
        let server = try connection.query(
            "SELECT VERSION(), COALESCE(?, DATABASE()), @@lower_case_table_names",
            [name.schema.map(SQLValue.text) ?? .null])
        guard server.count == 1, let version = server[0, 0].text else { return false }
        if version.contains("MariaDB") { return true }
        return try grantedRights(ignoringCase: server[0, 2].count != 0)
            .include("TRIGGER", on: name.name, of: server[0, 1].text ?? "")
    }

    /// The rights of this connection's account. Those that a server gives to everybody are listed apart.
    ///
    /// - Throws: any failure of a query.
    func grantedRights(ignoringCase: Bool = false) throws(SQLFailure) -> GrantedRights {
        let revokes = try connection.query("SHOW VARIABLES LIKE 'partial_revokes'")
        let own = try connection.query("SHOW GRANTS")
        var lines = (0..<own.count).map { own[$0, 0].text ?? "" }
        // A server that knows no PUBLIC refuses the statement.
        if let all = try? connection.query("SHOW GRANTS FOR PUBLIC") {
            lines += (0..<all.count).map { all[$0, 0].text ?? "" }
        }
        return GrantedRights(
            lines, ignoresCase: ignoringCase,
            hasPatterns: revokes.count == 0 || revokes[0, 1].text != "ON")
    }
}
