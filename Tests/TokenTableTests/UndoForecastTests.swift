import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// What a dry run foretells and what it calls untried.
@Suite("Dry runs beside rules of the table")
struct UndoForecastTests {
    /// A rule that a mark, or taking one back, may break.
    enum Rule: CaseIterable {
        case index, partialIndex, expressionIndex, computedIndex, check, reference

        /// The statements that make it, on an engine.
        func statements(_ engine: TestEngine) -> [String] {
            switch (self, engine) {
            case (.index, _): ["CREATE UNIQUE INDEX living ON devices (device_token, active)"]
            case (.partialIndex, .sqlite):
                ["CREATE UNIQUE INDEX living ON devices (device_token) WHERE active = 1"]
            case (.expressionIndex, .sqlite):
                ["CREATE UNIQUE INDEX living ON devices (device_token, (NULLIF(active, 0)))"]
            case (.expressionIndex, .mariaDB) where !MariaDBServer.isMariaDB:
                ["CREATE UNIQUE INDEX living ON devices (device_token, (NULLIF(active, 0)))"]
            case (.computedIndex, _):
                [
                    "ALTER TABLE devices ADD COLUMN is_living INTEGER AS (NULLIF(active, 0)) VIRTUAL",
                    "CREATE UNIQUE INDEX living ON devices (device_token, is_living)",
                ]
            case (.check, .mariaDB):
                ["ALTER TABLE devices ADD CONSTRAINT named CHECK (active = 0 OR nick <> 'x')"]
            case (.check, .sqlite):
                ["ALTER TABLE devices ADD COLUMN odd INTEGER CHECK (active = 0 OR nick <> 'x')"]
            case (.reference, .mariaDB):
                [
                    "CREATE TABLE states (id INTEGER PRIMARY KEY)",
                    "INSERT INTO states VALUES (0), (1)",
                    "ALTER TABLE devices ADD FOREIGN KEY (active) REFERENCES states (id)",
                ]
            case (.partialIndex, .mariaDB), (.expressionIndex, .mariaDB), (.reference, .sqlite): []
            }
        }
    }

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "nick VARCHAR(20), active INTEGER, registered_at DATETIME NOT NULL)")
        for number in 0..<20 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 'a', 1, ?)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        database.settings.mapping.invalidatedAt.column = .absent
        database.settings.mapping.living.column = "active"
        database.settings.mapping.living.living = "1"
        database.settings.mapping.living.dead = "0"
        return database
    }

    @Test(
        "a dry run promises no mark that a rule of the table may refuse, and the undo says what it did",
        arguments: TestEngine.available, Rule.allCases)
    func promises(_ engine: TestEngine, _ rule: Rule) throws {
        let statements = rule.statements(engine)
        guard !statements.isEmpty else { return }
        let database = try Self.database(engine)
        for statement in statements { try database.execute(statement) }
        let store = try database.store(pacing: hurried())
        #expect(try store.layout().marksMayBeRefused)
        try store.sweep("run", (0..<10).map { .dead($0, at: start + 60_000) })
        #expect(try database.rows(of: "devices", "active = 0") == 10)
        let dry = try store.undo(.run("run"), isDry: true)
        #expect(dry.restored == 0 && dry.untried == 10)
        #expect(try store.undo(.run("run")).restored == 10)
    }

    @Test(
        "a dry run promises marks where no rule of the table is about them",
        arguments: TestEngine.available)
    func plain(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        try database.execute("CREATE UNIQUE INDEX tokens ON devices (device_token)")
        try database.execute("CREATE INDEX by_state ON devices (active, registered_at)")
        let store = try database.store(pacing: hurried())
        #expect(try !store.layout().marksMayBeRefused)
        try store.sweep("run", (0..<10).map { .dead($0, at: start + 60_000) })
        let dry = try store.undo(.run("run"), isDry: true)
        #expect(dry.restored == 10 && dry.untried == nil)
    }
}
