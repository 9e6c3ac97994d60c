import APNsProtocol
import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

/// Times of devices in one form of a column, as the application wrote them.
private struct TimeCase: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let type: String
    /// A time of a registration as SQL, by the seconds since 1970.
    let write: @Sendable (Int) -> String
    /// What the application writes later, as SQL.
    let odd: [String]
    var engines = TestEngine.available

    private static let words =
        [
            "", "0", " ", "x", "{", "\u{1F4F1}", String(repeating: "9", count: 300), "-1", "-", ".",
            "9999999999999999999", "0000-00-00 00:00:00", "2026-02-30 10:00:00", "2026-02-29",
            "2028-02-29T23:59:59.9999999-05:30", "2026-11-27 24:00:00", "2026-11-27T10:00:00z",
            "2026-11-27 10:00", "2026/11/27 10:00:00", "2026-11-27 10:00:00 +0100", "20261127",
            "20261127235960", "20261131100000", "2026-11-27 10:00:00+15:00", "2026-11-27\u{301}",
            "2026-11-27 10:00:00+14:30", "2026-11-27 10:00:00,5", "1.5e9", "inf", "nan",
            "1732640000.",
            "1732640000.00000000000000000001", "1732640000.5", "2026-11-27 10:00:00\n",
            "2026-11-27\n",
            "\u{A0}", "\u{3000}", "\t", "00", " 0 ", "0\n", "\u{A0}0",
            "1999-12-31 23:59:59.999999", "2199-12-31T23:59:59-14:00", "1899-12-31 00:00:00",
        ].map { "'\($0)'" } + ["NULL"]
    private static let texts = words + ["CONCAT('2026-11-27 10:00:00', CHAR(0))", "CHAR(0)"]
    private static let liteTexts =
        words.filter { !$0.contains("00000000000000000001") } + [
            "'2026-11-27' || char(0)", "char(0)", "'1732640000' || char(0)", "17", "1.5", "x'00ff'",
        ]
    private static let numbers = [
        "NULL", "0", "-1", "-1000000000", "1", "1732640000", "9007199254740993",
    ]
    private static let texted = "VARCHAR(400)"

    static let all = [
        TimeCase(
            testDescription: "text with T and Z", type: texted,
            write: { "'\(Device.time($0).replacing(" ", with: "T"))Z'" }, odd: texts,
            engines: [.mariaDB]),
        TimeCase(
            testDescription: "text with a zone and a fraction", type: texted,
            write: { "'\(Device.time($0 + 7_200)).12345\($0 % 10)+02:00'" }, odd: texts,
            engines: [.mariaDB]),
        TimeCase(
            testDescription: "text with a short zone", type: texted,
            write: { "'\(Device.time($0 - 19_800)).\($0 % 10)-0530'" }, odd: texts,
            engines: [.mariaDB]),
        TimeCase(
            testDescription: "text without seconds", type: texted,
            write: { "'\(Device.time($0).prefix(16))'" }, odd: texts, engines: [.mariaDB]),
        TimeCase(
            testDescription: "compact text", type: texted,
            write: { "'\(Device.time($0).filter(\.isNumber))'" }, odd: texts, engines: [.mariaDB]),
        TimeCase(
            testDescription: "compact numbers", type: "BIGINT",
            write: { Device.time($0).filter(\.isNumber) }, odd: numbers, engines: [.mariaDB]),
        TimeCase(
            testDescription: "dates as text", type: texted,
            write: { "'\(Device.time($0).prefix(10))'" },
            odd: texts, engines: [.mariaDB]),
        TimeCase(
            testDescription: "dates as text in SQLite", type: "TEXT",
            write: { "'\(Device.time($0).prefix(10))'" }, odd: liteTexts, engines: [.sqlite]),
        TimeCase(
            testDescription: "dates", type: "DATE", write: { "'\(Device.time($0).prefix(10))'" },
            odd: ["NULL", "'1000-01-01'", "'2028-02-29'", "'9999-12-31'"], engines: [.mariaDB]),
        TimeCase(
            testDescription: "seconds with a fraction", type: "DOUBLE", write: { "\($0).25" },
            odd: numbers + ["1e300", "-1e300", "1732640000.0001"]),
        TimeCase(
            testDescription: "decimal seconds", type: "DECIMAL(30,6)", write: { "\($0).000001" },
            odd: numbers + ["1732640000.123456", "999999999999999999999"], engines: [.mariaDB]),
        TimeCase(
            testDescription: "decimal milliseconds", type: "DECIMAL(30,6)", write: { "\($0)999.5" },
            odd: numbers + ["999999999999999999999"], engines: [.mariaDB]),
        TimeCase(
            testDescription: "microseconds", type: "BIGINT", write: { "\($0)999001" },
            odd: numbers + ["9223372036854775807", "-9223372036854775808"]),
        TimeCase(
            testDescription: "seconds as text", type: texted, write: { "'\($0)'" }, odd: texts,
            engines: [.mariaDB]),
        TimeCase(
            testDescription: "seconds as text in SQLite", type: "TEXT", write: { "'\($0).5'" },
            odd: liteTexts, engines: [.sqlite]),
    ]

    static let cases = all.flatMap { one in
        one.engines.filter(TestEngine.available.contains).map { (one, $0) }
    }
}

