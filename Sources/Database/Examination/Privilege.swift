// The code that plans the statements determines the rights they need. The proof of a right is the
// same for all: a statement that needs exactly this right and changes nothing.

/// One grant, and the statement that proves it.
package struct Privilege: Hashable, Sendable {
    /// The purpose, as the middle of a sentence.
    package let purpose: String
    /// The privileges in SQL, such as `SELECT (a, b), UPDATE (c)`.
    package let privileges: String
    /// The table in SQL, with its schema.
    package let table: String
    /// A statement that fails without the right and changes nothing with it; empty where no
    /// statement can prove the right.
    package let probe: String

    /// Makes a right with the statement that proves it.
    package init(purpose: String, privileges: String, table: String, probe: String) {
        self.purpose = purpose
        self.privileges = privileges
        self.table = table
        self.probe = probe
    }
}

extension Privilege {
    /// The right to change columns of a table.
    package static func updating(
        _ names: [String], of table: TableName, _ dialect: SQLDialect, purpose: String
    ) -> Privilege {
        let columns = names.map(dialect.quoted)
        let assignments = columns.map { "\($0) = \($0)" }.joined(separator: ", ")
        return Privilege(
            purpose: purpose, privileges: "UPDATE (\(columns.joined(separator: ", ")))",
            table: table.sql(dialect),
            probe: "UPDATE \(table.sql(dialect)) SET \(assignments) WHERE 1 = 0")
    }

    /// The right to read columns of a table, all of them if nil; `lock` is the end of the
    /// statement.
    package static func reading(
        _ columns: [String]?, of table: TableName, _ dialect: SQLDialect, lock: String
    ) -> Privilege {
        let list = columns?.map(dialect.quoted).joined(separator: ", ")
        return Privilege(
            purpose: "read rows of", privileges: list.map { "SELECT (\($0))" } ?? "SELECT",
            table: table.sql(dialect),
            probe: "SELECT \(list ?? "*") FROM \(table.sql(dialect)) WHERE 1 = 0\(lock)")
    }

    /// The rights on a side table.
    package static func sideTable(
        _ own: PushsweepTable, _ privileges: [String], _ database: String, _ dialect: SQLDialect
    ) -> Privilege {
        let name = TableName(schema: database, name: own.name).sql(dialect)
        let columns = own.columns.map { dialect.quoted($0.name) }
        let list = columns.joined(separator: ", ")
        let column = columns.last ?? ""
        let probe: String
        if privileges.contains("UPDATE") {
            // Requires all three rights in one statement that inserts no row.
            probe =
                "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) AS source WHERE 1 = 0 "
                + "ON DUPLICATE KEY UPDATE \(column) = VALUES(\(column))"
        } else if privileges.contains("INSERT") {
            probe = "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) WHERE 1 = 0"
        } else {
            probe = "SELECT \(list) FROM \(name) WHERE 1 = 0"
        }
        return Privilege(
            purpose: "use", privileges: privileges.joined(separator: ", "), table: name,
            probe: probe)
    }
}

extension Privilege {
    /// The GRANT statement for this right and the account `name` or `name@host`, as CURRENT_USER()
    /// spells it: the last `@` separates the host, names may contain others. Without closing
    /// semicolon.
    package func grant(to user: String) -> String {
        let at = user.unicodeScalars.lastIndex(of: "@")
        let name = at.map { String(user.unicodeScalars[..<$0]) } ?? user
        let host = at.map { String(user.unicodeScalars[$0...].dropFirst()) } ?? "%"
        return "GRANT \(privileges) ON \(table) TO \(Self.literal(name))@\(Self.literal(host))"
    }

    /// A text in quotes; escaped by scalars, because a combining mark may follow a quote.
    private static func literal(_ text: String) -> String {
        var literal = String.UnicodeScalarView(["'"])
        for scalar in text.unicodeScalars {
            if scalar == "'" || scalar == "\\" { literal.append(scalar) }
            literal.append(scalar)
        }
        literal.append("'")
        return String(literal)
    }
}
