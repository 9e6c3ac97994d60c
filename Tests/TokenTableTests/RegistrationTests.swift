import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// A table of an application that cannot be changed.
enum UnchangedTable: String, Sendable, CaseIterable {
    /// The tutorial's: it deletes and inserts on joining, and updates the token.
    case pushChat = "PushChat"
    /// A column of two values, and a time that is set once.
    case django = "django-push-notifications"
    /// No mark in the row, whole seconds as the time.
    case seconds = "seconds, marks beside"
}

/// Such a table on an engine.
struct UnchangedCase: Sendable, CustomTestStringConvertible {
    let engine: TestEngine
    let shape: UnchangedTable
    var testDescription: String { "\(engine.rawValue), \(shape.rawValue)" }

    static let all = TestEngine.available.flatMap { engine in
        UnchangedTable.allCases.map { UnchangedCase(engine: engine, shape: $0) }
    }
}

/// One row of such a table, its application, and a store.
private struct UnchangedStage {
    let database: TokenDatabase
    let shape: UnchangedTable

    init(_ engine: TestEngine, _ shape: UnchangedTable) throws {
        database = try TokenDatabase(engine)
        self.shape = shape
        try database.createSideTables()
        // The sessions of tests are this program's; the application has none of its variables.
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        try database.execute("SET SESSION time_zone = '+05:00'", on: .mariaDB)
        let columns =
            switch shape {
            case .pushChat: "nickname VARCHAR(255) NOT NULL"
            case .django:
                "nickname VARCHAR(255), active BOOLEAN NOT NULL DEFAULT 1, date_created "
                    + (engine == .mariaDB ? "TIMESTAMP(6) NULL" : "DATETIME")
            case .seconds: "nickname VARCHAR(255), seen BIGINT NULL"
            }
        try database.execute(
            "CREATE TABLE active_users (udid VARCHAR(40) NOT NULL PRIMARY KEY, "
                + "device_token VARCHAR(64) NOT NULL, \(columns))")
        try join(1)
        for statement in try store().upgradeScript().script.statements {
            try database.sql.run(statement)
        }
        // Registered before there was a time.
        try database.execute("UPDATE active_users SET \(column) = \(old)")
    }

    var column: String {
        switch shape {
        case .pushChat: "registered_at"
        case .django: "date_created"
        case .seconds: "seen"
        }
    }

    /// A time before the evidence.
    private var old: String { shape == .seconds ? "\(start / 1_000)" : "'2024-01-01 00:00:00'" }

    func store() throws -> TokenTable {
        try database.store(pacing: hurried()) { mapping in
            switch shape {
            case .pushChat: break
            case .django:
                mapping.living = LivingMapping(column: "active", living: "true", dead: "false")
                mapping.registeredAt.column = .named("date_created")
            case .seconds:
                mapping.registeredAt = TimeMapping(column: .named("seen"), type: .epochSeconds)
                mapping.invalidatedAt.column = .absent
                mapping.reason = .absent
            }
        }
    }

    func join(_ token: Int) throws {
        try database.execute("DELETE FROM active_users WHERE udid = 'ada'")
        try database.execute(
            "INSERT INTO active_users (udid, device_token, nickname) VALUES ('ada', ?, 'Ada')",
            [.text(DeviceToken.numbered(token).hex)])
    }

    func time() throws -> [[String]] {
        try database.texts("SELECT \(column) FROM active_users")
    }

    func status(_ token: Int) throws -> TokenStatus? {
        try store().tokenStatuses(in: chat).statuses(of: [.numbered(token)])[.numbered(token)]
    }

    /// The time of new evidence, before each registration that a test makes.
    var dead: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) - 60_000 }
}

