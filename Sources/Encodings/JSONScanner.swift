// Reads the parts of a JSON text (RFC 8259) by the strict grammar, in place.
//
// Logs have millions of lines. So a value is stepped over without being made, a string without
// escapes is passed on as the bytes that stand there, and no step allocates memory.

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
        // The brackets that are open, one bit each, the innermost last: 1 for that of an object.
        var (objects, depth) = (UInt64(0), 0)
        while true {
            guard let byte = peek() else { return nil }
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard depth < Self.deepest else { return nil }
                position += 1
                let isObject = byte == UInt8(ascii: "{")
                guard !take(isObject ? "}" : "]") else { break }
                (objects, depth) = (objects << 1 | (isObject ? 1 : 0), depth + 1)
                if isObject, !skipKey() { return nil }
                continue
            case UInt8(ascii: "\""):
                guard skipString() else { return nil }
            default:
                guard scalar() != nil else { return nil }
            }
            // A value is complete; close what it completes.
            while depth > 0, take(objects & 1 == 1 ? "}" : "]") {
                (objects, depth) = (objects >> 1, depth - 1)
            }
            guard depth > 0 else { return bytes[start..<position] }
            guard take(","), objects & 1 == 0 || skipKey() else { return nil }
        }
    }

    private mutating func skipKey() -> Bool { skipString() && take(":") }

    /// Steps over a string, without making its bytes.
    private mutating func skipString() -> Bool {
        let start = position
        guard take("\"") else { return false }
        skipPlain()
        guard position < bytes.count else { return false }
        switch bytes[position] {
        case UInt8(ascii: "\""):
            position += 1
            return true
        case UInt8(ascii: "\\"):
            // The rare string with escapes is read as a whole.
            position = start
            return text() != nil
        default: return false
        }
    }

    /// Consumes a number, `true`, `false` or `null` and gives its bytes; nil for anything else (RFC
    /// 8259 sections 3 and 6).
    package mutating func scalar() -> Slice<UnsafeRawBufferPointer>? {
        let first = peek()
        let start = position
        while position < bytes.count, Self.isScalar(bytes[position]) { position += 1 }
        let text = bytes[start..<position]
        let isScalar =
            switch first {
            case UInt8(ascii: "t"): Self.equals(text, "true")
            case UInt8(ascii: "f"): Self.equals(text, "false")
            case UInt8(ascii: "n"): Self.equals(text, "null")
            default: Self.isNumber(text)
            }
        return isScalar ? text : nil
    }

    private static func equals(_ text: Slice<UnsafeRawBufferPointer>, _ word: StaticString) -> Bool
    {
        text.count == word.utf8CodeUnitCount
            && text.indices.allSatisfy { text[$0] == word.utf8Start[$0 - text.startIndex] }
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
        var place = text.startIndex
        func digits() -> Int {
            let start = place
            while place < text.endIndex, DecimalDigits.isDigit(text[place]) { place += 1 }
            return place - start
        }
        func take(_ wanted: UInt8, or other: UInt8? = nil) -> Bool {
            guard place < text.endIndex, text[place] == wanted || text[place] == other else {
                return false
            }
            place += 1
            return true
        }
        _ = take(UInt8(ascii: "-"))
        let leadsWithZero = place < text.endIndex && text[place] == UInt8(ascii: "0")
        let whole = digits()
        guard whole == 1 || whole > 1 && !leadsWithZero else { return false }
        if take(UInt8(ascii: ".")), digits() == 0 { return false }
        if take(UInt8(ascii: "e"), or: UInt8(ascii: "E")) {
            _ = take(UInt8(ascii: "+"), or: UInt8(ascii: "-"))
            guard digits() > 0 else { return false }
        }
        return place == text.endIndex
    }

    // MARK: Strings

    /// Consumes a string and returns its bytes with the escapes resolved; nil for another value and
    /// for an unfinished string.
    ///
    /// The bytes are UTF-8 if the text is. A single surrogate, which UTF-8 cannot have, becomes
    /// three bytes that are not UTF-8 either, so a validation of the string fails.
    package mutating func string() -> [UInt8]? { text()?.array }

    /// The same, without a copy of a string that has no escapes.
    package mutating func text() -> TextBytes? {
        guard take("\"") else { return nil }
        let start = position
        skipPlain()
        guard position < bytes.count else { return nil }
        switch bytes[position] {
        case UInt8(ascii: "\""):
            position += 1
            return .inPlace(UnsafeRawBufferPointer(rebasing: bytes[start..<(position - 1)]))
        case UInt8(ascii: "\\"): return escapedString(from: start).map { .apart($0) }
        default: return nil
        }
    }

    /// Steps over the bytes of a string up to a quote, a backslash or a byte that no string has.
    private mutating func skipPlain() {
        var place = position
        while place < bytes.count {
            let byte = bytes[place]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 { break }
            place += 1
        }
        position = place
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
