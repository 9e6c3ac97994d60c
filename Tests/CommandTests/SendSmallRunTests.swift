import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("Sending in runs too small for the environment gate")
struct SendSmallRunTests {
    private static func stage(_ rows: Int, bad: some Sequence<Int>) throws -> SendStage {
        var script = ProviderScript()
        for number in bad {
            script.tokens[.numbered(number)] = .reply(ScriptedReply(.badDeviceToken))
        }
        return try SendStage(rows: rows, script: script)
    }

    /// Makes rows due now that wait for their next try.
    private static func passTime(_ stage: SendStage) throws {
        try stage.database.execute(
            "UPDATE push_queue SET not_before = ? WHERE state = 'retry'", [stage.database.time(1)])
    }

    @Test("no run closes a row while all of twenty tokens are called bad, and each says why")
    func wrongEnvironment() throws {
        let stage = try Self.stage(20, bad: 0..<20)
        for _ in 1...3 {
            try stage.send().ends(78, "environment mismatch suspected").app(has: ["retry": 20])
            #expect(try stage.states() == ["retry": 20])
            // Not due yet.
            try stage.send().app(has: ["claimed": 0])
            try Self.passTime(stage)
        }
    }

    @Test(
        "a single token called bad is reported, and closed after ten tries or once others are known"
    )
    func alone() throws {
        let stage = try Self.stage(1, bad: [0])
        for attempt in 1...10 {
            let result = try stage.send().ends(0)
            #expect(try stage.states() == (attempt < 10 ? ["retry": 1] : ["failed": 1]))
            #expect(result.error.contains("BadDeviceToken"), "\(result.error)")
            #expect(result.error.contains("closed as failed") == (attempt == 10))
            try Self.passTime(stage)
        }
        let later = try Self.stage(1, bad: [0])
        _ = try later.send()
        try later.database.register(1..<10, at: 1_690_000_000_000)
        try later.queue(1..<10)
        try Self.passTime(later)
        try later.send().ends(0)
        #expect(try later.states() == ["sent": 9, "failed": 1])
    }

    @Test("one bad token among healthy answers is closed at once", arguments: [3, 49])
    func healthy(_ rows: Int) throws {
        let stage = try Self.stage(rows, bad: [1])
        try stage.send().ends(0)
        #expect(try stage.states() == ["sent": rows - 1, "failed": 1])
    }

    @Test("a slow rate does not close bad tokens before the gate has judged")
    func slowRate() throws {
        let stage = try Self.stage(30, bad: 0..<30)
        _ = try stage.send("--rate", "10", "--limit", "20")
        #expect(try stage.states()["failed"] == nil)
    }
}
