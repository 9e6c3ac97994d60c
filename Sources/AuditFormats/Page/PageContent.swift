import Database
import Findings
import Operations

/// Values by the names that the templates have for them. A name that a value does not have is looked up in
/// the values around it, so nothing is nil: what may be missing is a list of none or one.
typealias PageValues = [String: Any]

/// What the page's template shows, cut to limits.
struct PageContent {
    let report: AuditReport
    let verdict: AuditHeadline
    let totals: Totals
    let limits: PageLimits

    func values(policy: String) -> PageValues {
        let changes = report.changeTable
        // The gravest first, because the rest may be left out.
        let apps = report.apps.enumerated().sorted { left, right in
            let (one, other) = (
                verdict.gravest(of: left.element.object) ?? .ok,
                verdict.gravest(of: right.element.object) ?? .ok
            )
            return one == other ? left.offset < right.offset : one > other
        }.map(\.element)
        var sorted = report
        sorted.apps = apps
        let head: PageValues = [
            "policy": policy, "state": verdict.healthy ? "well" : "ill",
            "isWell": verdict.healthy, "word": verdict.word,
            "sentence": verdict.sentence.cut(to: limits.sentence),
            "counts": verdict.counts.isEmpty ? [] : [verdict.counts.joined(separator: ", ")],
            "since": report.since.moment.cut(to: 40), "until": report.until.moment.cut(to: 40),
            "version": report.version.cut(to: 40), "digest": report.settings.cut(to: 40),
            "calm": verdict.problems.isEmpty ? ["Nothing needs to be done."] : [],
            "tiles": tiles,
        ]
        let lists: PageValues = [
            "problems": findings("What to do", verdict.problems, limits.problems),
            "gaps": list("Not examined", report.gaps, limits.quiet) {
                $0.cut(to: limits.sentence)
            },
            "notes": findings("Worth knowing", verdict.notes, limits.quiet)
                + findings("Decided to live with", verdict.decided, limits.quiet),
            "well": findings("What is well", verdict.well, limits.quiet),
            "changes": [changes].compactMap { $0 }.filter { !$0.rows.isEmpty }.map { table($0) },
            "unchanged": changes?.rows.isEmpty == true
                ? ["No figure differs from the earlier report."] : [],
            "overview": apps.isEmpty ? [] : [table(sorted.overview(verdict), rows: limits.apps)],
            "sections": apps.prefix(limits.sections).enumerated().map { index, app in
                section(app, at: index, of: apps.count)
            },
            "moreSections": remark(apps.count - limits.sections),
            "operations": report.operationTables.map { table($0) },
            "particulars": report.particulars.map {
                ["label": $0.name, "value": $0.value.cut(to: limits.sentence)]
            },
        ]
        return [head, lists, charts(totals, id: "all", showsEmpty: true)].reduce(into: [:]) {
            $0.merge($1) { first, _ in first }
        }
    }

    private func remark(_ apps: Int) -> [String] {
        apps <= 0
            ? []
            : [
                "\(apps.grouped("more app")) left out here; the table above names the first, and the "
                    + "JSON format has all."
            ]
    }

    /// The large figures at the top.
    private var tiles: [PageValues] {
        let open = report.holds.count { $0.state == "open" }
        var tiles = [
            ("Living tokens", totals.living.grouped, "of \(totals.rows.grouped("row"))"),
            (
                "Stale tokens", totals.stale.grouped,
                totals.rows == 0
                    ? "no rows" : "\(totals.stale.share(of: totals.rows)) of all rows"
            ),
            (
                "Last good sweep", report.runs.hoursSince.map { "\($0.span) ago" } ?? "none",
                report.runs.lastGoodSweep?.moment.cut(to: 40) ?? "no run is recorded"
            ),
            (
                "Evidence waiting", totals.waiting.grouped,
                totals.waiting == 0 ? "nothing to apply" : "for the next sweep"
            ),
            (
                "Open holds", open.grouped,
                open == 0 ? "no decision is due" : "a person must decide"
            ),
        ]
        if totals.suspects > 0 {
            tiles.append(
                (
                    "Called bad by APNs", totals.suspects.grouped,
                    totals.known > 0
                        ? "\(totals.known.grouped) known before" : "none known before"
                ))
        }
        if totals.idle > 0 {
            tiles.append(
                (
                    "Not registered for long", totals.idle.grouped,
                    totals.leavesIdleOut ? "left out of sends" : "sent to all the same"
                ))
        }
        return tiles.map { label, figure, remark in
            [
                "label": label, "figure": figure, "remark": remark,
                "size": figure.count > 9 ? "large long" : "large",
            ]
        }
    }

    private func charts(_ totals: Totals, id: String, showsEmpty: Bool) -> PageValues {
        let spans = EvidenceSpans(
            totals.evidence, since: report.since, until: report.until,
            limit: ColumnChart.columnLimit)
        let bars = [
            BarChart(
                title: "Stale tokens by age", id: "\(id)-stale", counts: totals.staleAges,
                noun: "stale tokens", unit: "Age of the mark", colour: "c-stale"),
            BarChart(
                title: "Outcomes of sweeps", id: "\(id)-outcomes", counts: totals.outcomes,
                noun: "reports", unit: "What became of it", colour: "c-outcome"),
            BarChart(
                title: "Ages of registrations", id: "\(id)-registrations",
                counts: totals.registrationAges, noun: "living tokens",
                unit: "Age of the registration", colour: "c-living"),
        ].filter { showsEmpty || $0.total > 0 }
        let columns = [ColumnChart(id: "\(id)-evidence", spans: spans)]
            .filter { showsEmpty || $0.total > 0 }
        return [
            "barCharts": bars.map { $0.values(in: self) },
            "columnCharts": columns.map { $0.values(in: self) },
        ]
    }

