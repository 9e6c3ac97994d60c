import APNsProtocol
import APNsSimulator
import Database
import TestSupport
import Testing

@Suite("A sweep whose rows refuse a change")
struct RefusedRowSweepTests {
    private static func warnings(_ stage: SweepStage) throws -> [String] {
        try stage.check().of("database")
    }

    @Test(
        "the sweep marks the other rows and names the refused one, which a later replay marks",
        arguments: TestEngine.available)
    func namedAndReplayed(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 50)
        try stage.database.hold("device_token", "x'\(DeviceToken.numbered(7).hex)'")
        let result = try stage.swept().ends(65)
        let feed = result.app()
        #expect(feed["applied"] as? Int == 49 && feed["refused"] as? Int == 1)
        #expect(feed["tuples"] as? Int == 50 && feed["state"] as? String == "applied")
        #expect((feed["refusals"] as? [String])?.first?.contains("trigger") == true)
        let name = try #require(feed["batch"] as? String)
        result.says("pushsweep replay --batch \(name)")
        #expect(!result.error.contains(DeviceToken.numbered(7).hex))
        let unmarked = "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NULL"
        #expect(try stage.database.count(unmarked) == 1)

        #expect(try Self.warnings(stage).contains { $0.contains("1 row refused a change lately") })
        // While it refuses the row a replay has the same result.
        try stage.replayed(feed: name).ends(65)
        try stage.database.release()
        try stage.replayed(feed: name).ends(0)
        #expect(try stage.database.count(unmarked) == 0)
        #expect(try !Self.warnings(stage).contains { $0.contains("refused a change lately") })
    }

    @Test(
        "the run after one that was killed behind its last commit names the refused row too",
        arguments: TestEngine.available)
    func namedAfterKill(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 5)
        try stage.database.hold("device_token", "x'\(DeviceToken.numbered(3).hex)'")
        try stage.swept().ends(65)
        try stage.forgetApplied()
        let result = try stage.swept().ends(65)
        let feed = result.app()
        #expect(feed["applied"] as? Int == 4 && feed["refused"] as? Int == 1)
        #expect((feed["refusals"] as? [String])?.count == 1, "\(result.output)")
        result.says("1 row stays as before", "pushsweep replay --batch ")
        #expect(try stage.feedStates() == ["applied"])
    }
}
