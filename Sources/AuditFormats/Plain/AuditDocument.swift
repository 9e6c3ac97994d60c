import Looks

/// A report as people read it: the verdict first, then what to do, then the figures. Terminals and Markdown
/// print the same parts.
struct AuditDocument {
    enum Part {
        case title(word: String, sentence: String)
        case heading(String)
        /// An empty line of a terminal. Markdown has one before each part.
        case space
        case line(String)
        case problem(FindingGroup)
        case item(String)
        case table(FigureTable)
        case particular(name: String, value: String)
    }

    /// What a document has at most.
    struct Limits {
        var findings = Int.max
        /// Apps with tables of their own.
        var apps = Int.max
        var rows = 20
        /// Sources of evidence that are told apart.
        var sources = 7
    }

    private(set) var parts: [Part] = []
    private let report: AuditReport
    private let limits: Limits

    init(_ report: AuditReport, _ limits: Limits) {
        (self.report, self.limits) = (report, limits)
        let verdict = AuditHeadline(report)
        parts.append(.title(word: verdict.word, sentence: verdict.sentence))
        if !verdict.counts.isEmpty {
            parts.append(.line("Problems: \(verdict.counts.joined(separator: ", "))"))
        }
        let (since, until) = (report.since.moment.cut(to: 60), report.until.moment.cut(to: 60))
        parts.append(.line("Period: \(since) to \(until)"))
        addProblems(AuditHeadline.groups(verdict.problems))
        addList("Not examined", report.gaps)
        addList("Worth knowing", AuditHeadline.groups(verdict.notes).map(\.paragraph))
        addList(
            "Decided to live with", AuditHeadline.groups(verdict.decided).map(\.paragraph))
        addList("Well", AuditHeadline.groups(verdict.well).map(\.paragraph))
        addFigures(verdict)
        for app in report.apps.prefix(limits.apps) { add(app) }
        addRest(report.apps.count - limits.apps, "more app")
        parts.append(.heading("About this report"))
        parts += report.particulars.map { .particular(name: $0.name, value: $0.value) }
    }

    private mutating func addRest(_ count: Int, _ noun: String) {
        guard count > 0 else { return }
        parts.append(
            .line("\(count.grouped(noun)) left out here; the JSON format has all."))
    }

    private mutating func addProblems(_ groups: [FindingGroup]) {
        guard !groups.isEmpty else { return }
        parts.append(.heading("What to do"))
        for (number, group) in groups.prefix(limits.findings).enumerated() {
            if number > 0 { parts.append(.space) }
            parts.append(.problem(group))
        }
        addRest(groups.count - limits.findings, "more problem")
    }

    private mutating func addList(_ title: String, _ texts: [String]) {
        guard !texts.isEmpty else { return }
        parts.append(.heading(title))
        parts += texts.prefix(limits.findings).map { .item($0) }
        let more = texts.count - limits.findings
        if more > 0 { parts.append(.item("and \(more.grouped) more")) }
    }

    private mutating func addFigures(_ verdict: AuditHeadline) {
        parts += [
            .heading("Figures"),
            report.apps.isEmpty
                ? .line("The settings name no app.")
                : .table(report.overview(verdict).cut(to: 60)),
        ]
        let totals = Totals(report.apps)
        if report.firstLook != nil { return }
        parts.append(
            .line(
                "Became invalid in the period: \(totals.standing.grouped), in as many days before: "
                    + "\(totals.earlier.grouped)."))
        if let changes = report.changeTable {
            parts += [
                .space,
                changes.rows.isEmpty
                    ? .line("No figure differs from the earlier report.")
                    : .table(changes.cut(to: limits.rows)),
            ]
        }
        for table in report.operationTables {
            parts += [.space, .table(table.cut(to: limits.rows))]
        }
    }

    private mutating func add(_ app: AuditedApp) {
        parts.append(.heading(app.object))
        for table in app.tables + app.ageTables {
            parts += [.space, .table(table.cut(to: limits.rows))]
        }
        let spans = EvidenceSpans(
            app.evidence, since: report.since, until: report.until, limit: 31,
            sources: limits.sources)
        if !spans.sources.isEmpty { parts += [.space, .table(spans.table)] }
    }
}

// MARK: Terminals

