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

    func values(in page: PageContent) -> PageValues {
        guard total > 0, let largest = counts.max(by: { $0.count < $1.count }) else {
            return [
                "id": id, "title": title, "colour": colour, "empty": ["There are no \(noun)."],
            ]
        }
        let shown = counts.prefix(page.limits.rows)
        let name = largest.name.cut(to: page.limits.name)
        return [
            "id": id, "title": title, "colour": colour, "empty": [String](),
            "lead": "\(total.grouped) \(noun). Most: \(name), \(largest.count.share(of: total)).",
            "description":
                "\(shown.count.grouped("bar")) for \(total.grouped) \(noun). The longest is "
                + "\(name) with \(largest.count.grouped). The table below has all figures.",
            "height": shown.count * Self.rowHeight,
            "bars": shown.enumerated().map { index, count -> PageValues in
                let share = Double(max(0, count.count)) / Double(largest.count)
                return [
                    "label": count.name.cut(to: min(page.limits.name, 24)),
                    "figure": count.count.grouped, "textY": index * Self.rowHeight + 16,
                    "barY": index * Self.rowHeight + 23,
                    // What is there can be seen, however small.
                    "width": count.count > 0 ? max(share * 100, 0.6).figure : "0",
                ]
            },
            "tables": [page.table(FigureTable(title, unit, counts))],
        ]
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

    func values(in page: PageContent) -> PageValues {
        guard total > 0, let highest = spans.spans.max(by: { $0.total < $1.total }) else {
            return [
                "id": id, "title": spans.title,
                "empty": ["There is no evidence in this period."],
            ]
        }
        let names = spans.sources.map { $0.cut(to: min(page.limits.name, 40)) }
        let scale = Self.scale(highest.total)
        return [
            "id": id, "title": spans.title, "empty": [String](),
            "lead": "\(total.grouped) reports that a token is dead.",
            "description":
                "\(spans.spans.count.grouped("column")) with a layer for each of "
                + "\(names.count.grouped("source")). The highest begins on \(highest.name) with "
                + "\(highest.total.grouped) reports. The table below has all figures.",
            "grid": (scale > 1 ? [0, scale / 2, scale] : [0, 1]).map { mark in
                let y = Self.top + Self.plot * (1 - Double(mark) / Double(scale))
                return ["y": y.figure, "textY": (y + 4).figure, "mark": mark.short]
            },
            "columns": spans.spans.indices.map { column(at: $0, names, scale) },
            "axis": axis,
            "keys": names.indices.map { source -> PageValues in
                let total = spans.spans.map { $0.counts[source] }.total
                return ["series": source, "source": names[source], "total": total.grouped]
            },
            "tables": [
                page.table(spans.table, rows: max(page.limits.rows, Self.columnLimit + 1))
            ],
        ]
    }

    private func column(at index: Int, _ names: [String], _ scale: Int) -> PageValues {
        let span = spans.spans[index]
        let slot = 100 / Double(spans.spans.count)
        let width = min(slot * 0.8, 7)
        let left = slot * Double(index) + (slot - width) / 2
        var floor = Self.top + Self.plot
        var layers: [PageValues] = []
        for (series, count) in span.counts.enumerated() where count > 0 {
            // What is there can be seen, however small.
            let height = max(Self.plot * Double(count) / Double(scale), 1)
            floor -= height
            layers.append([
                "x": left.figure, "y": floor.figure, "width": width.figure,
                "height": height.figure, "series": series,
            ])
        }
        let parts = zip(names, span.counts).filter { $0.1 > 0 }.map { "\($0) \($1.grouped)" }
        return [
            "hint": layers.isEmpty ? "" : "\(span.name): \(parts.joined(separator: ", "))",
            "layers": layers,
        ]
    }

    private var axis: [[String: String]] {
        let spans = spans.spans
        guard spans.count > 1, let first = spans.first, let last = spans.last else {
            return spans.map { ["x": "50", "anchor": "middle", "text": $0.name] }
        }
        var labels = [["x": "0", "anchor": "start", "text": first.name]]
        if spans.count > 4 {
            let middle = (spans.count - 1) / 2
            let x = 100 / Double(spans.count) * (Double(middle) + 0.5)
            labels.append(["x": x.figure, "anchor": "middle", "text": spans[middle].name])
        }
        return labels + [["x": "100", "anchor": "end", "text": last.name]]
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
