import Database

extension RequiredPrivileges {
    /// The rights to undo changes with given actions.
    static func undoing(
        _ actions: Set<String>, _ layout: TableLayout, _ table: TableName, _ database: String,
        _ dialect: SQLDialect, isDry: Bool
    ) -> [Privilege] {
        let isAboutSideTable = actions.contains { $0.hasPrefix("side-") }
        let tables = [PushsweepTable.run, .feed, .change] + (isAboutSideTable ? [.invalid] : [])
        // Rows that are inserted, or compared after an insert, are read whole.
        let isWhole = actions.contains("insert") || actions.contains("delete") && !isDry
        var rights = [
            Privilege.reading(
                isWhole ? nil : readColumns(layout), of: table, dialect,
                lock: isDry ? "" : dialect.rowLock)
        ]
        guard !isDry else {
            return rights + tables.map { Privilege.sideTable($0, ["SELECT"], database, dialect) }
        }
        if !actions.isDisjoint(with: ["mark", "advance", "restore"]) {
            rights += [marking(layout, table, dialect)].compactMap { $0 }
        }
        if actions.contains("delete") { rights.append(inserting(layout, table, dialect)) }
        if actions.contains("insert") {
            rights.append(deleting(layout.key[0].name, of: table, dialect))
            rights.append(seeingKeys)
        }
        let change = ["SELECT", "INSERT", "UPDATE"]
        rights.append(Privilege.sideTable(.run, change, database, dialect))
        rights.append(Privilege.sideTable(.feed, ["SELECT", "INSERT"], database, dialect))
        rights.append(Privilege.sideTable(.change, ["SELECT", "INSERT"], database, dialect))
        if isAboutSideTable {
            rights.append(Privilege.sideTable(.invalid, change, database, dialect))
            rights.append(
                deleting(
                    "token", of: TableName(schema: database, name: PushsweepTable.invalid.name),
                    dialect))
        }
        return rights
    }

    /// The right to remove rows.
    static func deleting(_ key: String, of table: TableName, _ dialect: SQLDialect) -> Privilege {
        Privilege(
            purpose: "delete rows of", privileges: "DELETE", table: table.sql(dialect),
            // sql_safe_updates refuses a condition without a column.
            probe: "DELETE FROM \(table.sql(dialect)) WHERE \(dialect.quoted(key)) = NULL")
    }

    private static func inserting(
        _ layout: TableLayout, _ table: TableName, _ dialect: SQLDialect
    ) -> Privilege {
        let list = layout.columns.map(dialect.quoted).joined(separator: ", ")
        let name = table.sql(dialect)
        return Privilege(
            purpose: "insert rows into", privileges: "INSERT", table: name,
            probe: "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) WHERE 1 = 0")
    }
}
