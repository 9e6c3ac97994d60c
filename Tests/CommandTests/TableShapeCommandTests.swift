import APNsProtocol
import APNsSimulator
import SecureTransport
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

    @Test(
        "check, sweep and undo keep to the rows of the platform and the column",
        arguments: TestEngine.available)
    func sweepAndUndo(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 30)
        try Self.reshape(stage.database)
        stage.lines.activeUsers = Self.shape
        try stage.run("check").ends(
            0, "platform platform, only rows with `ios`", "mark active (living `Y`, dead `N`)")
        let dry = try stage.sweep("--dry-run")
        #expect(dry.exit == 0 || dry.exit == 75, "\(dry.error)")
        #expect(try stage.database.count(Self.dead) == 0)
        try stage.sweep().ends(0)
        #expect(try stage.database.count(Self.dead) == 20)
        #expect(try stage.database.count(Self.dead + " AND platform = 'android'") == 0)
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 20)
        let run = try #require(
            try stage.database.texts(
                "SELECT DISTINCT run FROM pushsweep_change"
            ).first?.first)
        try stage.run("undo", run).ends(0)
        #expect(try stage.database.count(Self.dead) == 0)
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 0)
    }

    @Test(
        "send and enqueue leave out dead rows and other platforms, and a 410 sets the column",
        arguments: TestEngine.available)
    func sending(_ engine: TestEngine) throws {
        var script = ProviderScript()
        script.tokens[.numbered(0)] = .reply(
            ScriptedReply(.unregistered, timestamp: 1_700_000_000_000))
        let stage = try SendStage(engine, script: script)
        try stage.database.register(0..<9, at: 1_600_000_000_000)
        try Self.reshape(stage.database)
        try stage.database.execute("UPDATE active_users SET active = 'N' WHERE id = 2")
        stage.lines = Self.shape
        try stage.queue(0..<9)
        try stage.send().ends(0)
        // Rows 3, 6 and 9 are of another platform, row 2 is dead.
        #expect(try stage.states()["skipped"] == 4)
        #expect(try stage.states()["sent"] == 4)
        #expect(
            try stage.database.texts("SELECT id FROM active_users WHERE active = 'N' ORDER BY id")
                == [["1"], ["2"]])
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 1)
        try stage.run("enqueue", "--app", "chat", "--user", "user", "--alert", "x").ends(0)
        #expect(try stage.database.rows(of: "push_queue") == 9 + 4)
    }

    @Test(
        "settings that do not fit the columns end check and sweep with 78, and change no row",
        arguments: TestEngine.available)
    func refusals(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        try Self.reshape(stage.database)
        for (lines, part) in [
            ("invalidated-at: active", "write living: {column: active, living: Y, dead: N}"),
            ("platform: {column: os, value: ios}", "there is no column os"),
            (
                "living: {column: active, living: Y, dead: N}\n    reason: invalid_reason",
                "remove reason or living"
            ),
        ] {
            stage.lines.activeUsers = "  active-users:\n    \(lines)"
            let check = try stage.run("check").ends(78)
            #expect((check.output + check.error).contains(part), "\(check.output)\(check.error)")
            try stage.sweep().ends(78)
        }
        stage.lines.activeUsers = "  active-users: {living: {column: active, living: Y, dead: Y}}"
        try stage.run("check").ends(78, "are the same value")
        stage.lines.activeUsers = "  active-users: {platform: {column: platform, value: tvos}}"
        try stage.run("check").ends(78, "no row has `tvos` in column platform")
        // The same judgement before anything is taken: the report waits where it is.
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, timestamp_ms) "
                + "VALUES ('chat', '\(DeviceToken.numbered(0).hex)', 410, 1700000000000)")
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
        let deadline = Deadline.in(.seconds(60))
        while try stage.database.rows(of: "pushsweep_invalid") == 0,
            !deadline.hasPassed
        {}
        sweep.signal(SIGKILL)
        _ = sweep.wait()
        #expect(try stage.database.count(Self.dead) > 0)
        #expect(try stage.database.count(Self.dead) == stage.database.rows(of: "pushsweep_invalid"))
        #expect(
            try 2 * stage.database.count(Self.dead)
                == stage.database.rows(of: "pushsweep_change"))
    }
}
