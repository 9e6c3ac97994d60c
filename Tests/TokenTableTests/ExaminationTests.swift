import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import TokenTable

@Suite("Examination before use")
struct ExaminationTests {
    private static let marking = TableUse.apply(RemovalPolicy())

    private static func devices(
        _ engine: TestEngine, _ token: String, _ values: [SQLValue] = []
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute("CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(token))")
        for (row, value) in values.enumerated() {
            try database.execute(
                "INSERT INTO devices (id, device_token) VALUES (?, ?)",
                [.integer(Int64(row)), value])
        }
        return database
    }

    @Test("our own schema has nothing to refuse, in either mode", arguments: TestEngine.available)
    func ownSchema(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        // A table in which no device has registered for a month gets a warning.
        try database.register(0..<50, at: Int64(Date().timeIntervalSince1970 * 1_000))
        let before = try database.marks()
        for policy in [RemovalPolicy(), RemovalPolicy(action: .delete)] {
            let report = try database.store().examine(.apply(policy))
            #expect(report.passesCheck, "\(report.findings)")
            #expect(!report.findings.contains { $0.severity == .medium }, "\(report.findings)")
            #expect(report.sample?.count(.bytes) == 50)
        }
        #expect(try database.marks() == before)
        #expect(try database.rows(of: "pushsweep_batch") == 0)
    }

