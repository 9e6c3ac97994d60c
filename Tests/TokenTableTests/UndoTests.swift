import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

extension TokenTable {
    /// Undoes as a new run, or as an unfinished one of the same selection.
    @discardableResult
    func undo(
        _ selection: UndoScope, as id: String = UUID().uuidString.lowercased(),
        at time: Int64 = start + 900_000, isDry: Bool = false,
        shouldStop: () -> Bool = { false }
    ) throws -> UndoProgress {
        let begun = try unfinishedUndo(of: selection)
        let record =
            begun ?? RunRecord(id: id, kind: "undo", started: EpochMilliseconds(time), host: "h")
        let plan = try planUndo(
            selection, until: begun?.started ?? EpochMilliseconds(.max), excluding: record.id)
        return try undo(
            plan, as: record, isDry: isDry, now: { EpochMilliseconds(time) },
            shouldStop: shouldStop)
    }

    /// Applies evidence as a recorded run.
    func sweep(
        _ run: String, _ evidence: [TokenEvidence], at time: Int64 = start + 600_000,
        policy: RemovalPolicy = RemovalPolicy()
    ) throws {
        try session.record(
            RunRecord(id: run, kind: "sweep", started: EpochMilliseconds(time), host: "h"))
        try apply(evidence, policy: policy, run: run)
        let changed = connection.dialect.ownTime("changed_at").value(EpochMilliseconds(time))
        let parts = try connection.query(
            "SELECT number FROM pushsweep_part WHERE run = ?", [.text(run)])
        for row in 0..<parts.count {
            _ = try connection.execute(
                "UPDATE pushsweep_change SET changed_at = ? WHERE part = ?",
                [changed, parts[row, 0]])
        }
        _ = try connection.execute(
            "UPDATE pushsweep_commit SET committed_at = ? WHERE number > 0 AND run = ?",
            [changed, .text(run)])
        let feeds = try connection.query(
            "SELECT name FROM pushsweep_batch WHERE run = ?", [.text(run)])
        for row in 0..<feeds.count {
            _ = try connection.execute(
                "UPDATE pushsweep_batch SET changed_at = ? WHERE name = ?",
                [changed, feeds[row, 0]])
        }
    }
}

extension TokenDatabase {
    /// Everything that marks and deletes change, as text.
    func contents(of table: String = "active_users") throws -> [[String]] {
        try texts("SELECT * FROM \(table) ORDER BY 1, 2")
            + texts("SELECT * FROM pushsweep_invalid ORDER BY token, app, environment")
    }
}

@Suite("Undo")
struct UndoTests {
    private static let evidence = (0..<400).map { TokenEvidence.dead($0, at: start + 60_000) }

    @Test("a run is undone in any case of the table's name, where the database takes any")
    func nameInOtherCase() throws {
        let database = try TokenDatabase.own(.sqlite, 0..<20)
        try database.store().sweep("marks", Array(Self.evidence.prefix(20)))
        let other = try database.store { $0.table = "Active_Users" }
        #expect(try other.undo(.run("marks")).restored == 20)
        var layout = try other.layout()
        #expect(layout.isNamed("active_users") && !layout.isNamed("users") && !layout.isNamed(nil))
        // A server with lower_case_table_names = 0 has both tables.
        layout.ignoresNameCase = false
        #expect(!layout.isNamed("active_users") && layout.isNamed("Active_Users"))
    }

    @Test(
        "a column that was added since the layout was resolved is in the image, once it is renewed",
        arguments: TestEngine.available)
    func addedColumn(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let policy = RemovalPolicy(action: .delete)
        for number in 0..<2 { try database.register(.numbered(number), at: start) }
        let store = try database.store()
        try store.sweep("first", [.dead(0, at: start + 60_000)], policy: policy)
        try database.execute("ALTER TABLE active_users ADD COLUMN nickname VARCHAR(20)")
        try database.execute("UPDATE active_users SET nickname = 'Anna'")
        try store.renewLayout(for: policy)
        try store.sweep("second", [.dead(1, at: start + 60_000)], policy: policy)
        #expect(try database.rows() == 0)
        try store.undo(.run("second"))
        #expect(try database.texts("SELECT nickname FROM active_users") == [["Anna"]])
        try database.execute("CREATE TABLE log (id INTEGER)")
        try database.execute(
            "CREATE TRIGGER gone AFTER DELETE ON active_users FOR EACH ROW "
                + (engine == .sqlite ? "BEGIN " : "") + "INSERT INTO log VALUES (1)"
                + (engine == .sqlite ? "; END" : ""))
        expectFailure(nil, "gone") { try store.renewLayout(for: policy) }
        #expect(throws: Never.self) { try store.renewLayout(for: RemovalPolicy()) }
    }

