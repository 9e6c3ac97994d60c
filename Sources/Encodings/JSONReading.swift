// Reads one JSON object (RFC 8259) with few and simple members: an answer of APNs, or one of the
// two parts of a provider token.
//
// A wrong time means wrong removals. A general decoder reads 1.7e12 as an integer, uses the last of
// two timestamps without an error, or stops the process on 2^63. So this reader is strict: one
// object, with no bytes after it; a used key occurs at most once; an integer has only digits,
// without fraction, exponent or quotes. Values of other kinds are skipped.

/// The value of a member, in the kinds that readers use.
package enum JSONScalar: Hashable, Sendable {
    /// A string.
    case text(String)
    /// A number written as an integer that fits.
    case integer(Int64)
    /// Any other value.
    case other
}

/// The members of one object in their order.
package struct JSONObject: Sendable {
    private let members: [(key: String, value: JSONScalar)]

    /// Reads the object of the bytes; nil for bytes that are not exactly one object.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        var scanner = JSONScanner(bytes)
        guard let members = Self.members(&scanner), scanner.isAtEnd else { return nil }
        self.members = members
    }

    /// Whether a key occurs several times, so that its value is undefined.
    package func isAmbiguous(_ key: String) -> Bool { members.count { $0.key == key } > 1 }

    /// The value of a key; nil where it is absent.
    package subscript(key: String) -> JSONScalar? { members.first { $0.key == key }?.value }

    private static func members(
        _ scanner: inout JSONScanner
    ) -> [(key: String, value: JSONScalar)]? {
        var members: [(key: String, value: JSONScalar)] = []
        guard scanner.take("{") else { return nil }
        if scanner.take("}") { return [] }
        repeat {
            guard let key = scanner.string(), scanner.take(":"), let value = value(&scanner) else {
                return nil
            }
            members.append((String(decoding: key, as: UTF8.self), value))
        } while scanner.take(",")
        return scanner.take("}") ? members : nil
    }

    private static func value(_ scanner: inout JSONScanner) -> JSONScalar? {
        if scanner.peek() == UInt8(ascii: "\"") {
            return scanner.string().map { .text(String(decoding: $0, as: UTF8.self)) }
        }
        return scanner.skipValue().map { integer($0).map(JSONScalar.integer) ?? .other }
    }

    /// The number, if the value has only digits and fits.
    private static func integer(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let digits = text.dropFirst(text.first == UInt8(ascii: "-") ? 1 : 0)
        guard digits.allSatisfy(DecimalDigits.isDigit) else { return nil }
        return Int64(String(decoding: text, as: UTF8.self))
    }
}

