import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// A row is removed only where the table would take it back as it was.
@Suite("Removals that come back")
struct RemovalTrialTests {
    private static let removal = RemovalPolicy(action: .delete)
    private static let evidence = (0..<40).map { TokenEvidence.dead($0, at: start + 60_000) }

    /// Forty rows, of which every fourth has no name.
    private static func database(_ engine: TestEngine, more: String = "") throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute("CREATE TABLE owners (id INTEGER PRIMARY KEY)")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64) UNIQUE, "
                + "name VARCHAR(20) NULL, registered_at DATETIME NOT NULL, "
                + "invalidated_at DATETIME NULL\(more))")
        for number in 0..<40 {
            try database.execute(
                "INSERT INTO devices (id, device_token, name, registered_at) VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    number % 4 == 0 ? .null : .text("anna"), database.time(start),
                ])
        }
        return database
    }

    private static func store(
        _ database: TokenDatabase, _ settings: StoreSettings? = nil
    ) throws -> TokenTable {
        var settings = settings ?? database.settings
        settings.mapping.table = "devices"
        settings.mapping.invalidatedAt.column = .named("invalidated_at")
        return try TokenTable(settings, pacing: hurried())
    }

    /// Triggers for INSERT that change values: of every row, or of those without a name.
    enum Insert: CaseIterable {
        case upper, registers, fills

        func make(in database: TokenDatabase) throws {
            let change =
                switch self {
                case .upper: "NEW.name = CONCAT(UPPER(COALESCE(NEW.name, '-')), '!')"
                case .registers: "NEW.registered_at = UTC_TIMESTAMP()"
                case .fills: "NEW.name = COALESCE(NEW.name, 'x')"
                }
            try database.execute(
                "CREATE TRIGGER keeper BEFORE INSERT ON devices FOR EACH ROW SET \(change)")
        }
    }

    @Test(
        "a row that a server's trigger would bring back otherwise stays, and the others come back",
        .needsServer, arguments: Insert.allCases)
    func triggers(_ insert: Insert) throws {
        let database = try Self.database(.mariaDB)
        try insert.make(in: database)
        let before = try database.contents(of: "devices")
        let store = try Self.store(database)
        if insert != .fills {
            expectFailure(.configuration, "keeper", "would not come back") {
                try store.apply(Self.evidence, policy: Self.removal)
            }
            #expect(try database.contents(of: "devices") == before)
            // A few rows are refused one by one.
            let some = try store.apply(Array(Self.evidence.prefix(3)), policy: Self.removal)
            #expect(some.isApplied && some.counts == Counts(refused: 3))
            #expect(try database.contents(of: "devices") == before)
            return
        }
        try store.sweep("run", Self.evidence, policy: Self.removal)
        #expect(try database.rows(of: "devices") == 10)
        #expect(try database.rows(of: "devices", "name IS NULL") == 10)
        #expect(
            try database.rows(
                of: "pushsweep_change", "before_image = '{\"refused\":\"altered\"}'") == 10)
        let trial = try store.undo(.run("run"), isDry: true)
        #expect(trial.restored == 0 && trial.untried == 30 && trial.inserted == 0)
        #expect(try store.undo(.run("run")).restored == 30)
        #expect(try database.contents(of: "devices") == before)
    }

    @Test(
        "a trigger that is made while a run removes rows is met before the next one is removed",
        arguments: TestEngine.available, [true, false])
    func madeMeanwhile(_ engine: TestEngine, _ isHarmful: Bool) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        let before = try database.contents()
        let store = try database.store(pacing: hurried())
        try store.record("run")
        var left = 0
        let name = isHarmful ? "other" : "user"
        func apply() throws -> BatchProgress {
            try store.apply(
                (0..<400).map { .dead($0, at: start + 60_000) }, policy: Self.removal, run: "run",
                report: { _ in
                    guard left == 0 else { return }
                    left = (try? database.rows()) ?? 0
                    try? database.execute(
                        "CREATE TRIGGER keeper BEFORE INSERT ON active_users FOR EACH ROW SET "
                            + "NEW.user_id = '\(name)'", on: .mariaDB)
                    try? database.execute(
                        "CREATE TRIGGER keeper AFTER INSERT ON active_users BEGIN UPDATE active_users "
                            + "SET user_id = '\(name)' WHERE id = NEW.id; END", on: .sqlite)
                })
        }
        if engine == .sqlite {
            // There it can write other rows, so it ends the run.
            expectFailure(.configuration, "trigger keeper") { _ = try apply() }
            #expect(try database.rows() == left)
        } else {
            // It runs when rows come back and not when they go: the rows that it would change stay.
            let progress = try apply()
            let stays = isHarmful ? left : 0
            #expect(progress.isApplied)
            #expect(progress.counts == Counts(applied: 400 - stays, refused: stays))
            #expect(try database.rows() == stays)
        }
        #expect(left > 0 && left < 400)
        try database.execute("DROP TRIGGER keeper")
        try store.undo(.run("run"))
        #expect(try database.contents() == before)
    }

    @Test(
        "our own triggers and the printed grants are enough to remove rows and bring them back",
        .needsServer)
    func byPrintedGrants() throws {
        let database = try Self.database(.mariaDB)
        try database.execute(
            "CREATE TRIGGER pushsweep_registered_insert BEFORE INSERT ON devices FOR EACH ROW "
                + "IF @pushsweep IS NULL THEN SET NEW.registered_at = UTC_TIMESTAMP(); END IF")
        let account = try ServerAccount(of: database)
        try account.run(
            try Self.store(database).grants(for: Self.removal, user: "\(account.name)@%"))
        let before = try database.contents(of: "devices")
        try Self.store(database).record("run")
        let store = try Self.store(database, account.settings)
        try store.require(.apply(Self.removal))
        try store.apply(Self.evidence, policy: Self.removal, run: "run")
        #expect(try database.rows(of: "devices") == 0)
        #expect(try Self.store(database).undo(.run("run")).restored == 40)
        #expect(try database.contents(of: "devices") == before)
    }

    @Test(
        "rows with JSON whose text hides a type of SQL stay; the others come back value by value",
        .needsServer)
    func json() throws {
        let database = try Self.database(.mariaDB, more: ", extra JSON NULL")
        let hidden = [
            "JSON_OBJECT('price', CAST(123456.78 AS DECIMAL(8,2)))",
            "JSON_OBJECT('price', CAST(3.10 AS DECIMAL(8,2)))",
            "JSON_ARRAY(1, JSON_OBJECT('seen', CAST('2026-01-02 03:04:05' AS DATETIME)))",
            "JSON_ARRAY(JSON_ARRAY(CAST('2026-01-02' AS DATE)))",
            "JSON_OBJECT('t', CAST('10:11:12' AS TIME))",
            "JSON_OBJECT('b', CAST(X'0041' AS BINARY))", "JSON_ARRAY(CAST(7 AS UNSIGNED))",
        ]
        let plain = [
            "'{\"a\": [1, {\"b\": [1.5, \"x\", null, true, -3, 18446744073709551615]}], \"\": 1e0}'",
            "'\"text\"'", "'null'", "'[]'", "'12345678901234567890123'", "NULL", "'2.50'",
        ]
        for (number, value) in (hidden + plain).enumerated() {
            try database.execute("UPDATE devices SET extra = \(value) WHERE id = \(number)")
        }
        let before = try database.texts("SELECT id, extra FROM devices ORDER BY id")
        // MariaDB keeps JSON as its text.
        let left = MariaDBServer.isMariaDB ? 0 : hidden.count
        let store = try Self.store(database)
        try store.require(.apply(Self.removal))
        try store.sweep("run", Self.evidence, policy: Self.removal)
        #expect(try database.rows(of: "devices") == left)
        #expect(try database.rows(of: "devices", "id < \(hidden.count)") == left)
        #expect(try store.undo(.run("run")).restored == 40 - left)
        #expect(try database.texts("SELECT id, extra FROM devices ORDER BY id") == before)
    }

    @Test(
        "a row that breaks a key or a check of the table already stays, and the others are removed and return",
        arguments: TestEngine.available)
    func brokenRules(_ engine: TestEngine) throws {
        let database = try Self.database(
            engine,
            more:
                ", owner INTEGER NULL, CONSTRAINT has_owner FOREIGN KEY (owner) REFERENCES owners (id), "
                + "CONSTRAINT is_small CHECK (id < 1000 AND name <> 'odd')")
        try database.execute("INSERT INTO owners VALUES (1)")
        try database.execute("UPDATE devices SET owner = 1")
        let broken = [5, 17, 38]
        try database.execute("SET foreign_key_checks = 0", on: .mariaDB)
        try database.execute("PRAGMA foreign_keys = OFF", on: .sqlite)
        try database.execute("UPDATE devices SET owner = 9 WHERE id IN (5, 17, 38)")
        try database.execute("SET foreign_key_checks = 1", on: .mariaDB)
        try database.execute("PRAGMA foreign_keys = ON", on: .sqlite)
        var unchecked: [Int] = []
        if engine == .sqlite {
            unchecked = [7, 30]
            try database.execute("PRAGMA ignore_check_constraints = ON")
            try database.execute("UPDATE devices SET name = 'odd' WHERE id IN (7, 30)")
            try database.execute("PRAGMA ignore_check_constraints = OFF")
        }
        let before = try database.contents(of: "devices")
        let store = try Self.store(database)
        try store.sweep("run", Self.evidence, policy: Self.removal)
        let left = (broken + unchecked).sorted()
        #expect(
            try database.texts("SELECT id FROM devices ORDER BY id") == left.map { ["\($0)"] })
        #expect(try database.rows(of: "pushsweep_change", "action = 'refused'") == left.count)
        #expect(try store.undo(.run("run")).restored == 40 - left.count)
        #expect(try database.contents(of: "devices") == before)
    }

    @Test(
        "the printed grants are enough to find rows that break a key, chunk by chunk",
        .needsServer)
    func brokenKeysByGrants() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<400)
        try database.execute("CREATE TABLE owners (id INTEGER PRIMARY KEY)")
        try database.execute("SET foreign_key_checks = 0")
        try database.execute("ALTER TABLE active_users ADD COLUMN owner INTEGER NOT NULL DEFAULT 9")
        try database.execute(
            "UPDATE active_users SET owner = 1 WHERE device_token <> ?",
            [.bytes(DeviceToken.numbered(333).bytes)])
        try database.execute("INSERT INTO owners VALUES (1)")
        try database.execute(
            "ALTER TABLE active_users ADD FOREIGN KEY (owner) REFERENCES owners (id)")
        try database.execute("SET foreign_key_checks = 1")
        let owner = try database.store()
        let account = try ServerAccount(of: database)
        try account.run(try owner.grants(for: Self.removal, user: "\(account.name)@%"))
        let store = try TokenTable(account.settings, pacing: hurried())
        try store.require(.apply(Self.removal))
        let before = try database.contents()
        try owner.record("run")
        let progress = try store.apply(
            (0..<400).map { .dead($0, at: start + 60_000) }, policy: Self.removal, run: "run")
        #expect(progress.counts == Counts(applied: 399, refused: 1))
        #expect(try database.rows() == 1)
        #expect(try owner.undo(.run("run")).restored == 399)
        #expect(try database.contents() == before)
    }

    @Test(
        "values of a column that is added and filled while rows are removed come back",
        arguments: TestEngine.available, [false, true])
    func addedColumn(_ engine: TestEngine, _ isExpiry: Bool) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        if isExpiry {
            try database.execute(
                "UPDATE active_users SET invalidated_at = ?", [database.time(start + 60_000)])
        }
        let store = try database.store(pacing: hurried())
        var left = 0
        func fill() {
            guard left == 0, let rows = try? database.rows(), rows < 400 else { return }
            left = rows
            do {
                try database.execute("ALTER TABLE active_users ADD COLUMN fresh INTEGER NULL")
                try database.execute("UPDATE active_users SET fresh = id")
            } catch {
                Issue.record(error)
            }
        }
        try store.record("run")
        if isExpiry {
            let expiry = GraceEnd.afterAWeek(at: start + 30 * 86_400_000, run: "run")
            let removed = try store.remove(expiry, report: { _ in fill() })
            #expect(removed == 400)
        } else {
            let progress = try store.apply(
                (0..<400).map { .dead($0, at: start + 120_000) }, policy: Self.removal, run: "run",
                report: { _ in fill() })
            #expect(progress.isApplied && progress.counts == Counts(applied: 400))
        }
        #expect(left > 0 && left < 400)
        #expect(try database.rows() == 0)
        #expect(try database.store().undo(.run("run")).restored == 400)
        #expect(try database.rows(where: "fresh = id") == left)
        #expect(try database.rows(where: "fresh IS NULL") == 400 - left)
    }

    @Test(
        "an undo that removes rows keeps the values of a column that was added meanwhile",
        arguments: TestEngine.available)
    func addedToUndo(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        let store = try database.store(pacing: hurried())
        try store.sweep(
            "run", (0..<400).map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        try store.undo(.run("run"), as: "back")
        let plan = try store.planUndo(.run("back"), until: EpochMilliseconds(.max))
        var left = 0
        _ = try store.undo(
            plan,
            as: RunRecord(id: "away", kind: "undo", started: EpochMilliseconds(start), host: "h"),
            now: { EpochMilliseconds(start) },
            report: { _ in
                guard left == 0, let rows = try? database.rows(), rows < 400 else { return }
                left = rows
                try? database.execute("ALTER TABLE active_users ADD COLUMN fresh INTEGER NULL")
                try? database.execute("UPDATE active_users SET fresh = id")
            })
        #expect(left > 0 && left < 400)
        #expect(try database.rows() == 0)
        #expect(try database.store().undo(.run("away")).restored == 400)
        #expect(try database.rows(where: "fresh = id") == left)
    }

    @Test(
        "the account of a sweep that removes rows needs INSERT, and the GRANT is named",
        .needsServer)
    func rights() throws {
        let database = try Self.database(.mariaDB)
        let account = try ServerAccount(of: database)
        try account.run(
            try Self.store(database).grants(for: Self.removal, user: "\(account.name)@%").filter {
                !$0.hasPrefix("GRANT INSERT ON `\(database.name)`.`devices`")
            })
        expectFailure(.permission, "GRANT INSERT ON") {
            try Self.store(database, account.settings).require(.apply(Self.removal))
        }
    }
}
