/// The statements that give a database the tables this program works with.
package struct SchemaScript: Hashable, Sendable {
    /// The statements in order, without closing semicolons.
    package let statements: [String]

    /// A script of given statements.
    package init(statements: [String]) { self.statements = statements }

    /// The script as `schema print` shows it: ready for a database client.
    package var text: String { statements.map { $0 + ";\n" }.joined(separator: "\n") }
}

extension SchemaScript {
    /// The whole schema for a database that has none of it yet, for an engine by the store's
    /// address. Needs no connection.
    package static func whole(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables =
            [PushsweepTable.activeUsers, .pushQueue] + PushsweepTable.sideTables
            + PushsweepTable.queueTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    /// The side tables alone: what a database needs whose own tables stay as they are.
    package static func sideTables(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables = PushsweepTable.sideTables + PushsweepTable.queueTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    private static func dialect(for location: StoreLocation) -> SQLDialect {
        if case .sqlite = location { .sqlite } else { .mariaDB }
    }
}
