// The figures of the page: tiles, charts and tables.

import Database
import Looks
import Operations

extension PageContent {
    /// How large all is, and the charts of all apps.
    var figures: HTML {
        """
        <section aria-labelledby="figures">
        <h2 id="figures">Figures</h2>
        <dl class="tiles">\(tiles.map(tile))</dl>
        \(charts(totals, id: "all", showsEmpty: report.firstLook == nil))
        </section>
        """
    }

    /// What differs from an earlier report; nil without one.
    var changes: HTML? {
        report.changeTable.map { changes in
            let differences: HTML =
                changes.rows.isEmpty
                ? "<p>No figure differs from the earlier report.</p>" : table(changes)
            return """
                <section aria-labelledby="changes"><h2 id="changes">\(changes.title)</h2>\(differences)</section>
                """
        }
    }

    /// A table of all apps, and each app with its figures. The gravest are first, because the rest may be left out.
    var apps: HTML {
        let apps = report.apps.enumerated().sorted { left, right in
            let (one, other) = (
                verdict.gravest(of: left.element.object) ?? .ok,
                verdict.gravest(of: right.element.object) ?? .ok
            )
            return one == other ? left.offset < right.offset : one > other
        }.map(\.element)
        var sorted = report
        sorted.apps = apps
        let overview: HTML =
            apps.isEmpty
            ? "<p>The settings name no app.</p>"
            : table(sorted.overview(verdict), rows: limits.apps)
        let sections = apps.prefix(limits.sections).enumerated().map { index, app in
            section(app, at: index, of: apps.count)
        }
        let rest = apps.count - limits.sections
        let more: HTML? =
            rest > 0
            ? """
            <p class="more">\(rest.grouped("more app")) left out here; the table above names the first, and the \
            JSON format has all.</p>
            """ : nil
        return """
            <section aria-labelledby="apps">
            <h2 id="apps">Apps</h2>
            \(overview)
            \(sections)\(more)
            </section>
            """
    }

    /// One app with its figures. The charts of all apps are those of a single one.
    private func section(_ app: AuditedApp, at index: Int, of count: Int) -> HTML {
        let draws = count > 1 && index < limits.charts
        let tables = app.tables + (draws || count == 1 ? [] : app.ageTables)
        let badge = verdict.gravest(of: app.object).map { severity -> HTML in
            """
             <span class="badge \(severity.rawValue)">\(severity.rawValue)</span>
            """
        }
        let line =
            "\(app.tokens.rows.grouped("row")), "
            + "\(app.tokens.stale.share(of: app.tokens.rows)) stale"
        return """
            <details class="fold"><summary><h3>\(app.object.cut(to: limits.name))</h3> \
            <span class="line">\(line)</span>\(badge)</summary>
            \(draws ? charts(Totals([app]), id: "app\(index)", showsEmpty: false) : nil)
            <div class="tables">
            \(tables.map { table($0) })</div>
            </details>

            """
    }

    /// The large figures at the top: what it is, how much, and a remark.
    private var tiles: [(label: String, figure: String, remark: String)] {
        var tiles = [
            ("Living tokens", totals.living.grouped, "of \(totals.rows.grouped("row"))"),
            (
                "Stale tokens", totals.stale.grouped,
                totals.rows == 0
                    ? "no rows" : "\(totals.stale.share(of: totals.rows)) of all rows"
            ),
        ]
        if report.firstLook == nil { tiles += historyTiles }
        if totals.suspects > 0 {
            tiles.append(
                (
                    "Called bad by APNs", totals.suspects.grouped,
                    totals.known > 0
                        ? "\(totals.known.grouped) known before" : "none known before"
                ))
        }
        return tiles
    }

    /// What Pushsweep's own tables tell.
    private var historyTiles: [(label: String, figure: String, remark: String)] {
        let open = report.holds.count { $0.state == "open" }
        let held = report.holds.filter { $0.state == "open" }.map(\.tuples).total
        var tiles = [
            (
                "Last good sweep", report.runs.hoursSince.map { "\($0.span) ago" } ?? "none",
                report.runs.lastGoodSweep?.moment.cut(to: 40) ?? "no run is recorded"
            ),
            (
                "Evidence waiting", totals.waiting.grouped,
                held > 0
                    ? "\(held.grouped) more in open holds"
                    : totals.waiting == 0 ? "nothing to apply" : "for the next sweep"
            ),
            (
                "Open holds", open.grouped,
                open == 0 ? "no decision is due" : "a person must decide"
            ),
            (
                "Became invalid", totals.standing.grouped,
                "\(totals.earlier.grouped) in as many days before"
            ),
        ]
        if totals.saved > 0 {
            tiles.append(("Sends saved", totals.saved.grouped, "each a request and a 410"))
        }
        return tiles
    }

    private func tile(_ label: String, _ figure: String, _ remark: String) -> HTML {
        """
        <div class="tile"><dt>\(label)</dt><dd><span class="\(figure.count > 9 ? "large long" : "large")">\
        \(figure)</span> <span class="small">\(remark)</span></dd></div>
        """
    }

    private func charts(_ totals: Totals, id: String, showsEmpty: Bool) -> HTML {
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
        return """
            <div class="charts">
            \(columns.map { $0.html(in: self) })
            \(bars.map { $0.html(in: self) })
            </div>
            """
    }

    /// The most columns that a phone shows side by side.
    private static let columnsOfPhone = 3

    /// A table, cut to the limits.
    func table(_ table: FigureTable, rows limit: Int? = nil) -> HTML {
        let table = table.cut(to: limit ?? limits.rows)
        let kinds = table.columns.indices.map { table.isNumeric($0) ? "n" : "t" }
        let headings = table.columns.map { $0.cut(to: limits.name) }
        // On a phone a row of many columns is a list, and each cell has its heading before it.
        let isList = headings.count > Self.columnsOfPhone
        let columns = zip(headings, kinds).map { heading, kind -> HTML in
            """
            <th scope="col" class="\(kind)">\(heading)</th>
            """
        }
        let rows = table.rows.map { row -> HTML in
            let texts = row.map { $0.text.cut(to: limits.name) }
            let cells = texts.indices.dropFirst().map { column -> HTML in
                let label: HTML? =
                    isList
                    ? """
                     data-label="\(headings[column])"
                    """ : nil
                return """
                    <td class="\(kinds[column])"\(label)>\(texts[column])</td>
                    """
            }
            return """
                <tr><th scope="row">\(texts[0])</th>\(cells)</tr>

                """
        }
        let remark = table.remark.map { remark -> HTML in
            """
            <p class="more">\(remark)</p>
            """
        }
        return """
            <div class="scroll\(isList ? " whole" : "")" role="group" tabindex="0" aria-label="\(table.title)">\
            <table class="\(isList ? "many" : "few")"><caption>\(table.title)</caption>
            <thead><tr>\(columns)</tr></thead>
            <tbody>\(rows)</tbody></table>\(remark)</div>
            """
    }
}