/// A reading position in the bytes of a JSON text (RFC 8259). Every read checks for the end of the
/// bytes and skips white space between the parts.
///
/// It reads single parts by the strict grammar. The caller decides which structure the text must
/// have.
package struct JSONScanner {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    /// The deepest nesting of arrays and objects in a value that `skipValue` accepts.
    package static let deepest = 32

    /// Starts before the first byte. The bytes must outlive the scanner.
    package init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Whether only white space follows.
    package var isAtEnd: Bool {
        mutating get { peek() == nil }
    }

    /// The next byte other than white space, not consumed; nil at the end.
    package mutating func peek() -> UInt8? {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            case let byte: return byte
            }
        }
        return nil
    }

    /// Consumes the next byte other than white space if it is `wanted`.
    package mutating func take(_ wanted: Unicode.Scalar) -> Bool {
        guard peek() == UInt8(ascii: wanted) else { return false }
        position += 1
        return true
    }

    // MARK: Values

    /// Steps over one value of any kind and gives its bytes; nil where there is none or it is
    /// nested deeper than `deepest`. In a loop, so that nesting costs no stack.
    package mutating func skipValue() -> Slice<UnsafeRawBufferPointer>? {
        _ = peek()
        let start = position
        // The closing brackets still owed.
        var open: [Unicode.Scalar] = []
        while true {
            guard let byte = peek() else { return nil }
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard open.count < Self.deepest else { return nil }
                position += 1
                open.append(byte == UInt8(ascii: "{") ? "}" : "]")
                if let closing = open.last, take(closing) {
                    open.removeLast()
                } else if open.last == "}", !skipKey() {
                    return nil
                } else {
                    continue
                }
            case UInt8(ascii: "\""):
                guard skipString() else { return nil }
            default:
                guard scalar() != nil else { return nil }
            }
            // A value is complete; close what it completes.
            while let closing = open.last, take(closing) { open.removeLast() }
            guard let closing = open.last else { return bytes[start..<position] }
            guard take(","), closing == "]" || skipKey() else { return nil }
        }
    }

    private mutating func skipKey() -> Bool { skipString() && take(":") }

    /// Steps over a string, without making its bytes.
    private mutating func skipString() -> Bool {
        let start = position
        guard take("\"") else { return false }
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            if byte == UInt8(ascii: "\"") { return true }
            if byte < 0x20 { return false }
            if byte == UInt8(ascii: "\\") {
                // The rare string with escapes is read as a whole.
                position = start
                return string() != nil
            }
        }
        return false
    }

    /// Consumes a number, `true`, `false` or `null` and gives its bytes; nil for anything else (RFC
    /// 8259 sections 3 and 6).
    package mutating func scalar() -> Slice<UnsafeRawBufferPointer>? {
        _ = peek()
        let start = position
        while position < bytes.count, Self.isScalar(bytes[position]) { position += 1 }
        let text = bytes[start..<position]
        let isScalar =
            ["true", "false", "null"].contains { text.elementsEqual($0.utf8) }
            || Self.isNumber(text)
        return isScalar ? text : nil
    }

    private static func isScalar(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "E"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    private static func isNumber(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
        var rest = text
        func digits(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Int {
            let count = rest.prefix(while: DecimalDigits.isDigit).count
            rest = rest.dropFirst(count)
            return count
        }
        if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
        let leadsWithZero = rest.first == UInt8(ascii: "0")
        let whole = digits(&rest)
        guard whole == 1 || whole > 1 && !leadsWithZero else { return false }
        if rest.first == UInt8(ascii: ".") {
            rest = rest.dropFirst()
            guard digits(&rest) > 0 else { return false }
        }
        if rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") {
            rest = rest.dropFirst()
            if rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") {
                rest = rest.dropFirst()
            }
            guard digits(&rest) > 0 else { return false }
        }
        return rest.isEmpty
    }

    // MARK: Strings

    /// Consumes a string and returns its bytes with the escapes resolved; nil for another value and
    /// for an unfinished string.
    ///
    /// The bytes are UTF-8 if the text is. A single surrogate, which UTF-8 cannot have, becomes
    /// three bytes that are not UTF-8 either, so a validation of the string fails.
    package mutating func string() -> [UInt8]? {
        guard take("\"") else { return nil }
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                position += 1
                return Array(bytes[start..<(position - 1)])
            case UInt8(ascii: "\\"):
                return escapedString(from: start)
            case 0..<0x20: return nil
            default: position += 1
            }
        }
        return nil
    }

    /// Continues with a string at its first escape.
    private mutating func escapedString(from start: Int) -> [UInt8]? {
        var text = Array(bytes[start..<position])
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return text
            case UInt8(ascii: "\\"):
                guard appendEscape(to: &text) else { return nil }
            case 0..<0x20: return nil
            default: text.append(byte)
            }
        }
        return nil
    }

    /// Appends the character of the escape after a backslash.
    private mutating func appendEscape(to text: inout [UInt8]) -> Bool {
        guard position < bytes.count else { return false }
        let kind = bytes[position]
        position += 1
        switch kind {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(kind)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"):
            guard let unit = codeUnit() else { return false }
            appendCharacter(unit, to: &text)
        default: return false
        }
        return true
    }

    /// Four hex digits.
    private mutating func codeUnit() -> UInt16? {
        guard bytes.count - position >= 4,
            let unit = Hex.bytes(bytes[position..<(position + 4)])
        else { return nil }
        position += 4
        return UInt16(unit[0]) << 8 | UInt16(unit[1])
    }

    /// Appends the character of a code unit, together with the second half of a pair where it
    /// begins one.
    private mutating func appendCharacter(_ unit: UInt16, to text: inout [UInt8]) {
        if UTF16.isLeadSurrogate(unit) {
            let mark = position
            if bytes[position...].starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]) {
                position += 2
                if let low = codeUnit(), UTF16.isTrailSurrogate(low),
                    let scalar = Unicode.Scalar(
                        0x10000 + (UInt32(unit) - 0xD800) << 10 + (UInt32(low) - 0xDC00))
                {
                    text.append(contentsOf: String(scalar).utf8)
                    return
                }
            }
            position = mark
        }
        if let scalar = Unicode.Scalar(unit) {
            text.append(contentsOf: String(scalar).utf8)
        } else {
            text.append(0xE0 | UInt8(unit >> 12))
            text.append(0x80 | UInt8(unit >> 6 & 0x3F))
            text.append(0x80 | UInt8(unit & 0x3F))
        }
    }
}
