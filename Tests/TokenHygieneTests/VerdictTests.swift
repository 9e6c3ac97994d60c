import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@Suite("The verdict on a row")
struct VerdictTests {
    private let time = EpochMilliseconds(1_700_000_000_000)

    private func verdict(
        _ action: RemovalPolicy.Action, registered: Int64?, marked: Int64? = nil,
        deletesUnknown: Bool = false
    ) -> Verdict {
        RemovalPolicy(action: action, deletesWithoutRegistrationTime: deletesUnknown)
            .verdict(
                on: RegisteredToken(
                    registeredAt: registered.map { time.advanced(by: $0) },
                    invalidatedAt: marked.map { time.advanced(by: $0) }), dead: time)
    }

    @Test("a token registered after the evidence is kept, even by one millisecond")
    func newer() {
        for action in RemovalPolicy.Action.allCases {
            #expect(verdict(action, registered: 1) == .newer)
            #expect(verdict(action, registered: 86_400_000, marked: -5) == .newer)
            #expect(verdict(action, registered: 1, deletesUnknown: true) == .newer)
        }
    }

    @Test("a row registered before or at the time of the evidence is marked")
    func mark() {
        #expect(verdict(.mark, registered: -1) == .mark)
        #expect(verdict(.mark, registered: 0) == .mark)
        #expect(verdict(.mark, registered: nil) == .mark)
        #expect(verdict(.mark, registered: -100_000) == .mark)
    }

    @Test("a row is deleted only outside the skew, and marked inside it")
    func skew() {
        #expect(verdict(.delete, registered: -2_001) == .delete)
        #expect(verdict(.delete, registered: -2_000) == .mark)
        #expect(verdict(.delete, registered: -1) == .mark)
        #expect(verdict(.delete, registered: 0) == .mark)
    }

    @Test("a row without a registration time is deleted only where the policy says so")
    func unknownRegistration() {
        #expect(verdict(.delete, registered: nil) == .mark)
        #expect(verdict(.delete, registered: nil, deletesUnknown: true) == .delete)
    }

    @Test("an equal or later mark stays, and an earlier one moves forward")
    func existingMarks() {
        #expect(verdict(.mark, registered: -50, marked: 0) == .already)
        #expect(verdict(.mark, registered: -50, marked: 10) == .already)
        #expect(verdict(.mark, registered: -50, marked: -10) == .advance)
        #expect(verdict(.mark, registered: nil, marked: -10) == .advance)
        #expect(verdict(.delete, registered: -50_000, marked: 0) == .delete)
        #expect(verdict(.delete, registered: 0, marked: 0) == .already)
    }

    @Test("a row that a registration had revived is marked again")
    func revivedRow() {
        #expect(verdict(.mark, registered: -50, marked: -60) == .mark)
        #expect(
            !RegisteredToken(registeredAt: time, invalidatedAt: time.advanced(by: -1)).isStale)
        #expect(RegisteredToken(registeredAt: time, invalidatedAt: time).isStale)
        #expect(!RegisteredToken(registeredAt: nil, invalidatedAt: nil).isStale)
    }

    @Test("the row is the same in whatever order and however often evidence comes")
    func commutative() {
        var random = SeededGenerator("order of evidence")
        for _ in 0..<5_000 {
            let registered: Int64? = Bool.random(using: &random) ? .random(in: 0...20) : nil
            var times = (0..<4).map { _ in Int64.random(in: 0...20, using: &random) }
            let action: RemovalPolicy.Action = Bool.random(using: &random) ? .mark : .delete
            let policy = RemovalPolicy(action: action, skew: 3)
            var ends: Set<String> = []
            for _ in 0..<6 {
                times.shuffle(using: &random)
                ends.insert(end(of: registered, after: times + times.prefix(2), policy))
            }
            #expect(ends.count == 1, "seed \(random.seed): R \(registered ?? -1), T \(times)")
        }
    }

    private func end(of registered: Int64?, after times: [Int64], _ policy: RemovalPolicy) -> String
    {
        var mark: EpochMilliseconds?
        for time in times.map({ EpochMilliseconds($0) }) {
            let row = RegisteredToken(
                registeredAt: registered.map { EpochMilliseconds($0) }, invalidatedAt: mark)
            switch policy.verdict(on: row, dead: time) {
            case .mark, .advance: mark = time
            case .delete: return "deleted"
            case .already, .newer: break
            }
        }
        return "\(mark?.rawValue ?? -1)"
    }
}
