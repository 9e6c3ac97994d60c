import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("What proves no environment")
struct EnvironmentDoubtTests {
    /// A stage with a gateway that answers in another way in place of one of its own.
    private static func gateway(_ script: ProviderScript) throws -> ProviderGateway {
        try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate, script: script),
            scenario: ProviderScenario())
    }

    private static let bad = ScriptedAction.reply(ScriptedReply(.badDeviceToken))

    @Test("one gateway under two names proves nothing, whatever it knows")
    func oneGateway() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<40, misplaced: 0..<0)
        // A sender with a wrong certificate had called good tokens bad.
        try stage.reportBad(0..<10)
        let ports = stage.ports
        stage.sandboxHost = "localhost"
        stage.ports.sandbox = ports.production
        try stage.run("environments", "--probe").ends(78, "both know it", "they are one gateway")
        #expect(try stage.environments()["notAsked"] as? Int == 10)
        // The same of the sandbox, under both names.
        let other = try EnvironmentStage(.sqlite, rows: 0..<40, misplaced: 0..<10)
        try other.reportBad(0..<10)
        other.sandboxHost = "localhost"
        other.ports.production = other.ports.sandbox
        try other.run("environments", "--probe").ends(78, "both know it")
        #expect(try other.environments()["notAsked"] as? Int == 10)
        stage.ports = ports
        stage.sandboxValue = "chatdev"
        try stage.run("environments", "--probe").ends(78, "its rows have the app `chat`")
        try stage.run("environments").ends(0, "another app in the column")
    }

    @Test("exchanged gateways prove nothing, and no suspicion is cleared by them")
    func exchangedGateways() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<40, misplaced: 0..<10)
        try stage.reportBad(0..<10)
        let ports = stage.ports
        stage.ports = (ports.sandbox, ports.production)
        try stage.run("environments", "--probe").ends(
            78, "it knows 9 of them after all", "the gateways of the environments are exchanged")
        let found = try stage.environments()
        #expect(found["notAsked"] as? Int == 10 && found["bad"] as? Int == 10)
    }

    @Test(
        "a gateway that begins in the middle to accept whatever it gets proves nothing from there on"
    )
    func liar() throws {
        let stage = try EnvironmentStage(.sqlite, rows: 0..<400, misplaced: 0..<300)
        try stage.reportBad(0..<300)
        var script = ProviderScript()
        script.usual = Self.bad
        // Its first group has some that it knows, and the second is a lie.
        for number in 2..<30 { script.sequence[number] = .reply(.accepted) }
        for number in 80..<2_000 { script.sequence[number] = .reply(.accepted) }
        let gateway = try Self.gateway(script)
        stage.ports.sandbox = gateway.port
        try stage.run("environments", "--probe").ends(
            78, "it knows it (Accepted), so its answers prove nothing",
            "nothing of its last answers is kept")
        let found = try stage.environments()
        #expect(found["accepted"] as? Int == 28)
        #expect(found["neither"] as? Int == 22 && found["notAsked"] as? Int == 250)
    }

    @Test(
        "where nine of ten are of the other environment, values may be exchanged: it is told, and no statement is printed",
        arguments: TestEngine.available)
    func exchangedValues(_ engine: TestEngine) throws {
        let stage = try EnvironmentStage(engine, rows: 0..<200, misplaced: 0..<45, unknown: 45..<52)
        try stage.reportBad(0..<50)
        _ = try stage.environments("--probe")
        let sql = stage.folder.file("move.sql")
        let found = try stage.environments("--sql", sql, exit: 78)
        #expect(found["exchanged"] as? Bool == true)
        #expect(EnvironmentStage.sql(found, "rows") == 0)
        #expect(!FileManager.default.fileExists(atPath: sql))
        #expect(!FileManager.default.fileExists(atPath: sql + ".back"))
        try stage.run("environments").ends(
            0, "next: nine of ten answers", "may be exchanged", "DELETE FROM pushsweep_suspect")
        let gate = ["preflight", "--read-only", "--app", "chat", "--environment", "production"]
        for look in [["check"], ["audit", "--format", "json"], gate] {
            try stage.run(look).says("values or gateways may be exchanged")
        }
        // The list is there for whoever knows better.
        let listed = try stage.run("environments", "--list", "-").ends(0).output
        #expect(listed.split(separator: "\n").count == 45)
        // With one more that belongs to neither they are rows like others.
        try stage.reportBad(50..<52)
        #expect(try stage.environments()["exchanged"] as? Bool == true)
        _ = try stage.environments("--probe")
        let more = try stage.environments("--sql", sql)
        #expect(EnvironmentStage.sql(more, "rows") == 45)
    }

    @Test("a control that is known here is cleared, and others take its place")
    func controls() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<40, misplaced: 1..<8, unknown: 8..<12)
        // The first one is good: its device registered nothing, and its credential was wrong.
        try stage.reportBad(0..<12)
        let found = try stage.environments("--probe")
        #expect(found["accepted"] as? Int == 7 && found["neither"] as? Int == 4)
        // It is a suspect no more, and the sandbox was asked about it to tell two gateways apart.
        #expect(found["bad"] as? Int == 11)
        #expect(stage.production.log.requestsByToken.count == 4)
        let probe = found["probe"] as? [String: Any]
        #expect(probe?["asked"] as? Int == 11 && probe?["controls"] as? Int == 4)
    }

    @Test(
        "a refusal in the middle of a group, and a stop, keep nothing of it, and it is asked again")
    func refused() throws {
        let stage = try EnvironmentStage(
            .sqlite, rows: 0..<100, misplaced: 0..<80, unknown: 80..<90,
            special: [.numbered(57): .topicDisallowed])
        try stage.reportBad(0..<90)
        try stage.run("environments", "--probe").ends(78, "it answered 400 TopicDisallowed")
        // The group before stays.
        #expect(try stage.environments()["accepted"] as? Int == 50)
        let silent = try EnvironmentStage(
            .sqlite, rows: 0..<100, misplaced: 0..<20, special: [.numbered(7): .stall])
        try silent.reportBad(0..<20)
        let tool = try silent.start(["environments", "--probe"])
        eventually(seconds: 20) { silent.asked.count == 20 }
        tool.signal(SIGTERM)
        tool.wait().ends(75)
        #expect(try silent.environments()["notAsked"] as? Int == 20)
    }
}
