import Operations

/// The report for terminals: the verdict first, then what to do, then the figures.
struct AuditText {
    private let report: AuditReport
    private let verdict: Verdict

    /// The most rows of a table.
    private static let rows = 20

    /// Prepares a report.
    init(_ report: AuditReport) {
        self.report = report
        verdict = Verdict(report)
    }

    /// The lines, each ended.
    var text: String {
        var layout = TextLayout()
        addHead(to: &layout)
        addFindings(to: &layout)
        layout.heading("Figures")
        if report.apps.isEmpty {
            layout.add("The settings name no app.")
        } else {
            layout.table(report.overview(verdict).cut(to: 60), indent: 0)
        }
        if let changes = report.changeTable {
            layout.space()
            if changes.rows.isEmpty {
                layout.add("No figure differs from the earlier report.")
            } else {
                layout.table(changes.cut(to: Self.rows), indent: 0)
            }
        }
        for table in report.operationTables {
            layout.space()
            layout.table(table.cut(to: Self.rows), indent: 0)
        }
        for app in report.apps { add(app, to: &layout) }
        layout.heading("About this report")
        for (name, value) in report.particulars {
            layout.add("\(name): \(value.cut(to: 300))", rest: "  ")
        }
        return layout.lines.joined(separator: "\n") + "\n"
    }

    private func addHead(to layout: inout TextLayout) {
        layout.add("\(verdict.word): \(verdict.sentence.cut(to: 600))", rest: "  ")
        if !verdict.counts.isEmpty {
            layout.add("Problems: \(verdict.counts.joined(separator: ", "))")
        }
        layout.add("Period: \(report.since.moment) to \(report.until.moment)".cut(to: 200))
    }

    private func addFindings(to layout: inout TextLayout) {
        if !verdict.problems.isEmpty { layout.heading("What to do") }
        for (number, group) in Verdict.groups(verdict.problems).enumerated() {
            let finding = group.finding
            if number > 0 { layout.space() }
            layout.add(
                "\(finding.severity.rawValue): \(group.objects(8, cut: 80)): "
                    + "\(finding.summary.cut(to: 600)) [\(finding.rule.cut(to: 60))]",
                rest: "  ")
            if !finding.cause.isEmpty {
                layout.add("why: \(finding.cause.cut(to: 600))", first: "  ", rest: "    ")
            }
            if !finding.cure.isEmpty {
                layout.add("next: \(finding.cure.cut(to: 600))", first: "  ", rest: "    ")
            }
        }
        addList("Not examined", report.gaps, to: &layout)
        addList("Worth knowing", Verdict.groups(verdict.notes).map(\.paragraph), to: &layout)
        addList("Well", Verdict.groups(verdict.well).map(\.paragraph), to: &layout)
    }

    private func addList(_ title: String, _ texts: [String], to layout: inout TextLayout) {
        guard !texts.isEmpty else { return }
        layout.heading(title)
        for text in texts { layout.add(text.cut(to: 600), first: "- ", rest: "  ") }
    }

    private func add(_ app: AuditedApp, to layout: inout TextLayout) {
        layout.heading(app.object.cut(to: 80 - 1))
        for table in app.tables + app.ageTables {
            layout.space()
            layout.table(table.cut(to: Self.rows), indent: 0)
        }
        let spans = EvidenceSpans(
            app.evidence, since: report.since, until: report.until, limit: 31,
            sources: 4)
        guard !spans.sources.isEmpty else { return }
        layout.space()
        layout.table(spans.table, indent: 0)
    }
}
