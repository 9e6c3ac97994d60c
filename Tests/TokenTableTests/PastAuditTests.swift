import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// How a table keeps its marks, and what a sweep does.
enum PastShape: String, CaseIterable, Sendable {
    /// A column of times.
    case mark
    /// A column of two values, with the times beside the table.
    case living
    /// Marks beside the table.
    case beside
    /// Rows are removed; a mark column exists.
    case delete
    /// Rows are removed together with their marks beside the table.
    case deleteBeside
    /// No time of registration is known.
    case timeless

    var removes: Bool { self == .delete || self == .deleteBeside }

    func map(_ mapping: inout TableMapping) {
        switch self {
        case .mark, .delete: break
        case .living:
            mapping.living.column = "active"
            mapping.living.living = "1"
            mapping.living.dead = "0"
            fallthrough
        case .beside, .deleteBeside:
            mapping.invalidatedAt.column = .absent
            mapping.reason = .absent
        case .timeless: mapping.registeredAt.column = .absent
        }
    }
}

/// A table that lives through random months, with a copy of it after each step.
final class PastCourse {
    /// The table after a step.
    private struct Copy {
        let time: Int64
        let rows: [[SQLValue]]
        let marks: [[SQLValue]]
    }

    let database: TokenDatabase
    let store: TokenTable
    private let other: TokenDatabase
    private let shape: PastShape
    private var random: SeededGenerator
    private var copies: [Copy] = []
    private var runs: [String] = []
    private(set) var now = start + 3_600_000
    private var next = 0
    /// The registrations of each row by its key, and the changes that tell what a row was before.
    private var events: [SQLValue: [(time: Int64, isRegistration: Bool)]] = [:]

    init(_ engine: TestEngine, _ shape: PastShape, _ random: SeededGenerator) throws {
        self.shape = shape
        self.random = random
        database = try TokenDatabase(engine)
        other = try TokenDatabase(engine)
        for database in [database, other] {
            try database.createOwnSchema()
            try database.execute("ALTER TABLE active_users ADD active INTEGER DEFAULT 1")
        }
        store = try database.store(pacing: hurried(), shape.map)
    }

    // MARK: Steps

    /// Lives through some steps.
    func live(_ steps: Int) throws {
        for _ in 0..<25 { try insert() }
        try copy()
        for _ in 0..<steps {
            now += Int64.random(in: 60_000...(3 * 86_400_000), using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            // Without a time of registration new rows look like old ones.
            case 0 where shape != .timeless: try insert()
            case 1, 2: if shape != .timeless { try register() }
            case 8, 9: try undo()
            default: try sweep()
            }
            try date()
            try copy()
        }
    }

    private func insert() throws {
        let token = DeviceToken.numbered(next, count: next % 7 == 0 ? 64 : 32)
        next += 1
        try database.register(token, at: now, app: next % 5 == 0 ? "other" : "chat")
        let key = try database.sql.query("SELECT MAX(id) FROM active_users")[0, 0]
        events[key, default: []].append((now, true))
    }

    private func register() throws {
        let ids = try database.sql.query("SELECT id FROM active_users ORDER BY id")
        guard ids.count > 0 else { return }
        let id = ids[Int.random(in: 0..<ids.count, using: &random), 0]
        try database.execute(
            "UPDATE active_users SET registered_at = ?, active = 1 WHERE id = ?",
            [database.time(now), id])
        events[id, default: []].append((now, true))
    }

    private func sweep() throws {
        let numbers = (0..<Int.random(in: 1...8, using: &random)).map { _ in
            Int.random(in: 0..<next, using: &random)
        }
        let evidence = Set(numbers).map { number in
            TokenEvidence(
                token: .numbered(number, count: number % 7 == 0 ? 64 : 32),
                time: EpochMilliseconds(
                    now - Int64.random(in: 0...(9 * 86_400_000), using: &random)))
        }.sorted { $0.token < $1.token }
        let run = "run\(runs.count)"
        runs.append(run)
        try store.session.record(
            RunRecord(id: run, kind: "sweep", started: EpochMilliseconds(now), host: "h"))
        let removes = shape.removes && Bool.random(using: &random)
        try store.apply(
            evidence,
            policy: RemovalPolicy(
                action: removes ? .delete : .mark, deletesWithoutRegistrationTime: true), run: run)
    }

    private func undo() throws {
        guard !runs.isEmpty else { return }
        let run = "undo\(runs.count)"
        let scope: UndoScope =
            Bool.random(using: &random)
            ? .run(runs.one(&random)) : .since(EpochMilliseconds(now - 8 * 86_400_000))
        try store.undo(scope, as: run, at: now)
        runs.append(run)
    }

