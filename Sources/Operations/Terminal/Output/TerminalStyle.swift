// Reports make lines, the same for people and for files. Where a person reads them at a terminal, three things
// change, here and nowhere else: a line is broken at the terminal's width, its times and sizes are rounded, and
// the word of a severity has a colour. Redirected lines stay whole, with all digits.
//
// The colours are five of the 256 that terminals do not let themes change, chosen so that each has a contrast of
// 3.7 and more with black and with white, so that they read on any background. What a colour says is always
// written too.

import Database
import Findings

/// What may be done to the lines of a report at a terminal.
package enum PrintedForm: Sendable {
    /// Words for people: broken between words, times and sizes rounded.
    case words
    /// The same with all digits, because the order of times is what it is about.
    case exact
    /// Paragraphs, whose rows all begin at the same column.
    case prose
    /// What a person copies or a program reads: never changed.
    case copied
}

/// When output has colours: the words of `--color`.
package enum ColourChoice: String, Hashable, Sendable, CaseIterable {
    /// On a terminal, unless NO_COLOR (https://no-color.org) or TERM=dumb says no.
    case auto
    case always
    case never

    /// Whether a stream has colours, by the environment.
    package func allows(isTerminal: Bool, noColor: String?, term: String?) -> Bool {
        switch self {
        case .always: true
        case .never: false
        case .auto: isTerminal && (noColor ?? "").isEmpty && ![nil, "", "dumb"].contains(term)
        }
    }
}

/// How a stream shows the lines of reports and messages.
package struct TerminalStyle: Hashable, Sendable {
    /// The columns of a row; nil where the stream is no terminal.
    package let columns: Int?
    package let isColoured: Bool

    package init(columns: Int?, isColoured: Bool) {
        (self.columns, self.isColoured) = (columns, isColoured)
    }

    /// The rows that show one line of printable characters.
    package func rows(_ line: String, _ form: PrintedForm = .words) -> [String] {
        guard form != .copied else { return [line] }
        var rows = columns.map { broken(line, form, columns: $0) } ?? [line]
        if isColoured, let first = rows.first { rows[0] = Self.coloured(first) }
        return rows
    }

    /// The number of spaces from which on an indent is that of a column.
    private static let column = 8

    private func broken(_ line: String, _ form: PrintedForm, columns: Int) -> [String] {
        let text = line.drop { $0 == " " }
        var pieces = WrappedLine(text)
        if form == .words { pieces.round() }
        func spaces(_ count: Int) -> String { String(repeating: " ", count: count) }
        // What begins far to the right is a column of its own; one without room for words goes to the left.
        let wanted = line.count - text.count
        let indent = wanted > columns / 2 ? spaces(min(4, columns / 4)) : spaces(wanted)
        let isEven = wanted >= Self.column || form == .prose && wanted == 0
        let usual = isEven ? indent : spaces(min(indent.count + 2, columns / 2))
        func rows(_ pieces: WrappedLine, rest: String) -> [String] {
            pieces.rows(columns: columns, first: indent, rest: rest)
        }
        guard indent.count + pieces.columns > columns, let (left, right) = pieces.sides else {
            return pieces.columns == 0 ? [""] : rows(pieces, rest: usual)
        }
        // A second column goes on below itself, where half of the row is left for it; else in the next row.
        let second = indent.count + pieces.columns - right.columns + (right.pieces.first?.gap ?? 0)
        return second <= columns / 2
            ? rows(pieces, rest: spaces(second))
            : rows(left, rest: usual) + right.rows(columns: columns, first: usual, rest: usual)
    }

    // MARK: Colours

    /// The number of a severity's colour among the 256.
    package static func colour(of severity: Severity) -> Int {
        switch severity {
        case .high: 196
        case .medium: 166
        case .low: 32
        case .note: 243
        case .ok: 28
        }
    }

    /// What a line may begin with that says how grave it is.
    private static let words: [(String, Severity)] =
        Severity.allCases.map { ($0.rawValue, $0) } + [
            ("failure", .high), ("failures", .high), ("error", .high), ("warning", .medium),
            ("warnings", .medium), ("Not healthy", .high), ("Healthy", .ok),
        ]

    /// The row with the word of its severity in colour, where it has one: `warning: ...`, or `2 failures, ...`.
    private static func coloured(_ row: String) -> String {
        var rest = row.drop { $0 == " " }
        if rest.hasPrefix("pushsweep: ") { rest = rest.dropFirst(11) }
        let named = rest.prefix { $0 != ":" && $0 != "," }
        let word = named.drop { $0.isNumber || $0 == " " }
        guard named.endIndex < row.endIndex, let severity = words.first(where: { $0.0 == word })?.1
        else { return row }
        let colour = "\u{1B}[1;38;5;\(colour(of: severity))m"
        return "\(row[..<named.startIndex])\(colour)\(named)\u{1B}[0m\(row[named.endIndex...])"
    }
}

// MARK: Times and sizes as people read them

extension Int {
    /// A number of bytes from 100,000 on in MB; nil below, where the digits say more.
    package var megabytes: String? {
        guard self >= 100_000 else { return nil }
        let tenths = (self + 50_000) / 100_000
        return "\(tenths / 10).\(tenths % 10) MB"
    }
}

extension String {
    /// A time of RFC 3339 in UTC as people read it, `2026-11-23 10:05 UTC`; any other text as it is.
    package var moment: String {
        let bytes = Array(utf8)
        let shape = Array("dddd-dd-ddTdd:dd:dd".utf8)
        guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z"),
            zip(bytes, shape).allSatisfy({ byte, form in
                form == UInt8(ascii: "d") ? (0x30...0x39).contains(byte) : byte == form
            })
        else { return self }
        return "\(prefix(10)) \(dropFirst(11).prefix(5)) UTC"
    }
}
