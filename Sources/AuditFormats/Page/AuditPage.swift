// The page answers in this order: is it healthy, and why not; what is to be done; how large is all; then the
// charts; then, folded, everything else. A person who closes it after five seconds knows the first, after thirty
// the second.
//
// It is one file that loads nothing and runs nothing: its policy allows the one style that the page
// itself has, by its digest, and no script, picture, font, form or base address. The templates escape every value
// (PageText); the charts are values too.

import Encodings
import Foundation
import Mustache
import Operations
import SecureTransport

/// The report as a page for browsers.
package struct AuditPage {
    package let text: String

    /// Writes a page of at most 300,000 bytes.
    ///
    /// - Throws: where libcrypto refuses to take a digest, or a template is wrong.
    package init(_ report: AuditReport) throws {
        let policy = try Self.policy()
        let library = try PageTemplates.library.get()
        let (verdict, totals) = (AuditHeadline(report), Totals(report.apps))
        var page = ""
        for limits in PageLimits.ladder {
            let content = PageContent(
                report: report, verdict: verdict, totals: totals, limits: limits)
            page = library.render(content.values(policy: policy), withTemplate: "page") ?? ""
            if page.utf8.count <= PageLimits.bytes { break }
        }
        text = page
    }

    /// The Content-Security-Policy: nothing but the page's own style.
    static func policy() throws -> String {
        let digest = try SHA256Digest()
        try digest.update(PackageResources.style_css)
        let bytes = Hex.bytes(Array(try digest.hex().utf8)) ?? []
        let source = "'sha256-\(Data(bytes).base64EncodedString())'"
        return "default-src 'none'; style-src \(source); base-uri 'none'; form-action 'none'"
    }
}

// The templates of the page, and the escaping of all values in them.
//
// The markup is well-formed XML and HTML at once: every element is closed and every attribute quoted, so that
// a test can parse the page with any XML parser. A value may not hold characters that XML forbids; those are
// escaped before (`printable`).
//
// The library escapes by Swift characters. A `"` and a combining mark after it are one character for it, which it
// does not know and leaves as it is: that would end an attribute. So the templates name a content type of
// their own, which escapes by scalars.

/// The templates of the page by name. None has an unescaped value (`{{{`), a script or an address.
enum PageTemplates {
    static let all = [
        "page": PackageResources.page_mustache, "figures": PackageResources.figures_mustache,
        "rest": PackageResources.rest_mustache, "finding": PackageResources.finding_mustache,
        "table": PackageResources.table_mustache, "charts": PackageResources.charts_mustache,
        "bars": PackageResources.bars_mustache, "columns": PackageResources.columns_mustache,
        "style": PackageResources.style_css,
    ].mapValues { String(decoding: $0, as: UTF8.self) }

    /// The templates, read once.
    static let library = Result {
        MustacheContentTypes.register(PageText(), named: "PAGE")
        var library = MustacheLibrary()
        for (name, text) in all {
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
