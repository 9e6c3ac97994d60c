// Lines of at most 80 columns. A column is what a terminal gives a character: none for a combining
// mark, two for most characters of Chinese, Japanese and Korean and for emoji (Unicode Standard
// Annex 11), one for all others.

/// Breaks texts into lines and puts tables into columns.
struct TextLayout {
    /// The number of columns of a line.
    static let width = 80

    /// The lines so far.
    private(set) var lines: [String] = []

    /// Adds an empty line, unless the last one is empty.
    mutating func space() {
        if lines.last?.isEmpty == false { lines.append("") }
    }

    /// Adds a text, broken between words; a longer word is broken where the line ends.
    ///
    /// - Parameters:
    ///   - text: escaped already, so it has no line breaks.
    ///   - first: what the first line begins with.
    ///   - rest: what the other lines begin with.
    mutating func add(_ text: String, first: String = "", rest: String = "") {
        var line = first
        var isEmpty = true
        for word in text.split(separator: " ") {
            var word = word
            let gap = isEmpty ? 0 : 1
            if line.columns + gap + word.columns <= Self.width {
                line += (isEmpty ? "" : " ") + word
                isEmpty = false
                continue
            }
            if !isEmpty {
                lines.append(line)
                line = rest
            }
            while line.columns + word.columns > Self.width {
                let piece = word.prefix(columns: Self.width - line.columns)
                lines.append(line + piece)
                line = rest
                word = word.dropFirst(piece.count)
            }
            line += word
            isEmpty = word.isEmpty
        }
        if !isEmpty { lines.append(line) }
    }

    /// Adds a heading, underlined.
    mutating func heading(_ text: String) {
        space()
        lines.append(text)
        lines.append(String(repeating: "-", count: min(text.columns, Self.width)))
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
        if widths.reduce(2, +) + 2 * (columns.count - 1) <= Self.width {
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
    /// The number of columns in a terminal.
    var columns: Int { reduce(0) { $0 + $1.columns } }

    /// The first characters that fit into a number of columns, at least one.
    fileprivate func prefix(columns: Int) -> Self.SubSequence {
        var used = 0
        var end = startIndex
        for index in indices {
            used += self[index].columns
            guard used <= columns || index == startIndex else { break }
            end = self.index(after: index)
        }
        return self[..<end]
    }

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

extension Character {
    /// The number of columns in a terminal, by the widest of its scalars.
    fileprivate var columns: Int {
        unicodeScalars.reduce(0) { widest, scalar in
            let width =
                switch scalar.value {
                case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F,
                    0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
                    0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
                    2
                default:
                    switch scalar.properties.generalCategory {
                    case .nonspacingMark, .enclosingMark: 0
                    default: 1
                    }
                }
            return max(widest, width)
        }
    }
}
