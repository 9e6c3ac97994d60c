import Operations

// The tables of one app. A table without rows is left out, as is a figure that the audit did not take.

extension AuditedApp {
    /// The tables that have rows, the most asked for first.
    var tables: [FigureTable] {
        let tables = [
            Self.figures("Rows", tokenFigures),
            FigureTable("Stale tokens by reason", "Reason", staleReasons),
            outcomeTable,
            Self.figures("What a sweep would do now", forecastFigures),
            queueTable,
            FigureTable("Queue rows by result", "Result", queue?.results ?? []),
            credentialTable,
            Self.figures("What sorting shows", deepFigures),
            FigureTable("Users by living tokens", "Living tokens", deep?.tokensPerUser ?? []),
            FigureTable("Tokens by form", "Form", tokens.forms),
        ]
        return tables.filter { !$0.rows.isEmpty }
    }

    /// The tables of ages that have rows. A page shows them as charts.
    var ageTables: [FigureTable] {
        let tables = [
            FigureTable("Stale tokens by age", "Age of the mark", staleAges),
            FigureTable("Ages of registrations", "Age", registrationAges),
        ]
        return tables.filter { !$0.rows.isEmpty }
    }

    private typealias Figure = (name: String, count: Int?)

    private static func figures(_ title: String, _ figures: [Figure]) -> FigureTable {
        FigureTable(
            title, ["Figure", "Count"],
            figures.compactMap { figure in
                figure.count.map { [.text(figure.name), .number($0)] }
            })
    }

    private var tokenFigures: [Figure] {
        // Zeros of rare faults would hide the figures that matter.
        func some(_ count: Int) -> Int? { count == 0 ? nil : count }
        return [
            ("Rows", tokens.rows), ("Living", tokens.living),
            ("Living after a mark, by a later registration", some(tokens.revived)),
            ("Without a time of registration", some(tokens.neverRegistered)),
            ("Registered in the future", some(tokens.fromTheFuture)),
            ("Stale", tokens.stale), ("Empty", some(tokens.empty)),
            ("Malformed", some(tokens.malformed)),
            ("Malformed, of these shortened", some(tokens.truncated)),
        ]
    }

    private var outcomeTable: FigureTable {
        var sources: [String: [EvidenceDay]] = [:]
        for entry in evidence { sources[entry.source, default: []].append(entry) }
        let sorted = sources.sorted { left, right in
            (right.value.map(\.total).total, left.key) < (left.value.map(\.total).total, right.key)
        }
        return FigureTable(
            "Evidence of the period by source",
            ["Source"] + EvidenceOutcome.allCases.map(\.heading),
            sorted.map { source, entries in
                [.text(source)]
                    + EvidenceOutcome.allCases.map { .number(entries.map($0.count).total) }
            })
    }

    private var forecastFigures: [Figure] {
        guard forecast.waiting > 0 || forecast.removals > 0 else { return [] }
        let waiting: Figure = ("Reports that wait", forecast.waiting)
        guard forecast.isJudged else { return [waiting] }
        return [
            waiting,
            (
                forecast.held ? "Tokens that would be held" : "Tokens that would become invalid",
                forecast.applied
            ),
            ("Tokens that would be kept, registered later", forecast.newer),
            ("Tokens that no row has", forecast.unknown),
            ("Rows whose grace period has ended", forecast.removals),
        ]
    }

    private var queueTable: FigureTable {
        Self.figures(
            "Queue",
            [
                ("Rows without a result", queue?.open),
                ("Of these to stale tokens, which send skips", queue?.toStale),
                ("Of these to tokens that no row has", queue?.toUnknown),
            ])
    }

    private var credentialTable: FigureTable {
        FigureTable(
            "Certificates and keys", ["File", "Kind", "Ends", "Days left", "Problem"],
            credentials.map { credential in
                [
                    .text(credential.file), .text(credential.kind),
                    .text(
                        credential.ends?.moment
                            ?? (credential.problem == nil ? "does not end" : "unknown")),
                    .measure(credential.daysLeft?.grouped ?? "-"),
                    .text(credential.problem ?? "none"),
                ]
            })
    }

    private var deepFigures: [Figure] {
        [
            ("Tokens in more than one row", deep?.duplicateTokens),
            ("Rows beyond the first of these", deep?.duplicateRows),
            ("Tokens of several users", deep?.tokensOfSeveralUsers),
            ("Tokens in both environments", deep?.tokensInBothEnvironments),
            ("Users", deep?.users),
            ("Users with no living token", deep?.usersWithoutLivingToken),
        ]
    }
}
