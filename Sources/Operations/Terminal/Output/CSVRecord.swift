import Encodings

/// One line of comma-separated values (RFC 4180), for the commands that print tables.
package enum CSVRecord {
    /// The fields joined by commas, with a line break. Control characters are escaped, so that every
    /// record is exactly one line.
    package static func line(_ fields: [String]) -> String {
        fields.map(field).joined(separator: ",") + "\n"
    }

    private static func field(_ text: String) -> String {
        let text = text.printable
        let special: [Unicode.Scalar] = [",", "\"", " "]
        guard text.unicodeScalars.contains(where: special.contains) else { return text }
        return text.doubling("\"")
    }
}
