import APNsProtocol
import Database
import Synchronization
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Several connections on one feed")
struct WorkerTests {
    /// Tokens spread over all first bytes.
    private static let tokens = (0..<512).compactMap { number in
        DeviceToken([UInt8(number / 2), UInt8(number % 2), 7])
    }
    private static let evidence = tokens.map {
        TokenEvidence(token: $0, time: EpochMilliseconds(start + 60_000))
    }
    private static let application = FeedApplication(
        run: "r", feed: "f", partition: chat,
        policy: RemovalPolicy(), source: .feedback)

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        try database.sql.begin()
        for token in tokens.prefix(400) { try database.register(token, at: start) }
        try database.sql.commit()
        return database
    }

    @Test(
        "parts are applied together, exactly once and with the numbers of the whole",
        arguments: TestEngine.available, [1, 2, 3])
    func together(_ engine: TestEngine, _ count: Int) throws {
        let database = try Self.database(engine)
        let workers = StoreWorkers(database.settings, count: count, pacing: hurried())
        let store = try database.store(pacing: hurried())
        let foretold = try workers.classify(
            over: store, in: Self.application.partition, policy: RemovalPolicy(),
            evidence: { _ in EvidenceList(Self.evidence) })
        #expect(foretold.counts == Counts(applied: 400, unknown: 112) && foretold.isComplete)
        let last = Mutex(FeedProgress(counts: Counts()))
        let progress = try workers.apply(
            Self.application, over: store, evidence: { EvidenceList(Self.evidence, after: $1) },
            report: { progress in
                last.withLock {
                    if progress.counts.total > $0.counts.total { $0 = progress }
                }
            })
        #expect(progress.counts == foretold.counts)
        #expect(progress.rowsChanged == 400 && progress.isApplied)
        #expect(last.withLock { $0.counts } == progress.counts)
        #expect(try database.store().progress(of: "f") == progress)
        #expect(try database.changedOnce(400))
    }

    @Test("a feed begun in parts continues in these parts, in any run")
    func goesOn() throws {
        for engine in TestEngine.available {
            let database = try Self.database(engine)
            let stops = Mutex(0)
            let begun = try StoreWorkers(database.settings, count: 2, pacing: hurried()).apply(
                Self.application, over: database.store(pacing: hurried()),
                evidence: { EvidenceList(Self.evidence, after: $1) },
                shouldStop: {
                    stops.withLock {
                        $0 += 1
                        return $0 > 2
                    }
                })
            #expect(!begun.isApplied && begun.counts.total > 0)
            #expect(try database.store().progress(of: "f") == begun)
            for count in [3, 1] {
                let done = try StoreWorkers(database.settings, count: count, pacing: hurried())
                    .apply(
                        Self.application, over: database.store(pacing: hurried()),
                        evidence: { EvidenceList(Self.evidence, after: $1) })
                #expect(done.isApplied && done.rowsChanged == 400)
                #expect(done.counts == Counts(applied: 400, unknown: 112))
            }
        }
    }

    @Test(
        "an account with one connection is enough, and the run says that it goes on with fewer",
        .needsServer, arguments: ["MAX_USER_CONNECTIONS 1", "MAX_CONNECTIONS_PER_HOUR 1"])
    func oneConnection(_ limit: String) throws {
        let database = try Self.database(.mariaDB)
        let account = try ServerAccount(of: database)
        try account.grant("ALL")
        try account.admin.run("ALTER USER '\(account.name)'@'%' WITH \(limit)")
        let told = Mutex<[String]>([])
        // With patience: none of it is spent on a limit.
        var pacing = Pacing(patience: 3_600_000)
        pacing.report = { sentence in told.withLock { $0.append(sentence) } }
        let own = try TokenTable(account.settings, pacing: pacing)
        let workers = StoreWorkers(account.settings, count: 3, pacing: pacing)
        let foretold = try workers.classify(
            over: own, in: chat, policy: RemovalPolicy(),
            evidence: { _ in EvidenceList(Self.evidence) })
        #expect(foretold.counts == Counts(applied: 400, unknown: 112) && foretold.isComplete)
        let progress = try workers.apply(
            Self.application, over: own,
            evidence: { EvidenceList(Self.evidence, after: $1) })
        #expect(progress.isApplied && progress.rowsChanged == 400)
        #expect(told.withLock { $0 }.contains { $0.contains("store.connections") })
    }

    @Test("one worker's failure ends all workers and is reported")
    func failure() throws {
        struct Broken: Error {}
        struct BrokenStream: EvidenceStream {
            func next(_ limit: Int) throws -> [TokenEvidence] { throw Broken() }
        }
        for engine in TestEngine.available {
            let database = try Self.database(engine)
            expectFailure(.evidence) {
                try StoreWorkers(database.settings, count: 2).apply(
                    Self.application, over: database.store(pacing: hurried()),
                    evidence: { _, _ in BrokenStream() })
            }
        }
    }

    @Test("parts cover every token once, for any number of parts", arguments: [1, 2, 3, 7, 256])
    func parts(_ count: Int) {
        let parts = TokenRange.parts(count)
        #expect(parts.count == count)
        for token in Self.tokens {
            let holders = parts.filter { part in
                (part.lowerBound.map { token >= $0 } ?? true)
                    && (part.upperBound.map { token < $0 } ?? true)
            }
            #expect(holders.count == 1)
        }
    }
}