    /// Gives the entries of the last step its time.
    private func date() throws {
        let time = database.sql.dialect.ownTime("changed_at").value(EpochMilliseconds(now))
        let recent = database.sql.dialect.ownTime("changed_at").value(
            try store.session.databaseTime().advanced(by: -86_400_000))
        try database.execute(
            "UPDATE pushsweep_change SET changed_at = ? WHERE changed_at > ?", [time, recent])
        try database.execute(
            "UPDATE pushsweep_commit SET committed_at = ? WHERE committed_at > ? AND number > 0",
            [time, recent])
    }

    private func copy() throws {
        func rows(_ table: String) throws -> [[SQLValue]] {
            let found = try database.sql.query("SELECT * FROM \(table) ORDER BY 1")
            return (0..<found.count).map { Array(found.row($0)) }
        }
        let copy = Copy(
            time: now, rows: try rows("active_users"), marks: try rows("pushsweep_invalid"))
        let before = Set(copies.last?.rows.map { $0[0] } ?? [])
        let after = Set(copy.rows.map { $0[0] })
        for key in before.symmetricDifference(after) where events[key]?.last?.time != now {
            events[key, default: []].append((now, false))
        }
        copies.append(copy)
    }

    // MARK: Comparison

    /// Compares the audit of a random time with a copy of the table from then.
    ///
    /// - Returns: the differences in words, and how many rows were overwritten.
    func compare() throws -> (differences: [String], overwritten: Int) {
        let first = copies[0].time
        let time = Int64.random(in: first...(now + 10_000), using: &random)
        guard let copy = copies.last(where: { $0.time <= time }) else { return ([], 0) }
        let partitions = [chat, Partition(app: "game", environment: "production")]
        let moment = EpochMilliseconds(time)
        let past = try #require(
            try PastAudit(store, partitions, at: moment, span: 7).tallies())
        // Rows whose first later event is a registration cannot be known.
        let unknown = Set(
            events.filter { event in
                shape != .timeless && event.value.first { $0.time > time }?.isRegistration == true
            }.map(\.key))
        try other.sql.begin()
        for table in ["active_users", "pushsweep_invalid"] {
            try other.execute("DELETE FROM \(table)")
        }
        for row in copy.rows where !unknown.contains(row[0]) {
            try other.execute(
                "INSERT INTO active_users VALUES (\(placeholders(row.count)))", row)
        }
        for row in copy.marks {
            try other.execute(
                "INSERT INTO pushsweep_invalid VALUES (\(placeholders(row.count)))", row)
        }
        try other.sql.commit()
        let (tallies, _) = try #require(
            try TableAudit(try other.store(shape.map), partitions, at: moment).tallies())
        var wrong: [String] = []
        let overwritten = past.tallies.values.reduce(0) { $0 + $1.count(.overwritten) }
        for partition in partitions {
            let expected = (tallies[partition] ?? RowTally()).settled
            let found = past.tallies[partition] ?? RowTally()
            func compare<Value: Equatable>(_ name: String, _ path: (RowTally) -> Value) {
                let values = (path(found), path(expected))
                if values.0 != values.1 {
                    wrong.append("\(time) \(name): \(values.0), the copy has \(values.1)")
                }
            }
            compare("classes") { $0.classes.filter { $0.key != .overwritten } }
            compare("stale ages", \.staleAges)
            compare("registrations", \.registrationAges)
            compare("reasons", \.reasons)
            compare("forms", \.forms)
            compare("never registered", \.neverRegistered)
        }
        let count = past.tallies[chat]?.count(.overwritten) ?? 0
        let chats = unknown.filter(isChat).count
        if count != chats { wrong.append("\(time) overwritten: \(count), not \(chats)") }
        if past.doubts != PastDoubts() { wrong.append("\(time) doubts: \(past.doubts)") }
        return (wrong, overwritten)
    }

    /// Every fifth row belongs to another app.
    private func isChat(_ key: SQLValue) -> Bool { (key.integer ?? 0) % 5 != 0 }
}

@Suite("Counting the rows of a time in the past")
struct PastAuditTests {
    @Test(
        "the counts of a past time are those of a copy of the table from then, but for rows that registered later",
        arguments: TestEngine.available, PastShape.allCases)
    func equalsCopy(_ engine: TestEngine, _ shape: PastShape) throws {
        var random = SeededGenerator("past of \(shape.rawValue) on \(engine.rawValue)")
        let course = try PastCourse(
            engine, shape, SeededGenerator(quietly: random.next()))
        try course.live(60)
        var overwritten = 0
        for _ in 0..<50 {
            let (differences, count) = try course.compare()
            #expect(differences == [])
            overwritten += count
            if !differences.isEmpty { return }
        }
        #expect((overwritten > 0) == (shape != .timeless))
    }

