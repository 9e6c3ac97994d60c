import APNsProtocol
import Foundation
import TestSupport
import Testing

@testable import Operations

private let before: Int64 = 1_500_000_000_000
private let marked: Int64 = 1_600_000_000_000

/// Rows whose grace period has ended are a batch like any other.
@Suite("A batch of rows whose grace period has ended")
struct GraceHoldTests {
    /// 400 rows that were marked long ago, and 600 living ones.
    private static func stage(_ engine: TestEngine, due: Int = 400) throws -> SweepStage {
        let stage = try SweepStage(engine)
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        for number in 0..<due {
            try stage.database.register(.numbered(number), at: before, mark: marked)
        }
        try stage.database.register(1_000..<1_600, at: before)
        return stage
    }

    private static func rows(_ stage: SweepStage) throws -> Int {
        try stage.database.rows(of: "active_users", "invalidated_at IS NOT NULL")
    }

    /// Gives what was changed so far the age of eight days.
    private static func age(_ stage: SweepStage) throws {
        let past = Int64(Date().timeIntervalSince1970 * 1_000) - 8 * 86_400_000
        for time in [
            "pushsweep_batch SET changed_at", "pushsweep_change SET changed_at",
            "pushsweep_commit SET committed_at", "pushsweep_report SET changed_at",
        ] {
            try stage.database.execute("UPDATE \(time) = ?", [stage.database.time(past)])
        }
    }

    @Test(
        "many are held, listed and shown, and a release removes them, which undo takes back for good",
        arguments: TestEngine.available)
    func released(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        let dry = try stage.swept(dryRun: true)
        #expect((dry.json["apps"] as? [[String: Any]])?.last?["applied"] as? Int == 400)
        try stage.swept().ends(3, "is held", "would have gone after their grace period")
        try stage.swept().ends(3)
        #expect(try Self.rows(stage) == 400)
        #expect(try stage.database.rows(of: "pushsweep_batch", "source = 'grace'") == 1)
        let list = try stage.run("holds", "list").ends(0)
        list.says("policy.delete-after", "400 marked rows would go after their grace period")
        let shown = try stage.shown()
        #expect(shown["applied"] as? Int == 400 && shown["newer"] as? Int == 0, "\(shown)")
        // A device that comes back meanwhile keeps its row.
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [stage.database.time(marked + 1_000), .bytes(DeviceToken.numbered(7).bytes)])
        let run = try stage.released(try #require(shown["digest"] as? String)).ends(0)
            .app(has: ["applied": 399, "newer": 1, "grace": true])
        #expect(try Self.rows(stage) == 1)
        try stage.swept().ends(0)
        try stage.undone(run.json["run"] as? String ?? "").ends(0)
        #expect(try Self.rows(stage) == 400)
        try Self.age(stage)
        try stage.swept().ends(0)
        #expect(try Self.rows(stage) == 400, "a person brought them back")
    }

    @Test(
        "a discard leaves them, and no later sweep takes them again",
        arguments: TestEngine.available)
    func discarded(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        try stage.swept().ends(3)
        let name = try #require(try stage.shown()["hold"] as? String)
        #expect(try stage.discarded(name).reports == 400)
        try stage.swept().ends(0)
        try Self.age(stage)
        try stage.swept().ends(0)
        #expect(try Self.rows(stage) == 400)
        #expect(try stage.database.rows(of: "pushsweep_spared") == 400)
        try stage.run("explain", DeviceToken.numbered(3).hex).ends(
            0, "a person discarded it", "keep row 4, because a person discarded as much at")
        // A person may want them gone after all.
        try stage.replayed(feed: name).ends(3, "is held")
        let digest = try #require(try stage.shown()["digest"] as? String)
        try stage.released(digest).ends(0).app(has: ["applied": 400, "grace": true])
        #expect(try Self.rows(stage) == 0)
        #expect(try stage.database.rows(of: "pushsweep_spared") == 0)
    }

    @Test(
        "of several rows of a token each goes by its own mark, and one that a person brought back stays"
    )
    func severalRows() throws {
        let stage = try SweepStage(.sqlite)
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        try stage.database.execute("DROP INDEX active_users_device")
        for (number, mark) in [(1, marked), (1, marked + 5_000), (2, marked), (2, marked + 5_000)] {
            try stage.database.register(.numbered(number), at: before, mark: mark)
        }
        try stage.database.register(10..<20, at: before)
        try stage.database.execute(
            "INSERT INTO pushsweep_spared (token, app, environment, until_at, undone_at, by_run) VALUES "
                + "(?, 'chat', 'production', ?, ?, 'r')",
            [
                .bytes(DeviceToken.numbered(2).bytes), stage.database.time(marked),
                stage.database.time(marked + 9_000),
            ])
        try stage.swept().ends(0)
        #expect(
            try stage.database.texts("SELECT id FROM active_users WHERE invalidated_at IS NOT NULL")
                == [["3"]])
    }

    @Test(
        "a discard of other reports stops the end of no grace period",
        arguments: TestEngine.available)
    func otherDiscard(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine, due: 3)
        stage.lines.policy = "policy: {action: mark}"
        stage.lines.limits = "guard: {floor: 1, partition-percent: 1}"
        // A mistaken list names rows that were dead already, and living ones.
        for number in Array(0..<3) + Array(1_000..<1_100) {
            try stage.database.report(DeviceToken.numbered(number).hex, time: marked + 1_000)
        }
        try stage.swept().ends(3)
        try stage.discarded(try #require(stage.shown()["hold"] as? String))
        #expect(try stage.database.rows(of: "pushsweep_spared") == 103)
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        stage.lines.limits = ""
        try stage.swept().ends(0)
        #expect(try Self.rows(stage) == 0)
    }

    @Test("a search that was killed while its batch was filled leaves nothing that anybody judges")
    func killed() throws {
        let stage = try Self.stage(.sqlite, due: 20)
        _ = try stage.swept(dryRun: true)
        try stage.database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, app_name, environment, source, state, inlet, "
                + "label, host, opened_at, ending, reports, changed_at) VALUES ('left', 'r', 'chat', 'chat', "
                + "'production', 'grace', 'filling', 'grace', 'policy.delete-after', 'h', ?, 'clean', 1, ?)",
            [stage.database.time(marked), stage.database.time(marked)])
        try stage.database.execute(
            "INSERT INTO pushsweep_report (batch, token, number, evidence_at, changed_at) VALUES (\(batchNumber("left")), ?, 0, ?, ?)",
            [
                .bytes(DeviceToken.numbered(1_000).bytes), stage.database.time(marked),
                stage.database.time(marked),
            ])
        let apps = try stage.swept().ends(0).json["apps"] as? [[String: Any]]
        #expect(apps?.compactMap { $0["grace"] == nil ? nil : $0["applied"] as? Int } == [20])
        #expect(
            try stage.database.rows(of: "pushsweep_report", "batch = \(batchNumber("left"))") == 0)
        #expect(try stage.database.rows() == 600)
    }
}
