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
        return "\"" + text.replacing { $0 == "\"" ? "\"\"" : nil } + "\""
    }
}

// A spreadsheet runs a cell that begins with =, +, - or @ as a formula, also in a quoted field. A text that
// begins so, perhaps after spaces, gets an apostrophe before it, which spreadsheets take for "this is text".

extension String {
    /// The text, with an apostrophe before one that a spreadsheet would take for a formula. The wide
    /// forms of the signs count too: some spreadsheets read them like the narrow ones.
    package var inert: String {
        let signs: [Unicode.Scalar] = ["=", "+", "-", "@", "＝", "＋", "－", "＠"]
        let first = unicodeScalars.first { !$0.properties.isWhitespace }
        // A tab or line break is escaped as `\t`, but a program may undo that.
        return first.map(signs.contains) == true ? "'" + self : self
    }
}
