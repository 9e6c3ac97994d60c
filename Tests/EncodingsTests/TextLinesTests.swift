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

    @Test(
        "lines are taken off the front, as few as have so many bytes",
        arguments: [
            (0, "aa\n", "b\n\ncc"), (1, "aa\n", "b\n\ncc"), (2, "aa\n", "b\n\ncc"),
            (3, "aa\nb\n", "\ncc"), (5, "aa\nb\n\n", "cc"), (6, "aa\nb\n\ncc", ""),
            (8, "aa\nb\n\ncc", ""), (99, "aa\nb\n\ncc", ""),
        ])
    func fronts(bytes: Int, front: String, rest: String) {
        Array("aa\nb\n\ncc".utf8).withUnsafeBytes { text in
            var left = text
            let taken = left.removeLines(atLeast: bytes)
            #expect(taken.elementsEqual(front.utf8) && left.elementsEqual(rest.utf8))
        }
    }

    @Test("a line has its place with the line break, and its text without white space at the ends")
    func places() {
        Array(" a b\t\r\n\n\u{B}\u{C}c".utf8).withUnsafeBytes { text in
            var lines: [TextLine] = []
            text.eachLine { lines.append($0) }
            #expect(lines.map(\.whole) == [0..<7, 7..<8, 8..<11])
            #expect(lines.map(\.text) == [1..<4, 7..<7, 10..<11])
        }
        UnsafeRawBufferPointer(start: nil, count: 0).eachLine { _ in
            Issue.record("no line is there")
        }
    }

    @Test("a number at the beginning of a text ends where its digits end")
    func beginnings() {
        for (text, number, end) in [
            ("12a", 12, 2), ("-3 ", -3, 2), ("+4", 4, 2), ("a", nil, 0), ("-a", nil, 1),
            ("", nil, 0),
            ("0009", 9, 4), ("99999999999999999999x", nil, 20),
        ] as [(String, Int64?, Int)] {
            let found = Array(text.utf8).withUnsafeBytes { WholeNumber.leading($0) }
            #expect(found.number == number && found.end == end, "\(text)")
        }
    }

    @Test("bytes in place and bytes apart are the same text, copied, counted and compared")
    func textBytes() {
        let bytes = Array("aé".utf8)
        bytes.withUnsafeBytes { place in
            for text in [TextBytes.inPlace(place), .apart(bytes)] {
                #expect(text.array == bytes && text.string == "aé" && text.count == 3)
                #expect(text.withBytes { Array($0) } == bytes)
                #expect(
                    text == bytes[...] && !(text == bytes[..<2]) && !(text == [97, 98, 99][...]))
            }
        }
        #expect(TextBytes.apart([]) == [][...] && !(TextBytes.apart([]) == [1][...]))
        #expect(TextBytes.apart([0xFF]).string == "\u{FFFD}")
    }

    @Test("a text of fewer than four bytes is whole when it ends, with or without a mark")
    func wholeTexts() throws {
        for (bytes, text) in [
            ([], []), ([97], [97]), ([0xEF, 0xBB, 0xBF], []), ([0xEF, 0xBB], [0xEF, 0xBB]),
            ([0xEF, 0xBB, 0xBF, 97, 98], [97, 98]), ([0], [0]), ([0, 0, 0], [0, 0, 0]),
        ] as [([UInt8], [UInt8])] {
            #expect(try TextStart.whole(bytes) == text)
        }
        for bytes in [[0xFF, 0xFE], [0xFE, 0xFF]] as [[UInt8]] {
            let refusal = #expect(throws: Refusal.self) { try TextStart.whole(bytes) }
            #expect("\(try #require(refusal))".hasPrefix("it is UTF-16, and UTF-8 is read"))
        }
    }
}
