import APNsProtocol

/// A table that this program creates: its columns in order and its keys, with types for each
/// engine.
package struct PushsweepTable: Hashable, Sendable {
    /// One column, with its type in MariaDB and in SQLite.
    package struct Column: Hashable, Sendable {
        /// The name, the same in both engines.
        package let name: String
        let server: String
        let sqlite: String

        init(_ name: String, _ server: String, _ sqlite: String) {
            self.name = name
            self.server = server
            self.sqlite = sqlite
        }

        /// Whether it holds characters.
        package var isText: Bool { server.hasPrefix("VARCHAR") }

        /// Whether rows that are there already can do without a value of their own. A table that lacks another
        /// column is of an earlier build.
        package var mayBeAdded: Bool { !server.contains("NOT NULL") || server.contains("DEFAULT") }
    }

    /// An index other than the primary key.
    package struct Index: Hashable, Sendable {
        /// The name, unique within the table.
        package let name: String
        /// The columns in the order of the index.
        package let columns: [String]
        /// Whether no two rows may have the same values in its columns.
        package let isUnique: Bool

        /// Makes an index over columns of the table.
        package init(name: String, columns: [String], isUnique: Bool) {
            self.name = name
            self.columns = columns
            self.isUnique = isUnique
        }
    }

    /// The name that the table has in every database.
    package let name: String
    /// The columns in the order of creation.
    package let columns: [Column]
    /// The columns of the primary key, in its order.
    package let primaryKey: [String]
    /// The indexes besides the primary key.
    package var indexes: [Index] = []
    /// Whether its rows are in the order of the primary key in SQLite too, as they are in InnoDB.
    package var isClustered = false

    /// The statements that create the table and its indexes where it does not exist.
    package func creation(_ dialect: SQLDialect, named table: TableName? = nil) -> [String] {
        let table = table ?? TableName(name: name)
        var lines = columns.map { column in
            "\(dialect.quoted(column.name)) "
                + (dialect.engine == .mariaDB ? column.server : column.sqlite)
        }
        // In SQLite a column declared INTEGER PRIMARY KEY numbers rows automatically.
        if !columns.contains(where: { $0.sqlite.contains("PRIMARY KEY") })
            || dialect.engine == .mariaDB
        {
            lines.append("PRIMARY KEY (\(list(primaryKey, dialect)))")
        }
        var statements: [String] = []
        switch dialect.engine {
        case .mariaDB:
            lines += indexes.map {
                ($0.isUnique ? "UNIQUE KEY " : "KEY ") + dialect.quoted($0.name)
                    + " (\(list($0.columns, dialect)))"
            }
        case .sqlite: statements = indexes.map { creation(of: $0, on: table, dialect) }
        }
        let options =
            dialect.engine == .mariaDB
            ? " ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
            : isClustered ? " WITHOUT ROWID" : ""
        let body = lines.map { "  \($0)" }.joined(separator: ",\n")
        statements.insert(
            "CREATE TABLE IF NOT EXISTS \(table.sql(dialect)) (\n\(body)\n)\(options)", at: 0)
        return statements
    }

    /// The statement that adds an index to an existing table.
    package func creation(of index: Index, on table: TableName, _ dialect: SQLDialect) -> String {
        let unique = index.isUnique ? "UNIQUE " : ""
        switch dialect.engine {
        case .mariaDB:
            return "CREATE \(unique)INDEX \(dialect.quoted(index.name)) ON \(table.sql(dialect)) "
                + "(\(list(index.columns, dialect)))"
        case .sqlite:
            // In SQLite the schema belongs to the index, and the table has to be in the same one.
            let name = TableName(schema: table.schema, name: "\(table.name)_\(index.name)")
            return "CREATE \(unique)INDEX IF NOT EXISTS \(name.sql(dialect)) ON "
                + "\(dialect.quoted(table.name)) (\(list(index.columns, dialect)))"
        }
    }

    /// The statement that adds a column to an existing table.
    package func addition(of column: Column, to table: TableName, _ dialect: SQLDialect) -> String {
        "ALTER TABLE \(table.sql(dialect)) ADD COLUMN \(dialect.quoted(column.name)) "
            + (dialect.engine == .mariaDB ? column.server : column.sqlite)
    }

    /// The columns that an existing table of this name lacks.
    package func absentColumns(of known: CatalogTable) -> [Column] {
        columns.filter { known.column($0.name) == nil }
    }

    private func absentIndexes(of known: CatalogTable) -> [Index] {
        indexes.filter { index in
            !known.indexes.contains {
                $0.columns.map { $0.lowercased() }.starts(with: index.columns)
            }
        }
    }

    /// The statements that give an existing table what it lacks. Rows stay as they are.
    package func completion(of known: CatalogTable, _ dialect: SQLDialect) -> [String] {
        let table = TableName(name: name)
        return absentColumns(of: known).map { addition(of: $0, to: table, dialect) }
            + absentIndexes(of: known).map { creation(of: $0, on: table, dialect) }
    }

    /// The statements that remove tables, and `others` by name, as one text.
    package static func removal(
        of tables: [PushsweepTable], and others: [String] = [], _ dialect: SQLDialect
    ) -> String {
        let names = tables.map(\.name) + others
        return switch dialect.engine {
        case .mariaDB: "DROP TABLE IF EXISTS \(names.joined(separator: ", "))"
        case .sqlite: names.map { "DROP TABLE IF EXISTS \($0)" }.joined(separator: "; ")
        }
    }

    /// The same table whose rows are for production, unless they say otherwise, by the word that a mapping
    /// has for it, with room for its words.
    package func naming(environments words: [String: String]) -> PushsweepTable {
        let usual = words["production"] ?? "production"
        let room = max(16, words.values.map(\.unicodeScalars.count).max() ?? 0)
        func column(_ engine: SQLDialect, _ type: String) -> String {
            "\(type) NOT NULL DEFAULT \(engine.literal(usual))"
        }
        let columns = columns.map {
            $0.name == Self.ownEnvironment.name
                ? Column($0.name, column(.mariaDB, "VARCHAR(\(room))"), column(.sqlite, "TEXT"))
                : $0
        }
        return PushsweepTable(
            name: name, columns: columns, primaryKey: primaryKey, indexes: indexes)
    }

    private func list(_ names: [String], _ dialect: SQLDialect) -> String {
        names.map(dialect.quoted).joined(separator: ", ")
    }
}

