// The mapping follows from the rows, part by part: the token's column first, then what tells rows of other
// platforms apart, because all later parts are judged by the rows of Apple's devices alone. A part that the
// rows do not decide becomes a question. A wrong guess can silence a device; a question costs a minute.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

/// Finds the mapping of one table.
struct MappingSearch {
    let table: LookedTable
    let token: TokenCandidate
    /// What a person has named already.
    let answers: LookAnswers
    var proposal: MappingProposal
    /// Names of columns that have a part already.
    var taken: Set<String> = []
    /// Other columns whose values could be tokens.
    var others: [String] = []
    /// The rows of Apple's devices, by their place in the sample.
    var apple: [Int] = []
    /// The words of the platform that stand in rows of Apple's devices, asked about where they are several.
    var platforms: [String] = []
    /// What the expressions of the proposal have to give in the rows.
    var trials: [ServingTrial] = []
    /// What was wrong with expressions that were tried.
    private let faults: [ExactText: String]

    var dialect: SQLDialect { table.dialect }

    /// The mapping of a table whose tokens are in a column, with expressions that nothing has tried. The answers
    /// fit the table.
    static func mapping(
        of table: LookedTable, tokens token: TokenCandidate, beside others: [TokenCandidate] = [],
        answers: LookAnswers = LookAnswers()
    ) -> MappingProposal {
        search(table, token, others, answers, [:]).proposal
    }

    /// The same with no expression in which `fault` finds one: it is asked about each, and what it says stands
    /// in the questions.
    static func mapping(
        of table: LookedTable, tokens token: TokenCandidate, beside others: [TokenCandidate],
        answers: LookAnswers, fault: (ServingTrial) throws(StoreFailure) -> String?
    ) throws(StoreFailure) -> MappingProposal {
        var faults: [ExactText: String] = [:]
        var tried: Set<ExactText> = []
        while true {
            let search = search(table, token, others, answers, faults)
            let new = search.trials.filter { tried.insert($0.expression).inserted }
            for trial in new { faults[trial.expression] = try fault(trial) }
            // Without an expression another one may be proposed.
            if !new.contains(where: { faults[$0.expression] != nil }) { return search.proposal }
        }
    }

    private static func search(
        _ table: LookedTable, _ token: TokenCandidate, _ others: [TokenCandidate],
        _ answers: LookAnswers, _ faults: [ExactText: String]
    ) -> MappingSearch {
        var search = MappingSearch(table, token, answers, faults)
        search.others = others.map(\.column.name).filter { $0 != token.column.name }
        search.findToken()
        search.findKey()
        search.findPlatform()
        search.tellOtherForms()
        search.findApp()
        search.findEnvironment()
        search.tellLeftOut()
        search.findUser()
        let isAnswered = search.foreignTrigger == nil && search.takeMark()
        search.findRegistration()
        if !isAnswered { search.askMarks() }
        if answers.mark == .beside { search.ignoreMarks() }
        search.silenceDefaults()
        return search
    }

    private init(
        _ table: LookedTable, _ token: TokenCandidate, _ answers: LookAnswers,
        _ faults: [ExactText: String]
    ) {
        (self.table, self.token, self.answers, self.faults) = (table, token, answers, faults)
        var mapping = TableMapping()
        mapping.table = table.catalog.name.description
        proposal = MappingProposal(table: table.catalog, mapping: mapping)
        proposal.rows = table.rows.count
        taken = answers.columns(of: table.catalog).union([token.column.name])
    }

    /// What is wrong with an expression, as far as it was tried; nil where nothing is.
    mutating func fault(of trial: ServingTrial) -> String? {
        trials.append(trial)
        return faults[trial.expression]
    }

    // MARK: Parts of every search

    mutating func add(
        _ part: MappingProposal.Line.Part, _ column: String?, _ value: String, _ reason: String
    ) {
        proposal.lines.append(.init(part: part, column: column, value: value, reason: reason))
        if let column { taken.insert(column) }
    }

