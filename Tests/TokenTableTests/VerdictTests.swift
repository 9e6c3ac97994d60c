import APNsProtocol
import TestSupport
import Testing
import TokenHygiene
import TokenTable

private let deleting = RemovalPolicy(action: .delete)

@Suite("Effects of evidence on rows")
struct VerdictTests {
    @Test(
        "a token dead after its registration is marked with the time of the evidence",
        arguments: TestEngine.available)
    func marksStaleRow(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 1..<2)
        let progress = try database.store().apply([.dead(1, at: start + 60_123)])
        #expect(progress.counts == Counts(applied: 1))
        #expect(progress.rowsChanged == 1 && progress.isApplied)
        #expect(
            try database.marks() == [
                "\(DeviceToken.numbered(1).hex) 2024-01-01 00:01:00.123 feedback"
            ])
    }

    @Test(
        "a token dead after its registration is deleted where the policy says so",
        arguments: TestEngine.available)
    func deletesStaleRow(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 1..<2)
        try database.register(.numbered(2), at: start)
        let progress = try database.store().apply(
            [.dead(1, at: start + 60_000)], policy: deleting)
        #expect(progress.counts == Counts(applied: 1))
        #expect(
            try database.marks() == ["\(DeviceToken.numbered(2).hex) NULL NULL"])
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
        "a registration at the time of the evidence or within the skew is marked, never deleted",
        arguments: TestEngine.available, [0, 1, 2_000] as [Int64])
    func marksTies(_ engine: TestEngine, _ lead: Int64) throws {
        let database = try TokenDatabase.own(engine, 1..<2)
        let progress = try database.store().apply([.dead(1, at: start + lead)], policy: deleting)
        #expect(progress.counts == Counts(applied: 1))
        #expect(try database.marked == 1)
    }

    @Test("a token that no row has is unknown", arguments: TestEngine.available)
    func countsUnknown(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let progress = try database.store().apply([.dead(1, at: start, statements: 3)])
        #expect(progress.counts == Counts(unknown: 3) && progress.rowsChanged == 0)
    }

    @Test(
        "later evidence moves a mark forward and counts as already invalid",
        arguments: TestEngine.available)
    func advances(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 1..<2)
        let store = try database.store()
        try store.apply([.dead(1, at: start + 5_000)])
        let later = try store.apply([.dead(1, at: start + 9_000)])
        #expect(later.counts == Counts(already: 1) && later.rowsChanged == 1)
        let earlier = try store.apply([.dead(1, at: start + 7_000)])
        #expect(earlier.counts == Counts(already: 1) && earlier.rowsChanged == 0)
        #expect(
            try database.marks() == [
                "\(DeviceToken.numbered(1).hex) 2024-01-01 00:00:09.000 feedback"
            ])
    }

    @Test("a mark overridden by a registration is set anew", arguments: TestEngine.available)
    func marksRevivedRow(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.register(.numbered(1), at: start, mark: start - 1_000)
        let progress = try database.store().apply([.dead(1, at: start + 1_000)])
        #expect(progress.counts == Counts(applied: 1))
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
        #expect(try store.progressIfVisible(of: "f-1") == first)
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
