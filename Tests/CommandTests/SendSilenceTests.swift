import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Sending to a gateway that leaves notifications without an answer")
struct SendSilenceTests {
    /// The most rows that a failed gateway costs before the sender gives it up.
    private static let most = 9

    /// A gateway that answers nothing, in its way.
    enum Failed: CaseIterable, Sendable {
        case resetsStreams, answersNothing, cutsConnections, breaksHTTP2

        func stage(_ rows: Int) throws -> SendStage {
            var script = ProviderScript()
            var scenario = ProviderScenario()
            switch self {
            case .resetsStreams: script.usual = .reset(.internalError)
            case .answersNothing: script.usual = .stall
            case .cutsConnections: scenario = ProviderScenario([.init(actions: [.resetConnection])])
            case .breaksHTTP2:
                scenario = ProviderScenario([
                    .init(rest: .rawBytes([0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1]))
                ])
            }
            return try SendStage(
                rows: rows, script: script, scenario: scenario,
                lines: "send: {request-timeout: 1s}")
        }
    }

    @Test(
        "a gateway that has failed costs a few rows, the others wait, and it is named",
        arguments: Failed.allCases)
    func failed(_ gateway: Failed) throws {
        let stage = try gateway.stage(1_000)
        let result = try stage.send().ends(
            gateway == .breaksHTTP2 ? 76 : 69, "unknown outcome", "chat/production")
        let states = try stage.states()
        let unknown = states["unknown", default: 0]
        #expect((1...Self.most).contains(unknown), "\(states)")
        #expect(states["pending"] == 1_000 - unknown)
        result.app(has: ["unknown": unknown])
    }

    @Test("the sender that takes over reports the rows that a killed one left without an answer")
    func takenOver() throws {
        let stage = try Failed.answersNothing.stage(2)
        stage.lines = "send: {request-timeout: 5m}"
        let sender = try stage.start(["send"])
        eventually { stage.gateway.log.totals.requests == 2 }
        sender.signal(SIGKILL)
        _ = sender.wait()
        try stage.database.execute(
            "UPDATE pushsweep_claim SET expires_at = ?", [stage.database.time(1)])
        try stage.send().says("2 notifications of senders that are gone are of unknown outcome")
        #expect(try stage.states() == ["unknown": 2])
    }

    @Test("a gateway that stops answering costs the rows on the wire and a few more")
    func stopsAnswering() throws {
        var script = ProviderScript()
        for number in 101...2_000 { script.sequence[number] = .stall }
        let stage = try SendStage(
            rows: 2_000, script: script, lines: "send: {request-timeout: 1s}")
        try stage.send().ends(75, "unknown outcome")
        let states = try stage.states()
        #expect(states["sent"] == 100, "\(states)")
        // One more stream with each answer, for each connection that the settings allow.
        #expect(states["unknown", default: 0] <= 100 + 3 * 4 + Self.most, "\(states)")
    }

    @Test("the sender soon leaves a gateway that answers only a hundred on each connection")
    func halfOfAll() throws {
        let hundred = [ProviderScenario.Action](repeating: .serve, count: 100)
        let stage = try SendStage(
            rows: 5_000, scenario: ProviderScenario([.init(actions: hundred, rest: .noAnswer)]),
            lines: "send: {request-timeout: 1s}")
        try stage.send().ends(75)
        #expect(try stage.states()["pending", default: 0] > 3_000)
    }

    @Test(
        "unanswered rows are reported, and more than one in ten do not end with 0",
        arguments: [(2, 2, Int32(69)), (30, 10, 75), (100, 1, 0)])
    func shares(_ rows: Int, _ unanswered: Int, _ exit: Int32) throws {
        var script = ProviderScript()
        for number in 0..<unanswered {
            script.tokens[.numbered(number * rows / unanswered)] = .stall
        }
        let stage = try SendStage(
            rows: rows, script: script, lines: "send: {request-timeout: 1s}")
        try stage.send().ends(exit, "\(unanswered) of \(rows)")
        let sent = rows - unanswered
        #expect(
            try stage.states()
                == ["unknown": unanswered].merging(sent > 0 ? ["sent": sent] : [:]) { $1 })
    }
}
