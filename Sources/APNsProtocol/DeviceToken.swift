import Encodings

// A device token as APNs issues it: opaque bytes of variable length.
//
// Nearly every token is 32 bytes, a list may hold millions of them, and they are sorted, compared
// and hashed far more often than they are printed. So the first 32 bytes are stored inside the
// value as four big-endian words: today's tokens need no allocation, and word order is byte order.
// Longer tokens (Apple announced 100 bytes; 54 and 80 were seen) keep the rest in an array.
//
// A token is private data: together with a certificate it gives access to one person's device. So
// `description` shows a prefix only; the whole spelling needs an explicit call.

/// An APNs device token: 1 to 65,535 opaque bytes, passed on unmodified.
///
/// Apple: "device tokens are of variable length; do not hard-code their size"
/// (UIApplicationDelegate, didRegisterForRemoteNotificationsWithDeviceToken).
package struct DeviceToken: Sendable {
    /// The number of bytes stored inside the value; also the usual token length.
    static let usualLength = 32

    private let head: (UInt64, UInt64, UInt64, UInt64)
    private let rest: [UInt8]?

    /// The number of bytes, at least 1.
    package let count: Int

    /// Copies the bytes of a token; nil for no bytes, which are never a token.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        let count = bytes.count
        guard count > 0, count <= Int(UInt16.max) else { return nil }
        self.count = count
        if count >= Self.usualLength {
            head = (
                Self.word(bytes, 0), Self.word(bytes, 8), Self.word(bytes, 16),
                Self.word(bytes, 24)
            )
            rest = count > Self.usualLength ? Array(bytes[Self.usualLength...]) : nil
        } else {
            var padded = (UInt64(0), UInt64(0), UInt64(0), UInt64(0))
            withUnsafeMutableBytes(of: &padded) { $0.copyMemory(from: bytes) }
            head = (
                UInt64(bigEndian: padded.0), UInt64(bigEndian: padded.1),
                UInt64(bigEndian: padded.2), UInt64(bigEndian: padded.3)
            )
            rest = nil
        }
    }

    /// Copies the bytes of a token; nil for no bytes.
    package init?(_ bytes: [UInt8]) {
        guard let token = bytes.withUnsafeBytes({ DeviceToken($0) }) else { return nil }
        self = token
    }

    private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// Passes the first bytes, at most 32, and the rest to a body without copying.
    private func withHead<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        let words = (
            head.0.bigEndian, head.1.bigEndian, head.2.bigEndian, head.3.bigEndian
        )
        return withUnsafeBytes(of: words) {
            body(UnsafeRawBufferPointer(rebasing: $0.prefix(count)))
        }
    }

    /// The raw bytes, as in a feedback tuple.
    package var bytes: [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(count)
        append(to: &result)
        return result
    }

    /// Appends the raw bytes to a buffer.
    package func append(to buffer: inout [UInt8]) {
        withHead { buffer.append(contentsOf: $0) }
        if let rest { buffer.append(contentsOf: rest) }
    }

    /// Copies the raw bytes to the beginning of a buffer.
    ///
    /// - Precondition: the buffer has room for them.
    func copy(to buffer: UnsafeMutableRawBufferPointer) {
        precondition(buffer.count >= count)
        withHead { buffer.copyMemory(from: $0) }
        guard let rest else { return }
        UnsafeMutableRawBufferPointer(rebasing: buffer[Self.usualLength...]).copyBytes(from: rest)
    }

    /// The canonical spelling: lower-case hex, two digits per byte. This is the whole, private
    /// token: for databases and requests, never for logs or reports.
    package var hex: String {
        String(unsafeUninitializedCapacity: count * 2) { buffer in
            writeHex(into: UnsafeMutableRawBufferPointer(buffer))
            return count * 2
        }
    }

    /// Writes the canonical spelling, `count * 2` bytes, without an intermediate String.
    ///
    /// - Precondition: the buffer has room for them.
    func writeHex(into buffer: UnsafeMutableRawBufferPointer) {
        precondition(buffer.count >= count * 2)
        withHead { head in
            for (index, byte) in head.enumerated() {
                Hex.write(byte, into: buffer, at: index * 2)
            }
        }
        guard let rest else { return }
        for (index, byte) in rest.enumerated() {
            Hex.write(byte, into: buffer, at: (Self.usualLength + index) * 2)
        }
    }

    /// The first eight hex digits and an ellipsis: enough to find a row, not enough to send to it.
    /// A token of four bytes or fewer shows its first two digits only.
    package var redacted: String {
        String(hex.prefix(count > 4 ? 8 : 2)) + "…"
    }
}

