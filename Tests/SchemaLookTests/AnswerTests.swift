import Encodings
import Findings
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

// A person answers a question of the first look on the command line of the second.

@Suite("Answers to the first look")
struct AnswerTests {
    /// Devices with two times, a platform and a flag; another table has tokens too.
    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        for table in ["phones", "handsets"] {
            try database.execute(
                "CREATE TABLE \(table) (id INTEGER PRIMARY KEY, device_token VARCHAR(255), kind VARCHAR(10), "
                    + "push_ok SMALLINT, gone DATETIME, ping DATETIME, bind DATETIME, note VARCHAR(20))"
            )
            try database.sql.begin()
            for device in Device.some(mixed: true) {
                try database.execute(
                    "INSERT INTO \(table) VALUES (\(device.number), '\(device.token)', "
                        + "'\(device.isApple ? "ios" : "android")', \(device.isGone ? 0 : 1), "
                        + "\(device.isGone ? "'\(device.time)'" : "NULL"), "
                        + "'\(Device.time(device.registered - 7_200))', '\(device.time)', 'x')")
            }
            try database.sql.commit()
        }
        return database
    }

    private static func answers(
        _ token: String = "phones.device_token", _ change: (inout LookAnswers) throws -> Void
    ) throws -> LookAnswers {
        var answers = LookAnswers()
        try answers.setToken(token)
        try change(&answers)
        return answers
    }

    @Test(
        "each part that is answered is taken as answered, and its question is not asked",
        arguments: TestEngine.available)
    func taken(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let answers = try Self.answers {
            try $0.setMark("push_ok=1/0")
            try $0.setRegistration("bind")
            try $0.setPlatform("kind=ios")
        }
        let proposal = try #require(try database.firstLook(answers: answers).1)
        for (part, value) in [
            (.token, "device_token"), (.platform, "{column: kind, value: ios}"),
            (.registeredAt, "bind"), (.living, "{column: push_ok, living: 1, dead: 0}"),
        ] as [(MappingProposal.Line.Part, String)] {
            #expect(proposal.line(part)?.value == value)
            #expect(proposal.line(part)?.reason.contains("as answered") == true)
            #expect(!proposal.questions.contains { $0.part == part })
        }
        #expect(proposal.mapping.living.dead == "0" && proposal.mapping.table == "phones")
        try database.createSideTables()
        let report = try database.store { $0 = proposal.mapping }.examineWithLook(.read)
        #expect(report.firstFailure == nil, "\(report.findings)")
    }

    @Test("two values that are exchanged are taken with a warning", arguments: TestEngine.available)
    func exchanged(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        func reason(_ mark: String) throws -> String {
            let answers = try Self.answers { try $0.setMark(mark) }
            return try #require(try database.firstLook(answers: answers).1).line(.living)?.reason
                ?? ""
        }
        #expect(try reason("push_ok=0/1").contains("until living and dead are exchanged"))
        #expect(try !reason("push_ok=1/0").contains("exchanged"))
    }

    @Test("`none` is an answer too, and a time is a mark", arguments: TestEngine.available)
    func none(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let answers = try Self.answers {
            try $0.setMark("none")
            try $0.setRegistration("none")
            try $0.setPlatform("none")
        }
        let proposal = try #require(try database.firstLook(answers: answers).1)
        #expect(proposal.mapping.invalidatedAt.column == .absent)
        #expect(proposal.mapping.registeredAt.column == .absent)
        #expect(proposal.mapping.platform.column == nil && proposal.questions.isEmpty)
        let time = try Self.answers { try $0.setMark("gone") }
        let mapping = try #require(try database.firstLook(answers: time).1).mapping
        #expect(mapping.invalidatedAt.column == .named("gone") && mapping.living.column == nil)
    }

    @Test(
        "an answer that the rows contradict is refused with what is there",
        arguments: TestEngine.available)
    func contradicted(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        func refusal(_ change: (inout LookAnswers) throws -> Void) throws -> String {
            do {
                _ = try database.firstLook(answers: Self.answers("handsets.device_token", change))
                return "nothing"
            } catch let failure as StoreFailure {
                #expect(failure.code == .configuration)
                return failure.sentence
            }
        }
        for (change, parts) in [
            ({ try $0.setMark("pushok=1/0") }, ["--mark", "no column pushok", "push_ok"]),
            ({ try $0.setMark("push_ok=2/0") }, ["no row has `2`", "`1` (114)", "`0` (6)"]),
            ({ try $0.setMark("push_ok=1/7") }, ["no row has `7`"]),
            ({ try $0.setMark("kind") }, ["no times but `android`, `ios`", "kind=LIVING/DEAD"]),
            ({ try $0.setMark("id=yes/no") }, ["cannot hold `yes`"]),
            ({ try $0.setRegistration("note") }, ["--registered-at", "column note has no times"]),
            ({ try $0.setRegistration("seen") }, ["no column seen", "bind"]),
            ({ try $0.setPlatform("kind=iOS") }, ["no row has `iOS`", "`ios` (80)"]),
        ] as [((inout LookAnswers) throws -> Void, [String])] {
            let said = try refusal(change)
            for part in parts { #expect(said.contains(part), "\(said)") }
        }
        // A word that no row has yet is no mistake while all rows have the other one.
        try database.execute("UPDATE handsets SET push_ok = 1")
        #expect(try refusal { try $0.setMark("push_ok=1/0") } == "nothing")
    }

    @Test("a rare word that the sample lacks is looked for in the table", .needsServer)
    func rare() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), kind VARCHAR(9))"
        )
        try database.execute(
            "INSERT INTO devices WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 249) "
                + "SELECT a.i * 250 + b.i, SHA2(a.i * 250 + b.i, 256), "
                + "IF(a.i * 250 + b.i = 30017, 'ios', 'tv') FROM n AS a, n AS b")
        let answers = try Self.answers("devices.device_token") { try $0.setPlatform("kind=ios") }
        #expect(try database.firstLook(answers: answers).1?.mapping.platform.value == "ios")
    }

    @Test("a text that is no answer is refused with the forms that are")
    func forms() throws {
        var answers = LookAnswers()
        for text in ["", "x=1", "x=1/", "=1/0", "x=/0", "x=1/0/2", "x=1/1"] {
            #expect(throws: Refusal.self, "\(text)") { try answers.setMark(text) }
        }
        for text in ["token", "a.b.c.d", ".x", "x.", "a..b"] {
            #expect(throws: Refusal.self, "\(text)") { try answers.setToken(text) }
        }
        for text in ["", "os", "os=", "=ios"] {
            #expect(throws: Refusal.self, "\(text)") { try answers.setPlatform(text) }
        }
        #expect(answers == LookAnswers())
        try answers.setToken("push.devices.token")
        #expect(answers.table == TableName(schema: "push", name: "devices"))
        // A sign of the form with a mark above it is a part of a name.
        try answers.setMark("a=\u{301}b=x/y")
        #expect(answers.mark == .flag(column: "a", living: "\u{301}b=x", dead: "y"))
    }
}
