import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000

@Suite("Sending to a gateway that misbehaves")
struct SendTroubleTests {
    private static func stage(
        _ rows: Int, script: ProviderScript = ProviderScript(),
        scenario: ProviderScenario = ProviderScenario()
    ) throws -> SendStage {
        let stage = try SendStage(script: script, scenario: scenario)
        try stage.database.register(0..<rows, at: registered)
        try stage.queue(0..<rows)
        return stage
    }

    @Test("the sender leaves a gateway that allows no more streams, and unsent rows wait")
    func noStreams() throws {
        var scene = ProviderScenario.Connection()
        scene.set(.changeStreams(0), at: 100)
        let stage = try Self.stage(500, scenario: ProviderScenario([scene]))
        stage.lines = "send: {request-timeout: 1s}"
        let result = try stage.send()
        let accepted = stage.gateway.log.totals.answered[200] ?? 0
        let states = try stage.states()
        #expect(states["sent"] == accepted && accepted >= 100, "\(result.error)")
        #expect(states["sent", default: 0] + states["pending", default: 0] == 500)
        #expect(result.exit == (accepted == 500 ? 0 : 69), "\(result.error)")
        #expect(stage.gateway.log.acceptedTwice.isEmpty)
    }

    @Test("a notification that is refused repeatedly waits for its next try")
    func refusesAll() throws {
        var script = ProviderScript()
        script.usual = .reset(.refusedStream)
        let stage = try Self.stage(1, script: script)
        let result = try stage.send()
        #expect(result.exit == 0, "\(result.error)")
        #expect(result.app()["retry"] as? Int == 1)
        #expect(stage.gateway.log.totals.requests > 1)
        #expect(try stage.states() == ["retry": 1])
    }

    @Test("a gateway that refuses our certificate has read none of the requests already sent")
    func refusedCertificate() throws {
        let stage = try Self.stage(3)
        let key = try stage.folder.write("AuthKey.p8", try SigningKey().pem())
        stage.credential = "token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}"
        let result = try stage.send()
        #expect(result.exit == 78, "\(result.error)")
        #expect(result.error.contains("asks for a client certificate"), "\(result.error)")
        #expect(try stage.states() == ["pending": 3])
    }

    @Test("one of two connections that cannot be made does not stop the other")
    func oneOfTwo() throws {
        let stage = try Self.stage(
            400, scenario: ProviderScenario([.init(actions: [.resetConnection]), .init()]))
        let result = try stage.send()
        #expect(result.exit == 0, "\(result.error)")
        let states = try stage.states()
        #expect(states["sent", default: 0] + states["unknown", default: 0] == 400)
        #expect(states["sent", default: 0] > 0)
    }

    @Test(
        "a batch that cannot be recorded as handed over is given back, and none of it is sent",
        arguments: TestEngine.available)
    func handOverFails(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.register(0..<40, at: registered)
        try stage.queue(0..<40)
        try stage.database.sql.run(
            engine == .mariaDB
                ? "CREATE TRIGGER no_hand_over BEFORE UPDATE ON pushsweep_claim FOR EACH ROW "
                    + "IF NEW.state = 'handed' THEN SIGNAL SQLSTATE '45000' "
                    + "SET MESSAGE_TEXT = 'not today'; END IF"
                : "CREATE TRIGGER no_hand_over BEFORE UPDATE ON pushsweep_claim "
                    + "WHEN NEW.state = 'handed' BEGIN SELECT RAISE(ABORT, 'not today'); END")
        let failed = try stage.send()
        #expect(failed.exit != 0 && failed.error.contains("not today"), "\(failed.error)")
        // Before the gateway's first answer no more are claimed.
        #expect(failed.app()["returned"] as? Int == 3)
        #expect(failed.app()["claimed"] as? Int == 0)
        #expect(try stage.states() == ["pending": 40])
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM pushsweep_claim WHERE state IN ('held', 'handed')") == 0)
        #expect(stage.gateway.log.totals.requests == 0)
        try stage.database.sql.run("DROP TRIGGER no_hand_over")
        let sent = try stage.send()
        #expect(sent.exit == 0 && sent.app()["sent"] as? Int == 40, "\(sent.error)")
        #expect(stage.gateway.log.acceptedTwice.isEmpty)
    }

    @Test("a batch whose lease was taken writes nothing more, and the run says so")
    func leaseTaken() throws {
        var script = ProviderScript()
        script.tokens[.numbered(3)] = .stall
        let stage = try Self.stage(40, script: script)
        stage.lines = "send: {request-timeout: 3s}"
        let running = try stage.start(["send", "--format", "json"])
        let deadline = Deadline.in(.seconds(30))
        while stage.gateway.log.totals.requests < 40 && !deadline.hasPassed { usleep(5_000) }
        try stage.database.execute("UPDATE pushsweep_claim SET state = 'taken' WHERE id > 0")
        let result = running.wait()
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.error.contains("send.lease"), "\(result.error)")
        // Results from before the lease was taken stay; later ones are not written.
        let states = try stage.states()
        #expect(states["unknown"] == nil && states["pending", default: 0] >= 1, "\(states)")
    }
}
