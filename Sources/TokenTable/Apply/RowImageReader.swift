import Database
import Encodings

// Reads the output of RowImage exactly: each value is read back as it was, with dates as text. It
// also accepts JSON (RFC 8259) with white space, so that an image which a person has reformatted in
// the ledger stays usable. Any other text is refused, because a row restored wrongly is worse than
// one not restored.

/// Parses images.
struct RowImageReader {
    private var scanner: JSONScanner

    /// Thrown inside the reader for text that is not an image.
    private struct Unreadable: Error {}

    /// The columns and values of an image; nil for anything that is none.
    static func content(_ text: String) -> RowContent? {
        read(text) { reader throws(Unreadable) in try reader.content() }
    }

    /// The values of a row's key; nil for any other text.
    static func key(_ text: String) -> [SQLValue]? {
        read(text) { reader throws(Unreadable) in
            guard reader.scanner.peek() == UInt8(ascii: "[") else { return [try reader.value()] }
            var values: [SQLValue] = []
            try reader.members("[", "]") {
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
            try reader.members("{", "}") { reader throws(Unreadable) in
                let name = try reader.string()
                try reader.take(":")
                if reader.scanner.peek() == UInt8(ascii: "n") {
                    try reader.null()
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
        var text = text
        return text.withUTF8 { bytes in
            var reader = RowImageReader(scanner: JSONScanner(UnsafeRawBufferPointer(bytes)))
            guard let result = try? body(&reader), reader.scanner.isAtEnd else { return nil }
            return result
        }
    }

    private mutating func content() throws(Unreadable) -> RowContent {
        var columns: [String] = []
        var values: [SQLValue] = []
        try members("{", "}") { reader throws(Unreadable) in
            let name = try reader.string()
            guard !columns.contains(name) else { throw Unreadable() }
            try reader.take(":")
            columns.append(name)
            values.append(try reader.value())
        }
        return RowContent(columns, values)
    }

    /// Reads members between two brackets, separated by commas.
    private mutating func members(
        _ open: Unicode.Scalar, _ close: Unicode.Scalar,
        _ member: (inout RowImageReader) throws(Unreadable) -> Void
    ) throws(Unreadable) {
        try take(open)
        if scanner.take(close) { return }
        repeat { try member(&self) } while scanner.take(",")
        try take(close)
    }

    private mutating func value() throws(Unreadable) -> SQLValue {
        switch scanner.peek() {
        case UInt8(ascii: "n"):
            try null()
            return .null
        case UInt8(ascii: "\""): return .text(try string())
        case UInt8(ascii: "{"): return try named()
        default: return try number()
        }
    }

    /// Reads `{"hex": "00ff"}` or `{"real": "0.1"}`.
    private mutating func named() throws(Unreadable) -> SQLValue {
        try take("{")
        let name = try string()
        try take(":")
        let text = try string()
        try take("}")
        switch name {
        case "hex":
            guard let bytes = Hex.bytes(text.utf8) else { throw Unreadable() }
            return .bytes(bytes)
        case "text":
            guard let bytes = Hex.bytes(text.utf8) else { throw Unreadable() }
            return .rawText(bytes)
        case "real":
            // A column cannot hold NaN, and NaN equals nothing, itself included.
            guard let number = Double(text), !number.isNaN else { throw Unreadable() }
            return .real(number)
        default: throw Unreadable()
        }
    }

    private mutating func number() throws(Unreadable) -> SQLValue {
        guard let digits = scanner.scalar() else { throw Unreadable() }
        let text = String(decoding: digits, as: UTF8.self)
        if let number = Int64(text) { return .integer(number) }
        guard let number = UInt64(text) else { throw Unreadable() }
        return .unsigned(number)
    }

    private mutating func string() throws(Unreadable) -> String {
        guard let bytes = scanner.string(), let text = String(validating: bytes, as: UTF8.self)
        else { throw Unreadable() }
        return text
    }

    private mutating func take(_ wanted: Unicode.Scalar) throws(Unreadable) {
        guard scanner.take(wanted) else { throw Unreadable() }
    }

    private mutating func null() throws(Unreadable) {
        guard let word = scanner.scalar(), word.elementsEqual("null".utf8) else {
            throw Unreadable()
        }
    }
}
