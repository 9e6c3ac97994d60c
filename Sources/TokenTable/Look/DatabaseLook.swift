// The first look at a database that nobody has described. Every table is asked for a sample of those columns
// that have room for tokens, over the whole range of its key, so that the cost depends on the number of tables
// and not on their rows. SELECT is enough, and nothing is written.

import APNsProtocol
import Database
import Encodings

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
    private let answers: LookAnswers
    private let now: EpochMilliseconds
    /// The columns found, the most likely first.
    package private(set) var found: [Found] = []
    /// The tables that were looked at.
    package private(set) var tables = 0
    /// Tables that were not looked at: without the right to read them, with a name that settings cannot
    /// have, or beyond the most.
    package private(set) var unread: [String] = []

    private var catalog: Catalog { Catalog(connection: session.connection) }

    /// Prepares the look over an open session, with what a person has named already.
    ///
    /// - Throws: any failure of asking for the time.
    package init(
        _ session: DatabaseSession, answers: LookAnswers = LookAnswers()
    ) throws(StoreFailure) {
        (self.session, self.answers) = (session, answers)
        now = try session.databaseTime()
    }

    /// Looks at all tables, or at the answered one. `report` gets the tables looked at so far; the look ends early where
    /// `shouldStop`.
    ///
    /// - Throws: `configuration` where a named table is missing; any failure of a query but a missing right.
    package mutating func search(
        shouldStop: () -> Bool = { false }, report: (Int) -> Void = { _ in }
    ) throws(StoreFailure) {
        let names: [TableName]
        if let table = answers.table {
            try ensureToken(in: described(table))
            names = [table]
        } else {
            let all = try session.retries.retrying(
                "listing the tables of \(session.settings.location)", do: catalog.tables())
            // In settings a dot stands between a database and a table.
            names = all.filter { !$0.name.contains(".") && !PlainText.hasControlCharacter($0.name) }
            unread += all.filter { !names.contains($0) }.map(\.description)
        }
        unread += names.dropFirst(Self.mostTables).map(\.description)
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

    private func ensureToken(in table: CatalogTable) throws(StoreFailure) {
        guard let token = answers.token, table.column(token) == nil else { return }
        throw StoreFailure(
            .configuration,
            "looking at \(table.name): there is no column \(token.prefix(64)) that the account may see, "
                + "only \(table.columns.prefix(40).map(\.name).joined(separator: ", "))")
    }

    /// The answered column, or the most likely one; nil where it has no tokens, none is likely, or two are
    /// equally so.
    package func choice() -> Found? {
        if let column = answers.token {
            return found.first { $0.column.lowercased() == column.lowercased() }
        }
        guard let first = found.first, first.isLikely else { return nil }
        let rival = found.dropFirst().first
        let isClear = rival.map { first.score >= $0.score + TokenCandidate.lead } ?? true
        return isClear ? first : nil
    }

    /// The mapping of the table of a found column.
    ///
    /// - Throws: `configuration` where an answer does not fit the table; any failure of a query.
    package func proposal(_ choice: Found) throws(StoreFailure) -> MappingProposal? {
        var look = try TokenTable.look(at: described(choice.table), session, now: now)
        look.triggers = try session.retries.retrying(
            "reading the triggers of \(choice.table)", do: catalog.triggers(of: choice.table))
        look.serverZone = try ServerZone.read(session)
        let candidates = TokenCandidate.all(of: look)
        guard let token = candidates.first(where: { $0.column.name.isExactly(choice.column) })
        else {
            return nil
        }
        try answers.ensureFit(look) { column, word throws(StoreFailure) in
            try isThere(word, in: column, of: choice.table)
        }
        return MappingSearch.mapping(of: look, tokens: token, beside: candidates, answers: answers)
    }

    /// The most rows among which a word is looked for that the sample lacks.
    private static let mostRows = 200_000

    /// Whether one of many rows has a word in a column.
    private func isThere(
        _ word: String, in column: CatalogColumn, of table: TableName
    ) throws(StoreFailure) -> Bool {
        let dialect = session.connection.dialect
        let name = dialect.quoted(column.name)
        let isNumber = column.isInteger || ["bit", "bool", "boolean"].contains(column.type)
        let value = Int64(word).flatMap { isNumber ? SQLValue.integer($0) : nil } ?? .text(word)
        let found = try session.retries.retrying("looking for rows of \(table) with `\(word)`") {
            () throws(SQLFailure) in
            try session.connection.query(
                "SELECT \(name) FROM (SELECT \(name) FROM \(table.sql(dialect)) LIMIT \(Self.mostRows)) "
                    + "AS looked WHERE \(name) = ? LIMIT 1", [value]
            ).scalar
        }
        let read = found.flatMap { LookedTable.word($0, of: column) }
        return read.map { LookedTable.isWord($0, word, of: column) } == true
    }
}
