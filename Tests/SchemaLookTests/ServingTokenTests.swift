import Findings
import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

@Suite("Generated columns for tokens")
struct ServingTokenTests {
    /// How an application writes a token of hex digits.
    struct Spelling: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var type = "VARCHAR(400)"
        let write: @Sendable (String) -> String
        var engines = TestEngine.available

        private static func base64(_ hex: String) -> String {
            let bytes = stride(from: 0, to: hex.count, by: 2).map { place in
                UInt8(hex.dropFirst(place).prefix(2), radix: 16) ?? 0
            }
            return Data(bytes).base64EncodedString()
        }

        static let all = [
            Spelling(testDescription: "base64", write: base64, engines: [.mariaDB]),
            Spelling(
                testDescription: "base64 without padding",
                write: { base64($0).replacing("=", with: "") }, engines: [.mariaDB]),
            Spelling(
                testDescription: "base64 of URLs in bytes", type: "VARBINARY(400)",
                write: {
                    base64($0).replacing("+", with: "-").replacing("/", with: "_").replacing(
                        "=", with: "")
                }, engines: [.mariaDB]),
            Spelling(testDescription: "a prefix", write: { "apns:\($0)" }),
            Spelling(testDescription: "an address", write: { "https://push.example.com/\($0)" }),
            Spelling(
                testDescription: "JSON with odd keys",
                write: { "{\"a b.c\": {\"it's\": \"\($0)\"}}" }),
            Spelling(
                testDescription: "JSON in bytes", type: "VARBINARY(400)",
                write: { "{\"push token\": \"\($0)\"}" }, engines: [.mariaDB]),
        ]

