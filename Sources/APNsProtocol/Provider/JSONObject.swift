// Reads one JSON object (RFC 8259) of few and simple members: the answers of APNs, and the two
// halves of a provider token.
//
// Wrong times cause wrong removals, so approximate JSON parsing is not good enough. A general
// decoder turns 1.7e12 into an integer, silently takes the last of two timestamps, or stops the
// process on 2^63. So the rules here are strict: one object, nothing after it; a key that is used
// occurs at most once; an integer is digits, without fraction, exponent or quotes. Values of other
// kinds are skipped in a loop, so that nesting costs no stack.

/// The value of a member; only the kinds used here are distinguished.
package enum JSONScalar: Hashable, Sendable {
    /// A string, with its escapes resolved.
    case text(String)
    /// A number written as an integer that fits into 64 bits.
    case integer(Int64)
    /// Any other value.
    case other
}

/// The members of one object in their order.
package struct JSONObject: Sendable {
    private let members: [(key: String, value: JSONScalar)]

    /// Reads bytes that are exactly one object; nil for any other bytes.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        var scanner = JSONScanner(bytes)
        guard let members = scanner.members() else { return nil }
        self.members = members
    }

    /// Whether a key occurs more than once, so that its value is undefined.
    package func isAmbiguous(_ key: String) -> Bool { members.count { $0.key == key } > 1 }

    /// The value of a key's first occurrence; nil where the key is absent.
    package subscript(key: String) -> JSONScalar? { members.first { $0.key == key }?.value }
}

/// A reading position in the bytes of one object. Every read is checked against the end.
private struct JSONScanner {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    /// The deepest nesting accepted; deeper values make the object unreadable. APNs nests nothing.
    private static let deepest = 32

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func members() -> [(key: String, value: JSONScalar)]? {
        var members: [(key: String, value: JSONScalar)] = []
        guard take("{") else { return nil }
        guard !take("}") else { return isAtEnd ? [] : nil }
        repeat {
            guard peek() != nil, let key = string(), take(":"), let value = value() else {
                return nil
            }
            members.append((key, value))
        } while take(",")
        return take("}") && isAtEnd ? members : nil
    }

    private var isAtEnd: Bool {
        mutating get { peek() == nil }
    }

    /// The next byte other than white space, not consumed.
    private mutating func peek() -> UInt8? {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            case let byte: return byte
            }
        }
        return nil
    }

    private mutating func take(_ wanted: Unicode.Scalar) -> Bool {
        guard peek() == UInt8(ascii: wanted) else { return false }
        position += 1
        return true
    }

    private mutating func value() -> JSONScalar? {
        guard let first = peek() else { return nil }
        if first == UInt8(ascii: "\"") { return string().map(JSONScalar.text) }
        let start = position
        guard skipValue() else { return nil }
        return Self.integer(bytes[start..<position]).map(JSONScalar.integer) ?? .other
    }

    /// The text as a number, if it is an integer in digits that fits.
    private static func integer(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let isNegative = text.first == UInt8(ascii: "-")
        var value: Int64 = 0
        for byte in text.dropFirst(isNegative ? 1 : 0) {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carried) = tens.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !overflow, !carried else { return nil }
            value = sum
        }
        return isNegative ? -value : value
    }

    /// Skips one value of any kind; false where there is none.
    private mutating func skipValue() -> Bool {
        // The closing brackets still expected.
        var open: [Unicode.Scalar] = []
        while true {
            guard let byte = peek() else { return false }
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard open.count < Self.deepest else { return false }
                position += 1
                open.append(byte == UInt8(ascii: "{") ? "}" : "]")
                if let closing = open.last, take(closing) {
                    open.removeLast()
                } else if open.last == "}", !skipKey() {
                    return false
                } else {
                    continue
                }
            case UInt8(ascii: "\""):
                guard string() != nil else { return false }
            default:
                guard skipScalar() else { return false }
            }
            // A value is complete; close the objects and arrays that it completes.
            while let closing = open.last, take(closing) { open.removeLast() }
            guard let closing = open.last else { return true }
            guard take(","), closing == "]" || skipKey() else { return false }
        }
    }

    private mutating func skipKey() -> Bool { peek() != nil && string() != nil && take(":") }

    /// Skips a number, `true`, `false` or `null` (RFC 8259 sections 3 and 6).
    private mutating func skipScalar() -> Bool {
        let start = position
        while position < bytes.count, Self.isScalar(bytes[position]) { position += 1 }
        let text = bytes[start..<position]
        return ["true", "false", "null"].contains { text.elementsEqual($0.utf8) }
            || Self.isNumber(text)
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
            let count = rest.prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }.count
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

    /// A string with its escapes resolved; nil where there is no string or it is unfinished.
    /// Escapes beyond ASCII become `?`, because no key and no value that is used has one.
    private mutating func string() -> String? {
        guard take("\"") else { return nil }
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                position += 1
                return String(decoding: bytes[start..<(position - 1)], as: UTF8.self)
            case UInt8(ascii: "\\"):
                return escapedString(from: start)
            case 0..<0x20: return nil
            default: position += 1
            }
        }
        return nil
    }

    /// Reads a string with escapes, which is rare, into a buffer of its own.
    private mutating func escapedString(from start: Int) -> String? {
        var text = Array(bytes[start..<position])
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let character = escape() else { return nil }
                text.append(character)
            case 0..<0x20: return nil
            default: text.append(byte)
            }
        }
        return nil
    }

    /// The byte of the escape after a backslash (RFC 8259 section 7).
    private mutating func escape() -> UInt8? {
        guard position < bytes.count else { return nil }
        let kind = bytes[position]
        position += 1
        switch kind {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return kind
        case UInt8(ascii: "b"): return 0x08
        case UInt8(ascii: "f"): return 0x0C
        case UInt8(ascii: "n"): return 0x0A
        case UInt8(ascii: "r"): return 0x0D
        case UInt8(ascii: "t"): return 0x09
        case UInt8(ascii: "u"): break
        default: return nil
        }
        guard bytes.count - position >= 4 else { return nil }
        var value: UInt32 = 0
        for byte in bytes[position..<(position + 4)] {
            guard let digit = HexDigit.value(of: byte) else { return nil }
            value = value << 4 | UInt32(digit)
        }
        position += 4
        return value < 0x80 ? UInt8(value) : UInt8(ascii: "?")
    }
}
