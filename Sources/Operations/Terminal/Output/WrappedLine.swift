// A line is broken between words. What a person copies is one piece, however long: a command, a statement, what
// stands between backticks. A terminal wraps a piece that is longer than its row by itself, and what is copied
// from there has no line break in it.
//
// A column is what a terminal gives a character: none for a combining mark, two for most characters of Chinese,
// Japanese and Korean and for emoji (Unicode Standard Annex 11), one for all others.

/// A line in pieces, each a word or something that is copied whole.
package struct WrappedLine {
    struct Piece: Hashable {
        /// The number of spaces before it.
        var gap: Int
        var text: String
        /// Whether it is a command or a statement.
        var isCopied: Bool

        /// Its words, with the same gap before the first.
        fileprivate var words: [Piece] {
            text.split(separator: " ").enumerated().map { place, word in
                Piece(gap: place == 0 ? gap : 1, text: String(word), isCopied: false)
            }
        }
    }

    /// The spaces before the first piece are no part of it.
    private(set) var pieces: [Piece] = []

    /// Takes a line of printable characters apart.
    package init(_ line: some StringProtocol) {
        let words = Self.words(line)
        var open: Copied?
        for (place, word) in words.enumerated() {
            if let copied = open, copied.takes(word) {
                pieces[pieces.count - 1].text += String(repeating: " ", count: word.gap) + word.text
                open = copied.after(word.text)
                continue
            }
            open = Copied(at: place, of: words)
            pieces.append(
                Piece(
                    gap: place == 0 ? 0 : word.gap, text: word.text,
                    isCopied: open != nil || word.text.count(where: { $0 == "`" }) > 1))
        }
    }

    private static func words(_ line: some StringProtocol) -> [Piece] {
        var words: [Piece] = []
        var gap = 0
        for part in line.split(separator: " ", omittingEmptySubsequences: false) {
            if part.isEmpty {
                gap += 1
                continue
            }
            words.append(
                Piece(gap: gap + (words.isEmpty ? 0 : 1), text: String(part), isCopied: false))
            gap = 0
        }
        return words
    }

    private init(_ pieces: some Sequence<Piece>) { self.pieces = Array(pieces) }

    /// The number of columns of the whole line.
    var columns: Int { pieces.reduce(0) { $0 + $1.gap + $1.text.columns } }

    /// The pieces before the first wide gap, and those behind it; nil without such a gap.
    var sides: (left: WrappedLine, right: WrappedLine)? {
        guard let wide = pieces.dropFirst().firstIndex(where: { $0.gap > 1 }) else { return nil }
        return (WrappedLine(pieces[..<wide]), WrappedLine(pieces[wide...]))
    }

    /// Writes times to the minute and sizes in MB, as people read them; commands keep all digits.
    mutating func round() {
        for place in pieces.indices.reversed() where !pieces[place].isCopied {
            pieces[place].text = pieces[place].text.replacing(
                /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/
            ) { String($0.0).moment }
            let next = place + 1
            guard next < pieces.count, pieces[next].gap == 1, !pieces[next].isCopied,
                pieces[next].text.hasPrefix("bytes"), let size = Int(pieces[place].text),
                let rounded = size.megabytes
            else { continue }
            pieces[place].text = rounded + pieces[next].text.dropFirst(5)
            pieces.remove(at: next)
        }
    }

    /// The rows of at most a number of columns. A longer piece has a row of its own, or, with `breakingWords`,
    /// goes on in the next one.
    ///
    /// - Parameters:
    ///   - first: what the first row begins with.
    ///   - rest: what the other rows begin with.
    package func rows(
        columns: Int, first: String = "", rest: String = "", breakingWords: Bool = false
    ) -> [String] {
        var rows: [String] = []
        var row = first
        var isEmpty = true
        func end() {
            if !isEmpty { rows.append(row) }
            (row, isEmpty) = (rest, true)
        }
        let pieces =
            breakingWords
            ? pieces.flatMap { $0.text.columns > columns ? $0.words : [$0] } : pieces
        for piece in pieces {
            let gap = String(repeating: " ", count: isEmpty ? 0 : piece.gap)
            if row.columns + gap.count + piece.text.columns <= columns {
                row += gap + piece.text
                isEmpty = false
                continue
            }
            if !isEmpty { end() }
            var text = piece.text[...]
            while breakingWords, row.columns + text.columns > columns {
                let start = text.prefix(columns: columns - row.columns)
                row += start
                isEmpty = false
                end()
                text = text.dropFirst(start.count)
            }
            row += text
            isEmpty = text.isEmpty
            if row.columns > columns { end() }
        }
        end()
        return rows
    }
}

