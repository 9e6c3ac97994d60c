import APNsProtocol
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// A change as a follower gets it.
struct Followed: Sendable {
    let cursor: ChangeCursor
    private let entry: LedgerEntry
    var run: String { entry.part.run }
    var app: String? { entry.origin?.partition.app }
    var environment: String? { entry.origin?.partition.environment }
    var action: String { entry.action }
    var state: String? { entry.state }
    var source: String? { entry.origin?.source }
    var reason: String? { entry.reason }
    var token: DeviceToken? { entry.token }
    var evidence: EpochMilliseconds { entry.evidence }

    init(_ change: FollowedChange) { (cursor, entry) = change }

    func key(wholeTokens: Bool) -> String { entry.key.text(wholeTokens: wholeTokens) }
}

extension TokenDatabase {
    /// The entries of the ledger that describe changes.
    fileprivate var entries: Int {
        get throws { try count("SELECT COUNT(*) FROM pushsweep_change WHERE seq >= 0") }
    }

    /// All changes from a place on, read by a new follower.
    func followed(
        from start: ChangeStart = .cursor(ChangeCursor(number: 0))
    ) throws -> [Followed] {
        var follower = try ChangeFollower(try store().session, from: start)
        var all: [Followed] = []
        while true {
            let page = try follower.next()
            if page.isEmpty { return all }
            all += page.map(Followed.init)
        }
    }

    /// Requires numbers 1, 2, 3 …, and that each entry of the ledger is in exactly one.
    func expectNumbers(_ comment: Comment? = nil) throws {
        let rows = try texts(
            "SELECT number, run, part, first_seq, last_seq FROM pushsweep_commit "
                + "WHERE number > 0 ORDER BY number")
        #expect(rows.map { $0[0] } == rows.indices.map { "\($0 + 1)" }, comment)
        #expect(
            try count("SELECT last_seq FROM pushsweep_commit WHERE number = 0") == rows.count,
            comment)
        var covered: [String] = []
        for row in rows {
            for sequence in (Int(row[3]) ?? 0)...(Int(row[4]) ?? 0) {
                covered.append("\(row[1...2].joined(separator: " ")) \(sequence)")
            }
        }
        let entries = try texts(
            "SELECT run, part, seq FROM \(ledgerWithRuns) WHERE seq >= 0"
        ).map { $0.joined(separator: " ") }
        #expect(covered.sorted() == entries.sorted(), comment)
    }
}

