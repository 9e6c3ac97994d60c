import APNsProtocol
import Database
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Rows that a forecast has read")
struct KnownRowsTests {
    private static let evidence = (0..<200).map { TokenEvidence.dead($0, at: start + 60_000) }

    /// A table in which one column of two values says who is dead.
    private static func devices(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), active INTEGER NOT NULL, "
                + "registered_at DATETIME NOT NULL)")
        try database.execute("CREATE INDEX device ON devices (device_token)")
        for number in 0..<200 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 1, ?)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        database.settings.mapping.invalidatedAt.column = .absent
        return database
    }

    @Test(
        "a row that registered, was undone or was marked beside behind the forecast is judged anew",
        arguments: TestEngine.available, [false, true])
    func changed(_ engine: TestEngine, _ storing: Bool) throws {
        let database = try Self.devices(engine)
        let store = try database.store(pacing: hurried()) {
            $0.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        try store.record("marks")
        func token(_ number: Int) -> SQLValue { .bytes(DeviceToken.numbered(number).bytes) }
        let progress = try store.applyKnown(
            Self.evidence, run: "marks", hearing: .at(EpochMilliseconds(start)), storing: storing
        ) {
            try database.execute(
                "UPDATE devices SET registered_at = ? WHERE id = 5",
                [database.time(start + 90_000)])
            try database.execute(
                "INSERT INTO pushsweep_spared (token, app, environment, until_at, heard_until, by_run) "
                    + "VALUES (?, 'chat', 'production', ?, ?, 'no')",
                [token(7), database.time(start + 90_000), database.time(start + 90_000)])
            try database.execute(
                "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) VALUES "
                    + "(?, 'chat', 'production', ?)", [token(9), database.time(start + 30_000)])
        }
        #expect(progress.counts == Counts(applied: 198, newer: 2))
        #expect(
            try database.texts("SELECT id FROM devices WHERE active = 1 ORDER BY id") == [
                ["5"], ["7"],
            ])
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM pushsweep_invalid WHERE invalidated_at = ?",
                [database.time(start + 60_000)]) == 198)
        // One entry has the row and the mark beside it, and its undo brings both back.
        #expect(try database.count("SELECT COUNT(*) FROM pushsweep_change") == 198)
        #expect(try store.undo(.run("marks")).restored == 198)
        #expect(try database.count("SELECT COUNT(*) FROM devices WHERE active = 1") == 200)
        #expect(
            try database.texts("SELECT COUNT(*), COUNT(DISTINCT token) FROM pushsweep_invalid")
                == [["1", "1"]])
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM pushsweep_invalid WHERE token = ? AND invalidated_at = ?",
                [token(9), database.time(start + 30_000)]) == 1)
    }

    @Test(
        "a row that is dead with an old mark beside stays where that mark was set lately with another row's",
        arguments: TestEngine.available)
    func lately(_ engine: TestEngine) throws {
        let database = try Self.devices(engine)
        let store = try database.store(pacing: hurried()) {
            $0.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        let policy = RemovalPolicy(action: .delete, deletesAfter: 7 * 86_400_000)
        let now = Int64(try store.session.databaseTime().rawValue)
        let row = "INSERT INTO devices VALUES (?, ?, 0, ?)"
        try database.execute(
            row, [.integer(900), .text(DeviceToken.numbered(3).hex), database.time(start)])
        try store.record("marks")
        try store.apply([.dead(3, at: start + 60_000)], policy: policy, run: "marks")
        #expect(try database.count("SELECT COUNT(*) FROM pushsweep_change") == 1)
        #expect(try store.due(GraceEnd.afterAWeek(at: now)) == 0)
        #expect(try store.due(GraceEnd.afterAWeek(at: now + 8 * 86_400_000)) == 1)
    }
}
