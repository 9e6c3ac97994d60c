// What a database, a gateway, a certificate or a file name says reaches terminals, mails of cron and scripts
// that read the last line of stderr. A terminal obeys control characters (an OSC 52 sequence fills the
// clipboard), characters of writing direction show a line other than it is, and a line break in a name
// starts a line that looks like ours, `code=0 ...` for instance.
//
// So the output, and nothing before it, turns every such character into its number: reports hand over their
// lines one by one, and a line break inside one of them is a character like others. What is kept in
// journals, ledgers and tables stays as it was.

import Database
import Encodings

extension String {
    /// The text on one line, with the number of each character in place of the character where it is a
    /// control character or an invisible one: `\u{1B}`, `\u{202E}`, `\n`. Everything else is as it was.
    package var printable: String {
        guard utf8.contains(where: { $0 < 0x20 || $0 >= 0x7F }) else { return self }
        var shown = ""
        for scalar in unicodeScalars {
            if PlainText.hasControlCharacter(String(scalar)) {
                shown += scalar.escaped(asASCII: true)
            } else {
                shown.unicodeScalars.append(scalar)
            }
        }
        return shown
    }

    /// A JSON text in which no such character stands as it is: RFC 8259 has `\u` and four digits for each,
    /// two of them beyond 16 bits. They can stand inside strings only, so the value stays the same.
    package var printableJSON: String {
        guard utf8.contains(where: { $0 < 0x20 || $0 >= 0x7F }) else { return self }
        var shown = ""
        for scalar in unicodeScalars {
            if PlainText.hasControlCharacter(String(scalar)) {
                shown += JSONText.number(of: scalar)
            } else {
                shown.unicodeScalars.append(scalar)
            }
        }
        return shown
    }
}

/// What a command prints for people, line by line. A value in a line may hold anything, a line break too:
/// the output escapes each line.
package protocol PrintedLines {
    /// The lines.
    var lines: [String] { get }
}

extension PrintedLines {
    /// The lines as they are printed.
    package var text: String { lines.map(\.printable).joined(separator: "\n") }
}
