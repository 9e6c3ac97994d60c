/// A column whose values are those of a column of another table.
package struct ColumnReference: Hashable, Sendable {
    package let column: String
    /// The other table and its column.
    package let table: TableName
    package let key: String
}

extension Catalog {
    /// The foreign keys of a table with one column each. A server shows those of tables on which the account
    /// has some right, so an empty list proves nothing. Throws any failure of the query.
    package func references(of name: TableName) throws(SQLFailure) -> [ColumnReference] {
        let rows: SQLRows
        switch connection.dialect.engine {
        case .mariaDB:
            rows = try connection.query(
                """
                SELECT COLUMN_NAME, \
                IF(REFERENCED_TABLE_SCHEMA = DATABASE(), NULL, REFERENCED_TABLE_SCHEMA), \
                REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME, CONSTRAINT_NAME \
                FROM information_schema.KEY_COLUMN_USAGE \
                WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? \
                AND REFERENCED_TABLE_NAME IS NOT NULL
                """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
        case .sqlite:
            rows = try connection.query(
                """
                SELECT "from", NULL, "table", "to", id FROM pragma_foreign_key_list(?, ?)
                """, [.text(name.name), .text(name.schema ?? "main")])
        }
        var columns: [SQLValue: Int] = [:]
        for row in 0..<rows.count { columns[rows[row, 4], default: 0] += 1 }
        return (0..<rows.count).compactMap { row in
            guard columns[rows[row, 4]] == 1, let column = rows[row, 0].text,
                let table = rows[row, 2].text
            else { return nil }
            // Without a name SQLite means the primary key.
            return ColumnReference(
                column: column, table: TableName(schema: rows[row, 1].text, name: table),
                key: rows[row, 3].text ?? "")
        }
    }
}