extension AuditDocument {
    /// The report for terminals, each line ended and at most so many columns wide.
    static func text(_ report: AuditReport, columns: Int = TextLayout.usualWidth) -> String {
        var layout = TextLayout(width: columns)
        for part in AuditDocument(report, Limits(sources: 4)).parts {
            switch part {
            case .title(let word, let sentence):
                layout.add("\(word): \(sentence.cut(to: 600))", rest: "  ")
            case .heading(let text): layout.heading(text.cut(to: max(1, columns - 1)))
            case .space: layout.space()
            case .line(let text): layout.add(text)
            case .problem(let group): layout.add(group)
            case .item(let text): layout.add(text.cut(to: 600), first: "- ", rest: "  ")
            case .table(let table): layout.table(table)
            case .particular(let name, let value):
                layout.add("\(name): \(value.cut(to: 300))", rest: "  ")
            }
        }
        return layout.lines.joined(separator: "\n") + "\n"
    }
}

extension TextLayout {
    fileprivate mutating func add(_ group: FindingGroup) {
        let finding = group.finding
        add(
            "\(finding.severity.rawValue): \(group.objects(8, cut: 80)): "
                + "\(group.sentence.cut(to: 600)) [\(finding.rule.cut(to: 60))]",
            rest: "  ")
        for (word, text) in [("why", group.cause), ("next", group.cure)] {
            guard let text else { continue }
            add("\(word): \(text.cut(to: 600))", first: "  ", rest: "    ")
        }
    }
}

// MARK: Markdown

// GitHub's Markdown (GFM 0.29): the summary of a job, a comment, a page of a wiki. A value may hold any
// character, so each is written with references for `&`, `<` and `>` and with a backslash before each
// character that can begin markup, a link without brackets included. Nothing in a value is code, a link or a
// new cell. GitHub takes a summary of at most 1 MiB.

extension AuditDocument {
    /// The report as Markdown, with a line break at its end.
    static func markdown(_ report: AuditReport) -> String {
        var lines: [String] = []
        var number = 0
        func addItem(_ texts: [String]) {
            if lines.last?.hasPrefix("## ") == true { lines.append("") }
            lines += texts
        }
        for part in AuditDocument(report, Limits(findings: 100, apps: 20)).parts {
            switch part {
            case .title(let word, let sentence):
                lines += ["# \(word.marked(60))", "", sentence.marked(600)]
            case .heading(let text): lines += ["", "## \(text.marked(120))"]
            case .space: break
            case .line(let text): lines += ["", text.marked(600)]
            case .problem(let group):
                number += 1
                addItem(Self.problem(group, number))
            case .item(let text): addItem(["- \(text.marked(600))"])
            case .table(let table): lines += Self.table(table)
            case .particular(let name, let value): addItem(["- \(name): \(value.marked(300))"])
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func problem(_ group: FindingGroup, _ number: Int) -> [String] {
        let finding = group.finding
        return [
            "\(number). **\(finding.severity.rawValue)** \(group.objects(8, cut: 80).marked(800)): "
                + "\(finding.sentence.marked(600)) (\(finding.rule.marked(60)))"
        ]
            + [("Why:", group.cause), ("**Next step:**", group.cure)].compactMap { word, text in
                text.map { "   - \(word) \($0.marked(600))" }
            }
    }

    private static func table(_ table: FigureTable) -> [String] {
        func row(_ cells: [String]) -> String { "| " + cells.joined(separator: " | ") + " |" }
        return [
            "", "**\(table.title)**", "", row(table.columns.map { $0.marked(80) }),
            row(table.columns.indices.map { table.isNumeric($0) ? "--:" : "---" }),
        ] + table.rows.map { row($0.map { $0.text.marked(300) }) }
            + (table.remark.map { ["", $0] } ?? [])
    }
}

extension String {
    /// The text for Markdown, on one line and cut to a number of characters, with everything escaped
    /// that can begin markup.
    fileprivate func marked(_ limit: Int) -> String {
        var text = ""
        for scalar in cut(to: limit).unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\\", "`", "*", "_", "[", "]", "|", "~", "#", "$", "!", "@", "{":
                text += "\\\(scalar)"
            // The colon of `https:` makes a link without brackets, as do the dots of `www.`
            case ":"
            where text.hasSuffix("http") || text.hasSuffix("https") || text.hasSuffix("ftp"):
                text += "\\:"
            case "." where text.lowercased().hasSuffix("www"): text += "\\."
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
