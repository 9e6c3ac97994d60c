import APNsProtocol
import TestSupport
import Testing

@Suite("A missing queue")
struct MissingQueueTests {
    private func hasQueue(_ database: TokenDatabase) -> Bool {
        (try? database.count("SELECT COUNT(*) FROM push_queue")) != nil
    }

    @Test(
        "schema apply adds the queue to an existing token table if an app sends",
        arguments: TestEngine.available)
    func provider(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.execute("DROP TABLE push_queue")
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        #expect(try stage.start(["check"]).wait().exit == 78)
        let applied = try stage.start(["schema", "apply"]).wait()
        #expect(applied.exit == 0, "\(applied.error)")
        #expect(!applied.output.contains("active_users"), "\(applied.output)")
        #expect(try stage.start(["schema", "apply"]).wait().output == "nothing is missing\n")
        #expect(try stage.start(["check"]).wait().exit == 0)
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
        let queue = try stage.run("enqueue", "--alert", "x", "--token", DeviceToken.numbered(1).hex)
        #expect(queue.exit == 78)
        #expect(queue.error.contains("where an app has a provider"), "\(queue.error)")
        let plain = stage.lines.store
        stage.lines.store += "\n  push-queue: {table: push_queue}"
        #expect(try stage.run("schema", "apply").exit == 0)
        #expect(hasQueue(stage.database))
        try stage.database.execute("DROP TABLE push_queue")
        stage.lines.store = plain
        #expect(try stage.run("schema", "apply", "--upgrade").exit == 0)
        #expect(!hasQueue(stage.database))
        #expect(try !stage.run("schema", "print", "--upgrade").output.contains("push_queue"))
    }
}
