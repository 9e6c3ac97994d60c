import APNsProtocol
import Database
import Findings
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Application under faults")
struct FaultTests {
    /// Three chunks of evidence over rows stale, fresh and absent, and their expected results.
    private static let evidence = (0..<240).map {
        TokenEvidence.dead($0, at: start + 60_000, statements: 1 + $0 % 2)
    }

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine, 0..<150)
        try database.register(150..<200, at: start + 90_000)
        return database
    }

    private static let counts = Counts(
        applied: 150, already: 75, newer: 75, unknown: 60)

    /// Checks that everything was applied exactly once.
    private static func check(
        _ progress: BatchProgress, _ database: TokenDatabase, _ action: RemovalPolicy.Action,
        _ note: Comment
    ) throws {
        #expect(progress.counts == counts, note)
        #expect(progress.isApplied && progress.rowsChanged == 150, note)
        #expect(try database.unmarked() == 50, note)
        #expect(try database.rows() == (action == .mark ? 200 : 50), note)
        #expect(try database.changedOnce(150), note)
        try database.expectNumbers(note)
    }

    /// Connects through faults.
    private static func store(
        _ database: TokenDatabase, _ faults: [FaultyConnection.Fault]
    ) throws -> (TokenTable, FaultyConnection) {
        let connection = FaultyConnection(database.driver(), faults)
        return (try TokenTable(database.settings, connection, hurried()), connection)
    }

    private static func operations(
        _ engine: TestEngine, _ action: RemovalPolicy.Action, storing: Bool = false
    ) throws -> Int {
        let database = try database(engine)
        let (store, connection) = try store(database, [])
        try store.apply(evidence, policy: RemovalPolicy(action: action), storing: storing)
        return connection.operations
    }

    /// Checks that the database has each report once, with its time and what became of it.
    private static func checkReports(_ database: TokenDatabase, _ note: Comment) throws {
        let reports = try database.texts(
            "SELECT state, COUNT(*), COUNT(DISTINCT token) FROM pushsweep_report GROUP BY state ORDER BY state"
        )
        #expect(
            reports == [
                ["1", "150", "150"], ["2", "75", "75"], ["3", "75", "50"], ["4", "60", "40"],
            ],
            note)
        let batch = try database.texts(
            "SELECT state, reports FROM pushsweep_batch WHERE reports > 0")
        #expect(batch == [["applied", "360"]], note)
    }

    @Test(
        "a fault at any statement, before or after the database ran it, changes no result",
        arguments: TestEngine.available, [SQLFailure.Kind.lost, .conflict])
    func anyStatement(_ engine: TestEngine, _ kind: SQLFailure.Kind) throws {
        let action: RemovalPolicy.Action = kind == .lost ? .delete : .mark
        let count = try Self.operations(engine, action)
        for fault in FaultyConnection.Fault.spread(
            over: count, most: 20, last: 13, kind: kind, on: engine)
        {
            let database = try Self.database(engine)
            let (store, _) = try Self.store(database, [fault])
            let progress = try store.apply(Self.evidence, policy: RemovalPolicy(action: action))
            try Self.check(progress, database, action, "\(fault) of \(count)")
        }
    }

    @Test(
        "the next run finishes one that died at any commit, with exact numbers",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func resumes(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let count = try Self.operations(engine, action)
        let policy = RemovalPolicy(action: action)
        for fault in FaultyConnection.Fault.spread(
            over: count, from: 4, most: 8, kind: .other, on: engine)
        {
            let database = try Self.database(engine)
            let (dying, _) = try Self.store(database, [fault])
            _ = try? dying.apply(Self.evidence, policy: policy, feed: "f", run: "one")
            let store = try database.store()
            let position = try store.progress(of: "f")?.position
            var rest = EvidenceList(Self.evidence, after: position)
            let progress = try store.apply(
                &rest,
                BatchApplication(
                    run: "two", batch: "f", partition: chat, policy: policy, source: .feedback,
                    hearing: .unknown))
            try Self.check(progress, database, action, "\(fault)")
        }
    }

    @Test(
        "reports that are stored as they are decided are there once, whatever statement fails and whoever goes on",
        arguments: TestEngine.available, [SQLFailure.Kind.lost, .conflict, .other])
    func storing(_ engine: TestEngine, _ kind: SQLFailure.Kind) throws {
        let count = try Self.operations(engine, .mark, storing: true)
        for fault in FaultyConnection.Fault.spread(
            over: count, most: 12, last: 13, kind: kind, on: engine)
        {
            let database = try Self.database(engine)
            let (store, _) = try Self.store(database, [fault])
            _ = try? store.apply(Self.evidence, feed: "f", run: "one", storing: true)
            let seen = try database.store().progress(of: "f")
            if let seen, !seen.isApplied {
                // Every host sees it as unfinished, with what is decided of it.
                #expect(
                    try database.texts(
                        "SELECT state, reports FROM pushsweep_batch WHERE name = 'f'")
                        == [["filling", "\(seen.counts.total)"]], "\(fault)")
            }
            let progress = try database.store().apply(
                Self.evidence, feed: "f", run: "two", storing: true)
            try Self.check(progress, database, .mark, "\(fault) of \(count)")
            try Self.checkReports(database, "\(fault) of \(count)")
        }
    }

    @Test("a commit of unknown outcome has an error of its own", arguments: TestEngine.available)
    func commitUnknown(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let last = try Self.operations(engine, .mark)
        let (store, connection) = try Self.store(
            database, [.init(operation: last, isExecuted: true, kind: .lost)])
        connection.staysAway = true
        expectFailure(.commitUnknown) {
            try store.apply(Self.evidence, feed: "f")
        }
        let progress = try #require(try database.store().progress(of: "f"))
        try Self.check(progress, database, .mark, "after the lost commit")
    }

    @Test("repeated conflicts end the run as busy and keep what is committed")
    func givesUp() throws {
        for engine in TestEngine.available {
            let database = try Self.database(engine)
            let (store, connection) = try Self.store(
                database,
                (20...3_000).map { .init(operation: $0, isExecuted: false, kind: .conflict) })
            expectFailure(.busy) {
                try store.apply(Self.evidence, feed: "f")
            }
            #expect(connection.operations < 80)
            try Self.check(
                try database.store().apply(Self.evidence, feed: "f"), database, .mark, "afterwards")
        }
    }

    @Test(
        "a missing right or column is not tried again",
        arguments: [SQLFailure.Kind.permission, .configuration, .other])
    func noBlindRetry(_ kind: SQLFailure.Kind) throws {
        for engine in TestEngine.available {
            let database = try Self.database(engine)
            let (store, connection) = try Self.store(
                database, (20...300).map { .init(operation: $0, isExecuted: false, kind: kind) })
            #expect(throws: StoreFailure.self) { try store.apply(Self.evidence) }
            // A statement that changes rows is tried row by row first, since one of them may be at
            // fault.
            #expect(connection.operations <= 22 && connection.connections == 1)
        }
    }

    @Test("a read-only server is asked again on new connections, for a second")
    func readOnlyBriefly() throws {
        for engine in TestEngine.available {
            let database = try Self.database(engine)
            let (store, connection) = try Self.store(
                database,
                (20...99).map { .init(operation: $0, isExecuted: false, kind: .readOnly) })
            expectFailure(.readOnly) { try store.apply(Self.evidence) }
            #expect((2...8).contains(connection.connections))
        }
    }

    @Test(
        "a replica is waited for after a loss, since it may take over, and else refused at once",
        arguments: [SQLFailure.Kind.misplaced, .readOnly])
    func takesOver(_ kind: SQLFailure.Kind) throws {
        let loss = FaultyConnection.Fault(operation: 24, isExecuted: false, kind: .lost)
        for engine in TestEngine.available {
            var database = try Self.database(engine)
            func faults(_ range: ClosedRange<Int>) -> [FaultyConnection.Fault] {
                range.map { .init(operation: $0, isExecuted: false, kind: kind) }
            }
            // Some seconds of pauses, which are over before the patience is.
            var (store, connection) = try Self.store(database, [loss] + faults(25...30))
            try Self.check(
                try store.apply(Self.evidence, feed: "f"), database, .mark, "after \(kind)")
            database = try Self.database(engine)
            (store, connection) = try Self.store(database, [loss] + faults(25...400))
            var failure = #expect(throws: StoreFailure.self) { try store.apply(Self.evidence) }
            // A replica is no mistake of the settings then: 75, and the next run goes on.
            #expect(
                failure?.code == (kind == .readOnly ? .readOnly : .commitUnknown),
                "\(failure as Any)")
            #expect(connection.operations > 28)
            database = try Self.database(engine)
            (store, connection) = try Self.store(database, faults(20...400))
            failure = #expect(throws: StoreFailure.self) { try store.apply(Self.evidence) }
            #expect(failure?.code == (kind == .readOnly ? .readOnly : .configuration))
            #expect(connection.operations < 80)
        }
    }

    @Test(
        "a stop between chunks leaves the rest for the next call", arguments: TestEngine.available)
    func stops(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let store = try database.store(pacing: hurried())
        var chunks = 0
        let halted = try store.apply(
            Self.evidence, feed: "f", shouldStop: { chunks == 1 }, report: { _ in chunks += 1 })
        #expect(!halted.isApplied && halted.counts.total == 135)
        #expect(try store.progress(of: "f") == halted)
        try Self.check(
            try store.apply(Self.evidence, feed: "f"), database, .mark, "after the stop")
    }

    @Test("two stores on one feed divide it and count it once", arguments: TestEngine.available)
    func divides(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let one = try database.store(pacing: hurried())
        let two = try database.store(pacing: hurried())
        var isNested = false
        let progress = try one.apply(
            Self.evidence, feed: "f",
            report: { _ in
                guard !isNested else { return }
                isNested = true
                var chunks = 0
                _ = try? two.apply(
                    Self.evidence, feed: "f", shouldStop: { chunks == 1 },
                    report: { _ in chunks += 1 })
            })
        try Self.check(progress, database, .mark, "divided")
    }
}
