import APNsProtocol
import Database
import Encodings

/// The spellings of stored tokens, counted over a sample of rows. They show before the first sweep
/// which rows no signal can find.
package struct TokenSample: Hashable, Sendable {
    /// The spellings known from columns of tokens.
    package enum Spelling: String, Hashable, Sendable, CaseIterable {
        /// Raw bytes in a binary column.
        case bytes
        /// Lower-case hex.
        case lowerHex = "lower-case hex"
        /// Upper-case hex.
        case upperHex = "upper-case hex"
        /// Hex of both cases in one value.
        case mixedHex = "mixed-case hex"
        /// Hex in groups or angle brackets.
        case grouped
        /// NULL, nothing or spaces.
        case blank
        /// `0`: a placeholder for "no push yet".
        case placeholder
        /// A JSON document, perhaps with a token in it.
        case json = "JSON"
        /// An address, perhaps with a token at its end.
        case url = "URL"
        /// The shortened text of iOS 13 and later; the token cannot be recovered.
        case truncatedDescription = "truncated description"
        /// An odd number of hex digits.
        case oddLength = "odd length"
        /// Base64 of as many bytes as a token has.
        case base64Like = "base64-like"
        /// A list of tokens.
        case several = "several tokens in one text"
        /// Any other value.
        case other
    }

    /// The number of rows by spelling.
    package private(set) var counts: [Spelling: Int] = [:]

    /// The latest registration in the rows; nil where none has one that can be read.
    var newest: EpochMilliseconds?

    /// Starts without rows.
    package init() {}

    /// Counts the spellings of stored values.
    init(_ values: some Sequence<SQLValue>) {
        for value in values { add(value) }
    }

    /// The number of rows in the sample.
    package var total: Int { counts.values.reduce(0, +) }

    /// The number of rows with one of some spellings.
    package func count(_ spellings: Spelling...) -> Int {
        spellings.reduce(0) { $0 + (counts[$1] ?? 0) }
    }

    /// Counts the spelling of a stored value.
    package mutating func add(_ value: SQLValue) {
        counts[Self.spelling(of: value), default: 0] += 1
    }

    /// Whether a stored value is nothing or a placeholder.
    package static func isBlank(_ value: SQLValue) -> Bool {
        switch value {
        case .null: true
        case .bytes(let bytes): bytes.isEmpty
        // Nearly all others have a first byte that no such text has, and all values of a look are asked.
        case .text(let text):
            text.utf8.allSatisfy(mayBeBlank)
                && [.blank, .placeholder].contains(spelling(of: value))
        default: false
        }
    }

    /// Whether a text of nothing or a placeholder may have this byte: a space, `<`, `>` or `0`.
    private static func mayBeBlank(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x20, 0x30, 0x3C, 0x3E: true
        default: false
        }
    }

    private static func spelling(of value: SQLValue) -> Spelling {
        switch value {
        case .text(let text): return spelling(ofText: Array(text.utf8))
        case .bytes(let bytes):
            if bytes.isEmpty { return .blank }
            if bytes.count > RowSampling.longestValue { return .other }
            let isHexText = bytes.count >= 32 && bytes.allSatisfy { Hex.value(of: $0) != nil }
            return isHexText || UnfindableSpelling.isBase64(bytes)
                ? spelling(ofText: bytes) : .bytes
        case .null: return .blank
        default: return .other
        }
    }

    private static func spelling(ofText text: [UInt8]) -> Spelling {
        let isDocument = text.first == UInt8(ascii: "{") || text.first == UInt8(ascii: "[")
        if isDocument, text.contains(UInt8(ascii: "\"")) { return .json }
        // The sample has only the beginning of it.
        if text.count > RowSampling.longestValue { return .other }
        do {
            _ = try DeviceToken(spelling: text)
        } catch {
            switch error {
            case .blank: return .blank
            case .placeholder: return .placeholder
            case .truncatedDescription: return .truncatedDescription
            case .oddLength: return .oddLength
            case .several: return .several
            default:
                if text.isOfAddress { return .url }
                if UnfindableSpelling.isBase64(text) { return .base64Like }
                return UnfindableSpelling(ofText: text) == .several ? .several : .other
            }
        }
        if text.contains(where: { Hex.value(of: $0) == nil }) { return .grouped }
        let hasUpper = text.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        let hasLower = text.contains { (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
        return hasUpper ? (hasLower ? .mixedHex : .upperHex) : .lowerHex
    }
}
