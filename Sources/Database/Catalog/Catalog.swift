import Encodings
import Findings

/// One table as the database describes it.
package struct CatalogTable: Hashable, Sendable {
    /// The name the settings gave, with its schema where they gave one.
    package let name: TableName
    /// The name as the database itself spells it, without the schema of the connection: the same
    /// for every spelling in the settings.
    package let canonicalName: String
    /// The columns in the order of the table.
    package let columns: [CatalogColumn]
    /// The indexes in the order of the database's list.
    package let indexes: [CatalogIndex]
    /// The storage engine of the table; nil for SQLite.
    package var engine: CatalogEngine?
    /// Columns that the table has and the account may not read, of those that were looked for.
    package var hidden: Set<String> = []

    /// The column with a name in any case, because both engines ignore the case; nil without one.
    package func column(_ name: String) -> CatalogColumn? {
        let name = name.lowercased()
        return columns.first { $0.name.lowercased().isExactly(name) }
    }

    /// The columns that the engine sets at every change of the row, and that decide a column: itself,
    /// or those from which it is computed.
    package func movingColumns(behind column: CatalogColumn) -> [CatalogColumn] {
        guard !column.movesItself else { return [column] }
        // Both servers print the names in an expression with quotes.
        return columns.filter {
            !$0.name.isExactly(column.name)
                && column.expression.utf8.contains("`\($0.name)`".utf8)
        }.flatMap(movingColumns)
    }

    /// The names of a column and of those from which a server computes it.
    package func columns(behind name: String) -> [String] {
        guard let column = column(name) else { return [name] }
        // Both servers print the names in an expression with quotes.
        return [column.name]
            + columns.filter {
                $0.name != column.name && column.expression.contains("`\($0.name)`")
            }.flatMap { columns(behind: $0.name) }
    }

    /// The names of the primary key's columns, in the table's order.
    package var primaryKey: [String] { columns.filter { $0.isPrimary }.map(\.name) }

    /// The unique index whose columns are all among these, the primary key where it is one; nil without
    /// one.
    package func uniqueIndex(within names: [String]) -> CatalogIndex? {
        let names = Set(names.map { ExactText($0.lowercased()) })
        return indexes.filter { index in
            index.isUnique && !index.columns.isEmpty
                && index.columns.allSatisfy { names.contains(ExactText($0.lowercased())) }
        }.min { $0.name == "PRIMARY" && $1.name != "PRIMARY" }
    }

    /// Whether at most one row has the same values in these columns.
    package func isUnique(_ names: [String]) -> Bool {
        let all = Set(names.map { ExactText($0.lowercased()) })
        let primary = Set(primaryKey.map { ExactText($0.lowercased()) })
        if !primary.isEmpty && primary.isSubset(of: all) { return true }
        return uniqueIndex(within: names) != nil
    }
}

/// The storage engine of a server's table.
package struct CatalogEngine: Hashable, Sendable {
    /// Its name, such as `InnoDB`.
    package let name: String
    /// Whether a rolled back transaction leaves no changes.
    package let hasTransactions: Bool
    /// Whether the table is divided into partitions.
    package var isPartitioned = false
}

