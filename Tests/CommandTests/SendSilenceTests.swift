import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000

/// The most rows that a failed gateway costs before the sender gives it up.
private let most = 9

@Suite("Sending to a gateway that leaves notifications without an answer")
struct SendSilenceTests {
    private static func stage(
        _ rows: Int, usual: ScriptedAction = .reply(.accepted),
        scenario: ProviderScenario = ProviderScenario()
    ) throws -> SendStage {
        var script = ProviderScript()
        script.usual = usual
        let stage = try SendStage(script: script, scenario: scenario)
        stage.lines = "send: {request-timeout: 1s}"
        try stage.database.register(0..<rows, at: registered)
        try stage.queue(0..<rows)
        return stage
    }

    @Test(
        "a gateway that resets every stream costs a few rows; the others wait; exit code 69"
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

    @Test("a gateway that answers nothing costs a few rows; the others wait; exit code 69")
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

    @Test("a gateway that cuts every connection costs a few rows, however many it was sent")
    func cutsAll() throws {
        let stage = try Self.stage(
            3_000, scenario: ProviderScenario([.init(actions: [.resetConnection])]))
        let result = try stage.send()
        let states = try stage.states()
        let unknown = states["unknown", default: 0]
        #expect((1...most).contains(unknown), "\(states)")
        #expect(states["pending"] == 3_000 - unknown)
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("unknown outcome"), "\(result.error)")
    }

    @Test(
        "a gateway that breaks HTTP/2 instead of answering costs a few rows; exit code 76")
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
        "the sender that takes over reports the rows that a killed sender left without an answer")
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

    @Test("a gateway that stops answering costs the rows on the wire and a few more")
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
        "the sender soon leaves a gateway that answers only a hundred on each connection")
    func halfOfAll() throws {
        let hundred = [ProviderScenario.Action](repeating: .serve, count: 100)
        let stage = try Self.stage(
            5_000, scenario: ProviderScenario([.init(actions: hundred, rest: .noAnswer)]))
        let result = try stage.send()
        let states = try stage.states()
        #expect(states["pending", default: 0] > 3_000, "\(states)")
        #expect(result.exit == 75, "\(result.exit) \(result.error)")
    }

    @Test("a drained queue with one notification in three unanswered does not end with 0")
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

    @Test("one unanswered notification in a hundred is reported, and the run ends with 0")
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

    @Test("a queue of two unanswered notifications ends with 69")
    func tiny() throws {
        let stage = try Self.stage(2, usual: .stall)
        let result = try stage.send()
        #expect(try stage.states() == ["unknown": 2])
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("2 of 2"), "\(result.error)")
    }
}
