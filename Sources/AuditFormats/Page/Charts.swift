// Charts are drawn by hand: positions along the page are shares of its width, so a chart fits a phone and a
// wide screen without scaling its letters, and no script has to measure anything.

import Operations

/// A chart with a horizontal bar for each name. The name and the figure are above the bar.
struct BarChart {
    struct Bar {
        let label: String
        let figure: String
        let textY: Int
        let barY: Int
        let width: String
    }

    let id: String
    let title: String
    let lead: String
    let description: String
    let height: Int
    let bars: [Bar]
    let colour: String
    let tables: [TableView]
    let empty: [String]

    private static let rowHeight = 40

    /// Draws counts.
    ///
    /// - Parameters:
    ///   - counts: in the order of the bars.
    ///   - noun: what is counted, such as `stale tokens`.
    ///   - unit: what the names are, such as `Age of the mark`.
    init(
        _ title: String, id: String, _ counts: [NamedCount], noun: String, unit: String,
        colour: String, _ limits: PageLimits
    ) {
        let total = counts.map(\.count).total
        let table = FigureTable(title, unit, counts)
        (self.id, self.title, self.colour) = (id, title, colour)
        guard total > 0, let largest = counts.max(by: { $0.count < $1.count }) else {
            (lead, description, height, bars, tables) = ("", "", 0, [], [])
            empty = ["There are no \(noun)."]
            return
        }
        let shown = counts.prefix(limits.rows)
        empty = []
        lead =
            "\(total.grouped) \(noun). Most: \(largest.name.cut(to: limits.name)), "
            + "\(largest.count.share(of: total))."
        description =
            "\(shown.count.grouped("bar")) for \(total.grouped) \(noun). The longest is "
            + "\(largest.name.cut(to: limits.name)) with \(largest.count.grouped). "
            + "The table below has all figures."
        height = shown.count * Self.rowHeight
        bars = shown.enumerated().map { index, count in
            let share = Double(max(0, count.count)) / Double(largest.count)
            return Bar(
                label: count.name.cut(to: min(limits.name, 24)), figure: count.count.grouped,
                textY: index * Self.rowHeight + 16, barY: index * Self.rowHeight + 23,
                // What is there can be seen, however small.
                width: count.count > 0 ? max(share * 100, 0.6).figure : "0")
        }
        tables = [TableView(table, limits)]
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
    struct Layer {
        let x: String
        let y: String
        let width: String
        let height: String
        let series: Int
    }
    struct Column {
        let hint: String
        let layers: [Layer]
    }
    struct GridLine {
        let y: String
        let textY: String
        let mark: String
    }
    struct AxisLabel {
        let x: String
        let anchor: String
        let text: String
    }
    struct Key {
        let series: Int
        let source: String
        let total: String
    }

    let id: String
    let title: String
    let lead: String
    let description: String
    let grid: [GridLine]
    let columns: [Column]
    let axis: [AxisLabel]
    let keys: [Key]
    let tables: [TableView]
    let empty: [String]

    private static let (top, plot) = (12.0, 160.0)

    /// Draws evidence.
    init(id: String, _ spans: EvidenceSpans, _ limits: PageLimits) {
        (self.id, title) = (id, spans.title)
        let sums = spans.sources.indices.map { source in spans.spans.map { $0.counts[source] }.total
        }
        let total = sums.total
        guard total > 0, let highest = spans.spans.max(by: { $0.total < $1.total }) else {
            (lead, description, grid, columns, axis, keys, tables) = ("", "", [], [], [], [], [])
            empty = ["There is no evidence in this period."]
            return
        }
        let names = spans.sources.map { $0.cut(to: min(limits.name, 40)) }
        empty = []
        lead = "\(total.grouped) reports that a token is dead."
        description =
            "\(spans.spans.count.grouped("column")) with a layer for each of "
            + "\(names.count.grouped("source")). The highest begins on \(highest.name) with "
            + "\(highest.total.grouped) reports. The table below has all figures."
        let scale = Self.scale(highest.total)
        grid = (scale > 1 ? [0, scale / 2, scale] : [0, 1]).map { mark in
            let y = Self.top + Self.plot * (1 - Double(mark) / Double(scale))
            return GridLine(y: y.figure, textY: (y + 4).figure, mark: mark.short)
        }
        columns = spans.spans.enumerated().map { index, span in
            Self.column(span, at: index, of: spans.spans.count, names, scale)
        }
        axis = Self.axis(spans.spans)
        keys = names.indices.map { Key(series: $0, source: names[$0], total: sums[$0].grouped) }
        tables = [TableView(spans.table, limits, rows: max(limits.rows, Self.columnLimit + 1))]
    }

    /// The most columns of a chart.
    static let columnLimit = 62

    private static func column(
        _ span: EvidenceSpans.Span, at index: Int, of count: Int, _ names: [String], _ scale: Int
    ) -> Column {
        let slot = 100 / Double(count)
        let width = min(slot * 0.8, 7)
        let left = slot * Double(index) + (slot - width) / 2
        var floor = top + plot
        var layers: [Layer] = []
        for (series, count) in span.counts.enumerated() where count > 0 {
            // What is there can be seen, however small.
            let height = max(plot * Double(count) / Double(scale), 1)
            floor -= height
            layers.append(
                Layer(
                    x: left.figure, y: floor.figure, width: width.figure, height: height.figure,
                    series: series))
        }
        let parts = zip(names, span.counts).filter { $0.1 > 0 }.map { "\($0) \($1.grouped)" }
        return Column(
            hint: layers.isEmpty ? "" : "\(span.name): \(parts.joined(separator: ", "))",
            layers: layers)
    }

    private static func axis(_ spans: [EvidenceSpans.Span]) -> [AxisLabel] {
        guard spans.count > 1, let first = spans.first, let last = spans.last else {
            return spans.map { AxisLabel(x: "50", anchor: "middle", text: $0.name) }
        }
        var labels = [AxisLabel(x: "0", anchor: "start", text: first.name)]
        if spans.count > 4 {
            let middle = (spans.count - 1) / 2
            let x = 100 / Double(spans.count) * (Double(middle) + 0.5)
            labels.append(AxisLabel(x: x.figure, anchor: "middle", text: spans[middle].name))
        }
        return labels + [AxisLabel(x: "100", anchor: "end", text: last.name)]
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
