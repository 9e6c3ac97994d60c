import APNsProtocol
import Encodings
import TestSupport
import Testing

@Suite("A device token")
struct DeviceTokenTests {
    private let canonical = FeedbackVector.tutorialHex
    private let grouped =
        "c9d4c07c fbbc26d6 ef87a44d 53e16983 1096a5d5 fd825475 56659ddd f715defc"

    @Test("a token is read from every recoverable spelling")
    func spellings() throws {
        for text in [
            canonical, canonical.uppercased(), grouped, "<\(grouped)>", " \(canonical)  ",
        ] {
            #expect(try DeviceToken(spelling: text).hex == canonical)
        }
    }

    @Test(
        "a spelling that has lost bytes or holds no token is refused",
        arguments: [
            ("", Refusal.blank), ("    ", .blank), ("<>", .blank), ("0", .placeholder),
            (" 0 ", .placeholder),
            (
                "{length = 32, bytes = 0xc9d4c07c fbbc26d6 ef87a44d 53e16983 ... 56659ddd f715defc }",
                .truncatedDescription
            ),
            (
                "{length=32,bytes=0xc9d4c07cfbbc26d6ef87a44d53e16983...56659dddf715defc}",
                .truncatedDescription
            ),
            ("%7Blength=32,bytes=0xc9d4...%7D", .truncatedDescription),
            ("ydTAfPu8Jtbvh6RNU+FpgxCWpdX9glR1VmWd3fcV3vw=", .notHex), ("abc", .oddLength),
            ("<abcd", .notHex), ("abcd>", .notHex), ("0xabcd", .notHex), ("ab-cd", .notHex),
            ("ab\tcd", .notHex), ("ab\ncd", .notHex), ("<", .notHex), ("äb", .notHex),
        ])
    func refusals(text: String, refusal: Refusal) {
        #expect(throws: refusal) { try DeviceToken(spelling: text) }
    }

    @Test("a token of any length keeps its bytes, its hex and its order")
    func lengthsAndOrder() throws {
        var random = SeededGenerator("token order")
        let raw = (0..<400).map { _ in
            random.bytes(Int.random(in: 1...70, using: &random)).map { $0 & 1 }
        }
        let tokens = try raw.map { try #require(DeviceToken($0)) }
        for (token, bytes) in zip(tokens, raw) {
            #expect(token.bytes == bytes)
            #expect(token.count == bytes.count)
            #expect(try DeviceToken(spelling: token.hex) == token)
        }
        #expect(
            tokens.sorted().map(\.bytes) == raw.sorted { $0.lexicographicallyPrecedes($1) })
        #expect(Set(tokens).count == Set(raw).count)
        #expect(DeviceToken([]) == nil)
    }

    @Test("a token prints a prefix unless the caller asks for the whole")
    func redaction() throws {
        let token = try DeviceToken(spelling: canonical)
        #expect("\(token)" == "c9d4c07c…")
        #expect(try DeviceToken(spelling: "abcd").description == "ab…")
    }
}
