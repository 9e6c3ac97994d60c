import APNsProtocol
import TestSupport
import Testing

@Suite("A missing queue")
struct MissingQueueTests {
    private func hasQueue(_ database: TokenDatabase) -> Bool {
        (try? database.rows(of: "push_queue")) != nil
    }

    @Test(
        "schema apply adds the queue to an existing token table if an app sends",
        arguments: TestEngine.available)
    func provider(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.execute("DROP TABLE push_queue")
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        try stage.run("check").ends(78)
        try stage.run("schema", "apply").ends(0).lacks("active_users")
        #expect(try stage.run("schema", "apply").output == "nothing is missing\n")
        try stage.run("check").ends(0)
        #expect(hasQueue(stage.database))
    }

    @Test(
        "schema apply adds no queue for sweeps only, also with --upgrade, unless settings ask for it"
    )
    func sweeper() throws {
        let stage = try SweepStage(feeds: [])
        try stage.database.execute("DROP TABLE push_queue")
        #expect(try stage.run("schema", "apply").output == "nothing is missing\n")
        #expect(!hasQueue(stage.database))
        let plain = stage.lines.store
        stage.lines.store += "\n  push-queue: {table: push_queue}"
        try stage.run("schema", "apply").ends(0)
        #expect(hasQueue(stage.database))
        try stage.database.execute("DROP TABLE push_queue")
        stage.lines.store = plain
        try stage.run("schema", "apply", "--upgrade").ends(0)
        #expect(!hasQueue(stage.database))
        #expect(try !stage.run("schema", "print", "--upgrade").output.contains("push_queue"))
    }
}
