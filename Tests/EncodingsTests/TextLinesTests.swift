import Encodings
import Testing

@Suite("Text that is handed in")
struct TextLinesTests {
    /// The lines of a text in pieces, each with a `+` before one that was cut.
    private func lines(_ text: [UInt8], piece: Int) throws -> [String] {
        var splitter = LineSplitter()
        var lines: [String] = []
        let add = { (block: UnsafeRawBufferPointer, isCut: Bool) in
            block.eachLine {
                lines.append((isCut ? "+" : "") + String(decoding: block[$0.text], as: UTF8.self))
            }
        }
        for start in stride(from: 0, to: text.count, by: piece) {
            try text[start..<min(start + piece, text.count)].withUnsafeBytes {
                try splitter.take($0, add)
            }
        }
        try splitter.finish(add)
        return lines
    }

    @Test("lines are the same in pieces of any size, with any line break, with or without a mark")
    func anyPieces() throws {
        for (text, expected) in [
            ("\u{FEFF}c9\r\nc8\n", ["c9", "c8"]), ("\u{FEFF}", []), ("", []), ("c", ["c"]),
            ("a\n\n  b\t\r\n\nc", ["a", "", "b", "", "c"]), ("\n", [""]),
        ] {
            for piece in 1...6 { #expect(try lines(Array(text.utf8), piece: piece) == expected) }
        }
    }

    @Test(
        "a line of more than 1 MiB is cut, and those around it are whole",
        arguments: [1_000, 1 << 20])
    func longLines(_ piece: Int) throws {
        let long = String(repeating: "x", count: LineSplitter.longest + 1)
        let text = Array("a\n\(long)\nb\n\(long.dropLast())\nc\n\(long)".utf8)
        let found = try lines(text, piece: piece)
        #expect(
            found.map { min($0.utf8.count, LineSplitter.longest + 1) } == [
                1, LineSplitter.longest + 1, 1, LineSplitter.longest, 1, LineSplitter.longest + 1,
            ])
        #expect(found[1].first == "+" && found[5].first == "+" && found[3].first == "x")
    }

    @Test("UTF-16 and UTF-32 are refused by their names, with and without their marks")
    func utf16() throws {
        for text in [
            [0xFF, 0xFE, 0x61, 0], [0xFE, 0xFF, 0, 0x61], [0x61, 0, 0x62, 0], [0, 0x61, 0, 0x62],
        ]
            as [[UInt8]]
        {
            for piece in 1...4 {
                #expect(throws: Refusal.self) { try lines(text, piece: piece) }
            }
        }
        for text in [
            [0xFF, 0xFE, 0, 0], [0, 0, 0xFE, 0xFF], [0x61, 0, 0, 0], [0, 0, 0, 0x61],
        ] as [[UInt8]] {
            let refusal = #expect(throws: Refusal.self) { try lines(text, piece: 4) }
            #expect("\(try #require(refusal))".contains("iconv -f UTF-32"))
        }
        #expect(try lines([0, 0, 0, 0, 10, 0x61], piece: 2).last == "a")
    }

    @Test(
        "whole numbers may have a fraction of zeros and nothing else",
        arguments: [
            ("410", 410), ("410.0", 410), ("-1.00", -1), ("+7", 7), ("410.", nil), ("410.5", nil),
            ("1e3", nil), ("", nil), (".0", nil), ("4.0.0", nil), ("９", nil),
            ("9223372036854775807.0", .max), ("9223372036854775808", nil),
            ("-9223372036854775808", .min), ("-9223372036854775809", nil), ("-", nil), ("+", nil),
        ] as [(String, Int64?)])
    func wholeNumbers(_ text: String, _ number: Int64?) {
        #expect(Array(text.utf8).withUnsafeBytes { WholeNumber.read($0) } == number)
    }
}
