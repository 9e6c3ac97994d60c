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
