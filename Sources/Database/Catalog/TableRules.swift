// The rules of a table that may refuse a change of one row and take that of another. Servers show the kinds of
// rules in information_schema to accounts that may change the table, and the statement that makes the table to
// those that may read all of it. Who sees neither is told nothing, and then any rule may be there.

import Encodings

/// The rules of a table that concern the values of its rows, apart from its indexes.
package struct TableRules: Hashable, Sendable {
    /// Whether it has a CHECK.
    package var hasChecks = false
    /// The columns that refer to other tables, or to other rows of this one, in lower case.
    package var references: Set<ExactText> = []
    /// Whether a row may break one of them already, which the database does not show by an expression; see
    /// `Catalog.insertConditions`.
    package var mayBeBroken = false
    /// Whether a key of SQLite says what becomes of a conflict, such as that the other row is removed.
    package var resolvesConflicts = false

    /// Whether a rule of a table may refuse new values in some columns.
    package func mayRefuse(_ columns: [String], of table: CatalogTable) -> Bool {
        let names = Set(columns.map { ExactText($0.lowercased()) })
        guard !names.isEmpty else { return false }
        if hasChecks || !references.isDisjoint(with: names) { return true }
        let computed = Set(
            table.columns.filter(\.isGenerated).map { ExactText($0.name.lowercased()) })
        return table.indexes.contains { index in
            guard index.isUnique || index.isUniqueInPart else { return false }
            // A condition, or an expression, which has no name, may be about any column.
            let isOpen = index.isUniqueInPart && table.engine == nil
            return isOpen
                || index.columns.contains {
                    let name = ExactText($0.lowercased())
                    return $0.utf8.isEmpty || names.contains(name) || computed.contains(name)
                }
        }
    }
}

extension Catalog {
    /// The rules of a table. Throws any failure of a query.
    package func rules(of name: TableName) throws(SQLFailure) -> TableRules {
        switch connection.dialect.engine {
        case .mariaDB: try serverRules(name)
        case .sqlite: try sqliteRules(name)
        }
    }

    private func serverRules(_ name: TableName) throws(SQLFailure) -> TableRules {
        let place: [SQLValue] = [name.schema.map(SQLValue.text) ?? .null, .text(name.name)]
        let kinds = try connection.query(
            "SELECT DISTINCT CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS "
                + "WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?", place)
        var words = Set((0..<kinds.count).map { ExactText((kinds[$0, 0].text ?? "").lowercased()) })
        if words.isEmpty { words = try shownRules(name) }
        let columns = try connection.query(
            "SELECT DISTINCT COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE "
                + "WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? "
                + "AND (REFERENCED_TABLE_NAME IS NOT NULL OR POSITION_IN_UNIQUE_CONSTRAINT IS NOT NULL)",
            place)
        var rules = TableRules(hasChecks: words.contains("check"))
        for row in 0..<columns.count {
            rules.references.insert(ExactText((columns[row, 0].text ?? "").lowercased()))
        }
        // A session may turn the keys off. The checks of MariaDB are in the conditions of an INSERT.
        rules.mayBeBroken = words.contains("foreign key") || !rules.references.isEmpty
        return rules
    }

    /// The kinds of rules by the statement that makes the table; all where the account may not see it.
    private func shownRules(_ name: TableName) throws(SQLFailure) -> Set<ExactText> {
        do throws(SQLFailure) {
            let rows = try connection.query("SHOW CREATE TABLE \(name.sql(connection.dialect))")
            guard rows.count > 0 else { return [] }
            let words = Self.words(rows[0, 1].text ?? "").filter { !$0.isQuoted }.map(\.text)
            var kinds: Set<ExactText> = []
            if words.contains("check") { kinds.insert("check") }
            if words.contains("foreign") { kinds.insert("foreign key") }
            return kinds
        } catch {
            guard error.kind == .permission else { throw error }
            return ["check", "foreign key"]
        }
    }

    private func sqliteRules(_ name: TableName) throws(SQLFailure) -> TableRules {
        let schema = connection.dialect.quoted(name.schema ?? "main")
        let made = try connection.query(
            "SELECT sql FROM \(schema).sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
            [.text(name.name)])
        let columns = try connection.query(
            "SELECT \"from\" FROM pragma_foreign_key_list(?, ?)",
            [.text(name.name), .text(name.schema ?? "main")])
        var rules = TableRules()
        let words = Self.words(made.scalar?.text ?? "").filter { !$0.isQuoted }.map(\.text)
        rules.hasChecks = words.contains("check")
        rules.resolvesConflicts = words.contains("conflict")
        for row in 0..<columns.count {
            rules.references.insert(ExactText((columns[row, 0].text ?? "").lowercased()))
        }
        // A connection may ignore checks. Its keys are in the conditions of an INSERT.
        rules.mayBeBroken = rules.hasChecks
        return rules
    }
}