extension PushsweepTable {
    /// The table as a server would describe it after its creation under another name, with columns
    /// renamed, of other types, or added. `types` and `names` go by the column's own name here. With
    /// a `key` that is the primary key.
    package func described(
        as table: TableName, names: [String: String], types: [String: String],
        adding: [(name: String, type: String)], key: [String]?
    ) -> CatalogTable {
        let own = columns.map {
            (name: names[$0.name] ?? $0.name, type: types[$0.name] ?? $0.server)
        }
        let keys = key ?? primaryKey.map { names[$0] ?? $0 }
        let absent = (key ?? []).filter { name in !(own + adding).contains { $0.name == name } }
        let all = own + adding + absent.map { (name: $0, type: "BIGINT NOT NULL") }
        return CatalogTable(
            name: table, canonicalName: table.name,
            columns: all.map { column in
                let kind = column.type.prefix { $0.isLetter }.lowercased()
                let size = column.type.split(separator: "(").dropFirst().first
                    .flatMap { Int($0.prefix { $0.isNumber }) }
                return CatalogColumn(
                    name: column.name, type: kind, length: size, collation: "utf8mb4_bin",
                    fraction: kind == "datetime" ? size ?? 0 : 0,
                    isNullable: !column.type.contains("NOT NULL"),
                    isPrimary: keys.contains(column.name), isGenerated: false, movesItself: false)
            }, indexes: [])
    }
}

// The storage of times in the side tables, and the reading of the database's clock.

extension SQLDialect {
    /// A time column of the side tables.
    package func ownTime(_ name: String) -> TimeColumn {
        switch engine {
        case .mariaDB: TimeColumn(name: name, storage: .wallClock(fraction: 3, offset: 0))
        case .sqlite: TimeColumn(name: name, storage: .text(offset: 0))
        }
    }

    /// The instant in an answer to `now`.
    ///
    /// - Throws: `other` where the answer is not a time.
    package func instant(_ value: SQLValue) throws(SQLFailure) -> EpochMilliseconds {
        guard let instant = ownTime("now").mark(value) else {
            throw SQLFailure(
                kind: .other, code: 0, message: "the database did not return a time")
        }
        return instant
    }
}
