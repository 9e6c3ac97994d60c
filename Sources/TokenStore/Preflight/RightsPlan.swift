import TokenHygiene

// Which rights a policy needs, each with a statement that needs exactly them and changes nothing.
// Reading SHOW GRANTS would mean to understand roles, wildcards, PUBLIC and three dialects of them;
// the server already does, and refuses a statement at `WHERE 1 = 0` as it refuses the real one. Such
// a statement also finds a server that is read-only. Column rights where the statements allow them:
// an account that marks can then change nothing but marks.

/// The rights one use of the store needs, in the order in which they are worth checking.
struct RightsPlan {
    /// One grant, and the statement that proves it.
    struct Right: Hashable {
        /// What it is for, as the middle of a sentence.
        let purpose: String
        /// `SELECT (a, b), UPDATE (c)`.
        let privileges: String
        /// The table, with its schema.
        let table: String
        /// Fails without the right and changes nothing with it; empty where no statement tells.
        let probe: String
    }

    let rights: [Right]

    init(rights: [Right]) { self.rights = rights }

    /// Plans for a layout. `database` is where unqualified tables are.
    init(
        _ layout: TableLayout, _ dialect: SQLDialect, database: String, need: StoreNeed,
        hasSideMarks: Bool
    ) {
        let table = TableName(schema: layout.table.schema ?? database, name: layout.table.name)
        var rights: [Right] = []
        switch need {
        case .read:
            rights.append(Self.reading(Self.readColumns(layout), of: table, dialect, lock: ""))
            if hasSideMarks {
                rights.append(Self.sideTable(.invalid, ["SELECT"], database, dialect))
            }
        case .apply(let policy):
            let deletes = policy.action == .delete
            rights.append(
                Self.reading(
                    deletes ? nil : Self.readColumns(layout), of: table, dialect,
                    lock: dialect.rowLock))
            if let marking = Self.marking(layout, table, dialect) { rights.append(marking) }
            if deletes {
                rights.append(Self.deleting(layout.key[0].name, of: table, dialect))
                rights.append(Self.seeingKeys)
            }
            let change = ["SELECT", "INSERT", "UPDATE"]
            for own in [OwnTable.run, .feed, .lease] {
                rights.append(Self.sideTable(own, change, database, dialect))
            }
            rights.append(Self.sideTable(.change, ["SELECT", "INSERT"], database, dialect))
            if layout.mark == nil {
                rights.append(Self.sideTable(.invalid, change, database, dialect))
                if deletes && !policy.deletesAtOnce {
                    rights.append(
                        Self.deleting(
                            "token", of: TableName(schema: database, name: OwnTable.invalid.name),
                            dialect))
                }
            }
        case .undo(let actions, let isDry):
            rights += Self.undoing(actions, layout, table, database, dialect, isDry: isDry)
        case .purge(let isDry):
            for own in [OwnTable.run, .feed, .change] {
                rights.append(Self.sideTable(own, ["SELECT"], database, dialect))
                guard !isDry else { continue }
                rights.append(
                    Self.deleting(
                        own.primaryKey[0], of: TableName(schema: database, name: own.name), dialect)
                )
            }
        }
        self.rights = rights
    }

    /// The right to see which tables refer to others, in all schemas. It lets an account change nothing.
    static let seeingKeys = Right(
        purpose: "see foreign keys of", privileges: "REFERENCES", table: "*.*", probe: "")

    static func updating(
        _ names: [String], of table: TableName, _ dialect: SQLDialect, purpose: String
    ) -> Right {
        let columns = names.map(dialect.quoted)
        let assignments = columns.map { "\($0) = \($0)" }.joined(separator: ", ")
        return Right(
            purpose: purpose, privileges: "UPDATE (\(columns.joined(separator: ", ")))",
            table: table.sql(dialect),
            probe: "UPDATE \(table.sql(dialect)) SET \(assignments) WHERE 1 = 0")
    }

    static func readColumns(_ layout: TableLayout) -> [String] {
        var names = layout.key.map(\.name) + [layout.token.name]
        names += [layout.app?.name, layout.environment?.name, layout.registration?.name]
            .compactMap { $0 }
        names += [layout.mark?.name, layout.reason].compactMap { $0 }
        var seen: Set<String> = []
        return names.filter { seen.insert($0).inserted }
    }

    static func reading(
        _ columns: [String]?, of table: TableName, _ dialect: SQLDialect, lock: String
    ) -> Right {
        let list = columns?.map(dialect.quoted).joined(separator: ", ")
        return Right(
            purpose: "read rows of", privileges: list.map { "SELECT (\($0))" } ?? "SELECT",
            table: table.sql(dialect),
            probe: "SELECT \(list ?? "*") FROM \(table.sql(dialect)) WHERE 1 = 0\(lock)")
    }

    static func marking(
        _ layout: TableLayout, _ table: TableName, _ dialect: SQLDialect
    ) -> Right? {
        guard let mark = layout.mark else { return nil }
        var names = [mark.name] + [layout.reason].compactMap { $0 }
        if layout.registrationMovesItself, let registration = layout.registration {
            names.append(registration.name)
        }
        return updating(names, of: table, dialect, purpose: "mark rows of")
    }

    static func sideTable(
        _ own: OwnTable, _ privileges: [String], _ database: String, _ dialect: SQLDialect
    ) -> Right {
        let name = TableName(schema: database, name: own.name).sql(dialect)
        let columns = own.columns.map { dialect.quoted($0.name) }
        let list = columns.joined(separator: ", ")
        let column = columns.last ?? ""
        let probe: String
        if privileges.contains("UPDATE") {
            // Needs all three rights in one statement that inserts no row.
            probe =
                "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) AS source WHERE 1 = 0 "
                + "ON DUPLICATE KEY UPDATE \(column) = VALUES(\(column))"
        } else if privileges.contains("INSERT") {
            probe = "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) WHERE 1 = 0"
        } else {
            probe = "SELECT \(list) FROM \(name) WHERE 1 = 0"
        }
        return Right(
            purpose: "use", privileges: privileges.joined(separator: ", "), table: name,
            probe: probe)
    }

    /// The GRANT statements for an account.
    func grants(to user: String) -> [String] {
        rights.map { $0.grant(to: user) }
    }
}

extension RightsPlan.Right {
    /// The GRANT statement that gives this right to `name` or `name@host`, as CURRENT_USER() spells
    /// it: the last `@` separates the host, names may have others. Without closing semicolon.
    func grant(to user: String) -> String {
        let at = user.unicodeScalars.lastIndex(of: "@")
        let name = at.map { String(user.unicodeScalars[..<$0]) } ?? user
        let host = at.map { String(user.unicodeScalars[$0...].dropFirst()) } ?? "%"
        return "GRANT \(privileges) ON \(table) TO \(Self.literal(name))@\(Self.literal(host))"
    }

    /// A text in quotes; escaped by scalars, since a quote may carry a combining mark.
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
