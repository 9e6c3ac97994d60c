import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000

@Suite("Removal after a grace period")
struct GracePeriodTests {
    private static let policy = RemovalPolicy(action: .delete, deletesAfter: 7 * day)

    /// Rows of every kind; 0 to 249 are due at 30 days after `start`.
    private static func fill(_ database: TokenDatabase) throws {
        for number in 0..<250 {
            try database.register(.numbered(number), at: start, mark: start + 20 * day)
        }
        let others: [(registered: Int64, mark: Int64?)] = [
            (start, nil),  // never marked
            (start, start + 23 * day + 1),  // a millisecond too young
            (start + 21 * day, start + 20 * day),  // registered again
            (start + 20 * day - 1_000, start + 20 * day),  // nobody can tell
        ]
        for (index, other) in others.enumerated() {
            try database.register(
                .numbered(500 + index), at: other.registered, mark: other.mark)
        }
        try database.register(.numbered(600), at: start, app: "other", mark: start + day)
        try database.execute(
            "UPDATE active_users SET invalid_reason = 'Unregistered' WHERE id <= 100")
    }

    @Test(
        "only rows that stayed marked for long enough are removed, and undo brings them back",
        arguments: TestEngine.available)
    func exact(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try Self.fill(database)
        let before = try database.contents()
        let store = try database.store(pacing: hurried())
        let now = start + 30 * day
        #expect(try store.due(.afterAWeek(at: now)) == 250)
        #expect(try database.contents() == before)
        try store.record("sweep", at: now)
        #expect(try store.remove(.afterAWeek(at: now)) == 250)
        #expect(try database.rows() == 5)
        #expect(
            try database.texts(
                "SELECT action, source, COUNT(*) FROM pushsweep_change GROUP BY action, source "
                    + "ORDER BY source")
                == [["delete", "Unregistered", "100"], ["delete", "unknown", "150"]])
        #expect(try store.due(.afterAWeek(at: now)) == 0)
        try store.undo(.run("sweep"), at: now + 1)
        try database.ageLedger(database.time(now + 1))
        #expect(try database.contents() == before)
        // A person brought them back, so no period ends for them by the mark that they have.
        #expect(try store.due(.afterAWeek(at: now + day)) == 1)
        #expect(try store.due(.afterAWeek(at: now + 7 * day + 1)) == 1)
    }

    @Test(
        "a recent mark for old evidence has its whole period before it",
        arguments: TestEngine.available)
    func lateEvidence(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<20)
        let store = try database.store(pacing: hurried())
        let now = start + 30 * day
        try store.sweep(
            "late", (0..<20).map { .dead($0, at: start + day) }, at: now, policy: Self.policy)
        #expect(try database.marked == 20)
        #expect(try store.due(.afterAWeek(at: now)) == 0)
        #expect(try store.due(.afterAWeek(at: now + 7 * day - 1)) == 0)
        #expect(try store.due(.afterAWeek(at: now + 7 * day)) == 20)
    }

    @Test(
        "marks of the side table go with their rows, unless another row needs them",
        arguments: TestEngine.available)
    func sideTable(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (udid VARCHAR(40) PRIMARY KEY, device_token VARCHAR(255) "
                + "NOT NULL, registered_at DATETIME NULL)")
        func register(_ udid: String, _ number: Int, _ time: Int64) throws {
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, ?)",
                [.text(udid), .text(DeviceToken.numbered(number).hex), database.time(time)])
        }
        for number in 0..<150 { try register("udid\(number)", number, start) }
        let store = try database.store(pacing: hurried())
        try store.sweep(
            "old", (0..<150).map { .dead($0, at: start + day) }, at: start + day,
            policy: Self.policy)
        try register("again", 0, start + 2 * day)
        try register("undecided", 1, start + day - 1_000)
        let before = try database.contents()
        let now = start + 30 * day
        #expect(try store.due(.afterAWeek(at: now)) == 150)
        try store.record("sweep", at: now)
        #expect(try store.remove(.afterAWeek(at: now)) == 150)
        #expect(
            try database.texts("SELECT udid FROM active_users ORDER BY udid")
                == [["again"], ["undecided"]])
        #expect(
            try database.texts("SELECT token FROM pushsweep_invalid ORDER BY token")
                == [[DeviceToken.numbered(0).hex], [DeviceToken.numbered(1).hex]],
            "each has a row that stays")
        let undone = try store.undo(.run("sweep"), at: now + 1)
        #expect(undone.kept.isEmpty || undone.kept == ["registered": 1], "\(undone.kept)")
        let after = try database.contents()
        // The mark of 0 belongs to a row that registered again, and to one that did not.
        #expect(after == before)
    }

    @Test(
        "a fault at any statement removes every row once and counts exactly",
        arguments: TestEngine.available)
    func faults(_ engine: TestEngine) throws {
        func run(_ fault: FaultyConnection.Fault?) throws -> Int {
            let database = try TokenDatabase.own(engine)
            try Self.fill(database)
            let connection = FaultyConnection(database.driver(), fault.map { [$0] } ?? [])
            let store = try TokenTable(database.settings, connection, hurried())
            let removed = try store.remove(.afterAWeek(at: start + 30 * day))
            let note: Comment = "\(String(describing: fault))"
            #expect(removed == 250, note)
            #expect(try database.rows() == 5, note)
            #expect(
                try database.texts(
                    "SELECT COUNT(*), MIN(seq), MAX(seq) FROM pushsweep_change") == [
                        ["250", "0", "249"]
                    ], note)
            return connection.operations
        }
        for fault in FaultyConnection.Fault.spread(over: try run(nil), most: 6, on: engine) {
            _ = try run(fault)
        }
    }
}

