import Database
import Foundation
import SchemaLook
import TestSupport
import TokenTable

/// A device of a table whose shape nobody has described.
struct Device: Sendable {
    let number: Int
    let isApple: Bool
    /// Whether the application has marked it.
    let isGone: Bool
    let token: String
    /// Seconds since 1970.
    let registered: Int

    /// The time as a server and SQLite take it.
    var time: String { Self.time(registered) }

    static func time(_ seconds: Int) -> String {
        Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(style)
    }

    private static let style = Date.ISO8601FormatStyle(timeZone: .gmt).year().month().day()
        .dateTimeSeparator(.space).time(includingFractionalSeconds: false)

    /// A number of 64 hex digits that looks random, the same for the same seed.
    static func hex(_ seed: Int) -> String {
        var state = UInt64(bitPattern: Int64(seed)) &* 0x9E37_79B9_7F4A_7C15 &+ 1
        return (0..<4).map { _ in
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            let digits = String(state, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    /// Some devices: with `mixed` a third is of another platform, one in twenty is marked.
    static func some(_ count: Int = 120, mixed: Bool) -> [Device] {
        let now = Int(Date().timeIntervalSince1970)
        return (0..<count).map { number in
            let isApple = !mixed || number % 3 != 0
            return Device(
                number: number, isApple: isApple, isGone: number % 20 == 7,
                token: isApple
                    ? hex(number) : "dG\(number)x:APA91b" + String(repeating: "aZ-_9", count: 20),
                registered: now - 600 - number * 90_000)
        }
    }
}

/// A table of some project, as DDL that both engines take, with its rows.
struct DeviceTable: CustomStringConvertible, Sendable {
    let description: String
    var mixed = false
    let ddl: [String]
    /// The rows of a device as the values of an INSERT, by table.
    let rows: @Sendable (Device) -> [(table: String, values: String)]
    /// The lines about parts that have to be proposed, `part: value`.
    let expected: [String]
    /// The parts that have to be asked about.
    var asked: [String] = []
    /// The settings that the first questions about the mark offer.
    var marks: [String] = []
    /// What statements begin with that have to run first.
    var statements: [String] = []
    /// Why `check` refuses the rows as they are; nil where it does not.
    var refusal: String?
    var engines = TestEngine.available

    func database(_ engine: TestEngine, _ count: Int = 120) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        for statement in ddl { try database.execute(statement) }
        try database.sql.begin()
        for device in Device.some(count, mixed: mixed) {
            for row in rows(device) {
                try database.execute("INSERT INTO \(row.table) VALUES (\(row.values))")
            }
        }
        try database.sql.commit()
        return database
    }
}

extension TokenDatabase {
    /// The look at the whole database, and the mapping of the table that it chooses.
    func firstLook(
        table: TableName? = nil, answers: LookAnswers = LookAnswers()
    ) throws -> (DatabaseLook, MappingProposal?) {
        var answers = answers
        if let table { answers.table = table }
        let session = try DatabaseSession(settings)
        var look = try DatabaseLook(session, answers: answers)
        try look.search()
        return (look, try look.choice().flatMap { try look.proposal($0) })
    }
}
