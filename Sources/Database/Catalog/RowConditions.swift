// A removed row has to come back. An INSERT is refused where the row breaks a rule of the table that it
// broke already while it was there, because the rule was not applied when it was written:
//
//   SQLite     foreign keys apply only in connections that ask for them, and many programs do not; this
//              one does
//   MariaDB    a session may set check_constraint_checks to 0
//
// MySQL applies a CHECK to every row. A server's foreign keys can be switched off in a session, too; to
// see that takes a right on the other table, which an account for sweeps does not have.

import Encodings

extension Catalog {
    /// Conditions in SQL that a row has to meet so that the table would accept it again; each is false
    /// for a row that breaks a rule.
    ///
    /// - Throws: any failure of a query.
    package func insertConditions(_ name: TableName) throws(SQLFailure) -> [String] {
        switch connection.dialect.engine {
        case .mariaDB: try checks(name)
        case .sqlite: try parents(name)
        }
    }

    /// The list of checks in information_schema is empty for an account with rights on the table alone;
    /// the statement that makes the table is not.
    private func checks(_ name: TableName) throws(SQLFailure) -> [String] {
        let version = try connection.query("SELECT VERSION()").scalar?.text ?? ""
        guard version.contains("MariaDB") else { return [] }
        do throws(SQLFailure) {
            let rows = try connection.query("SHOW CREATE TABLE \(name.sql(connection.dialect))")
            guard rows.count > 0 else { return [] }
            return Self.checks(in: rows[0, 1].text ?? "").map { "\($0) IS NOT FALSE" }
        } catch {
            // An account that removes rows may read them whole.
            guard error.kind == .permission else { throw error }
            return []
        }
    }

    /// The conditions of the checks in a statement that makes a table, in parentheses.
    static func checks(in statement: String) -> [String] {
        var found: [String] = []
        var (clause, depth) = (String.UnicodeScalarView(), 0)
        var (quote, isEscaped): (Unicode.Scalar?, Bool) = (nil, false)
        var rest = statement.unicodeScalars[...]
        let beginning = " CHECK (".unicodeScalars
        while let character = rest.first {
            if quote == nil, depth == 0, rest.starts(with: beginning) {
                rest.removeFirst(beginning.count)
                (clause, depth) = (String.UnicodeScalarView(["("]), 1)
                continue
            }
            rest.removeFirst()
            if depth > 0 { clause.append(character) }
            if let end = quote {
                if isEscaped {
                    isEscaped = false
                } else if character == "\\" && end != "`" {
                    isEscaped = true
                } else if character == end {
                    quote = nil
                }
            } else if quotes[character] == character {
                quote = character
            } else if depth > 0 {
                depth += character == "(" ? 1 : character == ")" ? -1 : 0
                if depth == 0 { found.append(String(clause)) }
            }
        }
        return found
    }

    /// A condition for each foreign key: the row that it refers to is there, or a part of it is NULL.
    private func parents(_ name: TableName) throws(SQLFailure) -> [String] {
        let dialect = connection.dialect
        let schema = name.schema ?? "main"
        let rows = try connection.query(
            "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?, ?) ORDER BY id, seq",
            [.text(name.name), .text(schema)])
        var keys: [Int: (parent: String, own: [String], other: [String?])] = [:]
        for row in 0..<rows.count {
            guard let id = rows[row, 0].count, let parent = rows[row, 1].text,
                let own = rows[row, 2].text
            else { continue }
            keys[id, default: (parent, [], [])].own.append(own)
            keys[id]?.other.append(rows[row, 3].text)
        }
        var conditions: [String] = []
        for (_, key) in keys.sorted(by: { $0.key < $1.key }) {
            let known = try connection.query(
                "SELECT name, pk FROM pragma_table_info(?, ?) ORDER BY pk",
                [.text(key.parent), .text(schema)])
            let columns = (0..<known.count).map {
                (name: known[$0, 0].text, place: known[$0, 1].count)
            }
            let primary = columns.filter { $0.place != 0 }.map(\.name)
            let other = key.other.contains(nil) ? primary : key.other
            let names = Set(columns.map { $0.name.map { ExactText($0.lowercased()) } })
            guard other.count == key.own.count,
                other.allSatisfy({ names.contains($0.map { ExactText($0.lowercased()) }) })
            else {
                // Every INSERT fails where the other table or its key is missing.
                conditions.append("0")
                continue
            }
            let own = key.own.map { "\(name.sql(dialect)).\(dialect.quoted($0))" }
            let same = zip(other, own).map { "parent.\(dialect.quoted($0 ?? "")) = \($1)" }
            let parent = TableName(schema: name.schema, name: key.parent).sql(dialect)
            conditions.append(
                "(\((own.map { "\($0) IS NULL" }).joined(separator: " OR ")) OR EXISTS "
                    + "(SELECT 1 FROM \(parent) AS parent WHERE \(same.joined(separator: " AND "))))"
            )
        }
        return conditions
    }
}
