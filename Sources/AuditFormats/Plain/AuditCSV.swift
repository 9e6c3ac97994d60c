// The report as one table in long form: a line per figure, so that a spreadsheet or a script can filter
// and sum without knowing the shape of the report. Columns: the section; the object, such as
// `chat/production`; the entry where an object has several, such as a day and a source; the figure's name; its
// value.
// Texts are made inert; numbers are written by this program and stay as they are, `-3` included.

import Operations

/// The report as CSV (RFC 4180).
struct AuditCSV {
    private typealias Values = [(String, (any CustomStringConvertible)?)]

    private var lines: [String] = []

    init(_ report: AuditReport) {
        lines.append(CSVRecord.line(["section", "object", "entry", "name", "value"]))
        addHead(report)
        for (number, finding) in report.findings.enumerated() {
            let values = [
                ("rule", finding.rule), ("severity", finding.severity.rawValue),
                ("summary", finding.sentence), ("cause", finding.cause ?? ""),
                ("cure", finding.cure),
            ]
            add("findings", finding.object, "\(number + 1)", values.filter { !$0.1.isEmpty })
        }
        for app in report.apps { add(app) }
        addOperations(report)
    }

    /// The lines, the names of the columns first.
    var text: String { lines.joined() }

    /// Adds a line for each value that is there.
    private mutating func add(
        _ section: String, _ object: String, _ entry: String, _ values: Values
    ) {
        for case (let name, let value?) in values {
            let names = [section, object, entry, name].map(\.inert)
            lines.append(CSVRecord.line(names + [value is Int ? "\(value)" : "\(value)".inert]))
        }
    }

    private mutating func add(_ section: String, _ object: String, _ counts: [NamedCount]) {
        add(section, object, "", counts.map { ($0.name, $0.count) })
    }

    private mutating func addHead(_ report: AuditReport) {
        add(
            "report", "", "",
            [
                ("version", report.version), ("host", report.host), ("operator", report.operator),
                ("generated", report.generated), ("since", report.since), ("until", report.until),
                ("settings", report.settings), ("table", report.table),
                ("healthy", Verdict(report).healthy ? "yes" : "no"),
                ("headline", report.headline),
            ])
        for (number, gap) in report.gaps.enumerated() {
            add("gaps", "", "\(number + 1)", [("gap", gap)])
        }
    }

    private mutating func add(_ app: AuditedApp) {
        let (object, tokens) = (app.object, app.tokens)
        add(
            "tokens", object, "",
            [
                ("rows", tokens.rows), ("living", tokens.living), ("stale", tokens.stale),
                ("revived", tokens.revived), ("never registered", tokens.neverRegistered),
                ("from the future", tokens.fromTheFuture), ("empty", tokens.empty),
                ("malformed", tokens.malformed), ("truncated", tokens.truncated),
            ])
        add("forms", object, tokens.forms)
        add("stale by age", object, app.staleAges)
        add("stale by reason", object, app.staleReasons)
        add("registrations by age", object, app.registrationAges)
        for day in app.evidence {
            let figures = [
                ("applied", day.applied), ("already", day.already), ("newer", day.newer),
                ("unknown", day.unknown), ("refused", day.refused),
            ]
            // Most are zero: 400 days of nine sources would be 10,000 lines of nothing for each app.
            add("evidence", object, "\(day.day) \(day.source)", figures.filter { $0.1 != 0 })
        }
        add(
            "queue", object, "",
            [
                ("open", app.queue?.open), ("to stale", app.queue?.toStale),
                ("to unknown", app.queue?.toUnknown),
            ])
        add("queue results", object, app.queue?.results ?? [])
        for credential in app.credentials {
            add(
                "credentials", object, credential.file,
                [
                    ("kind", credential.kind), ("ends", credential.ends),
                    ("days left", credential.daysLeft), ("problem", credential.problem),
                ])
        }
        let forecast = app.forecast
        add("forecast", object, "", [("waiting", forecast.waiting)])
        if forecast.judged {
            add(
                "forecast", object, "",
                [
                    ("applied", forecast.applied), ("newer", forecast.newer),
                    ("unknown", forecast.unknown), ("removals", forecast.removals),
                    ("held", forecast.held ? "yes" : "no"),
                ])
        }
        guard let deep = app.deep else { return }
        add(
            "sorted", object, "",
            [
                ("duplicate tokens", deep.duplicateTokens), ("duplicate rows", deep.duplicateRows),
                ("tokens of several users", deep.tokensOfSeveralUsers),
                ("tokens in both environments", deep.tokensInBothEnvironments),
                ("users", deep.users),
                ("users without living token", deep.usersWithoutLivingToken),
            ])
        add("tokens per user", object, deep.tokensPerUser)
    }

    private mutating func addOperations(_ report: AuditReport) {
        let (runs, quarantine) = (report.runs, report.quarantine)
        add(
            "runs", "", "",
            [
                ("last good sweep", runs.lastGoodSweep), ("hours since", runs.hoursSince),
                ("longest gap", runs.longestGap),
            ])
        add("run endings", "", runs.endings)
        for run in runs.changing {
            add(
                "changing runs", "", run.run,
                [
                    ("kind", run.kind), ("started", run.started), ("rows", run.rows),
                    ("by", run.by), ("undone", run.undone ? "yes" : "no"),
                ])
        }
        for (number, hold) in report.holds.enumerated() {
            add(
                "holds", "\(hold.app)/\(hold.environment)", "\(number + 1)",
                [
                    ("state", hold.state), ("held", hold.held), ("cause", hold.cause),
                    ("tuples", hold.tuples), ("candidates", hold.candidates),
                    ("living", hold.living), ("judgement", hold.judgement),
                    ("decision", hold.decision), ("reason", hold.reason),
                ])
        }
        add("quarantine", "", "", [("feeds", quarantine.feeds), ("bytes", quarantine.bytes)])
        add("quarantine reasons", "", quarantine.reasons)
        for change in report.changes ?? [] {
            add(
                "changes", change.object, change.figure,
                [("before", change.before), ("after", change.after)])
        }
    }
}
