// A statement that a person gives is run by the account of the settings, which may change rows. It runs in
// a transaction that can change nothing, but a server commits that transaction silently before some
// statements, and `SELECT ... INTO OUTFILE` writes a file in any transaction. So the text is examined
// before: one statement, which begins as a query, without INTO. Quotes and comments are skipped as the
// engines skip them. Comments that MySQL and MariaDB execute are refused.

import Encodings

/// One statement of SQL that only reads.
package struct SelectStatement: Hashable, Sendable {
    /// The text without the semicolon at its end.
    package let text: String

    /// Examines a text.
    ///
    /// - Throws: why it is refused.
    package init(_ text: String) throws(Refusal) {
        var scanner = SelectScanner(Array(text.utf8))
        var words: [String] = []
        var end: Int?
        while let part = try scanner.next() {
            guard end == nil else {
                throw Refusal("it has several statements; give one SELECT")
            }
            switch part {
            case .semicolon(let place): end = place
            case .word(let word):
                if word == "INTO" {
                    throw Refusal(
                        "it has INTO, which writes a file or a variable; leave that part out")
                }
                if words.isEmpty { words.append(word) }
            case .other: if words.isEmpty { words.append("") }
            }
        }
        guard let first = words.first else {
            throw Refusal("it is empty; give one SELECT whose first column is the token")
        }
        guard ["SELECT", "WITH", "VALUES", "TABLE"].contains(first) else {
            throw Refusal("it does not begin with SELECT or WITH; give one SELECT")
        }
        self.text = end.map { String(decoding: scanner.bytes[..<$0], as: UTF8.self) } ?? text
    }
}

/// Divides SQL into words, semicolons and everything else, without comments and quoted parts.
private struct SelectScanner {
    enum Part {
        case word(String)
        case semicolon(Int)
        case other
    }

    let bytes: [UInt8]
    private var place = 0

    private static let unfinished = Refusal(
        "a quote or a comment does not end; correct the text")

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private func has(_ text: String) -> Bool { bytes[place...].starts(with: text.utf8) }

    /// The next part; nil at the end.
    mutating func next() throws(Refusal) -> Part? {
        while place < bytes.count {
            let byte = bytes[place]
            if byte == UInt8(ascii: " ") || (9...13).contains(byte) {
                place += 1
            } else if has("/*") {
                if has("/*!") || has("/*M!") {
                    throw Refusal(
                        "it has a comment that a server executes (/*!); leave the comment out")
                }
                try skip(past: "*/", from: 2)
            } else if isLineComment(byte) {
                while place < bytes.count, bytes[place] != UInt8(ascii: "\n") { place += 1 }
            } else {
                return try part(byte)
            }
        }
        return nil
    }

    /// In a server `--` begins a comment only before a space. Where it begins one in SQLite alone, the
    /// comment is examined like a statement.
    private func isLineComment(_ byte: UInt8) -> Bool {
        if byte == UInt8(ascii: "#") { return true }
        guard has("--") else { return false }
        return place + 2 >= bytes.count || bytes[place + 2] <= UInt8(ascii: " ")
    }

    private mutating func part(_ byte: UInt8) throws(Refusal) -> Part {
        let start = place
        switch byte {
        case UInt8(ascii: ";"):
            place += 1
            return .semicolon(start)
        case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"):
            try quoted(byte)
            return .other
        case _ where PlainText.isAlphanumeric(byte) || byte == UInt8(ascii: "_") || byte >= 0x80:
            while place < bytes.count,
                PlainText.isAlphanumeric(bytes[place]) || bytes[place] == UInt8(ascii: "_")
                    || bytes[place] >= 0x80
            {
                place += 1
            }
            return .word(String(decoding: bytes[start..<place], as: UTF8.self).uppercased())
        default:
            place += 1
            return .other
        }
    }

    /// Skips a quoted part. A quote is written twice inside. A backslash before a quote ends the text in
    /// SQLite and not in a server, so where they differ the text is refused as unfinished or several.
    private mutating func quoted(_ quote: UInt8) throws(Refusal) {
        place += 1
        while place < bytes.count {
            if bytes[place] == UInt8(ascii: "\\"), quote != UInt8(ascii: "`") {
                // No engine agrees with another about what follows, so only a harmless character may.
                guard place + 1 < bytes.count, bytes[place + 1] != quote else {
                    throw Self.unfinished
                }
                place += bytes[place + 1] == UInt8(ascii: "\\") ? 1 : 2
                continue
            }
            if bytes[place] == quote {
                place += 1
                guard place < bytes.count, bytes[place] == quote else { return }
            }
            place += 1
        }
        throw Self.unfinished
    }

    private mutating func skip(
        past end: String, from offset: Int
    ) throws(Refusal) {
        place += offset
        while place < bytes.count, !has(end) { place += 1 }
        guard place < bytes.count else { throw Self.unfinished }
        place += end.utf8.count
    }
}
