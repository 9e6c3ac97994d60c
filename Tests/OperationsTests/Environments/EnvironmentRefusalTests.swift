import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("What does not move")
struct EnvironmentRefusalTests {
    @Test(
        "more moves than half of what a removal may do are held, and any host shows, releases and undoes them",
        arguments: TestEngine.available)
    func held(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<600, misplaced: 0..<60)
        try stage.reportBad(0..<60)
        _ = try stage.environments("--probe")
        let trial = try stage.environments("--apply", "--dry-run", exit: 3)
        #expect(EnvironmentStage.move(trial, "candidates") == 60)
        let held = try stage.environments("--apply", exit: 3)
        #expect(EnvironmentStage.move(held, "held") == 60)
        #expect(try stage.moved() == 0)
        // A second wish makes no second hold.
        try stage.run("environments", "--apply").ends(3, "a move of 60 rows is held since")
        let other = ["PUSHSWEEP_STATE": stage.folder.file("another-host")]
        let shown = try stage.run(
            ["holds", "show", "--format", "json"], environment: other
        ).ends(0)
        #expect(shown.json["action"] as? String == "move")
        try stage.run(["holds", "show"], environment: other).ends(
            0, "60 of 600 living rows (10.0 %) would move to the other environment (move)",
            "moved to the other environment within an hour")
        let digest = try #require(shown.json["digest"] as? String)
        try stage.run(["holds", "release", digest, "--reason", "looked at"], environment: other)
            .ends(0)
        #expect(try stage.moved() == 60)
        let token = DeviceToken.numbered(3).hex
        try stage.run(["explain", token], environment: other).ends(
            0, "was moved to the sandbox", "the other environment knows it (proofs of chat/sandbox)"
        )
        let changes = try stage.run("changes", "--since", "n0").ends(0)
        #expect(
            changes.output.components(separatedBy: #""environment":"sandbox","evidence""#).count
                == 61)
        let run = try #require(
            try stage.database.texts("SELECT run FROM pushsweep_change LIMIT 1").first?.first)
        try stage.run(["undo", run], environment: other).ends(0)
        #expect(try stage.moved() == 0)
        let back = try stage.run("changes", "--since", "n0").ends(0)
        #expect(back.output.components(separatedBy: #""from":"sandbox""#).count == 61)
    }

    @Test(
        "a row that registered since stays, and so does one whose token a row of the other environment has",
        arguments: TestEngine.available)
    func staying(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 0..<5)
        stage.lines = EnvironmentStage.anyNumber
        try stage.reportBad(0..<5)
        _ = try stage.environments("--probe")
        try stage.database.update(
            "registered_at = ?", [stage.database.time(1_750_000_000_000)], of: 0)
        try stage.database.register(
            .numbered(1), at: 1_600_000_000_000, environment: "sandbox")
        try stage.database.update(
            "invalidated_at = ?", [stage.database.time(1_710_000_000_000)], of: 2)
        let there = try #require(
            try stage.database.texts("SELECT id FROM active_users WHERE environment = 'sandbox'")
                .first?.first)
        let found = try stage.environments()
        #expect(found["elsewhereToo"] as? Int == 1 && found["bad"] as? Int == 4)
        #expect(found["registeredSince"] as? Int == 1)
        let moved = try stage.environments("--apply", exit: 65)
        #expect(
            EnvironmentStage.move(moved, "applied") == 2
                && EnvironmentStage.move(moved, "newer") == 0)
        #expect(EnvironmentStage.move(moved, "refused") == 1)
        let refusals = (moved["move"] as? [String: Any])?["refusals"] as? [String] ?? []
        #expect(
            refusals.first?.contains("a unique key has the new value in another row, row \(there)")
                == true, "\(refusals)")
        #expect(try stage.moved() == 3)
    }

    @Test(
        "what other senders report proves as much as a probe, where the account has the printed rights alone",
        arguments: TestEngine.available)
    func reported(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 3..<4)
        stage.lines = EnvironmentStage.anyNumber
        try stage.database.report(
            DeviceToken.numbered(3).hex, status: 400, reason: "BadDeviceToken")
        for (number, status) in [(0, 200), (1, 410), (2, 400)] {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "BadDeviceToken")
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
            "bad in both: 1, not asked there: 1")
        try stage.run(["environments", "--probe"], environment: own).ends(
            0, "accepted in the sandbox: 2, dead there: 1; these belong there",
            "the sandbox was asked about 1 token: accepted 1, dead 0")
        try stage.run(["audit"], environment: own).ends(
            0, "of them it knows in the other environment")
        try stage.run(["environments", "--apply"], environment: own).ends(0, "3 rows moved")
        #expect(try stage.moved() == 3)
        let run = try #require(
            try stage.database.texts("SELECT run FROM pushsweep_change LIMIT 1").first?.first)
        try stage.run(["undo", run], environment: own).ends(0)
        #expect(try stage.moved() == 0)
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
        "a table whose environment is in no column, or in its key, is listed for the application and not changed"
    )
    func unmovable() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<0, misplaced: 0..<5, unknown: 5..<8, schema: false)
        try stage.database.createSideTables()
        try stage.database.execute(
            "CREATE TABLE active_users (device_token BLOB, environment TEXT, registered_at DATETIME, "
                + "app_id TEXT, PRIMARY KEY (device_token, environment))")
        for number in 0..<8 {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, 'production', ?, 'chat')",
                [
                    .bytes(DeviceToken.numbered(number).bytes),
                    stage.database.time(EnvironmentStage.registered),
                ])
        }
        stage.lines = EnvironmentStage.anyNumber
        try stage.reportBad(0..<8)
        try stage.run("environments", "--probe").ends(0)
        try stage.run("environments", "--apply").ends(
            78, "environment is a part of the key by which the ledger names rows")
        let listed = try stage.run("environments", "--list", "-").ends(0)
        let lines = listed.output.split(separator: "\n")
        #expect(
            lines.count { $0.contains(#""action":"move""#) && $0.contains(#""from":"production""#) }
                == 5
        )
        #expect(lines.count { $0.contains(#""known":"neither""#) } == 3)
        #expect(!listed.output.contains(DeviceToken.numbered(1).hex))
        let whole = try stage.run("environments", "--list", "-", "--whole-tokens").ends(0)
        #expect(whole.output.contains(DeviceToken.numbered(1).hex))
        #expect(try stage.database.rows(where: "environment = 'production'") == 8)
    }
}
