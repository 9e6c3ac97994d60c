import APNsProtocol
import Database
import Findings
import TokenHygiene

/// What a sample has of a column whose values may be no tokens in the declared encoding.
package struct SampledColumn {
    package let column: CatalogColumn
    /// Its values, each as a row of one.
    package let rows: [ArraySlice<SQLValue>]
    package let catalog: CatalogTable
    /// Reads the same rows with other columns.
    package let sampling: RowSampling
    package let session: DatabaseSession
    package let now: EpochMilliseconds
}

/// What helps a column whose values the declared encoding does not fit, as a clause; nil where nothing is known.
package typealias SampleCure = (SampledColumn) throws(StoreFailure) -> String?

extension TokenTable {
    /// Reads some rows and checks whether their tokens, times and marks have the form that the settings
    /// state.
    func sample(
        _ layout: TableLayout, _ cure: SampleCure?, into report: inout StoreReport
    ) throws(StoreFailure) {
        let catalog = try catalogTable()
        let sampling = RowSampling(layout, catalog, connection)
        // One of the last two is there at most.
        let read = [
            layout.token.name, layout.registration?.name, layout.living?.name, layout.mark?.name,
        ]
        .compactMap { $0 }.compactMap(catalog.column)
        let rows = try retries.retrying(
            "sampling rows of \(layout.table)", do: sampling.rows(read))
        var sample = TokenSample(rows.all.compactMap(\.first))
        let now = try session.databaseTime()
        func times(_ rows: [ArraySlice<SQLValue>]) -> RegistrationSample? {
            layout.registration.map {
                RegistrationSample($0, rows.map { $0[$0.startIndex + 1] }, now: now)
            }
        }
        sample.newest = times(rows.all)?.newest
        report.sample = sample
        // The statement needs a look at more than the settings name, and `check` looks.
        var serving: String? =
            "run `pushsweep check`, which prints the statement that helps where there is one"
        if let cure, let column = catalog.column(layout.token.name) {
            serving = try cure(
                SampledColumn(
                    column: column, rows: rows.all.map { $0.prefix(1) }, catalog: catalog,
                    sampling: sampling, session: session, now: now))
        }
        let isEmpty = try isWithoutTokens(layout, catalog, sample)
        report.findings += rows.findings { rows in
            Self.findings(on: rows.compactMap(\.first), layout, serving, isEmpty: isEmpty)
        }
        if !layout.token.unfindable(rows.all).isEmpty {
            let rewriting = SpellingRewriting(
                layout: layout, table: catalog, triggers: try triggers(layout),
                dialect: connection.dialect)
            report.findings += rows.findings { rows in
                rewriting.findings(layout.token.unfindable(rows), of: rows.count)
            }
        }
        report.findings += rows.findings { times($0)?.findings(of: layout.table) ?? [] }
        report.findings += Self.marks(layout, rows.all)
        if let living = layout.living {
            let exchanged = try exchangedMarks(layout, living, rows.all)
            report.findings += [exchanged].compactMap { $0 }
            let own = try ownMarks(
                among: rows.all.filter { $0.last.map(living.isDead) == true }, layout)
            report.findings += rows.findings { rows in
                var marks = LivingSample(living, rows.compactMap(\.last))
                marks.own = rows.count { row in
                    row.last.map(living.isDead) == true
                        && row.first.flatMap(layout.token.token).map(own.contains) == true
                }
                marks.areExchanged = exchanged != nil
                return marks.findings(of: layout.table, settings.mapping.living)
            }
        }
    }

    /// A warning where each of some rows, whose last value is the mark, counts as dead.
    private static func marks(_ layout: TableLayout, _ rows: [ArraySlice<SQLValue>]) -> [Finding] {
        guard layout.living == nil, let mark = layout.mark, rows.count >= RegistrationSample.enough
        else {
            return []
        }
        let areDead = rows.allSatisfy { row in
            guard let time = row.last.flatMap(mark.mark) else { return false }
            return layout.registration?.registration(row[row.startIndex + 1]).map { $0 <= time }
                ?? true
        }
        guard areDead else { return [] }
        return [
            .warning(
                "all-marked",
                "column \(mark.name) of \(layout.table): each of \(rows.count) rows sampled has a time there and "
                    + "registered no later, so no device would get a notification, and a report changes nothing; "
                    + "unless all of them are dead, name under store.active-users.invalidated-at the column of "
                    + "dead tokens, or `none`")
        ]
    }

