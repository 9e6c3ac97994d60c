/// The statements that create the tables of this program in a database.
package struct SchemaScript: Hashable, Sendable {
    /// The statements in order, without closing semicolons.
    package let statements: [String]

    /// Makes a script of given statements.
    package init(statements: [String]) { self.statements = statements }

    /// The script as printed by `schema print`, ready for a database client.
    package var text: String { statements.map { $0 + ";\n" }.joined(separator: "\n") }
}

extension SchemaScript {
    /// The whole schema for a database without any of it. The store's address decides the engine.
    /// Needs no connection.
    package static func whole(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables =
            [PushsweepTable.activeUsers, .pushQueue] + PushsweepTable.sideTables
            + PushsweepTable.queueTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    /// The side tables only, for a database whose own tables do not change.
    package static func sideTables(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables = PushsweepTable.sideTables + PushsweepTable.queueTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    private static func dialect(for location: StoreLocation) -> SQLDialect {
        if case .sqlite = location { .sqlite } else { .mariaDB }
    }
}
