import APNsProtocol
import Foundation
import TestSupport
import Testing

// kill -9 at random moments of asking and moving. Whatever is killed, the next run goes on: no proof is lost but those of
// the group that was under way, no row moves twice, and no device is asked that production had accepted.

@Suite("A killed run of environments", .serialized)
struct EnvironmentKillTests {
    private static let rows = Series.length(
        "PUSHSWEEP_TEST_MOVED_ROWS", short: 2_000, long: 100_000)
    private static let kills = Series.length("PUSHSWEEP_TEST_MOVE_KILLS", short: 6, long: 20)

    @Test(
        "rows under the wrong environment move once each, however often asking and moving are killed",
        arguments: TestEngine.available)
    func killed(_ engine: TestEngine) throws {
        let (rows, share) = (Self.rows, Self.rows / 100)
        let misplaced = 0..<(5 * share)
        let dead = misplaced.upperBound..<(6 * share)
        let unknown = dead.upperBound..<(7 * share)
        let bad = 0..<unknown.upperBound
        let stage = try EnvironmentStage(
            engine, rows: 0..<rows, misplaced: misplaced, dead: dead, unknown: unknown)
        stage.lines = "guard: {floor: 1000000000}"
        try stage.reportBad(bad)
        var random = SeededGenerator("killed environments on \(engine)")
        let more = ["--limit", "\(rows)"]
        var began = ContinuousClock.now
        _ = try stage.environments("--probe", "--limit", "\(share)")
        var length = ContinuousClock.now - began
        for _ in 0..<(Self.kills / 2) {
            try Self.kill(stage, ["--probe"] + more, within: length * 6, &random)
        }
        let proven = try stage.environments("--probe", "--limit", "\(rows)")
        #expect(proven["accepted"] as? Int == misplaced.count, "seed \(random.seed)")
        #expect(proven["dead"] as? Int == dead.count)
        #expect(proven["neither"] as? Int == unknown.count && proven["notAsked"] as? Int == 0)
        let asked = stage.asked
        let wanted = Set(bad.map { DeviceToken.numbered($0) })
        #expect(asked.keys.allSatisfy(wanted.contains), "a device was asked that was known")
        #expect(stage.production.log.requestsByToken.keys.allSatisfy(wanted.contains))
        let twice = asked.values.reduce(0) { $0 + $1 - 1 }
        #expect(twice <= 50 * Self.kills / 2, "\(twice) devices were asked again")
        #expect(try stage.database.rows(of: "pushsweep_suspect") == bad.count)
        // Kills of a run that moves, and of the undo between.
        began = ContinuousClock.now
        _ = try stage.environments("--apply", "--dry-run")
        length = ContinuousClock.now - began
        for _ in 0..<(Self.kills - Self.kills / 2) {
            try Self.kill(stage, ["--apply"], within: length * 3, &random)
        }
        _ = try stage.environments("--apply")
        let moved = misplaced.count + dead.count
        #expect(try stage.moved() == moved, "seed \(random.seed)")
        #expect(try stage.database.marked == dead.count)
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM pushsweep_change WHERE action = 'move'") == moved)
        #expect(
            try stage.database.count(
                "SELECT COUNT(DISTINCT row_key) FROM pushsweep_change WHERE action = 'move'")
                == moved)
        let numbers = "id <= \(moved)"
        #expect(try stage.database.rows(where: "environment = 'sandbox' AND \(numbers)") == moved)
        let audit = try stage.run("audit", "--deep").ends(0)
        #expect(!audit.output.contains("reports-lost"), "\(audit.output)")
        for run in try stage.database.texts(
            "SELECT DISTINCT c.run, r.started FROM pushsweep_change c JOIN pushsweep_run r ON r.id = c.run "
                + "WHERE c.action <> 'restore' ORDER BY r.started DESC")
        {
            try stage.run("undo", run[0]).ends(0)
        }
        #expect(try stage.moved() == 0)
        #expect(try stage.database.marked == 0)
        let again = try stage.environments("--apply")
        #expect((again["move"] as? [String: Any])?["applied"] as? Int == moved)
        #expect(try stage.moved() == moved)
        print(
            "environments on \(engine): \(rows) rows, \(twice) asked again after \(Self.kills / 2) kills"
        )
    }

    /// Starts a run and kills it at a random moment of a time, if it has not ended before.
    private static func kill(
        _ stage: EnvironmentStage, _ words: [String], within length: Duration,
        _ random: inout SeededGenerator
    ) throws {
        let tool = try stage.start(["environments"] + words)
        let share = Int64.random(in: 0...1_000, using: &random)
        let moment = ContinuousClock.now + length * Int(share) / 1_000
        while ContinuousClock.now < moment { usleep(500) }
        tool.signal(SIGKILL)
        _ = tool.wait()
        // The lease of a killed run is of this host, so the next run goes on at once.
    }
}
