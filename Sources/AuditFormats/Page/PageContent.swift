import Database
import Findings
import Looks

/// What the page shows of a report, cut to limits.
struct PageContent {
    let report: AuditReport
    let verdict: AuditHeadline
    let totals: Totals
    let limits: PageLimits

    var until: String { report.until.moment.cut(to: 40) }

    /// Is it healthy, and why not.
    var header: HTML {
        let sign: HTML =
            verdict.healthy
            ? """
            <circle cx="12" cy="12" r="11"/><path d="M6.5 12.5l3.6 3.6 7.4-8"/>
            """
            : """
            <path class="fill" d="M7.4 1h9.2L23 7.4v9.2L16.6 23H7.4L1 16.6V7.4z"/><path d="M12 6v7.5M12 17.4v.2"/>
            """
        let counts: HTML? =
            verdict.counts.isEmpty
            ? nil : "<strong>Problems: \(verdict.counts.joined(separator: ", "))</strong>"
        return """
            <header class="verdict \(verdict.healthy ? "well" : "ill")"><div class="wrap">
            <p class="kicker">Pushsweep audit</p>
            <h1><svg class="sign" viewBox="0 0 24 24" aria-hidden="true">\(sign)</svg>\(verdict.word)</h1>
            <p class="lead">\(verdict.sentence.cut(to: limits.sentence))</p>
            <p class="meta">\(counts)
            <span>Period \(report.since.moment.cut(to: 40)) to \(until)</span>
            <span>Version \(report.version.cut(to: 40))</span>
            <span>Settings digest <code>\(report.settings.cut(to: 40))</code></span></p>
            </div></header>
            """
    }

    /// What is to be done, and what the audit could not look at.
    var work: HTML {
        let calm: HTML? =
            verdict.problems.isEmpty
            ? """
            <p class="calm">Nothing needs to be done.</p>
            """ : nil
        let problems = list(
            AuditHeadline.groups(verdict.problems), limits.problems, item: finding
        ) { items, more, _ in
            """
            <ol class="findings">
            \(items)</ol>
            \(more)
            """
        }
        let gaps = list(report.gaps, limits.quiet) { gap in
            "<li>\(gap.cut(to: limits.sentence))</li>"
        } view: { items, more, count in
            """
            <div class="gaps"><h3>Not examined (\(count))</h3>
            <ul>\(items)</ul>
            \(more)</div>
            """
        }
        return """
            <section aria-labelledby="to-do">
            <h2 id="to-do">What to do</h2>
            \(calm)\(problems)\(gaps)
            </section>
            """
    }

    /// What is well, what is worth knowing, runs and holds, and the report itself.
    var rest: HTML {
        let particulars = report.particulars.map { pair -> HTML in
            "<div><dt>\(pair.name)</dt><dd>\(pair.value.cut(to: limits.sentence))</dd></div>"
        }
        return """
            <section aria-labelledby="rest">
            <h2 id="rest">The rest</h2>
            \(fold("What is well", verdict.well))\(fold("Worth knowing", verdict.notes))\
            \(fold("Decided to live with", verdict.decided))
            \(operations)
            </section>
            <section aria-labelledby="about"><h2 id="about">About this report</h2>
            <dl class="about">\(particulars)</dl>
            </section>
            """
    }

    private var operations: HTML? {
        let tables = report.operationTables
        guard !tables.isEmpty else { return nil }
        return """
            <details class="fold"><summary><h3>Runs, holds and quarantine</h3></summary>
            <div class="tables">\(tables.map { table($0) })</div></details>
            """
    }

    private func fold(_ heading: String, _ findings: [Finding]) -> HTML? {
        list(AuditHeadline.groups(findings), limits.quiet, item: finding) { items, more, count in
            """
            <details class="fold"><summary><h3>\(heading)</h3> <span class="line">\(count)</span></summary>
            <ul class="findings">\(items)</ul>\(more)</details>

            """
        }
    }

    private func finding(_ group: FindingGroup) -> HTML {
        let severity = group.finding.severity.rawValue
        let cause = group.cause.map { cause -> HTML in
            """
            <p class="cause"><b>Why</b> \(cause.cut(to: limits.sentence))</p>

            """
        }
        let cure = (group.finding.decision ?? group.cure).map { cure -> HTML in
            """
            <p class="cure"><b>Next step</b> \(cure.cut(to: limits.sentence))</p>

            """
        }
        return """
            <li class="finding \(severity)"><h3><span class="badge \(severity)">\(severity)</span> \
            <bdi>\(group.sentence.cut(to: limits.sentence))</bdi></h3>
            <p class="object"><bdi>\(group.objects(limits.objects, cut: limits.name))</bdi></p>
            \(cause)\(cure)<p class="rule">Rule \(group.finding.rule.cut(to: limits.name))</p></li>

            """
    }

    /// A list, cut to a number of items, with what to say below it and the number of all; nil for an empty one.
    private func list<Item>(
        _ items: [Item], _ limit: Int, item: (Item) -> HTML,
        view: (_ items: [HTML], _ more: HTML?, _ count: String) -> HTML
    ) -> HTML? {
        guard !items.isEmpty else { return nil }
        let rest = items.count - limit
        let more: HTML? =
            rest > 0
            ? """
            <p class="more">\(rest.grouped) more left out here; the JSON format has all.</p>
            """ : nil
        return view(items.prefix(limit).map(item), more, items.count.grouped)
    }
}
