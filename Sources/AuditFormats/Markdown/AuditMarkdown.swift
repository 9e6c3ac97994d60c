// GitHub's Markdown (GFM 0.29): the summary of a job, a comment, a page of a wiki. A value may hold any
// character, so each is written with references for `&`, `<` and `>` and with a backslash before each
// character that can begin markup, a link without brackets included. Nothing in a value is code, a link or a
// new cell.

import Operations

/// The report as Markdown.
struct AuditMarkdown {
    private let report: AuditReport
    private let verdict: Verdict

    /// The most rows of a table, and the most apps with tables of their own: GitHub takes a summary of
    /// at most 1 MiB.
    private static let (rows, apps, findings) = (20, 20, 100)

    /// Prepares a report.
    init(_ report: AuditReport) {
        self.report = report
        verdict = Verdict(report)
    }

    /// The document, with a line break at its end.
    var text: String {
        var lines = ["# \(verdict.word.marked(60))", "", verdict.sentence.marked(600)]
        if !verdict.counts.isEmpty {
            lines += ["", "Problems: " + verdict.counts.joined(separator: ", ")]
        }
        lines += [
            "", "Period: \(report.since.moment.marked(60)) to \(report.until.moment.marked(60))",
        ]
        lines += problems + list("Not examined", report.gaps)
        lines += list("Worth knowing", Verdict.groups(verdict.notes).map(\.paragraph))
        lines += list("Well", Verdict.groups(verdict.well).map(\.paragraph))
        lines += ["", "## Figures"]
        lines +=
            report.apps.isEmpty
            ? ["", "The settings name no app."] : table(report.overview(verdict).cut(to: 60))
        if let changes = report.changeTable {
            lines +=
                changes.rows.isEmpty
                ? ["", "No figure differs from the earlier report."]
                : table(changes.cut(to: Self.rows))
        }
        lines += report.operationTables.flatMap { table($0.cut(to: Self.rows)) }
        lines += report.apps.prefix(Self.apps).flatMap(section)
        if report.apps.count > Self.apps {
            lines += [
                "",
                "\((report.apps.count - Self.apps).grouped("more app")) left out here; the JSON and "
                    + "CSV formats have all.",
            ]
        }
        lines += ["", "## About this report", ""]
        lines += report.particulars.map { "- \($0.name): \($0.value.marked(300))" }
        return lines.joined(separator: "\n") + "\n"
    }

    private var problems: [String] {
        guard !verdict.problems.isEmpty else { return [] }
        var lines = ["", "## What to do", ""]
        let groups = Verdict.groups(verdict.problems)
        for (index, group) in groups.prefix(Self.findings).enumerated() {
            let finding = group.finding
            lines.append(
                "\(index + 1). **\(finding.severity.rawValue)** \(group.objects(8, cut: 80).marked(800)): "
                    + "\(finding.summary.marked(600)) (\(finding.rule.marked(60)))")
            if !finding.cause.isEmpty { lines.append("   - Why: \(finding.cause.marked(600))") }
            if !finding.cure.isEmpty {
                lines.append("   - **Next step:** \(finding.cure.marked(600))")
            }
        }
        if groups.count > Self.findings {
            let more = (groups.count - Self.findings).grouped("more problem")
            lines += ["", "\(more) left out here; the JSON and CSV formats have all."]
        }
        return lines
    }

    private func list(_ title: String, _ texts: [String]) -> [String] {
        guard !texts.isEmpty else { return [] }
        var lines = ["", "## \(title)", ""]
        lines += texts.prefix(Self.findings).map { "- \($0.marked(600))" }
        if texts.count > Self.findings {
            lines.append("- and \((texts.count - Self.findings).grouped) more")
        }
        return lines
    }

    private func section(_ app: AuditedApp) -> [String] {
        let spans = EvidenceSpans(
            app.evidence, since: report.since, until: report.until, limit: 31)
        let tables = (app.tables + app.ageTables).map { $0.cut(to: Self.rows) }
        return ["", "## \(app.object.marked(120))"]
            + (tables + (spans.sources.isEmpty ? [] : [spans.table])).flatMap(table)
    }

    private func table(_ table: FigureTable) -> [String] {
        func row(_ cells: [String]) -> String { "| " + cells.joined(separator: " | ") + " |" }
        var lines = ["", "**\(table.title)**", "", row(table.columns.map { $0.marked(80) })]
        lines.append(row(table.columns.indices.map { table.isNumeric($0) ? "--:" : "---" }))
        lines += table.rows.map { row($0.map { $0.text.marked(300) }) }
        if let remark = table.remark { lines += ["", remark] }
        return lines
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
                text += "\\"
                text.unicodeScalars.append(scalar)
            // The colon of `https:` makes a link without brackets, as do the dots of `www.`
            case ":"
            where text.hasSuffix("http") || text.hasSuffix("https") || text.hasSuffix("ftp"):
                text += "\\:"
            case "." where text.lowercased().hasSuffix("www"):
                text += "\\."
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
