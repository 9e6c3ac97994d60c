import APNsProtocol
import Findings
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

// Devices of one person in one field. No statement can know which token is of which device, and two tokens in
// one are the token of no device.

@Suite("Several tokens in one field")
struct SeveralTokensTests {
    private static let (one, two) = (Device.hex(1), Device.hex(2))

    private static func grouped(_ hex: String) -> String {
        let digits = Array(hex)
        return stride(from: 0, to: 64, by: 8).map { String(digits[$0..<($0 + 8)]) }.joined(
            separator: " ")
    }

    private static let signs = [
        " ", ",", ", ", "|", ";", "; ", "\n", "\t", "\r\n", "  ", "/", ":",
    ]
    private static let padded = "dTAfPu8Jtbvh6RNU+FpgxCWpdX9glR1VmWd3fcV3vw="
    private static let other = "dGx:APA91b" + String(repeating: "aZ-_9", count: 20)

    private static let shapes: [String] = [
        "[\"\(one)\",\"\(two)\"]", "[\"\(one)\"]", "{\(one),\(two)}", "(\(one)) (\(two))",
        "<\(grouped(one))>,<\(grouped(two))>", "<\(grouped(one))> <\(grouped(two))>",
        "a:2:{i:0;s:64:\"\(one)\";i:1;s:64:\"\(two)\";}", "ios:\(one);ios:\(two)",
        "\(one),ipad", "\(one);\(other)", "{\"ipad\": \"\(one)\", \"iphone\": \"\(two)\"}",
        "{\"t\": [\"\(one)\", \"\(two)\"]}", "y\(padded),z\(padded)",
    ]

    /// How programs keep several tokens in a text.
    static let lists: [String] = signs.map { one + $0 + two } + shapes

    private static let column = CatalogColumn(
        name: "t", type: "text", length: nil, collation: nil, fraction: 0, isNullable: true,
        isPrimary: false, isGenerated: false, movesItself: false)

    @Test("are called so, whatever stands between them", arguments: SeveralTokensTests.lists)
    func names(_ text: String) {
        #expect(TokenForm(.text(text), of: Self.column) == .spelled(.several))
        #expect(throws: (any Error).self) { try DeviceToken(spelling: text) }
    }

    /// Lines of a key in Base64.
    private static let key = Array(repeating: String(repeating: "Ab9+", count: 16), count: 6)
        .joined(separator: "\n")

    /// Texts with 64 digits that are no list, with their spelling.
    static let single: [(text: String, spelling: UnfindableSpelling?)] = [
        (grouped(one), .grouped([])), ("<\(grouped(one))>", .grouped([])),
        (" \(one)\n", .grouped([])), ("apns:\(one)", .prefixed("apns:")), ("y\(padded)", .base64),
        // Two UUIDs have 64 digits.
        ("9b2c61d4-5a3e-4a11-8f0e-0c8e7b1d2f30,1c2c61d4-5a3e-4a11-8f0e-0c8e7b1d2f31", nil),
        ("9b2c61d45a3e4a118f0e0c8e7b1d2f30|1c2c61d45a3e4a118f0e0c8e7b1d2f31", nil), (key, nil),
    ]

    @Test(
        "other texts with 64 digits are none of them", arguments: SeveralTokensTests.single.indices)
    func others(_ place: Int) {
        let (text, spelling) = Self.single[place]
        #expect(UnfindableSpelling(ofText: Array(text.utf8))?.kind == spelling)
    }

    private static func database(_ engine: TestEngine, _ separator: String) throws -> TokenDatabase
    {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255))")
        for device in Device.some(mixed: false) {
            let text =
                device.number % 3 == 0
                ? device.token + separator + Device.hex(-device.number - 1) : device.token
            try database.execute(
                "INSERT INTO devices VALUES (?, ?)", [.integer(Int64(device.number)), .text(text)])
        }
        database.settings.mapping.table = "devices"
        return database
    }

    @Test(
        "are named by the first look and refused by check, without a statement",
        arguments: TestEngine.inTurn([" ", ",", "|", "; ", "\n"]))
    func refused(_ engine: TestEngine, _ separator: String) throws {
        let database = try Self.database(engine, separator)
        let proposal = try #require(try database.firstLook().1)
        let question = try #require(proposal.questions.first { $0.part == .token })
        #expect(question.reason.contains("40 of 120 values have several tokens in one text"))
        #expect(question.reason.contains("one row per device"))
        #expect(!proposal.lines.contains { $0.reason.contains("other platforms") })
        let refused = #expect(throws: StoreFailure.self) { try database.store().require(.read) }
        let sentence = refused?.sentence ?? ""
        #expect(sentence.contains("40 of 120 rows read have several tokens in one text"))
        #expect(sentence.contains("one row per device") && !sentence.contains("UPDATE"))
    }
}
