import APNsProtocol
import Glibc
import TestSupport
import Testing

@Suite("Commands on tables of other shapes")
struct TableShapeCommandTests {
    /// Settings for a mixed table with a column of two values.
    private static let shape = """
          active-users:
            platform: {column: platform, value: ios}
            living: {column: active, living: Y, dead: N}
        """

    /// Adds the two columns, with every third row of another platform.
    private static func reshape(_ database: TokenDatabase) throws {
        try database.execute("ALTER TABLE active_users ADD platform VARCHAR(10)")
        try database.execute("ALTER TABLE active_users ADD active CHAR(1)")
        try database.execute(
            "UPDATE active_users SET active = 'Y', platform = "
                + "CASE WHEN id % 3 = 0 THEN 'android' ELSE 'ios' END")
    }

    private static let dead = "SELECT COUNT(*) FROM active_users WHERE active = 'N'"

    @Test("settings that do not fit the columns end check and sweep with 78, and change no row")
    func refusals() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try Self.reshape(stage.database)
        for (line, part) in [
            ("platform: {column: os, value: ios}", "there is no column os"),
            ("living: {column: active, living: Y, dead: Y}", "are the same value"),
        ] {
            stage.lines.activeUsers = "  active-users: {\(line)}"
            try stage.run("check").ends(78, part)
            try stage.sweep().ends(78, part)
        }
        stage.lines.activeUsers = "  active-users: {platform: {column: platform, value: tvos}}"
        try stage.run("check").ends(78, "no row has `tvos` in column platform")
        // The same judgement before anything is taken: the report waits where it is.
        try stage.database.report(DeviceToken.numbered(0).hex)
        try stage.sweep().ends(78, "no row has `tvos` in column platform")
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 1)
        #expect(try stage.database.count(Self.dead) == 0)
        #expect(try stage.database.rows(of: "pushsweep_change") == 0)
    }

    @Test("a kill in between leaves rows and times together", arguments: TestEngine.available)
    func killed(_ engine: TestEngine) throws {
        let count = 8_000
        let stage = try SweepStage(engine, dead: count)
        try Self.reshape(stage.database)
        stage.lines.activeUsers = Self.shape
        let sweep = try stage.start(["sweep"])
        try eventually { try stage.database.rows(of: "pushsweep_invalid") > 0 }
        sweep.signal(SIGKILL)
        _ = sweep.wait()
        #expect(try stage.database.count(Self.dead) > 0)
        #expect(try stage.database.count(Self.dead) == stage.database.rows(of: "pushsweep_invalid"))
        #expect(
            try stage.database.count(Self.dead)
                == stage.database.rows(of: "pushsweep_change"))
    }
}
