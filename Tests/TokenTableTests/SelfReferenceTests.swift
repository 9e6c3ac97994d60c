import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// Rows of one table that refer to one another come back in an order that the table takes.
@Suite("Undo of rows that refer to one another")
struct SelfReferenceTests {
    private static let removal = RemovalPolicy(action: .delete)

    /// Rows with the key of the row that replaced them, where they have one. No key is checked meanwhile.
    private static func database(
        _ engine: TestEngine, _ replacements: [Int?], _ key: String = ""
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64) UNIQUE, "
                + "replaced_by INTEGER NULL, registered_at DATETIME NOT NULL, "
                + "CONSTRAINT newer FOREIGN KEY (replaced_by) REFERENCES devices (id)\(key))")
        try database.execute("PRAGMA foreign_keys = OFF", on: .sqlite)
        try database.execute("SET foreign_key_checks = 0", on: .mariaDB)
        for (number, other) in replacements.enumerated() {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    other.map { .integer(Int64($0)) } ?? .null, database.time(start),
                ])
        }
        try database.execute("PRAGMA foreign_keys = ON", on: .sqlite)
        try database.execute("SET foreign_key_checks = 1", on: .mariaDB)
        database.settings.mapping.table = "devices"
        database.settings.mapping.invalidatedAt.column = .absent
        return database
    }

    /// Takes the rows out as a sweep that meets them in this order.
    private static func remove(_ database: TokenDatabase, _ order: [Int]) throws -> TokenTable {
        let store = try database.store(pacing: hurried())
        try store.record("run", at: start + 600_000)
        for numbers in order.map({ [$0] }) {
            try store.apply(
                numbers.map { .dead($0, at: start + 60_000) }, policy: removal, run: "run")
        }
        return store
    }

    @Test(
        "one undo brings back rows before those that refer to them, over chunks too",
        arguments: TestEngine.available, ["", " DEFERRABLE INITIALLY DEFERRED"])
    func chain(_ engine: TestEngine, _ key: String) throws {
        if engine == .mariaDB && !key.isEmpty { return }
        // Each row refers to the next one, and keys sort as text: parents come last, or chunks later.
        let replacements = (0..<120).map { $0 % 3 == 2 ? nil : $0 + 1 }
        let database = try Self.database(engine, replacements, key)
        let before = try database.contents(of: "devices")
        let store = try Self.remove(database, Array(0..<120))
        #expect(try database.rows(of: "devices") == 0)
        let undone = try store.undo(.run("run"))
        #expect(undone.restored == 120 && undone.inserted == 120 && undone.kept.isEmpty)
        #expect(undone.rowsChanged == 120 && undone.isDone)
        #expect(try database.contents(of: "devices") == before)
        #expect(try store.undo(.run("run")).already == 120)
        // The undo itself can be taken back, and again.
        #expect(try database.rows(of: "pushsweep_change", "action = 'insert'") == 120)
    }

    @Test(
        "a row whose parent is gone stays away, and those that refer to it; the others come back",
        arguments: TestEngine.available)
    func missing(_ engine: TestEngine) throws {
        let replacements = (0..<120).map { $0 % 3 == 2 ? nil : $0 + 1 }
        let database = try Self.database(engine, replacements)
        let store = try Self.remove(database, Array(0..<120))
        // The entry about row 2 is lost, and so rows 1 and 0 have no place.
        try database.execute("DELETE FROM pushsweep_change WHERE row_key = '2'")
        let undone = try store.undo(.run("run"))
        #expect(undone.restored == 117 && undone.kept == ["refused": 2])
        #expect(try database.rows(of: "devices", "id IN (0, 1, 2)") == 0)
        #expect(try database.rows(of: "devices") == 117)
    }

    @Test(
        "rows that refer to each other in a circle come back together, though another row stays away",
        arguments: [2, 3])
    func circle(_ rows: Int) throws {
        let circle = (0..<rows).map { ($0 + 1) % rows }
        let database = try Self.database(.sqlite, circle + [rows + 1, nil])
        let before = try database.contents(of: "devices")
        let store = try database.store(pacing: hurried())
        // As a connection removes them that checks no keys.
        try store.connection.run("PRAGMA foreign_keys = OFF")
        try store.sweep(
            "run", (0..<rows + 2).map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        #expect(try database.rows(of: "devices") == 0)
        // The entry about the last row is lost, so the one before it has no place, and each row is tried by itself.
        try database.execute("DELETE FROM pushsweep_change WHERE row_key = '\(rows + 1)'")
        let undone = try database.store(pacing: hurried()).undo(.run("run"))
        #expect(undone.restored == rows && undone.kept == ["refused": 1])
        #expect(try database.contents(of: "devices") == Array(before.prefix(rows)))
    }

    @Test("a row that refers to itself or into a circle that stays comes back")
    func besideCircle() throws {
        let database = try Self.database(.sqlite, [1, 2, 0, nil, 4, 0])
        let before = try database.contents(of: "devices")
        let store = try database.store(pacing: hurried())
        try store.sweep("run", (3..<6).map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        #expect(try database.rows(of: "devices") == 3)
        #expect(try store.undo(.run("run")).restored == 3)
        #expect(try database.contents(of: "devices") == before)
    }

    @Test("a circle whose removal the table allows at COMMIT comes back at COMMIT")
    func deferredCircle() throws {
        let database = try Self.database(
            .sqlite, [1, 0, nil], " DEFERRABLE INITIALLY DEFERRED")
        let before = try database.contents(of: "devices")
        let store = try database.store(pacing: hurried())
        try store.sweep("run", (0..<3).map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        let left = try database.rows(of: "devices")
        #expect(try store.undo(.run("run")).restored == 3 - left)
        #expect(try database.contents(of: "devices") == before)
    }
}
