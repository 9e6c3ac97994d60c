import Database
import Encodings

/// Columns of a row with their values: a whole row, or only its mark and reason.
struct RowContent: Hashable, Sendable {
    private(set) var columns: [String]
    private(set) var values: [SQLValue]

    /// Values without a column are dropped.
    init(_ columns: [String], _ values: some Sequence<SQLValue>) {
        self.columns = columns
        self.values = Array(values.prefix(columns.count))
    }

    /// The value of a column; nil where the content does not include the column.
    subscript(column: String) -> SQLValue? {
        columns.firstIndex(exactly: column).map { values[$0] }
    }

    /// Whether every column of `part` has the same value here.
    func agrees(with part: RowContent) -> Bool {
        zip(part.columns, part.values).allSatisfy { column, value in
            self[column]?.asImaged == value.asImaged
        }
    }

    /// This content with the values of `part` in place of its own.
    func replacing(by part: RowContent) -> RowContent {
        var replaced = self
        for (column, value) in zip(part.columns, part.values) {
            if let index = columns.firstIndex(exactly: column) {
                replaced.values[index] = value
            } else {
                replaced.columns.append(column)
                replaced.values.append(value)
            }
        }
        return replaced
    }

    /// The number of bytes in its texts and byte strings.
    var bytes: Int {
        values.reduce(0) { sum, value in
            switch value {
            case .text(let text): sum + text.utf8.count
            case .bytes(let bytes), .rawText(let bytes): sum + bytes.count
            default: sum
            }
        }
    }
}

extension SQLValue {
    /// The value as read back from an image, where dates are text.
    var asImaged: SQLValue {
        if case .wallClock(let clock) = self { .text(clock.text(fraction: 6)) } else { self }
    }
}

// The content of a deleted row, and the key of a changed row, as JSON in the ledger. The image has
// to restore the row exactly, whatever its columns are. So values that JSON cannot express are
// objects of one member: {"hex": "00ff"} for bytes, {"text": "61ff"} for text whose bytes are not
// UTF-8, {"real": "0.1"} for floating point numbers, whose shortest decimal spelling reads back as
// the same number. Dates are text as the engine prints them.

/// Writes values of rows as JSON.
enum RowImage {
    static func object(_ columns: [String], _ values: some Collection<SQLValue>) -> String {
        var json: [UInt8] = [UInt8(ascii: "{")]
        for (index, (column, value)) in zip(columns, values).enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            JSONText.append(column, to: &json)
            json.append(UInt8(ascii: ":"))
            append(value, to: &json)
        }
        json.append(UInt8(ascii: "}"))
        return String(decoding: json, as: UTF8.self)
    }

    /// An object with the content of a row before and after a change; nil stands for no row.
    static func pair(before: RowContent?, after: RowContent?) -> String {
        func side(_ content: RowContent?) -> String {
            content.map { object($0.columns, $0.values) } ?? "null"
        }
        return "{\"before\":\(side(before)),\"after\":\(side(after))}"
    }

    /// A list of the content of a row and of the mark beside it, before both changed; nil stands for no mark.
    static func list(_ row: RowContent, beside mark: RowContent?) -> String {
        "[\(object(row.columns, row.values)),\(mark.map { object($0.columns, $0.values) } ?? "null")]"
    }

    /// The key of a row: the bare number for the usual single number, else an array.
    static func key(_ values: [SQLValue]) -> ExactText {
        if values.count == 1, case .integer(let number) = values[0] { return "\(number)" }
        var json: [UInt8] = [UInt8(ascii: "[")]
        for (index, value) in values.enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            append(value, to: &json)
        }
        json.append(UInt8(ascii: "]"))
        return ExactText(String(decoding: json, as: UTF8.self))
    }

    private static func append(_ value: SQLValue, to json: inout [UInt8]) {
        switch value {
        case .null: json.append(contentsOf: "null".utf8)
        case .integer(let number): json.append(contentsOf: String(number).utf8)
        case .unsigned(let number): json.append(contentsOf: String(number).utf8)
        case .real(let number): json.append(contentsOf: "{\"real\":\"\(number)\"}".utf8)
        case .text(let text): JSONText.append(text.string, to: &json)
        case .bytes(let bytes): append(hex: bytes, as: "hex", to: &json)
        case .rawText(let bytes): append(hex: bytes, as: "text", to: &json)
        case .wallClock(let clock):
            json.append(UInt8(ascii: "\""))
            json.append(contentsOf: clock.text(fraction: 6).utf8)
            json.append(UInt8(ascii: "\""))
        }
    }

    private static func append(hex bytes: [UInt8], as kind: String, to json: inout [UInt8]) {
        json.append(contentsOf: "{\"\(kind)\":\"".utf8)
        Hex.append(bytes, to: &json)
        json.append(contentsOf: "\"}".utf8)
    }
}

// Reads the output of RowImage exactly: each value is read back as it was, with dates as text. It
// also accepts JSON (RFC 8259) with white space, so that an image which a person has reformatted in
// the ledger stays usable. Any other text is refused, because a row restored wrongly is worse than
// one not restored.