extension DeviceToken: Hashable, Comparable, CustomStringConvertible {
    /// Whether two tokens are the same bytes.
    package static func == (left: DeviceToken, right: DeviceToken) -> Bool {
        left.count == right.count && left.head == right.head && left.rest == right.rest
    }

    /// Feeds all bytes and the length to the hasher.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(head.0)
        hasher.combine(head.1)
        hasher.combine(head.2)
        hasher.combine(head.3)
        if let rest { hasher.combine(rest) }
        hasher.combine(count)
    }

    /// Byte order, as in `memcmp` and binary database columns; a prefix sorts first.
    package static func < (left: DeviceToken, right: DeviceToken) -> Bool {
        if left.head != right.head { return left.head < right.head }
        if left.rest != nil || right.rest != nil {
            let (one, two) = (left.rest ?? [], right.rest ?? [])
            if one != two { return one.lexicographicallyPrecedes(two) }
        }
        return left.count < right.count
    }

    /// The redacted spelling, so that a token in a message by mistake stays private.
    package var description: String { redacted }
}

// Token tables hold tokens in the spellings in which they were once printed: lower and upper case,
// in groups of eight, in the angle brackets of an NSData description. Those can be read without
// guessing. Others cannot: since iOS 13 the description of an NSData leaves the middle bytes out
// (`{length = 32, bytes = 0xc9d4c07c ... f715defc }`). Keeping "just the hex digits" of it yields
// 54 digits that look like a token and are not one. So only the listed separators are accepted, any
// other text is refused with the reason, and no text is repaired by dropping characters.

/// Why a stored text is not a device token.
extension Refusal {
    /// The text is empty or has only spaces.
    package static let blank = Refusal("blank")
    /// The single digit `0` that tutorials store for "no push yet".
    package static let placeholder = Refusal("the placeholder 0")
    /// The shortened text of iOS 13 and later, whose middle bytes are gone for ever.
    package static let truncatedDescription = Refusal(
        "a shortened description of iOS 13 or later whose middle bytes are lost")
    package static let oddLength = Refusal("an odd number of hex digits")
    /// A whole token with more beside it. No group has so many digits, and the two read as one would be the
    /// token of no device.
    package static let several = Refusal("several tokens in one text")
    /// A character that is neither a hex digit nor one of the accepted separators.
    package static let notHex = Refusal("not hexadecimal text")
}

extension DeviceToken {
    /// Reads a token from its stored spelling: hex digits of either case, optionally in groups
    /// separated by spaces, optionally inside `<` and `>`.
    ///
    /// - Throws: the reason why the text is not a token. Base64 is refused as `notHex`, because a
    ///   text does not show whether it is base64. Parts of 64 digits are tokens of their own and no groups.
    package init(spelling text: some StringProtocol) throws(Refusal) {
        try self.init(spelling: Array(text.utf8))
    }

