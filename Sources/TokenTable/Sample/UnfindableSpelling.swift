import Database
import Encodings

/// A spelling of tokens that no search finds.
package enum UnfindableSpelling: Hashable {
    /// Hex with these characters between the digits or around them, or of both cases.
    case grouped(Set<UInt8>)
    /// Hex after these characters.
    case prefixed(String)
    /// Base64 in either alphabet, with or without padding.
    case base64
    /// A token with another one beside it, or with anything else of a list.
    case several

    /// Digits of the tokens that Apple issues today. Other identifiers are shorter, and those of
    /// Android are longer than `mostBytes`.
    package static let usualDigits = 64
    /// Bytes of the longest token that Apple announced.
    package static let mostBytes = 100
    /// Characters that programs put between groups of digits or around them.
    package static let separators = Array(" <>[](){}:-.,;\"'|/_\t\n\r".utf8)
    private static let longestPrefix = 32

    /// The spelling of a text that a search does not find; nil for plain hex and for other texts.
    package init?(ofText text: [UInt8]) {
        let digits = text.count { Hex.value(of: $0) != nil }
        if digits == text.count { return nil }
        if Self.hasTokens(text) {
            self = .several
        } else if digits == Self.usualDigits, let used = Self.grouping(text) {
            self = .grouped(used)
        } else if let prefix = Self.prefix(text) {
            self = .prefixed(prefix)
        } else if Self.isBase64(text) {
            self = .base64
        } else if Self.isList(text) {
            self = .several
        } else {
            return nil
        }
    }

    /// What stands between equal groups of digits or around them; nil for digits in another order, such as
    /// those of two UUIDs.
    private static func grouping(_ text: [UInt8]) -> Set<UInt8>? {
        let used = Set(text).intersection(separators)
        let groups = text.split(whereSeparator: used.contains)
        guard groups.allSatisfy({ $0.allSatisfy { Hex.value(of: $0) != nil } }),
            Set(groups.map(\.count)).count == 1 || used.isSubset(of: " <>".utf8),
            groups.count == 1 || groups.allSatisfy({ $0.count < usualDigits / 2 })
                || used.isSubset(of: " -<>[]".utf8)
        else { return nil }
        return used
    }

    // MARK: Lists

    /// Whether a byte stands between the tokens of a list, or around them: ` ,;|<>[](){}"'`, tab or line
    /// end. Each byte of each value is asked.
    private static func isListSign(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x0A, 0x0D, 0x20, 0x22, 0x27, 0x28, 0x29, 0x2C, 0x3B, 0x3C, 0x3E, 0x5B, 0x5D,
            0x7B, 0x7C,
            0x7D:
            true
        default: false
        }
    }

    /// Whether a text has two tokens or more, each in hex, in groups or in Base64.
    private static func hasTokens(_ text: [UInt8]) -> Bool {
        var (runs, digits) = (0, 0)
        for byte in text {
            digits = Hex.value(of: byte) == nil ? 0 : digits + 1
            runs += digits == usualDigits ? 1 : 0
        }
        if runs > 1 { return !text.isOfAddress && text.first != UInt8(ascii: "{") }
        guard runs == 0, text.contains(where: isListSign) else { return false }
        let words = text.split(whereSeparator: isListSign)
        // Longer words may be the lines of a key.
        if words.count > 1, words.allSatisfy({ isBase64(Array($0), bytes: usualDigits / 2) }) {
            return true
        }
        // A space may be between groups.
        let parts = text.split { $0 != UInt8(ascii: " ") && isListSign($0) }
            .map { part in part.filter { $0 != UInt8(ascii: " ") } }.filter { !$0.isEmpty }
        return parts.count > 1
            && parts.allSatisfy {
                $0.count { Hex.value(of: $0) != nil } == usualDigits && grouping($0) != nil
            }
    }

    /// Whether a text is a list with a token in it.
    private static func isList(_ text: [UInt8]) -> Bool {
        guard text.contains(where: isListSign), !text.isOfAddress, text.first != UInt8(ascii: "{")
        else { return false }
        let words = text.split(whereSeparator: isListSign)
        return words.count > 1
            && words.contains {
                $0.count >= usualDigits && $0.allSatisfy { Hex.value(of: $0) != nil }
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

    /// Whether a text is base64 of as many bytes as a token may have, and no hex; `bytes`: of so many.
    static func isBase64(_ text: [UInt8], bytes count: Int? = nil) -> Bool {
        let unpadded = unpadded(text)
        let size = unpadded.count * 3 / 4
        guard count.map({ $0 == size }) ?? (usualDigits / 2...mostBytes).contains(size),
            text.count - unpadded.count <= 2,
            unpadded.contains(where: { Hex.value(of: $0) == nil }), !hasToken(atAnEndOf: text)
        else { return false }
        return bytes(ofBase64: text) != nil
    }

    private static func unpadded(_ text: [UInt8]) -> ArraySlice<UInt8> {
        text[..<(text.lastIndex { $0 != UInt8(ascii: "=") }.map { $0 + 1 } ?? 0)]
    }

    /// The bytes of a text in either alphabet, with or without padding; nil for other text.
    package static func bytes(ofBase64 text: [UInt8]) -> [UInt8]? {
        let plain = unpadded(text).map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return Base64URL.decode(plain)
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
        if encoding == .binary {
            // Random bytes are hardly ever text.
            guard text.count > UnfindableSpelling.usualDigits else {
                return UnfindableSpelling.isBase64(text) ? .base64 : nil
            }
            return UnfindableSpelling(ofText: text).flatMap {
                [.base64, .several].contains($0) ? $0 : nil
            }
        }
        if isScattered(value), let token = self.token(value) {
            // Shorter values in hex may be identifiers of other platforms.
            return token.bytes.count * 2 < UnfindableSpelling.usualDigits
                ? nil : .grouped(Set(" <>".utf8))
        }
        guard token(value) == nil else { return nil }
        return UnfindableSpelling(ofText: text)
    }
}

extension UnfindableSpelling {
    /// What helps a column of lists, as a clause: no statement can know to which device a token belongs.
    package static let oneRowEach = "keep one row per device, in a table of its own"

    /// The same, without what separates the digits: one statement rewrites all of these.
    package var kind: UnfindableSpelling {
        if case .grouped = self { .grouped([]) } else { self }
    }

    package var words: String {
        switch self {
        case .grouped:
            "hex in groups, in brackets, in mixed case, or with spaces or line ends around it"
        case .prefixed(let word): "hex after `\(word)`"
        case .base64: "Base64"
        case .several: "several tokens in one text"
        }
    }
}

extension [UInt8] {
    /// Whether a text has the sign between the scheme and the host of an address, `://`.
    package var isOfAddress: Bool {
        // A loop, which a build for debugging runs faster than slices.
        for place in 0..<Swift.max(0, count - 2)
        where self[place] == UInt8(ascii: ":") && self[place + 1] == UInt8(ascii: "/")
            && self[place + 2] == UInt8(ascii: "/")
        {
            return true
        }
        return false
    }
}
