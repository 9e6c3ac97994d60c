// The page answers in this order: is it healthy, and why not; what is to be done; how large is all; then the
// charts; then, folded, everything else. A person who closes it after five seconds knows the first, after thirty
// the second.
//
// It is one file that loads nothing and runs nothing: its policy allows the one style that the page
// itself has, by its digest, and no script, picture, font, form or base address. The templates escape every value
// (PageLibrary); the charts are values too.

import Encodings
import Foundation
import Operations
import SecureTransport

/// The report as a page for browsers.
package struct AuditPage {
    /// The document.
    package let text: String

    /// Writes a page of at most 300,000 bytes.
    ///
    /// - Throws: where libcrypto refuses to take a digest, or a template is wrong.
    package init(_ report: AuditReport) throws {
        let policy = try Self.policy()
        let library = try PageLibrary.templates.get()
        let (verdict, totals) = (Verdict(report), Totals(report.apps))
        var page = ""
        for limits in PageLimits.ladder {
            let content = PageContent(report, verdict, totals, limits, policy: policy)
            page = library.render(content, withTemplate: "page") ?? ""
            if page.utf8.count <= PageLimits.bytes { break }
        }
        text = page
    }

    /// The Content-Security-Policy: nothing but the page's own style.
    static func policy() throws -> String {
        let digest = try SHA256Digest()
        try digest.update(Array(PageStyle.text.utf8))
        let bytes = Hex.bytes(Array(try digest.hex().utf8)) ?? []
        let source = "'sha256-\(Data(bytes).base64EncodedString())'"
        return "default-src 'none'; style-src \(source); base-uri 'none'; form-action 'none'"
    }
}
