import TestSupport
import Testing

@Suite("A mistake that check finds")
struct CheckMistakeTests {
    @Test(
        "a mistyped name of the token table shows as an empty table",
        arguments: TestEngine.available)
    func emptyTable(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [])
        let empty = try stage.run("check")
        let warning = "warning: database: active_users has no rows; "
        #expect(empty.exit == 0, "\(empty.error)")
        #expect(empty.output.contains(warning), "\(empty.output)")
        #expect(empty.output.contains("correct store.active-users.table"))
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        #expect(try !stage.run("check").output.contains(warning))
    }

    @Test("a missing table is reported once", arguments: TestEngine.available)
    func missingTable(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.execute("DROP TABLE active_users")
        let result = try stage.start(["check"]).wait()
        #expect(result.exit == 78)
        for text in [result.output, result.error] {
            let lines = text.split(separator: "\n").filter { $0.contains("active_users: ") }
            #expect(lines.count == 1, "\(lines)")
        }
    }

    @Test("check shows findings before settings, and ends with 3 where something is held")
    func held() throws {
        let stage = try SweepStage(
            feeds: [.tuples((0..<200).map { .dead($0, at: 1_700_000_000) })])
        try stage.database.register(0..<200, at: 1_600_000_000_000)
        #expect(try stage.run("sweep").exit == 3)
        let check = try stage.run("check")
        #expect(check.exit == 3, "\(check.error)")
        #expect(check.closingLine.hasPrefix("code=3 stage=check pending=0 applied=0 held=1 "))
        let sections = check.output.split(separator: "\n").filter { !$0.hasPrefix(" ") }
        #expect(sections == ["findings:", "certificates:", "settings:"])
        let json = try stage.run("check", "--format", "json").json
        #expect(json["held"] as? Int == 1 && json["exit"] as? Int == 3)
        // A failure is more urgent.
        try stage.database.execute("DROP TABLE active_users")
        #expect(try stage.run("check").exit == 78)
    }

    @Test("the closing line of check counts feeds that wait for the next run")
    func pending() throws {
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        #expect(try stage.sweep("--dry-run").exit == 75)
        #expect(try stage.run("check", "--format", "json").json["pending"] as? Int == 1)
        try stage.database.execute("DROP TABLE active_users")
        let check = try stage.run("check")
        #expect(check.closingLine.hasPrefix("code=78 stage=check pending=1 applied=0 held=0 "))
        #expect(try stage.feedStates() == ["pending"])
    }

    @Test("the error about a file that is not a database names store.url")
    func noDatabase() throws {
        let stage = try SweepStage(feeds: [])
        let file = try stage.folder.write("notes.txt", String(repeating: "no database ", count: 99))
        stage.lines.store = "url: sqlite://\(file)"
        let result = try stage.run("check")
        #expect(result.exit == 78)
        #expect(result.error.contains("correct store.url"), "\(result.error)")
        #expect(!result.error.contains("pushsweep check"))
    }

    @Test("check shows the system's authorities in words, not as a path")
    func authorities() throws {
        let stage = try SweepStage(feeds: [])
        let settings = try stage.run("check").output.split(separator: "\n")
            .first { $0.contains("store.tls.ca") }
        #expect(
            settings?.contains("the system's authorities  (default)") == true, "\(settings ?? "")")
    }
}
