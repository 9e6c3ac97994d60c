import Encodings
import Foundation
@testable import Looks
@testable import Operations
import TestSupport
import Testing

@testable import AuditFormats

@Suite("The text, Markdown and JSON of an audit")
struct PlainFormatTests {
    @Test("text and Markdown match the copies", arguments: [AuditFormat.text, .markdown])
    func golden(_ format: AuditFormat) throws {
        let difference = try GoldenCopy(name: "audit-\(format.rawValue)")
            .difference(from: try SampleReport.troubled.report.document(format))
        #expect(difference == nil, "\(difference ?? "")")
    }

    @Test("text has at most 80 columns and no control character", arguments: SampleReport.allCases)
    func columns(_ sample: SampleReport) throws {
        let text = try sample.report.document(.text)
        for line in text.split(separator: "\n") {
            #expect(line.columns <= 80, "\(line)")
            #expect(String(line).printable == line)
        }
    }

    @Test("wide characters count as two columns")
    func wideCharacters() {
        var layout = TextLayout()
        layout.add(String(repeating: "推", count: 100), first: "- ", rest: "  ")
        #expect(layout.lines.map(\.columns) == [80, 80, 46])
    }

    @Test("a word that is longer than a line loses nothing")
    func longWords() {
        var layout = TextLayout()
        layout.add("a " + String(repeating: "x", count: 200) + " b", first: "- ", rest: "  ")
        #expect(layout.lines.joined().filter { $0 == "x" }.count == 200)
        #expect(layout.lines.allSatisfy { $0.count <= 80 })
    }

    @Test("Markdown takes no markup, link or cell from a text")
    func markdown() throws {
        let text = try SampleReport.hostile.report.document(.markdown)
        #expect(!text.contains("<") && !text.contains("https://") && !text.contains("[a]("))
        // What is left of the pipes, after the escaped ones, separates cells.
        var cells: Int?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            guard line.hasPrefix("|") else {
                cells = nil
                continue
            }
            let pipes = line.replacing("\\\\", with: "").replacing("\\|", with: "")
                .count { $0 == "|" }
            #expect(cells == nil || cells == pipes, "\(line)")
            cells = pipes
        }
    }

    @Test(
        "JSON is one line and has the whole report",
        arguments: [SampleReport.troubled, .hostile, .empty])
    func json(_ sample: SampleReport) throws {
        let line = try sample.report.document(.json)
        #expect(line.dropLast().allSatisfy { !$0.isNewline })
        #expect(line.contains("\"schema\":1"))
        let report = try JSONDecoder().decode(AuditReport.self, from: Data(line.utf8))
        #expect(report == sample.report)
    }

    @Test("the end of a file's name chooses the format")
    func names() {
        let ends = ["a.txt", "a.json", "a.csv", "a.b/r.MD", "a.html", "a", "a.pdf", "x.html/a"]
        #expect(
            ends.map(AuditFormat.init(file:)) == [
                .text, .json, nil, .markdown, .html, nil, nil, nil,
            ])
    }
}
