// The report as one table in long form: a line per figure, so that a spreadsheet or a script can filter
// and sum without knowing the shape of the report. Columns: the section; the object, such as
// `chat/production`; the entry where an object has several, such as a day and a source; the figure's name; its
// value.
// Texts are made inert; numbers are written by this program and stay as they are, `-3` included.

import Operations

/// The report as CSV (RFC 4180).
struct AuditCSV {
    private var lines: [String] = []

    /// Writes a report.
    init(_ report: AuditReport) {
        lines.append(CSVRecord.line(["section", "object", "entry", "name", "value"]))
        addHead(report)
        for (number, finding) in report.findings.enumerated() { add(finding, number + 1) }
        for app in report.apps { add(app) }
        addOperations(report)
    }

    /// The lines, the names of the columns first.
    var text: String { lines.joined() }

    private mutating func add(
        _ section: String, _ object: String, _ entry: String, _ name: String, _ value: String?
    ) {
        guard let value else { return }
        lines.append(CSVRecord.line([section, object, entry, name, value].map(\.inert)))
    }

    private mutating func add(
        _ section: String, _ object: String, _ entry: String, _ name: String, _ value: Int?
    ) {
        guard let value else { return }
        let names = [section, object, entry, name].map(\.inert)
        lines.append(CSVRecord.line(names + ["\(value)"]))
    }

    private mutating func addHead(_ report: AuditReport) {
        let pairs: [(String, String?)] = [
            ("version", report.version), ("host", report.host), ("operator", report.operator),
            ("generated", report.generated), ("since", report.since), ("until", report.until),
            ("settings", report.settings), ("table", report.table),
            ("healthy", Verdict(report).healthy ? "yes" : "no"), ("headline", report.headline),
        ]
        for (name, value) in pairs { add("report", "", "", name, value) }
        for (number, gap) in report.gaps.enumerated() {
            add("gaps", "", "\(number + 1)", "gap", gap)
        }
    }

    private mutating func add(_ finding: AuditFinding, _ number: Int) {
        let fields: [(String, String)] = [
            ("rule", finding.rule), ("severity", finding.severity.rawValue),
            ("summary", finding.summary), ("cause", finding.cause), ("cure", finding.cure),
        ]
        for (name, value) in fields where !value.isEmpty {
            add("findings", finding.object, "\(number)", name, value)
        }
    }

    private mutating func add(_ section: String, _ object: String, _ counts: [NamedCount]) {
        for count in counts { add(section, object, "", count.name, count.count) }
    }

    private mutating func add(_ app: AuditedApp) {
        let object = app.object
        addTokens(app.tokens, object)
        add("forms", object, app.tokens.forms)
        add("stale by age", object, app.staleAges)
        add("stale by reason", object, app.staleReasons)
        add("registrations by age", object, app.registrationAges)
        for day in app.evidence {
            let entry = "\(day.day) \(day.source)"
            let figures = [
                ("applied", day.applied), ("already", day.already), ("newer", day.newer),
                ("unknown", day.unknown), ("refused", day.refused),
            ]
            // Most are zero: 400 days of nine sources would be 10,000 lines of nothing for each app.
            for (name, value) in figures where value != 0 {
                add("evidence", object, entry, name, value)
            }
        }
        add("queue", object, "", "open", app.queue?.open)
        add("queue", object, "", "to stale", app.queue?.toStale)
        add("queue", object, "", "to unknown", app.queue?.toUnknown)
        add("queue results", object, app.queue?.results ?? [])
        for credential in app.credentials {
            let entry = credential.file
            add("credentials", object, entry, "kind", credential.kind)
            add("credentials", object, entry, "ends", credential.ends)
            add("credentials", object, entry, "days left", credential.daysLeft)
            add("credentials", object, entry, "problem", credential.problem)
        }
        addForecast(app.forecast, object)
        addDeep(app.deep, object)
    }

    private mutating func addTokens(_ tokens: AuditedTokens, _ object: String) {
        let figures: [(String, Int?)] = [
            ("rows", tokens.rows), ("living", tokens.living), ("stale", tokens.stale),
            ("revived", tokens.revived), ("never registered", tokens.neverRegistered),
            ("from the future", tokens.fromTheFuture), ("empty", tokens.empty),
            ("malformed", tokens.malformed), ("truncated", tokens.truncated),
        ]
        for (name, value) in figures { add("tokens", object, "", name, value) }
    }

    private mutating func addForecast(_ forecast: SweepForecast, _ object: String) {
        add("forecast", object, "", "waiting", forecast.waiting)
        guard forecast.isJudged else { return }
        let figures: [(String, Int)] = [
            ("applied", forecast.applied),
            ("newer", forecast.newer), ("unknown", forecast.unknown),
            ("removals", forecast.removals),
        ]
        for (name, value) in figures { add("forecast", object, "", name, value) }
        add("forecast", object, "", "held", forecast.held ? "yes" : "no")
    }

    private mutating func addDeep(_ deep: DeepTokens?, _ object: String) {
        guard let deep else { return }
        let figures: [(String, Int?)] = [
            ("duplicate tokens", deep.duplicateTokens), ("duplicate rows", deep.duplicateRows),
            ("tokens of several users", deep.tokensOfSeveralUsers),
            ("tokens in both environments", deep.tokensInBothEnvironments),
            ("users", deep.users), ("users without living token", deep.usersWithoutLivingToken),
        ]
        for (name, value) in figures { add("sorted", object, "", name, value) }
        add("tokens per user", object, deep.tokensPerUser)
    }

    private mutating func addOperations(_ report: AuditReport) {
        let runs = report.runs
        add("runs", "", "", "last good sweep", runs.lastGoodSweep)
        add("runs", "", "", "hours since", runs.hoursSince.map { "\($0)" })
        add("runs", "", "", "longest gap", runs.longestGap.map { "\($0)" })
        add("run endings", "", runs.endings)
        for run in runs.changing {
            add("changing runs", "", run.run, "kind", run.kind)
            add("changing runs", "", run.run, "started", run.started)
            add("changing runs", "", run.run, "rows", run.rows)
            add("changing runs", "", run.run, "by", run.by)
            add("changing runs", "", run.run, "undone", run.undone ? "yes" : "no")
        }
        for (number, hold) in report.holds.enumerated() {
            let (object, entry) = ("\(hold.app)/\(hold.environment)", "\(number + 1)")
            add("holds", object, entry, "state", hold.state)
            add("holds", object, entry, "held", hold.held)
            add("holds", object, entry, "cause", hold.cause)
            add("holds", object, entry, "tuples", hold.tuples)
            add("holds", object, entry, "candidates", hold.candidates)
            add("holds", object, entry, "living", hold.living)
            add("holds", object, entry, "judgement", hold.judgement)
            add("holds", object, entry, "decision", hold.decision)
            add("holds", object, entry, "reason", hold.reason)
        }
        add("quarantine", "", "", "feeds", report.quarantine.feeds)
        add("quarantine", "", "", "bytes", report.quarantine.bytes)
        add("quarantine reasons", "", report.quarantine.reasons)
        for change in report.changes ?? [] {
            add("changes", change.object, change.figure, "before", change.before)
            add("changes", change.object, change.figure, "after", change.after)
        }
    }
}
