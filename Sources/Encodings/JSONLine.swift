import Foundation

/// Values as one line of JSON: sorted keys, so that the same value is the same line, and slashes as they are.
package enum JSONLine {
    /// The line without a line break at its end.
    ///
    /// - Throws: `EncodingError` for a value that JSON cannot say, a number that is not finite for instance.
    package static func bytes(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }
}

extension Encodable {
    /// The value as `JSONLine` spells it, as `--format json` prints it; `{}` for what JSON cannot say.
    package var jsonLine: String {
        guard let line = try? JSONLine.bytes(self) else { return "{}" }
        return String(decoding: line, as: UTF8.self)
    }
}
