import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

// A trigger that keeps the time of the row takes each mark of ours for a registration.

@Suite("Triggers that take a mark for a registration")
struct MovingRegistrationTests {
    /// Where marks are.
    enum Mark: CaseIterable, Sendable {
        case time
        case flag
        case beside

        func map(_ mapping: inout TableMapping) {
            mapping.table = "devices"
            mapping.registeredAt.column = .named("updated_at")
            mapping.invalidatedAt.column = self == .time ? .named("gone_at") : .absent
            if self == .flag {
                mapping.living = LivingMapping(column: "active", living: "1", dead: "0")
            }
        }
    }

    /// Three devices and a trigger that begins with a part of an IF, or names columns in SQLite.
    private static func database(
        _ engine: TestEngine, _ condition: String?, _ named: String = "",
        column: String = "updated_at"
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        // The sessions of tests are this program's; the application has none of its variables.
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(200), "
                + "updated_at DATETIME, active SMALLINT, gone_at DATETIME)")
        for number in 0..<3 {
            try database.execute(
                "INSERT INTO devices VALUES (\(number), '\(DeviceToken.numbered(number).hex)', "
                    + "'2020-05-01 10:00:00', 1, NULL)")
        }
        let set = "SET NEW.\(column) = UTC_TIMESTAMP()"
        try database.sql.run(
            engine == .sqlite
                ? "CREATE TRIGGER touch AFTER UPDATE\(named) ON devices BEGIN UPDATE devices "
                    + "SET \(column) = datetime('now') WHERE id = NEW.id; END"
                : "CREATE TRIGGER touch BEFORE UPDATE ON devices FOR EACH ROW "
                    + (condition.map { "IF \($0) THEN \(set); END IF" } ?? set))
        database.settings.mapping.table = "devices"
        return database
    }

    @Test(
        "a trigger that writes the registration at a mark is refused before any evidence is taken",
        arguments: TestEngine.available, [Mark.time, .flag])
    func refused(_ engine: TestEngine, _ mark: Mark) throws {
        let database = try Self.database(engine, nil)
        let store = try database.store(mark.map)
        for use in [
            TableUse.apply(RemovalPolicy()), .apply(RemovalPolicy(action: .delete)), .read,
            .undo(actions: ["mark"], isDry: false),
        ] {
            expectFailure(.configuration, "trigger touch of devices writes updated_at") {
                try store.require(use)
            }
        }
        // Who only looks at the table is not stopped.
        try store.require(.read, judgingRows: false)
        let findings = try store.examine(.apply(RemovalPolicy())).findings
        #expect(
            !findings.contains { $0.sentence.contains("registers again") && $0.severity == .ok })
    }

    @Test(
        "where marks stand beside the table each write counts as a registration, and check warns",
        arguments: TestEngine.available)
    func beside(_ engine: TestEngine) throws {
        let database = try Self.database(engine, nil)
        let store = try database.store(Mark.beside.map)
        let report = try store.examine(.apply(RemovalPolicy()))
        #expect(report.firstFailure == nil, "\(report.findings)")
        let said = report.findings.filter { $0.sentence.contains("trigger touch") }
        #expect(
            said.contains {
                $0.severity == .medium && $0.sentence.contains("counts as a registration")
            })
        #expect(!said.contains { $0.severity == .ok })
    }

    @Test(
        "a trigger that spares this program, or writes with the token only, lets marks and undo be exact",
        arguments: TestEngine.available, [Mark.time, .flag])
    func spared(_ engine: TestEngine, _ mark: Mark) throws {
        for condition in ["@pushsweep IS NULL", "NOT (NEW.device_token <=> OLD.device_token)"] {
            try spared(engine, mark, condition)
        }
    }

    private func spared(_ engine: TestEngine, _ mark: Mark, _ condition: String) throws {
        let database = try Self.database(engine, condition, " OF device_token")
        let store = try database.store(pacing: hurried(), mark.map)
        #expect(try store.examine(.apply(RemovalPolicy())).firstFailure == nil)
        let before = try database.texts("SELECT updated_at FROM devices ORDER BY id")
        try store.sweep("one", [.dead(1, at: start + 60_000)])
        let statuses = try store.tokenStatuses(in: chat).statuses(of: [.numbered(1)])
        #expect(statuses[.numbered(1)] == .stale)
        #expect(try store.undo(.run("one"), at: start + 990_000).restored == 1)
        #expect(try database.texts("SELECT updated_at FROM devices ORDER BY id") == before)
    }

    @Test(
        "a trigger that writes a column of which the registration is computed is refused too",
        .needsServer)
    func computed() throws {
        let database = try Self.database(.mariaDB, nil)
        try database.execute(
            "ALTER TABLE devices ADD COLUMN seen DATETIME AS (updated_at + INTERVAL 1 SECOND) VIRTUAL"
        )
        let store = try database.store {
            Mark.flag.map(&$0)
            $0.registeredAt.column = .named("seen")
        }
        expectFailure(.configuration, "trigger touch of devices writes seen") {
            try store.require(.apply(RemovalPolicy()))
        }
    }

    @Test(
        "an account that does not see the statements of a trigger is told the right that shows them",
        .needsServer)
    func hidden() throws {
        let database = try Self.database(.mariaDB, nil)
        let open = try database.store(Mark.flag.map)
        let account = try ServerAccount(of: database)
        let grants = try open.grants(for: RemovalPolicy(), user: "\(account.name)@%")
        #expect(grants.count { $0.contains("TRIGGER") } == 1, "\(grants)")
        try account.run(grants.filter { !$0.contains("TRIGGER") })
        var settings = account.settings
        Mark.flag.map(&settings.mapping)
        expectFailure(.permission, "GRANT TRIGGER ON") {
            try TokenTable(settings).require(.apply(RemovalPolicy()))
        }
        try account.run(grants)
        expectFailure(.configuration, "trigger touch of devices writes updated_at") {
            try TokenTable(settings).require(.apply(RemovalPolicy()))
        }
    }
}
