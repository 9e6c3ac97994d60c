import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// The statements of docs/registrations.md for an engine, and the triggers of the file that it links.
enum RegistrationPage {
    /// The statements of an application that writes the time itself: an update and an insertion.
    static func application(_ engine: TestEngine) throws -> [String] {
        let page = try String(contentsOfFile: "docs/registrations.md", encoding: .utf8)
        let title = engine == .mariaDB ? "MariaDB and MySQL" : "SQLite"
        let section = try #require(
            page.components(separatedBy: "\n## ").first { $0.hasPrefix(title) })
        let block = try #require(section.components(separatedBy: "```sql\n").dropFirst().first)
        return block.components(separatedBy: "```")[0].components(separatedBy: ";\n").filter {
            !$0.isEmpty
        }
    }

    /// The triggers, for a table of another name and without some columns.
    static func triggers(
        _ engine: TestEngine, table: String = "active_users", key: String = "udid",
        without columns: [String] = []
    ) throws -> [String] {
        let kind = engine == .mariaDB ? "mysql" : "sqlite"
        let block = try String(
            contentsOfFile: "docs/examples/registration-triggers.\(kind).sql", encoding: .utf8
        ).replacing("active_users", with: table).replacing("udid", with: key)
            .split(separator: "\n", omittingEmptySubsequences: false)
            .filter { line in
                !columns.contains { line.contains("NEW.\($0) ") && !line.contains(" THEN") }
            }.joined(separator: "\n")
        guard engine == .mariaDB else {
            return block.components(separatedBy: "\n\n")
        }
        return block.replacing("DELIMITER $$\n", with: "").components(separatedBy: "$$\n")
            .dropLast()
            .map { $0 }
    }
}

/// The page's table with its triggers, its application, and a store.
private struct UnchangedStage {
    let database: TokenDatabase

    init(_ engine: TestEngine) throws {
        database = try TokenDatabase.withSideTables(engine)
        // The sessions of tests are this program's; the application has none of its variables.
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        try database.execute("SET SESSION time_zone = '+05:00'", on: .mariaDB)
        try database.execute(
            "CREATE TABLE active_users (udid VARCHAR(40) NOT NULL PRIMARY KEY, "
                + "device_token VARCHAR(64) NOT NULL, nickname VARCHAR(255) NOT NULL)")
        for statement in try store().missingSchema(upgrading: true).statements {
            try database.sql.run(statement)
        }
        for statement in try RegistrationPage.triggers(engine) {
            try database.sql.run(statement)
        }
        try join(1)
        try age()
    }

    func store() throws -> TokenTable { try database.store(pacing: hurried()) }

    func join(_ token: Int) throws {
        try database.execute("DELETE FROM active_users WHERE udid = 'ada'")
        try database.execute(
            "INSERT INTO active_users (udid, device_token, nickname) VALUES ('ada', ?, 'Ada')",
            [.text(DeviceToken.numbered(token).hex)])
    }

    /// Makes the time one from before the evidence, as the row's own statement.
    func age(_ time: String = "'2024-01-01 00:00:00'") throws {
        try database.execute("UPDATE active_users SET registered_at = \(time)")
    }

    func time() throws -> [[String]] {
        try database.texts("SELECT registered_at FROM active_users")
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
        arguments: TestEngine.available)
    func joinsAgain(_ engine: TestEngine) throws {
        let stage = try UnchangedStage(engine)
        let evidence = [TokenEvidence.dead(1, at: stage.dead)]
        try stage.store().sweep("one", evidence)
        #expect(try stage.status(1) == .stale)
        try stage.join(1)
        #expect(try stage.status(1) == .living)
        #expect(try stage.store().classify(evidence).counts == Counts(newer: 1))
    }

    @Test(
        "with the triggers an update with a new token or with the same one is a registration",
        arguments: TestEngine.available, [1, 2])
    func updates(_ engine: TestEngine, _ token: Int) throws {
        let stage = try UnchangedStage(engine)
        let evidence = [1, token].map { TokenEvidence.dead($0, at: stage.dead) }
        try stage.store().sweep("one", [evidence[0]])
        let before = try stage.time()
        try stage.database.execute(
            "UPDATE active_users SET device_token = ? WHERE udid = 'ada'",
            [.text(DeviceToken.numbered(token).hex)])
        #expect(try stage.time() != before)
        #expect(try stage.status(token) == .living)
        #expect(try stage.store().classify([evidence[1]]).counts == Counts(newer: 1))
    }

