import APNsProtocol
import APNsSimulator
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000

@Suite("Sending in runs too small for the environment gate")
struct SendSmallRunTests {
    private static func stage(_ rows: Int, bad: some Sequence<Int>) throws -> SendStage {
        var script = ProviderScript()
        for number in bad {
            script.tokens[.numbered(number)] = .reply(ScriptedReply(.badDeviceToken))
        }
        let stage = try SendStage(script: script)
        try stage.database.register(0..<rows, at: registered)
        try stage.queue(0..<rows)
        return stage
    }

    /// Makes rows due now that wait for their next try.
    private static func passTime(_ stage: SendStage) throws {
        try stage.database.execute(
            "UPDATE push_queue SET not_before = ? WHERE state = 'retry'",
            [stage.database.time(1_600_000_000_000)])
    }

    @Test("no run closes a row while all of twenty tokens are called bad, and each says why")
    func wrongEnvironment() throws {
        let stage = try Self.stage(20, bad: 0..<20)
        for _ in 1...3 {
            let result = try stage.send()
            #expect(try stage.states() == ["retry": 20])
            #expect(result.exit == 78, "\(result.error)")
            #expect(result.error.contains("environment mismatch suspected"), "\(result.error)")
            #expect(result.app()["retry"] as? Int == 20)
            let again = try stage.send()
            #expect(again.app()["claimed"] as? Int == 0, "not due yet")
            try Self.passTime(stage)
        }
    }

    @Test("a single token called bad in each run is reported, and closed after ten tries")
    func alone() throws {
        let stage = try Self.stage(1, bad: [0])
        for attempt in 1...10 {
            let result = try stage.send()
            #expect(try stage.states() == (attempt < 10 ? ["retry": 1] : ["failed": 1]))
            #expect(result.exit == 0, "\(result.error)")
            #expect(result.error.contains("BadDeviceToken") == (attempt < 10), "\(result.error)")
            try Self.passTime(stage)
        }
    }

    @Test("one bad token among healthy answers is closed at once", arguments: [3, 20, 49])
    func healthy(_ rows: Int) throws {
        let stage = try Self.stage(rows, bad: [1])
        let result = try stage.send()
        #expect(result.exit == 0, "\(result.error)")
        #expect(try stage.states() == ["sent": rows - 1, "failed": 1])
    }

    @Test("a waiting row is closed by the first run in which APNs knows enough other tokens")
    func laterRun() throws {
        let stage = try Self.stage(1, bad: [0])
        _ = try stage.send()
        #expect(try stage.states() == ["retry": 1])
        try stage.database.register(1..<10, at: registered)
        try stage.queue(1..<10)
        try Self.passTime(stage)
        let result = try stage.send()
        #expect(result.exit == 0, "\(result.error)")
        #expect(try stage.states() == ["sent": 9, "failed": 1])
    }

    @Test("a slow rate does not close bad tokens before the gate has judged")
    func slowRate() throws {
        let stage = try Self.stage(30, bad: 0..<30)
        _ = try stage.send("--rate", "10", "--limit", "20")
        #expect(try stage.states()["failed"] == nil)
    }
}
