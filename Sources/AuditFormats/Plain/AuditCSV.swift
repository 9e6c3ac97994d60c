// The report as one table in long form: a line per figure, so that a spreadsheet or a script can filter
// and sum without knowing the shape of the report. Columns: the section; the object, such as
// `chat/production`; the entry where an object has several, such as a day and a source; the figure's name; its
// value. A figure is a field of the report, and its name is that of the field in words.
// Texts are made inert; numbers are written by this program and stay as they are, `-3` included.

import Operations

/// The report as CSV (RFC 4180).
struct AuditCSV {
    private var lines = [CSVRecord.line(["section", "object", "entry", "name", "value"])]

    init(_ report: AuditReport) {
        var report = report
        report.healthy = Verdict(report).healthy
        add("report", "", of: report)
        for (number, gap) in report.gaps.enumerated() {
            add("gaps", "", "\(number + 1)", "gap", gap)
        }
        for (number, finding) in report.findings.enumerated() {
            for (name, text) in [
                ("rule", finding.rule), ("severity", finding.severity.rawValue),
                ("summary", finding.sentence), ("cause", finding.cause ?? ""),
                ("cure", finding.cure),
            ] where !text.isEmpty {
                add("findings", finding.object, "\(number + 1)", name, text)
            }
        }
        for app in report.apps { add(app) }
        addOperations(report)
    }

    /// The lines, the names of the columns first.
    var text: String { lines.joined() }

    private mutating func add(
        _ section: String, _ object: String, _ entry: String, _ name: String, _ value: Any
    ) {
        let text: String
        switch value {
        case let flag as Bool: text = flag ? "yes" : "no"
        case let count as Int: text = "\(count)"
        case let measure as Double: text = "\(measure)".inert
        case let words as String: text = words.inert
        default: return
        }
        lines.append(CSVRecord.line([section, object, entry, name].map(\.inert) + [text]))
    }

    /// Adds a line for each field that has a value; lists and parts have sections of their own.
    private mutating func add(
        _ section: String, _ object: String, _ entry: String = "", of part: Any,
        besides others: Set<String> = []
    ) {
        for case (let field?, let value) in Mirror(reflecting: part).children
        where !others.contains(field) {
            let name = field.reduce(into: "") {
                $0 += $1.isUppercase ? " \($1.lowercased())" : "\($1)"
            }
            add(section, object, entry, name, value)
        }
    }

    private mutating func add(_ section: String, _ object: String, _ counts: [NamedCount]) {
        for count in counts { add(section, object, "", count.name, count.count) }
    }

    private mutating func add(_ app: AuditedApp) {
        let object = app.object
        add("tokens", object, of: app.tokens)
        add("forms", object, app.tokens.forms)
        add("stale by age", object, app.staleAges)
        add("stale by reason", object, app.staleReasons)
        add("registrations by age", object, app.registrationAges)
        for day in app.evidence {
            // Most are zero: 400 days of nine sources would be 10,000 lines of nothing for each app.
            for (name, count) in [
                ("applied", day.applied), ("already", day.already), ("newer", day.newer),
                ("unknown", day.unknown), ("refused", day.refused),
            ] where count != 0 {
                add("evidence", object, "\(day.day) \(day.source)", name, count)
            }
        }
        if let queue = app.queue {
            add("queue", object, of: queue)
            add("queue results", object, queue.results)
        }
        for credential in app.credentials {
            add("credentials", object, credential.file, of: credential, besides: ["file"])
        }
        let unknown = ["applied", "newer", "unknown", "removals", "held"]
        add(
            "forecast", object, of: app.forecast,
            besides: Set(["judged"] + (app.forecast.judged ? [] : unknown)))
        guard let deep = app.deep else { return }
        add("sorted", object, of: deep)
        add("tokens per user", object, deep.tokensPerUser)
    }

    private mutating func addOperations(_ report: AuditReport) {
        add("runs", "", of: report.runs)
        add("run endings", "", report.runs.endings)
        for run in report.runs.changing {
            add("changing runs", "", run.run, of: run, besides: ["run"])
        }
        for (number, hold) in report.holds.enumerated() {
            add(
                "holds", hold.object, "\(number + 1)", of: hold, besides: ["app", "environment"])
        }
        add("quarantine", "", of: report.quarantine)
        add("quarantine reasons", "", report.quarantine.reasons)
        for change in report.changes ?? [] {
            add(
                "changes", change.object, change.figure, of: change,
                besides: ["object", "figure"])
        }
    }
}
