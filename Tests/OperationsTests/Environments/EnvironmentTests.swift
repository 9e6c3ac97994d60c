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

    /// 300 tokens of two apps in production, of which 69 are of the sandbox and 21 of neither.
    private static func stage(_ engine: TestEngine) throws -> EnvironmentStage {
        let stage = try EnvironmentStage(
            engine, rows: 0..<200, misplaced: 0..<64, dead: 64..<69, unknown: 69..<90)
        // Some belong to the second app, whose rows are in the same table.
        stage.namesCalls = true
        for number in 60..<64 { try stage.database.update("app_id = 'calls'", of: number) }
        for number in 88..<90 { try stage.database.update("app_id = 'calls'", of: number) }
        try stage.reportBad(0..<60)
        try stage.reportBad(64..<88)
        try stage.reportBad(60..<64, app: "calls")
        try stage.reportBad(88..<90, app: "calls")
        return stage
    }

    @Test(
        "in a table of two apps and two environments they are found, proven by the other one, and nobody is asked twice",
        arguments: TestEngine.available)
    func proven(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        let found = try stage.environments()
        #expect(Self.count(found, "bad") == 84 && Self.count(found, "notAsked") == 84)
        let forecast = try stage.environments("--probe", "--dry-run")
        #expect((forecast["probe"] as? [String: Any])?["asked"] as? Int == 84)
        #expect(stage.sandbox.log.totals.requests == 0)
        let proven = try stage.environments("--probe")
        #expect(Self.count(proven, "accepted") == 60 && Self.count(proven, "dead") == 5)
        #expect(Self.count(proven, "neither") == 19 && Self.count(proven, "notAsked") == 0)
        // Whoever is known in production is asked nothing.
        let asked = stage.asked
        #expect(asked.count == 90 && asked.values.allSatisfy { $0 == 1 })
        _ = try stage.environments("--probe")
        #expect(stage.asked.values.reduce(0, +) == 90)
        // A made-up token before the first group of each app, and behind each of the three groups.
        #expect(stage.sandbox.log.totals.requests == 90 + 2 + 3)
        // A few of the tokens that were bad anyway show that production still calls them so.
        #expect(stage.production.log.totals.requests == 6)
        // No row changed, and what was heard is in no batch.
        #expect(try stage.moved() == 0)
        #expect(try stage.database.marked == 0)
        #expect(try stage.database.rows(of: "pushsweep_change") == 0)
        let batches = try stage.database.count(
            "SELECT COUNT(*) FROM pushsweep_batch WHERE environment = 'sandbox'")
        #expect(batches == 0)
        #expect(
            try stage.database.rows(of: "pushsweep_run", "kind = 'environments'") == 2)
        try stage.run("check").ends(
            0,
            "APNs calls 84 tokens bad here that were asked about in the sandbox, and knows 65 of them there"
        )
        try stage.run("audit").ends(0, "wrong-environment")
        try stage.run("preflight", "--read-only", "--app", "chat", "--environment", "production")
            .says("wrong-environment")
    }

    @Test(
        "the printed statements move them, leave alone what changed meanwhile, and the others take the same rows back",
        arguments: TestEngine.available)
    func moved(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        _ = try stage.environments("--probe")
        let listed = try stage.run("environments", "--list", "-").ends(0).output
            .split(separator: "\n")
        #expect(listed.count == 69)
        #expect(listed.count { $0.contains(#""known":"dead""#) } == 5)
        #expect(!listed.joined().contains(DeviceToken.numbered(1).hex))
        // A row of the sandbox has this one too.
        try stage.database.register(
            .numbered(5), at: EnvironmentStage.registered, environment: "sandbox")
        let (entry, move, back) = try stage.statements()
        #expect(EnvironmentStage.sql(entry, "rows") == 64)
        #expect(EnvironmentStage.sql(entry, "taken") == 1)
        for path in [move, back] {
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
            #expect(mode as? Int == 0o600)
        }
        // One registers, one gets another token, the device of one registers there.
        try stage.database.register(.numbered(7), at: 1_750_000_000_000, environment: "sandbox")
        try stage.database.update(
            "registered_at = ?", [stage.database.time(1_750_000_000_000)], of: 0)
        try stage.database.update(
            "device_token = ?", [.bytes(DeviceToken.numbered(900).bytes)], of: 1)
        try stage.execute(file: move)
        #expect(try stage.moved() == 2 + 65)
        let stay = try stage.database.rows(
            where: "environment = 'production' AND id IN (1, 2, 6, 8)")
        #expect(stay == 4)
        // They are no suspects of production any more.
        try stage.run("sweep").ends(0)
        #expect(try stage.environments()["accepted"] as? Int == 2)
        // A registration after the move is nobody's to take back.
        try stage.database.update(
            "registered_at = ?", [stage.database.time(1_760_000_000_000)], of: 3)
        try stage.execute(file: back)
        #expect(try stage.moved() == 2 + 1)
        // The way back is nobody's to lose.
        try stage.run("environments", "--sql", move).ends(64, "is there already", "the way back")
        #expect(try stage.database.marked == 0)
    }

    @Test(
        "statements find rows by values of any kind, and a column that moves by itself stays as it is",
        arguments: TestEngine.available)
    func oddValues(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(
            engine, rows: 0..<0, misplaced: 0..<6, unknown: 6..<9, schema: false)
        try stage.database.createSideTables()
        let isServer = engine == .mariaDB
        try stage.database.execute(
            isServer
                ? "CREATE TABLE active_users (name VARCHAR(60) NOT NULL, part INT UNSIGNED NOT NULL, "
                    + "device_token CHAR(64) NOT NULL, environment ENUM('PRODUCTION', 'sandbox') NOT NULL, "
                    + "registered_at TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6), "
                    + "PRIMARY KEY (name, part))"
                : "CREATE TABLE active_users (name TEXT NOT NULL, part INTEGER NOT NULL, device_token TEXT, "
                    + "environment TEXT, registered_at TEXT, PRIMARY KEY (name, part))")
        stage.activeUsers = """
              active-users:
                key: [name, part]
                token: {encoding: hex}
                app: {column: none}
                environment: {values: {production: PRODUCTION}}
                registered-at: {type: datetime, zone: '+00:00'}
            """
        let names = ["it's", "a;\nb", "é\u{301}", "back\\slash", "`x`", "plain", "7", "8", "9"]
        for (number, name) in names.enumerated() {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, ?, 'PRODUCTION', \(number == 5 ? "NULL" : "'2020-01-02 03:04:05.123456'"))",
                [
                    .text(name), .integer(4_000_000_000 + Int64(number)),
                    .text(DeviceToken.numbered(number).hex),
                ])
        }
        try stage.reportBad(0..<9)
        _ = try stage.environments("--probe")
        let before = try stage.database.texts(
            "SELECT name, registered_at FROM active_users ORDER BY part")
        let (entry, move, back) = try stage.statements()
        #expect(EnvironmentStage.sql(entry, "rows") == 6)
        // A client with another zone and another character set.
        let other =
            isServer ? ["SET time_zone = '+05:30'", "SET NAMES latin1", "SET sql_mode = ''"] : []
        try stage.execute(file: move, after: other)
        #expect(try stage.moved() == 6)
        try stage.execute(file: back, after: other)
        #expect(try stage.moved() == 0)
        let after = try stage.database.texts(
            "SELECT name, registered_at FROM active_users ORDER BY part")
        #expect(before == after)
    }
}
