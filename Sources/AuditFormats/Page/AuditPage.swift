// The page answers in this order: is it healthy, and why not; what is to be done; how large is all; then the
// charts; then, folded, everything else. A person who closes it after five seconds knows the first, after thirty
// the second.
//
// It is one file that loads nothing and runs nothing: its policy allows the one style that the page
// itself has, by its digest, and no script, picture, font, form or base address. `HTML` escapes every value; the
// charts are values too.

import Encodings
import FoundationEssentials
import Looks
import SecureTransport

/// The report as a page for browsers.
package struct AuditPage {
    package let text: String

    /// Writes a page of at most 300,000 bytes.
    ///
    /// - Throws: where libcrypto refuses to take a digest.
    package init(_ report: AuditReport) throws {
        let policy = try Self.policy()
        let (verdict, totals) = (AuditHeadline(report), Totals(report.apps))
        var page = ""
        for limits in PageLimits.ladder {
            let content = PageContent(
                report: report, verdict: verdict, totals: totals, limits: limits)
            page = Self.document(content, policy: policy).markup
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

    /// The style as it stands in the page: the policy allows it by the digest of these bytes.
    private static let style = HTML(
        stringLiteral: String(decoding: PackageResources.style_css, as: UTF8.self))

    private static func document(_ content: PageContent, policy: String) -> HTML {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8"/>
        <meta http-equiv="Content-Security-Policy" content="\(policy)"/>
        <meta name="viewport" content="width=device-width, initial-scale=1"/>
        <meta name="color-scheme" content="light dark"/>
        <meta name="referrer" content="no-referrer"/>
        <title>\(content.verdict.word): Pushsweep audit to \(content.until)</title>
        <style>\(style)</style>
        </head>
        <body>
        \(content.header)
        <main class="wrap">
        \(content.work)
        \(content.figures)
        \(content.changes)
        \(content.apps)
        \(content.rest)
        </main>
        </body>
        </html>

        """
    }
}
