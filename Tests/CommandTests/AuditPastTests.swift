import APNsProtocol
import Foundation
import Operations
import TestSupport
import Testing

@Suite("pushsweep audit of the past and of what a sweep would do")
struct AuditPastTests {
    private static func report(_ result: ToolResult) throws -> AuditReport {
        try JSONDecoder().decode(AuditReport.self, from: Data(result.output.utf8))
    }

    /// The database's time in RFC 3339, after it has moved on since the last change.
    private static func moment(_ stage: SweepStage) throws -> String {
        let store = try stage.database.store()
        let first = try store.session.databaseTime()
        while true {
            let next = try store.session.databaseTime()
            if next > first.advanced(by: 2) { return next.advanced(by: -1).rfc3339 }
        }
    }

    @Test(
        "--as-of counts the table as it was, whatever runs did since, in each format",
        arguments: TestEngine.available)
    func past(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 6)
        let before = try Self.moment(stage)
        _ = try stage.sweep()
        let after = try Self.moment(stage)
        try stage.database.register(.numbered(90), at: EpochMilliseconds.current.rawValue)
        let past = try stage.run("audit", "--as-of", before, "--format", "json")
        #expect(past.exit == 0 && past.error == "", "\(past.error)")
        let report = try Self.report(past)
        #expect(report.asOf == before && report.until == before && report.gaps == [])
        let tokens = try #require(report.apps.first).tokens
        #expect(tokens.stale == 0 && tokens.living == 6 && tokens.overwritten == 1)
        #expect(report.apps[0].evidence == [] && report.runs.endings == [])
        #expect(report.apps[0].queue == nil && report.apps[0].credentials == [])
        #expect(report.headline == "As of \(before): 6 living tokens, 0 stale")
        let rules = report.findings.map(\.rule)
        #expect(rules.contains("overwritten-since") && rules.contains("present-left-out"))
        #expect(!rules.contains("hold-open") && !rules.contains("quarantine"))
        let later = try Self.report(
            try stage.run("audit", "--as-of", after, "--format", "json"))
        #expect(later.apps[0].tokens.stale == 6 && later.apps[0].evidence.map(\.applied) == [6])
        #expect(later.runs.endings == [NamedCount("sweep 0", 1)])

        let minute = "\(before.prefix(10)) \(before.dropFirst(11).prefix(5)) UTC"
        for (format, heading) in [
            ("text", "As of \(minute): "), ("markdown", "# As of "), ("html", "<title>As of "),
            ("csv", "report,,,\"as of\",\(before)"),
        ] {
            let text = try stage.run("audit", "--as-of", before, "--format", format).output
            #expect(text.contains(heading), "\(format)")
            let words = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            #expect(words.contains("what they were then is unknown"), "\(format)")
        }
    }

    @Test("a time that the ledger does not reach, or that is to come, is refused with the earliest")
    func refused() throws {
        let stage = try SweepStage(.sqlite, dead: 6)
        _ = try stage.sweep()
        let past = "2026-01-01T00:00:00.000Z"
        #expect(try stage.run("audit", "--as-of", past).exit == 0)
        try stage.database.execute(
            "INSERT INTO pushsweep_day (day, app, environment, source, applied) "
                + "VALUES ('2025-01-01', 'chat', 'production', 'feedback', 1)")
        let time = try stage.database.texts(
            "SELECT committed_at FROM pushsweep_commit WHERE number = 1")[0][0]
        let early = try stage.run("audit", "--as-of", past)
        #expect(early.exit == 64)
        let earliest = time.replacingOccurrences(of: " ", with: "T") + "Z"
        #expect(early.error.contains("the earliest time is \(earliest)"), "\(early.error)")
        #expect(try stage.run("audit", "--as-of", earliest).exit == 0)
        let future = try stage.run("audit", "--as-of", "2199-01-01")
        #expect(future.exit == 64 && future.error.contains("it is in the future"))
        #expect(try stage.run("audit", "--as-of", earliest, "--deep").exit == 64)
        let until = try stage.run("audit", "--as-of", earliest, "--until", "2199-01-01")
        #expect(until.exit == 64 && until.error.contains("--until"))
    }

    /// The files of a folder with their content.
    private static func contents(_ folder: String) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder) {
            contents[name] = FileManager.default.contents(atPath: folder + "/" + name)
        }
        return contents
    }

    @Test(
        "what waits is judged as a sweep would judge it, and nothing is written",
        arguments: TestEngine.available)
    func forecast(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 6)
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [
                stage.database.time(1_750_000_000_000),
                .bytes(DeviceToken.numbered(5).bytes),
            ])
        try stage.database.register(
            .numbered(70), at: 1_600_000_000_000, mark: 1_650_000_000_000)
        _ = try stage.sweep("--dry-run")
        for token in [70, 71, 0] {
            try stage.database.execute(
                "INSERT INTO pushsweep_evidence (app, environment, device_token, status, reason, "
                    + "timestamp_ms) VALUES ('chat', 'production', ?, 410, 'Unregistered', ?)",
                [.text(DeviceToken.numbered(token).hex), .integer(1_760_000_000_000)])
        }
        let state = try Self.contents(stage.state)
        #expect(!state.isEmpty)
        let rows = try stage.database.texts("SELECT * FROM pushsweep_evidence ORDER BY id")
        let marks = try stage.database.marks()
        let temporary = stage.folder.file("temporary")
        try FileManager.default.createDirectory(
            atPath: temporary, withIntermediateDirectories: false)
        let result = try stage.run(
            "audit", "--format", "json", environment: ["TMPDIR": temporary])
        #expect(result.exit == 0 && result.error == "", "\(result.error)")
        let report = try Self.report(result)
        #expect(report.gaps == [])
        let forecast = try #require(report.apps.first).forecast
        #expect(forecast.isJudged && !forecast.held)
        #expect(forecast.waiting == 9 && forecast.newer == 1 && forecast.unknown == 1)
        #expect(forecast.applied == 6 && forecast.removals == 1)
        #expect(try Self.contents(stage.state) == state)
        #expect(try stage.database.texts("SELECT * FROM pushsweep_evidence ORDER BY id") == rows)
        #expect(try stage.database.marks() == marks)
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_run") == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary) == [])

        stage.lines.limits = "guard: {floor: 2}"
        let held = try Self.report(try stage.run("audit", "--format", "json"))
        #expect(held.apps[0].forecast.held && held.apps[0].forecast.isJudged)
        #expect(held.findings.contains { $0.rule == "sweep-would-hold" })
    }

    @Test("a run that is at work is a gap of the forecast, not a failure")
    func atWork() throws {
        let stage = try SweepStage(.sqlite, dead: 6)
        _ = try stage.sweep("--dry-run")
        try stage.database.execute(
            "INSERT INTO pushsweep_lease (name, owner, fence, expires_at) VALUES "
                + "('active_users', 'sweep@other run=1 home=2 since=3', 1, '2199-01-01 00:00:00.000')"
        )
        let report = try Self.report(try stage.run("audit", "--format", "json"))
        #expect(report.gaps.count == 1 && report.gaps[0].contains("held by"), "\(report.gaps)")
        #expect(report.apps[0].forecast.isJudged == false)
    }
}
