import FoundationEssentials

/// Encodes values as one line of JSON, with sorted keys, so that equal values have equal lines, and
/// with slashes unescaped.
package enum JSONLine {
    /// The line without a line break at its end.
    ///
    /// - Throws: `EncodingError` for a value that JSON cannot express, such as an infinite number.
    package static func bytes(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }
}

extension Encodable {
    /// The line of `JSONLine`; `{}` for a value that JSON cannot express.
    package var jsonLine: String {
        guard let line = try? JSONLine.bytes(self) else { return "{}" }
        return String(decoding: line, as: UTF8.self)
    }
}

/// Encodes strings (RFC 8259 section 7), for JSON that is not made by an encoder.
package enum JSONText {
    /// Appends a string in quotes. Escapes only what JSON requires: the quote, the backslash
    /// and the control characters below U+0020.
    package static func append(_ text: String, to json: inout [UInt8]) {
        json.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            // Most texts need no escape, so whole runs are appended.
            var start = 0
            for (position, byte) in utf8.enumerated()
            where byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
                json.append(contentsOf: utf8[start..<position])
                start = position + 1
                if byte < 0x20 {
                    appendNumber(of: UInt16(byte), to: &json)
                } else {
                    json.append(UInt8(ascii: "\\"))
                    json.append(byte)
                }
            }
            json.append(contentsOf: utf8[start...])
        }
        json.append(UInt8(ascii: "\""))
    }

    /// The escape of a character: `\u` and four digits, twice for a character beyond 16 bits.
    package static func number(of scalar: Unicode.Scalar) -> String {
        var text: [UInt8] = []
        for unit in String(scalar).utf16 { appendNumber(of: unit, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }

    private static func appendNumber(of unit: UInt16, to json: inout [UInt8]) {
        json.append(UInt8(ascii: "\\"))
        json.append(UInt8(ascii: "u"))
        Hex.append([UInt8(unit >> 8), UInt8(truncatingIfNeeded: unit)], to: &json)
    }
}

/// A value with the version of its form, as programs read it from stdout or in a hook: the fields of
/// the value and the field `schema` in one object.
package struct JSONDocument<Body: Encodable>: Encodable {
    /// The version of all forms, described in `docs/json`. New fields leave it as it is, because
    /// readers ignore fields that they do not know; anything else raises it.
    package static var schema: Int { 1 }

    private let body: Body

    package init(_ body: Body) { self.body = body }

    private enum CodingKeys: CodingKey { case schema }

    /// Encodes the fields of the value and the version.
    package func encode(to encoder: any Encoder) throws {
        try body.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.schema, forKey: .schema)
    }
}

extension Encodable {
    /// The line of a `JSONDocument`, as `--format json` prints it.
    package var documentLine: String { JSONDocument(self).jsonLine }
}
