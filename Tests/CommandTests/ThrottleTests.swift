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
        try stage.database.marked
    }

    private func checkNext(_ stage: SweepStage, _ more: String...) throws {
        try stage.run(["sweep", "--format", "json"] + more).ends(0).app(has: [
            "applied": Self.tokens
        ])
        #expect(try marks(stage) == Self.tokens)
        #expect(try stage.database.changedOnce(Self.tokens))
    }

    @Test("a run waits while the load is high, and completes when it is not", .needsServer)
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
        run.wait().ends(0, "continues after a pause")
        #expect(try marks(stage) == Self.tokens)
    }

    @Test("a run ends with 75 at the critical load, before it opens a feed", .needsServer)
    func criticalLoad() throws {
        let stage = try stage(.mariaDB)
        try stage.sweep("--critical-load", "0").ends(75, "why=critical-load")
        #expect(stage.gateway.records.isEmpty)
        try checkNext(stage, "--critical-load", "10000", "--max-load", "5000")
    }

    @Test(
        "a run ends with 75 while the stop file exists",
        arguments: TestEngine.available)
    func stopFile(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 1s"
        let file = try stage.folder.write("halt", "")
        try stage.sweep("--stop-file", file).ends(
            75, "the stop file \(file) exists", "remove that file, then run again", "why=stop-file")
        #expect(stage.gateway.records.isEmpty)
        // The file is made while a list is being read: the list is read to its end, and kept.
        let run = try stage.start(["sweep", "--format", "json"])
        stage.awaitJournal()
        let usual = stage.state + "/stop"
        try Data().write(to: URL(fileURLWithPath: usual))
        run.wait().ends(75).app(has: ["tuples": Self.tokens, "state": "pending"]).says(
            "why=stop-file")
        #expect(try marks(stage) == 0)
        try FileManager.default.removeItem(atPath: usual)
        try checkNext(stage)
    }

    @Test(
        "a run ends with 75 when its time is up",
        arguments: TestEngine.available)
    func timeBudget(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        // The list is over after a silence that is longer than the budget.
        stage.lines.feedbackOptions = "idle-timeout: 1500ms"
        stage.lines.activeUsers = "throttle: {time-budget: 1s}"
        let result = try stage.sweep().ends(75, "why=time-budget")
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
        let stopped = try stage.run("replay", file, "--stop-file", halt).ends(75)
        let feed = try #require(
            stopped.error.firstMatch(of: /pushsweep replay --batch ([0-9a-f-]+) or the next sweep/)
        ).1
        let next = try stage.json("replay", "--batch", "\(feed)").ends(0).app(has: [
            "applied": Self.tokens
        ])
        #expect(try marks(stage) == Self.tokens)
        next.lacks("would make a second feed")
    }

    @Test(
        "undo and purge end with 75 too, and the same command continues them",
        arguments: TestEngine.available)
    func undoAndPurge(_ engine: TestEngine) throws {
        let stage = try stage(engine)
        let run = try #require(try stage.sweep().json["run"] as? String)
        let halt = try stage.folder.write("halt", "")
        let stopped = try stage.json("undo", run, "--stop-file", halt).ends(
            75, "next=rerun why=stop-file")
        let problem = (stopped.json["problems"] as? [[String: Any]])?.first
        #expect(problem?["why"] as? String == "stop-file")
        #expect(try marks(stage) == Self.tokens)
        try stage.json("undo", run, "--time-budget", "1h").ends(0).json(has: [
            "restored": Self.tokens, "resumed": true,
        ])
        #expect(try marks(stage) == 0)

        try stage.database.execute(
            "UPDATE pushsweep_run SET started = ?", [stage.database.time(before)])
        for table in ["pushsweep_batch", "pushsweep_change"] {
            try stage.database.execute(
                "UPDATE \(table) SET changed_at = ?", [stage.database.time(before)])
        }
        try stage.run("purge", "--stop-file", halt).ends(75, "why=stop-file")
        #expect(try stage.database.rows(of: "pushsweep_change") == 2_000)
        try stage.run("purge").ends(0)
        #expect(try stage.database.rows(of: "pushsweep_change") == 0)
        try stage.run("undo", run, "--max-load", "x").ends(64)
    }

    @Test("a run refuses limits that it cannot watch before it opens a feed")
    func refusals() throws {
        for engine in TestEngine.available {
            let stage = try stage(engine)
            try stage.database.report(DeviceToken.numbered(1).hex)
            try stage.sweep("--max-lag", "10").ends(78)
            try stage.sweep("--max-load", "No_such_figure=1").ends(78)
            #expect(stage.gateway.records.isEmpty)
            #expect(try stage.database.rows(of: "pushsweep_evidence") == 1)
        }
    }
}