    /// One app with its figures. The charts of all apps are those of a single one.
    private func section(_ app: AuditedApp, at index: Int, of count: Int) -> PageValues {
        let draws = count > 1 && index < limits.charts
        let tables = app.tables + (draws || count == 1 ? [] : app.ageTables)
        let values: PageValues = [
            "name": app.object.cut(to: limits.name),
            "line": "\(app.tokens.rows.grouped("row")), "
                + "\(app.tokens.stale.share(of: app.tokens.rows)) stale",
            "badges": [verdict.gravest(of: app.object)?.rawValue].compactMap { $0 },
            "tables": tables.map { table($0) },
        ]
        let charts: PageValues =
            draws
            ? charts(Totals([app]), id: "app\(index)", showsEmpty: false)
            : ["barCharts": [PageValues](), "columnCharts": [PageValues]()]
        return values.merging(charts) { first, _ in first }
    }

    /// The most columns that a phone shows side by side.
    private static let columnsOfPhone = 3

    /// A table, cut to the limits.
    func table(_ table: FigureTable, rows limit: Int? = nil) -> PageValues {
        let table = table.cut(to: limit ?? limits.rows)
        let kinds = table.columns.indices.map { table.isNumeric($0) ? "n" : "t" }
        let headings = table.columns.map { $0.cut(to: limits.name) }
        // On a phone a row of many columns is a list, and each cell has its heading before it.
        let isList = headings.count > Self.columnsOfPhone
        return [
            "caption": table.title, "shape": isList ? "many" : "few",
            "columns": zip(headings, kinds).map { ["heading": $0, "kind": $1] },
            "rows": table.rows.map { row -> PageValues in
                let texts = row.map { $0.text.cut(to: limits.name) }
                let cells = texts.indices.dropFirst().map { column -> PageValues in
                    [
                        "cell": texts[column], "kind": kinds[column],
                        "labels": isList ? [headings[column]] : [],
                    ]
                }
                return ["name": texts[0], "cells": cells]
            },
            "remarks": [table.remark].compactMap { $0 },
        ]
    }

    private func findings(
        _ heading: String, _ findings: [Finding], _ limit: Int
    ) -> [PageValues] {
        list(heading, AuditHeadline.groups(findings), limit) { group -> PageValues in
            [
                "severity": group.finding.severity.rawValue,
                "object": group.objects(limits.objects, cut: limits.name),
                "summary": group.finding.sentence.cut(to: limits.sentence),
                "causes": [group.cause].compactMap { $0?.cut(to: limits.sentence) },
                "cures": [group.finding.decision ?? group.cure].compactMap {
                    $0?.cut(to: limits.sentence)
                },
                "rule": group.finding.rule.cut(to: limits.name),
            ]
        }
    }

    /// A folded list, cut to a number of items; none for an empty list.
    private func list<Item>(
        _ heading: String, _ items: [Item], _ limit: Int, _ view: (Item) -> Any
    ) -> [PageValues] {
        guard !items.isEmpty else { return [] }
        let rest = items.count - limit
        return [
            [
                "heading": heading, "total": items.count.grouped,
                "items": items.prefix(limit).map(view),
                "more": rest > 0
                    ? ["\(rest.grouped) more left out here; the JSON format has all."]
                    : [],
            ]
        ]
    }
}

// A report has no bound: apps, findings, sources and the lengths of names come from settings and tables. The
// page has one: 300,000 bytes, so that mail and chat take it. So it is written with generous limits first
// and with tighter ones while it is too large. The tightest limits bound the page for any report,
// because each list and each text in it has a limit of its own.

/// What a page lists at most.
struct PageLimits: Hashable, Sendable {
    /// The size of a page in bytes that no report exceeds.
    static let bytes = 300_000

    /// Problems with their causes and next steps.
    var problems: Int
    /// Notes, findings that are well, gaps: each.
    var quiet: Int
    /// Rows of the table of all apps.
    var apps: Int
    /// Apps with tables of their own.
    var sections: Int
    /// Apps with charts of their own.
    var charts: Int
    /// Rows of any other table, and bars of a chart.
    var rows: Int
    /// Objects of one finding.
    var objects: Int
    /// Characters of a sentence.
    var sentence: Int
    /// Characters of a name.
    var name: Int

    /// From generous to tight.
    static let ladder = [
        PageLimits(
            problems: 60, quiet: 60, apps: 100, sections: 50, charts: 12, rows: 60, objects: 8,
            sentence: 600,
            name: 120),
        PageLimits(
            problems: 60, quiet: 60, apps: 100, sections: 40, charts: 4, rows: 30, objects: 6,
            sentence: 400,
            name: 80),
        PageLimits(
            problems: 40, quiet: 30, apps: 60, sections: 20, charts: 0, rows: 20, objects: 6,
            sentence: 300,
            name: 60),
        PageLimits(
            problems: 20, quiet: 10, apps: 30, sections: 6, charts: 0, rows: 12, objects: 4,
            sentence: 240,
            name: 40),
        PageLimits(
            problems: 10, quiet: 5, apps: 15, sections: 2, charts: 0, rows: 8, objects: 4,
            sentence: 160,
            name: 32),
    ]
}
