import Looks
import Operations

/// A table of a report for people, the same in text, Markdown and HTML.
struct FigureTable: Hashable, Sendable {
    /// One cell.
    enum Cell: Hashable, Sendable {
        /// A name or a sentence.
        case text(String)
        /// A count.
        case number(Int)
        /// A share, a number of hours: written, and aligned like a number.
        case measure(String)

        /// The cell as people read it, not yet escaped.
        var text: String {
            switch self {
            case .text(let text), .measure(let text): text
            case .number(let number): number.grouped
            }
        }
    }

    /// What the table shows.
    var title: String
    /// The heading of each column.
    var columns: [String]
    /// The rows, each with a cell per column.
    var rows: [[Cell]]
    /// The number of rows that were left out.
    var leftOut = 0

    init(_ title: String, _ columns: [String], _ rows: [[Cell]]) {
        (self.title, self.columns, self.rows) = (title, columns, rows)
    }

    /// Makes a table of counts with names.
    init(_ title: String, _ name: String, _ counts: [NamedCount]) {
        self.init(
            title, [name, "Count"], counts.map { [.text($0.name), .number($0.count)] })
    }

    /// The table with its first rows only.
    func cut(to limit: Int) -> FigureTable {
        guard rows.count > limit else { return self }
        var table = self
        table.rows = Array(rows.prefix(limit))
        table.leftOut = leftOut + rows.count - limit
        return table
    }

    /// What to say below a table that was cut; nil for a whole one.
    var remark: String? {
        leftOut == 0
            ? nil
            : "\(leftOut.grouped) more \(leftOut == 1 ? "row is" : "rows are") left out here; "
                + "the JSON format has all."
    }

    /// Whether the cells of a column are numbers.
    func isNumeric(_ column: Int) -> Bool {
        !rows.isEmpty
            && rows.allSatisfy { row in
                if case .text = row[column] { false } else { true }
            }
    }
}

// The tables of a report beside those of its apps. Each has all rows; a format cuts what it cannot
// show.

extension AuditReport {
    /// One row per app and environment.
    func overview(_ verdict: AuditHeadline) -> FigureTable {
        FigureTable(
            "Apps",
            [
                "App", "Rows", "Living", "Stale", "Stale share", "Waiting", "Problems",
            ],
            apps.map { app in
                [
                    .text(app.object), .number(app.tokens.rows), .number(app.tokens.living),
                    .number(app.tokens.stale),
                    .measure(app.tokens.stale.share(of: app.tokens.rows)),
                    .number(app.forecast.waiting),
                    .text(verdict.gravest(of: app.object)?.rawValue ?? "none"),
                ]
            })
    }

    /// The figures that differ from the earlier report; nil without one.
    var changeTable: FigureTable? {
        changes.map { changes in
            FigureTable(
                "Changes since the earlier report",
                ["About", "Figure", "Before", "After", "Difference"],
                changes.map { change in
                    let (difference, overflows) = change.after.subtractingReportingOverflow(
                        change.before)
                    let sign = difference > 0 ? "+" : ""
                    return [
                        .text(change.object), .text(change.figure), .number(change.before),
                        .number(change.after),
                        .measure(overflows ? "-" : sign + difference.grouped),
                    ]
                })
        }
    }

    /// The tables about runs, holds and quarantine that have rows.
    var operationTables: [FigureTable] {
        if firstLook != nil { return [] }
        let tables = [
            FigureTable("Time between sweeps", ["Figure", "Value"], sweepRows),
            FigureTable("Runs by kind and exit code", "Run", runs.endings),
            FigureTable(
                "Runs that changed rows", ["Began", "Kind", "Rows", "By", "Undone", "Run"],
                runs.changing.map { run in
                    [
                        .text(run.started.moment), .text(run.kind), .number(run.rows),
                        .text(run.by), .text(run.undone ? "yes" : "no"), .text(run.run),
                    ]
                }),
            FigureTable(
                "Holds",
                ["Held", "App", "State", "Rule", "Tuples", "Decision", "Reason"],
                holds.map { hold in
                    [
                        .text(hold.held.moment), .text(hold.object),
                        .text(hold.state), .text(hold.judgement ?? hold.cause),
                        .number(hold.tuples),
                        .text(hold.decision ?? "none yet"), .text(hold.reason ?? "none given"),
                    ]
                }),
            FigureTable("Quarantine by reason", "Reason", quarantine.reasons),
        ]
        return tables.filter { !$0.rows.isEmpty }
    }

    private var sweepRows: [[FigureTable.Cell]] {
        var rows: [[FigureTable.Cell]] = [
            [.text("Last good sweep"), .measure(runs.lastGoodSweep?.moment ?? "none")]
        ]
        if let hours = runs.hoursSince {
            rows.append([.text("Hours since then"), .measure(hours.hours)])
        }
        if let hours = runs.longestGap {
            rows.append([.text("Longest time without a sweep, hours"), .measure(hours.hours)])
        }
        if quarantine.batches > 0 {
            rows.append([.text("Batches in quarantine"), .number(quarantine.batches)])
            rows.append([
                .text("Bytes in quarantine"),
                quarantine.bytes.megabytes.map { .measure($0) } ?? .number(quarantine.bytes),
            ])
        }
        return rows
    }

    /// What the reader has to know about the report itself, as pairs of name and value.
    var particulars: [(name: String, value: String)] {
        var pairs = [("Period", "\(since.moment) to \(until.moment)")]
        pairs += [
            ("Made", generated.moment), ("On", host), ("By", self.operator), ("Table", table),
            ("Version", version), ("Settings digest", settings),
        ]
        return pairs.filter { !$0.1.isEmpty }.map { (name: $0.0, value: $0.1) }
    }
}

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
        let outcomes = EvidenceOutcome.all(of: evidence)
        return FigureTable(
            "Evidence of the period by source", ["Source"] + outcomes.map(\.heading),
            sorted.map { source, entries in
                [.text(source)] + outcomes.map { .number(entries.map($0.count).total) }
            })
    }

    private var forecastFigures: [Figure] {
        guard forecast.waiting > 0 || forecast.removals > 0 else { return [] }
        let waiting: Figure = ("Reports that wait", forecast.waiting)
        guard forecast.judged else { return [waiting] }
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
