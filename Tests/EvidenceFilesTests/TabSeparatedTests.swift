import APNsProtocol
import EvidenceFiles
import Foundation
import TestSupport
import Testing
import TokenHygiene

private func layout(_ format: ReportFormat) throws -> ReportLayout {
    ReportLayout(format: format, map: try FieldMap("token=token,reason=note"))
}

/// The tokens and notes of a file.
private func read(_ text: String, _ format: ReportFormat, piece: Int = 5) throws -> [[String]] {
    let bytes = Array(text.utf8)
    let judge = ReportReader(now: EpochMilliseconds(1_790_000_000_000), mayUseArrival: false)
    var reader = ReportLines(try layout(format), judge)
    var rows: [[String]] = []
    let add = { (line: ReportLine) in
        guard let report = try line.report.get() else { return }
        rows.append([String(decoding: report.token, as: UTF8.self), report.reason ?? "-"])
    }
    for start in stride(from: 0, to: bytes.count, by: piece) {
        try bytes[start..<min(start + piece, bytes.count)].withUnsafeBytes {
            try reader.take($0, content: { _, _ in }, add)
        }
    }
    try reader.finish(content: { _, _ in }, add)
    return rows
}

@Suite("Columns with tabs between them")
struct TabSeparatedTests {
    @Test(
        "what mysql --batch prints is read by its rules: quotes are text, backslashes are escapes",
        arguments: [
            ("\"", "\""), ("\"a\" b", "\"a\" b"), ("a\"", "a\""), (#"a\tb\nc\\d"#, "a\tb\nc\\d"),
            (#"\\n"#, #"\n"#), ("NULL", "-"), (#"\N"#, "-"), ("a\rb", "a\rb"), ("", "-"),
            ("\"\u{301}", "\"\u{301}"), (#"a\0b"#, "a\0b"),
        ])
    func batch(_ field: String, _ note: String) throws {
        for end in ["\n", "\r\n"] {
            let text = ["token\tnote", "c8\t\"", "c9\t\(field)", "c7\t\"", ""]
                .joined(separator: end)
            for piece in [1, 4_096] {
                #expect(
                    try read(text, .tsv, piece: piece)
                        == [["c8", "\""], ["c9", note], ["c7", "\""]])
            }
        }
    }

    @Test(
        "a row of another width, and a backslash that mysql --batch does not write, end the file",
        arguments: [
            ("c9\tx\ty", "line 2, column 1: this row has 3 fields"),
            ("c9", "line 2, column 1: this row has 1 fields"),
            (#"c9\#ta\dir"#, "line 2, column 5: a backslash that mysql"),
            ("c9\ta\\", "line 2, column 5: a backslash that mysql"),
        ])
    func mistakes(_ row: String, _ words: String) throws {
        let fault = #expect(throws: UnreadableFile.self) {
            try read("token\tnote\n\(row)\nc8\tx\n", .tsv)
        }
        #expect("\(try #require(fault))".hasPrefix(words), "\(fault as Any)")
    }

    @Test(
        "a file that is called CSV and has tabs is read where both forms have the same rows",
        arguments: [
            ("a\"b", "a\"b"), ("\"a\"", "a"), (#""a ""b"" c""#, "a \"b\" c"),
            (#"{"a":"x\\ny"}"#, #"{"a":"x\ny"}"#), (#"C:\dir"#, #"C:\dir"#),
        ])
    func both(_ field: String, _ note: String) throws {
        #expect(try read("token\tnote\nc9\t\(field)\n", .csv) == [["c9", note]])
    }

    @Test(
        "where the rows differ by the form, nobody knows them, and the first such field is named",
        arguments: ["\"\nc8\t\"\n", "\"a\nc8\tb\"\n", "\"a\"b\n", "\"", "\"a\tb\"\n", "\"\n"])
    func doubtful(_ rest: String) throws {
        let fault = #expect(throws: UnreadableFile.self) {
            try read("token\tnote\nc9\t\(rest)", .csv)
        }
        guard case .doubt(let words) = try #require(fault) else {
            Issue.record("\(fault as Any)")
            return
        }
        #expect(words.hasPrefix("line 2, column 4: this field begins with a quote"))
    }

    @Test("random rows come back as a program that prints like mysql --batch has them")
    func random() throws {
        var random = SeededGenerator("tabs")
        let pieces = [
            "\"", "\\", "\t", "\n", "\u{301}", "a", "N", "t", "\0", ",", ";", "c8\t", "\r",
        ]
        for _ in 0..<500 {
            let rows = (0..<Int.random(in: 1...6, using: &random)).map { number in
                let note = (0..<Int.random(in: 1...7, using: &random)).map { _ in
                    pieces.randomElement(using: &random) ?? ""
                }.joined()
                return ["c\(number)d", note + "."]
            }
            let text = rows.map { row in
                let note = row[1].unicodeScalars.map { scalar in
                    switch scalar {
                    case "\t": #"\t"#
                    case "\n": #"\n"#
                    case "\0": #"\0"#
                    case "\\": #"\\"#
                    default: String(scalar)
                    }
                }.joined()
                return "\(row[0])\t\(note)\n"
            }.joined()
            let found = try read("token\tnote\n" + text, .tsv)
            #expect(found == rows, "seed \(random.seed): \(text)")
            // The same file, called CSV, is refused or has the same tokens.
            let asCSV = try? read("token\tnote\n" + text, .csv)
            #expect(
                asCSV == nil || asCSV?.map { $0[0] } == rows.map { $0[0] },
                "seed \(random.seed): \(text)")
        }
    }
}
