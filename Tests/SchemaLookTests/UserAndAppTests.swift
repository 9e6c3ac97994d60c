import Database
import TestSupport
import Testing

@testable import SchemaLook
@testable import TokenTable

// Columns under names that are not Pushsweep's: what tells apps apart, and who a device belongs to.

@Suite("Apps and users under other names")
struct UserAndAppTests {
    private static func columns(_ proposal: MappingProposal, _ part: MappingProposal.Line.Part)
        -> [String]
    {
        proposal.questions.filter { $0.part == part }.compactMap(\.column)
    }

    /// A column with one of three values in turn, and what is said about it.
    struct Shape: Sendable {
        let column: String
        let values: [String]
        let said: [String]
    }

    static let shapes = [
        Shape(
            column: "mandant_id INTEGER", values: ["5", "3", "3"],
            said: ["`3` (80, Kundenapp)", "`5` (40, Fahrerapp)"]),
        Shape(
            column: "marke VARCHAR(9)", values: ["'Nord'", "'Sued'", "'Sued'"],
            said: ["`Sued` (80)", "`Nord` (40)"]),
        Shape(
            column: "edition VARCHAR(9)", values: ["'e0'", "'e1'", "'e2'"],
            said: ["`e0` (40)", "`e2` (40)"]),
        Shape(column: "zweig CHAR(1)", values: ["'a'", "'b'", "'b'"], said: ["`b` (80)"]),
    ]

    @Test(
        "two values, and numbers that another table explains, may be apps",
        arguments: TestEngine.inTurn(UserAndAppTests.shapes))
    func apps(_ engine: TestEngine, _ shape: Shape) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE mandant (id INTEGER PRIMARY KEY, bezeichnung VARCHAR(20))")
        try database.execute(
            "INSERT INTO mandant VALUES (3, 'Kundenapp'), (5, 'Fahrerapp'), (9, 'x')")
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(shape.column)"
        ) { "\($0.number), '\($0.token)', \(shape.values[$0.number % 3])" }
        let proposal = try #require(try database.firstLook().1)
        let name = String(shape.column.prefix { $0 != " " })
        #expect(Self.columns(proposal, .app) == [name])
        let reason = proposal.questions.first { $0.part == .app }?.reason ?? ""
        for text in shape.said { #expect(reason.contains(text), "\(reason)") }
        #expect(proposal.mapping.app == TableMapping().app)
    }

    @Test(
        "what a device or a person has is no app, however few values it has, nor is a version",
        arguments: TestEngine.inTurn([
            ("lang VARCHAR(9)", ["aa", "bb"]), ("push_permission VARCHAR(9)", ["aa", "bb"]),
            ("theme VARCHAR(9)", ["aa", "bb"]), ("os VARCHAR(9)", ["aa", "bb"]),
            ("app VARCHAR(9)", ["2.10.1", "2.9"]),
        ]))
    func noApps(_ engine: TestEngine, _ shape: (column: String, values: [String])) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(shape.column)"
        ) { "\($0.number), '\($0.token)', '\(shape.values[$0.number % 2])'" }
        let proposal = try #require(try database.firstLook().1)
        #expect(Self.columns(proposal, .app).isEmpty)
    }

    @Test(
        "many apps are a question, one app does not hide several bundles, and states are no apps",
        arguments: TestEngine.available)
    func manyApps(_ engine: TestEngine) throws {
        func proposal(_ columns: String, _ values: @escaping (Int) -> String) throws
            -> MappingProposal
        {
            let database = try TokenDatabase(engine)
            try database.make(
                "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(columns)"
            ) { "\($0.number), '\($0.token)', \(values($0.number))" }
            return try #require(try database.firstLook().1)
        }
        let many = try proposal("bundle_id VARCHAR(40)") { "'com.example.a\($0 % 25)'" }
        #expect(Self.columns(many, .app) == ["bundle_id"])
        let both = try proposal("app_id INTEGER, bundle_id VARCHAR(40)") {
            "1, 'com.example.\($0 % 2 == 0 ? "chat" : "shop")'"
        }
        #expect(both.mapping.app == .named("bundle_id"))
        let states = try proposal("application VARCHAR(20)") {
            "'\($0 % 9 == 0 ? "rejected" : "confirmed")'"
        }
        #expect(states.mapping.app == TableMapping().app)
    }

    /// A column of users, its value for a number, and whether an index has it.
    struct UserShape: Sendable {
        let column: String
        let value: String
        let isIndexed: Bool
    }

    static let users = [
        UserShape(column: "kd_uuid CHAR(36)", value: "'uuid-000-N'", isIndexed: false),
        UserShape(column: "account_id INTEGER", value: "N", isIndexed: false),
        UserShape(
            column: "inhaber INTEGER REFERENCES personen (id)", value: "N", isIndexed: true),
        UserShape(column: "abo CHAR(20)", value: "'abo-N'", isIndexed: true),
    ]

    @Test(
        "the user is found by a foreign key, by its name, and by an index over values of a few rows each",
        arguments: TestEngine.available, UserAndAppTests.users)
    func owner(_ engine: TestEngine, _ shape: UserShape) throws {
        let database = try TokenDatabase(engine)
        let name = String(shape.column.prefix { $0 != " " })
        try database.execute("CREATE TABLE personen (id INTEGER PRIMARY KEY)")
        for person in 0..<60 { try database.execute("INSERT INTO personen VALUES (\(person))") }
        try database.make(
            "devices",
            "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(shape.column), model VARCHAR(20), "
                + "device_uuid VARCHAR(40)"
        ) {
            let value = shape.value.replacing("N", with: "\($0.number / 2)")
            return
                "\($0.number), '\($0.token)', \(value), 'phone\($0.number % 60)', 'd\($0.number)'"
        }
        if shape.isIndexed { try database.execute("CREATE INDEX of_user ON devices (\(name))") }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.user)?.value == "{column: \(name)}", "\(proposal.lines)")
        #expect(proposal.mapping.user == .named(name))
    }

    @Test(
        "where two columns may be the user a person decides, and a usual name needs no setting",
        arguments: TestEngine.available)
    func twoUsers(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices",
            "id INTEGER PRIMARY KEY, device_token VARCHAR(255), account_id INTEGER, owner_id INTEGER"
        ) { "\($0.number), '\($0.token)', \($0.number / 2), \($0.number / 3)" }
        let proposal = try #require(try database.firstLook().1)
        let question = try #require(proposal.questions.first { $0.part == .user })
        #expect(question.reason.contains("account_id") && question.reason.contains("owner_id"))
        #expect(proposal.mapping.user == nil)
        try database.execute("ALTER TABLE devices RENAME COLUMN owner_id TO user_id")
        let usual = try #require(try database.firstLook().1)
        #expect(!usual.lines.contains { $0.part == .user })
    }
}
