import Encodings
import Testing

@testable import Database
@testable import TokenTable

@Suite("The spelling of one value")
struct SpellingFormTests {
    private static let hex = String(repeating: "0123456789abcdef", count: 4)
    private static let base64 = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

    /// The first half of the digits, a text and the second half.
    private static func halves(_ between: String) -> String {
        "\(hex.prefix(32))\(between)\(hex.suffix(32))"
    }

    @Test(
        "a value of the sample is counted under its spelling",
        arguments: [
            (.text(ExactText(hex)), .lowerHex), (.text(ExactText(hex.uppercased())), .upperHex),
            (.text(ExactText(halves("A").replacing("0", with: "B") + "a")), .mixedHex),
            (.text(ExactText("<\(halves(" "))>")), .grouped), (.null, .blank), (.text(""), .blank),
            (.text("  "), .blank), (.text("0"), .placeholder), (.bytes([]), .blank),
            (.bytes([1, 2]), .bytes), (.bytes(Array(hex.utf8)), .lowerHex),
            (.bytes(Array(hex.utf8.prefix(32))), .lowerHex),
            (.bytes(Array(hex.utf8.prefix(31))), .bytes),
            (.bytes(Array(base64.utf8)), .base64Like), (.text(ExactText(base64)), .base64Like),
            (.text(#"{"t":"x"}"#), .json), (.text(#"["t"]"#), .json), (.text("(t)"), .other),
            (.text("https://example.org/x"), .url), (.text("abc"), .oddLength),
            (
                .text("{length=32, bytes=0x01234567 89abcdef ... 01234567 89abcdef}"),
                .truncatedDescription
            ),
            (.text(ExactText(halves("") + "," + hex)), .several), (.text("hello"), .other),
            (.integer(7), .other), (.real(1), .other),
            (.bytes(Array(repeating: 1, count: 4_096)), .bytes),
            (.bytes(Array(repeating: 1, count: 4_097)), .other),
            (.text(ExactText(String(repeating: "a", count: 4_098))), .other),
        ] as [(SQLValue, TokenSample.Spelling)])
    func spellings(value: SQLValue, spelling: TokenSample.Spelling) {
        let sample = TokenSample([value, value])
        #expect(sample.counts == [spelling: 2])
        #expect(sample.total == 2 && sample.count(spelling) == 2 && sample.count() == 0)
    }

    @Test(
        "a value is blank where nothing, spaces or a zero stand in it",
        arguments: [
            (.null, true), (.bytes([]), true), (.bytes([0]), false), (.text(""), true),
            (.text(" "), true),
            (.text("0"), true), (.text("<>"), true), (.text("a"), false), (.text("10"), false),
            (.integer(0), false), (.real(0), false),
        ] as [(SQLValue, Bool)])
    func blanks(value: SQLValue, isBlank: Bool) {
        #expect(TokenSample.isBlank(value) == isBlank)
    }

    @Test(
        "a text that a search does not find is hex in groups, hex after a word, Base64 or several tokens",
        arguments: [
            (hex, nil), ("hello", nil), (halves(" "), .grouped([0x20])),
            ("<\(halves(" "))>", .grouped(Set(" <>".utf8))), (halves("-"), .grouped([0x2D])),
            (halves(":"), nil), (halves("#"), nil), (hex.dropLast() + " ", nil),
            ("apns:\(hex)", .prefixed("apns:")), ("x\(hex)", .prefixed("x")),
            (
                "\(String(repeating: "x", count: 32))\(hex)",
                .prefixed(String(repeating: "x", count: 32))
            ),
            ("\(String(repeating: "x", count: 33))\(hex)", nil), ("x\(hex)ab", nil),
            ("x:\(hex)ab", .prefixed("x:")), ("x:\(hex)a", nil), ("x\u{1}\(hex)", nil),
            (base64, .base64), (base64 + "=", .base64), (base64 + "==", nil),
            ("\(hex),\(hex)", .several),
            ("\(halves(" ")),\(halves(" "))", .several), ("\(base64) \(base64)", .several),
            ("note, \(hex)", .prefixed("note, ")), ("\(hex), note", .several),
            ("https://example.org/\(hex),\(hex)", nil),
        ] as [(String, UnfindableSpelling?)])
    func unfindable(text: String, spelling: UnfindableSpelling?) {
        #expect(UnfindableSpelling(ofText: Array(text.utf8)) == spelling)
    }

    @Test(
        "a text is that of an address where :// stands in it",
        arguments: [
            ("://", true), ("a://b", true), (":/", false), ("", false), (":/ /", false),
            ("a:b//", false),
            ("ab://", true),
        ])
    func addresses(text: String, isAddress: Bool) {
        #expect(Array(text.utf8).isOfAddress == isAddress)
    }

    @Test(
        "steps through a key are as many as asked, within its ends, and none where there is no way")
    func steps() {
        func steps(_ first: SQLValue, _ last: SQLValue, _ count: Int) -> [SQLValue] {
            RowSampling.steps(first, last, count)
        }
        #expect(steps(.integer(0), .integer(100), 4) == [0, 25, 50, 75].map { .integer($0) })
        #expect(steps(.integer(5), .integer(6), 4) == [.integer(5), .integer(6)])
        #expect(steps(.integer(5), .integer(5), 4) == [.integer(5)])
        #expect(
            steps(.integer(6), .integer(5), 4).isEmpty && steps(.integer(5), .integer(6), 0).isEmpty
        )
        #expect(steps(.integer(.min), .integer(.max), 2).count == 2)
        #expect(steps(.bytes([1, 0]), .bytes([1, 4]), 2).map(Self.head) == [[1, 0], [1, 2]])
        #expect(steps(.bytes([1]), .bytes([1]), 2).isEmpty && steps(.null, .integer(1), 2).isEmpty)
        #expect(
            steps(.text("aa"), .text("ac"), 2).map { $0.text?.prefix(2) } == ["aa", "ab"])
    }

    private static func head(_ value: SQLValue) -> [UInt8] {
        if case .bytes(let bytes) = value { Array(bytes.prefix(2)) } else { [] }
    }
}
