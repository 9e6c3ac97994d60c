import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// A trigger of SQLite may write the table that it belongs to, so what an undo puts back may change or remove
/// rows that nobody asked for.
@Suite("Undo beside triggers that write the table itself")
struct UndoTriggerTests {
    /// The forms of a table that give its rows their identity.
    enum Form: CaseIterable {
        case rowid, withoutRowid, composite, computed

        var columns: String {
            let others =
                "device_token TEXT, user_id INTEGER, current INTEGER, registered_at TEXT NOT NULL, "
                + "invalidated_at TEXT, invalid_reason TEXT"
            return switch self {
            case .rowid: "(id INTEGER PRIMARY KEY, part TEXT, \(others))"
            case .withoutRowid: "(id INTEGER PRIMARY KEY, part TEXT, \(others)) WITHOUT ROWID"
            case .composite:
                "(id INTEGER, part TEXT, \(others), PRIMARY KEY (id, part)) WITHOUT ROWID"
            case .computed:
                "(id INTEGER PRIMARY KEY, part TEXT, \(others), "
                    + "beginning TEXT AS (SUBSTR(device_token, 1, 4)) STORED)"
            }
        }
    }

    /// Triggers for INSERT that change other rows of the same user.
    enum Insert: CaseIterable {
        case removesOthers, removesBefore, changesOthers, replacesOthers, throughAnotherTable

        /// What keeps the row away: our statements let no trigger replace rows.
        var obstacle: UndoObstacle { self == .replacesOthers ? .taken : .others }

        var statements: [String] {
            let others = "WHERE user_id = NEW.user_id AND id <> NEW.id"
            let begin = "CREATE TRIGGER single AFTER INSERT ON devices BEGIN"
            return switch self {
            case .removesOthers: ["\(begin) DELETE FROM devices \(others); END"]
            case .removesBefore:
                [
                    "CREATE TRIGGER single BEFORE INSERT ON devices BEGIN "
                        + "DELETE FROM devices WHERE user_id = NEW.user_id; END"
                ]
            case .changesOthers: ["\(begin) UPDATE devices SET current = 0 \(others); END"]
            case .replacesOthers:
                [
                    "\(begin) INSERT OR REPLACE INTO devices (id, part, device_token, user_id, "
                        + "registered_at) SELECT id, part, device_token, user_id, '2031-01-01' "
                        + "FROM devices \(others); END"
                ]
            case .throughAnotherTable:
                [
                    "CREATE TABLE users (id INTEGER, seen INTEGER)",
                    "INSERT INTO users VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)",
                    "\(begin) UPDATE users SET seen = NEW.id WHERE id = NEW.user_id; END",
                    "CREATE TRIGGER next AFTER UPDATE ON users BEGIN DELETE FROM devices "
                        + "WHERE user_id = NEW.id AND id <> NEW.seen; END",
                ]
            }
        }
    }

