import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("What is asked, and what is listed")
struct EnvironmentRefusalTests {
    @Test(
        "a row that registered since is listed nowhere, and one whose token a row of the other environment has is counted",
        arguments: TestEngine.available)
    func staying(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 0..<5)
        try stage.reportBad(0..<5)
        _ = try stage.environments("--probe")
        try stage.database.update(
            "registered_at = ?", [stage.database.time(1_750_000_000_000)], of: 0)
        try stage.database.register(
            .numbered(1), at: 1_600_000_000_000, environment: "sandbox")
        try stage.database.update(
            "invalidated_at = ?", [stage.database.time(1_710_000_000_000)], of: 2)
        let (found, _, _) = try stage.statements()
        #expect(found["elsewhereToo"] as? Int == 1 && found["bad"] as? Int == 4)
        #expect(found["registeredSince"] as? Int == 1)
        #expect(
            EnvironmentStage.sql(found, "rows") == 2 && EnvironmentStage.sql(found, "taken") == 1)
        let listed = try stage.run("environments", "--list", "-").ends(0).output
        #expect(listed.split(separator: "\n").count == 3)
        #expect(listed.split(separator: "\n").count { $0.contains(#""taken":true"#) } == 1)
    }

    @Test(
        "what other senders and logs say proves as much as a probe, where the account has the printed rights alone",
        arguments: TestEngine.available)
    func reported(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 3..<4)
        for number in 0..<6 {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "BadDeviceToken")
        }
        for (number, status) in [(0, 200), (1, 410), (2, 400)] {
            _ = try stage.database.sql.execute(
                "INSERT INTO pushsweep_evidence (app, environment, device_token, status, reason, timestamp_ms) "
                    + "VALUES ('chat', 'sandbox', ?, ?, ?, 1700000000000)",
                [
                    .text(DeviceToken.numbered(number).hex), .integer(Int64(status)),
                    status == 200
                        ? .null : .text(status == 410 ? "Unregistered" : "BadDeviceToken"),
                ])
        }
        let account = engine == .mariaDB ? try ServerAccount(of: stage.database) : nil
        if let account {
            let printed = try stage.run("check", "--grants", account.name).ends(0)
            try account.grant(printedBy: printed.output)
        }
        let own = account?.environment ?? [:]
        try stage.run(["sweep"], environment: own).ends(0)
        // Bad in both is known once the row is suspected.
        _ = try stage.database.sql.execute(
            "INSERT INTO pushsweep_evidence (app, environment, device_token, status, reason, timestamp_ms) "
                + "VALUES ('chat', 'sandbox', ?, 400, 'BadDeviceToken', 1700000001000)",
            [.text(DeviceToken.numbered(2).hex)])
        try stage.run(["sweep"], environment: own).ends(0)
        try stage.run(["environments"], environment: own).ends(
            0, "accepted in the sandbox: 1, dead there: 1; these belong there",
            "bad in both: 1, not asked there: 3")
        // A log of the sandbox's sender knows one, and calls another one dead.
        let log = try stage.folder.write(
            "log.jsonl",
            """
            {"device_token": "\(DeviceToken.numbered(4).hex)", "status": 200, "timestamp_ms": 1700000001000}
            {"device_token": "\(DeviceToken.numbered(5).hex)", "status": 410, "reason": "Unregistered", "timestamp_ms": 1700000002000}

            """)
        try stage.run(
            ["import", log, "--from", "jsonl", "--app", "chat", "--environment", "sandbox"],
            environment: own
        ).ends(0)
        try stage.run(["environments"], environment: own).ends(
            0, "accepted in the sandbox: 2, dead there: 2; these belong there",
            "bad in both: 1, not asked there: 1")
        try stage.run(["environments", "--probe"], environment: own).ends(
            0, "accepted in the sandbox: 3, dead there: 2; these belong there",
            "the sandbox was asked about 1 token: accepted 1, dead 0")
        try stage.run(["audit"], environment: own).ends(
            0, "of them it knows in the other environment")
        // What knows a token goes before what calls it bad, whatever comes later or names a later time.
        for (number, status, time) in [(0, 400, 1_700_000_009_000), (2, 410, 1_690_000_000_000)] {
            _ = try stage.database.sql.execute(
                "INSERT INTO pushsweep_evidence (app, environment, device_token, status, reason, timestamp_ms) "
                    + "VALUES ('chat', 'sandbox', ?, ?, ?, ?)",
                [
                    .text(DeviceToken.numbered(number).hex), .integer(Int64(status)),
                    .text(status == 400 ? "BadDeviceToken" : "Unregistered"), .integer(Int64(time)),
                ])
        }
        try stage.run(["sweep"], environment: own).ends(0)
        try stage.run(["environments"], environment: own).ends(
            0, "accepted in the sandbox: 3, dead there: 3; these belong there", "bad in both: 0")
        try stage.run(
            ["environments", "--sql", stage.folder.file("move.sql")], environment: own
        ).ends(0, "statements for 6 rows")
        #expect(try stage.database.marked == 0)
    }

    @Test("nobody is asked where no answer would prove anything")
    func unasked() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<40, misplaced: 0..<5)
        try stage.reportBad(0..<5)
        let ports = stage.ports
        stage.ports.sandbox = ports.production
        try stage.run("environments", "--probe").ends(
            78, "both environments have the gateway", "an answer would prove nothing")
        stage.ports = ports
        stage.namesSandbox = false
        try stage.run("environments", "--probe").ends(
            78, "the settings name no provider of chat/sandbox")
        stage.namesSandbox = true
        stage.namesProvider = false
        try stage.run("environments", "--probe").ends(
            78, "the settings name no provider of chat/production",
            "asked about three of them first")
        stage.namesProvider = true
        #expect(stage.sandbox.log.totals.requests + stage.production.log.totals.requests == 0)
        try stage.run("environments", "--probe", "--limit", "0").ends(64)
        try stage.run("environments", "--dry-run").ends(64, "--dry-run goes with")
        try stage.run("environments", "--limit", "3").ends(64, "go with --probe only")
        // Nothing was written by any of it.
        #expect(try stage.environments()["notAsked"] as? Int == 5)
        #expect(try stage.environments("--probe", "--limit", "2")["notAsked"] as? Int == 3)
    }

    @Test(
        "an answer 403 ends a probe, says that the credential is wrong, and tells nothing of tokens"
    )
    func forbidden() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<400, misplaced: 0..<300)
        try stage.reportBad(0..<300)
        let certificates = try SweepStage.certificates.get()
        let gateway = try ProviderGateway(
            certificates: certificates, rules: ProviderRules(authentication: .token([:])),
            scenario: ProviderScenario())
        stage.ports.sandbox = gateway.port
        try stage.run("environments", "--probe").ends(
            78, "it answered 403", "nothing is known of the tokens by it")
        #expect(gateway.log.totals.requests == 1)
        #expect(stage.production.log.totals.requests == 0)
        #expect(try stage.environments()["notAsked"] as? Int == 300)
    }

    @Test("a gateway that says nothing of tokens here leaves those there unasked")
    func silentControls() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<40, misplaced: 0..<20, silentHere: 0..<20)
        stage.lines = "send: {request-timeout: 1s}"
        try stage.reportBad(0..<20)
        let refused = try stage.run("environments", "--probe", "--format", "json").ends(69)
        #expect(refused.output.contains("it gave no answer about 3 tokens"))
        // The made-up one alone.
        #expect(stage.sandbox.log.totals.requests == 1)
        #expect(stage.asked.isEmpty)
        #expect(try stage.environments()["notAsked"] as? Int == 20)
        // Another try asks no other devices.
        try stage.run("environments", "--probe").ends(69)
        #expect(stage.production.log.requestsByToken.count == 3)
    }

    @Test("a gateway that accepts any token proves nothing, and nobody is asked")
    func accepting() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<40, misplaced: 0..<5)
        try stage.reportBad(0..<5)
        let gateway = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate), scenario: ProviderScenario())
        stage.ports.sandbox = gateway.port
        try stage.run("environments", "--probe").ends(
            78, "it knows it (Accepted), so its answers prove nothing")
        #expect(gateway.log.totals.requests == 1)
        #expect(try stage.environments()["notAsked"] as? Int == 5)
    }

    @Test(
        "a probe that no token is known by ends after 50 answers, and asks them again only when told to"
    )
    func nobody() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<400, misplaced: 0..<0, unknown: 0..<200)
        try stage.reportBad(0..<200)
        try stage.run("environments", "--probe").ends(78, "it knows none of 50")
        #expect(stage.asked.count == 50)
        #expect(try stage.environments()["neither"] as? Int == 50)
        try stage.run("environments", "--probe", "--again", "--limit", "20").ends(0)
        #expect(stage.asked.values.reduce(0, +) == 70)
    }

    @Test(
        "rows whose environment is in the key are moved by their statements, too",
        arguments: TestEngine.available)
    func inKey(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(
            engine, rows: 0..<0, misplaced: 0..<5, unknown: 5..<8, schema: false)
        try stage.database.createSideTables()
        let (bytes, word) =
            engine == .mariaDB ? ("VARBINARY(64)", "VARCHAR(16)") : ("BLOB", "TEXT")
        try stage.database.execute(
            "CREATE TABLE active_users (device_token \(bytes), environment \(word), registered_at DATETIME, "
                + "app_id \(word), PRIMARY KEY (device_token, environment))")
        for number in 0..<8 {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, 'production', ?, 'chat')",
                [
                    .bytes(DeviceToken.numbered(number).bytes),
                    stage.database.time(EnvironmentStage.registered),
                ])
        }
        stage.activeUsers = "  active-users: {key: [device_token, environment]}"
        try stage.reportBad(0..<8)
        try stage.run("environments", "--probe").ends(0)
        let whole = try stage.run("environments", "--list", "-", "--whole-tokens").ends(0)
        #expect(whole.output.contains(DeviceToken.numbered(1).hex))
        let (entry, move, back) = try stage.statements()
        #expect(EnvironmentStage.sql(entry, "rows") == 5)
        try stage.execute(file: move)
        #expect(try stage.moved() == 5)
        try stage.execute(file: back)
        #expect(try stage.moved() == 0)
    }

    @Test(
        "where no column of its own says the environment, the rows are listed and no statement is printed"
    )
    func unmovable() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<0, misplaced: 0..<5, unknown: 5..<8, schema: false)
        try stage.database.createSideTables()
        try stage.database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token BLOB, dev INTEGER, "
                + "environment TEXT GENERATED ALWAYS AS (CASE dev WHEN 1 THEN 'sandbox' ELSE 'production' END), "
                + "registered_at DATETIME, app_id TEXT)")
        for number in 0..<8 {
            try stage.database.execute(
                "INSERT INTO active_users (device_token, dev, registered_at, app_id) VALUES (?, 0, ?, 'chat')",
                [
                    .bytes(DeviceToken.numbered(number).bytes),
                    stage.database.time(EnvironmentStage.registered),
                ])
        }
        try stage.reportBad(0..<8)
        try stage.run("environments", "--probe").ends(0)
        let sql = stage.folder.file("move.sql")
        try stage.run("environments", "--sql", sql).ends(
            78, "environment is computed from other columns", "--list FILE lists them")
        let listed = try stage.run("environments", "--list", "-").ends(0)
        #expect(listed.output.split(separator: "\n").count == 5)
        #expect(!listed.output.contains(DeviceToken.numbered(1).hex))
        try stage.run("environments", "--sql", "-").ends(64, "--sql writes two files")
    }
}
