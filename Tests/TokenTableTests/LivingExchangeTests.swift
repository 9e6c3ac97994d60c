import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// Living and dead are exchanged in the settings after this program has marked rows.
@Suite("Living and dead that are exchanged after marks")
struct LivingExchangeTests {
    /// What a run may know its own marks by.
    enum Memory: CaseIterable { case ledger, marksAlone }

    private static func database(
        _ engine: TestEngine, rows: Int, type: String, living: String
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64) UNIQUE, "
                + "state \(type), registered_at DATETIME NOT NULL)")
        for number in 0..<rows {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, \(living), ?)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        database.settings.mapping.invalidatedAt.column = .absent
        return database
    }

    private static func store(
        _ database: TokenDatabase, _ living: String, _ dead: String, mostlyDead: Bool = false
    ) throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.living = LivingMapping(column: "state", living: living, dead: dead)
            $0.living.mostlyDead = mostlyDead
        }
    }

    @Test(
        "a run refuses them, whatever share of the rows is marked, and names both values",
        arguments: TestEngine.inTurn([1, 3, 12, 20]))
    func refused(_ engine: TestEngine, _ marked: Int) throws {
        for (type, living, dead) in [("INTEGER", "1", "0"), ("VARCHAR(9)", "on", "off")] {
            let database = try Self.database(
                engine, rows: 20, type: type, living: type == "INTEGER" ? living : "'\(living)'")
            try Self.store(database, living, dead).sweep(
                "run", (0..<marked).map { .dead($0, at: start + 60_000) })
            try Self.store(database, living, dead, mostlyDead: true).require(
                .apply(RemovalPolicy()))
            for mostlyDead in [false, true] {
                expectFailure(
                    .configuration, "`\(living)`", "`\(dead)`", "living and dead are exchanged",
                    "write living: \(living), dead: \(dead)"
                ) {
                    try Self.store(database, dead, living, mostlyDead: mostlyDead)
                        .require(.apply(RemovalPolicy()))
                }
            }
            // A dry run is as careful, and an undo under the right settings is not stopped.
            expectFailure(.configuration, "exchanged") {
                try Self.store(database, dead, living).require(.read)
            }
            expectFailure(.configuration, "exchanged", "before you exchange them") {
                try Self.store(database, dead, living)
                    .require(.undo(actions: ["mark"], isDry: true))
            }
            let right = try Self.store(database, living, dead, mostlyDead: true)
            try right.require(.undo(actions: ["mark"], isDry: true))
            #expect(try right.undo(.run("run")).restored == marked)
            try Self.store(database, living, dead).require(.apply(RemovalPolicy()))
        }
    }

    @Test(
        "a value that the settings do not name is told with its number, one and several",
        arguments: TestEngine.available)
    func unnamed(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 20, type: "INTEGER", living: "1")
        func told() throws -> [String] {
            try Self.store(database, "1", "0").examine(.apply(RemovalPolicy())).findings
                .map(\.sentence).filter { $0.contains("would count as living") }
        }
        #expect(try told().isEmpty)
        try database.execute("UPDATE devices SET state = 2 WHERE id = 3")
        let one = try told()
        #expect(
            one.count == 1 && one[0].contains("have `2` (1), which is neither living `1`"), "\(one)"
        )
        try database.execute("UPDATE devices SET state = 3 WHERE id IN (4, 5)")
        let two = try told()
        #expect(
            two.count == 1 && two[0].contains("have `3` (2), `2` (1), which are neither"), "\(two)")
    }

    @Test(
        "an undo says of marks under other words that they are foreign",
        arguments: TestEngine.available)
    func foreign(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 20, type: "INTEGER", living: "1")
        try Self.store(database, "1", "0").sweep("run", [.dead(3, at: start + 60_000)])
        let undone = try Self.store(database, "0", "1").undo(.run("run"))
        #expect(undone.restored == 0 && undone.kept == ["foreign": 1], "\(undone)")
    }

    @Test(
        "a row that an undo leaves dead keeps the time of its mark, and comes back where nothing refuses it",
        arguments: TestEngine.available)
    func keptTime(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 20, type: "INTEGER", living: "1")
        try database.execute("ALTER TABLE devices ADD COLUMN verified INTEGER NOT NULL DEFAULT 1")
        try database.execute(
            engine == .sqlite
                ? "CREATE INDEX v ON devices (CASE WHEN verified = 0 THEN "
                    + "abs(-9223372036854775807 - (state = 1)) END)"
                : "ALTER TABLE devices ADD CONSTRAINT v CHECK (state = 0 OR verified = 1)")
        let store = try Self.store(database, "1", "0")
        try store.sweep("run", [.dead(3, at: start + 60_000), .dead(4, at: start + 60_000)])
        func times() throws -> Int? {
            try database.sql.query("SELECT COUNT(*) FROM pushsweep_invalid").scalar?.count
        }
        #expect(try times() == 2)
        try database.execute("UPDATE devices SET verified = 0 WHERE id = 3")
        #expect(try store.undo(.run("run"), as: "first").restored == 1)
        #expect(try times() == 1)
        try database.execute("UPDATE devices SET verified = 1 WHERE id = 3")
        #expect(try store.undo(.run("run"), as: "second", at: start + 1_800_000).restored == 1)
        #expect(try times() == 0)
        let dead = try database.sql.query("SELECT COUNT(*) FROM devices WHERE state = 0").scalar
        #expect(dead?.count == 0)
    }

    @Test(
        "an undo leaves a row dead that later evidence called dead too, unless it takes that back as well",
        arguments: TestEngine.available)
    func laterEvidence(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 20, type: "INTEGER", living: "1")
        let store = try Self.store(database, "1", "0")
        func dead() throws -> [[String]] {
            try database.texts("SELECT id FROM devices WHERE state = 0 ORDER BY id")
        }
        try store.sweep("wrong", (0..<5).map { .dead($0, at: start + 60_000) })
        try store.sweep("right", [.dead(1, at: start + 120_000)], at: start + 900_000)
        let undone = try store.undo(.run("wrong"), as: "first", at: start + 1_000_000)
        #expect(undone.restored == 4 && undone.kept == ["changed": 1])
        #expect(try dead() == [["1"]])
        // Marked again since, by evidence that is not taken back.
        try store.sweep("again", [.dead(2, at: start + 180_000)], at: start + 1_100_000)
        let second = try store.undo(.run("wrong"), as: "second", at: start + 1_200_000)
        #expect(second.restored == 0 && second.kept == ["changed": 2])
        #expect(try dead() == [["1"], ["2"]])
        let whole = try store.undo(
            .since(EpochMilliseconds(start)), as: "whole", at: start + 1_300_000)
        #expect(whole.kept.isEmpty, "\(whole)")
        #expect(try dead() == [])
        #expect(try database.rows(of: "pushsweep_invalid") == 0)
    }

    @Test(
        "marks alone tell it where the ledger is purged, by rows that did not register again",
        arguments: TestEngine.available)
    func purged(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 40, type: "INTEGER", living: "1")
        try Self.store(database, "1", "0").sweep(
            "run", (0..<24).map { .dead($0, at: start + 60_000) })
        try database.forgetLedger()
        expectFailure(.configuration, "living and dead are exchanged") {
            try Self.store(database, "0", "1").require(.apply(RemovalPolicy()))
        }
        try Self.store(database, "1", "0", mostlyDead: true).require(.apply(RemovalPolicy()))
    }

    @Test(
        "devices that came back are no exchange, with a later registration or without",
        arguments: TestEngine.available, Memory.allCases)
    func cameBack(_ engine: TestEngine, _ memory: Memory) throws {
        let database = try Self.database(engine, rows: 40, type: "INTEGER", living: "1")
        let store = try Self.store(database, "1", "0")
        try store.sweep("run", (0..<30).map { .dead($0, at: start + 60_000) })
        if memory == .marksAlone { try database.forgetLedger() }
        try database.execute(
            "UPDATE devices SET state = 1, registered_at = ?", [database.time(start + 9_000_000)])
        try Self.store(database, "1", "0").require(.apply(RemovalPolicy()))
        // The application may set a row living and leave its time.
        if memory == .ledger {
            try database.execute("UPDATE devices SET registered_at = ?", [database.time(start)])
            try Self.store(database, "1", "0").require(.apply(RemovalPolicy()))
        }
    }
}
