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

    /// `schema.name`, unquoted, as settings and markers spell it.
    package var description: String { schema.map { "\($0).\(name)" } ?? name }
}
