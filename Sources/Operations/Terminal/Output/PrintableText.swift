// Texts from a database, a gateway, a certificate or a file name reach terminals, mails of cron, and
// scripts that read the last line of stderr. A terminal obeys control characters (an OSC 52 sequence
// fills the clipboard). Characters of writing direction change how a line looks. A line break in a
// name starts a line that looks like ours, for instance `code=0 ...`.
//
// So the output, and nothing before it, turns every such character into its number. Reports pass
// their lines one by one, and a line break inside a line is escaped like the others. Journals,
// ledgers and tables keep the original text.

import Database
import Encodings

extension String {
    private func replacingControls(_ form: (Unicode.Scalar) -> String) -> String {
        guard utf8.contains(where: { $0 < 0x20 || $0 >= 0x7F }) else { return self }
        return replacing { $0.isUnprintable ? form($0) : nil }
    }

    /// The text on one line. Each control character and each invisible character is replaced by its
    /// escape, such as `\u{1B}`, `\u{202E}` or `\n`. All others are unchanged.
    package var printable: String { replacingControls { $0.escaped(asASCII: true) } }

    /// A JSON text with every such character escaped: RFC 8259 has `\u` and four digits for each, two
    /// of them beyond 16 bits. These characters occur inside strings only, so the value stays the
    /// same.
    package var printableJSON: String { replacingControls(JSONText.number) }
}

/// The lines that a command prints for people. A value in a line may contain any character, even a
/// line break: the output escapes each line.
package protocol PrintedLines {
    /// The lines, not yet escaped.
    var lines: [String] { get }
    /// What a terminal may do to the lines.
    static var form: PrintedForm { get }
}

extension PrintedLines {
    package static var form: PrintedForm { .words }
}

extension Int {
    /// The number and its noun, with an "s" unless the number is one: "1 batch", "0 batches".
    package func counting(_ noun: String) -> String {
        "\(self) \(noun)\(self == 1 ? "" : noun.hasSuffix("ch") ? "es" : "s")"
    }

    /// The number with a noun and the form of a verb for one and for several: `1 row has`, `2 rows have`.
    package func counting(_ noun: String, _ one: String, _ several: String) -> String {
        "\(counting(noun)) \(self == 1 ? one : several)"
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
