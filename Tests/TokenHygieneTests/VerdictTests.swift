import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@Suite("The verdict on a row")
struct VerdictTests {
    private let time = EpochMilliseconds(1_700_000_000_000)

    private static let usual = RemovalPolicy()
    private static let deletes = RemovalPolicy(action: .delete)
    private static let deletesAll = RemovalPolicy(
        action: .delete, deletesWithoutRegistrationTime: true)

    @Test(
        "registration and mark, in milliseconds from the evidence, decide what becomes of a row",
        arguments: [
            // Registered after the evidence, even by one millisecond: kept.
            (usual, 1, nil, .newer), (usual, 86_400_000, -5, .newer), (deletes, 1, nil, .newer),
            (deletes, 86_400_000, -5, .newer), (deletesAll, 1, nil, .newer),
            // Registered before or at its time: marked.
            (usual, -1, nil, .mark), (usual, 0, nil, .mark), (usual, nil, nil, .mark),
            (usual, -100_000, nil, .mark),
            // Deleted only outside of the skew, and without a registration only where allowed.
            (deletes, -2_001, nil, .delete), (deletes, -2_000, nil, .mark),
            (deletes, -1, nil, .mark), (deletes, 0, nil, .mark), (deletes, nil, nil, .mark),
            (deletesAll, nil, nil, .delete),
            // An equal or later mark stays, an earlier one moves forward.
            (usual, -50, 0, .already), (usual, -50, 10, .already), (usual, -50, -10, .advance),
            (usual, nil, -10, .advance), (deletes, -50_000, 0, .delete), (deletes, 0, 0, .already),
            // One that a registration had overridden counts for nothing.
            (usual, -50, -60, .mark),
        ] as [(RemovalPolicy, Int64?, Int64?, Verdict)])
    func verdicts(_ policy: RemovalPolicy, registered: Int64?, marked: Int64?, verdict: Verdict) {
        let row = RegisteredToken(
            registeredAt: registered.map { time.advanced(by: $0) },
            invalidatedAt: marked.map { time.advanced(by: $0) })
        #expect(policy.verdict(on: row, dead: time) == verdict)
    }

    @Test("a row is stale by a mark that no later registration overrides")
    func stale() {
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