/// Something that is copied, while its words are read.
private enum Copied {
    /// What stands between backticks.
    case ticked
    /// A command that begins the line or stands behind a colon, up to the end of its clause. Inside of a
    /// word in single quotes no clause ends.
    case clause(isQuoted: Bool)
    /// A command inside a sentence: the program's name and at most two more words.
    case command(wordsLeft: Int)
    /// A statement, up to its semicolon or the end of the line.
    case statement

    /// What begins with a word; nil where it is an ordinary one.
    init?(at place: Int, of words: [WrappedLine.Piece]) {
        let word = words[place].text
        let next = place + 1 < words.count ? words[place + 1].text : ""
        if word.count(where: { $0 == "`" }) == 1,
            words[(place + 1)...].contains(where: { $0.text.contains("`") })
        {
            self = .ticked
        } else if case let isAlone = place == 0 || words[place - 1].text.hasSuffix(":"),
            word == "pushsweep" || isAlone && Self.programs.contains(word)
        {
            self = isAlone ? .clause(isQuoted: false) : .command(wordsLeft: 2)
        } else if Self.begins(statement: word, next) {
            self = .statement
        } else {
            return nil
        }
    }

    /// Programs of others whose commands messages print.
    private static let programs: Set<String> = [
        "apt-get", "chmod", "chown", "sed", "sqlite3", "su", "sudo",
    ]

    private static func begins(statement word: String, _ next: String) -> Bool {
        switch word {
        case "GRANT", "REVOKE": next.first?.isUppercase == true
        case "ALTER", "DROP": ["TABLE", "USER", "INDEX", "TRIGGER", "VIEW"].contains(next)
        case "CREATE":
            ["TABLE", "USER", "INDEX", "UNIQUE", "TRIGGER", "VIEW", "OR"].contains(next)
        case "INSERT": next == "INTO"
        case "DELETE": next == "FROM"
        case "SET": ["GLOBAL", "PERSIST"].contains(next)
        case "UPDATE": next.first == "`" || next.first == "\""
        default: false
        }
    }

    /// Whether a word of a shell goes on behind these characters. An apostrophe opens none.
    private static func leavesOpen(_ word: String, _ isQuoted: Bool) -> Bool {
        let isOdd = word.replacing("\\'", with: "").count(where: { $0 == "'" }) % 2 == 1
        return isQuoted ? !isOdd : isOdd && word.hasPrefix("'")
    }

    func takes(_ word: WrappedLine.Piece) -> Bool {
        switch self {
        case .ticked, .statement: true
        case .clause(let isQuoted): isQuoted || word.gap == 1
        case .command:
            word.gap == 1
                && word.text.allSatisfy { $0.isLowercase || "-;,.):".contains($0) }
        }
    }

    /// What is still open after a word that was taken; nil where it was the last.
    func after(_ word: String) -> Copied? {
        let endsClause = word.last.map { ";,)".contains($0) } ?? false
        return switch self {
        case .ticked: word.contains("`") ? nil : self
        case .clause(let isQuoted):
            Self.leavesOpen(word, isQuoted)
                ? .clause(isQuoted: true) : endsClause ? nil : .clause(isQuoted: false)
        case .command(let left):
            endsClause || left < 2 ? nil : .command(wordsLeft: left - 1)
        case .statement: word.hasSuffix(";") ? nil : self
        }
    }
}

extension StringProtocol {
    /// The number of columns in a terminal.
    package var columns: Int { reduce(0) { $0 + $1.columns } }

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
