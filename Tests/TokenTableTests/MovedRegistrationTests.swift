import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// A trigger that keeps a time of change also runs when a row is marked. The registration is then later than the
/// mark, which is void.
@Suite("Registrations that a mark moves")
struct MovedRegistrationTests {
    /// How the table keeps its marks.
    enum Mark: CaseIterable { case time, twoValues }

    private static func database(_ engine: TestEngine, rows: Int = 40) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64) UNIQUE, "
                + "nick VARCHAR(20), registered_at DATETIME NOT NULL, invalidated_at DATETIME NULL, "
                + "active INTEGER)")
        for number in 0..<rows {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 'a', ?, NULL, 1)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    database.time(start),
                ])
        }
        return database
    }

    private static func store(
        _ settings: StoreSettings, _ mark: Mark, _ registered: String = "registered_at"
    ) throws -> TokenTable {
        var settings = settings
        settings.mapping.table = "devices"
        settings.mapping.registeredAt.column = .named(registered)
        if mark == .twoValues {
            settings.mapping.invalidatedAt.column = .absent
            settings.mapping.living.column = "active"
            settings.mapping.living.living = "1"
            settings.mapping.living.dead = "0"
        }
        return try TokenTable(settings, pacing: hurried())
    }

    /// Makes a trigger that moves the registration with every change of a row, under a condition.
    private static func move(_ database: TokenDatabase, when condition: String = "1 = 1") throws {
        try database.execute(
            "CREATE TRIGGER touch BEFORE UPDATE ON devices FOR EACH ROW IF \(condition) THEN SET "
                + "NEW.registered_at = UTC_TIMESTAMP(); END IF", on: .mariaDB)
        try database.execute(
            "CREATE TRIGGER touch AFTER UPDATE ON devices WHEN \(condition) BEGIN UPDATE devices SET "
                + "registered_at = '2030-01-01 00:00:00.000' WHERE id = NEW.id; END", on: .sqlite)
    }

    private static let evidence = (0..<40).map { TokenEvidence.dead($0, at: start + 60_000) }
    private static let isDead = "invalidated_at IS NOT NULL OR active = 0"

    @Test(
        "a trigger that moves the registration of every row ends the run before a row is marked",
        arguments: TestEngine.available, Mark.allCases)
    func everyRow(_ engine: TestEngine, _ mark: Mark) throws {
        let database = try Self.database(engine)
        try Self.move(database)
        let before = try database.texts("SELECT * FROM devices ORDER BY id")
        let failure = expectFailure(.configuration, "registered_at", "touch", "void") {
            try Self.store(database.settings, mark).apply(Self.evidence)
        }
        #expect(failure?.sentence.contains("registered-at") == true)
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == before)
        #expect(try database.rows(of: "pushsweep_change") == 0)
        #expect(try database.rows(of: "pushsweep_invalid") == 0)
    }

    @Test(
        "the printed grants are enough to notice it, whatever the account sees of the trigger",
        .needsServer)
    func byPrintedGrants() throws {
        let database = try Self.database(.mariaDB)
        try Self.move(database)
        let account = try ServerAccount(of: database)
        try account.run(
            try Self.store(database.settings, .time).grants(
                for: RemovalPolicy(), user: "\(account.name)@%"))
        expectFailure(.configuration, "registered_at") {
            try Self.store(account.settings, .time).apply(Self.evidence)
        }
        #expect(try database.rows(of: "devices", Self.isDead) == 0)
    }

    @Test(
        "a row whose registration moves is refused by name, and the others are marked",
        arguments: TestEngine.available, Mark.allCases)
    func someRows(_ engine: TestEngine, _ mark: Mark) throws {
        let database = try Self.database(engine)
        try database.execute("UPDATE devices SET nick = 'odd' WHERE id IN (3, 17, 39)")
        try Self.move(database, when: "NEW.nick = 'odd'")
        let store = try Self.store(database.settings, mark)
        let progress = try store.apply(Self.evidence, run: "run")
        #expect(progress.isApplied && progress.counts == Counts(applied: 37, refused: 3))
        #expect(
            try database.texts(
                "SELECT row_key, before_image FROM pushsweep_change WHERE action = 'refused' "
                    + "ORDER BY seq DESC"
            ).map { $0[0] } == ["3", "17", "39"])
        #expect(
            try database.rows(
                of: "pushsweep_change", "before_image = '{\"refused\":\"moved\"}'") == 3)
        #expect(
            try database.texts("SELECT id FROM devices WHERE NOT (\(Self.isDead)) ORDER BY id")
                == [["3"], ["17"], ["39"]])
        #expect(
            try database.rows(of: "devices", "registered_at > '2029-01-01 00:00:00'") == 0)
        try store.record("run", at: start + 600_000)
        #expect(try store.undo(.run("run")).restored == 37)
        #expect(try database.rows(of: "devices", Self.isDead) == 0)
    }

    @Test(
        "a row whose mark moves another row's registration is refused, in one chunk or in several",
        arguments: Mark.allCases, [40, 250])
    func chained(_ mark: Mark, _ rows: Int) throws {
        let database = try Self.database(.sqlite, rows: rows)
        try database.execute("UPDATE devices SET nick = 'own' WHERE id >= \(rows - 10)")
        // The mark of the last row writes the first ones, and that moves their registration.
        try database.execute(
            "CREATE TRIGGER a AFTER UPDATE ON devices WHEN NEW.id = \(rows - 1) BEGIN "
                + "UPDATE devices SET nick = 'b' WHERE id IN (0, 3); END")
        try database.execute(
            "CREATE TRIGGER b AFTER UPDATE OF nick ON devices BEGIN UPDATE devices SET "
                + "registered_at = '2030-01-01 00:00:00.000' WHERE id = NEW.id; END")
        let store = try Self.store(database.settings, mark)
        let progress = try store.apply(
            (0..<rows).map { .dead($0, at: start + 60_000) }, run: "run")
        #expect(progress.isApplied && progress.counts == Counts(applied: rows - 1, refused: 1))
        #expect(
            try database.texts("SELECT id FROM devices WHERE NOT (\(Self.isDead))")
                == [["\(rows - 1)"]])
        #expect(try database.rows(of: "devices", "registered_at > '2029-01-01 00:00:00'") == 0)
        #expect(
            try database.rows(
                of: "pushsweep_change", "before_image = '{\"refused\":\"others\"}'") == 1)
    }

    @Test(
        "a row whose mark sets living rows dead by a trigger is refused, and the others are marked",
        arguments: Mark.allCases)
    func spreading(_ mark: Mark) throws {
        let database = try Self.database(.sqlite)
        let column = mark == .time ? "invalidated_at" : "active"
        // The last row shares its user with rows of which nobody reported.
        try database.execute("UPDATE devices SET nick = 'user' WHERE id >= 35")
        try database.execute(
            "CREATE TRIGGER spread AFTER UPDATE OF \(column) ON devices WHEN NEW.nick = 'user' BEGIN "
                + "UPDATE devices SET \(column) = NEW.\(column) WHERE nick = NEW.nick; END")
        let store = try Self.store(database.settings, mark)
        let progress = try store.apply(Array(Self.evidence[..<35] + Self.evidence[39...]))
        #expect(progress.counts == Counts(applied: 35, refused: 1))
        #expect(
            try database.texts("SELECT id FROM devices WHERE NOT (\(Self.isDead)) ORDER BY id")
                == (35..<40).map { ["\($0)"] })
        #expect(
            try database.rows(
                of: "pushsweep_change", "before_image = '{\"refused\":\"others\"}'") == 1)
    }

    @Test(
        "a mark that takes a row out of its environment by a trigger is not made, its own row or another",
        arguments: TestEngine.available, [true, false])
    func leaving(_ engine: TestEngine, _ isOwn: Bool) throws {
        // A server refuses a trigger that writes other rows of its own table.
        guard isOwn || engine == .sqlite else { return }
        let database = try Self.database(engine)
        try database.execute("ALTER TABLE devices ADD COLUMN environment VARCHAR(20)")
        try database.execute("UPDATE devices SET environment = 'production'")
        try database.execute(
            "CREATE TRIGGER retire BEFORE UPDATE ON devices FOR EACH ROW SET NEW.environment = "
                + "IF(NEW.id = 3, 'retired', NEW.environment)", on: .mariaDB)
        try database.execute(
            "CREATE TRIGGER retire AFTER UPDATE OF invalidated_at ON devices WHEN NEW.id = 3 BEGIN "
                + "UPDATE devices SET environment = 'retired' WHERE id \(isOwn ? "=" : "<>") NEW.id; END",
            on: .sqlite)
        var settings = database.settings
        settings.mapping.environment = .named("environment")
        let progress = try Self.store(settings, .time).apply(Self.evidence)
        #expect(progress.counts == Counts(applied: 39, refused: 1))
        #expect(try database.rows(of: "devices", "environment = 'production'") == 40)
        #expect(try database.rows(of: "devices", "id = 3 AND invalidated_at IS NULL") == 1)
    }

    @Test("where every mark moves the registrations of others, the run ends and names the triggers")
    func chainedEverywhere() throws {
        let database = try Self.database(.sqlite)
        try database.execute(
            "CREATE TRIGGER spread AFTER UPDATE OF invalidated_at ON devices BEGIN UPDATE devices "
                + "SET registered_at = '2030-01-01 00:00:00.000' WHERE id <> NEW.id; END")
        let before = try database.texts("SELECT * FROM devices ORDER BY id")
        expectFailure(.configuration, "spread") {
            try Self.store(database.settings, .time).apply(Self.evidence)
        }
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == before)
    }

    @Test(
        "an undo takes no mark back where that moves the registration, and names the trigger",
        arguments: TestEngine.available, Mark.allCases)
    func undo(_ engine: TestEngine, _ mark: Mark) throws {
        let database = try Self.database(engine)
        let store = try Self.store(database.settings, mark)
        try store.sweep("run", Self.evidence)
        try database.execute("UPDATE devices SET nick = 'odd' WHERE id = 3")
        try Self.move(database, when: "NEW.nick = 'odd'")
        let undone = try Self.store(database.settings, mark).undo(.run("run"), as: "some")
        #expect(undone.restored == 39 && undone.kept == ["refused": 1])
        try store.undo(.run("some"), as: "back", at: start + 1_000_000)
        try database.execute("DROP TRIGGER touch")
        try Self.move(database)
        let before = try database.texts("SELECT * FROM devices ORDER BY id")
        expectFailure(.configuration, "touch") {
            try Self.store(database.settings, mark).undo(.run("run"), as: "none")
        }
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == before)
    }

    @Test(
        "a registration that is computed from the mark is not believed either",
        arguments: TestEngine.available)
    func computed(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        try database.execute(
            "ALTER TABLE devices ADD COLUMN seen DATETIME GENERATED ALWAYS AS "
                + "(COALESCE(invalidated_at, registered_at)) VIRTUAL")
        expectFailure(.configuration, "seen") {
            try Self.store(database.settings, .time, "seen").apply(Self.evidence)
        }
        #expect(try database.rows(of: "devices", Self.isDead) == 0)
    }
}