@Suite("Generated columns for times")
struct ServingTimeTests {
    /// The look at a column of the table `devices`.
    private static func look(
        _ database: TokenDatabase, _ name: String
    ) throws -> (LookedTable, TimeLook) {
        let session = try DatabaseSession(database.settings)
        let table = try TokenTable.look(
            at: session.catalogTable(TableName(name: "devices"), setting: "--table", cure: ""),
            session,
            now: session.databaseTime())
        let column = try #require(table.catalog.column(name))
        return (table, try #require(TimeLook(column, of: table)))
    }

    @Test(
        "a column that init adds has the times that it read, whatever the application writes later",
        arguments: TimeCase.cases)
    fileprivate func agree(_ shape: TimeCase, _ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, x \(shape.type))"
                + (engine == .mariaDB ? " CHARACTER SET utf8mb4" : ""))
        try database.execute(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'", on: .mariaDB)
        try database.sql.begin()
        let now = Int(Date().timeIntervalSince1970)
        for number in 0..<800 {
            try database.execute(
                "INSERT INTO devices VALUES (\(number), \(shape.write(now - 660 - number * 7_919)))"
            )
        }
        try database.sql.commit()
        let (table, first) = try Self.look(database, "x")
        #expect(first.known.count == 800)
        let serving = try #require(
            ServingColumn(times: first.column, first.form, of: table), "\(first.form)")
        try database.execute(serving.statement(for: TableName(name: "devices"), table.dialect))
        // The application goes on, in strict mode.
        for (number, value) in shape.odd.enumerated() {
            try database.execute("UPDATE devices SET x = \(value) WHERE id = \(number * 18 + 7)")
        }
        let (later, second) = try Self.look(database, "x")
        let resolved = try ColumnResolver(
            table: later.catalog, dialect: later.dialect, group: "test"
        ).time(TimeMapping(column: .named(serving.name), type: serving.timeType), setting: "x")
        let made = try #require(resolved)
        for (row, value) in later.values(serving.name).enumerated() {
            let origin = later.values("x")[row]
            let registration = made.registration(value)
            if let time = second.times[row] {
                #expect(registration == time, "\(origin)")
            } else if let registration {
                // Later than any time: the row keeps its device.
                #expect(registration > EpochMilliseconds(200_000_000_000_000), "\(origin)")
            } else {
                #expect(Self.isNothing(origin), "\(origin) counts as no registration")
            }
        }
    }

    private static func isNothing(_ value: SQLValue) -> Bool {
        switch value {
        case .null: true
        case .integer(let number): number <= 0
        case .real(let number): number <= 0
        case .text(let text):
            TokenSample.isBlank(value) || text.string.hasPrefix("0000-00-00")
                || text.string.hasPrefix("-") || Double(text.string) == 0
        default: false
        }
    }

    @Test("a date counts as the end of its day", arguments: TestEngine.available)
    func endOfDay(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute("CREATE TABLE devices (id INTEGER PRIMARY KEY, seen DATE)")
        try database.execute("INSERT INTO devices VALUES (1, '2026-11-26')")
        let (_, look) = try Self.look(database, "seen")
        #expect(look.form == .date)
        #expect(look.known == [EpochMilliseconds(1_795_737_599_999)])
    }

    /// Numbers of some days, the first of which is given.
    private static let otherForms: [(type: String, words: String, first: Int, day: Int)] = [
        ("BIGINT", "nanoseconds since 1970", 1_790_000_000_000_000_000, 86_400_000_000_000),
        ("BIGINT", "since the year 1", 639_000_000_000_000_000, 864_000_000_000),
        ("BIGINT", "since 1601", 133_000_000_000_000_000, 864_000_000_000),
        ("INTEGER", "digits are a day", 20_261_101, 1),
        ("DOUBLE", "the Julian count", 2_461_000, 1),
    ]

    @Test(
        "numbers that are times in a form that nothing reads are named by it",
        arguments: TestEngine.available, ServingTimeTests.otherForms)
    func otherNumbers(
        _ engine: TestEngine, _ shape: (type: String, words: String, first: Int, day: Int)
    ) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "updated_at \(shape.type))")
        for number in 0..<40 {
            try database.execute(
                "INSERT INTO devices VALUES (\(number), '\(Device.hex(number))', \(shape.first + number % 28 * shape.day))"
            )
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.registeredAt) == nil)
        let asked = proposal.questions.filter { $0.column == "updated_at" }
        #expect(asked.count == 1 && asked[0].reason.contains(shape.words), "\(proposal.lines)")
    }

    @Test(
        "times in a form that nothing reads are said to be so, and no statement is printed for them",
        arguments: TestEngine.inTurn([
            "'2026/11/2D 10:00:00'", "'2D.11.2026 10:00'", "'Nov 2D, 2026 10:00 AM'",
            "'2026-11-2D 10:00:00 CET'", "'2026-11-2D 25:00:00'",
        ]))
    func unread(_ engine: TestEngine, _ form: String) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "updated_at VARCHAR(40))")
        for number in 0..<40 {
            let time = form.replacing("D", with: "\(number % 8)")
            try database.execute(
                "INSERT INTO devices VALUES (\(number), '\(Device.hex(number))', \(time))")
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.registeredAt) == nil)
        #expect(proposal.statements.isEmpty)
        let asked = proposal.questions.filter { $0.column == "updated_at" }
        #expect(
            asked.count == 1 && asked[0].reason.contains("no statement compares"),
            "\(proposal.lines)")
    }
}
