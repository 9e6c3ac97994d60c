import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

/// A sample of a table's rows with all columns that the account may read: what the look judges.
struct LookedTable {
    let catalog: CatalogTable
    /// The columns of the rows, in their order.
    let columns: [CatalogColumn]
    let rows: [ArraySlice<SQLValue>]
    /// The present by the database's clock.
    let now: EpochMilliseconds
    let dialect: SQLDialect
    /// The triggers of the table that the account sees.
    var triggers: [TableReach.Trigger] = []
    /// The server's own clock.
    var serverZone = ServerZone.utc
    /// The foreign keys of the table, as far as the account sees them.
    var references: [ColumnReference] = []
    /// What other tables say about values of columns, by column.
    var explained: [String: ExplainedValues] = [:]
    /// The times of one column that are ahead of the clock where the sample has none of them.
    var ahead: TimesAhead?

    /// The values of a column, one for each row; empty for a column that was not read.
    func values(_ name: String) -> [SQLValue] {
        guard let place = columns.firstIndex(where: { $0.name.isExactly(name) }) else { return [] }
        return rows.map { $0[$0.startIndex + place] }
    }

    /// The values of a column as words of a settings file; nil for NULL and for what is no word.
    func words(_ column: CatalogColumn) -> [String?] {
        values(column.name).map { Self.word($0, of: column) }
    }

    static func word(_ value: SQLValue, of column: CatalogColumn) -> String? {
        switch value {
        case .integer(let number): String(number)
        case .unsigned(let number): String(number)
        case .real(let number): Int64(exactly: number).map(String.init)
        case .text(let text): text.isEmpty ? nil : text.string
        case .bytes(let bytes) where column.type == "bit" && bytes.count <= 8:
            String(bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        default: nil
        }
    }

    /// Whether a word as read is that of a settings file, in which `true` and `false` stand for numbers.
    static func isWord(_ read: String, _ word: String, of column: CatalogColumn) -> Bool {
        if read.utf8.elementsEqual(word.utf8) { return true }
        guard !column.isText, column.type != "enum" else { return false }
        return ["true": "1", "false": "0"][word.lowercased()] == read
    }

    /// Whether a column may hold a word that many rows share.
    func mayHoldWords(_ column: CatalogColumn) -> Bool {
        column.isInteger || column.isText
            || ["enum", "bit", "bool", "boolean"].contains(column.type)
            || dialect.engine == .sqlite && column.type.isEmpty
    }
}

extension TokenTable {
    /// The columns that the account may read; all of them, unless a statement with all is refused.
    private static func readable(
        _ columns: [CatalogColumn], of catalog: CatalogTable, _ session: DatabaseSession
    ) throws(StoreFailure) -> [CatalogColumn] {
        let connection = session.connection
        let table = catalog.name.sql(connection.dialect)
        return try session.retries.retrying("reading the columns of \(catalog.name)") {
            () throws(SQLFailure) in
            func isReadable(_ columns: [CatalogColumn]) throws(SQLFailure) -> Bool {
                let list = columns.map { connection.dialect.quoted($0.name) }
                do throws(SQLFailure) {
                    _ = try connection.query(
                        "SELECT \(list.joined(separator: ", ")) FROM \(table) WHERE 1 = 0")
                    return true
                } catch {
                    guard error.kind == .permission else { throw error }
                    return false
                }
            }
            if columns.isEmpty { return columns }
            if try isReadable(columns) { return columns }
            var readable: [CatalogColumn] = []
            for column in columns where try isReadable([column]) { readable.append(column) }
            return readable
        }
    }

    /// Reads a sample of all rows of a table, with the columns that `isWanted` chooses. Long values are
    /// cut, so that a sample is small whatever the rows hold.
    ///
    /// - Throws: any failure of a query, `permission` among them.
    static func look(
        at catalog: CatalogTable, _ session: DatabaseSession, now: EpochMilliseconds,
        where isWanted: (CatalogColumn) -> Bool = { _ in true }
    ) throws(StoreFailure) -> LookedTable {
        let connection = session.connection
        let dialect = connection.dialect
        // The caller tells of those (`unnameable`).
        let columns = try readable(
            catalog.columns.filter { isWanted($0) && PlainText.isIdentifier($0.name) },
            of: catalog,
            session)
        let rows = try session.retries.retrying("sampling rows of \(catalog.name)") {
            () throws(SQLFailure) in
            guard !columns.isEmpty else { return [ArraySlice<SQLValue>]() }
            return try RowSampling(catalog, connection).rows(columns).all
        }
        return LookedTable(
            catalog: catalog, columns: columns, rows: rows, now: now, dialect: dialect)
    }
}