/// One column as the database describes it.
package struct CatalogColumn: Hashable, Sendable {
    /// The name in the database's own case.
    package let name: String
    /// The type's name in lower case, without length.
    package let type: String
    /// The most characters (or bytes, in a binary column) of a value; nil: no limit known.
    package let length: Int?
    /// The collation; nil for columns that are not text.
    let collation: String?
    /// The character set of a server's text; nil for columns that are not text.
    package var characterSet: String?
    /// The type as declared, with the members of an ENUM; empty where it is not known.
    package var declaration = ""
    /// Fractional digits of the second in a time column, 0 to 6.
    let fraction: Int
    /// Whether it accepts NULL.
    package let isNullable: Bool
    let isPrimary: Bool
    /// Whether the database computes it from other columns. No statement may write it.
    package let isGenerated: Bool
    /// The expression of a server's generated column; empty for others, and for SQLite.
    package var expression = ""
    /// Whether the engine sets it to the present time at every change of the row.
    package let movesItself: Bool
    /// Whether a row that gives it no value gets the present time, when it is made.
    package var hasTimeDefault = false
    /// The text or number that a row which gives it no value gets; nil for none and for an expression.
    package var constantDefault: String?
    /// Whether `*` leaves it out.
    package var isInvisible = false
    /// What whoever made the column says about it; empty where nothing is said, and for SQLite.
    package var comment = ""

    /// What a value of the column depends on: its name, type and character set.
    package var form: String { "\(name) \(declaration) \(characterSet ?? "")" }

    /// Whether it has an integer type.
    package var isInteger: Bool {
        ["tinyint", "smallint", "mediumint", "int", "integer", "bigint"].contains(type)
            || type.contains("int") && !type.contains("point")
    }

    /// Whether it holds bytes rather than characters.
    package var isBinary: Bool { type.contains("binary") || type.contains("blob") }

    /// Whether comparisons of its text ignore spaces at the end. The names of collations say it: those of
    /// MySQL by Unicode 9.0, and those of MariaDB with `nopad`, compare all characters.
    package var padsSpaces: Bool {
        guard let collation else { return false }
        return !collation.contains("_0900_") && !collation.contains("nopad")
            && collation != "binary"
    }

    /// Whether it holds characters.
    package var isText: Bool {
        type.contains("char") || type.contains("text") || type.contains("clob")
    }
}

/// One index as the database describes it.
package struct CatalogIndex: Hashable, Sendable {
    /// The name, as an index hint takes it.
    package let name: String
    /// Whether no two rows have the same values in its columns.
    package let isUnique: Bool
    /// The names of its columns in the index's order.
    package let columns: [String]
    /// Whether statements may use it: not an INVISIBLE index of MySQL or an IGNORED one of MariaDB, which
    /// also takes no hint (1176). It still keeps rows unique.
    package var isUsable = true
    /// Whether it keeps some rows, or the beginnings of values, apart: an index with a condition in SQLite, one
    /// over part of a column on a server.
    var isUniqueInPart = false
    /// Whether SQLite made it for the primary key. A primary key that is the number of the row has none.
    package var isOfPrimaryKey = false
}

