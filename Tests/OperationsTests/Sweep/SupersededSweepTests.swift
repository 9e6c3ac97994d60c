import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let day: Int64 = 86_400_000

@Suite("A sweep that marks the older of two tokens")
struct SupersededSweepTests {
    /// A stage whose gateway has nothing to say, with devices of two tokens each: that of an even number is a week
    /// older than the next one.
    private static func stage(_ engine: TestEngine, devices: Int) throws -> SweepStage {
        let stage = try SweepStage(engine, feeds: [FeedSource](repeating: .tuples([]), count: 9))
        try stage.database.execute("ALTER TABLE active_users ADD COLUMN device_id VARCHAR(64)")
        try stage.database.execute("CREATE INDEX of_device ON active_users (device_id)")
        for number in 0..<2 * devices {
            try stage.database.register(
                .numbered(number), at: number % 2 == 0 ? start - 7 * day : start)
            try stage.database.update(
                "device_id = ?", [.text("device-\(number / 2)")], of: number)
        }
        stage.lines.activeUsers =
            "  active-users: {device: {column: device_id}, kind: {column: none}}"
        stage.lines.policy = "policy: {superseded: mark}"
        stage.lines.limits = SweepStage.anyNumber
        return stage
    }

    private static func batches(_ stage: SweepStage) throws -> Int {
        try stage.database.rows(of: "pushsweep_feed", "inlet = 'registrations'")
    }

    @Test(
        "each older token is marked with its reason, and one that an undo brought back stays",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine, devices: 4)
        let dry = try stage.swept(dryRun: true).ends([0, 75])
        let apps = try #require(dry.json["apps"] as? [[String: Any]])
        #expect(apps.last?["source"] as? String == "rows of active_users")
        #expect(apps.last?["applied"] as? Int == 4)
        #expect(try stage.marked == 0)
        #expect(try stage.database.rows(of: "pushsweep_feed") == 0)
        #expect(try stage.database.rows(of: "pushsweep_report") == 0)

        try stage.swept().ends(0)
        #expect(try stage.marked == 4)
        #expect(try Self.batches(stage) == 1)
        let reasons = try stage.database.texts(
            "SELECT DISTINCT invalid_reason FROM active_users WHERE invalidated_at IS NOT NULL")
        #expect(reasons == [["Superseded"]])
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "the device registered another token later, as rows of active_users say")
        // What is marked is not found again.
        try stage.swept().ends(0)
        #expect(try Self.batches(stage) == 1)

        let run = try stage.database.texts("SELECT run FROM pushsweep_change LIMIT 1")
        try stage.undone(run[0][0]).ends(0)
        #expect(try stage.marked == 0)
        try stage.swept().ends(0)
        #expect(try stage.marked == 0)
        #expect(try Self.batches(stage) == 1)
    }

    @Test(
        "an older token that registers again is living at once, and then the other one is the older",
        arguments: TestEngine.available)
    func back(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine, devices: 1)
        try stage.swept().ends(0)
        #expect(try stage.marked == 1)
        try stage.database.update(
            "registered_at = ?", [stage.database.time(start + 3 * day)], of: 0)
        try stage.swept().ends(0)
        let marked = try stage.database.texts(
            "SELECT device_token FROM active_users WHERE registered_at <= invalidated_at")
        #expect(marked == [[DeviceToken.numbered(1).hex]])
    }

    @Test(
        "the guard holds many, later sweeps add none to the hold, and its digest releases them",
        arguments: TestEngine.available)
    func held(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine, devices: 40)
        stage.lines.limits = "guard: {floor: 7}"
        try stage.run("sweep", "--dry-run").ends(3)
        #expect(try Self.batches(stage) == 0)
        for _ in 0..<2 {
            try stage.swept().ends(3)
            #expect(try stage.marked == 0)
            #expect(try Self.batches(stage) == 1)
        }
        try stage.run("holds", "list").ends(0, "rows of active_users")
        let digest = try #require(try stage.shown()["digest"] as? String)
        try stage.released(digest).ends(0)
        #expect(try stage.marked == 40)
    }

    @Test("an account with the printed rights alone marks them and takes it back", .needsServer)
    func rights() throws {
        let stage = try Self.stage(.mariaDB, devices: 4)
        let account = try ServerAccount(of: stage.database)
        let printed = try stage.run("check", "--grants", account.name).ends(0)
        try account.grant(printedBy: printed.output)
        try stage.run(["sweep"], environment: account.environment).ends(0)
        #expect(try stage.marked == 4)
        let run = try stage.database.texts("SELECT run FROM pushsweep_change LIMIT 1")
        try stage.run(["undo", run[0][0]], environment: account.environment).ends(0)
        #expect(try stage.marked == 0)
        try stage.run(["sweep"], environment: account.environment).ends(0)
        #expect(try stage.marked == 0)
    }

    @Test("with action delete at once older tokens are only marked")
    func deleting() throws {
        let stage = try Self.stage(.sqlite, devices: 2)
        stage.lines.policy = "policy: {action: delete, superseded: mark}"
        try stage.swept().ends(0)
        #expect(try stage.database.rows() == 4)
        #expect(try stage.marked == 2)
    }

    @Test("without the setting nothing is marked, and without the index a sweep is refused")
    func settings() throws {
        let stage = try Self.stage(.sqlite, devices: 2)
        stage.lines.policy = ""
        try stage.swept().ends(0)
        #expect(try stage.marked == 0)
        try stage.database.execute("DROP INDEX of_device")
        try stage.swept().ends(0)
        stage.lines.policy = "policy: {superseded: mark}"
        try stage.swept().ends(78, "no index begins with column device_id", "CREATE INDEX")
        try stage.run("check").ends(78, "no index begins with column device_id")
        stage.lines.activeUsers = "  active-users: {device: {column: device_id}}"
        try stage.run("sweep").ends(
            78, "policy.superseded mark needs store.active-users.kind.column")
    }

    @Test(
        "a deep audit counts them, and lists them without a whole token",
        arguments: TestEngine.available)
    func audit(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine, devices: 3)
        stage.lines.policy = ""
        let file = stage.folder.file("superseded.csv")
        let report = try stage.json("audit", "--deep", "--superseded", file).ends(0)
        let apps = try #require(report.json["apps"] as? [[String: Any]])
        let deep = try #require(apps.first?["deep"] as? [String: Any])
        #expect(deep["supersededTokens"] as? Int == 3 && deep["crowdedDevices"] as? Int == 0)
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
        #expect(
            lines.first
                == "app,environment,key,token,registered,newer-key,newer-token,newer-registered")
        #expect(lines.count == 4 && !lines.joined().contains(DeviceToken.numbered(0).hex))
        #expect(try stage.marked == 0)
        try stage.database.execute(
            engine == .sqlite ? "DROP INDEX of_device" : "DROP INDEX of_device ON active_users")
        let other = stage.folder.file("other.csv")
        try stage.run("audit", "--deep", "--superseded", other).ends(
            0, "no index begins with column device_id")
        #expect(!FileManager.default.fileExists(atPath: other))
    }
}