    /// The tokens that have a mark of this program, of rows that begin with the token; none where its table is
    /// missing or hidden.
    private func ownMarks(
        among rows: [ArraySlice<SQLValue>], _ layout: TableLayout
    ) throws(StoreFailure) -> Set<DeviceToken> {
        let tokens = Set(rows.compactMap { $0.first.flatMap(layout.token.token) })
        guard !tokens.isEmpty, try canReadTokenMarks() else { return [] }
        return try retries.retrying("looking for own marks in pushsweep_invalid") {
            () throws(SQLFailure) in
            Set(
                try InvalidTokenTable.marks(
                    on: tokens.sorted(), of: nil, connection, locking: false
                ).keys)
        }
    }

    /// Whether a generated column certainly has no token in any row: its expression is wrong then, or no
    /// device has registered. Of a column that the application writes nothing follows: Pushsweep may have
    /// cleared it.
    private func isWithoutTokens(
        _ layout: TableLayout, _ catalog: CatalogTable, _ sample: TokenSample
    ) throws(StoreFailure) -> Bool {
        guard sample.total > 0, sample.total == sample.count(.blank, .placeholder),
            catalog.column(layout.token.name)?.isGenerated == true
        else { return false }
        guard layout.hasTokenIndex else {
            return layout.platform == nil && sample.total < RowSampling.size
        }
        let name = connection.dialect.quoted(layout.token.name)
        let greatest = try retries.retrying(
            "looking for tokens in \(layout.table)",
            do: connection.query(
                "SELECT MAX(\(name)) FROM \(layout.table.sql(connection.dialect))")
        ).scalar
        return greatest.map(TokenSample.isBlank) ?? true
    }

    private static func findings(
        on tokens: [SQLValue], _ layout: TableLayout, _ serving: String?, isEmpty: Bool
    ) -> [Finding] {
        let sample = TokenSample(tokens)
        let misplaced = tokens.count(where: layout.token.isMisplaced)
        let column = "column \(layout.token.name) of \(layout.table)"
        let spelled = sample.total - sample.count(.blank, .placeholder)
        let hex = sample.count(.lowerHex, .upperHex, .mixedHex)
        let list = TokenSample.Spelling.allCases.compactMap { spelling in
            sample.counts[spelling].map { "\(spelling.rawValue): \($0)" }
        }.joined(separator: ", ")
        guard sample.total > 0 else {
            // A row of the platform is looked for by itself.
            if layout.platform != nil { return [] }
            return [
                .warning(
                    "no-rows",
                    "\(layout.table) has no rows; unless no device has registered yet, correct "
                        + "store.active-users.table or the database in store.url")
            ]
        }
        guard spelled > 0 else {
            let fact = "\(column): no tokens among \(sample.total) rows sampled"
            return [
                isEmpty
                    ? .failure(
                        .configuration,
                        "\(fact), and none in any other row: unless no device has registered yet, its "
                            + "expression does not find the tokens in the columns from which it is made; "
                            + "correct the expression, or let the application store the token itself",
                        isAboutRows: true, rule: "unfindable-tokens")
                    : .warning(
                        "unfindable-tokens",
                        "\(fact); unless no device has registered yet, name the column of the tokens under "
                            + "store.active-users.token")
            ]
        }
        let fitting =
            layout.token.encoding == .binary
            ? sample.count(.bytes) : hex - misplaced + sample.count(.grouped)
        if fitting * 2 < spelled {
            return [
                .failure(
                    .configuration,
                    "\(column): encoding \(layout.token.encoding.rawValue) fits \(fitting) of "
                        + "\(spelled) tokens sampled (\(list)); correct the encoding under "
                        + "store.active-users.token, or convert the column"
                        + (serving.map { "; \($0)" } ?? ""), rule: "unfindable-tokens")
            ]
        }
        let unfindable =
            spelled - (layout.token.encoding == .binary ? fitting : hex - misplaced)
            + (layout.token.tellsCaseApart ? sample.count(.mixedHex) : 0)
        let note = unfindable > 0 ? "; no evidence matches \(unfindable) of them" : ""
        let sentence = "\(column): of \(sample.total) rows sampled, stored as \(list)\(note)"
        return [unfindable > 0 ? .warning("unfindable-tokens", sentence) : .ok(sentence)]
    }
}

extension TokenColumn {
    /// The rows whose tokens, their first values, no search finds, by spelling.
    fileprivate func unfindable(_ rows: [ArraySlice<SQLValue>]) -> [UnfindableSpelling: Int] {
        var counts: [UnfindableSpelling: Int] = [:]
        for spelling in rows.compactMap(\.first).compactMap(unfindableSpelling) {
            counts[spelling, default: 0] += 1
        }
        return counts
    }
}
