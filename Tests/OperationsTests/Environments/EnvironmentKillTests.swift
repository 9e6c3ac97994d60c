import APNsProtocol
import Foundation
import TestSupport
import Testing

// kill -9 at random moments of asking. Whatever is killed, the next run goes on: no proof is lost but those of the group
// that was under way, and no device is asked that production had accepted.

@Suite("A killed run of environments", .serialized)
struct EnvironmentKillTests {
    private static let rows = Series.length(
        "PUSHSWEEP_TEST_ASKED_ROWS", short: 2_000, long: 100_000)
    private static let kills = Series.length("PUSHSWEEP_TEST_ASK_KILLS", short: 3, long: 20)

    @Test(
        "what was asked is known, and nobody is asked that was known, however often asking is killed",
        arguments: TestEngine.available)
    func killed(_ engine: TestEngine) throws {
        let (rows, share) = (Self.rows, Self.rows / 100)
        let misplaced = 0..<(5 * share)
        let dead = misplaced.upperBound..<(6 * share)
        let unknown = dead.upperBound..<(7 * share)
        let bad = 0..<unknown.upperBound
        let stage = try EnvironmentStage(
            engine, rows: 0..<rows, misplaced: misplaced, dead: dead, unknown: unknown)
        try stage.reportBad(bad)
        var random = SeededGenerator("killed environments on \(engine)")
        let more = ["--limit", "\(rows)"]
        let began = ContinuousClock.now
        _ = try stage.environments("--probe", "--limit", "\(share)")
        let length = ContinuousClock.now - began
        for _ in 0..<(Self.kills) {
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
        #expect(twice <= 50 * Self.kills, "\(twice) devices were asked again")
        #expect(try stage.database.rows(of: "pushsweep_suspect") == bad.count)
        print(
            "environments on \(engine): \(rows) rows, \(twice) asked again after \(Self.kills) kills"
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
    }
}
