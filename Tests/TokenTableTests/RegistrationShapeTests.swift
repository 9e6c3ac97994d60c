import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// A table of devices with the printed triggers, and its application.
private struct TriggerStage {
    let database: TokenDatabase
    let table: String

    let type: TimeColumnType

    /// `columns` are those besides the key and the token; `registered` is the time.
    init(
        _ engine: TestEngine, _ columns: String, table: String = "devices",
        registered: String = "DATETIME NULL", _ type: TimeColumnType = .datetime,
        on existing: TokenDatabase? = nil
    ) throws {
        database = try existing ?? TokenDatabase(engine)
        self.table = table
        self.type = type
        if existing == nil { try database.createSideTables() }
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        try database.sql.run(
            "CREATE TABLE \(table) (id INTEGER PRIMARY KEY, device_token VARCHAR(64)\(columns), "
                + "registered_at \(registered))"
        )
        try upgrade()
    }

    func store() throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.table = table
            $0.encoding = .hex
            $0.registeredAt = TimeMapping(column: .named("registered_at"), type: type)
        }
    }

    func upgrade() throws {
        for statement in try store().upgradeScript().script.statements {
            try database.sql.run(statement)
        }
    }

    func insert(_ names: String = "", _ values: String = "") throws {
        try database.execute(
            "INSERT INTO \(table) (id, device_token\(names)) VALUES (1, ?\(values))",
            [.text(DeviceToken.numbered(1).hex)])
    }

    /// Makes the time one that is long past, as the row's own statement.
    func age(_ value: String = "'2024-01-01 00:00:00'") throws {
        try database.execute("UPDATE \(table) SET registered_at = \(value)")
    }

    func time() throws -> String {
        try database.texts("SELECT registered_at FROM \(table)")[0][0]
    }

    func write(_ token: Int) throws {
        try database.execute(
            "UPDATE \(table) SET device_token = ?", [.text(DeviceToken.numbered(token).hex)])
    }

    func findings() throws -> [StoreFinding] {
        try store().examine(.apply(RemovalPolicy())).findings.filter {
            $0.sentence.hasPrefix("trigger ")
        }
    }
}