    /// Asks about a part; `answer` is the option of `init` that answers, `setting` the value of the part once
    /// `statement` has run.
    mutating func ask(
        _ part: MappingProposal.Line.Part, about column: String? = nil, _ question: String,
        answer: String? = nil, statement: String? = nil, setting: String? = nil
    ) {
        var line = MappingProposal.Line(
            part: part, column: column, value: nil, reason: question, answer: answer)
        (line.statement, line.setting) = (statement, setting)
        proposal.lines.append(line)
    }

    /// Adds to the reason of a part that has a value.
    mutating func explain(_ part: MappingProposal.Line.Part, _ words: String) {
        guard let place = proposal.lines.firstIndex(where: { $0.part == part && $0.value != nil })
        else { return }
        let line = proposal.lines[place]
        proposal.lines[place] = .init(
            part: part, column: line.column, value: line.value, reason: "\(line.reason); \(words)",
            answer: line.answer)
    }

    /// The columns without a part so far, outside of the key.
    var free: [CatalogColumn] {
        let key = Set(table.catalog.primaryKey.count == 1 ? table.catalog.primaryKey : [])
        return table.columns.filter { !taken.contains($0.name) && !key.contains($0.name) }
    }

    /// The words of a column in the rows of Apple's devices, the most frequent first; nil where it holds
    /// none, or more than `most`.
    func words(_ column: CatalogColumn, atMost most: Int) -> [(word: String, count: Int)]? {
        guard table.mayHoldWords(column) else { return nil }
        let all = table.words(column)
        var counts: [ExactText: Int] = [:]
        for word in apple.compactMap({ all[$0] }) {
            counts[ExactText(word), default: 0] += 1
            if counts.count > most { return nil }
        }
        guard !counts.isEmpty else { return nil }
        return counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { (word: $0.key.string, count: $0.value) }
    }

    static func list(_ words: some Sequence<String>) -> String {
        words.map { "`\($0)`" }.joined(separator: ", ")
    }

    // MARK: Token and key

    private mutating func findToken() {
        let column = token.column
        apple = table.values(column.name).indices.filter {
            token.isApple(table.values(column.name)[$0]) == true
        }
        let share = "\(token.count) of \(token.filled) values read are \(token.form.words)"
        guard token.form.isSearchable else { return serveToken(share) }
        proposal.mapping.token = column.name
        var fields = ["column: \(column.name.yamlScalar)"]
        if column.isBinary {
            let encoding: TokenEncoding = token.form == .hex ? .hex : .binary
            fields.append("encoding: \(encoding.rawValue)")
            proposal.mapping.encoding = encoding
        }
        var room =
            answers.token != nil
            ? "; \(LookAnswers.reason)"
            : others.isEmpty
                ? ""
                : "; \(Self.list(others)) may have tokens too, and the name of \(column.name) fits better"
        let isHex = token.form == .hex
        if let length = column.length, case let bytes = isHex ? length / 2 : length,
            bytes < proposal.mapping.longestToken, bytes >= 32
        {
            proposal.mapping.longestToken = bytes
            fields.append("longest: \(bytes)")
            room += "; the column has room for \(bytes) bytes, and Apple announced up to 100"
        }
        let value =
            fields.count == 1
            ? column.name.yamlScalar : "{\(fields.joined(separator: ", "))}"
        add(.token, column.name, value, share + room)
    }

