import APNsProtocol
import Database
import TestSupport
import Testing
import TokenHygiene

@testable import SchemaLook
@testable import TokenTable

// Rows that a mapping leaves out although they have Apple's tokens: no signal reaches them.

@Suite("Rows of no platform, environment or app")
struct LeftOutTests {
    /// Devices of which one in twenty has `web`, one in forty no environment, and one in sixty no app.
    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.make(
            "devices",
            "id INTEGER PRIMARY KEY, device_token VARCHAR(255), platform VARCHAR(10), environment VARCHAR(12), "
                + "app_id VARCHAR(12)", 240, mixed: true
        ) { device in
            let number = device.number
            let platform = !device.isApple ? "android" : number % 40 == 1 ? "web" : "ios"
            let environment =
                number % 40 == 5 ? "NULL" : "'\(number % 5 == 0 ? "sandbox" : "production")'"
            let app = number % 60 == 7 ? "NULL" : "'\(number % 2 == 0 ? "chat" : "news")'"
            return "\(number), '\(device.token)', '\(platform)', \(environment), \(app)"
        }
        database.settings.mapping.table = "devices"
        return database
    }

    @Test(
        "are named by the first look with their number and value", arguments: TestEngine.available)
    func look(_ engine: TestEngine) throws {
        let proposal = try #require(try Self.database(engine).firstLook().1)
        #expect(proposal.line(.platform)?.value == "{column: platform, value: ios}")
        let lines = proposal.lines.map(\.reason).joined(separator: "\n")
        #expect(lines.contains("`web` (4)") || lines.contains("4 rows have `web`"), "\(lines)")
        #expect(lines.contains("NULL in environment: no app takes them"), "\(lines)")
        #expect(lines.contains("NULL in app_id: no app takes them"), "\(lines)")
    }

    @Test("are named by check with their number and value", arguments: TestEngine.available)
    func check(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let asked = try database.store {
            $0.platform = PlatformMapping(column: "platform", value: "ios")
            $0.registeredAt.column = .absent
        }.columnQuestions()
        #expect(asked.map(\.column).sorted() == ["app_id", "environment", "platform"])
        let said = asked.map(\.finding.sentence).joined(separator: "\n")
        #expect(said.contains("4 rows have `web` in platform of devices"), "\(said)")
        #expect(said.contains("have NULL in environment of devices"), "\(said)")
        #expect(said.contains("have NULL in app_id of devices"), "\(said)")
        #expect(asked.allSatisfy { $0.finding.failure == nil })
    }

    @Test(
        "a word in several spellings, and words of two environments, are a question",
        arguments: TestEngine.available,
        [
            (["iOS", "ios", "IOS"], false), (["IOS", "IOD"], true), (["apns", "apns_dev"], true),
        ])
    func spellings(_ engine: TestEngine, _ shape: (words: [String], areEnvironments: Bool)) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), kind VARCHAR(10)",
            mixed: true
        ) { device in
            let last = shape.words.count - 1
            let place = device.number % 9 == 1 ? 1 : device.number % 9 == 4 ? last : 0
            let word = shape.words[place]
            return "\(device.number), '\(device.token)', '\(device.isApple ? word : "AND")'"
        }
        let proposal = try #require(try database.firstLook().1)
        let question = try #require(proposal.questions.first { $0.part == .platform })
        for word in shape.words { #expect(question.reason.contains("`\(word)` (")) }
        #expect(question.statement?.contains("ALTER TABLE") == true)
        #expect(question.reason.contains("its two environments") == shape.areEnvironments)
        #expect(question.answer?.contains("--platform kind=\(shape.words[0])") == true)
    }

    @Test(
        "the environment of anything but APNs is a question, whose line names each word once",
        arguments: TestEngine.inTurn([
            "receipt_environment", "storekit_env", "server_env", "workspace", "release_channel",
            "tier",
            "zweig", "mode",
        ]))
    func otherEnvironments(_ engine: TestEngine, _ name: String) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(name) VARCHAR(20)"
        ) {
            "\($0.number), '\($0.token)', '\($0.number % 3 == 0 ? "prod" : "dev")'"
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.environment)?.column == nil)
        let asked = proposal.questions.filter { $0.part == .environment }
        #expect(
            asked.count == 1
                && asked[0].reason.contains("values: {production: prod, sandbox: dev}"),
            "\(asked)")
    }

    @Test(
        "a flag of demonstrations and a mode of payments are no environment without an answer",
        arguments: TestEngine.inTurn([
            ("is_demo", "1", "0"), ("mode", "test", "live"), ("not_sandbox", "0", "1"),
            ("paypal_sandbox", "1", "0"), ("sandbox_user", "1", "0"), ("apns_status", "d", "p"),
        ]))
    func ofOtherThings(
        _ engine: TestEngine, _ column: (name: String, sandbox: String, production: String)
    ) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.make(
            "devices",
            "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(column.name) VARCHAR(9)"
        ) {
            "\($0.number), '\($0.token)', '\($0.number % 3 == 0 ? column.sandbox : column.production)'"
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.environment)?.column == nil)
        #expect(proposal.questions.contains { $0.column == column.name })
    }

    @Test(
        "of two columns of environments the one that names APNs is taken, and the other is a question",
        arguments: TestEngine.available)
    func twoEnvironments(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.make(
            "devices",
            "id INTEGER PRIMARY KEY, device_token VARCHAR(255), env VARCHAR(20), apns_env VARCHAR(20)"
        ) {
            "\($0.number), '\($0.token)', 'prod', '\($0.number % 5 == 0 ? "sandbox" : "production")'"
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.mapping.environment == .named("apns_env"))
        #expect(proposal.questions.contains { $0.part == .environment && $0.column == "env" })
        #expect(!proposal.questions.contains { $0.part == .living && $0.column == "apns_env" })
    }

    @Test(
        "a flag of any spelling is the environment, and of SQLite's own type too",
        arguments: TestEngine.available,
        [
            ("sandbox BOOLEAN", "1", "0"), ("is_dev BOOLEAN", "1", "0"),
            ("is_sandbox VARCHAR(5)", "'TRUE'", "'FALSE'"),
            ("is_sandbox VARCHAR(5)", "'True'", "'False'"),
            ("is_production VARCHAR(3)", "'off'", "'on'"),
        ])
    func flags(_ engine: TestEngine, _ flag: (column: String, sandbox: String, production: String))
        throws
    {
        let database = try TokenDatabase.withSideTables(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(flag.column)"
        ) {
            "\($0.number), '\($0.token)', \($0.number % 5 == 0 ? flag.sandbox : flag.production)"
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.environments == ["production", "sandbox"])
        let store = try database.store {
            $0 = proposal.mapping
            $0.registeredAt.column = .absent
        }
        for (environment, number) in [("sandbox", 5), ("production", 6)] {
            let partition = Partition(app: "app", environment: environment)
            let statuses = try store.tokenStatuses(in: partition)
            let token = try #require(try? DeviceToken(spelling: Device.hex(number)))
            let other = try #require(try? DeviceToken(spelling: Device.hex(number == 5 ? 6 : 5)))
            #expect(
                try statuses.statuses(of: [token, other]) == [token: .living, other: .unknown])
        }
        #expect(
            try !store.columnQuestions().contains { flag.column.hasPrefix($0.column) })
    }

    @Test(
        "a flag with one value names both environments, and only the one that has rows is proposed",
        arguments: TestEngine.inTurn([("0", "production"), ("1", "sandbox")]))
    func oneEnvironment(_ engine: TestEngine, _ flag: (value: String, environment: String)) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), is_sandbox SMALLINT"
        ) { "\($0.number), '\($0.token)', \(flag.value)" }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.environments == [flag.environment])
        #expect(proposal.mapping.environmentValues == ["production": "0", "sandbox": "1"])
    }

    @Test(
        "a flag is the platform of SQLite's own type, too", arguments: TestEngine.available)
    func platform(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), is_ios BOOLEAN",
            mixed: true
        ) { "\($0.number), '\($0.token)', \($0.isApple ? 1 : 0)" }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.platform)?.value == "{column: is_ios, value: 1}")
        let store = try database.store {
            $0 = proposal.mapping
            $0.registeredAt.column = .absent
        }
        try store.require(.read)
    }
}
