import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("Moves and probes in doubt")
struct EnvironmentDoubtTests {
    @Test(
        "a move that was held moves no row that APNs accepted since, and no row of an app that the settings do not name",
        arguments: TestEngine.available)
    func overtaken(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<600, misplaced: 0..<60)
        try stage.reportBad(0..<60)
        _ = try stage.environments("--probe")
        _ = try stage.environments("--apply", exit: 3)
        for number in 0..<40 {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: 200, time: EnvironmentStage.bad + 1_000)
        }
        try stage.run("sweep").ends(3)
        let shown = try stage.run("holds", "show", "--format", "json").ends(0)
        #expect(shown.json["candidates"] as? Int == 20 && shown.json["refused"] as? Int == 40)
        let digest = try #require(shown.json["digest"] as? String)
        stage.namesSandbox = false
        try stage.run("holds", "release", digest, "--reason", "looked").ends(
            78, "the settings name no chat/sandbox")
        #expect(try stage.moved() == 0)
        stage.namesSandbox = true
        try stage.run("holds", "release", digest, "--reason", "looked").ends(
            65, "20 moved to the other environment",
            "nothing proves any more that its token is of the other environment")
        #expect(try stage.moved() == 20)
        #expect(try stage.database.rows(where: "environment = 'sandbox' AND id <= 40") == 0)
    }

    @Test(
        "an undo leaves a row where it is whose token another row registered since, and one that died there",
        arguments: TestEngine.available)
    func takenBack(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 0..<4)
        stage.lines = EnvironmentStage.anyNumber
        try stage.database.execute(
            engine == .sqlite
                ? "DROP INDEX active_users_device" : "DROP INDEX device ON active_users",
            on: engine)
        try stage.database.execute("CREATE INDEX tokens ON active_users (device_token)")
        try stage.reportBad(0..<4)
        _ = try stage.environments("--probe")
        #expect(EnvironmentStage.move(try stage.environments("--apply"), "applied") == 4)
        let later = Int64(Date().timeIntervalSince1970 * 1_000) + 60_000
        try stage.database.register(.numbered(0), at: later)
        try stage.database.update(
            "invalidated_at = ?, invalid_reason = 'Unregistered'",
            [stage.database.time(EnvironmentStage.bad)], of: 1)
        let run = try #require(
            try stage.database.texts("SELECT run FROM pushsweep_change WHERE action = 'move'")
                .first?.first)
        let forecast = try stage.run("undo", run, "--dry-run", "--format", "json").ends(0)
        #expect(forecast.json["restored"] as? Int == 2)
        let undone = try stage.run("undo", run, "--format", "json").ends(0)
        #expect(undone.json["restored"] as? Int == 2)
        let kept = undone.json["kept"] as? [String: Int]
        #expect(kept == ["taken": 1, "changed": 1])
        #expect(try stage.moved() == 2)
    }

    @Test("a column that keeps another word than it is given moves no row", .needsServer)
    func spelling() throws {
        let stage = try EnvironmentStage(.mariaDB, rows: 0..<40, misplaced: 0..<4)
        stage.lines = EnvironmentStage.anyNumber
        try stage.database.execute(
            "ALTER TABLE active_users MODIFY environment ENUM('production', 'Sandbox') NOT NULL")
        try stage.reportBad(0..<4)
        _ = try stage.environments("--probe")
        let moved = try stage.environments("--apply", exit: 65)
        #expect(
            EnvironmentStage.move(moved, "applied") == 0
                && EnvironmentStage.move(moved, "refused") == 4)
        #expect(try stage.moved() == 0)
    }

    @Test("one gateway under two names, and rows with other apps in their column, are refused")
    func oneGateway() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<40, misplaced: 0..<0)
        stage.lines = EnvironmentStage.anyNumber
        // A sender with a wrong certificate had called good tokens bad.
        try stage.reportBad(0..<10)
        stage.sandboxHost = "localhost"
        stage.ports.sandbox = stage.ports.production
        try stage.run("environments", "--probe", "--apply").ends(
            78, "it knows 3 of them after all", "gateways of the environments are exchanged or one")
        #expect(try stage.moved() == 0)
        #expect(try stage.environments()["bad"] as? Int == 10)
        stage.sandboxValue = "chatdev"
        try stage.run("environments", "--probe").ends(78, "its rows have the app `chat`")
        try stage.run("environments").ends(0, "another app in the column")
    }

    @Test(
        "what a probe heard and was killed before it stored or moved it whole counts, and a replay names where it is",
        arguments: TestEngine.available)
    func unfinished(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<40, misplaced: 0..<2, dead: 2..<5)
        try stage.reportBad(0..<5)
        _ = try stage.environments("--probe")
        let heard = "inlet = 'probe' AND source = 'Unregistered'"
        let feed = try #require(
            try stage.database.texts("SELECT feed FROM pushsweep_feed WHERE \(heard)").first?.first)
        try stage.database.execute(
            "UPDATE pushsweep_feed SET state = 'filling' WHERE \(heard) AND part = 0")
        let applied = try stage.environments("--apply")
        #expect(EnvironmentStage.move(applied, "applied") == 5 && applied["deaths"] as? Int == 3)
        #expect(stage.asked.values.allSatisfy { $0 == 1 })
        try stage.run("replay", "--feed", feed).ends(64, "its reports moved into batch")
    }

    @Test("a refusal in the middle of a group, and a stop, lose no answer that was heard")
    func heard() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<100, misplaced: 0..<40, special: [.numbered(7): .topicDisallowed])
        try stage.reportBad(0..<40)
        try stage.run("environments", "--probe").ends(78, "it answered 400 TopicDisallowed")
        #expect(stage.asked.values.allSatisfy { $0 == 1 })
        #expect(try stage.environments()["accepted"] as? Int == stage.asked.count - 1)
        let silent = try EnvironmentStage(
            .sqlite, rows: 0..<100, misplaced: 0..<20, special: [.numbered(7): .stall])
        try silent.reportBad(0..<20)
        let tool = try silent.start(["environments", "--probe"])
        eventually(seconds: 20) { silent.asked.count == 20 }
        tool.signal(SIGTERM)
        tool.wait().ends(75)
        // What was heard waits in the database for a run whose settings name the environment, or that is about it.
        silent.namesSandbox = false
        try silent.run("sweep").ends(0)
        #expect(try silent.environments()["accepted"] as? Int == 0)
        silent.namesSandbox = true
        #expect(EnvironmentStage.move(try silent.environments("--apply"), "applied") == 19)
    }
}
