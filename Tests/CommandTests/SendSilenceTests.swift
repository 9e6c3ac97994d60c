import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000

/// What a gateway that has failed may cost before the sender gives it up.
private let most = 9

@Suite("Sending to a gateway that leaves notifications without an answer")
struct SendSilenceTests {
    private static func stage(
        _ rows: Int, usual: ScriptedAction = .reply(.accepted),
        misbehaviour: ProviderMisbehaviour = ProviderMisbehaviour(),
        scenario: ProviderScenario? = nil
    ) throws -> SendStage {
        var script = ProviderScript()
        script.usual = usual
        let stage = try SendStage(script: script, misbehaviour: misbehaviour, scenario: scenario)
        stage.lines = "send: {request-timeout: 1s}"
        try stage.database.register(0..<rows, at: registered)
        try stage.queue(0..<rows)
        return stage
    }

    @Test(
        "a gateway that resets every stream costs a handful of rows; the others wait, and 69 says so"
    )
    func resetsAll() throws {
        let stage = try Self.stage(3_000, usual: .reset(.internalError))
        let result = try stage.send()
        let states = try stage.states()
        let unknown = states["unknown", default: 0]
        #expect((1...most).contains(unknown), "\(states)")
        #expect(states["pending"] == 3_000 - unknown)
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("unknown outcome"), "\(result.error)")
        #expect(result.error.contains("chat/production"))
        #expect(result.app()["unknown"] as? Int == unknown)
        #expect(stage.gateway.log.totals.requests <= most)
    }

    @Test("a gateway that answers nothing costs a handful of rows; the others wait, and 69 says so")
    func answersNothing() throws {
        let stage = try Self.stage(3_000, usual: .stall)
        let result = try stage.send()
        let states = try stage.states()
        let unknown = states["unknown", default: 0]
        #expect((1...most).contains(unknown), "\(states)")
        #expect(states["pending"] == 3_000 - unknown)
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("unknown outcome"), "\(result.error)")
    }

    @Test("a gateway that cuts every connection costs a handful of rows, whatever it was given")
    func cutsAll() throws {
        var misbehaviour = ProviderMisbehaviour()
        misbehaviour.resetAtRequest = 1
        let stage = try Self.stage(3_000, misbehaviour: misbehaviour)
        let result = try stage.send()
        let states = try stage.states()
        let unknown = states["unknown", default: 0]
        #expect((1...most).contains(unknown), "\(states)")
        #expect(states["pending"] == 3_000 - unknown)
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("unknown outcome"), "\(result.error)")
    }

    @Test(
        "a gateway that breaks HTTP/2 in place of answers costs a handful of rows, and 76 says so")
    func breaksHTTP2() throws {
        let frame: [UInt8] = [0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1]
        let stage = try Self.stage(
            3_000, scenario: ProviderScenario([.init(rest: .rawBytes(frame))]))
        let result = try stage.send()
        let states = try stage.states()
        let unknown = states["unknown", default: 0]
        #expect((1...most).contains(unknown), "\(states)")
        #expect(states["pending"] == 3_000 - unknown)
        #expect(result.exit == 76, "\(result.error)")
        #expect(result.error.contains("unknown outcome"), "\(result.error)")
    }

    @Test(
        "rows that a killed sender left without an answer are told by the one that takes them over")
    func takenOver() throws {
        let stage = try Self.stage(2, usual: .stall)
        stage.lines = "send: {request-timeout: 5m}"
        let sender = try stage.start(["send"])
        let deadline = Deadline.in(.seconds(30))
        while stage.gateway.log.totals.requests < 2 && !deadline.hasPassed { usleep(5_000) }
        sender.signal(SIGKILL)
        _ = sender.wait()
        try stage.database.execute(
            "UPDATE pushsweep_claim SET expires_at = ?", [stage.database.time(registered)])
        let next = try stage.send()
        #expect(try stage.states() == ["unknown": 2])
        #expect(
            next.error.contains("2 notifications of senders that are gone are of unknown outcome"),
            "\(next.error)")
    }

    @Test("a gateway that stops answering in mid-run costs what was on the wire and a handful more")
    func stopsAnswering() throws {
        var script = ProviderScript()
        for number in 101...5_000 { script.sequence[number] = .stall }
        let stage = try SendStage(script: script)
        stage.lines = "send: {request-timeout: 1s}"
        try stage.database.register(0..<5_000, at: registered)
        try stage.queue(0..<5_000)
        let result = try stage.send()
        let states = try stage.states()
        #expect(states["sent"] == 100, "\(states)")
        // One more stream with each answer, for each connection that the settings allow.
        #expect(states["unknown", default: 0] <= 100 + 3 * 4 + most, "\(states)")
        #expect(result.exit == 75, "\(result.exit) \(result.error)")
        #expect(result.error.contains("unknown outcome"), "\(result.error)")
    }

    @Test(
        "a gateway that answers a hundred on each connection and then nothing is left before long")
    func halfOfAll() throws {
        var misbehaviour = ProviderMisbehaviour()
        misbehaviour.stallAtRequest = 101
        let stage = try Self.stage(5_000, misbehaviour: misbehaviour)
        let result = try stage.send()
        let states = try stage.states()
        #expect(states["pending", default: 0] > 3_000, "\(states)")
        #expect(result.exit == 75, "\(result.exit) \(result.error)")
    }

    @Test("a drained queue of which one notification in three got no answer does not end with 0")
    func highShare() throws {
        var script = ProviderScript()
        for number in stride(from: 1, to: 30, by: 3) { script.tokens[.numbered(number)] = .stall }
        let stage = try SendStage(script: script)
        stage.lines = "send: {request-timeout: 1s}"
        try stage.database.register(0..<30, at: registered)
        try stage.queue(0..<30)
        let result = try stage.send()
        #expect(try stage.states() == ["sent": 20, "unknown": 10])
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.error.contains("10 of 30"), "\(result.error)")
    }

    @Test("one notification in a hundred without an answer is told, and the run ends with 0")
    func lowShare() throws {
        var script = ProviderScript()
        script.tokens[.numbered(50)] = .stall
        let stage = try SendStage(script: script)
        stage.lines = "send: {request-timeout: 1s}"
        try stage.database.register(0..<100, at: registered)
        try stage.queue(0..<100)
        let result = try stage.send()
        #expect(try stage.states() == ["sent": 99, "unknown": 1])
        #expect(result.exit == 0, "\(result.error)")
        #expect(result.error.contains("1 of 100"), "\(result.error)")
    }

    @Test("a queue of two whose notifications both got no answer ends with 69")
    func tiny() throws {
        let stage = try Self.stage(2, usual: .stall)
        let result = try stage.send()
        #expect(try stage.states() == ["unknown": 2])
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("2 of 2"), "\(result.error)")
    }
}

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

    /// Makes rows that wait for their next try due now.
    private static func passTime(_ stage: SendStage) throws {
        try stage.database.execute(
            "UPDATE push_queue SET not_before = ? WHERE state = 'retry'",
            [stage.database.time(1_600_000_000_000)])
    }

    @Test("twenty tokens that are all called bad close no row, run after run, and say why")
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

    @Test("one token in a run of its own that is called bad is told and closed after ten tries")
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

    @Test("a row that waits is closed by the first run in which APNs knows enough other tokens")
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

    @Test("a slow rate does not let bad tokens be closed before the gate has looked")
    func slowRate() throws {
        let stage = try Self.stage(30, bad: 0..<30)
        _ = try stage.send("--rate", "10", "--limit", "20")
        #expect(try stage.states()["failed"] == nil)
    }
}
