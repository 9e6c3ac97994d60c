import APNsProtocol
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

private let day: Int64 = 86_400_000

private var present: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

private let grace = RemovalPolicy(action: .delete, deletesAfter: 7 * day)

@Suite("The times of ledger entries")
struct LedgerTimeTests {
    /// Twenty rows marked just now for evidence long past, by a sender that began long ago.
    private static func lateMarks(_ engine: TestEngine) throws -> (TokenDatabase, TokenTable) {
        let database = try TokenDatabase.own(engine, 0..<20)
        let store = try database.store(pacing: hurried())
        try store.session.record(
            RunRecord(
                id: "sender", kind: "send", started: EpochMilliseconds(present - 60 * day),
                host: "h"))
        try store.apply(
            (0..<20).map { .dead($0, at: present - 20 * day) }, policy: grace, run: "sender")
        return (database, store)
    }

    @Test("entries have the database's time", arguments: TestEngine.available)
    func clock(_ engine: TestEngine) throws {
        let before = present
        let (database, store) = try Self.lateMarks(engine)
        let time = database.sql.dialect.ownTime("changed_at")
        let rows = try database.sql.query("SELECT changed_at FROM pushsweep_change")
        #expect(rows.count == 20)
        for row in 0..<rows.count {
            let changed = try #require(time.mark(rows[row, 0]))
            #expect(abs(changed.rawValue - before) < 60_000)
        }
        #expect(try abs(store.session.databaseTime().rawValue - present) < 60_000)
    }

    @Test(
        "tables of an earlier build are refused by a sweep and by schema apply",
        arguments: TestEngine.available)
    func otherLayout(_ engine: TestEngine) throws {
        let (database, store) = try Self.lateMarks(engine)
        try database.execute("ALTER TABLE pushsweep_change DROP COLUMN changed_at")
        let uses: [() throws -> Void] = [
            { _ = try store.require(.apply(grace)) },
            { _ = try store.applySchema(upgrading: true) },
        ]
        for use in uses {
            let failure = #expect(throws: StoreFailure.self, performing: use)
            #expect(failure?.code == .configuration)
            let isNamed = failure?.sentence.contains("pushsweep_change is of an earlier build")
            #expect(isNamed == true, "\(failure as Any)")
        }
    }

    @Test(
        "a row whose entry was purged too early stays until the period is over",
        arguments: TestEngine.available, [false, true])
    func gap(_ engine: TestEngine, _ isPartial: Bool) throws {
        let (database, store) = try Self.lateMarks(engine)
        try database.execute(
            "DELETE FROM pushsweep_change" + (isPartial ? " WHERE seq < 5" : ""))
        var untouched: [EpochMilliseconds] = []
        #expect(
            try store.due(GraceEnd.afterAWeek(at: present), noticing: { untouched.append($0) }) == 0
        )
        let end = try #require(untouched.first).rawValue
        #expect(abs(end - present - 7 * day) < 60_000)
        #expect(try store.remove(GraceEnd.afterAWeek(at: present)) == 0)
        #expect(try store.due(GraceEnd.afterAWeek(at: end + 1)) == 20)
    }

    @Test(
        "purge keeps young entries, whatever the record of their run says",
        arguments: TestEngine.available)
    func purge(_ engine: TestEngine) throws {
        let (database, store) = try Self.lateMarks(engine)
        try store.undo(.run("sender"), as: "undo", at: present - 50 * day)
        let ancient = database.time(present - 70 * day)
        try database.execute("UPDATE pushsweep_run SET started = ?, ended = ?", [ancient, ancient])
        // No checkpoint protects them either.
        try database.execute("UPDATE pushsweep_batch SET changed_at = NULL")
        let cutoff = EpochMilliseconds(present - 8 * day)
        let trial = try store.purge(before: cutoff, isDry: true)
        let purged = try store.purge(before: cutoff)
        #expect(purged == trial)
        #expect(purged.changes == 0 && purged.batches == 0 && purged.runs == 0)
        #expect(try store.undo(.run("undo"), at: present).restored == 20)
        let all = try store.purge(before: EpochMilliseconds(present + day))
        #expect(all.changes == 60 && all.runs == 3 && all.isDone)
        for table in ["pushsweep_change", "pushsweep_batch", "pushsweep_run"] {
            #expect(try database.rows(of: table) == 0)
        }
    }

    @Test(
        "a purge keeps the entries of undos as long as records, so that they precede what is kept of evidence",
        arguments: TestEngine.available)
    func purgeOfUndos(_ engine: TestEngine) throws {
        let (database, store) = try Self.lateMarks(engine)
        try store.undo(.run("sender"), as: "undo", at: present - 50 * day)
        let (later, earlier) = (
            EpochMilliseconds(present + day), EpochMilliseconds(present - 300 * day)
        )
        #expect(try store.purge(before: later, records: earlier).changes == 20)
        #expect(try store.refusalTimes(mustSee: true).count == 1)
        #expect(try database.rows(of: "pushsweep_change", "source = 'undo'") == 20)
        #expect(try store.purge(before: later).changes == 20)
        #expect(try store.refusalTimes(mustSee: true).isEmpty)
    }

    @Test(
        "a feed with many entries is read in pages", arguments: TestEngine.available)
    func longFeed(_ engine: TestEngine) throws {
        let (database, store) = try Self.lateMarks(engine)
        try database.register(20..<12_020, at: start)
        try store.apply(
            (20..<12_020).map { .dead($0, at: present - 20 * day) }, policy: grace, run: "sender")
        #expect(try store.due(GraceEnd.afterAWeek(at: present)) == 0)
        try database.execute(
            "UPDATE pushsweep_commit SET committed_at = ? WHERE number > 1",
            [database.time(present - 10 * day)])
        #expect(try store.due(GraceEnd.afterAWeek(at: present)) == 12_000)
    }
}

