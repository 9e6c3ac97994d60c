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

    @Test(
        "a column of two values decides whether a row is stale, whatever its times are",
        arguments: [nil, -5, 5] as [Int64?], [nil, 0] as [Int64?])
    func columns(registered: Int64?, marked: Int64?) {
        for isDead in [true, false] {
            let row = row(registered, marked, isDead: isDead)
            #expect(row.isStale == isDead)
        }
        #expect(row(nil, marked).isStale == (marked != nil))
    }

    @Test(
        "what the application says of a row decides before older evidence, and gives way to later one",
        arguments: [
            (usual, nil, false, .mark), (usual, -1, false, .mark), (usual, 0, false, .newer),
            (usual, 1, false, .newer), (usual, nil, true, .already), (usual, -1, true, .advance),
            (usual, 0, true, .already), (deletes, -1, false, .delete), (deletes, 0, false, .newer),
            (deletes, nil, true, .delete),
        ] as [(RemovalPolicy, Int64?, Bool, Verdict)])
    func application(_ policy: RemovalPolicy, marked: Int64?, isDead: Bool, verdict: Verdict) {
        let row = row(-50_000, marked, isDead: isDead)
        #expect(policy.verdict(on: row, dead: time) == verdict)
    }

    @Test(
        "evidence that is judged by itself changes only rows that certainly registered before it",
        arguments: [(-2_001, .mark), (-2_000, .newer), (0, .newer), (1, .newer), (nil, .newer)]
            as [(Int64?, Verdict)])
    func beyondDoubt(registered: Int64?, verdict: Verdict) {
        var policy = Self.usual
        policy.onlyBeyondDoubt = true
        #expect(policy.verdict(on: row(registered, nil), dead: time) == verdict)
    }

    @Test(
        "the order of a registration and evidence is unknown within the skew",
        arguments: [
            (nil, .unknown), (1, .after), (0, .undecided), (-2_000, .undecided), (-2_001, .before),
        ] as [(Int64?, RegistrationOrder)])
    func order(registered: Int64?, order: RegistrationOrder) {
        let registered = registered.map { time.advanced(by: $0) }
        #expect(Self.usual.order(of: registered, to: time) == order)
    }

    @Test(
        "a marked row is due when its period is over, and as sure as one that is deleted at once",
        arguments: [
            (deletesLater, -50_000, -1_000, nil, true), (deletesLater, -50_000, -999, nil, false),
            (deletesLater, -50_000, nil, nil, false), (deletesLater, -50_000, -1_000, true, true),
            (deletesLater, -50_000, -1_000, false, false), (deletesLater, nil, -1_000, nil, false),
            (deletesLater, -3_000, -1_000, nil, false), (deletesLater, -3_001, -1_000, nil, true),
            (deletesLater, -999, -1_000, nil, false), (deletes, -50_000, -9_000, nil, false),
            (usual, -50_000, -9_000, nil, false), (deletesAllLater, nil, -1_000, nil, true),
            (RemovalPolicy(deletesAfter: 1_000), -50_000, -9_000, nil, false),
        ] as [(RemovalPolicy, Int64?, Int64?, Bool?, Bool)])
    func due(
        _ policy: RemovalPolicy, registered: Int64?, marked: Int64?, isDead: Bool?, isDue: Bool
    ) {
        #expect(policy.isDue(row(registered, marked, isDead: isDead), at: time) == isDue)
    }

    @Test("evidence deletes at once only where rows are deleted and no period is set")
    func atOnce() {
        #expect(Self.deletes.deletesAtOnce && !Self.usual.deletesAtOnce)
        #expect(!Self.deletesLater.deletesAtOnce)
        #expect(Self.deletesLater.verdict(on: row(-50_000, nil), dead: time) == .mark)
    }

    @Test("what a verdict does to a row follows from its name")
    func consequences() {
        #expect(Verdict.allCases.filter(\.changesRow) == [.mark, .delete, .advance])
        #expect(Verdict.allCases.filter(\.setsMark) == [.mark, .advance])
        #expect(Verdict.allCases.filter(\.removes) == [.mark, .delete])
    }

    private static let deletesLater = RemovalPolicy(action: .delete, deletesAfter: 1_000)
    private static let deletesAllLater = RemovalPolicy(
        action: .delete, deletesWithoutRegistrationTime: true, deletesAfter: 1_000)

    /// A row whose times are so many milliseconds from the evidence.
    private func row(_ registered: Int64?, _ marked: Int64?, isDead: Bool? = nil) -> RegisteredToken
    {
        RegisteredToken(
            registeredAt: registered.map { time.advanced(by: $0) },
            invalidatedAt: marked.map { time.advanced(by: $0) }, isDead: isDead)
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