    /// Maps the column that a statement will add.
    private mutating func serveToken(_ share: String) {
        let separators = Set(
            table.values(token.column.name).compactMap(\.text).prefix(200).flatMap {
                $0.utf8.filter(UnfindableSpelling.separators.contains)
            })
        let made = ServingColumn(
            tokens: token.column, token.form, separators: separators, in: table.catalog, dialect)
        let trial = made.map { ServingTrial($0, tokens: token.form, in: token.column) }
        let fault = trial.flatMap { self.fault(of: $0) }
        guard let serving = made, fault == nil else {
            let cure =
                token.form == .spelled(.several)
                ? UnfindableSpelling.oneRowEach
                : (fault ?? "SQLite has no function that makes hex of it")
                    + ": let the application store hex in a column of its own"
            proposal.mapping.token = token.column.name
            ask(
                .token, about: token.column.name,
                "\(share), which no search finds, so `check` refuses the table: \(cure)")
            return add(
                .token, token.column.name, token.column.name.yamlScalar,
                "as it is, until the question above is answered")
        }
        proposal.statements.append(serving.statement(for: table.catalog.name, dialect))
        proposal.mapping.token = serving.name
        add(
            .token, serving.name, serving.name.yamlScalar,
            "\(token.column.name): \(share), which no search finds; the statement above adds this "
                + "column")
        taken.insert(token.column.name)
    }

    private mutating func findKey() {
        let catalog = table.catalog
        if let engine = catalog.engine, !engine.hasTransactions {
            proposal.statements.insert(
                "ALTER TABLE \(catalog.name.sql(dialect)) ENGINE=InnoDB", at: 0)
            ask(
                .table,
                "its engine \(engine.name) has no transactions, so `check` refuses it: run the statement "
                    + "above first")
        }
        let key = catalog.primaryKey
        if let id = catalog.column("id"), catalog.isUnique([id.name]) { return }
        guard key.isEmpty else {
            guard key.count > 1 else { return }
            proposal.mapping.key = key
            return add(
                .key, nil, "[\(key.map(\.yamlScalar).joined(separator: ", "))]",
                "the primary key")
        }
        let unique = catalog.indexes.first { index in
            index.isUnique && !index.columns.isEmpty
                && index.columns.allSatisfy { catalog.column($0)?.isNullable == false }
        }
        guard let unique else {
            return ask(
                .key,
                "no column identifies a row, so `check` refuses the table: give it a primary key"
                    + (dialect.engine == .mariaDB
                        ? ", by the statement where no column is AUTO_INCREMENT and it has no partitions"
                        : ""),
                statement: dialect.engine == .mariaDB
                    ? "ALTER TABLE \(catalog.name.sql(dialect)) ADD COLUMN pushsweep_id BIGINT UNSIGNED "
                        + "NOT NULL AUTO_INCREMENT PRIMARY KEY" : nil)
        }
        proposal.mapping.key = unique.columns
        add(
            .key, nil, "[\(unique.columns.map(\.yamlScalar).joined(separator: ", "))]",
            "the unique index \(unique.name)")
    }

    /// Switches off columns that a default name would take and that are something else.
    private mutating func silenceDefaults() {
        let usual = TableMapping()
        for (part, name, chosen) in [
            (MappingProposal.Line.Part.app, usual.app.name, proposal.mapping.app),
            (.environment, usual.environment.name, proposal.mapping.environment),
            (.registeredAt, usual.registeredAt.column.name, proposal.mapping.registeredAt.column),
        ] {
            guard case .detect = chosen, let name, let column = table.catalog.column(name)
            else { continue }
            // An environment that was not understood is a question already.
            if part == .environment,
                proposal.questions.contains(where: { $0.column == column.name })
            {
                continue
            }
            set(part, to: .absent)
            proposal.lines.append(
                .init(
                    part: part, column: nil, value: "none",
                    reason: "column \(column.name) has the usual name and other values"))
        }
    }

    private mutating func set(_ part: MappingProposal.Line.Part, to column: OptionalColumn) {
        switch part {
        case .app: proposal.mapping.app = column
        case .environment: proposal.mapping.environment = column
        case .registeredAt: proposal.mapping.registeredAt.column = column
        case .table, .key, .token, .platform, .user, .living, .invalidatedAt, .reason,
            .ignoredColumns:
            break
        }
    }
}
