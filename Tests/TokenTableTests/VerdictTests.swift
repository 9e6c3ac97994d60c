import APNsProtocol
import TestSupport
import Testing
import TokenHygiene
import TokenTable

private let deleting = RemovalPolicy(action: .delete)

@Suite("Effects of evidence on rows")
struct VerdictTests {
    /// The mark of a row that registered at `start`, and evidence about its token, in milliseconds
    /// from then; what each evidence does; and the mark afterwards, none where the row is gone.
    struct Effect: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var mark: Int64?
        var policy = RemovalPolicy()
        let evidence: [(at: Int64, counts: Counts, changed: Int)]
        let left: [String]

        static let all = [
            Effect(
                testDescription: "dead after its registration: marked with the evidence's time",
                evidence: [(60_123, Counts(applied: 1), 1)],
                left: ["2024-01-01 00:01:00.123 feedback"]),
            Effect(
                testDescription: "dead after its registration: deleted where the policy says so",
                policy: deleting, evidence: [(60_000, Counts(applied: 1), 1)], left: []),
            Effect(
                testDescription: "at the registration's time: marked, never deleted",
                policy: deleting, evidence: [(0, Counts(applied: 1), 1)],
                left: ["2024-01-01 00:00:00.000 feedback"]),
            Effect(
                testDescription: "within the skew: marked, never deleted",
                policy: deleting, evidence: [(2_000, Counts(applied: 1), 1)],
                left: ["2024-01-01 00:00:02.000 feedback"]),
            Effect(
                testDescription: "later evidence moves a mark forward, earlier does not",
                evidence: [
                    (5_000, Counts(applied: 1), 1), (9_000, Counts(already: 1), 1),
                    (7_000, Counts(already: 1), 0),
                ], left: ["2024-01-01 00:00:09.000 feedback"]),
            Effect(
                testDescription: "a mark overridden by a registration is set anew", mark: -1_000,
                evidence: [(1_000, Counts(applied: 1), 1)],
                left: ["2024-01-01 00:00:01.000 feedback"]),
        ]
    }

    @Test(
        "evidence changes a row as the verdict says", arguments: TestEngine.available, Effect.all)
    func effects(_ engine: TestEngine, _ effect: Effect) throws {
        let database = try TokenDatabase.own(engine)
        try database.register(.numbered(1), at: start, mark: effect.mark.map { start + $0 })
        let store = try database.store()
        for (time, counts, changed) in effect.evidence {
            let progress = try store.apply([.dead(1, at: start + time)], policy: effect.policy)
            #expect(progress.counts == counts && progress.isApplied)
            #expect(progress.rowsChanged == changed)
        }
        let hex = DeviceToken.numbered(1).hex
        #expect(try database.marks() == effect.left.map { "\(hex) \($0)" })
        // A token that no row has is unknown, as often as it was said.
        let unknown = try store.apply([.dead(2, at: start, statements: 3)])
        #expect(unknown.counts == Counts(unknown: 3) && unknown.rowsChanged == 0)
    }

    @Test(
        "a token registered after the evidence is kept, in either mode",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func keepsNewer(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try TokenDatabase.own(engine)
        try database.register(.numbered(1), at: start + 1)
        let progress = try database.store().apply(
            [.dead(1, at: start)], policy: RemovalPolicy(action: action))
        #expect(progress.counts == Counts(newer: 1) && progress.rowsChanged == 0)
        #expect(try database.marks() == ["\(DeviceToken.numbered(1).hex) NULL NULL"])
    }

    @Test(
        "every row that has the token is judged separately",
        arguments: TestEngine.available)
    func judgesEachRow(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute(
            engine == .mariaDB
                ? "ALTER TABLE active_users DROP INDEX device"
                : "DROP INDEX active_users_device")
        try database.register(.numbered(1), at: start, user: "old")
        try database.register(.numbered(1), at: start + 90_000, user: "new")
        try database.register(.numbered(1), at: start, mark: start + 60_000, user: "gone")
        let progress = try database.store().apply([.dead(1, at: start + 60_000, statements: 2)])
        #expect(progress.counts == Counts(applied: 1, already: 1))
        #expect(progress.rowsChanged == 1)
        #expect(
            try database.texts(
                "SELECT user_id FROM active_users WHERE invalidated_at IS NOT NULL ORDER BY user_id"
            ) == [["gone"], ["old"]])
    }

    @Test(
        "rows of another app or environment are untouched, whatever the case of its name",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func staysInPartition(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try TokenDatabase.own(engine)
        if engine == .mariaDB {
            try database.execute(
                "ALTER TABLE active_users MODIFY app_id VARCHAR(64) CHARACTER SET latin1 NOT NULL")
            try database.execute("ALTER TABLE active_users DROP INDEX device")
        }
        try database.register(.numbered(1), at: start)
        for (app, environment) in [
            ("Chat", "production"), ("chat", "sandbox"), ("other", "production"),
        ] {
            try database.register(.numbered(1), at: start, app: app, environment: environment)
        }
        let progress = try database.store().apply(
            [.dead(1, at: start + 60_000)], policy: RemovalPolicy(action: action))
        #expect(progress.rowsChanged == 1)
        #expect(try database.unmarked() == 3)
    }

    @Test(
        "the same evidence in another feed changes nothing",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func replays(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try TokenDatabase.own(engine, 0..<1_500)
        let evidence = (0..<2_000).map { TokenEvidence.dead($0, at: start + 1_000 + Int64($0)) }
        let policy = RemovalPolicy(action: action)
        let first = try database.store().apply(evidence, policy: policy)
        #expect(first.counts == Counts(applied: 1_500, unknown: 500))
        #expect(first.rowsChanged == 1_500)
        let rows = try database.marks()
        let second = try database.store().apply(evidence, policy: policy)
        #expect(second.rowsChanged == 0)
        #expect(try database.marks() == rows)
    }

    @Test("the same feed is applied once", arguments: TestEngine.available)
    func appliesFeedOnce(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 1..<2)
        let store = try database.store()
        let first = try store.apply([.dead(1, at: start + 5_000)], feed: "f-1")
        let again = try store.apply([.dead(1, at: start + 9_000)], feed: "f-1")
        #expect(first == again)
        #expect(try store.progress(of: "f-1") == first)
        #expect(try store.progress(of: "f-2") == nil)
    }

    @Test(
        "classification forecasts the result of application and changes nothing",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func foretells(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try TokenDatabase.own(engine, 0..<700)
        try database.register(700..<1_000, at: start + 100_000)
        let evidence = (300..<1_200).map {
            TokenEvidence.dead($0, at: start + 2_000 + Int64($0 % 2))
        }
        let policy = RemovalPolicy(action: action)
        let rows = try database.marks()
        let store = try database.store()
        let foretold = try store.classify(evidence, policy: policy)
        #expect(try database.marks() == rows)
        #expect(foretold.candidateRows == 400)
        #expect(foretold.isComplete)
        #expect(try store.apply(evidence, policy: policy).counts == foretold.counts)
        #expect(try database.rows() == (action == .mark ? 1_000 : 800))
    }
}
