import Operations

/// Breaks texts into lines and puts tables into columns.
struct TextLayout {
    /// The number of columns of a line where no terminal says another one.
    static let usualWidth = 80

    /// The most columns of a line.
    let width: Int

    /// The lines so far.
    private(set) var lines: [String] = []

    init(width: Int = usualWidth) { self.width = width }

    /// Adds an empty line, unless the last one is empty.
    mutating func space() {
        if lines.last?.isEmpty == false { lines.append("") }
    }

    /// Adds a text, broken between words and never inside a command; a longer word is broken where the line
    /// ends.
    ///
    /// - Parameters:
    ///   - text: escaped already, so it has no line breaks.
    ///   - first: what the first line begins with.
    ///   - rest: what the other lines begin with.
    mutating func add(_ text: String, first: String = "", rest: String = "") {
        lines += WrappedLine(text).rows(
            columns: width, first: first, rest: rest, breakingWords: true)
    }

    /// Adds a heading, underlined.
    mutating func heading(_ text: String) {
        space()
        lines.append(text)
        lines.append(String(repeating: "-", count: min(text.columns, width)))
    }

    /// Adds a table in columns; one that is too wide as a paragraph per row.
    mutating func table(_ table: FigureTable) {
        add(table.title + ":")
        let rows = table.rows.map { $0.map { $0.text.cut(to: 300) } }
        let columns = table.columns.map { $0.cut(to: 40) }
        let numeric = columns.indices.map(table.isNumeric)
        let showsHeading = columns.count > 2
        let all = (showsHeading ? [columns] : []) + rows
        let widths = columns.indices.map { column in all.map { $0[column].columns }.max() ?? 0 }
        if widths.reduce(2, +) + 2 * (columns.count - 1) <= width {
            for row in all {
                let cells = row.indices.map { row[$0].padded(to: widths[$0], right: numeric[$0]) }
                lines.append(("  " + cells.joined(separator: "  ")).trimmed)
            }
        } else {
            for row in rows {
                let rest = zip(columns, row).dropFirst().map { "\($0.lowercased()): \($1)" }
                add(([row[0]] + rest).joined(separator: "; "), first: "  ", rest: "    ")
            }
        }
        if let remark = table.remark { add(remark, first: "  ", rest: "  ") }
    }
}

extension StringProtocol {
    fileprivate func padded(to width: Int, right: Bool) -> String {
        let gap = String(repeating: " ", count: Swift.max(0, width - columns))
        return right ? gap + self : self + gap
    }
}

extension String {
    fileprivate var trimmed: String {
        var text = self[...]
        while text.last == " " { text.removeLast() }
        return String(text)
    }
}
