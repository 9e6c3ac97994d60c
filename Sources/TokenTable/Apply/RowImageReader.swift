import Database

// Reads the output of RowImage exactly: each value is read back as it was, with dates as text. It
// also accepts JSON (RFC 8259) with white space, so that an image which a person has reformatted in
// the ledger stays usable. Any other text is refused, because a row restored wrongly is worse than
// one not restored.

/// Parses images.
struct RowImageReader {
    private var rest: ArraySlice<UInt8>

    /// Thrown inside the reader for text that is not an image.
    private struct Unreadable: Error {}

    private init(_ text: String) { rest = Array(text.utf8)[...] }

    /// The columns and values of an image; nil for any other text.
    static func content(_ text: String) -> RowContent? {
        read(text) { reader throws(Unreadable) in try reader.content() }
    }

    /// The values of a row's key; nil for any other text.
    static func key(_ text: String) -> [SQLValue]? {
        read(text) { reader throws(Unreadable) in
            guard reader.peek == UInt8(ascii: "[") else { return [try reader.value()] }
            var values: [SQLValue] = []
            try reader.members(UInt8(ascii: "["), UInt8(ascii: "]")) {
                reader throws(Unreadable) in values.append(try reader.value())
            }
            return values
        }
    }

    /// The content of a row before and after a change, each nil where the row did not exist. The
    /// whole result is nil for any other text.
    static func step(_ text: String) -> (before: RowContent?, after: RowContent?)? {
        read(text) { reader throws(Unreadable) in
            var sides: [String: RowContent?] = [:]
            try reader.members(UInt8(ascii: "{"), UInt8(ascii: "}")) { reader throws(Unreadable) in
                let name = try reader.string()
                try reader.take(UInt8(ascii: ":"))
                if reader.peek == UInt8(ascii: "n") {
                    try reader.word("null")
                    sides.updateValue(nil, forKey: name)
                } else {
                    sides[name] = .some(try reader.content())
                }
            }
            guard sides.count == 2, let before = sides["before"], let after = sides["after"] else {
                throw Unreadable()
            }
            return (before, after)
        }
    }

    private static func read<Result>(
        _ text: String, _ body: (inout RowImageReader) throws(Unreadable) -> Result
    ) -> Result? {
        var reader = RowImageReader(text)
        guard let result = try? body(&reader) else { return nil }
        reader.skipSpace()
        return reader.rest.isEmpty ? result : nil
    }

    private mutating func content() throws(Unreadable) -> RowContent {
        var columns: [String] = []
        var values: [SQLValue] = []
        try members(UInt8(ascii: "{"), UInt8(ascii: "}")) { reader throws(Unreadable) in
            let name = try reader.string()
            guard !columns.contains(name) else { throw Unreadable() }
            try reader.take(UInt8(ascii: ":"))
            columns.append(name)
            values.append(try reader.value())
        }
        return RowContent(columns, values)
    }

    /// Reads members between two brackets, separated by commas.
    private mutating func members(
        _ open: UInt8, _ close: UInt8,
        _ member: (inout RowImageReader) throws(Unreadable) -> Void
    ) throws(Unreadable) {
        try take(open)
        if peek == close { return try take(close) }
        while true {
            try member(&self)
            if peek == close { return try take(close) }
            try take(UInt8(ascii: ","))
        }
    }

    private mutating func value() throws(Unreadable) -> SQLValue {
        switch peek {
        case UInt8(ascii: "n"):
            try word("null")
            return .null
        case UInt8(ascii: "\""): return .text(try string())
        case UInt8(ascii: "{"): return try named()
        default: return try number()
        }
    }

    /// Reads `{"hex": "00ff"}` or `{"real": "0.1"}`.
    private mutating func named() throws(Unreadable) -> SQLValue {
        try take(UInt8(ascii: "{"))
        let name = try string()
        try take(UInt8(ascii: ":"))
        let text = try string()
        try take(UInt8(ascii: "}"))
        switch name {
        case "hex":
            guard let bytes = Self.bytes(text) else { throw Unreadable() }
            return .bytes(bytes)
        case "text":
            guard let bytes = Self.bytes(text) else { throw Unreadable() }
            return .rawText(bytes)
        case "real":
            // A column cannot hold NaN, and NaN equals nothing, itself included.
            guard let number = Double(text), !number.isNaN else { throw Unreadable() }
            return .real(number)
        default: throw Unreadable()
        }
    }

    private static func bytes(_ hex: String) -> [UInt8]? {
        let digits = hex.unicodeScalars.map { Character($0).hexDigitValue }
        guard digits.count % 2 == 0, hex.utf8.count == digits.count else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }

    private mutating func number() throws(Unreadable) -> SQLValue {
        skipSpace()
        let digits = rest.prefix { $0 == UInt8(ascii: "-") || isDigit($0) }
        rest = rest.dropFirst(digits.count)
        let text = String(decoding: digits, as: UTF8.self)
        if let number = Int64(text) { return .integer(number) }
        guard let number = UInt64(text) else { throw Unreadable() }
        return .unsigned(number)
    }

    private func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private mutating func string() throws(Unreadable) -> String {
        try take(UInt8(ascii: "\""))
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: bytes, as: UTF8.self) else {
                    throw Unreadable()
                }
                return text
            case UInt8(ascii: "\\"): try escaped(into: &bytes)
            default: bytes.append(byte)
            }
        }
        throw Unreadable()
    }

    private mutating func escaped(into bytes: inout [UInt8]) throws(Unreadable) {
        guard let byte = rest.popFirst() else { throw Unreadable() }
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): bytes.append(byte)
        case UInt8(ascii: "b"): bytes.append(0x08)
        case UInt8(ascii: "f"): bytes.append(0x0C)
        case UInt8(ascii: "n"): bytes.append(0x0A)
        case UInt8(ascii: "r"): bytes.append(0x0D)
        case UInt8(ascii: "t"): bytes.append(0x09)
        case UInt8(ascii: "u"):
            var unit = try codeUnit()
            // Characters beyond 16 bits are spelled as two surrogates.
            if (0xD800..<0xDC00).contains(unit) {
                guard rest.starts(with: Array("\\u".utf8)) else { throw Unreadable() }
                rest = rest.dropFirst(2)
                let low = try codeUnit()
                guard (0xDC00..<0xE000).contains(low) else { throw Unreadable() }
                unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(unit) else { throw Unreadable() }
            bytes.append(contentsOf: String(scalar).utf8)
        default: throw Unreadable()
        }
    }

    private mutating func codeUnit() throws(Unreadable) -> UInt32 {
        let digits = rest.prefix(4)
        rest = rest.dropFirst(4)
        guard digits.count == 4, digits.allSatisfy({ $0 != UInt8(ascii: "+") }),
            let unit = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw Unreadable() }
        return unit
    }

    /// The next byte other than white space.
    private var peek: UInt8? {
        mutating get {
            skipSpace()
            return rest.first
        }
    }

    private mutating func skipSpace() {
        rest = rest.drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
    }

    private mutating func take(_ byte: UInt8) throws(Unreadable) {
        skipSpace()
        guard rest.popFirst() == byte else { throw Unreadable() }
    }

    private mutating func word(_ word: String) throws(Unreadable) {
        skipSpace()
        guard rest.starts(with: Array(word.utf8)) else { throw Unreadable() }
        rest = rest.dropFirst(word.utf8.count)
    }
}