    @Test("no mark, no undo and no other column moves the time", arguments: TestEngine.available)
    func leavesTime(_ engine: TestEngine) throws {
        let stage = try UnchangedStage(engine)
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
            "UPDATE active_users SET device_token = 'ab', registered_at = '2027-01-15 08:00:00'")
        #expect(try stage.time()[0][0].hasPrefix("2027-01-15"))
    }

    @Test("an undo restores a row without a time as it was", arguments: TestEngine.available)
    func undo(_ engine: TestEngine) throws {
        let stage = try UnchangedStage(engine)
        try stage.age("NULL")
        let before = try stage.time()
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        try stage.store().sweep("one", [.dead(1, at: start)], at: start + 950_000, policy: policy)
        #expect(try stage.time() == [])
        #expect(try stage.store().undo(.run("one"), at: start + 990_000).restored == 1)
        #expect(try stage.time() == before)
    }

    @Test(
        "after a column is dropped or the time is renamed the application works, and a new token counts",
        .needsServer)
    func droppedColumn() throws {
        let stage = try UnchangedStage(.mariaDB)
        try stage.database.sql.run("ALTER TABLE active_users DROP COLUMN invalid_reason")
        try stage.database.execute("UPDATE active_users SET nickname = 'Countess'")
        #expect(try stage.time()[0][0].hasPrefix("2024"))
        try stage.database.execute("UPDATE active_users SET device_token = 'ab'")
        #expect(try !stage.time()[0][0].hasPrefix("2024"))
        try stage.database.sql.run("ALTER TABLE active_users RENAME COLUMN registered_at TO seen")
        try stage.join(2)
        try stage.database.execute("UPDATE active_users SET device_token = 'cd'")
        let empty = "SELECT COUNT(*) FROM active_users WHERE seen IS NULL"
        #expect(try stage.database.count(empty) == 1)
    }

    @Test(
        "the page's statements of an application that writes the time itself are registrations",
        arguments: TestEngine.available)
    func alternatives(_ engine: TestEngine) throws {
        let stage = try UnchangedStage(engine)
        for event in ["insert", "update"] {
            try stage.database.sql.run("DROP TRIGGER pushsweep_registered_\(event)")
        }
        let token = SQLValue.text(DeviceToken.numbered(1).hex)
        let dead = TokenEvidence.dead(1, at: stage.dead)
        let statements = try RegistrationPage.application(engine)
        for (statement, values) in zip(
            statements, [[token, .text("ada")], [.text("ada"), token, .text("Ada")]])
        {
            try stage.age()
            #expect(try stage.store().classify([dead]).counts == Counts(applied: 1))
            try stage.database.execute(statement, values)
            #expect(try stage.store().classify([dead]).counts == Counts(newer: 1))
        }
        #expect(statements.count == 2)
    }
}

@Suite("What check says about registrations")
struct RegistrationCheckTests {
    private static func warnings(
        _ engine: TestEngine, _ columns: String, _ values: String = "",
        _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> [String] {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(200)\(columns))"
        )
        try database.execute(
            "INSERT INTO active_users VALUES (1, ?\(values))",
            [.text(DeviceToken.numbered(1).hex)])
        let store = try database.store {
            $0.table = "active_users"
            if columns.contains("invalidated_at") {
                $0.invalidatedAt.column = .named("invalidated_at")
            }
            change(&$0)
        }
        return try store.examine(.apply(RemovalPolicy())).findings
            .filter { $0.severity == .medium && $0.sentence.contains("registers again") }
            .map(\.sentence)
    }

    @Test(
        "check says what happens to a device that comes back where no column has the time",
        arguments: TestEngine.available)
    func noColumn(_ engine: TestEngine) throws {
        let beside = try Self.warnings(engine, "")
        #expect(beside.count == 1 && beside[0].contains("deleted and inserted again"), "\(beside)")
        #expect(beside[0].contains("docs/registrations.md"))
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
        let stage = try UnchangedStage(engine)
        let findings = try stage.store().examine(.apply(RemovalPolicy())).findings
        #expect(
            findings.contains {
                $0.severity == .ok
                    && $0.sentence.contains("pushsweep_registered_update")
            }, "\(findings)")
        #expect(!findings.contains { $0.sentence.contains("runs triggers") }, "\(findings)")
    }
}
