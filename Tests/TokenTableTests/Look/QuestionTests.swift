import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

// A mapping with one mistake looks healthy as long as nobody compares it with the rows.

@Suite("Mappings with one mistake")
struct QuestionTests {
    /// A table of devices, and a mapping of it that is right.
    private static func table(
        _ engine: TestEngine, _ columns: String, _ values: (Device) -> String, mixed: Bool = false
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute("CREATE TABLE devices (id INTEGER PRIMARY KEY, \(columns))")
        try database.sql.begin()
        for device in Device.some(mixed: mixed) {
            try database.execute("INSERT INTO devices VALUES (\(device.number), \(values(device)))")
        }
        try database.sql.commit()
        database.settings.mapping.table = "devices"
        return database
    }

    private func findings(
        _ database: TokenDatabase, _ use: TableUse = .read,
        _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> [Finding] {
        try database.store { change(&$0) }.examine(use).findings.filter { $0.severity > .ok }
    }

    private func refusal(
        _ database: TokenDatabase, _ change: (inout TableMapping) -> Void
    ) throws -> String {
        do {
            try database.store { change(&$0) }.require(.read)
            return ""
        } catch let failure as StoreFailure {
            return failure.sentence
        }
    }

    @Test("a run refuses a registration that lies in the future", arguments: TestEngine.available)
    func future(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), expires_at DATETIME") {
            "'\($0.token)', '\(Device.time($0.registered + 31_536_000))'"
        }
        let named = { (mapping: inout TableMapping) in
            mapping.registeredAt.column = .named("expires_at")
        }
        #expect(try refusal(database, named).contains("are in the future"))
        #expect(try refusal(database) { _ in }.isEmpty)
    }

    @Test(
        "the newest times a few hours ahead are a question of the zone",
        arguments: TestEngine.available)
    func zone(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), updated_at DATETIME") {
            "'\($0.token)', '\(Device.time($0.registered + 8 * 3_600))'"
        }
        let said = try findings(database) { $0.registeredAt.column = .named("updated_at") }
        let finding = try #require(said.first { $0.sentence.contains("zone") })
        #expect(finding.failure == nil && finding.sentence.contains("such as +08:00"), "\(finding)")
        let right = try findings(database) {
            $0.registeredAt = TimeMapping(
                column: .named("updated_at"), zone: ZoneOffset(seconds: 8 * 3_600))
        }
        #expect(!right.contains { $0.sentence.contains("zone") }, "\(right)")
    }

    @Test("a run refuses living and dead that are exchanged", arguments: TestEngine.available)
    func exchanged(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), is_deleted SMALLINT") {
            "'\($0.token)', \($0.isGone ? 1 : 0)"
        }
        let wrong = { (mapping: inout TableMapping) in
            mapping.living = LivingMapping(column: "is_deleted", living: "1", dead: "0")
        }
        #expect(try refusal(database, wrong).contains("living and dead are exchanged"))
        #expect(
            try refusal(database) {
                $0.living = LivingMapping(column: "is_deleted", living: "0", dead: "1")
            }.isEmpty)
        // Most rows of a table that nobody has cleaned are dead, and that is no mistake.
        try database.execute("UPDATE devices SET is_deleted = 1 WHERE id > 20")
        #expect(
            try refusal(database) {
                $0.living = LivingMapping(column: "is_deleted", living: "0", dead: "1")
            }.isEmpty)
    }

    @Test(
        "a word for dead rows that no row has is a question where another one stands there",
        arguments: TestEngine.available)
    func thirdWord(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), status VARCHAR(20)") {
            "'\($0.token)', '\($0.isGone ? "uninstalled" : "active")'"
        }
        func said(_ dead: String) throws -> [Finding] {
            try findings(database) {
                $0.living = LivingMapping(column: "status", living: "active", dead: dead)
            }.filter { $0.sentence.contains("counts as living") }
        }
        #expect(try said("dead").first?.sentence.contains("`uninstalled`") == true)
        #expect(try said("uninstalled").isEmpty)
    }

    private static let unnamed:
        [(columns: String, @Sendable (Device) -> String, asked: String, mixed: Bool)] = [
            (
                "device_token VARCHAR(255), isSandbox SMALLINT",
                { "'\($0.token)', \($0.number % 2)" }, "isSandbox", false
            ),
            (
                "device_token VARCHAR(255), sandbox SMALLINT",
                { "'\($0.token)', \($0.number % 2)" }, "sandbox", false
            ),
            (
                "device_token VARCHAR(255), disabled_at DATETIME",
                { "'\($0.token)', \($0.isGone ? "'\($0.time)'" : "NULL")" }, "disabled_at", false
            ),
            (
                "device_token VARCHAR(255), type VARCHAR(20)",
                { "'\($0.token)', '\($0.isApple ? "ios" : "android")'" }, "type", true
            ),
            (
                "device_token VARCHAR(255), registered_at DATETIME, last_active DATETIME",
                { "'\($0.token)', '\(Device.time($0.registered - 86_400))', '\($0.time)'" },
                "last_active", false
            ),
            (
                "device_token VARCHAR(255), bundle_id VARCHAR(40)",
                { "'\($0.token)', 'com.example.\($0.number % 2 == 0 ? "chat" : "news")'" },
                "bundle_id", false
            ),
            (
                "token VARCHAR(255), device_token VARCHAR(255)",
                { "'\(Device.hex(-$0.number))', '\($0.token)'" }, "device_token", false
            ),
        ]

    @Test(
        "a column that the settings leave out is asked about, until one setting answers",
        arguments: TestEngine.available, QuestionTests.unnamed.indices)
    func leftOut(_ engine: TestEngine, _ place: Int) throws {
        let (columns, values, asked, mixed) = Self.unnamed[place]
        let database = try Self.table(engine, columns, values, mixed: mixed)
        if columns.hasPrefix("token") { database.settings.mapping.token = "token" }
        let questions = try database.store().columnQuestions()
        #expect(questions.map(\.column) == [asked])
        #expect(questions.first?.finding.failure == nil)
        #expect(questions.first?.finding.sentence.contains("column \(asked)") == true)
        #expect(try findings(database).contains { $0.sentence.contains("column \(asked)") })
        let answered = try database.store { $0.ignoredColumns = [asked.uppercased()] }
        #expect(try answered.columnQuestions().isEmpty)
    }

    @Test(
        "a platform's second word is asked about where its rows have Apple's tokens",
        arguments: TestEngine.available)
    func secondWord(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), service VARCHAR(20)",
            {
                "'\($0.token)', '\($0.isApple ? ($0.number % 4 == 1 ? "APNS" : "APNS_DIRECT") : "FCM")'"
            },
            mixed: true)
        let said = try database.store {
            $0.platform = PlatformMapping(column: "service", value: "APNS_DIRECT")
        }.columnQuestions()
        #expect(said.map(\.column) == ["service"])
        #expect(said.first?.finding.sentence.contains("`APNS`") == true)
        #expect(said.first?.finding.sentence.contains("`FCM`") == false)
    }

    @Test(
        "a removal names what goes with the token, and warns of a person's data",
        arguments: TestEngine.available)
    func company(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine,
            "device_token VARCHAR(255), registered_at DATETIME, password VARCHAR(20), model VARCHAR(20)"
        ) { "'\($0.token)', '\($0.time)', 'secret', 'phone'" }
        let removing = TableUse.apply(RemovalPolicy(action: .delete))
        let warning = try #require(
            findings(database, removing).first { $0.sentence.contains("whole rows") })
        #expect(warning.sentence.contains("with the token go password, model"))
        #expect(try !findings(database).contains { $0.sentence.contains("whole rows") })
        try database.execute("ALTER TABLE devices DROP COLUMN password")
        #expect(try !findings(database, removing).contains { $0.sentence.contains("whole rows") })
    }

    @Test(
        "documents and addresses as tokens are refused with the statement that serves them",
        arguments: TestEngine.available,
        [("{\"t\": \"T\"}", "JSON"), ("https://push.example.com/T", "URL")])
    func unsearchable(_ engine: TestEngine, _ form: (value: String, word: String)) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255)") {
            "'\(form.value.replacing("T", with: $0.token))'"
        }
        let said = try refusal(database) { _ in }
        #expect(said.contains(form.word) && said.contains("ALTER TABLE"), "\(said)")
        #expect(!said.contains(Device.hex(1)))
    }
}