@Suite("The walk along a key")
struct KeyRangesTests {
    @Test(
        "the walk meets every row once and in limited steps, whatever columns the key has",
        arguments: TestEngine.available, [1, 2, 3])
    func everyRow(_ engine: TestEngine, _ width: Int) throws {
        let database = try TokenDatabase(engine)
        let names = ["a", "b", "c"].prefix(width)
        let columns = names.map { "\($0) \($0 == "b" ? "VARCHAR(8)" : "BIGINT") NOT NULL" }
        try database.execute(
            "CREATE TABLE active_users (\(columns.joined(separator: ", ")), "
                + "device_token VARCHAR(64), invalidated_at DATETIME, "
                + "PRIMARY KEY (\(names.reversed().joined(separator: ", "))))")
        // Few values in the leading columns, so that ranges end within them.
        try database.sql.begin()
        let count = 2 * KeyRanges.span + 17
        for first in stride(from: 0, to: count, by: 300) {
            let numbers = first..<min(first + 300, count)
            let row = "(\(placeholders(width)), '', NULL)"
            try database.execute(
                "INSERT INTO active_users VALUES "
                    + repeatElement(row, count: numbers.count).joined(separator: ", "),
                numbers.flatMap { number -> [SQLValue] in
                    Array(
                        [
                            .integer(Int64(number)), .text("k\(number % 3)"),
                            .integer(Int64(number % 2)),
                        ].prefix(width))
                })
        }
        try database.sql.commit()
        let store = try database.store { $0.key = Array(names) }
        let ranges = try KeyRanges(store.layout(), store.catalogTable(), database.sql)
        let steps = try Self.steps(ranges, database).map(\.count)
        #expect(steps == [KeyRanges.span, KeyRanges.span, 17])
    }

    @Test(
        "SQLite: rows with NULL in any key column are met once",
        arguments: [
            ("id INTEGER, app_id TEXT, PRIMARY KEY (id, app_id)", [8, 2, 1]),
            ("id INTEGER, app_id TEXT, PRIMARY KEY (app_id, id)", [8, 2, 1]),
            // By an old mistake of SQLite that is no name for its own number of a row.
            ("id INTEGER PRIMARY KEY DESC, app_id TEXT", [6, 2, 2, 1]),
        ])
    func nullInKey(_ columns: String, _ rows: [Int]) throws {
        let database = try TokenDatabase(.sqlite)
        try database.execute(
            "CREATE TABLE active_users (number INTEGER, device_token TEXT, invalidated_at DATETIME, "
                + "\(columns))")
        for number in 0..<11 {
            try database.execute(
                "INSERT INTO active_users (number, id, app_id) VALUES (?, ?, ?)",
                [
                    .integer(Int64(number)), number % 3 == 0 ? .null : .integer(Int64(number)),
                    number % 4 == 0 ? .null : .text("app\(number)"),
                ])
        }
        let store = try database.store {
            $0.key = columns.contains("(") ? ["id", "app_id"] : ["id"]
        }
        let (layout, table) = (try store.layout(), try store.catalogTable())
        let all = KeyRanges(layout, table, database.sql, span: 2)
        let steps = try Self.steps(all, database, "number")
        #expect(steps.map(\.count) == rows)
        let met = steps.flatMap { step in (0..<step.count).map { step[$0, 0].integer } }
        #expect(met.compactMap { $0 }.sorted() == Array(0..<11))
        // Where rows are to be changed none of these is met, because no entry could name it.
        let named = KeyRanges(layout, table, database.sql, span: 2, namedOnly: true)
        #expect(
            try Self.steps(named, database).map(\.count)
                == Array(repeating: 2, count: rows.count - 1) + [1])
    }

    @Test("SQLite's own number of a row is never NULL, also beside an index over it")
    func rowNumber() throws {
        let database = try TokenDatabase(.sqlite)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token TEXT, app_id TEXT, "
                + "invalidated_at DATETIME)")
        try database.execute("CREATE UNIQUE INDEX again ON active_users (id)")
        let store = try database.store { $0.key = ["id"] }
        let ranges = KeyRanges(try store.layout(), try store.catalogTable(), database.sql, span: 2)
        // To ask for NULL, too, would read the whole index for the first range.
        #expect(!ranges.condition(after: [], upTo: [.integer(2)]).sql.contains("IS NULL"))
    }

    /// What a walk reads of each row, step by step. SQLite searches the rows of each step but the first.
    private static func steps(
        _ ranges: KeyRanges, _ database: TokenDatabase, _ list: String? = nil
    ) throws -> [SQLRows] {
        var (position, steps): ([SQLValue], [SQLRows]) = ([], [])
        repeat {
            let end = try ranges.end(after: position)
            let range = ranges.condition(after: position, upTo: end)
            let sql = "SELECT \(list ?? ranges.list) FROM \(ranges.source) WHERE \(range.sql)"
            steps.append(try database.sql.query(sql, range.values))
            if database.engine == .sqlite, !position.isEmpty {
                let plan = try database.texts("EXPLAIN QUERY PLAN \(sql)", range.values)
                #expect(plan.allSatisfy { $0.last?.hasPrefix("SEARCH") == true }, "\(plan)")
            }
            position = end ?? []
        } while !position.isEmpty && steps.count < 10
        return steps
    }
}
