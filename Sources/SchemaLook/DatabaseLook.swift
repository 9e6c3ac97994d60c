// The first look at a database that nobody has described. Every table is asked for a sample of those columns
// that have room for tokens, over the whole range of its key, so that the cost depends on the number of tables
// and not on their rows. SELECT is enough, and nothing is written.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

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
        /// What speaks for the column and what against it, each in a few words.
        package internal(set) var reasons: [String] = []
        package internal(set) var doubts: [String] = []
        /// How clearly name and values are those of push tokens, from 0 to 3.
        var rank = 0

        /// Whether values and name are those of tokens, and nothing speaks against it.
        package var isLikely: Bool { score >= TokenCandidate.leastScore && doubts.isEmpty }

        /// `table.column`.
        package var place: String { "\(table).\(column)" }
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
    /// Tables, and columns of the looked at that have room for tokens, whose names settings cannot have.
    package private(set) var unnameable: [String] = []

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
            let described = try described(table)
            guard !described.isOfPushsweep else {
                throw StoreFailure(
                    .configuration,
                    "looking at \(table): it is a table of Pushsweep's own; name the one in which devices "
                        + "register")
            }
            try ensureToken(in: described)
            names = [table]
        } else {
            let all = try session.retries.retrying(
                "listing the tables of \(session.settings.location)", do: catalog.tables())
            // In settings a dot stands between a database and a table.
            let usable = all.filter {
                !$0.name.contains(".") && PlainText.isIdentifier($0.name)
            }
            unnameable += all.filter { !usable.contains($0) }.map(\.description)
            unread += unnameable
            let queues = try queues()
            names = usable.filter { name in
                !queues.contains { $0.utf8.elementsEqual(name.name.utf8) }
            }
        }
        unread += names.dropFirst(Self.mostTables).map(\.description)
        for name in names.prefix(Self.mostTables) {
            if shouldStop() { return }
            try look(at: name)
            tables += 1
            report(tables)
        }
        found.sort { ($1.score, $0.table.name) < ($0.score, $1.table.name) }
        // A person who named the column has weighed it.
        guard answers.token == nil else { return }
        found = try CandidateWeighing(session, now: now, table: answers.table).weighed(found)
        found.sort {
            ($0.isLikely ? 0 : 1, $1.rank, $1.score, $0.table.name)
                < ($1.isLikely ? 0 : 1, $0.rank, $0.score, $1.table.name)
        }
    }

    /// The queues that Pushsweep sends from, as its own table names them; empty without that table, and
    /// for an account that may not read it.
    private func queues() throws(StoreFailure) -> [String] {
        let name = TableName(name: PushsweepTable.queue.name)
        return try session.retries.retrying("reading \(name)") { () throws(SQLFailure) in
            guard try catalog.table(name) != nil else { return [] }
            do throws(SQLFailure) {
                let rows = try session.connection.query(
                    "SELECT name FROM \(name.sql(session.connection.dialect))")
                return (0..<rows.count).compactMap { rows[$0, 0].text }.map { queue in
                    queue.split(separator: ".").last.map(String.init) ?? queue
                }
            } catch {
                guard error.kind == .permission || error.kind == .configuration else { throw error }
                return []
            }
        }
    }

    private mutating func look(at name: TableName) throws(StoreFailure) {
        do {
            let table = try described(name)
            if table.isOfPushsweep { return }
            unnameable += table.unnameable.filter(TokenCandidate.mayHoldTokens)
                .map { "\(name).\($0.name)" }
            let look = try TokenTable.look(
                at: table, session, now: now, where: TokenCandidate.mayHoldTokens)
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
        return found.dropFirst().contains { $0.isRival(of: first) } ? nil : first
    }

    /// Why a column was taken, and why the other ones were not; nil where it is the only one.
    package func comparison(_ choice: Found) -> String? {
        let others = found.filter { $0.place != choice.place }
        guard answers.token == nil, !others.isEmpty else { return nil }
        let list = others.prefix(5).map { other in
            "\(other.place): " + (other.doubts.first ?? "its name and values say less")
        }
        let rest = others.count > 5 ? "; and \(others.count - 5) more" : ""
        return "\(choice.place) is taken: \(choice.reasons.joined(separator: ", ")); not "
            + list.joined(separator: "; not ") + rest
    }

    /// The mapping of the table of a found column.
    ///
    /// - Throws: `configuration` where an answer does not fit the table; any failure of a query.
    package func proposal(_ choice: Found) throws(StoreFailure) -> MappingProposal? {
        var look = try TokenTable.look(at: described(choice.table), session, now: now)
        look.triggers = try session.retries.retrying(
            "reading the triggers of \(choice.table)", do: catalog.triggers(of: choice.table))
        look.serverZone = try ServerZone.read(session)
        let lookups = LookupTables(session)
        look.references = try lookups.references(of: choice.table)
        look.explained = try lookups.explanations(of: look)
        let candidates = TokenCandidate.all(of: look)
        guard let token = candidates.first(where: { $0.column.name.isExactly(choice.column) })
        else {
            return nil
        }
        try answers.ensureFit(look) { column, word throws(StoreFailure) in
            try isThere(word, in: column, of: choice.table)
        }
        let sampling = RowSampling(look.catalog, session.connection)
        func mapping() throws(StoreFailure) -> MappingProposal {
            try MappingSearch.mapping(
                of: look, tokens: token, beside: candidates, answers: answers
            ) { trial throws(StoreFailure) in
                try trial.fault(sampling, of: look.catalog, session, now: now)
            }
        }
        let proposal = try mapping()
        guard case .named(let column) = proposal.mapping.registeredAt.column else {
            return proposal
        }
        look.ahead = try TimesAhead.read(column, of: look, session)
        return look.ahead == nil ? proposal : try mapping()
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

extension CatalogTable {
    /// The columns that the look passes over, because settings cannot have their names.
    package var unnameable: [CatalogColumn] {
        columns.filter { !PlainText.isIdentifier($0.name) }
    }

    /// Whether it is a table that Pushsweep keeps, or a queue that it sends from.
    fileprivate var isOfPushsweep: Bool {
        if name.name.lowercased().utf8.starts(with: "pushsweep_".utf8) { return true }
        func has(_ names: String...) -> Bool { names.allSatisfy { column($0) != nil } }
        guard has("payload", "device_token") else { return false }
        return has("state", "attempts", "not_before", "answered_at")
            || name.name.lowercased() == PushsweepTable.pushQueue.name
    }
}
