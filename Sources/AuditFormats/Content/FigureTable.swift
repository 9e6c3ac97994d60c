import Operations

/// A table of a report for people, the same in text, Markdown and HTML.
struct FigureTable: Hashable, Sendable {
    /// One cell.
    enum Cell: Hashable, Sendable {
        /// A name or a sentence.
        case text(String)
        /// A count.
        case number(Int)
        /// A share, a number of hours: written, and aligned like a number.
        case measure(String)

        /// The cell as people read it, not yet escaped.
        var text: String {
            switch self {
            case .text(let text), .measure(let text): text
            case .number(let number): number.grouped
            }
        }
    }

    /// What the table shows.
    var title: String
    /// The heading of each column.
    var columns: [String]
    /// The rows, each with a cell per column.
    var rows: [[Cell]]
    /// The number of rows that were left out.
    var leftOut = 0

    /// Makes a table.
    init(_ title: String, _ columns: [String], _ rows: [[Cell]]) {
        (self.title, self.columns, self.rows) = (title, columns, rows)
    }

    /// Makes a table of counts with names.
    init(_ title: String, _ name: String, _ counts: [NamedCount]) {
        self.init(
            title, [name, "Count"], counts.map { [.text($0.name), .number($0.count)] })
    }

    /// The table with its first rows only.
    func cut(to limit: Int) -> FigureTable {
        guard rows.count > limit else { return self }
        var table = self
        table.rows = Array(rows.prefix(limit))
        table.leftOut = leftOut + rows.count - limit
        return table
    }

    /// What to say below a table that was cut; nil for a whole one.
    var remark: String? {
        leftOut == 0
            ? nil
            : "\(leftOut.grouped) more \(leftOut == 1 ? "row is" : "rows are") left out here; "
                + "the JSON and CSV formats have all."
    }

    /// Whether the cells of a column are numbers.
    func isNumeric(_ column: Int) -> Bool {
        !rows.isEmpty
            && rows.allSatisfy { row in
                if case .text = row[column] { false } else { true }
            }
    }
}
