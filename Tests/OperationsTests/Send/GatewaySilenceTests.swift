import Testing

@testable import Operations

@Suite("Limits for a silent gateway")
struct GatewaySilenceTests {
    /// Leaves so many single notifications without an answer.
    private static func leave(_ count: Int, _ silence: inout GatewaySilence) {
        for _ in 0..<count { silence.unknown("silence", isGarbled: false) }
        silence.noteInFlight(0)
    }

    @Test("three rows at once and nine in all before the first answer, then any number")
    func start() {
        var silence = GatewaySilence()
        #expect(silence.allowance == 3)
        Self.leave(8, &silence)
        #expect(silence.allowance == 1 && silence.failure == nil)
        Self.leave(1, &silence)
        #expect(silence.allowance == 0 && silence.failure != nil)
        #expect(silence.exit == .unreachable)
        silence.answered()
        #expect(silence.allowance == nil && silence.failure == nil)
    }

    @Test("rows on the wire when the doubt begins are waited for and do not count")
    func doubt() {
        var silence = GatewaySilence()
        silence.answered()
        for _ in 0..<500 { silence.unknown("connection lost", isGarbled: false) }
        silence.noteInFlight(10)
        #expect(silence.allowance == 0 && silence.failure == nil)
        silence.noteInFlight(0)
        #expect(silence.allowance == 3 && silence.failure == nil)
        Self.leave(9, &silence)
        #expect(silence.failure != nil && silence.exit == .pending)
    }

    @Test("a renewed try costs three rows, and a breach of HTTP/2 is reported as one")
    func again() {
        var silence = GatewaySilence()
        silence.startAgain()
        Self.leave(2, &silence)
        silence.unknown("malformed answer", isGarbled: true)
        #expect(silence.failure != nil && silence.exit == .protocolBroken)
    }

    @Test("a gateway that leaves one of three rows unanswered, round after round, has failed")
    func share() {
        var silence = GatewaySilence()
        for round in 1...3 {
            for _ in 0..<40 { silence.answered() }
            for _ in 0..<20 { silence.unknown("silence", isGarbled: false) }
            #expect(silence.failure == nil, "not in round \(round): one of two is allowed")
            silence.noteInFlight(0)
        }
        silence.unknown("silence", isGarbled: false)
        #expect(silence.failure?.contains("61 of 181") == true)
    }

    @Test("a following sender rests for 1, 2, 4, 8 and then 16 minutes")
    func rests() {
        let rests = (0..<7).map { SendPlan.rest(.seconds(60), outages: $0) }
        #expect(rests == [60, 120, 240, 480, 960, 960, 960].map { .seconds($0) })
    }
}
