import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("Rows under the wrong environment")
struct EnvironmentTests {
    private static func count(_ entry: [String: Any], _ key: String) -> Int {
        entry[key] as? Int ?? -1
    }

    @Test(
        "rows under the wrong environment are found, proven by the other one, moved, undone and moved again",
        arguments: TestEngine.available)
    func way(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(
            engine, rows: 0..<200, misplaced: 0..<60, dead: 60..<65, unknown: 65..<75)
        stage.lines = EnvironmentStage.anyNumber
        try stage.reportBad(0..<75)
        let found = try stage.environments()
        #expect(Self.count(found, "bad") == 75 && Self.count(found, "notAsked") == 75)
        #expect(stage.sandbox.log.totals.requests == 0)
        let forecast = try stage.environments("--probe", "--dry-run")
        #expect((forecast["probe"] as? [String: Any])?["asked"] as? Int == 75)
        #expect(stage.sandbox.log.totals.requests == 0)
        let proven = try stage.environments("--probe")
        #expect(Self.count(proven, "accepted") == 60 && Self.count(proven, "dead") == 5)
        #expect(Self.count(proven, "neither") == 10 && Self.count(proven, "notAsked") == 0)
        // Whoever is known in production is asked nothing.
        let asked = stage.asked
        #expect(asked.count == 75 && asked.values.allSatisfy { $0 == 1 })
        // Nobody is asked twice.
        _ = try stage.environments("--probe")
        #expect(stage.asked.values.reduce(0, +) == 75)
        #expect(stage.sandbox.log.totals.requests == 76)
        // A few of the tokens that were bad anyway show that production still calls them so.
        #expect(stage.production.log.totals.requests == 3)
        let trial = try stage.environments("--apply", "--dry-run")
        #expect((trial["move"] as? [String: Any])?["applied"] as? Int == 65)
        #expect(try stage.moved() == 0)
        let applied = try stage.environments("--apply")
        #expect((applied["move"] as? [String: Any])?["applied"] as? Int == 65)
        #expect(Self.count(applied, "deaths") == 5)
        #expect(try stage.moved() == 65)
        #expect(try stage.database.marked == 5)
        let runs = try stage.database.texts(
            "SELECT id FROM pushsweep_run WHERE kind = 'environments' ORDER BY started DESC")
        let run = try #require(runs.first?.first)
        // A sweep between sets the proofs aside, and forgets none.
        try stage.run("sweep").ends(0)
        #expect(try stage.environments()["bad"] as? Int == 10)
        try stage.run("audit").ends(0, "APNs called 10 of 135 living tokens bad")
        let undone = try stage.run("undo", run, "--format", "json").ends(0)
        // An undo of the undo brings both back: the environment, and the mark of those that are dead there.
        let undo = try #require(undone.json["run"] as? String)
        try stage.run("undo", undo).ends(0)
        #expect(try stage.moved() == 65)
        #expect(try stage.database.marked == 5)
        try stage.run("undo", run).ends(0)
        try stage.run("sweep").ends(0)
        try stage.run("audit").ends(0, "APNs called 75 of 200 living tokens bad")
        #expect(try stage.moved() == 0)
        #expect(try stage.database.marked == 0)
        let again = try stage.environments("--apply")
        #expect((again["move"] as? [String: Any])?["applied"] as? Int == 65)
        #expect(try stage.moved() == 65)
        // What died there is judged anew, since the row moved after the undo.
        #expect(Self.count(again, "deaths") == 5)
        #expect(try stage.database.marked == 5)
        // A death that a person took back stays so, also where the row is there by the application's word.
        try stage.run("undo", "--token", DeviceToken.numbered(60).hex).ends(0)
        try stage.database.update("environment = 'sandbox'", of: 60)
        _ = try stage.environments("--apply")
        #expect(try stage.database.marked == 4)
        let wrong = try stage.database.rows(
            where:
                "environment = 'sandbox' AND id NOT IN (SELECT id FROM active_users WHERE id <= 65)"
        )
        #expect(wrong == 0)
    }
}
