/// Makes the privileges for the tables of one database, each with its proof.
package struct PrivilegeMaker {
    /// The database of tables whose name has no schema.
    let database: String
    let dialect: SQLDialect

    /// Makes privileges in the dialect of a server. `database` holds the tables without a schema.
    package init(_ database: String, _ dialect: SQLDialect) {
        self.database = database
        self.dialect = dialect
    }

    /// The table in SQL, always with its schema.
    package func sql(_ table: TableName) -> String {
        TableName(schema: table.schema ?? database, name: table.name).sql(dialect)
    }

    /// Columns in SQL, as a list.
    package func list(_ columns: [String]) -> String {
        columns.map(dialect.quoted).joined(separator: ", ")
    }

    /// The right to read columns of a table, all of them if nil. `lock` is the end of the statement where
    /// the rows are locked too.
    package func reading(
        _ columns: [String]?, of table: TableName, lock: String = ""
    ) -> Privilege {
        let list = columns.map(list)
        return Privilege(
            purpose: "read rows of", privileges: list.map { "SELECT (\($0))" } ?? "SELECT",
            table: sql(table),
            probe: "SELECT \(list ?? "*") FROM \(sql(table)) WHERE 1 = 0\(lock)")
    }

    /// The right to change columns of a table.
    package func updating(
        _ names: [String], of table: TableName, purpose: String
    ) -> Privilege {
        let assignments = names.map(dialect.quoted).map { "\($0) = \($0)" }
        return Privilege(
            purpose: purpose, privileges: "UPDATE (\(list(names)))", table: sql(table),
            probe: "UPDATE \(sql(table)) SET \(assignments.joined(separator: ", ")) WHERE 1 = 0")
    }

    /// The right to see the triggers of a table on MySQL. No statement that changes nothing proves it; see
    /// `Catalog.seesTriggers`. The account could make triggers with it, which run with its own rights.
    package func seeingTriggers(of table: TableName) -> Privilege {
        Privilege(
            purpose: "see the triggers of", privileges: "TRIGGER", table: sql(table), probe: "")
    }

    /// The right to insert whole rows.
    package func inserting(_ columns: [String], into table: TableName) -> Privilege {
        let (list, name) = (list(columns), sql(table))
        return Privilege(
            purpose: "insert rows into", privileges: "INSERT", table: name,
            probe: "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) WHERE 1 = 0")
    }

    /// The right to delete rows, proved by a condition on a column.
    package func deleting(from table: TableName, _ column: String) -> Privilege {
        Privilege(
            purpose: "delete rows of", privileges: "DELETE", table: sql(table),
            // sql_safe_updates refuses a condition without a column.
            probe: "DELETE FROM \(sql(table)) WHERE \(dialect.quoted(column)) = NULL")
    }

    /// The right to delete rows of a side table.
    package func deleting(from own: PushsweepTable) -> Privilege {
        deleting(from: TableName(name: own.name), own.primaryKey[0])
    }

    /// The right to give a side table its numbers back. No statement without an effect proves it.
    package func numbering(_ own: PushsweepTable) -> Privilege {
        Privilege(
            purpose: "number anew the rows of", privileges: "ALTER",
            table: sql(TableName(name: own.name)), probe: "")
    }

    /// The rights on a side table.
    package func sideTable(_ own: PushsweepTable, _ access: SideTableAccess) -> Privilege {
        let name = sql(TableName(name: own.name))
        let list = list(own.columns.map(\.name))
        let column = dialect.quoted(own.columns.last?.name ?? "")
        let probe =
            switch access {
            case .change:
                // Requires all three rights in one statement that inserts no row.
                "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) AS source WHERE 1 = 0 "
                    + "ON DUPLICATE KEY UPDATE \(column) = VALUES(\(column))"
            case .add: "INSERT INTO \(name) (\(list)) SELECT \(list) FROM \(name) WHERE 1 = 0"
            case .read: "SELECT \(list) FROM \(name) WHERE 1 = 0"
            }
        return Privilege(
            purpose: "use", privileges: access.rawValue, table: name, probe: probe)
    }
}

/// What a use of the database does to a side table; the raw value is the list of privileges.
package enum SideTableAccess: String, Hashable, Sendable {
    /// Reads rows.
    case read = "SELECT"
    /// Reads and inserts rows.
    case add = "SELECT, INSERT"
    /// Reads, inserts and updates rows.
    case change = "SELECT, INSERT, UPDATE"
}