    /// Rows living, marked before, and registered later.
    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine, 0..<200)
        for number in 200..<250 {
            try database.register(.numbered(number), at: start, mark: start + 1_000)
        }
        try database.register(250..<300, at: start + 90_000)
        try database.execute(
            "UPDATE active_users SET invalid_reason = 'Unregistered' WHERE invalidated_at IS NOT NULL "
                + "AND id > 0")
        return database
    }

    @Test(
        "undo restores a wrong run byte by byte, and its own undo marks the rows again",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func thereAndBack(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try Self.database(engine)
        let store = try database.store(pacing: hurried())
        let before = try database.contents()
        try store.sweep("wrong", Self.evidence, policy: RemovalPolicy(action: action))
        let after = try database.contents()
        #expect(after != before)
        let undone = try store.undo(.run("wrong"), as: "undo1")
        #expect(try database.contents() == before)
        #expect(undone.restored == 250 && undone.entries == 250 && undone.rowsChanged == 250)
        #expect(undone.inserted == (action == .delete ? 250 : 0))
        #expect(undone.isDone && undone.kept.isEmpty)
        // Once more: nothing is left to do.
        let again = try store.undo(.run("wrong"))
        #expect(again.already == 250 && again.rowsChanged == 0)
        let redone = try store.undo(.run("undo1"), as: "undo2", at: start + 1_000_000)
        #expect(try database.contents() == after)
        #expect(redone.restored == 250 && redone.removed == undone.inserted)
        try store.undo(.run("undo2"), at: start + 1_100_000)
        #expect(try database.contents() == before)
        #expect(
            try database.texts(
                "SELECT COUNT(*), COUNT(ended) FROM pushsweep_run WHERE kind = 'undo'")
                == [["4", "4"]])
    }

    @Test(
        "marks of the side table are taken back with their times and reasons",
        arguments: TestEngine.available)
    func sideTable(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (udid VARCHAR(40) PRIMARY KEY, device_token VARCHAR(255) "
                + "NOT NULL, nickname VARCHAR(255))")
        for number in 0..<200 {
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'x')",
                [.text("udid\(number)"), .text(DeviceToken.numbered(number).hex.uppercased())])
        }
        let store = try database.store(pacing: hurried())
        try store.sweep("first", (0..<20).map { .dead($0, at: start) })
        try database.execute(
            "UPDATE pushsweep_invalid SET reason = 'ExpiredToken' WHERE app = 'chat'")
        let before = try database.contents()
        try store.sweep("wrong", Self.evidence, at: start + 700_000)
        let after = try database.contents()
        let undone = try store.undo(.run("wrong"), as: "undo1")
        #expect(undone.restored == 200 && undone.rowsChanged == 200)
        #expect(try database.contents() == before)
        try store.undo(.run("undo1"), at: start + 1_000_000)
        #expect(try database.contents() == after)
    }

    @Test(
        "rows that changed since are left alone and counted",
        arguments: TestEngine.available)
    func newer(_ engine: TestEngine) throws {
        for action in RemovalPolicy.Action.allCases {
            let database = try Self.database(engine)
            let store = try database.store(pacing: hurried())
            try store.sweep("wrong", Self.evidence, policy: RemovalPolicy(action: action))
            func register(_ number: Int, _ user: String) throws {
                try database.register(.numbered(number), at: start + 120_000, user: user)
            }
            if action == .delete {
                // The token of 0 came back in another row, the key of 1 and 2 with another token.
                try register(0, "again")
                for number in [1, 2] {
                    try database.execute(
                        "INSERT INTO active_users (id, user_id, app_id, device_token, registered_at) "
                            + "VALUES (?, 'u', 'chat', ?, ?)",
                        [
                            .integer(Int64(number + 1)),
                            .bytes(DeviceToken.numbered(900 + number).bytes),
                            database.time(start),
                        ])
                }
            } else {
                try database.execute(
                    "UPDATE active_users SET registered_at = ? WHERE id = 1",
                    [database.time(start + 120_000)])
                try store.sweep(
                    "right", [.dead(1, at: start + 70_000)], at: start + 700_000)
                try database.execute(
                    "UPDATE active_users SET invalid_reason = 'mine' WHERE id = 3")
                try database.execute("DELETE FROM active_users WHERE id = 4")
            }
            let touched = try database.texts(
                "SELECT * FROM active_users WHERE id <= 4 OR user_id = 'again' ORDER BY id")
            let trial = try store.undo(.run("wrong"), isDry: true)
            let undone = try store.undo(.run("wrong"))
            #expect(
                undone.kept
                    == (action == .delete
                        ? ["taken": 1, "foreign": 2] : ["registered": 1, "changed": 2, "gone": 1]))
            #expect(undone.entries == 250 && undone.restored == 250 - (action == .delete ? 3 : 4))
            #expect(trial.kept == undone.kept && trial.entries == undone.entries)
            // Whether the table takes removed rows again is not tried.
            #expect(trial.restored == (action == .delete ? 0 : undone.restored))
            #expect(trial.untried == (action == .delete ? undone.restored : nil))
            #expect(trial.rowsChanged == (action == .delete ? 0 : undone.rowsChanged))
            let rows = try database.texts(
                "SELECT * FROM active_users WHERE id <= 4 OR user_id = 'again' ORDER BY id")
            #expect(rows.filter { touched.contains($0) } == touched)
        }
    }

    @Test(
        "several runs on a row are taken back newest first, whatever the order of their feeds",
        arguments: TestEngine.available)
    func severalRuns(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let store = try database.store(pacing: hurried())
        let before = try database.contents()
        try store.sweep("one", Self.evidence)
        let between = try database.contents()
        let second = start + 700_000
        try store.sweep("two", (0..<300).map { .dead($0, at: start + 95_000) }, at: second)
        // Another feed of the same run, whose name sorts anywhere, advances and removes.
        try store.apply((0..<100).map { .dead($0, at: start + 96_000) }, run: "two")
        try store.apply(
            (50..<120).map { .dead($0, at: start + 97_000) },
            policy: RemovalPolicy(action: .delete), run: "two")
        // Taken back alone, the older run finds the values of the newer one.
        let alone = try store.undo(.run("one"), isDry: true)
        #expect(alone.restored == 0 && alone.kept == ["changed": 180, "gone": 70])
        let since = try store.undo(.since(EpochMilliseconds(second)), as: "undo")
        #expect(since.kept.isEmpty && since.already == 0)
        #expect(try database.contents() == between)
        // Everything, the undo among it.
        let all = try store.undo(.since(EpochMilliseconds(0)), at: start + 1_000_000)
        #expect(all.kept.isEmpty)
        #expect(try database.contents() == before)
    }

    @Test("undo takes one token's history back, and nothing else", arguments: TestEngine.available)
    func token(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let store = try database.store(pacing: hurried())
        let before = try database.texts("SELECT * FROM active_users WHERE id = 8")
        try store.sweep("one", Self.evidence)
        try store.sweep(
            "two", (0..<300).map { .dead($0, at: start + 95_000) }, at: start + 700_000,
            policy: RemovalPolicy(action: .delete))
        let undone = try store.undo(.token(.numbered(7)))
        #expect(undone.restored == 2 && undone.rowsChanged == 1 && undone.kept.isEmpty)
        #expect(try database.texts("SELECT * FROM active_users") == before)
    }

    @Test(
        "columns of every type come back unchanged", arguments: TestEngine.available)
    func columnTypes(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let columns =
            engine == .mariaDB
            ? "id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, device_token VARBINARY(100), "
                + "registered_at DATETIME(6), t TEXT CHARACTER SET utf8mb4, b BLOB, f FLOAT, "
                + "d DOUBLE, n DECIMAL(30,10), c TIME(3), y DATE, j JSON, e ENUM('a','b'), "
                + "s SET('x','y'), yr YEAR, ts TIMESTAMP(3) NULL, dt DATETIME, u BIGINT UNSIGNED, "
                + "l VARCHAR(20) CHARACTER SET latin1, x BIT(9), bi BINARY(4), z INT NULL, "
                + "g INT AS (z + 1) VIRTUAL, p INT AS (z + 2) STORED, i INT DEFAULT 3 INVISIBLE"
            : "id INTEGER PRIMARY KEY, device_token BLOB, registered_at DATETIME, t TEXT, b BLOB, "
                + "d REAL, a ANY, n NUMERIC, z INTEGER, g INTEGER AS (z + 1)"
        try database.execute("CREATE TABLE devices (\(columns))")
        var random = SeededGenerator("column types")
        for number in 0..<60 {
            // 0 is a key like any other, and so is the largest.
            let key: SQLValue =
                number == 1 && engine == .mariaDB ? .unsigned(.max) : .integer(Int64(number))
            let blob = SQLValue.bytes(random.bytes(.random(in: 0...800, using: &random)))
            let text = "q\" b\\ \n\t📱\u{0}\u{1F}é \(number)"
            let real = Double(bitPattern: .random(in: 0...0x7FE0_0000_0000_0000, using: &random))
            let token = SQLValue.bytes(DeviceToken.numbered(number).bytes)
            if engine == .mariaDB {
                try database.execute(
                    "INSERT INTO devices (id, device_token, registered_at, t, b, f, d, n, c, y, j, e, "
                        + "s, yr, ts, dt, u, l, x, bi, z, i) VALUES (?, ?, "
                        + "'2023-12-31 23:59:59.123456', ?, ?, 0.1, ?, "
                        + "'12345678901234567890.0123456789', '-123:34:56.789', '2020-02-29', "
                        + "'{\"a\": [1, \"é\"]}', 'b', 'x,y', 1999, '2001-02-03 04:05:06.789', "
                        + "'9999-12-31 23:59:59', 18446744073709551615, 'é', b'101010101', 'ab', ?, 9)",
                    [
                        key, token, .text(text), blob, .real(real),
                        number % 2 == 0 ? .null : .integer(4),
                    ])
            } else {
                let any: [SQLValue] = [
                    .text("12"), .integer(.min), .real(1.5), .bytes([0, 255]), .null, .real(-0.0),
                ]
                try database.execute(
                    "INSERT INTO devices (id, device_token, registered_at, t, b, d, a, n, z) VALUES "
                        + "(?, ?, '2023-12-31 23:59:59.123', ?, ?, ?, ?, ?, NULL)",
                    [
                        key, token, .text(text), blob, .real(real), any[number % 6],
                        any[(number + 1) % 6],
                    ])
            }
        }
        let before = try database.sql.query("SELECT * FROM devices ORDER BY id")
        let sums = try database.texts("SELECT typeof(a), typeof(n) FROM devices", on: engine)
        let store = try database.store(pacing: hurried()) { $0.table = "devices" }
        try store.sweep("wrong", Self.evidence, policy: RemovalPolicy(action: .delete))
        #expect(try database.rows(of: "devices") == 0)
        let undone = try store.undo(.run("wrong"), as: "undo")
        #expect(undone.inserted == 60, "seed \(random.seed): \(undone)")
        let after = try database.sql.query("SELECT * FROM devices ORDER BY id")
        for row in 0..<60 {
            #expect(Array(after.row(row)) == Array(before.row(row)), "seed \(random.seed)")
        }
        #expect(try database.texts("SELECT typeof(a), typeof(n) FROM devices", on: engine) == sums)
        #expect(try store.undo(.run("undo"), at: start + 1_000_000).removed == 60)
    }
}

extension TokenDatabase {
    /// The types of SQLite's values; empty on servers.
    fileprivate func texts(_ query: String, on engine: TestEngine) throws -> [[String]] {
        engine == .sqlite ? try texts(query) : []
    }
}
