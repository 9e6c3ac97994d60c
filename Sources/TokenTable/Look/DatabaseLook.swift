// The first look at a database that nobody has described. Every table is asked for a sample of those columns
// that have room for tokens, over the whole range of its key, so that the cost depends on the number of tables
// and not on their rows. SELECT is enough, and nothing is written.

import APNsProtocol
import Database

/// Looks for the table and column of tokens in a database.
package struct DatabaseLook {
    /// A column with values like Apple's tokens.
    package struct Found: Hashable, Sendable {
        package let table: TableName
        package let column: String
        /// How the values are written, in a few words.
        package let form: String
        /// The values in this form, among those that are not empty.
        package let count: Int
        package let filled: Int
        package let rows: Int
        let score: Double

        /// Whether values and name are those of tokens, as far as the look can tell.
        package var isLikely: Bool { score >= TokenCandidate.leastScore }
    }

    /// The most tables that are looked at.
    package static let mostTables = 2_000

    private let session: DatabaseSession
    private let now: EpochMilliseconds
    /// The columns found, the most likely first.
    package private(set) var found: [Found] = []
    /// The tables that were looked at.
    package private(set) var tables = 0
    /// Tables whose rows the account may not read.
    package private(set) var unread: [String] = []

    private var catalog: Catalog { Catalog(connection: session.connection) }

    /// Prepares the look over an open session.
    ///
    /// - Throws: any failure of asking for the time.
    package init(_ session: DatabaseSession) throws(StoreFailure) {
        self.session = session
        now = try session.databaseTime()
    }

    /// Looks at all tables, or at one. `report` gets the tables looked at so far; the look ends early where
    /// `shouldStop`.
    ///
    /// - Throws: `configuration` where a named table is missing; any failure of a query but a missing right.
    package mutating func search(
        table: TableName?, shouldStop: () -> Bool = { false }, report: (Int) -> Void = { _ in }
    ) throws(StoreFailure) {
        let names: [TableName]
        if let table {
            _ = try described(table)
            names = [table]
        } else {
            names = try session.retries.retrying(
                "listing the tables of \(session.settings.location)", do: catalog.tables())
        }
        for name in names.prefix(Self.mostTables) {
            if shouldStop() { return }
            try look(at: name)
            tables += 1
            report(tables)
        }
        found.sort { ($1.score, $0.table.name) < ($0.score, $1.table.name) }
    }

    private mutating func look(at name: TableName) throws(StoreFailure) {
        do {
            let look = try TokenTable.look(
                at: described(name), session, now: now, where: TokenCandidate.mayHoldTokens)
            found += TokenCandidate.all(of: look).map {
                Found(
                    table: name, column: $0.column.name, form: $0.form.words, count: $0.count,
                    filled: $0.filled, rows: look.rows.count, score: $0.score)
            }
        } catch {
            // A view may be broken, and a table hidden.
            guard [.permission, .configuration].contains(error.code) else { throw error }
            unread.append(name.description)
        }
    }

    private func described(_ name: TableName) throws(StoreFailure) -> CatalogTable {
        try session.catalogTable(name, setting: "--table", cure: "leave --table out")
    }

    /// The most likely column; nil where none is likely, or two tables are equally so.
    package var choice: Found? {
        guard let first = found.first, first.isLikely else { return nil }
        let rival = found.first { $0.table != first.table }
        let isClear = rival.map { first.score >= $0.score + TokenCandidate.lead } ?? true
        return isClear ? first : nil
    }

    /// The mapping of the table of a found column.
    ///
    /// - Throws: any failure of a query.
    package func proposal(_ choice: Found) throws(StoreFailure) -> MappingProposal? {
        var look = try TokenTable.look(at: described(choice.table), session, now: now)
        look.triggers = try session.retries.retrying(
            "reading the triggers of \(choice.table)", do: catalog.triggers(of: choice.table))
        let candidates = TokenCandidate.all(of: look)
        guard let token = candidates.first(where: { $0.column.name == choice.column }) else {
            return nil
        }
        return MappingSearch.mapping(of: look, tokens: token)
    }
}
