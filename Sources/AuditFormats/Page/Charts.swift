// Charts are drawn by hand: positions along the page are shares of its width, so a chart fits a phone and a
// wide screen without scaling its letters, and no script has to measure anything.

import Operations

/// A chart with a horizontal bar for each name. The name and the figure are above the bar.
struct BarChart {
    let title: String
    let id: String
    /// In the order of the bars.
    let counts: [NamedCount]
    /// What is counted, such as `stale tokens`.
    let noun: String
    /// What the names are, such as `Age of the mark`.
    let unit: String
    let colour: String

    var total: Int { counts.map(\.count).total }

    private static let rowHeight = 40

    func html(in page: PageContent) -> HTML {
        guard total > 0, let largest = counts.max(by: { $0.count < $1.count }) else {
            return """
                <div class="card \(colour)"><h3>\(title)</h3>
                <p class="none">There are no \(noun).</p>
                </div>

                """
        }
        let shown = counts.prefix(page.limits.rows)
        let name = largest.name.cut(to: page.limits.name)
        let bars = shown.enumerated().map { index, count in
            bar(index, count, of: largest.count, in: page)
        }
        return """
            <div class="card \(colour)"><h3>\(title)</h3>
            <p class="line">\(total.grouped) \(noun). Most: \(name), \(largest.count.share(of: total)).</p>
            <svg class="bars" role="img" aria-labelledby="\(id)-t" aria-describedby="\(id)-d" width="100%" \
            height="\(shown.count * Self.rowHeight)"><title id="\(id)-t">\(title)</title><desc id="\(id)-d">\
            \(shown.count.grouped("bar")) for \(total.grouped) \(noun). The longest is \
            \(name) with \(largest.count.grouped). The table below has all figures.</desc>
            \(bars)</svg>
            \(page.figures(FigureTable(title, unit, counts)))
            </div>

            """
    }

    private func bar(
        _ index: Int, _ count: NamedCount, of largest: Int, in page: PageContent
    ) -> HTML {
        let share = Double(max(0, count.count)) / Double(largest)
        // What is there can be seen, however small.
        let width = count.count > 0 ? max(share * 100, 0.6).figure : "0"
        let (text, top) = (index * Self.rowHeight + 16, index * Self.rowHeight + 23)
        return """
            <text x="0" y="\(text)">\(count.name.cut(to: min(page.limits.name, 24)))</text>\
            <text class="n" x="100%" y="\(text)">\(count.count.grouped)</text>\
            <rect class="track" x="0" y="\(top)" width="100%" height="8" rx="4"/>\
            <rect class="bar" x="0" y="\(top)" width="\(width)%" height="8" rx="4"/>

            """
    }
}

extension PageContent {
    /// The figures behind a chart, folded.
    fileprivate func figures(_ table: FigureTable, rows: Int? = nil) -> HTML {
        """
        <details><summary>Figures<span class="hidden">: \(table.title)</span></summary>\
        \(self.table(table, rows: rows))</details>
        """
    }
}

extension Double {
    /// At most two digits after the point, as attributes of SVG have them.
    var figure: String {
        let hundredths = Int((self * 100).rounded())
        if hundredths % 100 == 0 { return "\(hundredths / 100)" }
        let fraction = hundredths % 100
        return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction)"
    }
}

/// A chart with a vertical column for each span of days, and in it a layer for each source.
struct ColumnChart {
    let id: String
    let spans: EvidenceSpans

    var total: Int { spans.spans.map(\.total).total }

    /// The most columns of a chart.
    static let columnLimit = 62
    private static let (top, plot) = (12.0, 160.0)

