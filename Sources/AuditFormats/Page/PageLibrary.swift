// The templates of the page, and the escaping of all values in them.
//
// The markup is well-formed XML and HTML at once: every element is closed and every attribute quoted, so that
// a test can parse the page with any XML parser. A value may not hold characters that XML forbids; those are
// escaped before (`printable`).
//
// The library escapes by Swift characters. A `"` and a combining mark after it are one character for it, which it
// does not know and leaves as it is: that would end an attribute. So the templates name a content type of
// their own, which escapes by scalars.

import Mustache

/// The templates of the page.
enum PageLibrary {
    /// The templates, read once.
    static let templates = Result { try load() }

    private static func load() throws -> MustacheLibrary {
        MustacheContentTypes.register(PageText(), named: "PAGE")
        var library = MustacheLibrary()
        for (name, text) in PageTemplates.all {
            // A template that is used in another one begins with the library's own escaping.
            try library.register("{{% CONTENT_TYPE:PAGE}}" + text, named: name)
        }
        return library
    }
}

/// Text in a page, in an element or in a quoted attribute.
struct PageText: MustacheContentType {
    /// The text with `<`, `>`, `&` and both quotes as references.
    func escapeText(_ text: String) -> String {
        var escaped = ""
        escaped.unicodeScalars.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "&": escaped += "&amp;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            // No XML document may have these two.
            case "\u{FFFE}", "\u{FFFF}": escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
