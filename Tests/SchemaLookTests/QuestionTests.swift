import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import SchemaLook
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
        _ database: TokenDatabase, _ change: (inout TableMapping) -> Void
    ) throws -> [Finding] { try findings(database, .read, change) }

    private func findings(
        _ database: TokenDatabase, _ use: TableUse = .read,
        _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> [Finding] {
        try database.store { change(&$0) }.examineWithLook(use).findings.filter {
            $0.severity > .ok
        }
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
        let right = { (mapping: inout TableMapping) in
            mapping.living = LivingMapping(column: "is_deleted", living: "0", dead: "1")
        }
        #expect(try refusal(database, wrong).contains("living and dead are exchanged"))
        #expect(try refusal(database, right).isEmpty)
        // In a table that nobody has cleaned most rows are dead. A person confirms that.
        try database.execute("UPDATE devices SET is_deleted = 1 WHERE id > 20")
        #expect(try refusal(database, right).contains("write mostly-dead: true"))
        #expect(
            try refusal(database) {
                right(&$0)
                $0.living.mostlyDead = true
            }.isEmpty)
    }

    @Test(
        "living and dead that are exchanged are told by the rows, whatever the names and words",
        arguments: TestEngine.available,
        [
            ("push_ok SMALLINT", "1", "0"), ("x BOOLEAN", "1", "0"),
            ("aktiv CHAR(1)", "'J'", "'N'"),
            ("push_status VARCHAR(9)", "'A'", "'D'"), ("opt_out INTEGER", "0", "1"),
            ("zustand VARCHAR(20)", "'gut'", "'weg'"),
        ])
    func exchangedRows(_ engine: TestEngine, _ flag: (column: String, living: String, dead: String))
        throws
    {
        let database = try Self.table(engine, "device_token VARCHAR(255), \(flag.column)") {
            "'\($0.token)', \($0.isGone ? flag.dead : flag.living)"
        }
        let name = flag.column.prefix { $0 != " " }
        let (living, dead) = (
            flag.living.filter { $0 != "'" }, flag.dead.filter { $0 != "'" }
        )
        func refusal(_ living: String, _ dead: String) throws -> String {
            try self.refusal(database) {
                $0.living = LivingMapping(column: String(name), living: living, dead: dead)
            }
        }
        let said = try refusal(dead, living)
        #expect(said.contains("114 of 120 rows sampled have `\(living)`"), "\(said)")
        #expect(try refusal(living, dead).isEmpty)
    }

    @Test(
        "exchanged living and dead of a few rows are refused too", arguments: TestEngine.available)
    func exchangedFew(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), x SMALLINT") {
            "'\($0.token)', \($0.isGone ? 0 : 1)"
        }
        try database.execute("DELETE FROM devices WHERE id >= 10")
        let said = try refusal(database) {
            $0.living = LivingMapping(column: "x", living: "0", dead: "1")
        }
        #expect(said.contains("9 of 10 rows sampled have `1`"), "\(said)")
        #expect(
            try refusal(database) {
                $0.living = LivingMapping(column: "x", living: "1", dead: "0")
            }.isEmpty)
    }

    @Test(
        "a time of the mark that every row has, and a registration that most rows lack, are warnings",
        arguments: TestEngine.available)
    func filledMark(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), changed_at DATETIME, registered_at DATETIME"
        ) {
            let registered = $0.number % 3 == 0 ? "'\($0.time)'" : "NULL"
            return "'\($0.token)', '\($0.time)', \(registered)"
        }
        func warnings(_ mark: OptionalColumn) throws -> [String] {
            try findings(database) { $0.invalidatedAt.column = mark }.map(\.sentence)
        }
        let filled = try warnings(.named("changed_at"))
        #expect(filled.contains { $0.contains("each of 120 rows sampled has a time there") })
        #expect(filled.contains { $0.contains("80 of 120 rows sampled have no time") })
        try database.execute("UPDATE devices SET changed_at = NULL WHERE id = 3")
        #expect(try !warnings(.named("changed_at")).contains { $0.contains("has a time there") })
        try database.execute("UPDATE devices SET registered_at = changed_at WHERE id < 80")
        #expect(try !warnings(.absent).contains { $0.contains("have no time") })
    }

    @Test(
        "environments that are exchanged are refused by their words, and warned of by the name of a flag",
        arguments: TestEngine.available)
    func exchangedEnvironments(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), environment VARCHAR(20), is_sandbox SMALLINT"
        ) { "'\($0.token)', '\($0.isGone ? "sandbox" : "production")', \($0.isGone ? 1 : 0)" }
        func mapped(_ column: String, _ production: String, _ sandbox: String) -> (
            inout TableMapping
        ) -> Void {
            {
                $0.environment = .named(column)
                $0.environmentValues = ["production": production, "sandbox": sandbox]
            }
        }
        #expect(
            try refusal(database, mapped("environment", "sandbox", "production"))
                .contains("they are exchanged"))
        #expect(try refusal(database, mapped("environment", "production", "sandbox")).isEmpty)
        func warned(_ production: String, _ sandbox: String) throws -> Bool {
            try findings(database, mapped("is_sandbox", production, sandbox))
                .contains { $0.sentence.contains("says the opposite") }
        }
        #expect(try warned("1", "0"))
        #expect(try !warned("0", "1"))
    }

    @Test(
        "a time of the sender as the registration is warned of",
        arguments: TestEngine.inTurn([
            ("last_sent_at", true), ("pushed_at", true), ("last_seen_at", false),
        ]))
    func ofSender(_ engine: TestEngine, _ column: (name: String, isWarned: Bool)) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), \(column.name) DATETIME"
        ) { "'\($0.token)', '\($0.time)'" }
        let said = try findings(database) { $0.registeredAt.column = .named(column.name) }
        #expect(said.contains { $0.sentence.contains("a time of the sender") } == column.isWarned)
    }

    @Test(
        "an environment under one word alone is refused where that is the other's",
        arguments: TestEngine.available)
    func halfExchanged(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), environment VARCHAR(20)")
        {
            "'\($0.token)', 'production'"
        }
        let said = try refusal(database) { $0.environmentValues = ["sandbox": "prod"] }
        #expect(said.contains("`production` production and `prod` sandbox"), "\(said)")
    }

    @Test("marks of our own never stop a run", arguments: TestEngine.available)
    func ownMarks(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), push_ok SMALLINT") {
            "'\($0.token)', \($0.number < 80 ? 0 : 1)"
        }
        let mapped = { (mapping: inout TableMapping) in
            mapping.living = LivingMapping(column: "push_ok", living: "1", dead: "0")
        }
        #expect(try !refusal(database, mapped).isEmpty)
        for device in Device.some(mixed: false) where device.number < 80 {
            try database.execute(
                "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) VALUES "
                    + "(x'\(device.token)', 'chat', 'production', '2026-01-01 00:00:00.000')")
        }
        #expect(try refusal(database, mapped).isEmpty)
    }

    @Test(
        "a mark that stands alone under its default name is used, and check warns until a setting names it",
        arguments: TestEngine.available)
    func nobodyNamed(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), invalidated_at DATETIME", { "'\($0.token)', NULL" })
        func warned(_ map: @escaping (inout TableMapping) -> Void) throws -> String {
            #expect(try refusal(database, map).isEmpty)
            return try database.store {
                $0.table = "devices"
                $0.encoding = .hex
                map(&$0)
            }.examineWithLook(.apply(RemovalPolicy())).findings.map(\.sentence)
                .filter { $0.contains("has a default name") }.joined()
        }
        #expect(try warned { _ in }.contains("write invalidated-at: invalidated_at"))
        #expect(try warned { $0.invalidatedAt.column = .absent }.isEmpty)
        #expect(try warned { $0.invalidatedAt.column = .named("invalidated_at") }.isEmpty)
        try database.execute("ALTER TABLE devices ADD COLUMN invalid_reason VARCHAR(64)")
        #expect(try warned { _ in }.isEmpty)
        // The reason of another mark.
        try database.execute("ALTER TABLE devices ADD COLUMN gone_at DATETIME")
        #expect(
            try warned { $0.invalidatedAt.column = .named("gone_at") }
                .contains("write reason: invalid_reason"))
        #expect(
            try warned {
                $0.invalidatedAt.column = .named("gone_at")
                $0.reason = .absent
            }.isEmpty)
    }

    @Test(
        "a run refuses a third word in the rows with its number, until a setting names it",
        arguments: TestEngine.available)
    func thirdWord(_ engine: TestEngine) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255), status VARCHAR(20)") {
            "'\($0.token)', '\($0.isGone ? "uninstalled" : "active")'"
        }
        func said(_ dead: String, others: [String]? = nil) throws -> String {
            try refusal(database) {
                $0.living = LivingMapping(
                    column: "status", living: "active", dead: dead, others: others)
            }
        }
        #expect(try said("dead").contains("6 of 120 rows sampled have `uninstalled` (6)"))
        #expect(try said("uninstalled").isEmpty)
        #expect(try said("dead", others: ["uninstalled"]).isEmpty)
        #expect(
            try said("dead", others: ["dead"]).contains("correct store.active-users.living.others"))
        // One odd row is no word, and nothing is none either.
        try database.execute("UPDATE devices SET status = 'x' WHERE id = 1")
        try database.execute("UPDATE devices SET status = '' WHERE id BETWEEN 30 AND 40")
        try database.execute("UPDATE devices SET status = NULL WHERE id BETWEEN 50 AND 60")
        #expect(try said("uninstalled").isEmpty)
        let finding = try findings(database) {
            $0.living = LivingMapping(column: "status", living: "active", dead: "uninstalled")
        }.first { $0.sentence.contains("`x` (1)") }
        #expect(finding != nil && finding?.failure == nil)
    }

    @Test(
        "columns that may be the mark are asked about also where a setting says none, and once",
        arguments: TestEngine.available)
    func leftOutMarks(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), push_ok SMALLINT, gone_at DATETIME, tablet SMALLINT"
        ) {
            "'\($0.token)', \($0.isGone ? 0 : 1), \($0.isGone ? "'\($0.time)'" : "NULL"), \($0.number % 2)"
        }
        func asked(_ change: (inout TableMapping) -> Void) throws -> [ColumnQuestion] {
            try database.store { change(&$0) }.columnQuestions()
        }
        let said = try asked { $0.invalidatedAt.column = .absent }
        #expect(Set(said.map(\.column)) == ["push_ok", "gone_at", "tablet"] && said.count == 3)
        #expect(
            said.first { $0.column == "push_ok" }?.finding.sentence.contains(
                "living: {column: push_ok, living: 1, dead: 0}") == true)
        // The account of the sweep sees only what may be the mark.
        #expect(said.filter { !$0.isForAccount }.map(\.column) == ["tablet"])
        #expect(try asked { $0.ignoredColumns = ["push_ok", "GONE_AT", "tablet"] }.isEmpty)
        let mapped = try asked {
            $0.living = LivingMapping(column: "push_ok", living: "1", dead: "0")
        }
        #expect(mapped.isEmpty)
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
        "documents and addresses as tokens are refused, by check with the statement that serves them",
        arguments: TestEngine.inTurn([
            ("{\"t\": \"T\"}", "JSON"), ("https://push.example.com/T", "URL"),
        ]))
    func unsearchable(_ engine: TestEngine, _ form: (value: String, word: String)) throws {
        let database = try Self.table(engine, "device_token VARCHAR(255)") {
            "'\(form.value.replacing("T", with: $0.token))'"
        }
        let said = try refusal(database) { _ in }
        #expect(said.contains(form.word) && said.contains("run `pushsweep check`"), "\(said)")
        let told = try findings(database).compactMap(\.failure).map(\.sentence).joined()
        #expect(told.contains(form.word) && told.contains("ALTER TABLE"), "\(told)")
        for sentence in [said, told] { #expect(!sentence.contains(Device.hex(1))) }
    }

    @Test("a column that tells kinds apart is named", arguments: TestEngine.available)
    func kinds(_ engine: TestEngine) throws {
        let database = try Self.table(
            engine, "device_token VARCHAR(255), kind VARCHAR(9)",
            { "'\($0.token)', '\($0.isApple ? "ios" : "android")'" }, mixed: true)
        let sentences = try findings(database).map(\.sentence)
        #expect(
            sentences.contains { $0.contains("platform: {column: kind, value: ios}") },
            "\(sentences)")
    }
}