    @Test(
        "the ledger reaches back to the first change that no purge has dropped",
        arguments: TestEngine.available)
    func reach(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        try database.register(0..<40, at: start)
        let store = try database.store(pacing: hurried())
        let month: Int64 = 30 * 86_400_000
        let times: [Int64] = [start + month, start + 2 * month, start + 3 * month]
        func reach(at now: Int64) throws -> LedgerReach {
            try store.ledgerReach(now: EpochMilliseconds(now))
        }
        #expect(try reach(at: times[2]).earliest == nil)
        for (number, time) in times.enumerated() {
            try store.sweep(
                "run\(number)", (0..<10).map { .dead(number * 10 + $0, at: time - 1_000) }, at: time
            )
            try database.execute(
                "UPDATE pushsweep_commit SET committed_at = ? WHERE run = ?",
                [database.time(time), .text("run\(number)")])
        }
        #expect(try reach(at: times[2]).earliest == nil)
        _ = try store.purge(before: EpochMilliseconds(times[0] + 1))
        let kept = try reach(at: times[2])
        #expect(kept.earliest == EpochMilliseconds(times[1]))
        #expect(kept.includes(EpochMilliseconds(times[1])))
        #expect(!kept.includes(EpochMilliseconds(times[1] - 1)))
        let past = try #require(
            try PastAudit(store, [chat], at: EpochMilliseconds(times[1])).tallies())
        #expect(past.tallies[chat]?.count(.stale) == 20)
        // An entry without its neighbours is noticed too.
        try database.execute("DELETE FROM pushsweep_change WHERE run = 'run2' AND seq = 3")
        #expect(throws: StoreFailure.self) {
            try PastAudit(store, [chat], at: EpochMilliseconds(times[1])).tallies()
        }
        _ = try store.purge(before: EpochMilliseconds(times[2] + 1))
        // The last number stays without entries: the settings of the purge do not matter.
        let known = EpochMilliseconds(times[2] + 1)
        let later = times[2] + 2 * month
        for now in [times[2] + 5_000, later] { #expect(try reach(at: now).earliest == known) }
        let quiet = try #require(try PastAudit(store, [chat], at: known).tallies())
        #expect(quiet.tallies[chat]?.count(.stale) == 30)
        try store.sweep("run3", (30..<35).map { .dead($0, at: times[2]) }, at: later)
        #expect(try reach(at: later).earliest == known)
        let before = try #require(try PastAudit(store, [chat], at: known).tallies())
        #expect(before.tallies[chat]?.count(.stale) == 30)
        // A purge of an older version dropped the last number too.
        try database.execute("DELETE FROM pushsweep_commit WHERE number > 0")
        #expect(try reach(at: later).earliest == EpochMilliseconds(later))
    }

    @Test(
        "a registration that is no time is none of a later time, now and in the past",
        arguments: TestEngine.available)
    func unreadable(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createSideTables()
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at BIGINT, invalidated_at BIGINT)")
        let store = try database.store(pacing: hurried()) {
            $0.encoding = .hex
            $0.registeredAt.type = .epochSeconds
            $0.invalidatedAt.type = .epochSeconds
        }
        for (id, seconds) in [start / 1_000, 200_000_000_000].enumerated() {
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, ?, NULL)",
                [
                    .integer(Int64(id)), .text(DeviceToken.numbered(id).hex),
                    .integer(Int64(seconds)),
                ])
        }
        let time = try store.session.databaseTime().advanced(by: -1_000)
        try store.apply([.dead(0, at: start + 1_000)])
        // The application spoils the time of a marked row.
        try database.execute(
            "UPDATE active_users SET registered_at = 300000000000 WHERE id = 0")
        let later = try store.session.databaseTime().advanced(by: 60_000)
        let present = try #require(try TableAudit(store, [chat], at: later).tallies())
        #expect(present.tallies[chat]?.classes == [.revived: 1, .living: 1])
        #expect(present.tallies[chat]?.registrationAges == [.unknown: 2])
        let past = try #require(try PastAudit(store, [chat], at: time).tallies())
        #expect(past.tallies[chat]?.classes == [.living: 2])
        #expect(past.tallies[chat]?.neverRegistered == 0)
    }

    @Test(
        "a row that the application removed, and a change under another key, are doubts",
        arguments: TestEngine.available)
    func doubts(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        try database.register(0..<10, at: start)
        let store = try database.store(pacing: hurried())
        let time = try store.session.databaseTime().advanced(by: -1_000)
        try store.apply((0..<6).map { .dead($0, at: start + 1_000) })
        try database.execute(
            "DELETE FROM active_users WHERE device_token = ?",
            [.bytes(DeviceToken.numbered(2).bytes)])
        let past = try #require(try PastAudit(store, [chat], at: time).tallies())
        #expect(
            past.doubts
                == {
                    var doubts = PastDoubts(); doubts.gone = 1; return doubts
                }())
        #expect(past.tallies[chat]?.count(.living) == 9)
        try database.execute("UPDATE pushsweep_feed SET key_columns = 'user_id'")
        let foreign = try #require(try PastAudit(store, [chat], at: time).tallies())
        #expect(foreign.doubts.foreign == 6)
        // Whoever set these marks after the time, what the rows were is not known from them.
        #expect(foreign.tallies[chat]?.count(.stale) == 5)
    }
}
