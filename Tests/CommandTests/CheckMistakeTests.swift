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

    @Test("a setting that no version uses yet is a warning, also one of an app")
    func idleSettings() throws {
        let stage = try SweepStage(feeds: [])
        stage.lines.certificate += "\n    binary: {host: gateway.example.net}"
        stage.lines.limits = "report: {healthcheck-url: \"https://example.net/ping\"}"
        let result = try stage.run("check")
        for key in ["apps[chat].binary.host", "report.healthcheck-url"] {
            let warning = "\(key) is set, but nothing uses it in this version"
            #expect(result.output.contains(warning), "\(result.output)")
        }
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
