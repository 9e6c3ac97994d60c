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
        /// The shortened text of iOS 13 and later; the token cannot be recovered.
        case truncatedDescription = "truncated description"
        /// An odd number of hex digits.
        case oddLength = "odd length"
        /// A text that could be base64.
        case base64Like = "base64-like"
        /// Any other value.
        case other
    }

    /// The number of rows by spelling.
    package private(set) var counts: [Spelling: Int] = [:]

    /// Starts without rows.
    package init() {}

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

    private static func spelling(of value: SQLValue) -> Spelling {
        switch value {
        case .text(let text): return spelling(ofText: Array(text.utf8))
        case .bytes(let bytes):
            if bytes.isEmpty { return .blank }
            let isHexText = bytes.count >= 32 && bytes.allSatisfy { Hex.value(of: $0) != nil }
            return isHexText ? spelling(ofText: bytes) : .bytes
        case .null: return .blank
        default: return .other
        }
    }

    private static func spelling(ofText text: [UInt8]) -> Spelling {
        do {
            _ = try DeviceToken(spelling: text)
        } catch {
            switch error {
            case .blank: return .blank
            case .placeholder: return .placeholder
            case .truncatedDescription: return .truncatedDescription
            case .oddLength: return .oddLength
            case .notHex:
                let isBase64 =
                    text.count >= 16 && text.count % 4 == 0
                    && text.allSatisfy { isBase64Character($0) }
                return isBase64 ? .base64Like : .other
            }
        }
        if text.contains(where: { Hex.value(of: $0) == nil }) { return .grouped }
        let hasUpper = text.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        let hasLower = text.contains { (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
        return hasUpper ? (hasLower ? .mixedHex : .upperHex) : .lowerHex
    }

    private static func isBase64Character(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "+"), UInt8(ascii: "/"),
            UInt8(ascii: "="), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
