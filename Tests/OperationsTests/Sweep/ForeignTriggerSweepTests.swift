import APNsProtocol
import Database
import TestSupport
import Testing

@Suite("A sweep beside a trigger that can write the row")
struct ForeignTriggerSweepTests {
    @Test(
        "ends with 78 and takes nothing; once marks stand beside, all that waited is applied, and copied marks count",
        arguments: TestEngine.available)
    func waits(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 5)
        let (before, dead): (Int64, Int64) = (1_600_000_000_000, 1_700_000_000_000)
        try stage.database.register(.numbered(6), at: before)
        try stage.database.register(.numbered(7), at: before, mark: dead)
        try stage.database.report(DeviceToken.numbered(6).hex, time: dead)
        // A list that was read and whose sweep did not come to its end.
        try stage.swept().ends(0)
        try stage.database.execute("UPDATE active_users SET invalidated_at = NULL WHERE id <= 6")
        try stage.database.forgetLedger()
        try stage.database.report(DeviceToken.numbered(6).hex, time: dead)
        try stage.forgetApplied()
        let body = engine == .sqlite ? "SELECT 1" : "SET @touched = 1"
        try stage.database.execute(
            "CREATE TRIGGER touch BEFORE UPDATE ON active_users FOR EACH ROW BEGIN \(body); END")

        for _ in 0..<2 {
            try stage.swept().ends(78, "trigger touch of active_users can write a row")
            #expect(try stage.database.marked == 1)
            #expect(try stage.database.rows(of: "pushsweep_evidence") == 1)
            #expect(try stage.feedStates() == ["pending"])
        }
        try stage.run("check").ends(78, "trigger touch of active_users can write a row")
        let told = try stage.check().of("database").first { $0.contains("trigger touch") } ?? ""
        let begin = try #require(told.firstRange(of: "in one transaction: "))
        let end = try #require(told.firstRange(of: "; or remove the trigger"))
        for statement in told[begin.upperBound..<end.lowerBound].split(separator: "; ") {
            try stage.database.execute(String(statement))
        }
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 1)

        stage.lines.activeUsers = "  active-users: {invalidated-at: none}"
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 1)
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 0)
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 7)
        // A copied mark is known.
        try stage.database.report(DeviceToken.numbered(7).hex, time: dead)
        let again = try stage.swept().ends(0)
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 7, "\(again.output)")
    }
}
