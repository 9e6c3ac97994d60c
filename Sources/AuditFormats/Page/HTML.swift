// Markup, written as Swift text. What stands in the source is markup; what is inserted is escaped, unless it is
// markup itself. So a value is never markup by mistake: there is no way to insert one as it is.
//
// The markup is well-formed XML and HTML at once: every element is closed and every attribute quoted, so that
// a test can parse the page with any XML parser. A value may not hold characters that XML forbids; those are
// escaped before (`printable`).

import Encodings

/// A part of a page. Its literal is markup, `\(text)` in it is escaped text, and `\(html)` is a part.
struct HTML: ExpressibleByStringInterpolation, Hashable, Sendable {
    /// The markup.
    let markup: String

    init(stringLiteral markup: String) { self.markup = markup }

    init(stringInterpolation parts: StringInterpolation) { markup = parts.markup }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var markup = ""

        init(literalCapacity: Int, interpolationCount: Int) {
            markup.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        mutating func appendLiteral(_ literal: String) { markup += literal }

        mutating func appendInterpolation(_ text: String) { markup += HTML.escaped(text) }

        mutating func appendInterpolation(_ number: Int) { markup += String(number) }

        mutating func appendInterpolation(_ part: HTML) { markup += part.markup }

        /// Nothing for nil.
        mutating func appendInterpolation(_ part: HTML?) { markup += part?.markup ?? "" }

        /// The parts one after the other.
        mutating func appendInterpolation(_ parts: [HTML]) {
            for part in parts { markup += part.markup }
        }
    }

    /// Text with `<`, `>`, `&` and both quotes as references, in an element or in a quoted attribute. By scalars:
    /// for Swift a `"` and a combining mark after it are one character, which would end an attribute.
    private static func escaped(_ text: String) -> String {
        text.replacing { scalar in
            switch scalar {
            case "<": "&lt;"
            case ">": "&gt;"
            case "&": "&amp;"
            case "\"": "&quot;"
            case "'": "&#39;"
            // No XML document may have these two.
            case "\u{FFFE}", "\u{FFFF}": "\u{FFFD}"
            default: nil
            }
        }
    }
}
