import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

@Suite("Sending to a gateway that misbehaves")
struct SendTroubleTests {
    @Test("the sender leaves a gateway that allows no more streams, and unsent rows wait")
    func noStreams() throws {
        var scene = ProviderScenario.Connection()
        scene.set(.changeStreams(0), at: 100)
        let stage = try SendStage(
            rows: 500, scenario: ProviderScenario([scene]), lines: "send: {request-timeout: 1s}")
        let result = try stage.send()
        let accepted = stage.gateway.log.totals.answered[200] ?? 0
        let states = try stage.states()
        #expect(states["sent"] == accepted && accepted >= 100, "\(result.error)")
        #expect(states["sent", default: 0] + states["pending", default: 0] == 500)
        result.ends(accepted == 500 ? 0 : 69)
        #expect(stage.gateway.log.acceptedTwice.isEmpty)
    }

    @Test("a refused stream waits for its next try, and a refused certificate has sent nothing")
    func refused() throws {
        var script = ProviderScript()
        script.usual = .reset(.refusedStream)
        let stage = try SendStage(rows: 1, script: script)
        try stage.send().ends(75, "stream refused").app(has: ["retry": 1])
        #expect(stage.gateway.log.totals.requests > 1)
        #expect(try stage.states() == ["retry": 1])
        let other = try SendStage(rows: 3)
        let key = try other.folder.write("AuthKey.p8", try SigningKey().pem())
        other.credential = "token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}"
        try other.send().ends(78, "asks for a client certificate")
        #expect(try other.states() == ["pending": 3])
    }

    @Test("one of two connections that cannot be made does not stop the other")
    func oneOfTwo() throws {
        let stage = try SendStage(
            rows: 400, scenario: ProviderScenario([.init(actions: [.resetConnection]), .init()]))
        try stage.send().ends(0)
        let states = try stage.states()
        #expect(states["sent", default: 0] + states["unknown", default: 0] == 400)
        #expect(states["sent", default: 0] > 0)
    }

    @Test(
        "a batch that cannot be recorded as handed over is given back, and none of it is sent",
        arguments: TestEngine.available)
    func handOverFails(_ engine: TestEngine) throws {
        let stage = try SendStage(engine, rows: 40)
        try stage.database.sql.run(
            engine == .mariaDB
                ? "CREATE TRIGGER no_hand_over BEFORE UPDATE ON pushsweep_claim FOR EACH ROW "
                    + "IF NEW.state = 'handed' THEN SIGNAL SQLSTATE '45000' "
                    + "SET MESSAGE_TEXT = 'not today'; END IF"
                : "CREATE TRIGGER no_hand_over BEFORE UPDATE ON pushsweep_claim "
                    + "WHEN NEW.state = 'handed' BEGIN SELECT RAISE(ABORT, 'not today'); END")
        // Before the gateway's first answer no more are claimed.
        let failed = try stage.send().says("not today").app(has: ["returned": 3, "claimed": 0])
        #expect(failed.exit != 0)
        #expect(try stage.states() == ["pending": 40])
        #expect(try stage.database.rows(of: "pushsweep_claim", "state IN ('held', 'handed')") == 0)
        #expect(stage.gateway.log.totals.requests == 0)
        try stage.database.sql.run("DROP TRIGGER no_hand_over")
        try stage.send().ends(0).app(has: ["sent": 40])
        #expect(stage.gateway.log.acceptedTwice.isEmpty)
    }

    @Test("a batch whose lease was taken writes nothing more, and the run says so")
    func leaseTaken() throws {
        var script = ProviderScript()
        script.tokens[.numbered(3)] = .stall
        let stage = try SendStage(
            rows: 40, script: script, lines: "send: {request-timeout: 3s}")
        let running = try stage.start(["send", "--format", "json"])
        eventually { stage.gateway.log.totals.requests == 40 }
        try stage.database.execute("UPDATE pushsweep_claim SET state = 'taken' WHERE id > 0")
        running.wait().ends(75, "send.lease")
        // Results from before the lease was taken stay; later ones are not written.
        let states = try stage.states()
        #expect(states["unknown"] == nil && states["pending", default: 0] >= 1, "\(states)")
    }
}