@Suite("Registrations that the application does not record")
struct RegistrationTests {
    @Test(
        "with the triggers a device that joins again is kept, and older evidence changes nothing",
        arguments: TestEngine.available, UnchangedTable.allCases)
    func joinsAgain(_ engine: TestEngine, _ shape: UnchangedTable) throws {
        let stage = try UnchangedStage(engine, shape)
        let evidence = [TokenEvidence.dead(1, at: stage.dead)]
        try stage.store().sweep("one", evidence)
        #expect(try stage.status(1) == .stale)
        try stage.join(1)
        #expect(try stage.status(1) == .living)
        #expect(try stage.store().classify(evidence).counts == Counts(newer: 1))
    }

    @Test(
        "with the triggers an update with a new token or with the same one is a registration",
        arguments: UnchangedCase.all, [1, 2])
    func updates(_ table: UnchangedCase, _ token: Int) throws {
        let shape = table.shape
        let stage = try UnchangedStage(table.engine, shape)
        let evidence = [1, token].map { TokenEvidence.dead($0, at: stage.dead) }
        try stage.store().sweep("one", [evidence[0]])
        let before = try stage.time()
        // The application of a column of two values sets it, too.
        let living = shape == .django ? ", active = 1" : ""
        try stage.database.execute(
            "UPDATE active_users SET device_token = ?\(living) WHERE udid = 'ada'",
            [.text(DeviceToken.numbered(token).hex)])
        #expect(try stage.time() != before)
        #expect(try stage.status(token) == .living)
        #expect(try stage.store().classify([evidence[1]]).counts == Counts(newer: 1))
    }

    @Test(
        "no mark, no undo and no other column moves the time",
        arguments: TestEngine.available, UnchangedTable.allCases)
    func leavesTime(_ engine: TestEngine, _ shape: UnchangedTable) throws {
        let stage = try UnchangedStage(engine, shape)
        let before = try stage.time()
        let store = try stage.store()
        try store.sweep("one", [.dead(1, at: stage.dead)])
        #expect(try stage.time() == before)
        #expect(try store.undo(.run("one")).restored > 0)
        #expect(try stage.status(1) == .living)
        #expect(try stage.time() == before)
        try store.sweep(
            "two", [.dead(1, at: stage.dead)], at: start + 950_000,
            policy: RemovalPolicy(action: .delete))
        #expect(try stage.time() == [])
        #expect(try store.undo(.run("two"), at: start + 990_000).restored == 1)
        #expect(try stage.time() == before)
        try stage.database.execute("UPDATE active_users SET nickname = 'Countess'")
        #expect(try stage.time() == before)
        // A time that the application writes itself stays.
        try stage.database.execute(
            "UPDATE active_users SET device_token = 'ab', \(stage.column) = "
                + (shape == .seconds ? "1800000000" : "'2027-01-15 08:00:00'"))
        #expect(try stage.time()[0][0].hasPrefix(shape == .seconds ? "1800000000" : "2027-01-15"))
    }

    @Test(
        "a statement of the application that writes the time itself is a registration",
        arguments: TestEngine.available)
    func alternatives(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createSideTables()
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        let column =
            engine == .mariaDB
            ? "DATETIME(3) NULL" : "DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))"
        try database.execute(
            "CREATE TABLE active_users (udid VARCHAR(40) PRIMARY KEY, device_token VARCHAR(64), "
                + "registered_at \(column), invalidated_at DATETIME NULL)")
        let store = try database.store()
        let notes = try store.upgradeScript().notes.joined(separator: "\n")
        let now = try #require(try store.registrationTriggers()).now
        if engine == .mariaDB {
            let line = try #require(
                notes.split(separator: "\n").first { $0.contains("SET DEFAULT") })
            try database.sql.run(String(line))
        }
        let token = SQLValue.text(DeviceToken.numbered(1).hex)
        let dead = TokenEvidence.dead(1, at: Int64(Date().timeIntervalSince1970 * 1_000) - 60_000)
        func isKept() throws -> Bool {
            try database.store().classify([dead]).counts == Counts(newer: 1)
        }
        let insert = "INSERT INTO active_users (udid, device_token) VALUES ('ada', ?)"
        try database.execute(insert, [token])
        #expect(try isKept(), "a default")
        try database.execute("UPDATE active_users SET registered_at = '2024-01-01 00:00:00'")
        #expect(try !isKept())
        let upsert =
            engine == .mariaDB
            ? "ON DUPLICATE KEY UPDATE device_token = VALUES(device_token), registered_at = \(now)"
            : "ON CONFLICT (udid) DO UPDATE SET device_token = excluded.device_token, "
                + "registered_at = \(now)"
        #expect(notes.contains(engine == .mariaDB ? "ON DUPLICATE KEY UPDATE" : "ON CONFLICT"))
        try database.execute("\(insert) \(upsert)", [token])
        #expect(try isKept(), "an upsert")
    }
}

