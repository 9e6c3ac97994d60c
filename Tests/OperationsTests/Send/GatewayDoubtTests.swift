import Testing

@testable import Operations

@Suite("Limits for a gateway that serves none")
struct GatewayDoubtTests {
    /// Leaves so many single notifications without an answer.
    private static func leave(_ count: Int, _ doubt: inout GatewayDoubt) {
        for _ in 0..<count { doubt.unknown("silence", isGarbled: false) }
        doubt.noteInFlight(0)
    }

    @Test("three rows at once and nine in all before the first answer, then any number")
    func start() {
        var doubt = GatewayDoubt()
        #expect(doubt.allowance == 3)
        Self.leave(8, &doubt)
        #expect(doubt.allowance == 1 && doubt.failure == nil)
        Self.leave(1, &doubt)
        #expect(doubt.allowance == 0 && doubt.failure != nil)
        #expect(doubt.exit == .unreachable)
        doubt.served()
        #expect(doubt.allowance == nil && doubt.failure == nil)
    }

    @Test("rows on the wire when the doubt begins are waited for and do not count")
    func doubt() {
        var doubt = GatewayDoubt()
        doubt.served()
        for _ in 0..<500 { doubt.unknown("connection lost", isGarbled: false) }
        doubt.noteInFlight(10)
        #expect(doubt.allowance == 0 && doubt.failure == nil)
        doubt.noteInFlight(0)
        #expect(doubt.allowance == 3 && doubt.failure == nil)
        Self.leave(9, &doubt)
        #expect(doubt.failure != nil && doubt.exit == .pending)
    }

    @Test("a renewed try costs three rows, and a breach of HTTP/2 is reported as one")
    func again() {
        var doubt = GatewayDoubt()
        doubt.startAgain()
        Self.leave(2, &doubt)
        doubt.unknown("malformed answer", isGarbled: true)
        #expect(doubt.failure != nil && doubt.exit == .protocolBroken)
    }

    @Test("a gateway that leaves one of three rows unanswered, round after round, has failed")
    func share() {
        var doubt = GatewayDoubt()
        for round in 1...3 {
            for _ in 0..<40 { doubt.served() }
            for _ in 0..<20 { doubt.unknown("silence", isGarbled: false) }
            #expect(doubt.failure == nil, "not in round \(round): one of two is allowed")
            doubt.noteInFlight(0)
        }
        doubt.unknown("silence", isGarbled: false)
        #expect(doubt.failure?.contains("61 of 181") == true)
    }

    /// What happens to a gateway, in order.
    enum Step: Sendable {
        case served, refused(Int), credential(Int), unknown(Int), drained, again

        func happens(to doubt: inout GatewayDoubt) {
            switch self {
            case .served: doubt.served()
            case .refused(let count):
                for _ in 0..<count { doubt.refused("ServiceUnavailable", isOfCredential: false) }
            case .credential(let count):
                for _ in 0..<count {
                    doubt.refused("TooManyProviderTokenUpdates", isOfCredential: true)
                }
            case .unknown(let count):
                for _ in 0..<count { doubt.unknown("silence", isGarbled: false) }
            case .drained: doubt.noteInFlight(0)
            case .again: doubt.startAgain()
            }
        }
    }

    /// Steps, and what follows: the allowance, the failure while rows wait, and that where none wait.
    struct Course: Sendable, CustomTestStringConvertible {
        let steps: [Step]
        let allowance: Int?
        let failure: String?
        let atEnd: String?

        init(_ steps: [Step], _ allowance: Int?, _ failure: String?, atEnd: String?) {
            (self.steps, self.allowance, self.failure) = (steps, allowance, failure)
            self.atEnd = atEnd
        }

        var testDescription: String { "\(steps)" }
    }

    @Test(
        "refusals that are not about the row are tried a few at a time, and nine in a row are a failure",
        arguments: [
            Course([.refused(1)], 3, nil, atEnd: "refused 1 notification in a row"),
            Course([.refused(8)], 1, nil, atEnd: "refused 8 notifications in a row"),
            Course(
                [.refused(9)], 0,
                "refused 9 notifications in a row (ServiceUnavailable) and served none",
                atEnd: "refused 9"),
            Course([.credential(9)], 0, "(TooManyProviderTokenUpdates)", atEnd: "refused 9"),
            Course([.unknown(4), .refused(5)], 0, "refused 5", atEnd: "refused 5"),
            Course([.refused(8), .served], nil, nil, atEnd: nil),
            Course([.refused(8), .served, .refused(8), .served], nil, nil, atEnd: nil),
            // In mid-run those on the wire are waited for, and the gateway is tried again.
            Course([.served, .refused(1)], 0, nil, atEnd: nil),
            Course(
                [.served, .refused(500)], 0, nil,
                atEnd:
                    "refused 500 notifications in a row (ServiceUnavailable) after it had served others"
            ),
            Course([.served, .refused(500), .drained], 3, nil, atEnd: "refused 500"),
            Course(
                [.served, .refused(500), .drained, .refused(9)], 0, "refused 509",
                atEnd: "refused 509"),
            Course([.served, .refused(500), .served], nil, nil, atEnd: nil),
            // A gateway that has failed gets three.
            Course([.refused(9), .again], 3, nil, atEnd: nil),
            Course([.refused(9), .again, .refused(3)], 0, "refused 3", atEnd: "refused 3"),
        ])
    func refusals(_ course: Course) {
        var doubt = GatewayDoubt()
        for step in course.steps { step.happens(to: &doubt) }
        #expect(doubt.allowance == course.allowance)
        #expect((doubt.failure == nil) == (course.failure == nil))
        #expect(course.failure.map { doubt.failure?.contains($0) == true } ?? true)
        #expect((doubt.failureAtEnd == nil) == (course.atEnd == nil))
        #expect(course.atEnd.map { doubt.failureAtEnd?.contains($0) == true } ?? true)
        if course.failure != nil { #expect(doubt.exit == .pending) }
    }

    @Test("a refused credential and an outage have cures of their own")
    func cures() {
        var doubt = GatewayDoubt()
        doubt.refused("TooManyProviderTokenUpdates", isOfCredential: true)
        #expect(doubt.cure.contains("20 minutes") && doubt.cure.contains("--follow"))
        doubt.refused("ServiceUnavailable", isOfCredential: false)
        #expect(doubt.cure.contains("15 minutes"))
        doubt.unknown("silence", isGarbled: false)
        #expect(doubt.cure.contains("once the gateway answers"))
    }

    @Test("a following sender rests for 1, 2, 4, 8 and then 16 minutes")
    func rests() {
        let rests = (0..<7).map { SendPlan.rest(.seconds(60), outages: $0) }
        #expect(rests == [60, 120, 240, 480, 960, 960, 960].map { .seconds($0) })
    }
}
