import Encodings
import Foundation
@testable import Operations
import TestSupport
import Testing

@testable import AuditFormats

@Suite("The text, Markdown, CSV and JSON of an audit")
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

    @Test("each line of CSV has five fields, and no text begins like a formula")
    func formulas() throws {
        for sample in [SampleReport.troubled, .hostile, .empty] {
            let records = Self.records(try sample.report.document(.csv))
            #expect(records.first == ["section", "object", "entry", "name", "value"])
            for record in records {
                #expect(record.count == 5)
                for field in record where Int(field) == nil {
                    let first = field.first { !$0.isWhitespace }
                    #expect(first.map("=+-@".contains) != true, "\(record)")
                }
            }
        }
        let signs = Self.records(try SampleReport.filled(with: " @sum").document(.csv))
        #expect(signs.contains(["report", "", "", "host", "' @sum"]))
        #expect(signs.contains { $0[0] == "credentials" && $0[3] == "days left" && $0[4] == "-3" })
    }

    @Test("CSV has all evidence, and every finding")
    func figures() throws {
        let report = SampleReport.troubled.report
        let records = Self.records(try report.document(.csv))
        func sum(_ section: String, _ name: String) -> Int {
            records.filter { $0[0] == section && $0[3] == name }.compactMap { Int($0[4]) }
                .reduce(0, +)
        }
        let evidence = report.apps.flatMap(\.evidence)
        #expect(sum("evidence", "applied") == evidence.map(\.applied).reduce(0, +))
        #expect(sum("evidence", "newer") == evidence.map(\.newer).reduce(0, +))
        #expect(sum("tokens", "rows") == 1_301_134)
        #expect(
            records.filter { $0[0] == "findings" && $0[3] == "rule" }.count
                == report.findings.count)
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
                .text, .json, .csv, .markdown, .html, nil, nil, nil,
            ])
    }

    /// Reads CSV by RFC 4180.
    private static func records(_ text: String) -> [[String]] {
        text.unicodeScalars.split(separator: "\n").map { line in
            var fields = [String.UnicodeScalarView()]
            var quoted = false
            var scalars = Array(line)[...]
            while let scalar = scalars.popFirst() {
                if scalar == "\"", quoted, scalars.first == "\"" {
                    scalars.removeFirst()
                    fields[fields.count - 1].append(scalar)
                } else if scalar == "\"" {
                    quoted.toggle()
                } else if scalar == ",", !quoted {
                    fields.append(String.UnicodeScalarView())
                } else {
                    fields[fields.count - 1].append(scalar)
                }
            }
            return fields.map { String($0) }
        }
    }
}