    @Test(
        "a column with room for the tokens of today only is named and stops nothing",
        .needsServer
    )
    func narrowColumn() throws {
        let database = try Self.devices(.mariaDB, "VARCHAR(64)")
        let report = try database.store { $0.table = "devices" }.require(Self.marking)
        #expect(report.passesCheck)
        let finding = try #require(report.findings.first { $0.sentence.contains("has room for") })
        #expect(finding.severity == .medium)
        #expect(finding.sentence.contains("schema print"))
        #expect(finding.sentence.contains("token: {longest: 32}"))
        let declared = try database.store {
            $0.table = "devices"
            $0.longestToken = 32
        }
        #expect(
            try !declared.examine(Self.marking).findings.contains {
                $0.sentence.contains("has room for")
            })
    }

    @Test("missing side tables are named with the remedy", arguments: TestEngine.available)
    func sideTables(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute("DROP TABLE pushsweep_change")
        try database.execute("DROP TABLE pushsweep_lease")
        try database.execute("ALTER TABLE pushsweep_batch DROP COLUMN detail")
        // The table has marks of its own, so this one may be missing.
        try database.execute("DROP TABLE pushsweep_invalid")
        let report = try database.store().examine(Self.marking)
        let failures = report.findings.filter { $0.failure?.code == .configuration }
        #expect(failures.count == 2, "\(failures)")
        #expect(failures.allSatisfy { $0.sentence.contains("pushsweep schema apply") })
        let names = failures.last?.sentence.split(separator: ";").first ?? ""
        #expect(names.hasPrefix("missing from the database: tables pushsweep_"))
        #expect(names.contains("pushsweep_change") && names.contains("pushsweep_lease"))
        #expect(failures.first?.sentence.contains("lacks the columns detail") == true)
        #expect(throws: StoreFailure.self) { try database.store().require(Self.marking) }
        #expect(try database.store().require(.read).firstFailure == nil)
    }

    @Test(
        "tokens that no evidence would ever find are refused or counted",
        .needsServer
    )
    func spellings() throws {
        let hex = DeviceToken.numbered(1).hex
        let grouped = SQLValue.text("<a5a5a5a5 \(hex.dropFirst(8))>")
        let short = SQLValue.text("{length = 32, bytes = 0xc9d4c07c fbbc26d6 ... f715defc }")
        let base64 = SQLValue.text("ydTAfPu8Jtbvh6RNU+FpgxCWpdX9glR1VmWd3fcV3vw=")
        let hexInBytes = SQLValue.bytes(Array(hex.utf8))
        let cases: [(String, [SQLValue], Severity)] = [
            ("VARBINARY(200)", [hexInBytes], .high),
            ("VARCHAR(255)", [base64, base64, .text(hex)], .high),
            ("VARCHAR(255)", [grouped, short, .text(hex), .text(hex), .text(hex)], .medium),
            ("VARCHAR(255)", [.text(hex), .text("0"), .text("")], .ok),
            // Of a column that the application writes no token says that it is perhaps another one.
            ("VARCHAR(255)", [.text("0"), .text("")], .medium),
        ]
        for (type, values, severity) in cases {
            let database = try Self.devices(.mariaDB, type, values)
            let report = try database.store { $0.table = "devices" }.examine(.read)
            let finding = report.findings.last { $0.sentence.contains("sampled") }
            #expect(finding?.severity == severity, "\(report.findings)")
            #expect(report.sample?.total == values.count)
            #expect(finding?.sentence.contains(hex) == false)
        }
    }

    @Test(
        "an app that the table cannot hold is refused before anything is read",
        arguments: TestEngine.available)
    func numberedApps(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), app_id INTEGER)"
        )
        try database.execute("INSERT INTO devices VALUES (1, 'a5', 3)")
        let store = try database.store { $0.table = "devices" }
        #expect(try store.examine(.read).firstFailure == nil)
        let wrong = [
            chat,
            Partition(app: "chat", environment: "sandbox"),
        ]
        expectFailure(.configuration, "column app_id holds whole numbers") {
            try store.require(.read, partitions: wrong)
        }
        let right = [Partition(app: "3", environment: "production")]
        let report = try store.require(.read, partitions: right)
        #expect(!report.findings.contains { $0.sentence.contains("no row has") })
    }

    @Test(
        "an app or environment without rows gives a warning, an empty table none",
        arguments: TestEngine.available)
    func absentApps(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "app_id VARCHAR(64), environment VARCHAR(16))")
        let partitions = [
            chat,
            Partition(app: "mail", environment: "sandbox"),
        ]
        func warnings() throws -> [String] {
            try database.store { $0.environmentValues = ["production": "prod"] }
                .examine(.read, partitions: partitions).findings
                .filter { $0.rule == "value-in-no-row" }.map(\.sentence)
        }
        #expect(try warnings().isEmpty)
        // The collation of the server would take CHAT for chat, the judgement of rows does not.
        try database.execute(
            "INSERT INTO active_users VALUES (1, ?, 'CHAT', 'sandbox'), (2, ?, 'mail', 'sandbox')",
            [.text(DeviceToken.numbered(1).hex), .text(DeviceToken.numbered(2).hex)])
        let found = try warnings()
        #expect(found.count == 2, "\(found)")
        #expect(found.first?.contains("no row has `chat` in column app_id") == true)
        #expect(found.last?.contains("no row has `prod` in column environment") == true)
        #expect(found.last?.contains("environment.values") == true)
        try database.execute(
            "UPDATE active_users SET app_id = 'chat', environment = 'prod' WHERE id = 1")
        #expect(try warnings().isEmpty)
    }

    @Test(
        "a platform that no row has is a failure, one that none of the rows looked at has a warning",
        arguments: [
            (4, "unfit-table", "no row has"), (3, "value-in-no-row", "none of the first 3"),
        ])
    func absentPlatform(_ most: Int, _ rule: String, _ words: String) throws {
        let database = try TokenDatabase(.sqlite)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(64), os TEXT)")
        try database.execute(
            "INSERT INTO active_users (os) VALUES ('ios'), ('ios'), ('android'), ('ios')")
        let store = try database.store {
            $0.platform = PlatformMapping(column: "os", value: "tvos")
        }
        let found = try store.platformFindings(store.layout(), most: most)
        #expect(found.map(\.rule) == [rule])
        #expect(found.first?.sentence.contains(words) == true, "\(found)")
    }

    @Test(
        "a column that pads tokens with zeros gives a warning",
        .needsServer
    )
    func paddedTokens() throws {
        for (type, isWarned) in [("BINARY(100)", true), ("BINARY(32)", false)] {
            let database = try Self.devices(.mariaDB, type)
            let report = try database.store { $0.table = "devices" }.examine(.read)
            let warned = report.findings.contains {
                $0.severity == .medium && $0.sentence.contains("with zeros")
            }
            #expect(warned == isWarned, "\(type): \(report.findings)")
        }
    }

    @Test("hex text in a byte column of SQLite is found, or a warning counts the lost tokens")
    func hexAsBytes() throws {
        let hex = DeviceToken.numbered(1).hex
        for value in [SQLValue.bytes(Array(hex.utf8)), .text(hex), .text(hex.uppercased())] {
            let database = try Self.devices(.sqlite, "BLOB", [value])
            let store = try database.store {
                $0.table = "devices"
                $0.encoding = .hex
            }
            #expect(try store.examine(.read).passesCheck)
            #expect(try store.classify([.dead(1, at: start)]).counts == Counts(applied: 1))
        }
        let database = try Self.devices(
            .sqlite, "VARCHAR(64)", [.text(hex), .text(hex), .bytes(Array(hex.utf8))])
        let report = try database.store { $0.table = "devices" }.examine(.read)
        #expect(
            report.findings.contains {
                $0.severity == .medium && $0.sentence.contains("no evidence matches 1 of them")
            }, "\(report.findings)")
    }

    @Test("a token column without an index gives a warning", arguments: TestEngine.available)
    func noIndex(_ engine: TestEngine) throws {
        let database = try Self.devices(engine, "VARCHAR(255)")
        let report = try database.store { $0.table = "devices" }.require(Self.marking)
        #expect(
            report.findings.contains {
                $0.severity == .medium && $0.sentence.contains("has no index")
                    && $0.sentence.contains("`pushsweep schema apply --upgrade`")
            })
    }

    @Test(
        "the locking read uses the token's index, however small the table",
        .needsServer
    )
    func locksIndexFirst() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<20)
        let connection = FaultyConnection(database.driver(), [])
        connection.certifiesCommits = false
        let store = try TokenTable(database.settings, connection, hurried())
        try store.apply((0..<20).map { .dead($0, at: start + 60_000) })
        let (sql, values) = try #require(
            connection.log.first { $0.0.contains("device_token") && $0.0.hasSuffix("FOR UPDATE") })
        let plan = try database.sql.query("EXPLAIN FORMAT=TRADITIONAL " + sql, values)
        #expect(plan.row(0).contains(.text("device")), "\(plan.row(0))")
    }

    @Test(
        "a schema is applied once, and the check passes afterwards",
        arguments: TestEngine.available)
    func schemaFromNothing(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        database.settings.wantsQueue = true
        let store = try database.store()
        #expect(
            try store.applySchema(upgrading: true)
                == SchemaScript.whole(for: database.settings.location))
        #expect(try store.missingSchema(upgrading: true).statements.isEmpty)
        #expect(try store.applySchema(upgrading: true).statements.isEmpty)
        #expect(try database.store().examine(Self.marking).passesCheck)
    }

    @Test(
        "an existing table gains the columns that marks need and keeps its rows",
        arguments: TestEngine.available)
    func schemaUpgrade(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE active_users (udid varchar(40) NOT NULL PRIMARY KEY, "
                + "device_token varchar(255) NOT NULL)")
        try database.execute(
            "INSERT INTO active_users VALUES ('u', ?)", [.text(DeviceToken.numbered(1).hex)])
        try database.store().applySchema(upgrading: true)
        #expect(try database.store().missingSchema(upgrading: true).statements.isEmpty)
        let report = try database.store().require(Self.marking)
        #expect(!report.findings.contains { $0.severity == .medium }, "\(report.findings)")
        try database.execute("INSERT INTO active_users (udid, device_token) VALUES ('v', '0')")
        try database.store().apply([.dead(1, at: start)])
        #expect(
            try database.texts("SELECT udid, invalid_reason FROM active_users ORDER BY udid") == [
                ["u", "feedback"], ["v", "NULL"],
            ])
    }

    @Test(
        "an index that leads through the app to the token suffices",
        arguments: TestEngine.available)
    func leadingIndex(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute("DROP TABLE active_users")
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, app_id VARCHAR(64), device_token "
                + "VARCHAR(255), registered_at DATETIME, invalidated_at DATETIME, invalid_reason "
                + "VARCHAR(64))")
        #expect(try database.store().missingSchema(upgrading: true).statements.count == 1)
        try database.execute("CREATE UNIQUE INDEX t ON active_users (app_id, device_token)")
        #expect(try database.store().missingSchema(upgrading: true).statements.isEmpty)
        let report = try database.store().examine(Self.marking)
        #expect(!report.findings.contains { $0.sentence.contains("has no index") })
    }

    @Test("columns declared absent are not added", arguments: TestEngine.available)
    func schemaRespectsMapping(_ engine: TestEngine) throws {
        let database = try Self.devices(engine, "VARCHAR(255)")
        let script = try database.store {
            $0.table = "devices"
            $0.registeredAt.column = .absent
            $0.invalidatedAt.column = .absent
            $0.reason = .absent
        }.missingSchema(upgrading: true)
        let changes = script.statements.filter { $0.contains("devices") }
        #expect(changes.count == 1 && changes[0].contains("INDEX"))
        // No settings want the queue, which this database does not have.
        #expect(script.statements == changes)
        #expect(script.text.hasSuffix(";\n"))
    }

    @Test("examining a missing SQLite file does not create it")
    func missingFile() throws {
        let database = try TokenDatabase(.sqlite)
        var settings = database.settings
        settings.location = .sqlite(path: "/nonexistent/\(database.name)")
        expectFailure(.configuration) { try TokenTable(settings) }
    }
}

extension StoreReport {
    /// Whether `check` has nothing to refuse.
    var passesCheck: Bool { firstFailure == nil }
}
