import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Operations
import TestSupport
import Testing

/// The statements of docs/queue.md, run as the page has them.
@Suite("The page of the queue")
struct QueueDocumentTests {
    private static let hex = "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"
    private static let registered: Int64 = 1_600_000_000_000
    /// How the page says that SQLite spells a time.
    private static let spellings = [
        ("UTC_TIMESTAMP(3) - INTERVAL 1 DAY", "datetime('now', '-1 day')"),
        ("UTC_TIMESTAMP(3)", "datetime('now')"),
    ]

    /// The statement of a named block, as an engine takes it.
    private static func statement(_ name: String, _ engine: TestEngine) throws -> String {
        let blocks = try DocumentBlock.all(of: "docs/queue.md")
        let block = try #require(blocks.first { $0.language == "sql" && $0.name == name })
        let statement = try #require(block.statements.first)
        guard engine == .sqlite else { return statement }
        return spellings.reduce(statement) { $0.replacing($1.0, with: $1.1) }
    }

    @Test(
        "its rows are sent, only to living devices of the user, and its SELECTs say what became of them",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let dead = DeviceToken.numbered(4)
        var script = ProviderScript()
        script.tokens[dead] = .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        let stage = try SendStage(engine, script: script)
        let database = stage.database
        let token = try DeviceToken(spelling: Self.hex)
        try database.register(token, at: Self.registered, user: "ben")
        try database.register(.numbered(1), at: Self.registered, user: "ada")
        try database.register(
            .numbered(2), at: Self.registered, mark: Self.registered + 1, user: "ada")
        try database.register(
            .numbered(3), at: Self.registered, mark: Self.registered - 1, user: "ada")
        try database.register(dead, at: Self.registered, user: "ada")

        let insert = engine == .sqlite ? "insert-sqlite" : "insert-mysql"
        try database.execute(Self.statement(insert, engine))
        try database.execute(Self.statement("insert-user", engine))
        let open = try database.texts(Self.statement("open", engine))
        #expect(open.map { $0.prefix(3) } == [["chat", "production", "4"]])
        try stage.run("check").ends(0)

        try stage.send().ends(0)
        #expect(
            Set(stage.gateway.log.requestsByToken.keys)
                == [token, .numbered(1), .numbered(3), dead])
        #expect(try database.texts(Self.statement("open", engine)) == [])
        let results = try database.texts(Self.statement("results", engine))
        #expect(results.map { $0[0] } == ["sent", "gone"])
        #expect(results.map { $0[2] } == ["3", "1"] && results[1][1] == "Unregistered")
        let one = try #require(try database.texts(Self.statement("one", engine)).first)
        #expect(one[0] == "sent" && one[2] == "1")
        let queued = try #require(
            EpochMilliseconds(iso8601: one[3].replacing(" ", with: "T") + "Z"))
        #expect(abs(queued.distance(from: .current)) < 60_000, "\(one)")
        // What was answered earlier is not of the last day.
        try database.execute("UPDATE push_queue SET answered_at = '2001-01-01 00:00:00'")
        #expect(try database.texts(Self.statement("results", engine)) == [])
    }

    @Test("it says how SQLite spells each time, and each of its statements is tested")
    func spelled() throws {
        let page = try String(contentsOf: DocumentBlock.path("docs/queue.md"), encoding: .utf8)
        for (_, spelling) in Self.spellings { #expect(page.contains("`\(spelling)`")) }
        let blocks = try DocumentBlock.all(of: "docs/queue.md").filter { $0.language == "sql" }
        #expect(
            blocks.map(\.name) == [
                "insert-mysql", "insert-sqlite", "insert-user", "open", "results", "one",
            ])
        #expect(blocks.allSatisfy { $0.statements.count == 1 })
    }
}