    /// Reads a token from the UTF-8 bytes of its stored spelling; see `init(spelling:)` for text.
    package init(spelling utf8: [UInt8]) throws(Refusal) {
        if let usual = Self.usual(utf8) {
            self = usual
            return
        }
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
        var (digits, longest, groups) = (0, 0, 0)
        for character in rest {
            guard character != UInt8(ascii: " ") else {
                digits = 0
                continue
            }
            guard let digit = Hex.value(of: character) else { throw .notHex }
            groups += digits == 0 ? 1 : 0
            digits += 1
            longest = max(longest, digits)
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        guard groups < 2 || longest < 2 * Self.usualLength else { throw .several }
        guard high == nil else { throw .oddLength }
        guard !bytes.isEmpty else { throw .blank }
        guard let token = DeviceToken(bytes) else { throw .notHex }
        self = token
    }

    /// The token of nearly all spellings, digits of the usual length and nothing else; nil for others.
    private static func usual(_ digits: [UInt8]) -> DeviceToken? {
        guard digits.count == 2 * usualLength else { return nil }
        func word(_ number: Int) -> UInt64? {
            var word: UInt64 = 0
            for place in 16 * number..<16 * (number + 1) {
                guard let digit = Hex.value(of: digits[place]) else { return nil }
                word = word << 4 | UInt64(digit)
            }
            return word
        }
        guard let first = word(0), let second = word(1), let third = word(2), let last = word(3)
        else { return nil }
        return DeviceToken(usual: (first, second, third, last))
    }

    private init(usual head: (UInt64, UInt64, UInt64, UInt64)) {
        (self.head, rest, count) = (head, nil, Self.usualLength)
    }
}

/// The beginning of a token, as messages print it: hex digits, with or without an ellipsis.
package struct TokenBeginning: Hashable, Sendable {
    /// The least number of digits of a text that does not say that it is cut.
    package static let least = 4

    /// The digits, lower case, at least two.
    package let digits: String
    /// Whether an ellipsis says that the text is no whole token.
    package let isCut: Bool

    /// Reads a text with fewer digits than today's tokens have, or with an ellipsis (`…` or `...`) at its
    /// end; nil for any other.
    package init?(_ text: String) {
        var rest = text[...]
        while rest.first == " " { rest.removeFirst() }
        while rest.last == " " { rest.removeLast() }
        let whole = rest
        if rest.hasSuffix("…") { rest.removeLast() }
        if rest.hasSuffix("...") { rest.removeLast(3) }
        isCut = rest.endIndex < whole.endIndex
        digits = rest.lowercased()
        let least = isCut ? 2 : Self.least
        guard digits.utf8.count >= least, isCut || digits.utf8.count < DeviceToken.usualLength * 2,
            digits.utf8.allSatisfy({ Hex.value(of: $0) != nil })
        else { return nil }
    }

    /// The bytes from which tokens begin so, and the first bytes after them; nil where no bytes are.
    package var range: (from: [UInt8], to: [UInt8]?) {
        let pairs = digits.utf8.count.isMultiple(of: 2) ? digits : digits + "0"
        let from = (try? DeviceToken(spelling: pairs))?.bytes ?? []
        var to = from
        var step: UInt8 = pairs == digits ? 1 : 16
        while let last = to.popLast() {
            let (next, isOver) = last.addingReportingOverflow(step)
            step = 1
            if !isOver { return (from, to + [next]) }
        }
        return (from, nil)
    }

    /// Whether a token begins so.
    package func begins(_ token: DeviceToken) -> Bool { token.hex.hasPrefix(digits) }
}

extension DeviceToken {
    /// The tokens of a list shortened to so many digits that each differs from its neighbours, at most
    /// sixteen and half of each. The list is in byte order.
    package static func distinguished(_ tokens: [DeviceToken]) -> [String] {
        let spelled = tokens.map(\.hex)
        let common =
            [0]
            + zip(spelled, spelled.dropFirst()).map {
                zip($0.utf8, $1.utf8).prefix { $0 == $1 }.count
            }
            + [0]
        return spelled.enumerated().map { place, hex in
            let digits = max(8, max(common[place], common[place + 1]) + 2)
            return String(hex.prefix(min(digits, 16, hex.count / 2))) + "…"
        }
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

/// Whole seconds since 1970-01-01T00:00:00Z as in feedback tuples: unsigned, so valid until 2106. A
/// type of its own, because the 410 answer of HTTP/2 counts milliseconds, and a confusion of the
/// two makes every token look stale, or none.
package struct EpochSeconds: Hashable, Sendable {
    /// Seconds since the Unix epoch.
    package let rawValue: UInt32

    /// Wraps a count of seconds since the Unix epoch.
    package init(_ rawValue: UInt32) { self.rawValue = rawValue }
}

/// Milliseconds since 1970-01-01T00:00:00Z: the only unit in which evidence and registrations are
/// compared. HTTP/2 answers have this unit (Apple, "Handling notification response errors");
/// feedback tuples have seconds and are converted once, here.
package struct EpochMilliseconds: Hashable, Comparable, Sendable {
    /// Milliseconds since the Unix epoch; negative before it.
    package let rawValue: Int64

    /// Wraps a count of milliseconds since the Unix epoch.
    package init(_ rawValue: Int64) { self.rawValue = rawValue }

    /// The first millisecond of a second.
    package init(_ seconds: EpochSeconds) { rawValue = Int64(seconds.rawValue) * 1000 }

    /// Whether `left` is the earlier time.
    package static func < (left: EpochMilliseconds, right: EpochMilliseconds) -> Bool {
        left.rawValue < right.rawValue
    }

    /// The time `milliseconds` later, or earlier if negative; limited to the range of Int64.
    package func advanced(by milliseconds: Int64) -> EpochMilliseconds {
        let (sum, overflow) = rawValue.addingReportingOverflow(milliseconds)
        guard overflow else { return EpochMilliseconds(sum) }
        return EpochMilliseconds(milliseconds > 0 ? .max : .min)
    }

    /// The milliseconds since another time, negative before it; limited to the range of Int64.
    package func distance(from other: EpochMilliseconds) -> Int64 {
        let (distance, overflow) = rawValue.subtractingReportingOverflow(other.rawValue)
        return overflow ? (rawValue > other.rawValue ? .max : .min) : distance
    }
}
