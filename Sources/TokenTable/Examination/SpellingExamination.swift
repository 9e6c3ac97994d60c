import APNsProtocol
import Database
import Encodings
import TokenHygiene

// A statement searches a token in the spellings that programs write, so that an index serves it.
// Other spellings of the same token can be read by people, but no search finds them. `check` tells
// which ones a column has, and prints the statement that rewrites them as plain lower-case hex. Each
// statement leaves every value alone that is not of its spelling: identifiers of other platforms,
// shortened descriptions and placeholders may be in the same column.

/// A spelling of tokens that no search finds.
enum UnfindableSpelling: Hashable {
    /// Hex with these characters between the digits or around them, or of both cases.
    case grouped(Set<UInt8>)
    /// Hex after these characters.
    case prefixed(String)
    /// Base64 in either alphabet, with or without padding.
    case base64

    /// Digits of the tokens that Apple issues today. Other identifiers are shorter, and those of
    /// Android are longer than `mostBytes`.
    static let usualDigits = 64
    /// Bytes of the longest token that Apple announced.
    static let mostBytes = 100
    /// Characters that programs put between groups of digits or around them.
    fileprivate static let separators = Array(" <>[](){}:-.,;\"'|/_\t\n\r".utf8)
    private static let longestPrefix = 32

    /// The spelling of a text that a search does not find; nil for plain hex and for other texts.
    init?(ofText text: [UInt8]) {
        let digits = text.filter { Hex.value(of: $0) != nil }
        if digits.count == text.count { return nil }
        let used = Set(text).intersection(Self.separators)
        if digits.count == Self.usualDigits,
            text.count(where: used.contains) + digits.count == text.count
        {
            self = .grouped(used)
        } else if let prefix = Self.prefix(text) {
            self = .prefixed(prefix)
        } else if Self.isBase64(text) {
            self = .base64
        } else {
            return nil
        }
    }

    /// The characters before a token in hex. Letters that are hex digits too are part of the digits, so
    /// without a separator only the usual number of digits tells where the token begins.
    private static func prefix(_ text: [UInt8]) -> String? {
        let digits = text.reversed().prefix { Hex.value(of: $0) != nil }.count
        let prefix = text.dropLast(digits)
        guard (1...longestPrefix).contains(prefix.count), digits % 2 == 0,
            let last = prefix.last, digits >= usualDigits,
            digits == usualDigits || !PlainText.isAlphanumeric(last),
            let word = String(validating: prefix, as: UTF8.self)
        else { return nil }
        return PlainText.hasControlCharacter(word) ? nil : word
    }

    /// Whether a text begins or ends with a whole token in hex, with other characters beside it.
    private static func hasToken(atAnEndOf text: [UInt8]) -> Bool {
        text.prefix { Hex.value(of: $0) != nil }.count >= usualDigits
            || text.reversed().prefix { Hex.value(of: $0) != nil }.count >= usualDigits
    }

    /// Whether a text is base64 of as many bytes as a token may have, and no hex.
    static func isBase64(_ text: [UInt8]) -> Bool {
        let unpadded = text.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()
        guard text.count - unpadded.count <= 2,
            unpadded.contains(where: { Hex.value(of: $0) == nil }), !hasToken(atAnEndOf: text)
        else { return false }
        let plain = unpadded.map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        guard let bytes = Base64URL.decode(plain) else { return false }
        return (usualDigits / 2...mostBytes).contains(bytes.count)
    }
}

extension TokenColumn {
    /// The spelling of a stored token that no search finds; nil for one that is found, and for a
    /// value that is no token.
    func unfindableSpelling(of value: SQLValue) -> UnfindableSpelling? {
        let text: [UInt8]
        switch (encoding, value) {
        case (.hex, .text(let word)): text = Array(word.utf8)
        case (_, .bytes(let bytes)): text = bytes
        default: return nil
        }
        if encoding == .binary { return UnfindableSpelling.isBase64(text) ? .base64 : nil }
        if isScattered(value), let token = self.token(value) {
            // Shorter values in hex may be identifiers of other platforms.
            return token.bytes.count * 2 < UnfindableSpelling.usualDigits
                ? nil : .grouped(Set(" <>".utf8))
        }
        guard token(value) == nil else { return nil }
        return UnfindableSpelling(ofText: text)
    }
}

extension SpellingRewriting {
    /// The findings about tokens in spellings that no search finds, each with the statements that
    /// rewrite them.
    func findings(
        _ counts: [UnfindableSpelling: Int], of total: Int
    ) -> [Finding] {
        let loses = Self.loses(counts.values.reduce(0, +), of: total)
        var findings: [Finding] = []
        var grouped = (count: 0, separators: Set<UInt8>())
        var prefixes: [(word: String, count: Int)] = []
        for (spelling, count) in counts {
            switch spelling {
            case .grouped(let separators):
                grouped.count += count
                grouped.separators.formUnion(separators)
            case .prefixed(let word): prefixes.append((word, count))
            case .base64:
                findings.append(
                    finding(
                        "\(count) of \(total) rows read have Base64", base64, isLong: true,
                        loses: loses))
            }
        }
        if grouped.count > 0 {
            findings.append(
                finding(
                    "\(grouped.count) of \(total) rows read have hex in groups, in brackets, in mixed "
                        + "case, or with spaces or line ends around it",
                    ungrouping(grouped.separators), loses: loses))
        }
        // Apps, devices or users may be in front of each token; then one example tells enough.
        for prefix in prefixes.sorted(by: { ($1.count, $0.word) < ($0.count, $1.word) }).prefix(3) {
            findings.append(
                finding(
                    "\(prefix.count) of \(total) rows read have hex after `\(prefix.word)`",
                    cutting(prefix.word), loses: loses))
        }
        return findings
    }

    /// Whether so many rows, of all such spellings, would lose evidence in each run. One row in thousands is
    /// no reason to stop the others.
    private static func loses(_ count: Int, of total: Int) -> Bool { count * 100 >= total }

    /// `isLong` says that the new spelling needs more room than the old one, `loses` that the run is
    /// refused.
    private func finding(
        _ what: String, _ statements: [String]?, isLong: Bool = false, loses: Bool
    ) -> Finding {
        let token = layout.token
        let form = token.encoding == .binary ? "the bytes of tokens" : "plain lower-case hex"
        var cure: String
        if layout.generated.contains(token.name) {
            cure = "the column is computed from others: let its expression give \(form)"
        } else if let statements {
            cure = "let the app store \(form), then run"
            if statements.count > 1 { cure += " in one session" }
            if let note { cure += " (\(note))" }
            cure += ": \(statements.joined(separator: "; "))"
        } else {
            cure =
                "SQLite has no function that makes bytes of it, so let the app store \(form) and "
                + "rewrite the rows"
        }
        var room = ""
        if token.encoding == .hex, let length {
            if length < UnfindableSpelling.usualDigits {
                room = "widen the column to VARCHAR(200), "
            } else if isLong, length < UnfindableSpelling.mostBytes * 2 {
                room =
                    "tokens of more than \(length) digits stay as they are until the column is wider; "
            }
        }
        let sentence =
            "column \(token.name) of \(layout.table): \(what), and sweep, send and enqueue find none of "
            + "their tokens; \(room)\(cure)"
        return loses
            ? .failure(.configuration, sentence, isAboutRows: true) : .warning(sentence)
    }
}