@Suite("The triggers for registrations on tables of other shapes")
struct RegistrationShapeTests {
    @Test(
        "the same token again is a registration where the engine moves another column",
        .enabled(
            if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence)))
    func movingColumn() throws {
        let stage = try TriggerStage(
            .mariaDB,
            ", updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP")
        try stage.insert()
        try stage.age()
        try stage.write(1)
        #expect(try !stage.time().hasPrefix("2024"))
    }

    @Test(
        "texts that differ for bytes only are no registration, and a token in other spelling is one",
        .enabled(
            if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence)))
    func bytes() throws {
        let stage = try TriggerStage(.mariaDB, ", nick VARCHAR(9)")
        try stage.insert(", nick", ", 'x'")
        try stage.age()
        try stage.database.execute("UPDATE devices SET nick = 'X'")
        #expect(try stage.time().hasPrefix("2024"))
        try stage.database.execute("UPDATE devices SET device_token = UPPER(device_token)")
        #expect(try stage.database.count("SELECT COUNT(*) FROM devices WHERE nick = 'X'") == 1)
        try stage.age()
        try stage.database.execute(
            "UPDATE devices SET device_token = 'abcdef', nick = 'y'")
        #expect(try !stage.time().hasPrefix("2024"))
        try stage.age()
        try stage.database.execute(
            "UPDATE devices SET device_token = 'ABCDEF', nick = 'z'")
        #expect(try !stage.time().hasPrefix("2024"))
    }

    /// Columns whose rows have no time although they have a value.
    static let emptyTimes: [(TestEngine, String, TimeColumnType)] = [
        (.mariaDB, "INT NOT NULL DEFAULT 0", .epochSeconds),
        (.mariaDB, "BIGINT NOT NULL DEFAULT 0", .epochMilliseconds),
        (.mariaDB, "DATETIME(3) NOT NULL DEFAULT '0000-00-00 00:00:00'", .datetime),
        (.mariaDB, "TIMESTAMP NOT NULL DEFAULT 0", .datetime),
        (.sqlite, "INTEGER NOT NULL DEFAULT 0", .epochSeconds),
        (.sqlite, "DATETIME NOT NULL DEFAULT ''", .datetime),
        (.sqlite, "DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'", .datetime),
    ].filter { TestEngine.available.contains($0.0) }

    @Test("an insert with an empty time is a registration", arguments: emptyTimes)
    func emptyTime(_ engine: TestEngine, _ column: String, _ type: TimeColumnType) throws {
        let stage = try TriggerStage(engine, "", registered: column, type)
        try stage.insert()
        let dead = Int64(Date().timeIntervalSince1970 * 1_000) - 60_000
        let time = try stage.time()
        #expect(
            try stage.store().classify([.dead(1, at: dead)]).counts == Counts(newer: 1),
            "\(time)")
    }

    @Test(
        "after a column is dropped the application works, a new token counts, and check says what to do",
        arguments: TestEngine.available)
    func droppedColumn(_ engine: TestEngine) throws {
        let stage = try TriggerStage(engine, ", nick VARCHAR(9), badge INTEGER")
        try stage.insert()
        #expect(try stage.findings().map(\.severity) == [.ok])
        #expect(try stage.store().upgradeScript().script.statements.isEmpty)
        try stage.database.sql.run("ALTER TABLE devices DROP COLUMN nick")
        try stage.age()
        try stage.database.execute("UPDATE devices SET badge = 1")
        #expect(try stage.time().hasPrefix("2024"))
        try stage.write(2)
        #expect(try !stage.time().hasPrefix("2024"))
        // A trigger of SQLite names the key, the token and the time only.
        #expect(
            try stage.findings().map(\.severity) == [engine == .mariaDB ? .warning : .ok])
        try stage.upgrade()
        #expect(try stage.findings().map(\.severity) == [.ok])
        try stage.age()
        try stage.write(2)
        #expect(try !stage.time().hasPrefix("2024"))
    }

    @Test(
        "after the column of the time is renamed the application works",
        .enabled(
            if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence)))
    func renamedTime() throws {
        let stage = try TriggerStage(.mariaDB, "")
        try stage.database.sql.run("ALTER TABLE devices RENAME COLUMN registered_at TO seen")
        try stage.insert()
        try stage.write(2)
        #expect(try stage.database.count("SELECT COUNT(*) FROM devices WHERE seen IS NULL") == 1)
    }

    @Test(
        "check says that a column is new and that the triggers of a renamed table are old",
        .enabled(
            if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence)))
    func newColumn() throws {
        let stage = try TriggerStage(.mariaDB, "")
        try stage.database.sql.run("ALTER TABLE devices ADD last_push DATETIME")
        let finding = try #require(try stage.findings().first)
        #expect(finding.severity == .warning)
        #expect(finding.sentence.contains("schema print --upgrade"))
        try stage.upgrade()
        try stage.insert()
        try stage.age()
        try stage.database.execute("UPDATE devices SET last_push = UTC_TIMESTAMP()")
        #expect(try stage.time().hasPrefix("2024"))
        try stage.database.sql.run("RENAME TABLE devices TO handsets")
        let renamed = try stage.database.store {
            $0.table = "handsets"
            $0.encoding = .hex
        }
        for statement in try renamed.upgradeScript().script.statements {
            try stage.database.sql.run(statement)
        }
        #expect(
            try stage.database.texts(
                "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() "
                    + "ORDER BY 1") == [
                    ["pushsweep_registered_insert_handsets"],
                    ["pushsweep_registered_update_handsets"],
                ])
    }

    @Test("tables with long names have triggers of their own", arguments: TestEngine.available)
    func longNames(_ engine: TestEngine) throws {
        let stem = "devices_of_all_customers_in_every_region_of_the"
        let one = try TriggerStage(engine, "", table: "\(stem)_north")
        let two = try TriggerStage(engine, "", table: "\(stem)_south", on: one.database)
        for stage in [one, two] {
            try stage.insert()
            #expect(try stage.time() != "NULL")
            #expect(try stage.findings().map(\.severity) == [.ok])
        }
    }

    @Test(
        "an undo restores a row without a time as it was",
        arguments: TestEngine.available)
    func undo(_ engine: TestEngine) throws {
        let stage = try TriggerStage(engine, ", invalidated_at DATETIME NULL")
        try stage.insert()
        try stage.age("NULL")
        let before = try stage.time()
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        try stage.store().sweep("one", [.dead(1, at: start)], at: start + 950_000, policy: policy)
        #expect(try stage.database.count("SELECT COUNT(*) FROM devices") == 0)
        #expect(try stage.store().undo(.run("one"), at: start + 990_000).restored == 1)
        #expect(try stage.time() == before)
    }

    @Test(
        "a script says to a client where a trigger with semicolons ends", arguments: [true, false])
    func delimiters(_ isServer: Bool) {
        let script = SchemaScript(
            statements: ["DROP TRIGGER a", "CREATE TRIGGER a BEGIN x; END"],
            delimiter: isServer ? "$$" : nil)
        #expect(
            script.text
                == (isServer
                    ? "DROP TRIGGER a;\n\nDELIMITER $$\nCREATE TRIGGER a BEGIN x; END\n$$\nDELIMITER ;\n"
                    : "DROP TRIGGER a;\n\nCREATE TRIGGER a BEGIN x; END;\n"))
    }
}
