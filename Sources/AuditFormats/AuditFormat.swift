import Encodings
import Looks

/// The words of `audit --format`.
package enum AuditFormat: String, Hashable, Sendable, CaseIterable {
    /// Text for terminals, of at most 80 columns in files.
    case text
    /// One line with the whole report as a JSON object, with the version of its form.
    case json
    /// GitHub's Markdown, for merge requests and summaries of jobs.
    case markdown
    /// One page for browsers that loads nothing.
    case html

    /// The format that the end of a file's name stands for, such as `.html` or `.md`; nil for any
    /// other.
    package init?(file: String) {
        guard let dot = file.lastIndex(of: "."), !file[dot...].contains("/") else { return nil }
        switch file[file.index(after: dot)...].lowercased() {
        case "txt": self = .text
        case "json": self = .json
        case "md", "markdown": self = .markdown
        case "html", "htm": self = .html
        default: return nil
        }
    }
}

extension AuditReport {
    /// The report in a format, with a line break at its end. JSON has every figure. The others
    /// cut long lists and say how much they leave out. Text has lines of at most `columns`.
    ///
    /// - Throws: for HTML where libcrypto refuses to take a digest; never for the other formats.
    package func document(_ format: AuditFormat, columns: Int? = nil) throws -> String {
        switch format {
        case .text: AuditDocument.text(self, columns: columns ?? TextLayout.usualWidth)
        case .json: documentLine.printableJSON + "\n"
        case .markdown: AuditDocument.markdown(self)
        case .html: try AuditPage(self).text
        }
    }
}
