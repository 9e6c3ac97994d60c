import Operations

/// What the page's template shows, cut to limits.
struct PageContent {
    /// One app with its figures.
    struct Section {
        let name: String
        let line: String
        let badges: [String]
        let barCharts: [BarChart]
        let columnCharts: [ColumnChart]
        let tables: [TableView]
    }
    /// A name and a value about the report itself.
    struct Particular {
        let label: String
        let value: String
    }

    let policy: String
    let state: String
    let isWell: Bool
    let word: String
    let sentence: String
    let counts: [String]
    let since: String
    let until: String
    let version: String
    let digest: String
    let problems: [ListView<FindingView>]
    let calm: [String]
    let gaps: [ListView<String>]
    let tiles: [TileView]
    let columnCharts: [ColumnChart]
    let barCharts: [BarChart]
    let changes: [TableView]
    let unchanged: [String]
    let overview: [TableView]
    let sections: [Section]
    let moreSections: [String]
    let notes: [ListView<FindingView>]
    let well: [ListView<FindingView>]
    let operations: [TableView]
    let particulars: [Particular]

    /// Prepares a report.
    init(
        _ report: AuditReport, _ verdict: Verdict, _ totals: Totals, _ limits: PageLimits,
        policy: String
    ) {
        self.policy = policy
        state = verdict.healthy ? "well" : "ill"
        isWell = verdict.healthy
        word = verdict.word
        sentence = verdict.sentence.cut(to: limits.sentence)
        counts = verdict.counts.isEmpty ? [] : [verdict.counts.joined(separator: ", ")]
        since = report.since.moment.cut(to: 40)
        until = report.until.moment.cut(to: 40)
        version = report.version.cut(to: 40)
        digest = report.settings.cut(to: 40)
        problems = ListView.some(
            "What to do", Verdict.groups(verdict.problems), limit: limits.problems
        ) { FindingView($0, limits) }
        calm = verdict.problems.isEmpty ? ["Nothing needs to be done."] : []
        gaps = ListView.some("Not examined", report.gaps, limit: limits.quiet) {
            $0.cut(to: limits.sentence)
        }
        tiles = Self.tiles(report, totals)
        (columnCharts, barCharts) = Self.charts(totals, report, limits, id: "all")
        let changeTable = report.changeTable
        changes = (changeTable.map { [$0] } ?? []).filter { !$0.rows.isEmpty }
            .map { TableView($0, limits) }
        unchanged =
            changeTable?.rows.isEmpty == true ? ["No figure differs from the earlier report."] : []
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
        overview =
            apps.isEmpty ? [] : [TableView(sorted.overview(verdict), limits, rows: limits.apps)]
        sections = apps.prefix(limits.sections).enumerated().map { index, app in
            // The charts of all apps are those of a single one.
            let draws = apps.count > 1 && index < limits.charts
            return Self.section(
                app, verdict, report, limits, id: draws ? "app\(index)" : nil,
                drawsAges: draws || apps.count == 1)
        }
        moreSections = Self.remark(apps.count - sections.count)
        notes = ListView.some(
            "Worth knowing", Verdict.groups(verdict.notes), limit: limits.quiet
        ) { FindingView($0, limits) }
        well = ListView.some(
            "What is well", Verdict.groups(verdict.well), limit: limits.quiet
        ) { FindingView($0, limits) }
        operations = report.operationTables.map { TableView($0, limits) }
        particulars = report.particulars.map {
            Particular(label: $0.name, value: $0.value.cut(to: limits.sentence))
        }
    }

    private static func remark(_ apps: Int) -> [String] {
        apps <= 0
            ? []
            : [
                "\(apps.grouped("more app")) left out here; the table above names the first, and the "
                    + "JSON and CSV formats have all."
            ]
    }

    private static func tiles(_ report: AuditReport, _ totals: Totals) -> [TileView] {
        let open = report.holds.count { $0.state == "open" }
        let sweep = report.runs.hoursSince.map { "\($0.span) ago" } ?? "none"
        return [
            TileView(
                label: "Living tokens", figure: totals.living.grouped,
                remark: "of \(totals.rows.grouped("row"))"),
            TileView(
                label: "Stale tokens", figure: totals.stale.grouped,
                remark: totals.rows == 0
                    ? "no rows" : "\(totals.stale.share(of: totals.rows)) of all rows"),
            TileView(
                label: "Last good sweep", figure: sweep,
                remark: report.runs.lastGoodSweep?.moment.cut(to: 40) ?? "no run is recorded"),
            TileView(
                label: "Evidence waiting", figure: totals.waiting.grouped,
                remark: totals.waiting == 0 ? "nothing to apply" : "for the next sweep"),
            TileView(
                label: "Open holds", figure: open.grouped,
                remark: open == 0 ? "no decision is due" : "a person must decide"),
        ]
    }

    private static func charts(
        _ totals: Totals, _ report: AuditReport, _ limits: PageLimits, id: String
    ) -> ([ColumnChart], [BarChart]) {
        let spans = EvidenceSpans(
            totals.evidence, since: report.since, until: report.until,
            limit: ColumnChart.columnLimit)
        let bars = [
            BarChart(
                "Stale tokens by age", id: "\(id)-stale", totals.staleAges, noun: "stale tokens",
                unit: "Age of the mark", colour: "c-stale", limits),
            BarChart(
                "Outcomes of sweeps", id: "\(id)-outcomes", totals.outcomes,
                noun: "reports", unit: "What became of it", colour: "c-outcome", limits),
            BarChart(
                "Ages of registrations", id: "\(id)-registrations", totals.registrationAges,
                noun: "living tokens", unit: "Age of the registration", colour: "c-living", limits),
        ]
        return ([ColumnChart(id: "\(id)-evidence", spans, limits)], bars)
    }

    private static func section(
        _ app: AuditedApp, _ verdict: Verdict, _ report: AuditReport, _ limits: PageLimits,
        id: String?, drawsAges: Bool
    ) -> Section {
        let drawn = id.map { charts(Totals([app]), report, limits, id: $0) }
        return Section(
            name: app.object.cut(to: limits.name),
            line: "\(app.tokens.rows.grouped("row")), "
                + "\(app.tokens.stale.share(of: app.tokens.rows)) stale",
            badges: verdict.gravest(of: app.object).map { [$0.rawValue] } ?? [],
            barCharts: drawn?.1.filter(\.empty.isEmpty) ?? [],
            columnCharts: drawn?.0.filter(\.empty.isEmpty) ?? [],
            tables: (app.tables + (drawsAges ? [] : app.ageTables))
                .map { TableView($0, limits) })
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
