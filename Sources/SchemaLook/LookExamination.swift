// `check` looks at the table as `init` does, and compares the mapping of the settings with what the rows,
// types and names show. What rows contradict is a failure (ColumnSamples). What a column that the settings
// leave out suggests is a warning, which a person answers: with the setting, with `none`, or by naming the
// column under ignore-columns. An account with the printed grants sees only some columns, so `check --grants`
// gives it those that are asked about, too.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene
import TokenTable

/// A column that the settings leave out, and what it seems to be.
package struct ColumnQuestion: Hashable, Sendable {
    package let column: String
    let finding: Finding
    /// Whether the account of a sweep gets the right to read it, so that its `check` asks too. What nothing
    /// speaks for may be a person's secret, and is asked about where an administrator looks.
    package var isForAccount = true
}

extension TokenTable {
    /// Examines the database for a use as `examine` does, and compares the settings with a look at the table: what
    /// serves a column that no search finds tokens in, and what columns that the settings leave out seem to be.
    ///
    /// - Throws: only if the database cannot be queried.
    package func examineWithLook(
        _ need: TableUse, partitions: [Partition] = []
    ) throws(StoreFailure) -> StoreReport {
        let dialect = connection.dialect
        var report = try examine(need, partitions: partitions) { sample throws(StoreFailure) in
            try ServingColumn.cure(sample, dialect)
        }
        if report.hasLayout, report.firstFailure.map({ $0.code == .configuration }) ?? true {
            report.findings += try columnQuestions().map(\.finding)
        }
        return report
    }

    /// What columns that the settings leave out seem to be. Empty where the account may not read the rows.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query but a
    ///   missing right.
    package func columnQuestions() throws(StoreFailure) -> [ColumnQuestion] {
        let layout = try layout()
        guard let look = try look() else { return [] }
        let candidates = TokenCandidate.all(of: look)
        let own = candidates.first { $0.column.name.isExactly(layout.token.name) }
        var questions = Self.token(candidates.first, beside: own, layout)
        guard let own else { return questions }
        let proposal = MappingSearch.mapping(of: look, tokens: own)
        questions += parts(proposal, layout)
        questions += Self.registration(look, own, layout)
        questions += Self.leftOut(look, own, layout)
        return questions
    }

    /// A sample of the whole table, with all columns that the account may read and the settings do not
    /// ignore; nil where a column may not be read.
    private func look() throws(StoreFailure) -> LookedTable? {
        let ignored = Set((settings.mapping.ignoredColumns ?? []).map { $0.lowercased() })
        do {
            return try Self.look(
                at: catalogTable(), session, now: session.databaseTime()
            ) { !ignored.contains($0.name.lowercased()) }
        } catch {
            guard error.code == .permission else { throw error }
            return nil
        }
    }

    private static let answer = ", or list it under store.active-users.ignore-columns"

    /// A question that a setting or `ignore-columns` answers.
    static func question(_ column: String, _ sentence: String) -> ColumnQuestion {
        ColumnQuestion(column: column, finding: .warning("column-question", sentence + answer))
    }

    private static func token(
        _ first: TokenCandidate?, beside own: TokenCandidate?, _ layout: TableLayout
    ) -> [ColumnQuestion] {
        guard let first, first.column.name != layout.token.name, first.form.isSearchable,
            first.score >= (own?.score ?? 0) + TokenCandidate.lead
        else { return [] }
        return [
            question(
                first.column.name,
                "column \(first.column.name) of \(layout.table) looks more like that of Apple's tokens than "
                    + "\(layout.token.name): \(first.count) of its \(first.filled) values are "
                    + "\(first.form.words), and its name says so; name it under "
                    + "store.active-users.token")
        ]
    }

    /// The parts that the settings have not and the look has.
    private func parts(
        _ proposal: MappingProposal, _ layout: TableLayout
    ) -> [ColumnQuestion] {
        let mapping = settings.mapping
        let missing: [(MappingProposal.Line.Part, OptionalColumn, Bool, String)] = [
            (
                .environment, mapping.environment, layout.environment != nil,
                "looks like the environment of a token, so tokens of the sandbox and of production are taken "
                    + "for one"
            ),
            (
                .app, mapping.app, layout.app != nil,
                "looks like the app of a token, so evidence of one app reaches the tokens of all"
            ),
            (
                .registeredAt, mapping.registeredAt.column, layout.registration != nil,
                "looks like the time of the registration, and without one a device that came back can be "
                    + "marked"
            ),
        ]
        let used = Set(layout.usedColumns.map { $0.lowercased() })
        return unanswered(proposal, layout, used) + marks(proposal, layout, used)
            + missing.compactMap { part, setting, isThere, words in
                guard !isThere, setting != .absent, let line = proposal.line(part),
                    let column = line.column, let value = line.value,
                    !used.contains(column.lowercased())
                else { return nil }
                return Self.question(
                    column,
                    "column \(column) of \(layout.table) \(words) (\(line.reason)); write \(part.rawValue): "
                        + "\(value) under store.active-users")
            }
    }