    func html(in page: PageContent) -> HTML {
        guard total > 0, let highest = spans.spans.max(by: { $0.total < $1.total }) else {
            return """
                <div class="card wide"><h3>\(spans.title)</h3>
                <p class="none">There is no evidence in this period.</p>
                </div>
                """
        }
        let names = spans.sources.map { $0.cut(to: min(page.limits.name, 40)) }
        let scale = Self.scale(highest.total)
        let keys = names.indices.map { source -> HTML in
            """
            <li><span class="key s\(source)"></span><bdi>\(names[source])</bdi> \
            <b>\(spans.spans.map { $0.counts[source] }.total.grouped)</b></li>
            """
        }
        return """
            <div class="card wide"><h3>\(spans.title)</h3>
            <p class="line">\(total.grouped) reports that a token is dead.</p>
            <ul class="keys">\(keys)</ul>
            <svg class="columns" role="img" aria-labelledby="\(id)-t" aria-describedby="\(id)-d" width="100%" \
            height="200"><title id="\(id)-t">\(spans.title)</title><desc id="\(id)-d">\
            \(spans.spans.count.grouped("column")) with a layer for each of \
            \(names.count.grouped("source")). The highest begins on \(highest.name) with \
            \(highest.total.grouped) reports. The table below has all figures.</desc>
            \((scale > 1 ? [0, scale / 2, scale] : [0, 1]).map { Self.grid($0, of: scale) })
            \(spans.spans.indices.map { column(at: $0, names, scale) })\(axis)</svg>
            \(page.figures(spans.table, rows: max(page.limits.rows, Self.columnLimit + 1)))
            </div>
            """
    }

    private static func grid(_ mark: Int, of scale: Int) -> HTML {
        let y = top + plot * (1 - Double(mark) / Double(scale))
        return """
            <line class="grid" x1="0" x2="100%" y1="\(y.figure)" y2="\(y.figure)"/>\
            <text class="mark" x="-8" y="\((y + 4).figure)">\(mark.short)</text>
            """
    }

    private func column(at index: Int, _ names: [String], _ scale: Int) -> HTML {
        let span = spans.spans[index]
        let slot = 100 / Double(spans.spans.count)
        let width = min(slot * 0.8, 7)
        let left = slot * Double(index) + (slot - width) / 2
        var floor = Self.top + Self.plot
        var layers: [HTML] = []
        for (series, count) in span.counts.enumerated() where count > 0 {
            // What is there can be seen, however small.
            let height = max(Self.plot * Double(count) / Double(scale), 1)
            floor -= height
            layers.append(
                """
                <rect class="s\(series)" x="\(left.figure)%" y="\(floor.figure)" width="\(width.figure)%" \
                height="\(height.figure)"/>
                """)
        }
        let parts = zip(names, span.counts).filter { $0.1 > 0 }.map { "\($0) \($1.grouped)" }
        let hint = layers.isEmpty ? "" : "\(span.name): \(parts.joined(separator: ", "))"
        return """
            <g><title>\(hint)</title>\(layers)</g>

            """
    }

    private var axis: [HTML] {
        func label(_ x: String, _ anchor: String, _ text: String) -> HTML {
            """
            <text class="\(anchor)" x="\(x)%" y="192">\(text)</text>
            """
        }
        let spans = spans.spans
        guard spans.count > 1, let first = spans.first, let last = spans.last else {
            return spans.map { label("50", "middle", $0.name) }
        }
        var labels = [label("0", "start", first.name)]
        if spans.count > 4 {
            let middle = (spans.count - 1) / 2
            let x = 100 / Double(spans.count) * (Double(middle) + 0.5)
            labels.append(label(x.figure, "middle", spans[middle].name))
        }
        return labels + [label("100", "end", last.name)]
    }

    /// The end of the axis: a round number with a round half, at least the highest column.
    private static func scale(_ highest: Int) -> Int {
        if highest <= 10 { return highest == 1 ? 1 : (highest + 1) / 2 * 2 }
        var unit = 1
        while true {
            for step in [12, 16, 20, 24, 30, 40, 50, 60, 80, 100] {
                let (scale, overflows) = unit.multipliedReportingOverflow(by: step)
                if overflows { return highest }
                if scale >= highest { return scale }
            }
            unit = unit.multipliedReportingOverflow(by: 10).partialValue
        }
    }
}