/// Parses images.
struct RowImageReader {
    private var scanner: JSONScanner

    /// Thrown inside the reader for text that is not an image.
    private static let unreadable = Refusal("it is no image of a row")

    /// The columns and values of a row in an image; nil for anything that is none.
    static func content(_ text: String) -> RowContent? {
        read(text) { reader throws(Refusal) in
            reader.scanner.peek() == UInt8(ascii: "[")
                ? try reader.list().row : try reader.content()
        }
    }

    /// The row and the mark beside it in an image that has both; nil for any other text.
    static func list(_ text: String) -> (row: RowContent, mark: RowContent?)? {
        read(text) { reader throws(Refusal) in try reader.list() }
    }

    /// The values of a row's key; nil for any other text.
    static func key(_ text: ExactText) -> [SQLValue]? {
        read(text.string) { reader throws(Refusal) in
            guard reader.scanner.peek() == UInt8(ascii: "[") else { return [try reader.value()] }
            var values: [SQLValue] = []
            try reader.members("[", "]") {
                reader throws(Refusal) in values.append(try reader.value())
            }
            return values
        }
    }

    /// The content of a row before and after a change, each nil where the row did not exist. The
    /// whole result is nil for any other text.
    static func pair(_ text: String) -> (before: RowContent?, after: RowContent?)? {
        read(text) { reader throws(Refusal) in
            var sides: [String: RowContent?] = [:]
            try reader.members("{", "}") { reader throws(Refusal) in
                let name = try reader.string()
                try reader.take(":")
                sides.updateValue(try reader.contentOrNull(), forKey: name)
            }
            guard sides.count == 2, let before = sides["before"], let after = sides["after"] else {
                throw Self.unreadable
            }
            return (before, after)
        }
    }

    private static func read<Result>(
        _ text: String, _ body: (inout RowImageReader) throws(Refusal) -> Result
    ) -> Result? {
        var text = text
        return text.withUTF8 { bytes in
            var reader = RowImageReader(scanner: JSONScanner(UnsafeRawBufferPointer(bytes)))
            guard let result = try? body(&reader), reader.scanner.isAtEnd else { return nil }
            return result
        }
    }

    private mutating func list() throws(Refusal) -> (row: RowContent, mark: RowContent?) {
        try take("[")
        let row = try content()
        try take(",")
        let mark = try contentOrNull()
        try take("]")
        return (row, mark)
    }

    private mutating func contentOrNull() throws(Refusal) -> RowContent? {
        guard scanner.peek() == UInt8(ascii: "n") else { return try content() }
        try null()
        return nil
    }

    private mutating func content() throws(Refusal) -> RowContent {
        var columns: [String] = []
        var values: [SQLValue] = []
        try members("{", "}") { reader throws(Refusal) in
            let name = try reader.string()
            guard !columns.contains(exactly: name) else { throw Self.unreadable }
            try reader.take(":")
            columns.append(name)
            values.append(try reader.value())
        }
        return RowContent(columns, values)
    }

    /// Reads members between two brackets, separated by commas.
    private mutating func members(
        _ open: Unicode.Scalar, _ close: Unicode.Scalar,
        _ member: (inout RowImageReader) throws(Refusal) -> Void
    ) throws(Refusal) {
        try take(open)
        if scanner.take(close) { return }
        repeat { try member(&self) } while scanner.take(",")
        try take(close)
    }

    private mutating func value() throws(Refusal) -> SQLValue {
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
    private mutating func named() throws(Refusal) -> SQLValue {
        try take("{")
        let name = try string()
        try take(":")
        let text = try string()
        try take("}")
        switch name {
        case "hex":
            guard let bytes = Hex.bytes(text.utf8) else { throw Self.unreadable }
            return .bytes(bytes)
        case "text":
            guard let bytes = Hex.bytes(text.utf8) else { throw Self.unreadable }
            return .rawText(bytes)
        case "real":
            // A column cannot hold NaN, and NaN equals nothing, itself included.
            guard let number = Double(text), !number.isNaN else { throw Self.unreadable }
            return .real(number)
        default: throw Self.unreadable
        }
    }

    private mutating func number() throws(Refusal) -> SQLValue {
        guard let digits = scanner.scalar() else { throw Self.unreadable }
        let text = String(decoding: digits, as: UTF8.self)
        if let number = Int64(text) { return .integer(number) }
        guard let number = UInt64(text) else { throw Self.unreadable }
        return .unsigned(number)
    }

    private mutating func string() throws(Refusal) -> String {
        guard let bytes = scanner.string(), let text = String(validating: bytes, as: UTF8.self)
        else { throw Self.unreadable }
        return text
    }

    private mutating func take(_ wanted: Unicode.Scalar) throws(Refusal) {
        guard scanner.take(wanted) else { throw Self.unreadable }
    }

    private mutating func null() throws(Refusal) {
        guard let word = scanner.scalar(), word.elementsEqual("null".utf8) else {
            throw Self.unreadable
        }
    }
}
