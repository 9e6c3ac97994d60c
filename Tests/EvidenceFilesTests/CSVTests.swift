import APNsProtocol
import EvidenceFiles
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let layout = ReportLayout(format: .csv, map: unsafeMap("token=token,reason=note"))

private func unsafeMap(_ text: String) -> FieldMap {
    guard let map = try? FieldMap(text) else { preconditionFailure("a map of this test is wrong") }
    return map
}

/// The tokens and notes of a file, read in pieces.
private func read(
    _ bytes: [UInt8], _ layout: ReportLayout = layout, piece: () -> Int = { 65_536 }
) throws -> [[String]] {
    let judge = ReportReader(now: EpochMilliseconds(1_790_000_000_000), mayUseArrival: false)
    var reader = ReportLines(layout, judge)
    var rows: [[String]] = []
    let add = { (line: ReportLine) in
        guard let report = try line.report.get() else { return }
        rows.append([String(decoding: report.token, as: UTF8.self), report.reason ?? ""])
    }
    var start = 0
    while start < bytes.count {
        let end = min(start + piece(), bytes.count)
        try bytes[start..<end].withUnsafeBytes { try reader.take($0, content: { _, _ in }, add) }
        start = end
    }
    try reader.finish(content: { _, _ in }, add)
    return rows
}

/// RFC 4180 read off its grammar, over the whole file at once; nil for a file that breaks it.
private struct Oracle {
    private var rest: ArraySlice<UInt8>
    private let separator: UInt8

    static func rows(_ bytes: [UInt8], _ separator: UInt8) -> [[[UInt8]]]? {
        var oracle = Oracle(rest: bytes[...], separator: separator)
        var rows: [[[UInt8]]] = []
        while !oracle.rest.isEmpty {
            guard let row = oracle.row() else { return nil }
            if row != [[]] || oracle.endedQuoted { rows.append(row) }
            oracle.isFirst = rows.isEmpty
        }
        guard let width = rows.first?.count else { return rows }
        let isExtra = rows.dropFirst().allSatisfy { $0.count == width + 1 && $0[width].isEmpty }
        guard isExtra || rows.allSatisfy({ $0.count == width }) else { return nil }
        return rows
    }

    private var endedQuoted = false
    /// Whether the row is the first one, in which a CR alone is a mistake.
    private var isFirst = true

    private init(rest: ArraySlice<UInt8>, separator: UInt8) {
        (self.rest, self.separator) = (rest, separator)
    }

    private mutating func row() -> [[UInt8]]? {
        var fields: [[UInt8]] = []
        while true {
            guard let field = field() else { return nil }
            fields.append(field)
            if rest.first == separator {
                rest.removeFirst()
                continue
            }
            for end in [[13, 10], [10]] as [[UInt8]] where rest.starts(with: end) {
                rest.removeFirst(end.count)
                return fields
            }
            if rest.elementsEqual([13]) { rest.removeFirst() }
            return rest.isEmpty ? fields : nil
        }
    }

    private mutating func field() -> [UInt8]? {
        var value: [UInt8] = []
        endedQuoted = rest.first == UInt8(ascii: "\"")
        guard endedQuoted else {
            while let byte = rest.first, byte != separator, byte != 10 {
                if rest.elementsEqual([13]) || rest.starts(with: [13, 10]) { break }
                guard byte != UInt8(ascii: "\""), byte != 13 || !isFirst else { return nil }
                value.append(rest.removeFirst())
            }
            return value
        }
        rest.removeFirst()
        while let byte = rest.first {
            rest.removeFirst()
            guard byte == UInt8(ascii: "\"") else {
                value.append(byte)
                continue
            }
            guard rest.first == UInt8(ascii: "\"") else { return value }
            rest.removeFirst()
            value.append(byte)
        }
        return nil
    }
}