        static let cases = all.flatMap { one in
            one.engines.filter(TestEngine.available.contains).map { (one, $0) }
        }
    }

    /// A key of a document as programs write it, and the engines whose own expression finds it.
    private static let keys: [(spelled: String, found: Set<TestEngine>)] = [
        (#"ger\u00e4t"#, []), (#"apns\/token"#, []), (#"a\"b"#, [.mariaDB]),
        (#"a\tb"#, []), ("-x", [.sqlite]), ("gerät", [.mariaDB, .sqlite]),
        ("it's", [.mariaDB, .sqlite]),
    ]

    @Test(
        "an expression that does not find what the look found is not printed, and the question says why",
        arguments: TestEngine.available, ServingTokenTests.keys.indices)
    func unfound(_ engine: TestEngine, _ place: Int) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, data TEXT)"
                + (engine == .mariaDB ? " CHARACTER SET utf8mb4" : ""))
        for number in 0..<120 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?)",
                [
                    .integer(Int64(number)),
                    .text(
                        "{\"\(Self.keys[place].spelled)\": {\"token\": \"\(Device.hex(number))\"}}"),
                ])
        }
        let proposal = try #require(try database.firstLook().1)
        let question = proposal.questions.first { $0.part == .token }
        guard proposal.statements.isEmpty else {
            #expect(question == nil)
            for statement in proposal.statements[0].components(separatedBy: "; ") {
                try database.execute(statement)
            }
            let all = try database.texts(
                "SELECT \(proposal.mapping.token) FROM devices ORDER BY id")
            #expect(all == (0..<120).map { [Device.hex($0)] })
            return
        }
        #expect(!Self.keys[place].found.contains(engine))
        #expect(proposal.mapping.token == "data")
        #expect(
            question?.reason.contains("gives something else in 120 of 120 rows tried") == true
                || question?.reason.contains("the database refuses the expression") == true,
            "\(proposal.lines)")
        // `check` tries it, too.
        database.settings.mapping = proposal.mapping
        let refused = try database.store().examineWithLook(.read).findings.filter {
            $0.failure != nil
        }
        #expect(!refused.contains { $0.sentence.contains("ALTER TABLE") }, "\(refused)")
    }

    /// A form with a token in place of T, and what the application writes beside it.
    private static let forms: [(type: String, form: String, odd: String)] = [
        ("VARCHAR(200)", "apns:T", "web:登録📱"), ("VARCHAR(200)", "<T>", "<登録>"),
        ("VARCHAR(200)", "https://push.example.com/T", "https://push.example.com/登録"),
        ("JSON", #"{"push": {"token": "T"}}"#, #"{"push": {"token": "未登録"}}"#),
    ]

    @Test(
        "a statement for tokens refuses no text of the application, whatever the table's characters are",
        .needsServer, arguments: ServingTokenTests.forms.indices)
    func otherCharacters(_ place: Int) throws {
        let shape = Self.forms[place]
        let database = try TokenDatabase(.mariaDB)
        let column = shape.type == "JSON" ? "JSON" : "\(shape.type) CHARACTER SET utf8mb4"
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, token \(column)) CHARACTER SET latin1")
        for number in 0..<60 {
            try database.execute(
                "INSERT INTO devices VALUES (\(number), ?)",
                [.text(shape.form.replacing("T", with: Device.hex(number)))])
        }
        let proposal = try #require(try database.firstLook().1)
        let served = proposal.statements + proposal.questions.compactMap(\.statement)
        #expect(served.count == 1)
        for statement in served { try database.execute(statement) }
        try database.execute("INSERT INTO devices (id, token) VALUES (99, ?)", [.text(shape.odd)])
        #expect(try database.rows(of: "devices") == 61)
    }

    @Test(
        "a list of one document is a question, and check refuses it",
        arguments: TestEngine.available)
    func listOfOne(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute("CREATE TABLE devices (id INTEGER PRIMARY KEY, data TEXT)")
        for number in 0..<40 {
            try database.execute(
                "INSERT INTO devices VALUES (\(number), '[{\"token\": \"\(Device.hex(number))\"}]')"
            )
        }
        let proposal = try #require(try database.firstLook().1)
        let question = try #require(proposal.questions.first { $0.part == .token })
        #expect(question.reason.contains("several tokens in one text, which no search finds"))
        database.settings.mapping = proposal.mapping
        #expect(try database.store().examineWithLook(.read).firstFailure?.code == .configuration)
    }

    @Test(
        "a generated column without any token is refused by check, and a column without one is warned of",
        arguments: TestEngine.available, [true, false])
    func withoutTokens(_ engine: TestEngine, _ isIndexed: Bool) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, data VARCHAR(200), plain VARCHAR(200), made "
                + "VARCHAR(200) AS (NULLIF(SUBSTR(data, 1, 1), 'x')) VIRTUAL)")
        if isIndexed {
            try database.execute("CREATE INDEX by_made ON devices (made)")
            try database.execute("CREATE INDEX by_plain ON devices (plain)")
        }
        for number in 0..<40 {
            try database.execute("INSERT INTO devices (id, data) VALUES (\(number), 'x\(number)')")
        }
        func finding(_ column: String) throws -> Finding? {
            try database.store {
                ($0.table, $0.token, $0.encoding) = ("devices", column, .hex)
            }.examineWithLook(.read).findings.first {
                $0.sentence.contains("no tokens among 40 rows")
            }
        }
        #expect(try finding("made")?.failure?.code == .configuration)
        #expect(try finding("plain")?.severity == .medium)
        #expect(try finding("plain")?.failure == nil)
        // One token is enough: the others may belong to people without a device.
        try database.execute("INSERT INTO devices (id, data) VALUES (50, 'y')")
        #expect(try finding("made") == nil)
    }

    private static let odd: [SQLValue] = [
        .null, .text(""), .text("0"), .text("x"), .text("{"), .text("{\"a b\": 1}"),
        .text("\u{1F4F1}"),
        .text(String(repeating: "a", count: 300)), .text("a\0b"), .text("-5"), .text("="),
        .text("===="),
        .text("cXyz-1:APA91bHPRgkF3Jq"), .text("dQw_4:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqxfH"),
        .text(String(repeating: "A", count: 41)), .text(String(repeating: "A", count: 44) + "\n"),
        .text(String(repeating: "A", count: 43) + "==="), .text("\u{301}"), .text("'; --"),
    ]

    @Test(
        "a column that init adds has the tokens as hex, and the application may write whatever it likes",
        arguments: Spelling.cases)
    func agree(_ spelling: Spelling, _ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(spelling.type))"
                + (engine == .mariaDB ? " CHARACTER SET utf8mb4" : ""))
        for number in 0..<120 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?)",
                [.integer(Int64(number)), .text(spelling.write(Device.hex(number)))])
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.statements.count == 1)
        for statement in proposal.statements.flatMap({ $0.components(separatedBy: "; CREATE") }) {
            try database.execute(statement.hasPrefix(" INDEX") ? "CREATE\(statement)" : statement)
        }
        let made = proposal.mapping.token
        let all = try database.texts("SELECT \(made) FROM devices ORDER BY id")
        #expect(all == (0..<120).map { [Device.hex($0)] })
        for value in Self.odd {
            try database.execute("UPDATE devices SET device_token = ? WHERE id = 7", [value])
            let hex = try database.texts("SELECT COALESCE(\(made), '') FROM devices WHERE id = 7")[
                0][0]
            #expect(hex.utf8.count != 64, "\(value) is \(hex)")
        }
        // A token that was written as plain hex is found too.
        guard !spelling.testDescription.contains("JSON") else { return }
        try database.execute(
            "UPDATE devices SET device_token = ? WHERE id = 7",
            [.text(Device.hex(500).uppercased())])
        #expect(
            try database.texts("SELECT \(made) FROM devices WHERE id = 7") == [[Device.hex(500)]])
    }
}