/// Reads the descriptions of tables from the database.
package struct Catalog {
    let connection: any SQLConnection

    /// Reads over an open connection.
    package init(connection: any SQLConnection) {
        self.connection = connection
    }

    /// The description of a table; nil where the account sees no such table.
    package func table(_ name: TableName) throws(SQLFailure) -> CatalogTable? {
        let columns: [CatalogColumn]
        let indexes: [CatalogIndex]
        switch connection.dialect.engine {
        case .mariaDB:
            columns = try serverColumns(name)
            indexes = try serverIndexes(name)
        case .sqlite:
            columns = try sqliteColumns(name)
            indexes = try sqliteIndexes(name)
        }
        guard !columns.isEmpty else { return nil }
        return CatalogTable(
            name: name, canonicalName: try canonicalName(name), columns: columns, indexes: indexes,
            engine: try engine(name))
    }

    /// The tables of the connection's database that are not this program's own, by name. Throws any failure
    /// of the query.
    package func tables() throws(SQLFailure) -> [TableName] {
        let sql =
            switch connection.dialect.engine {
            case .mariaDB:
                "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
                    + "AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME"
            case .sqlite:
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
                    + "ESCAPE '\\' ORDER BY name"
            }
        let rows = try connection.query(sql)
        return (0..<rows.count).compactMap { rows[$0, 0].text }
            .filter { !$0.hasPrefix("pushsweep_") }.map { TableName(name: $0) }
    }

    /// The engine of a server's table; nil for a view, for a table that the account does not see, and
    /// for SQLite. Throws any failure of the query.
    package func engine(_ name: TableName) throws(SQLFailure) -> CatalogEngine? {
        guard connection.dialect.engine == .mariaDB else { return nil }
        let rows = try connection.query(
            """
            SELECT t.ENGINE, e.TRANSACTIONS, t.CREATE_OPTIONS FROM information_schema.TABLES t \
            LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE \
            WHERE t.TABLE_SCHEMA = COALESCE(?, DATABASE()) AND t.TABLE_NAME = ?
            """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
        guard rows.count > 0, let engine = rows[0, 0].text else { return nil }
        return CatalogEngine(
            name: engine, hasTransactions: rows[0, 1].text?.uppercased() == "YES",
            isPartitioned: (rows[0, 2].text ?? "").utf8.contains("partitioned".utf8))
    }

    /// Whether two names of a table that differ in case only are one table: not with
    /// `lower_case_table_names = 0`, the default of servers on Linux. Throws any failure of the query.
    package func ignoresNameCase() throws(SQLFailure) -> Bool {
        guard connection.dialect.engine == .mariaDB else { return true }
        return try connection.query("SELECT @@lower_case_table_names").scalar?.count != 0
    }

    private func canonicalName(_ name: TableName) throws(SQLFailure) -> String {
        let rows: SQLRows
        switch connection.dialect.engine {
        case .mariaDB:
            rows = try connection.query(
                """
                SELECT TABLE_NAME, IF(TABLE_SCHEMA = DATABASE(), NULL, TABLE_SCHEMA) \
                FROM information_schema.TABLES \
                WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?
                """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
        case .sqlite:
            let schema = name.schema?.lowercased() ?? "main"
            rows = try connection.query(
                "SELECT name, NULLIF(?, 'main') FROM "
                    + "\(connection.dialect.quoted(schema)).sqlite_master "
                    + "WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE",
                [.text(schema), .text(name.name)])
        }
        guard rows.count > 0, let table = rows[0, 0].text else { return name.description }
        return TableName(schema: rows[0, 1].text, name: table).description
    }

    private func serverColumns(_ name: TableName) throws(SQLFailure) -> [CatalogColumn] {
        let rows = try connection.query(
            """
            SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, COLLATION_NAME, \
            DATETIME_PRECISION, IS_NULLABLE, COLUMN_KEY, EXTRA, CHARACTER_SET_NAME, COLUMN_TYPE, \
            GENERATION_EXPRESSION, COLUMN_DEFAULT, COLUMN_COMMENT \
            FROM information_schema.COLUMNS \
            WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? \
            ORDER BY ORDINAL_POSITION
            """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
        return (0..<rows.count).map { row in
            let extra = (rows[row, 7].text ?? "").uppercased()
            let expression = rows[row, 10].text ?? ""
            return CatalogColumn(
                name: rows[row, 0].text ?? "", type: (rows[row, 1].text ?? "").lowercased(),
                length: rows[row, 2].count, collation: rows[row, 3].text,
                characterSet: rows[row, 8].text, declaration: rows[row, 9].text ?? "",
                fraction: rows[row, 4].count ?? 0, isNullable: rows[row, 5].text == "YES",
                isPrimary: rows[row, 6].text == "PRI",
                isGenerated: extra.contains("VIRTUAL") || extra.contains("STORED GENERATED")
                    || extra.contains("PERSISTENT"),
                expression: expression,
                // The columns of a system-versioned table of MariaDB are generated as these.
                movesItself: extra.contains("ON UPDATE")
                    || ["ROW START", "ROW END"].contains(expression.uppercased()),
                hasTimeDefault: Self.isPresent(rows[row, 11].text),
                constantDefault: extra.contains("DEFAULT_GENERATED")
                    ? nil : Self.constant(rows[row, 11].text),
                isInvisible: extra.contains("INVISIBLE"), comment: rows[row, 12].text ?? "")
        }
    }

    /// The forms of a table's columns, in its order, as `CatalogColumn.form` has them: a short look whether
    /// the table is still the same. Throws any failure of the query.
    package func columnForms(of name: TableName) throws(SQLFailure) -> [String] {
        let rows: SQLRows
        switch connection.dialect.engine {
        case .mariaDB:
            rows = try connection.query(
                """
                SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS \
                WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? \
                ORDER BY ORDINAL_POSITION
                """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
        case .sqlite:
            rows = try connection.query(
                "SELECT name, type, '' FROM pragma_table_xinfo(?, ?) ORDER BY cid",
                [.text(name.name), .text(name.schema ?? "main")])
        }
        let isFile = connection.dialect.engine == .sqlite
        return (0..<rows.count).map { row in
            let type = rows[row, 1].text ?? ""
            return "\(rows[row, 0].text ?? "") \(isFile ? type.lowercased() : type) "
                + (rows[row, 2].text ?? "")
        }
    }

    /// Whether the default of a column is the present time.
    private static func isPresent(_ value: String?) -> Bool {
        let text = value?.lowercased() ?? ""
        return ["current_timestamp", "now(", "'now'", "unix_timestamp"].contains(
            where: text.contains)
    }

    /// The constant in a default as the catalog shows it: MariaDB and SQLite in quotes, MySQL without.
    private static func constant(_ shown: String?) -> String? {
        guard let shown, shown.uppercased() != "NULL" else { return nil }
        let bytes = Array(shown.utf8)
        let quote = UInt8(ascii: "'")
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else {
            return bytes.contains(UInt8(ascii: "(")) ? nil : shown
        }
        var content: [UInt8] = []
        var isEscape = false
        for byte in bytes.dropFirst().dropLast() {
            isEscape = byte == quote && !isEscape
            if !isEscape { content.append(byte) }
        }
        return String(decoding: content, as: UTF8.self)
    }

    private func serverIndexes(_ name: TableName) throws(SQLFailure) -> [CatalogIndex] {
        let rows = try connection.query(
            """
            SELECT s.INDEX_NAME, s.NON_UNIQUE, s.COLUMN_NAME, s.SUB_PART, s.* \
            FROM information_schema.STATISTICS s \
            WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? \
            AND INDEX_TYPE NOT IN ('FULLTEXT', 'SPATIAL', 'VECTOR') \
            ORDER BY INDEX_NAME, SEQ_IN_INDEX
            """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
        // The column has another name, and the other value, on each engine.
        let visible = rows.names.firstIndex { $0.uppercased() == "IS_VISIBLE" }
        let ignored = rows.names.firstIndex { $0.uppercased() == "IGNORED" }
        var indexes: [CatalogIndex] = []
        for row in 0..<rows.count {
            let index = rows[row, 0].text ?? ""
            let isUsable =
                visible.map { rows[row, $0].text != "NO" }
                ?? ignored.map { rows[row, $0].text != "YES" } ?? true
            // An index over part of a column does not make whole values unique.
            let isUnique = rows[row, 1].count == 0 && rows[row, 3] == .null
            let isUniqueInPart = rows[row, 1].count == 0 && rows[row, 3] != .null
            let column = rows[row, 2].text ?? ""
            if let last = indexes.last, last.name.isExactly(index) {
                indexes[indexes.count - 1] = CatalogIndex(
                    name: index, isUnique: last.isUnique && isUnique,
                    columns: last.columns + [column], isUsable: isUsable,
                    isUniqueInPart: last.isUniqueInPart || isUniqueInPart)
            } else {
                indexes.append(
                    CatalogIndex(
                        name: index, isUnique: isUnique, columns: [column], isUsable: isUsable,
                        isUniqueInPart: isUniqueInPart))
            }
        }
        return indexes
    }

    private func sqliteColumns(_ name: TableName) throws(SQLFailure) -> [CatalogColumn] {
        let rows = try connection.query(
            """
            SELECT name, type, "notnull", pk, hidden, dflt_value FROM pragma_table_xinfo(?, ?) ORDER BY cid
            """, [.text(name.name), .text(name.schema ?? "main")])
        return (0..<rows.count).map { row in
            let declared = (rows[row, 1].text ?? "").lowercased()
            let parts = declared.split(whereSeparator: { "(), ".contains($0) })
            return CatalogColumn(
                name: rows[row, 0].text ?? "", type: parts.first.map(String.init) ?? "",
                // SQLite stores values of any length, whatever the declaration.
                length: nil, collation: nil, declaration: declared, fraction: 3,
                isNullable: rows[row, 2].count == 0,
                isPrimary: rows[row, 3].count != 0, isGenerated: (rows[row, 4].count ?? 0) > 1,
                movesItself: false, hasTimeDefault: Self.isPresent(rows[row, 5].text),
                constantDefault: Self.constant(rows[row, 5].text))
        }
    }

    private func sqliteIndexes(_ name: TableName) throws(SQLFailure) -> [CatalogIndex] {
        let schema = SQLValue.text(name.schema ?? "main")
        let list = try connection.query(
            "SELECT name, \"unique\", partial, origin = 'pk' FROM pragma_index_list(?, ?)",
            [.text(name.name), schema])
        var indexes: [CatalogIndex] = []
        for row in 0..<list.count {
            let columns = try connection.query(
                "SELECT name FROM pragma_index_info(?, ?) ORDER BY seqno", [list[row, 0], schema])
            indexes.append(
                CatalogIndex(
                    name: list[row, 0].text ?? "",
                    isUnique: list[row, 1].count != 0 && list[row, 2].count == 0,
                    columns: (0..<columns.count).map { columns[$0, 0].text ?? "" },
                    isUniqueInPart: list[row, 1].count != 0 && list[row, 2].count != 0,
                    isOfPrimaryKey: list[row, 3].count != 0))
        }
        return indexes
    }
}

extension CatalogTable {
    /// The index for a lookup by token alone, or by token within app and environment.
    package func index(onToken token: String, after leading: [String] = []) -> CatalogIndex? {
        let token = token.lowercased()
        let leading = Set(leading.map { $0.lowercased() })
        return indexes.first { index in
            guard index.isUsable else { return false }
            let columns = index.columns.map { $0.lowercased() }
            return columns.first { !leading.contains($0) } == token
        }
    }
}

/// A table's name, with its schema where the settings give one.
package struct TableName: Hashable, Sendable, CustomStringConvertible {
    /// The schema; nil for the database of the store's address.
    package let schema: String?
    /// The table's name without the schema.
    package let name: String

    /// Makes a name; without a schema the table is in the connection's database.
    package init(schema: String? = nil, name: String) {
        self.schema = schema
        self.name = name
    }

    /// Parses `table` or `schema.table`. Throws `configuration`, with `setting` in the message.
    package init(
        _ text: String, setting: String = "store.active-users.table"
    ) throws(StoreFailure) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard (1...2).contains(parts.count), parts.allSatisfy(Self.isUsable) else {
            throw StoreFailure(
                .configuration,
                "reading the table name `\(text.prefix(40))`: it is neither `table` nor "
                    + "`schema.table`; correct \(setting)")
        }
        schema = parts.count == 2 ? parts[0] : nil
        name = parts[parts.count - 1]
    }

    /// Whether a text can be an identifier: MySQL allows 64 characters, none of them NUL.
    static func isUsable(_ identifier: String) -> Bool {
        (1...64).contains(identifier.unicodeScalars.count)
            && !identifier.unicodeScalars.contains { $0.value < 0x20 }
    }

    /// The name as an SQL identifier, quoted.
    package func sql(_ dialect: SQLDialect) -> String {
        let quoted = dialect.quoted(name)
        return schema.map { "\(dialect.quoted($0)).\(quoted)" } ?? quoted
    }

    /// `schema.name`, unquoted, as settings and checkpoints spell it.
    package var description: String { schema.map { "\($0).\(name)" } ?? name }
}
