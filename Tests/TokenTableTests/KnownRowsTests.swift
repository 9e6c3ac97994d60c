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

    /// What comes behind the forecast, about the token 5. Each alone, since a chunk that misses a row reads all of them
    /// again.
    enum Change: CaseIterable {
        case registration, refusal, markBeside

        /// Whether the row stays living.
        var keepsLiving: Bool { self != .markBeside }

        func make(in database: TokenDatabase) throws {
            let token = SQLValue.bytes(DeviceToken.numbered(5).bytes)
            let later = database.time(start + 90_000)
            switch self {
            case .registration:
                try database.execute("UPDATE devices SET registered_at = ? WHERE id = 5", [later])
            case .refusal:
                try database.execute(
                    "INSERT INTO pushsweep_spared (token, app, environment, until_at, heard_until, by_run) "
                        + "VALUES (?, 'chat', 'production', ?, ?, 'no')", [token, later, later])
            case .markBeside:
                try database.execute(
                    "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) VALUES "
                        + "(?, 'chat', 'production', ?)", [token, database.time(start + 30_000)])
            }
        }
    }

    @Test(
        "a row that registered, was undone or was marked beside behind the forecast is judged anew",
        arguments: TestEngine.available.flatMap { engine in Change.allCases.map { (engine, $0) } },
        [false, true])
    func changed(_ scene: (engine: TestEngine, change: Change), _ storing: Bool) throws {
        let (database, change) = (try Self.devices(scene.engine), scene.change)
        let store = try database.store(pacing: hurried()) {
            $0.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        try store.record("marks")
        let progress = try store.applyKnown(
            Self.evidence, run: "marks", hearing: .at(EpochMilliseconds(start)), storing: storing
        ) { try change.make(in: database) }
        let (applied, living) = change.keepsLiving ? (199, [["5"]]) : (200, [])
        #expect(progress.counts == Counts(applied: applied, newer: 200 - applied))
        #expect(try database.texts("SELECT id FROM devices WHERE active = 1") == living)
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM pushsweep_invalid WHERE invalidated_at = ?",
                [database.time(start + 60_000)]) == applied)
        // One entry has the row and the mark beside it, and its undo brings both back.
        #expect(try database.count("SELECT COUNT(*) FROM pushsweep_change") == applied)
        #expect(try store.undo(.run("marks")).restored == applied)
        #expect(try database.count("SELECT COUNT(*) FROM devices WHERE active = 1") == 200)
        let before = try database.texts("SELECT COUNT(*) FROM pushsweep_invalid")
        #expect(before == [[change == .markBeside ? "1" : "0"]])
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM pushsweep_invalid WHERE invalidated_at = ?",
                [database.time(start + 30_000)]) == (change == .markBeside ? 1 : 0))
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
