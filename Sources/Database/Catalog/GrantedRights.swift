// MySQL shows the triggers of a table to accounts with the right TRIGGER on it, and no error to others, so
// an empty list proves nothing. No statement that changes nothing needs that right alone: so its own list
// of an account's rights is read, in which those of active roles are added up. An entry that is not
// understood counts as none, and so does one whose schema is a pattern with wildcards.

import Foundation

/// The rights of an account as the lines of SHOW GRANTS list them.
struct GrantedRights {
    /// One line: rights that are given or taken, and the tables they are for.
    private struct Entry {
        let isRevoked: Bool
        let rights: [String]
        let schema: String
        /// Whether the schema is written with a wildcard, which an underscore is too.
        let isPattern: Bool
        let table: String

        private static let name = #"(`(?:[^`]|``)*`|\*)"#

        init?(_ line: String) {
            let form = "(GRANT|REVOKE) (.+?) ON \(Self.name)\\.\(Self.name) (?:TO|FROM) .*"
            guard let match = try? Regex(form).wholeMatch(in: line) else { return nil }
            let parts = match.output.map { String($0.substring ?? "") }
            isRevoked = parts[1] == "REVOKE"
            // Columns stand in parentheses.
            let words = parts[2].replacing(/`(?:[^`]|``)*`/, with: "")
                .replacing(/\s*\([^)]*\)/, with: "")
            rights = words.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
            let written = Self.unquoted(parts[3])
            schema = written.replacing(/\\([_%])/) { String($0.1) }
            isPattern = written.replacing(/\\[_%]/, with: "").contains { "_%".contains($0) }
            table = Self.unquoted(parts[4])
        }

        private static func unquoted(_ name: String) -> String {
            name == "*" ? name : String(name.dropFirst().dropLast()).replacing("``", with: "`")
        }
    }

    private let entries: [Entry]
    private let ignoresCase: Bool

    /// Reads the lines. `ignoresCase` states that the server takes names of tables for equal whatever
    /// their case.
    init(_ lines: [String], ignoresCase: Bool = false) {
        entries = lines.compactMap(Entry.init)
        self.ignoresCase = ignoresCase
    }

    /// Whether the account has a right on a table: for itself, for its schema or for all. A part that is
    /// taken away again is only one of a right on everything.
    func include(_ right: String, on table: String, of schema: String) -> Bool {
        func word(_ name: String) -> String { ignoresCase ? name.lowercased() : name }
        let fitting = entries.filter {
            !Set([right, "ALL PRIVILEGES"]).isDisjoint(with: $0.rights)
        }
        // Of the entries for a schema the server uses the most specific one alone.
        let isNamed = entries.contains {
            $0.table == "*" && !$0.isPattern && word($0.schema) == word(schema)
        }
        let own = fitting.filter {
            guard word($0.schema) == word(schema) else { return false }
            return $0.table == "*" ? !(isNamed && $0.isPattern) : word($0.table) == word(table)
        }
        if own.contains(where: { !$0.isRevoked }) { return true }
        return own.isEmpty && fitting.contains { $0.schema == "*" && !$0.isRevoked }
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
        let lines = try connection.query("SHOW GRANTS")
        let rights = GrantedRights(
            (0..<lines.count).map { lines[$0, 0].text ?? "" },
            ignoresCase: server[0, 2].count != 0)
        return rights.include("TRIGGER", on: name.name, of: server[0, 1].text ?? "")
    }
}
