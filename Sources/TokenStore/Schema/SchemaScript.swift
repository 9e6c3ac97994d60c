/// The statements that give a database the tables this program works with.
package struct SchemaScript: Hashable, Sendable {
    /// The statements in order, without closing semicolons.
    package let statements: [String]

    /// The script as `schema print` shows it: ready for a database client.
    package var text: String { statements.map { $0 + ";\n" }.joined(separator: "\n") }
}

extension TokenStore {
    /// The whole schema for a database that has none of it yet, for an engine by the store's
    /// address. Needs no connection.
    package static func schema(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables = [OwnTable.activeUsers] + OwnTable.sideTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    /// The side tables alone: what a database needs whose token table stays as it is.
    package static func sideTables(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        return SchemaScript(statements: OwnTable.sideTables.flatMap { $0.creation(dialect) })
    }

    private static func dialect(for location: StoreLocation) -> SQLDialect {
        if case .sqlite = location { .sqlite } else { .mariaDB }
    }

    /// What is missing in this database: tables, and in an existing token table the columns and the
    /// index that make marks and lookups good. Empty when nothing is.
    package func missingSchema() throws(StoreFailure) -> SchemaScript {
        let dialect = connection.dialect
        let name = try TableName(settings.mapping.table)
        let mapping = settings.mapping
        let existing = try attempts.retrying("reading the schema") { () throws(SQLFailure) in
            try Catalog(connection: connection).table(name)
        }
        var statements: [String] = []
        if let existing {
            for column in OwnTable.additions where existing.column(column.name) == nil {
                guard mapping.isDetected(column.name) else { continue }
                statements.append(
                    OwnTable.activeUsers.addition(of: column, to: name, dialect))
            }
            if existing.index(onToken: mapping.token) == nil {
                let index = OwnTable.Index(
                    name: "pushsweep_token", columns: [mapping.token], isUnique: false)
                statements.append(OwnTable.activeUsers.creation(of: index, on: name, dialect))
            }
        } else {
            statements += OwnTable.activeUsers.creation(dialect, named: name)
        }
        for table in OwnTable.sideTables {
            let known = try attempts.retrying("reading the schema") { () throws(SQLFailure) in
                try Catalog(connection: connection).table(TableName(name: table.name))
            }
            if known == nil { statements += table.creation(dialect) }
        }
        return SchemaScript(statements: statements)
    }

    /// Executes what is missing and returns it. A second call finds nothing to do.
    ///
    /// - Throws: `permission` where the account may not change the schema; statements before the
    ///   refused one stand (servers commit each by itself).
    @discardableResult
    package func applySchema() throws(StoreFailure) -> SchemaScript {
        let script = try missingSchema()
        for statement in script.statements {
            let subject = statement.split(separator: "(").first ?? ""
            try attempts.retrying("changing the schema (\(subject.prefix(80)))") {
                () throws(SQLFailure) in
                try connection.run(statement)
            }
        }
        return script
    }
}

extension TableMapping {
    /// Whether a column of ours is looked for under its usual name.
    fileprivate func isDetected(_ name: String) -> Bool {
        switch name {
        case "registered_at": registeredAt.column == .detect
        case "invalidated_at": invalidatedAt.column == .detect
        default: reason == .detect
        }
    }
}

extension CatalogTable {
    /// The index that serves a lookup by token alone, or by token within app and environment.
    func index(onToken token: String, after leading: [String] = []) -> CatalogIndex? {
        let token = token.lowercased()
        let leading = Set(leading.map { $0.lowercased() })
        return indexes.first { index in
            let columns = index.columns.map { $0.lowercased() }
            return columns.first { !leading.contains($0) } == token
        }
    }
}