    /// Rows of the users that `user` names, in their order.
    private static func database(
        _ form: Form, rows: Int, user: (Int) -> Int
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute("CREATE TABLE devices \(form.columns)")
        for number in 0..<rows {
            try database.execute(
                "INSERT INTO devices (id, part, device_token, user_id, current, registered_at) "
                    + "VALUES (?, 'a', ?, ?, 1, ?)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    .integer(Int64(user(number))), database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        return database
    }

    private static func rows(_ database: TokenDatabase) throws -> [[String]] {
        try database.texts(
            "SELECT id, part, device_token, user_id, current, registered_at, invalidated_at "
                + "FROM devices ORDER BY id")
    }

    private static func store(_ database: TokenDatabase, _ form: Form) throws -> TokenTable {
        try database.store(pacing: hurried()) {
            if form == .composite { $0.key = ["id", "part"] }
        }
    }

    private static let removal = RemovalPolicy(action: .delete)

    @Test(
        "a removed row whose return would change a living row stays away, by its reason; the others return",
        arguments: Form.allCases, Insert.allCases)
    func living(_ form: Form, _ insert: Insert) throws {
        // User 0 has two removed rows and a living one, user 1 has a removed one.
        let database = try Self.database(form, rows: 4) { $0 == 3 ? 1 : 0 }
        let store = try Self.store(database, form)
        try store.sweep(
            "run", [0, 1, 3].map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        let living = try Self.rows(database)
        #expect(living.count == 1)
        for statement in insert.statements { try database.execute(statement) }
        let undone = try Self.store(database, form).undo(.run("run"))
        #expect(undone.restored == 1 && undone.inserted == 1)
        #expect(undone.kept == [insert.obstacle.rawValue: 2])
        let rows = try Self.rows(database)
        #expect(rows.map { $0[0] } == ["2", "3"])
        #expect(rows.contains(living[0]))
        #expect(UndoObstacle.others.words.contains("trigger"))
    }

    @Test(
        "rows that would take each other away do not return together, in one chunk or in several",
        arguments: Form.allCases, Insert.allCases)
    func eachOther(_ form: Form, _ insert: Insert) throws {
        // Rows of five users in turn: each user has rows in every chunk.
        let database = try Self.database(form, rows: 250) { $0 % 5 }
        let store = try Self.store(database, form)
        let before = try Self.rows(database)
        try store.sweep(
            "run", (0..<250).map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        #expect(try database.rows(of: "devices") == 0)
        for statement in insert.statements { try database.execute(statement) }
        let undone = try Self.store(database, form).undo(.run("run"))
        #expect(undone.restored == 5 && undone.kept.values.reduce(0, +) == 245)
        let rows = try Self.rows(database)
        #expect(rows.count == 5 && rows.allSatisfy(before.contains))
    }

    @Test(
        "a trigger for INSERT that is there before keeps rows from being removed whose return would change others",
        arguments: Form.allCases, Insert.allCases)
    func removal(_ form: Form, _ insert: Insert) throws {
        let database = try Self.database(form, rows: 4) { $0 == 3 ? 1 : 0 }
        for statement in insert.statements { try database.execute(statement) }
        let before = try Self.rows(database)
        let store = try Self.store(database, form)
        try store.sweep(
            "run", [0, 3].map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        #expect(try Self.rows(database) == before.filter { $0[0] != "3" })
        #expect(try store.undo(.run("run")).restored == 1)
        #expect(try Self.rows(database) == before)
    }

    @Test("a trigger that writes the inserted row itself as it was does not keep it away")
    func ownRow() throws {
        let database = try Self.database(.rowid, rows: 4) { _ in 0 }
        let before = try Self.rows(database)
        let store = try Self.store(database, .rowid)
        try store.sweep(
            "run", (0..<4).map { .dead($0, at: start + 60_000) }, policy: Self.removal)
        try database.execute("CREATE TABLE log (id INTEGER)")
        try database.execute(
            "CREATE TRIGGER fills AFTER INSERT ON devices BEGIN UPDATE devices SET current = "
                + "COALESCE(current, 1) WHERE id = NEW.id; INSERT INTO log VALUES (NEW.id); END")
        #expect(try Self.store(database, .rowid).undo(.run("run")).restored == 4)
        #expect(try Self.rows(database) == before)
    }

    @Test(
        "a mark that is taken back takes no other row's mark, registration or existence away",
        arguments: Form.allCases,
        [
            "UPDATE devices SET invalidated_at = '2026-01-01 00:00:00.000' WHERE user_id = NEW.user_id "
                + "AND id <> NEW.id AND invalidated_at IS NULL",
            "DELETE FROM devices WHERE user_id = NEW.user_id AND id <> NEW.id",
            "UPDATE devices SET registered_at = '2031-01-01 00:00:00.000' WHERE user_id = NEW.user_id "
                + "AND id <> NEW.id",
        ])
    func marks(_ form: Form, _ statement: String) throws {
        let database = try Self.database(form, rows: 4) { $0 == 3 ? 1 : 0 }
        let before = try Self.rows(database)
        let store = try Self.store(database, form)
        try store.sweep("run", [0, 1, 3].map { .dead($0, at: start + 60_000) })
        try database.execute(
            "CREATE TRIGGER single AFTER UPDATE OF invalidated_at ON devices "
                + "WHEN NEW.invalidated_at IS NULL BEGIN \(statement); END")
        let undone = try Self.store(database, form).undo(.run("run"))
        let rows = try Self.rows(database)
        #expect(rows.count == 4 && rows[2] == before[2] && rows[3] == before[3])
        #expect(rows.map { $0[5] } == before.map { $0[5] })
        #expect(undone.restored == 1 && undone.kept == [UndoObstacle.others.rawValue: 2])
    }

    @Test(
        "a table that would remove the row in conflict loses none by a mark, and none by what comes back"
    )
    func conflicts() throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token TEXT, device TEXT UNIQUE "
                + "ON CONFLICT REPLACE, registered_at TEXT, invalidated_at TEXT, invalid_reason TEXT, "
                + "UNIQUE (device_token, invalidated_at) ON CONFLICT REPLACE)")
        for number in 0..<4 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?, NULL, NULL)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number % 3).hex),
                    .text("d\(number)"), database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        let store = try database.store(pacing: hurried())
        // Two rows have the token 0, and both would get the same mark.
        try store.sweep("marks", [.dead(0, at: start + 60_000)])
        #expect(try database.rows(of: "devices") == 4)
        try store.undo(.run("marks"))
        try store.sweep("run", [.dead(1, at: start + 60_000)], policy: Self.removal)
        try database.execute(
            "INSERT INTO devices VALUES (9, 'b1', 'd1', ?, NULL, NULL)", [database.time(start)])
        let living = try database.texts("SELECT * FROM devices ORDER BY id")
        #expect(try store.undo(.run("run")).inserted == 0)
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == living)
    }

    /// Triggers that replace a living row by way of something else than the table's plain name.
    private static let chains: [[String]] = [
        [
            "CREATE TABLE gone (id INTEGER PRIMARY KEY, at TEXT)",
            "CREATE TRIGGER one AFTER UPDATE OF invalidated_at ON devices BEGIN "
                + "INSERT OR REPLACE INTO gone VALUES (NEW.id, 'x'); END",
            "CREATE TRIGGER two AFTER INSERT ON gone BEGIN UPDATE devices SET slot = 2 "
                + "WHERE id = NEW.id; END",
        ],
        [
            "CREATE TRIGGER one AFTER UPDATE OF invalidated_at ON devices BEGIN "
                + "UPDATE OR REPLACE 'devices' SET slot = 2 WHERE id = NEW.id; END"
        ],
        [
            "CREATE VIEW v AS SELECT * FROM devices",
            "CREATE TRIGGER inside INSTEAD OF UPDATE ON v BEGIN UPDATE devices SET slot = NEW.slot "
                + "WHERE id = NEW.id; END",
            "CREATE TRIGGER one AFTER UPDATE OF invalidated_at ON devices BEGIN "
                + "UPDATE OR REPLACE v SET slot = 2 WHERE id = NEW.id; END",
        ],
    ]

    @Test(
        "a living row that a chain of triggers would replace stays, and the row that would do it is refused",
        arguments: UndoTriggerTests.chains.indices)
    func replacingChain(_ place: Int) throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token TEXT UNIQUE, user INTEGER, slot INTEGER, "
                + "registered_at TEXT, invalidated_at TEXT, invalid_reason TEXT, UNIQUE (user, slot))"
        )
        for number in 1...2 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 7, ?, ?, NULL, NULL)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    .integer(Int64(number)), database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        for statement in Self.chains[place] { try database.execute(statement) }
        let living = try database.texts("SELECT * FROM devices ORDER BY id")
        let progress = try database.store(pacing: hurried())
            .apply([.dead(1, at: start + 60_000)], run: "run")
        #expect(progress.counts == Counts(applied: 0, refused: 1))
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == living)
    }

    @Test("a chain that would replace a living row keeps a removed one from coming back")
    func replacingReturn() throws {
        let database = try Self.database(.rowid, rows: 2) { $0 }
        let store = try Self.store(database, .rowid)
        try store.sweep("run", [.dead(0, at: start + 60_000)], policy: Self.removal)
        let living = try Self.rows(database)
        for statement in [
            "CREATE UNIQUE INDEX users ON devices (user_id)",
            "CREATE TABLE seen (id INTEGER PRIMARY KEY)",
            "CREATE TRIGGER one AFTER INSERT ON devices BEGIN INSERT OR REPLACE INTO seen "
                + "VALUES (NEW.id); END",
            "CREATE TRIGGER two AFTER INSERT ON seen BEGIN UPDATE devices SET user_id = 1 "
                + "WHERE id = NEW.id; END",
        ] { try database.execute(statement) }
        let undone = try Self.store(database, .rowid).undo(.run("run"))
        #expect(undone.inserted == 0 && undone.kept == [UndoObstacle.others.rawValue: 1])
        #expect(try Self.rows(database) == living)
    }

    @Test("a trigger that would run itself for ever refuses its rows, and the others are marked")
    func endless() throws {
        let database = try Self.database(.rowid, rows: 4) { $0 }
        for statement in [
            "CREATE TABLE seen (id INTEGER PRIMARY KEY, number INTEGER)",
            "CREATE TRIGGER one AFTER UPDATE ON devices WHEN NEW.id < 2 BEGIN "
                + "INSERT OR REPLACE INTO seen VALUES (NEW.id, 1); "
                + "UPDATE devices SET current = current + 1 WHERE id = NEW.id; END",
        ] { try database.execute(statement) }
        let progress = try Self.store(database, .rowid).apply(
            (0..<4).map { .dead($0, at: start + 60_000) }, run: "run")
        #expect(progress.counts == Counts(applied: 2, refused: 2))
        #expect(try database.rows(of: "devices", "invalidated_at IS NULL AND current = 1") == 2)
    }

    @Test(
        "a living row that a trigger would replace stays, at a mark, at its undo and at what comes back",
        arguments: ["\"devices\"", "Devices", "[devices]"])
    func replacing(_ table: String) throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token TEXT UNIQUE, user INTEGER, slot INTEGER, "
                + "registered_at TEXT, invalidated_at TEXT, invalid_reason TEXT, UNIQUE (user, slot))"
        )
        for number in 1...4 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 7, ?, ?, NULL, NULL)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    .integer(Int64(number)), database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        func trigger(_ condition: String) -> String {
            "CREATE TRIGGER slots AFTER UPDATE OF invalidated_at ON devices "
                + "WHEN NEW.invalidated_at \(condition) BEGIN UPDATE OR REPLACE \(table) SET slot = 3 "
                + "WHERE id = NEW.id + 1; END"
        }
        let living = try database.texts("SELECT * FROM devices ORDER BY id")
        try database.execute(trigger("IS NOT NULL"))
        try database.store(pacing: hurried()).sweep("run", [.dead(1, at: start + 60_000)])
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == living)
        try database.execute("DROP TRIGGER slots")
        try database.store(pacing: hurried()).sweep("marks", [.dead(1, at: start + 70_000)])
        let marked = try database.texts("SELECT * FROM devices ORDER BY id")
        #expect(marked != living)
        try database.execute(trigger("IS NULL"))
        #expect(try database.store(pacing: hurried()).undo(.run("marks")).restored == 0)
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == marked)
        try database.execute("DROP TRIGGER slots")
        try database.store(pacing: hurried()).undo(.run("marks"), at: start + 1_800_000)
        try database.store(pacing: hurried())
            .sweep("removal", [.dead(1, at: start + 80_000)], policy: Self.removal)
        try database.execute(
            "CREATE TRIGGER back BEFORE INSERT ON devices BEGIN INSERT OR REPLACE INTO devices "
                + "SELECT 3, NEW.device_token, 7, 9, NEW.registered_at, NULL, NULL; END")
        let rest = try database.texts("SELECT * FROM devices ORDER BY id")
        #expect(try database.store(pacing: hurried()).undo(.run("removal")).inserted == 0)
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == rest)
    }
}
