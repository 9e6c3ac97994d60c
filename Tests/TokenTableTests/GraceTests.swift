import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000

/// The present, which the engines of the tests agree about.
private var present: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

private let grace = RemovalPolicy(action: .delete, deletesAfter: 7 * day)

extension TokenTable {
    /// Records a run that began at a time in the past.
    fileprivate func began(_ run: String, daysAgo: Int64, kind: String = "send") throws {
        try session.record(
            RunRecord(
                id: run, kind: kind, started: EpochMilliseconds(present - daysAgo * day), host: "h")
        )
    }
}

@Suite("The time of a mark")
struct GraceTests {
    /// A table with marks in the row, or in the side table.
    private static func table(_ engine: TestEngine, marksBeside: Bool) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        if marksBeside {
            try database.execute("ALTER TABLE active_users DROP COLUMN invalidated_at")
            try database.execute("ALTER TABLE active_users DROP COLUMN invalid_reason")
        }
        for number in 0..<20 {
            try database.execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) "
                    + "VALUES ('u', 'chat', 'production', ?, ?)",
                [.bytes(DeviceToken.numbered(number).bytes), database.time(start)])
        }
        return database
    }

    @Test(
        "the database gives each change its time, however long ago its sender began",
        arguments: TestEngine.available, [false, true])
    func longSender(_ engine: TestEngine, _ marksBeside: Bool) throws {
        let database = try Self.table(engine, marksBeside: marksBeside)
        let store = try database.store(pacing: hurried())
        try store.began("sender", daysAgo: 30)
        // APNs answers now that they were gone long ago.
        try store.apply(
            (0..<20).map { .dead($0, at: present - 20 * day) }, policy: grace, run: "sender")
        #expect(try store.due(.afterAWeek(at: present)) == 0)
        try store.began("sweep", daysAgo: 0, kind: "sweep")
        #expect(try store.remove(.afterAWeek(at: present)) == 0)
        #expect(try store.due(.afterAWeek(at: present + 6 * day)) == 0)
        #expect(try store.due(.afterAWeek(at: present + 8 * day)) == 20)
    }

    @Test(
        "each change has its own time where one run begins a feed and another ends it",
        arguments: TestEngine.available)
    func continued(_ engine: TestEngine) throws {
        let database = try Self.table(engine, marksBeside: false)
        try database.register(20..<600, at: start)
        let store = try database.store(pacing: hurried())
        let evidence = (0..<600).map { TokenEvidence.dead($0, at: present - 20 * day) }
        try store.began("one", daysAgo: 30)
        var chunks = 0
        try store.apply(evidence, policy: grace, feed: "f", run: "one") {
            chunks += 1
            return chunks > 2
        }
        try store.began("two", daysAgo: 29)
        try store.apply(evidence, policy: grace, feed: "f", run: "two")
        #expect(
            try database.count("SELECT COUNT(DISTINCT run) FROM \(ledgerWithRuns)") == 2)
        #expect(try store.due(.afterAWeek(at: present)) == 0)
        #expect(try store.due(.afterAWeek(at: present + 8 * day)) == 600)
    }

    @Test(
        "a row that a sender marks while rows are being removed is kept",
        arguments: TestEngine.available, [false, true])
    func meanwhile(_ engine: TestEngine, _ marksBeside: Bool) throws {
        let database = try Self.table(engine, marksBeside: marksBeside)
        let store = try database.store(pacing: hurried())
        let sender = try database.store(pacing: hurried())
        try sender.began("sender", daysAgo: 0)
        var isMarked = false
        let removed = try store.remove(.afterAWeek(at: present + day)) {
            if !isMarked {
                // Expiry has asked the ledger all it asks before it begins.
                _ = try? sender.apply(
                    (0..<5).map { .dead($0, at: start + day) }, policy: grace, run: "sender")
                isMarked = true
            }
            return false
        }
        #expect(removed == 0)
        #expect(try database.rows() == 20)
    }

    @Test(
        "the time survives a changed key in the settings, and undo leaves such rows alone",
        arguments: TestEngine.available)
    func changedKey(_ engine: TestEngine) throws {
        let database = try Self.table(engine, marksBeside: false)
        try database.execute("ALTER TABLE active_users ADD number BIGINT NOT NULL DEFAULT 0")
        // Numbers that are keys of other rows.
        try database.execute("UPDATE active_users SET number = 21 - id")
        try database.execute("CREATE UNIQUE INDEX numbers ON active_users (number)")
        let before = try database.store(pacing: hurried())
        try before.began("run", daysAgo: 30)
        try before.apply(
            (0..<5).map { .dead($0, at: present - 20 * day) }, policy: grace, run: "run")
        let after = try database.store(pacing: hurried()) { $0.key = ["number"] }
        var untouched: EpochMilliseconds?
        #expect(try after.due(.afterAWeek(at: present), noticing: { untouched = $0 }) == 0)
        #expect(abs((untouched?.rawValue ?? 0) - (present + 7 * day)) < 600_000)
        #expect(try after.due(.afterAWeek(at: present + 8 * day)) == 5)
        let undone = try after.undo(.run("run"), at: present + day)
        #expect(undone.kept == ["foreign": 5])
        #expect(try database.unmarked() == 15)
        #expect(try before.undo(.run("run"), as: "again", at: present + day).restored == 5)
    }

    @Test(
        "the time survives a change of the key in the middle of a feed",
        arguments: TestEngine.available)
    func keyChangedWithin(_ engine: TestEngine) throws {
        let database = try Self.table(engine, marksBeside: false)
        try database.register(20..<600, at: start)
        try database.execute("CREATE UNIQUE INDEX tokens ON active_users (device_token)")
        let evidence = (0..<600).map { TokenEvidence.dead($0, at: present - 20 * day) }
        let before = try database.store(pacing: hurried()) { $0.key = ["device_token"] }
        var chunks = 0
        try before.apply(evidence, policy: grace, feed: "f", run: "one") {
            chunks += 1
            return chunks > 2
        }
        let after = try database.store(pacing: hurried())
        try after.apply(evidence, policy: grace, feed: "f", run: "one")
        #expect(try after.due(.afterAWeek(at: present)) == 0)
        #expect(try before.due(.afterAWeek(at: present)) == 0)
        #expect(try after.due(.afterAWeek(at: present + 8 * day)) == 600)
    }

    @Test(
        "a row that a sender marks again between its selection and its removal is kept",
        arguments: TestEngine.available)
    func betweenLookAndLock(_ engine: TestEngine) throws {
        let database = try Self.table(engine, marksBeside: false)
        try database.execute(
            "UPDATE active_users SET invalidated_at = ?", [database.time(start + day)])
        let sender = try database.store(pacing: hurried())
        try sender.began("sender", daysAgo: 0)
        let connection = FaultyConnection(database.driver())
        let name = connection.dialect.quoted("invalidated_at")
        connection.after = { sql in
            guard sql.contains("\(name) IS NOT NULL") else { return }
            connection.after = { _ in }
            _ = try? sender.apply(
                (0..<5).map { .dead($0, at: start + 2 * day) }, policy: grace, run: "sender")
        }
        let store = try TokenTable(database.settings, connection, hurried())
        #expect(try store.remove(.afterAWeek(at: present + day)) == 15)
        #expect(try database.rows(of: "active_users", "id <= 5") == 5)
        // What a batch left in place is looked at again after a day.
        #expect(try store.due(.afterAWeek(at: present + 9 * day)) == 0)
        try database.execute(
            "UPDATE pushsweep_report SET changed_at = ?", [database.time(present - 2 * day)])
        #expect(try store.due(.afterAWeek(at: present + 9 * day)) == 5)
    }

    @Test(
        "a row whose mark the application moves between its selection and its removal is kept",
        arguments: TestEngine.available)
    func movedByApplication(_ engine: TestEngine) throws {
        let database = try Self.table(engine, marksBeside: false)
        try database.execute(
            "UPDATE active_users SET invalidated_at = ?", [database.time(start + day)])
        let connection = FaultyConnection(database.driver())
        let name = connection.dialect.quoted("invalidated_at")
        connection.after = { sql in
            guard sql.contains("\(name) IS NOT NULL") else { return }
            connection.after = { _ in }
            try? database.execute(
                "UPDATE active_users SET invalidated_at = ? WHERE id <= 5",
                [database.time(start + 2 * day)])
        }
        let store = try TokenTable(database.settings, connection, hurried())
        #expect(try store.remove(.afterAWeek(at: present + day)) == 15)
        #expect(try database.rows(of: "active_users", "id <= 5") == 5)
    }

    @Test(
        "a row to which undo gives an older mark back has the time of the undo",
        arguments: TestEngine.available, [false, true])
    func restored(_ engine: TestEngine, _ marksBeside: Bool) throws {
        let database = try Self.table(engine, marksBeside: marksBeside)
        let store = try database.store(pacing: hurried())
        func age() throws {
            // All changes so far happened forty days ago.
            let past = database.time(present - 40 * day)
            try database.execute("UPDATE pushsweep_run SET started = ?, ended = ?", [past, past])
            try database.execute("UPDATE pushsweep_batch SET changed_at = ?", [past])
            try database.ageLedger(past)
        }
        try store.began("old", daysAgo: 40, kind: "sweep")
        try store.apply(
            (0..<20).map { .dead($0, at: present - 50 * day) }, policy: grace, run: "old")
        try age()
        #expect(try store.due(.afterAWeek(at: present)) == 20)
        try store.began("new", daysAgo: 0, kind: "sweep")
        try store.apply(
            (0..<20).map { .dead($0, at: present - 1_000) }, policy: grace, run: "new")
        #expect(try store.due(.afterAWeek(at: present)) == 0)
        let undone = try store.undo(.run("new"), at: present)
        #expect(undone.restored == 20)
        #expect(try store.due(.afterAWeek(at: present)) == 0)
        #expect(try store.due(.afterAWeek(at: present + 8 * day)) == 20)
    }
}