@Suite("What check says about registrations")
struct RegistrationCheckTests {
    private static func warnings(
        _ engine: TestEngine, _ columns: String, _ values: String = "",
        _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> [String] {
        let database = try TokenDatabase(engine)
        try database.createSideTables()
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(200)\(columns))"
        )
        try database.execute(
            "INSERT INTO active_users VALUES (1, ?\(values))",
            [.text(DeviceToken.numbered(1).hex)])
        let store = try database.store {
            $0.table = "active_users"
            change(&$0)
        }
        return try store.examine(.apply(RemovalPolicy())).findings
            .filter { $0.severity == .warning && $0.sentence.contains("registers again") }
            .map(\.sentence)
    }

    @Test(
        "check says what happens to a device that comes back where no column has the time",
        arguments: TestEngine.available)
    func noColumn(_ engine: TestEngine) throws {
        let beside = try Self.warnings(engine, "")
        #expect(beside.count == 1 && beside[0].contains("deleted and inserted again"), "\(beside)")
        #expect(beside[0].contains("schema print --upgrade"))
        let inRow = try Self.warnings(engine, ", invalidated_at DATETIME NULL", ", NULL")
        #expect(inRow.count == 1 && inRow[0].contains("empties invalidated_at"), "\(inRow)")
        let living = try Self.warnings(engine, ", active INTEGER", ", 1") {
            $0.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        #expect(living.count == 1 && living[0].contains("sets active to `1`"), "\(living)")
    }

    @Test(
        "check warns about a time that is set once, is empty, or is old",
        arguments: TestEngine.available)
    func unwritten(_ engine: TestEngine) throws {
        let now = engine == .mariaDB ? "UTC_TIMESTAMP()" : "datetime('now')"
        func found(_ name: String, _ value: String) throws -> [String] {
            try Self.warnings(
                engine, ", \(name) DATETIME NULL, invalidated_at DATETIME NULL", ", \(value), NULL"
            ) { $0.registeredAt.column = .named(name) }
        }
        // A row that is inserted again has a new time, so its mark no longer counts.
        let beside = try Self.warnings(engine, ", date_created DATETIME NULL", ", \(now)") {
            $0.registeredAt.column = .named("date_created")
        }
        #expect(beside.count == 1 && beside[0].contains("or deletes and inserts the row"))
        #expect(!beside[0].contains("also if its row"), "\(beside)")
        let created = try found("date_created", now)
        #expect(created.count == 1 && created[0].contains("set once"), "\(created)")
        let empty = try found("registered_at", "NULL")
        #expect(empty.count == 1 && empty[0].contains("empty in all"), "\(empty)")
        let old = try found("registered_at", "'2024-01-01 00:00:00'")
        #expect(old.count == 1 && old[0].contains("days old"), "\(old)")
        #expect(try found("registered_at", now).isEmpty)
    }

    @Test("check names the trigger that writes the time", arguments: TestEngine.available)
    func trigger(_ engine: TestEngine) throws {
        let stage = try UnchangedStage(engine, .django)
        let findings = try stage.store().examine(.apply(RemovalPolicy())).findings
        #expect(
            findings.contains {
                $0.severity == .ok
                    && $0.sentence.contains("pushsweep_registered_update_active_users")
            }, "\(findings)")
        #expect(!findings.contains { $0.sentence.contains("runs triggers") }, "\(findings)")
    }
}
