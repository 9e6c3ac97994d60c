import APNsProtocol
import APNsSimulator
import TestSupport
import Testing

@Suite("Sending to a gateway that refuses everything")
struct SendRefusalTests {
    private static func script(_ usual: ScriptedAction) -> ProviderScript {
        var script = ProviderScript()
        script.usual = usual
        return script
    }

    private static func attempts(_ stage: SendStage) throws -> [String] {
        try stage.database.texts("SELECT DISTINCT attempts FROM push_queue ORDER BY 1").map {
            $0[0]
        }
    }

    @Test(
        "an answer about the credential or APNs stops the app, costs no row an attempt, and is told",
        arguments: [
            "TooManyProviderTokenUpdates", "ServiceUnavailable", "InternalServerError",
            "body:429:busy", "body:502:<html>", "reset:7",
        ])
    func everything(_ answer: String) throws {
        let stage = try SendStage(rows: 300, script: Self.script(ScriptedAction(answer)))
        // The next attempt would be the last one.
        try stage.database.execute("UPDATE push_queue SET attempts = 9")
        for _ in 0..<2 {
            try stage.send().ends(
                75, "notifications in a row", "served none", "have had no attempt")
        }
        #expect(try stage.states()["failed"] == nil)
        #expect(try stage.states()["pending", default: 0] >= 282)
        #expect(try Self.attempts(stage) == ["9"])
    }

    @Test("from some answer on: what was on the wire and a few more are refused, the rest waits")
    func midway() throws {
        var script = ProviderScript()
        for number in 201...6_000 {
            script.sequence[number] = .reply(ScriptedReply(.serviceUnavailable))
        }
        let stage = try SendStage(rows: 4_000, script: script)
        try stage.send().ends(75, "ServiceUnavailable", "after it had served others")
        let states = try stage.states()
        #expect(states["sent"] == 200, "\(states)")
        #expect(states["pending", default: 0] > 1_000, "\(states)")
        // A refusal that is written before the last answer to another row counts.
        let tried = try stage.database.count("SELECT COUNT(*) FROM push_queue WHERE attempts > 0")
        #expect((200...230).contains(tried))
    }

    @Test("rows that alone are refused do not stand before the others for ever")
    func poison() throws {
        var script = ProviderScript()
        for number in 0..<12 {
            script.tokens[.numbered(number)] = .reply(ScriptedReply(.internalServerError))
        }
        let stage = try SendStage(rows: 60, script: script)
        try stage.send().ends(75, "InternalServerError")
        _ = try stage.send()
        #expect(try stage.states()["sent"] == 48)
    }

    @Test(
        "rows that are closed as failed are told with reason and number, and more than one in ten is 65"
    )
    func failed() throws {
        for (rows, refused, exit) in [(40, 1, Int32(0)), (40, 30, 65)] {
            var script = ProviderScript()
            for number in 0..<refused {
                script.tokens[.numbered(number)] = .reply(ScriptedReply(.payloadTooLarge))
            }
            let stage = try SendStage(rows: rows, script: script)
            let result = try stage.send()
            #expect(result.exit == exit)
            result.says("\(refused) of \(rows) notifications", "\(refused) PayloadTooLarge")
        }
    }

    @Test("a run of many rows that sends none says so")
    func skipsAll() throws {
        let stage = try SendStage(rows: 0)
        try stage.queue(0..<50)
        try stage.send().ends(0, "none of 50 notifications was sent", "50 unknown")
    }
}