extension TokenDatabase {
    /// Gives all changes in the ledger another time.
    func ageLedger(_ time: SQLValue) throws {
        try execute("UPDATE pushsweep_change SET changed_at = ?", [time])
        try execute("UPDATE pushsweep_commit SET committed_at = ? WHERE number > 0", [time])
    }
}

@Suite("The order of an undo")
struct UndoOrderTests {
    @Test(
        "undo follows the order of changes, also of a sender that began before a sweep",
        arguments: TestEngine.available, [false, true])
    func interleaved(_ engine: TestEngine, _ deletes: Bool) throws {
        let database = try TokenDatabase.own(engine, 0..<50)
        let store = try database.store(pacing: hurried())
        let before = try database.contents()
        try store.began("sender", daysAgo: 30)
        try store.began("sweep", daysAgo: 1, kind: "sweep")
        try store.apply((0..<50).map { .dead($0, at: start + 60_000) }, run: "sweep")
        // A millisecond is the finest time of a database.
        try database.ageLedger(database.time(present - 60_000))
        try store.apply(
            (0..<50).map { .dead($0, at: start + 90_000) },
            policy: RemovalPolicy(action: deletes ? .delete : .mark), run: "sender")
        let undone = try store.undo(.since(EpochMilliseconds(0)), at: present)
        #expect(undone.kept.isEmpty, "\(undone.kept)")
        #expect(undone.restored == 100)
        #expect(try database.contents() == before)
    }

    @Test(
        "undo follows the values that changes left where the database's clock stepped back",
        arguments: TestEngine.available)
    func steppedBack(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<50)
        let store = try database.store(pacing: hurried())
        let before = try database.contents()
        for (number, run) in ["a", "b", "c", "d"].enumerated() {
            try store.began(run, daysAgo: Int64(10 - number), kind: "sweep")
            try store.apply(
                (0..<50).map { .dead($0, at: start + 60_000 + Int64(number) * 1_000) }, run: run)
        }
        for (run, minute) in [("a", 4), ("b", 1), ("c", 1), ("d", 2)] {
            let time = database.time(present - 3_600_000 + Int64(minute) * 60_000)
            try database.execute(
                "UPDATE pushsweep_change SET changed_at = ? WHERE \(isOfRun(run))", [time])
            // Between equal times the runs' order decides, so it is wrong too.
            try database.execute(
                "UPDATE pushsweep_run SET started = ? WHERE id = ?", [time, .text(run)])
        }
        let undone = try store.undo(.since(EpochMilliseconds(0)), at: present)
        #expect(undone.kept.isEmpty && undone.restored == 200, "\(undone)")
        #expect(try database.contents() == before)
    }
}
