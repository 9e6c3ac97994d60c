import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing
import TokenTable

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000

@Suite("A throttled run", .serialized)
struct ThrottleTests {
    private static let tokens = 1_000

    private func stage(
        _ engine: TestEngine, behaviour: FeedbackBehaviour = FeedbackBehaviour()
    ) throws -> SweepStage {
        try SweepStage(engine, dead: Self.tokens, behaviour: behaviour)
    }

    private func marks(_ stage: SweepStage) throws -> Int {
        try stage.database.count(
            "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL")
    }

    private func checkNext(_ stage: SweepStage, _ more: String...) throws {
        let next = try stage.start(["sweep", "--format", "json"] + more).wait()
        #expect(next.exit == 0, "\(next.error)")
        #expect(next.app()["applied"] as? Int == Self.tokens)
        #expect(try marks(stage) == Self.tokens)
        #expect(
            try stage.database.texts(
                "SELECT COUNT(*), COUNT(DISTINCT row_key) FROM pushsweep_change")
                == [["\(Self.tokens)", "\(Self.tokens)"]])
    }

    @Test(
        "a run waits while the load is high, and completes when it is not",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
    func pauses() throws {
        let stage = try stage(.mariaDB)
        let server = try #require(MariaDBServer.fromEnvironment)
        let connected =
            try server.connection().query(
                "SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0, 1].count ?? 0
        var load = try (0..<80).map { _ in try server.connection() }
        let run = try stage.start(
            ["sweep", "--verbose", "--max-load", "Threads_connected=\(connected + 60)"])
        #expect(run.awaitError("pauses: Threads_connected is"))
        #expect(try marks(stage) == 0)
        load.removeAll()
        let result = run.wait()
        #expect(result.exit == 0, "\(result.error)")
        #expect(result.error.contains("continues after a pause"), "\(result.error)")
        #expect(try marks(stage) == Self.tokens)
    }

    @Test(
        "a run ends with 75 at the critical load, before it opens a feed",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
    func criticalLoad() throws {
        let stage = try stage(.mariaDB)
        let result = try stage.sweep("--critical-load", "0")
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.closingLine.hasSuffix("why=critical-load"), "\(result.closingLine)")
        #expect(stage.gateway.records.isEmpty)
        try checkNext(stage, "--critical-load", "10000", "--max-load", "5000")
    }

    @Test("a run ends with 75 while the stop file exists", arguments: TestEngine.available)
    func stopFile(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 1s"
        let file = try stage.folder.write("halt", "")
        let refused = try stage.sweep("--stop-file", file)
        #expect(refused.exit == 75, "\(refused.error)")
        #expect(refused.error.contains("the stop file \(file) exists"))
        #expect(refused.error.contains("remove that file, then run again"))
        #expect(refused.closingLine.hasSuffix("why=stop-file"))
        #expect(stage.gateway.records.isEmpty)
        // The file is made while a list is being read: the list is read to its end, and kept.
        let run = try stage.start(["sweep", "--format", "json"])
        stage.awaitJournal()
        let usual = stage.state + "/stop"
        try Data().write(to: URL(fileURLWithPath: usual))
        let stopped = run.wait()
        #expect(stopped.exit == 75, "\(stopped.error)")
        #expect(stopped.app()["tuples"] as? Int == Self.tokens)
        #expect(stopped.app()["state"] as? String == "pending")
        #expect(stopped.closingLine.hasSuffix("why=stop-file"))
        #expect(try marks(stage) == 0)
        try FileManager.default.removeItem(atPath: usual)
        try checkNext(stage)
    }

    @Test("a run ends with 75 when its time is up", arguments: TestEngine.available)
    func timeBudget(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        // The list is over after a silence that is longer than the budget.
        stage.lines.feedbackOptions = "idle-timeout: 1500ms"
        stage.lines.activeUsers = "throttle: {time-budget: 1s}"
        let result = try stage.sweep()
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.closingLine.hasSuffix("why=time-budget"), "\(result.closingLine)")
        #expect(try marks(stage) == 0)
        let problem = (result.json["problems"] as? [[String: Any]])?.first
        #expect(problem?["why"] as? String == "time-budget")
        try checkNext(stage, "--time-budget", "1h")
    }

    @Test("a replay of a file that is stopped names the feed by which it goes on")
    func replayedFile() throws {
        let stage = try stage(.sqlite)
        let tuples = (0..<Self.tokens).map {
            FeedbackTuple(
                time: EpochSeconds(start + UInt32($0)), token: DeviceToken.numbered($0))
        }
        let file = try stage.folder.write("feed.bin", FeedbackTuple.bytes(tuples))
        let halt = try stage.folder.write("halt", "")
        let stopped = try stage.run("replay", file, "--stop-file", halt)
        #expect(stopped.exit == 75, "\(stopped.error)")
        let feed = try #require(
            stopped.error.firstMatch(of: /pushsweep replay --feed ([0-9a-f-]+) or the next sweep/)
        ).1
        let next = try stage.run("replay", "--feed", "\(feed)", "--format", "json")
        #expect(next.exit == 0, "\(next.error)")
        #expect(next.app()["applied"] as? Int == Self.tokens)
        #expect(try marks(stage) == Self.tokens)
        #expect(!next.error.contains("would make a second feed"))
    }

    @Test(
        "undo and purge end with 75 too, and the same command continues them",
        arguments: TestEngine.available)
    func undoAndPurge(_ engine: TestEngine) throws {
        let stage = try stage(engine)
        let run = try #require(try stage.sweep().json["run"] as? String)
        let halt = try stage.folder.write("halt", "")
        let stopped = try stage.run("undo", run, "--stop-file", halt, "--format", "json")
        #expect(stopped.exit == 75, "\(stopped.error)")
        #expect(stopped.closingLine.hasSuffix("next=rerun why=stop-file"), "\(stopped.closingLine)")
        let problem = (stopped.json["problems"] as? [[String: Any]])?.first
        #expect(problem?["why"] as? String == "stop-file")
        #expect(try marks(stage) == Self.tokens)
        let undone = try stage.run("undo", run, "--format", "json", "--time-budget", "1h")
        #expect(undone.exit == 0, "\(undone.error)")
        #expect(undone.json["restored"] as? Int == Self.tokens)
        #expect(undone.json["resumed"] as? Bool == true)
        #expect(try marks(stage) == 0)

        try stage.database.execute(
            "UPDATE pushsweep_run SET started = ?", [stage.database.time(before)])
        for table in ["pushsweep_feed", "pushsweep_change"] {
            try stage.database.execute(
                "UPDATE \(table) SET changed_at = ?", [stage.database.time(before)])
        }
        let kept = try stage.run("purge", "--stop-file", halt)
        #expect(kept.exit == 75 && kept.closingLine.hasSuffix("why=stop-file"), "\(kept.error)")
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_change") == 2_000)
        #expect(try stage.run("purge").exit == 0)
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_change") == 0)
        #expect(try stage.run("undo", run, "--max-load", "x").exit == 64)
    }

    @Test("a run refuses limits that it cannot watch before it opens a feed")
    func refusals() throws {
        for engine in TestEngine.available {
            let stage = try stage(engine)
            try stage.database.execute(
                "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) "
                    + "VALUES ('chat', '\(DeviceToken.numbered(1).hex)', 410, 'Unregistered', 1700000000123)"
            )
            let lag = try stage.sweep("--max-lag", "10")
            #expect(lag.exit == 78, "\(lag.error)")
            #expect(try stage.sweep("--max-load", "No_such_figure=1").exit == 78)
            #expect(stage.gateway.records.isEmpty)
            #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_evidence") == 1)
        }
        let stage = try stage(.sqlite)
        for arguments in [
            ["--max-lag", "x"], ["--max-load", "a=b"], ["--critical-load", ""],
            ["--time-budget", "10"], ["--lag-replica", "replica"],
            ["--lag-replica", "sqlite:///x"],
        ] {
            let result = try stage.start(["sweep"] + arguments).wait()
            #expect(result.exit == 64, "\(arguments): \(result.error)")
            #expect(result.error.contains("reading \(arguments[0])"), "\(result.error)")
        }
    }
}
