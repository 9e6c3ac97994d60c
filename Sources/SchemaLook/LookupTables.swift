// A column may hold numbers that another table of the same database explains: the app of a token, the tenant,
// the platform. The tables are found by the foreign keys of the column, and by its name where it has none.

import Database
import Encodings
import Findings
import TokenTable

/// What a table says about the values of a column of another one.
struct ExplainedValues: Hashable {
    let table: TableName
    /// A text for each value.
    let texts: [ExactText: String]
}

/// Finds the tables that explain values of a table's columns.
struct LookupTables {
    /// The most rows of a table that explains, and the most values that are explained.
    private static let mostRows = 500
    private static let mostValues = 20

    private let session: DatabaseSession
    private var catalog: Catalog { Catalog(connection: session.connection) }

    init(_ session: DatabaseSession) { self.session = session }

    /// The foreign keys of a table.
    ///
    /// - Throws: any failure of a query.
    func references(of table: TableName) throws(StoreFailure) -> [ColumnReference] {
        try session.retries.retrying(
            "reading the foreign keys of \(table)", do: catalog.references(of: table))
    }

    /// The values that other tables explain, by column.
    ///
    /// - Throws: any failure of a query but a missing right.
    func explanations(
        of look: LookedTable
    ) throws(StoreFailure) -> [String: ExplainedValues] {
        let names = try session.retries.retrying(
            "listing the tables of \(session.settings.location)", do: catalog.tables())
        var found: [String: ExplainedValues] = [:]
        for column in look.columns where column.isInteger || column.isText {
            let words = Set(look.words(column).compactMap { $0.map { ExactText($0) } })
            guard (2...Self.mostValues).contains(words.count) else { continue }
            let keys = look.references.filter { $0.column.isExactly(column.name) }.map(\.table)
            let tables =
                keys.isEmpty ? names.filter { Self.isNamed($0, after: column.name) } : keys
            for table in tables where !table.name.isExactly(look.catalog.name.name) {
                if let texts = try texts(of: words, in: table) {
                    found[column.name] = ExplainedValues(table: table, texts: texts)
                    break
                }
            }
        }
        return found
    }

    /// Whether a table has the name of a column without `id`: `brands` for `brand_id`.
    private static func isNamed(_ table: TableName, after column: String) -> Bool {
        let kept = ColumnWords(column).words.filter {
            !["id", "no", "nr", "number", "code", "key", "fk"].contains($0)
        }
        let name = ColumnWords(table.name).words.joined()
        let stem = kept.joined()
        guard stem.utf8.count > 2 else { return false }
        return [stem, stem + "s", stem + "es", stem + "en", stem + "n"].contains(name)
            || stem.hasSuffix("y") && name == stem.dropLast() + "ies"
    }

    /// A text for each value; nil where the table has none for one of them, or has many rows.
    private func texts(
        of values: Set<ExactText>, in name: TableName
    ) throws(StoreFailure) -> [ExactText: String]? {
        do {
            let table = try session.catalogTable(name, setting: "--table", cure: "leave it out")
            guard table.primaryKey.count == 1, let key = table.column(table.primaryKey[0]),
                let text = Self.text(of: table, besides: key)
            else { return nil }
            let dialect = session.connection.dialect
            let list = [key, text].map { dialect.quoted($0.name) }.joined(separator: ", ")
            let rows = try session.retries.retrying("reading \(name)") { () throws(SQLFailure) in
                try session.connection.query(
                    "SELECT \(list) FROM \(name.sql(dialect)) LIMIT \(Self.mostRows + 1)")
            }
            guard rows.count <= Self.mostRows else { return nil }
            var texts: [ExactText: String] = [:]
            for row in 0..<rows.count {
                guard let value = LookedTable.word(rows[row, 0], of: key) else { continue }
                texts[ExactText(value)] = LookedTable.word(rows[row, 1], of: text) ?? ""
            }
            let known = texts.filter { values.contains($0.key) }
            return known.count == values.count ? known : nil
        } catch {
            guard [.permission, .configuration].contains(error.code) else { throw error }
            return nil
        }
    }

    /// The column that says most to a person.
    private static func text(of table: CatalogTable, besides key: CatalogColumn) -> CatalogColumn? {
        let texts = table.columns.filter { $0.isText && !$0.name.isExactly(key.name) }
        let wanted = ["bundle", "topic", "name", "title", "label", "slug", "key", "code"]
        return wanted.lazy.compactMap { word in
            texts.first { ColumnWords($0.name).words.contains(word) }
        }.first ?? texts.first
    }
}
