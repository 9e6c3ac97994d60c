import APNsProtocol
import TestSupport
import Testing

@Suite("A batch of a kind that only another build knows")
struct UnknownBatchTests {
    @Test("changes no row, and a person gives it up", arguments: TestEngine.available)
    func unknown(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 0..<0)
        stage.lines = "guard: {floor: 1}"
        for number in 0..<20 { try stage.database.report(DeviceToken.numbered(number).hex) }
        try stage.run("sweep").ends(3)
        try stage.database.execute(
            "UPDATE pushsweep_batch SET state = 'waiting', source = 'WrongEnvironment'")
        try stage.database.execute("UPDATE pushsweep_hold SET gate = NULL")
        stage.lines = ""
        try stage.run("sweep", "--dry-run").ends(78, "of a kind that this build does not know")
        try stage.run("sweep").ends(78, "nothing of it is applied")
        #expect(try stage.database.marked == 0)
        let batch = try #require(
            try stage.database.texts("SELECT name FROM pushsweep_batch").first?.first)
        try stage.run("holds", "discard", batch, "--reason", "of another build").ends(0)
        try stage.run("sweep").ends(0)
        #expect(try stage.database.marked == 0)
    }
}