    /// The columns that may be the application's mark, where the settings name none: `init` writes that there
    /// is none without a person's word, so only `ignore-columns` answers.
    private func marks(
        _ proposal: MappingProposal, _ layout: TableLayout, _ used: Set<String>
    ) -> [ColumnQuestion] {
        guard layout.living == nil, layout.mark == nil else { return [] }
        return proposal.questions.compactMap { line in
            guard [.living, .invalidatedAt].contains(line.part), let column = line.column,
                !used.contains(column.lowercased())
            else { return nil }
            var question = Self.question(
                column,
                "\(line.reason)\(MarkCandidate.consequence)"
                    + (line.setting.map {
                        "; where it is the mark, write \(line.part.rawValue): \($0) under store.active-users"
                    } ?? ""))
            question.isForAccount = !line.isUnlikely
            return question
        }
    }

    /// The platform and the environment, also where the look itself asks.
    private func unanswered(
        _ proposal: MappingProposal, _ layout: TableLayout, _ used: Set<String>
    ) -> [ColumnQuestion] {
        var questions: [ColumnQuestion] = []
        if layout.platform == nil, let line = proposal.line(.platform), let column = line.column,
            let value = line.value
        {
            questions.append(
                Self.question(
                    column,
                    "column \(column) tells Apple's tokens in \(layout.table) from identifiers of other "
                        + "platforms, which no evidence matches; write platform: \(value) under "
                        + "store.active-users"))
        }
        if layout.environment == nil, settings.mapping.environment != .absent {
            for line in proposal.questions where line.part == .environment {
                guard let column = line.column, !used.contains(column.lowercased()) else {
                    continue
                }
                questions.append(Self.question(column, line.reason))
            }
        }
        return questions
    }

    /// A newest registration that lies whole hours behind the clock, where no zone is named. Whether a device
    /// has registered since only a person knows.
    private static func clock(_ time: TimeLook, _ used: TimeColumn, _ look: LookedTable)
        -> [ColumnQuestion]
    {
        let offset: Int
        switch used.storage {
        case .wallClock(_, let own), .text(let own): offset = own
        case .epochSeconds, .epochMilliseconds: return []
        }
        let sample = ClockSample(time.known, now: look.now, .utc)
        guard offset == 0, time.isClock, sample.ahead == 0, let zone = sample.zone else {
            return []
        }
        let sentence =
            "the newest \(used.name) of \(look.catalog.name) in the rows sampled is \(sample.minutes) minutes "
            + "behind the clock, about whole hours: if a device has registered since, the application writes "
            + "local time; name its zone then, such as \(zone), under store.active-users.registered-at.zone"
        return [ColumnQuestion(column: used.name, finding: Finding(.note, "database", sentence))]
    }

    /// A time that the device moves, where the settings name one that is set once.
    private static func registration(
        _ look: LookedTable, _ own: TokenCandidate, _ layout: TableLayout
    ) -> [ColumnQuestion] {
        guard let used = layout.registration, let column = look.catalog.column(used.name),
            let time = TimeLook(column, of: look)
        else { return [] }
        // What the engine moves at every change says nothing about the device.
        let others = look.columns.filter { !$0.movesItself }.compactMap { TimeLook($0, of: look) }
        let clock = clock(time, used, look)
        guard let later = time.laterRival(among: others) else { return clock }
        let count = later.rowsLater(than: time)
        return clock + [
            question(
                later.column.name,
                "column \(later.column.name) of \(layout.table) is later than \(used.name) in \(count.later) of "
                    + "\(count.all) rows sampled; where the application writes it whenever a device registers, and "
                    + "\(used.name) once, name it under store.active-users.registered-at")
        ]
    }
}

extension ServingColumn {
    /// What serves a column whose values have tokens that no search finds, as a clause; nil where the values
    /// can be searched, are rewritten by another statement, or have no tokens. The expression is tried.
    static func cure(
        _ sample: SampledColumn, _ dialect: SQLDialect
    ) throws(StoreFailure) -> String? {
        let (column, catalog) = (sample.column, sample.catalog)
        let look = LookedTable(
            catalog: catalog, columns: [column], rows: sample.rows, now: EpochMilliseconds(0),
            dialect: dialect)
        guard let token = TokenCandidate(column, of: look) else { return nil }
        switch token.form {
        case .spelled(.several): return "\(token.form.words): \(UnfindableSpelling.oneRowEach)"
        case .hex, .bytes, .spelled: return nil
        case .url, .json:
            guard
                let serving = ServingColumn(
                    tokens: column, token.form, separators: [], in: catalog, dialect)
            else { return nil }
            let fact = "its values are \(token.form.words)"
            let trial = ServingTrial(serving, tokens: token.form, in: column)
            if let fault = try trial.fault(
                sample.sampling, of: catalog, sample.session, now: sample.now)
            {
                return "\(fact), and \(fault): let the application store hex in a column of its own"
            }
            return "\(fact): name \(serving.name) under token once this statement has run: "
                + serving.statement(for: catalog.name, dialect)
        }
    }
}
