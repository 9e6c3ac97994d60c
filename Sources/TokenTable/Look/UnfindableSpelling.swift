import Database
import Encodings

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
    static let separators = Array(" <>[](){}:-.,;\"'|/_\t\n\r".utf8)
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

extension UnfindableSpelling {
    /// The same, without what separates the digits: one statement rewrites all of these.
    var kind: UnfindableSpelling {
        if case .grouped = self { .grouped([]) } else { self }
    }

    var words: String {
        switch self {
        case .grouped:
            "hex in groups, in brackets, in mixed case, or with spaces or line ends around it"
        case .prefixed(let word): "hex after `\(word)`"
        case .base64: "Base64"
        }
    }
}