@Suite("A strict reader of CSV")
struct CSVTests {
    @Test(
        "a mistake ends the file and is named with its place",
        arguments: [
            (
                "token,note\nc9,\"say \\\"hi\\\"\nc8,x\"\n",
                "line 2, column 11: text after the quote"
            ),
            ("token,note\nc9,\"x\"y\n", "line 2, column 7: text after the quote"),
            ("token,note\nc9,5\" x\n", "line 2, column 5: a quote inside of a field"),
            ("token,note\nc9,\"x\nc8,y\nc7,z\n", "line 2, column 4: this quote is not closed"),
            ("token,note\nc9,ä,x\n", "line 2, column 1: this row has 3 fields, and 2 are expected"),
            ("token,note\nc9\n", "line 2, column 1: this row has 1 fields, and 2 are expected"),
            ("token,note\nc9,\"ä\n\"\"b\"\r\rc8,x\n", "line 3, column 6: a line break inside"),
            ("token;note,x\nc9;y,z\n", "line 1, column 1: which of , ; tab |"),
            ("token,note\n\"c9\" ,x\n", "line 2, column 5: text after the quote"),
            ("token,note\rc9,x\rc8,y\r", "line 1, column 12: a line break inside"),
            ("token,note\r\r\nc9,x\r\r\n", "line 1, column 12: a line break inside"),
        ])
    func mistakes(_ text: String, _ place: String) throws {
        for piece in [1, 7, 65_536] {
            let fault = #expect(throws: UnreadableFile.self) {
                try read(Array(text.utf8), piece: { piece })
            }
            #expect("\(try #require(fault))".hasPrefix(place), "\(fault as Any)")
        }
    }

    @Test("a row of more than 1 MiB ends the file, wherever its line breaks are")
    func longRows() throws {
        for line in ["A", "A\n"] {
            let text =
                "token,note\nc9,\"" + String(repeating: line, count: 1_100_000) + "\nc8,x\n\"\n"
            let fault = #expect(throws: UnreadableFile.self) { try read(Array(text.utf8)) }
            #expect(
                fault?.description.hasPrefix("line 2, ") == true
                    && fault?.description.contains("longer than 1 MiB") == true)
        }
    }

    @Test(
        "the separator is that of the line of names, outside of its quotes",
        arguments: [
            ("token;\"a,b,c\";note\nc9;,,;x\n", "x"), ("token\tnote\nc9\ta;b,c|d\n", "a;b,c|d"),
            ("token|note\nc9|;\n", ";"), ("note,token\n\"a,\n\"\"b\",c9\n", "a,\n\"b"),
            ("token,note\r\n\r\nc9,a\\\r\n", "a\\"), ("token,note\nc9,\"a\\\"\n", "a\\"),
            ("token,note\nc9,\"a\rb\"", "a\rb"), ("token,note\nc9,a\rb", "a\rb"),
            ("\u{FEFF}token,note\nc9,x\r", "x"),
        ])
    func separators(_ text: String, _ note: String) throws {
        for piece in [1, 5, 65_536] {
            #expect(try read(Array(text.utf8), piece: { piece }) == [["c9", note]])
        }
    }

    @Test("without a line of names only one separator may occur in the first row")
    func numbered() throws {
        let layout = ReportLayout(format: .csv, map: unsafeMap("token=2,reason=1"))
        #expect(try read(Array("x;c9\n\"a,b\";c8\n".utf8), layout).map { $0[0] } == ["c9", "c8"])
        // The first row's text is a stranger's, and with the comma it names another token.
        #expect(throws: UnreadableFile.self) { try read(Array("x;c9;hi,c8,,,\n".utf8), layout) }
    }

    @Test("random files are read as the grammar says, or refused as a whole")
    func oracle() throws {
        var random = SeededGenerator("random CSV")
        var (whole, refused) = (0, 0)
        for _ in 0..<(Int(Environment.number("PUSHSWEEP_TEST_CSV") ?? 4_000)) {
            // Files with tabs are tried beside those of mysql: see TabSeparatedTests.
            let separator = [UInt8](",;|".utf8).randomElement(using: &random) ?? 44
            var bytes = Self.file(separator, &random)
            // Half of the files have mistakes, which strangers may have made.
            if Bool.random(using: &random) {
                for _ in 0...Int.random(in: 0...2, using: &random) {
                    let place = Int.random(in: 12..<bytes.count, using: &random)
                    let piece = Self.pieces(separator).randomElement(using: &random) ?? []
                    let length = Bool.random(using: &random) ? 0 : 1
                    bytes.replaceSubrange(place..<min(place + length, bytes.count), with: piece)
                }
            }
            let found = try? read(bytes) { Int.random(in: 1...40, using: &random) }
            let expected = Oracle.rows(bytes, separator)?.dropFirst().map { row in
                [row[0], row[1]].map { String(decoding: $0, as: UTF8.self) }
            }
            #expect(
                found == expected, "seed \(random.seed): \(String(decoding: bytes, as: UTF8.self))")
            if found == nil { refused += 1 } else { whole += 1 }
        }
        #expect(whole > refused / 10 && refused > whole / 10, "\(whole) whole, \(refused) refused")
    }

    private static func pieces(_ separator: UInt8) -> [[UInt8]] {
        let victim = Array("\nc8".utf8) + [separator] + Array("x\n".utf8)
        return ["\"", "\"\"", "\n", "\r\n", "\r", "\\", ",", ";", "|", "\t", "a", "ä", " "]
            .map { Array($0.utf8) } + [[separator], victim, Array("\\\"".utf8)]
    }

    /// A file of the columns token and note, with any text in the notes.
    private static func file(_ separator: UInt8, _ random: inout SeededGenerator) -> [UInt8] {
        let end = Array((Bool.random(using: &random) ? "\n" : "\r\n").utf8)
        var bytes = Array("token".utf8) + [separator] + Array("note".utf8) + end
        for number in 0..<Int.random(in: 1...6, using: &random) {
            var note: [UInt8] = []
            for _ in 0..<Int.random(in: 0...8, using: &random) {
                note += pieces(separator).randomElement(using: &random) ?? []
            }
            bytes += Array("c9d\(number)".utf8) + [separator, UInt8(ascii: "\"")]
            for byte in note { bytes += byte == UInt8(ascii: "\"") ? [byte, byte] : [byte] }
            bytes += [UInt8(ascii: "\"")] + end
        }
        return bytes
    }
}
