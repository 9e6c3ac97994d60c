// Token tables hold tokens in the spellings in which they were once printed: lower and upper case,
// in groups of eight, in the angle brackets of an NSData description. Those can be read without
// guessing. Others cannot: since iOS 13 the description of an NSData leaves the middle bytes out
// (`{length = 32, bytes = 0xc9d4c07c ... f715defc }`). Keeping "just the hex digits" of it yields
// 54 digits that look like a token and are not one. So only the listed separators are accepted, any
// other text is refused with the reason, and no text is repaired by dropping characters.

import Encodings

/// Why a stored text is not a device token.
package enum DeviceTokenRefusal: Error, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    /// The text is empty or has only spaces.
    case blank
    /// The single digit `0` that tutorials store for "no push yet".
    case placeholder
    /// The shortened text of iOS 13 and later, whose middle bytes are gone for ever.
    case truncatedDescription
    /// An odd number of hex digits.
    case oddLength
    /// A character that is neither a hex digit nor one of the accepted separators.
    case notHex

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .blank: "blank"
        case .placeholder: "the placeholder 0"
        case .truncatedDescription:
            "a shortened description of iOS 13 or later whose middle bytes are lost"
        case .oddLength: "an odd number of hex digits"
        case .notHex: "not hexadecimal text"
        }
    }
}

extension DeviceToken {
    /// Reads a token from its stored spelling: hex digits of either case, optionally in groups
    /// separated by spaces, optionally inside `<` and `>`.
    ///
    /// - Throws: the reason why the text is not a token. Base64 is refused as `notHex`, because a
    ///   text does not show whether it is base64.
    package init(spelling text: some StringProtocol) throws(DeviceTokenRefusal) {
        try self.init(spelling: Array(text.utf8))
    }

    /// Reads a token from the UTF-8 bytes of its stored spelling; see `init(spelling:)` for text.
    package init(spelling utf8: [UInt8]) throws(DeviceTokenRefusal) {
        var rest = utf8[...].trimmingSpaces()
        guard !rest.isEmpty else { throw .blank }
        guard !(rest.count == 1 && rest.first == UInt8(ascii: "0")) else { throw .placeholder }
        if rest.first == UInt8(ascii: "{") || rest.starts(with: "%7B".utf8)
            || rest.starts(with: "%7b".utf8)
        {
            throw .truncatedDescription
        }
        if rest.first == UInt8(ascii: "<") {
            guard rest.last == UInt8(ascii: ">"), rest.count > 1 else { throw .notHex }
            rest = rest.dropFirst().dropLast()
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(rest.count / 2)
        var high: UInt8?
        for character in rest where character != UInt8(ascii: " ") {
            guard let digit = Hex.value(of: character) else { throw .notHex }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        guard high == nil else { throw .oddLength }
        guard !bytes.isEmpty else { throw .blank }
        guard let token = DeviceToken(bytes) else { throw .notHex }
        self = token
    }
}

extension ArraySlice<UInt8> {
    fileprivate func trimmingSpaces() -> ArraySlice<UInt8> {
        var result = self
        while result.first == UInt8(ascii: " ") { result.removeFirst() }
        while result.last == UInt8(ascii: " ") { result.removeLast() }
        return result
    }
}