@Suite("Purge of the ledger")
struct PurgeTests {
    @Test(
        "old entries go with their checkpoints and record, young ones stay",
        arguments: TestEngine.available)
    func retention(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<300)
        let store = try database.store(pacing: hurried())
        try store.sweep("old", (0..<250).map { .dead($0, at: start + 60_000) }, at: start + day)
        try store.sweep(
            "young", (0..<300).map { .dead($0, at: start + 70_000) }, at: start + 20 * day)
        let cutoff = EpochMilliseconds(start + 10 * day)
        let trial = try store.purge(before: cutoff, isDry: true)
        #expect(try database.rows(of: "pushsweep_change") == 550)
        let purged = try store.purge(before: cutoff)
        #expect(purged == trial)
        #expect(purged.runs == 1 && purged.changes == 250 && purged.batches == 1 && purged.isDone)
        #expect(try database.texts("SELECT id FROM pushsweep_run") == [["young"]])
        #expect(try database.texts("SELECT DISTINCT run FROM \(ledgerWithRuns)") == [["young"]])
        #expect(try database.texts("SELECT run FROM pushsweep_batch") == [["young"]])
        #expect(try store.purge(before: cutoff).runs == 0)
        let undone = try store.undo(.run("young"), at: start + 21 * day)
        #expect(undone.restored == 300)
    }

    @Test(
        "the numbers that the guard needs outlast the ledger", arguments: TestEngine.available)
    func guardHistory(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<100)
        let store = try database.store(pacing: hurried())
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        try store.sweep("old", (0..<100).map { .dead($0, at: start + 60_000) }, at: now - 20 * day)
        let cutoff = EpochMilliseconds(now - 10 * day)
        let purged = try store.purge(
            before: cutoff, records: EpochMilliseconds(now - 30 * day))
        #expect(purged.changes == 100 && purged.runs == 0 && purged.batches == 0 && purged.isDone)
        #expect(try store.removals(from: chat).month == 100)
        #expect(try store.undo(.run("old")).entries == 0)
        let rest = try store.purge(before: cutoff)
        #expect(rest.changes == 0 && rest.runs == 1 && rest.batches == 1)
    }

    @Test(
        "recent changes of a sender that has run for long stay", arguments: TestEngine.available)
    func longRun(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<300)
        let store = try database.store(pacing: hurried())
        try store.sweep("sender", (0..<250).map { .dead($0, at: start + 60_000) }, at: start + day)
        try store.apply((250..<300).map { .dead($0, at: start + 60_000) }, run: "sender")
        let cutoff = EpochMilliseconds(start + 10 * day)
        let trial = try store.purge(before: cutoff, isDry: true)
        let purged = try store.purge(before: cutoff)
        #expect(purged == trial)
        #expect(purged.changes == 250 && purged.batches == 1 && purged.runs == 0)
        #expect(try database.texts("SELECT id FROM pushsweep_run") == [["sender"]])
        #expect(try store.removals(from: chat).month == 50)
        #expect(try store.undo(.run("sender"), at: start + 21 * day).restored == 50)
    }

    @Test(
        "the next purge finishes one that was stopped or failed", arguments: TestEngine.available)
    func resumes(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<300)
        let owner = try database.store(pacing: hurried())
        try owner.sweep("old", (0..<300).map { .dead($0, at: start + 60_000) }, at: start + day)
        let cutoff = EpochMilliseconds(start + 10 * day)
        for operation in 1...20 {
            let connection = FaultyConnection(
                database.driver(),
                [.init(operation: operation, isExecuted: true, kind: .other)])
            let store = try TokenTable(database.settings, connection, hurried())
            _ = try? store.purge(before: cutoff)
        }
        _ = try owner.purge(before: cutoff)
        for table in ["pushsweep_change", "pushsweep_batch", "pushsweep_run"] {
            #expect(try database.rows(of: table) == 0)
        }
        // Marks are as before.
        #expect(try database.marked == 300)
    }
}