@Suite("The order of changes")
struct ChangeOrderTests {
    private static func database(_ engine: TestEngine, rows: Int) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine, 0..<rows)
        return database
    }

    private static func dead(_ numbers: Range<Int>, at time: Int64 = 60_000) -> [TokenEvidence] {
        numbers.map { .dead($0, at: start + time) }
    }

    @Test(
        "a transaction that wrote first and commits last is listed last, and not before",
        .needsServer)
    func lateCommit() throws {
        let database = try Self.database(.mariaDB, rows: 20)
        // The counter exists already.
        try database.store().apply(Self.dead(19..<20), run: "first")
        let slow = FaultyConnection(database.driver())
        let store = try TokenTable(database.settings, slow, Pacing())
        var seen: [[String]] = []
        slow.before = { sql in
            guard sql.hasPrefix("UPDATE pushsweep_commit") else { return }
            slow.before = { _ in }
            // The slow transaction has written its entries and changed its rows.
            _ = try? database.store().apply(Self.dead(10..<15), run: "fast")
            seen.append((try? database.followed().map(\.run)) ?? [])
        }
        try store.apply(Self.dead(0..<5), run: "slow")
        let fast = ["first"] + Array(repeating: "fast", count: 5)
        #expect(seen == [fast])
        #expect(try database.followed().map(\.run) == fast + Array(repeating: "slow", count: 5))
        try database.expectNumbers()
    }

    @Test("a transaction that waits to commit shows nobody a later number", .needsServer)
    func heldCommit() throws {
        let database = try Self.database(.mariaDB, rows: 20)
        try database.store().apply(Self.dead(19..<20), run: "first")
        let settings = database.settings
        let held = FaultyConnection(database.driver())
        let store = try TokenTable(settings, held, Pacing())
        let other = DispatchGroup()
        var whileHeld: [String]?
        var (isNumbered, isWaiting) = (false, false)
        held.before = { sql in
            if sql.hasPrefix("UPDATE pushsweep_commit") { isNumbered = true }
            guard sql == "COMMIT", isNumbered else { return }
            held.before = { _ in }
            other.enter()
            Thread {
                defer { other.leave() }
                _ = try? TokenTable(settings).apply(Self.dead(10..<15), run: "waiting")
            }.start()
            let waits =
                "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' "
                + "AND trx_query LIKE 'UPDATE pushsweep_commit%'"
            let deadline = ContinuousClock.now + .seconds(20)
            // The server renews this table only where nobody has read it for a tenth of a second.
            while ContinuousClock.now < deadline, (try? database.count(waits)) == 0 {
                usleep(150_000)
            }
            isWaiting = (try? database.count(waits)) == 1
            whileHeld = try? database.followed().map(\.run)
        }
        try store.apply(Self.dead(0..<5), run: "held")
        other.wait()
        #expect(isWaiting && whileHeld == ["first"])
        #expect(
            try database.followed().map(\.run) == ["first"]
                + Array(repeating: "held", count: 5) + Array(repeating: "waiting", count: 5))
        try database.expectNumbers()
    }

    @Test(
        "a chunk with changes costs two statements, one without costs none",
        arguments: TestEngine.available)
    func cost(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 10)
        try database.store().apply(Self.dead(0..<1))
        func statements(_ evidence: [TokenEvidence]) throws -> [String] {
            let connection = FaultyConnection(database.driver(), [])
            try TokenTable(database.settings, connection, Pacing()).apply(evidence)
            return connection.log.map(\.0).filter { $0.contains("pushsweep_commit") }.map {
                String($0.prefix(6))
            }
        }
        #expect(try statements(Self.dead(0..<10)) == ["UPDATE", "INSERT"])
        #expect(try statements(Self.dead(0..<10)) == [])
        #expect(try statements(Self.dead(500..<600)) == [])
        try database.expectNumbers()
    }

    @Test(
        "followers that are cut anywhere get each entry once, while runs write",
        arguments: TestEngine.available, 0..<3)
    func randomFollowers(_ engine: TestEngine, _ round: Int) throws {
        var random = SeededGenerator("followers \(engine) \(round)")
        let database = try Self.database(engine, rows: 600)
        let settings = database.settings
        let seeds = (0..<5).map { _ in UInt64.random(in: 1...(.max), using: &random) }
        let running = Mutex(2)
        let results = Mutex<[Int: [Followed]]>([:])
        let failures = Mutex<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 5) { index in
            do {
                if index < 2 {
                    defer { running.withLock { $0 -= 1 } }
                    try Self.write(settings, half: index, SeededGenerator(seeds[index]))
                } else {
                    let seen = try Self.follow(settings, SeededGenerator(seeds[index])) {
                        running.withLock { $0 > 0 }
                    }
                    results.withLock { $0[index] = seen }
                }
            } catch {
                failures.withLock { $0.append("\(index): \(error)") }
            }
        }
        #expect(failures.withLock { $0 } == [])
        try database.expectNumbers()
        func words(_ change: Followed) -> String {
            "\(change.cursor) \(change.run) \(change.key(wholeTokens: true))"
        }
        let all = try database.followed().map(words)
        let ledger = try database.texts(
            "SELECT run, row_key FROM \(ledgerWithRuns) WHERE seq >= 0"
        ).map { $0.joined(separator: " ") }
        #expect(Set(all).count == all.count)
        #expect(
            all.map { $0.split(separator: " ").dropFirst().joined(separator: " ") }.sorted()
                == ledger.sorted())
        for index in 2..<5 {
            let seen = results.withLock { $0[index] ?? [] }
            #expect(seen.map(words) == all, "follower \(index)")
        }
    }

    /// Marks, removes and takes back rows of one half of the tokens.
    private static func write(
        _ settings: StoreSettings, half: Int, _ generator: SeededGenerator
    ) throws {
        var random = generator
        let store = try TokenTable(
            settings, pacing: Pacing(firstChunk: Int.random(in: 1...60, using: &random)))
        var runs: [String] = []
        for round in 0..<6 {
            if let run = runs.last, Bool.random(using: &random) {
                try store.undo(.run(run), as: "undo-\(half)-\(round)")
                continue
            }
            let first = half * 300 + Int.random(in: 0..<200, using: &random)
            let run = "run-\(half)-\(round)"
            let evidence = dead(first..<first + 80, at: 60_000 + Int64(round) * 1_000)
            try store.sweep(
                run, evidence,
                policy: RemovalPolicy(action: Bool.random(using: &random) ? .mark : .delete))
            runs.append(run)
        }
    }

    /// Follows in many short lives; each continues at the cursor of the last line that the one
    /// before has processed.
    private static func follow(
        _ settings: StoreSettings, _ generator: SeededGenerator, while isWriting: () -> Bool
    ) throws -> [Followed] {
        var random = generator
        var seen: [Followed] = []
        var cursor = "n0"
        while true {
            let isLast = !isWriting()
            let start = ChangeStart.cursor(try #require(ChangeCursor(cursor)))
            var follower = try ChangeFollower(try TokenTable(settings).session, from: start)
            var rest = isLast ? .max : Int.random(in: 1...200, using: &random)
            while rest > 0 {
                let page = try follower.next().prefix(rest)
                if page.isEmpty { break }
                seen += page.map(Followed.init)
                rest -= page.count
                cursor = "\(page[page.endIndex - 1].cursor)"
            }
            if isLast { return seen }
        }
    }
}
