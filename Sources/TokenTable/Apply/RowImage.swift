import Database
import Encodings

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
    static func step(before: RowContent?, after: RowContent?) -> String {
        func side(_ content: RowContent?) -> String {
            content.map { object($0.columns, $0.values) } ?? "null"
        }
        return "{\"before\":\(side(before)),\"after\":\(side(after))}"
    }

    /// The key of a row: the bare number for the usual single number, else an array.
    static func key(_ values: [SQLValue]) -> String {
        if values.count == 1, case .integer(let number) = values[0] { return String(number) }
        var json: [UInt8] = [UInt8(ascii: "[")]
        for (index, value) in values.enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            append(value, to: &json)
        }
        json.append(UInt8(ascii: "]"))
        return String(decoding: json, as: UTF8.self)
    }

    private static func append(_ value: SQLValue, to json: inout [UInt8]) {
        switch value {
        case .null: json.append(contentsOf: "null".utf8)
        case .integer(let number): json.append(contentsOf: String(number).utf8)
        case .unsigned(let number): json.append(contentsOf: String(number).utf8)
        case .real(let number): json.append(contentsOf: "{\"real\":\"\(number)\"}".utf8)
        case .text(let text): JSONText.append(text, to: &json)
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
