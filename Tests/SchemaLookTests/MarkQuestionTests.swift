import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

// No name and no value is enough to write a column, and none is passed over. One table has them all.

@Suite("Columns that may be the mark")
struct MarkQuestionTests {
    /// A column with its values in used and in unused rows as SQL, and the line that it could be.
    private struct Column: Sendable {
        let name: String
        let type: String
        let living: String
        let dead: String
        let setting: String

        init(
            _ name: String, _ type: String, _ living: String, _ dead: String,
            _ setting: String? = nil
        ) {
            (self.name, self.type, self.living, self.dead) = (name, type, living, dead)
            let plain = { (text: String) in text.filter { $0 != "'" } }
            self.setting =
                setting ?? "{column: \(name), living: \(plain(living)), dead: \(plain(dead))}"
        }

        /// A flag whose used rows have 1.
        static func yes(_ names: String...) -> [Column] {
            names.map { Column($0, "SMALLINT", "1", "0") }
        }
        static func no(_ names: String...) -> [Column] {
            names.map { Column($0, "SMALLINT", "0", "1") }
        }
        static func time(_ names: String...) -> [Column] {
            names.map { Column($0, "DATETIME", "NULL", "T", $0) }
        }
    }

    private static let named: [Column] =
        Column.yes(
            "active", "is_active", "enabled", "valid", "push_enabled", "push_active",
            "notifications_enabled", "push_ok", "allow_push", "notify", "subscribed", "aktiv",
            "gueltig",
            "marketing_enabled")
        + Column.no(
            "deleted", "is_deleted", "revoked", "token_dead", "unsubscribed", "opt_out",
            "opted_out",
            "blocked", "banned", "muted", "failed")
        + Column.time("deleted_at", "unregistered_at", "gone_at")
        + [
            Column("status", "VARCHAR(20)", "'active'", "'inactive'"),
            Column("push_status", "VARCHAR(9)", "'A'", "'D'"),
        ]

    private static let others: [Column] =
        Column.yes("pushok", "reachable", "sendable", "wants_alerts", "darf_push")
        + Column.no(
            "no_push", "do_not_disturb", "gone", "baja", "quarantined", "bounced", "optout",
            "is_tot")
        + Column.time("logout_at", "ended_on", "signed_out", "last_opened_link")
        + [
            Column("zustellbar", "CHAR(1)", "'J'", "'N'"),
            Column("x1", "INTEGER", "7", "9"),
            Column("phase", "VARCHAR(9)", "'LIVE'", "'RETIRED'"),
            Column("visibility", "VARCHAR(9)", "'public'", "'hidden'"),
            Column("token_state", "VARCHAR(20)", "'valid'", "'BadDeviceToken'"),
            Column(
                "expired_text", "VARCHAR(9)", "'false'", "'true'",
                "{column: expired_text, living: \"false\", dead: \"true\"}"),
            Column("push_mode", "INTEGER", "2", "0"),
            Column(
                "unsub", "CHAR(1)", "NULL", "'Y'", "{column: unsub, living: \"N\", dead: \"Y\"}"),
            Column("is_ok", "BOOLEAN", "1", "0"),
            Column("killed_ts", "BIGINT", "NULL", "E", "{column: killed_ts, type: epoch-seconds}"),
            Column("nullflag", "SMALLINT", "1", "NULL", "{column: nullflag, living: 1, dead: 0}"),
            Column("rare", "SMALLINT", "0", "RARE", "{column: rare, living: 0, dead: 1}"),
            Column(
                "consent", "VARCHAR(9)", "'yes'", "'no'",
                "{column: consent, living: \"yes\", dead: \"no\"}"),
        ]

    private static let server: [Column] = [
        Column("bits", "BIT(1)", "b'1'", "b'0'", "{column: bits, living: 1, dead: 0}"),
        Column("lauf", "ENUM('frei', 'zu')", "'frei'", "'zu'"),
        Column(
            "neuf", "ENUM('frei', 'zu')", "'frei'", "'frei'",
            "{column: neuf, living: frei, dead: zu}"),
        Column("said", "TINYINT(1) COMMENT 'sender reads it'", "1", "0"),
        Column("alive_yet", "TINYINT(1)", "1", "1", "{column: alive_yet, living: 1, dead: 0}"),
    ]

    private static func database(_ engine: TestEngine, _ columns: [Column]) throws -> TokenDatabase
    {
        let database = try TokenDatabase(engine)
        let list = columns.map { "\($0.name) \($0.type)" }.joined(separator: ", ")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), last_seen DATETIME, \(list))"
        )
        try database.sql.begin()
        for device in Device.some(mixed: false) {
            let values = columns.map { column in
                switch device.isGone ? column.dead : column.living {
                case "T": "'\(device.time)'"
                case "E": "\(device.registered)"
                case "RARE": device.number == 7 ? "1" : "0"
                case let value: value
                }
            }
            try database.execute(
                "INSERT INTO devices VALUES (\(device.number), '\(device.token)', '\(device.time)', "
                    + "\(values.joined(separator: ", ")))")
        }
        try database.sql.commit()
        return database
    }

    @Test(
        "who removed a row, why, or its own key is a question without a line, and a state of many words is one",
        arguments: TestEngine.inTurn([
            ("deleted BIGINT", "0", "#"), ("deleted_by INTEGER", "NULL", "#"),
            ("unregistered_reason VARCHAR(40)", "NULL", "'reason #'"),
            ("push_status VARCHAR(40)", "'ok'", "'word#'"),
        ]))
    func varying(
        _ engine: TestEngine, _ shape: (column: String, used: String, unused: String)
    ) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), \(shape.column)"
        ) {
            let value = $0.number % 9 == 0 ? shape.unused : shape.used
            return "\($0.number), '\($0.token)', \(value.replacing("#", with: "\($0.number + 5)"))"
        }
        let name = String(shape.column.prefix { $0 != " " })
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.questions.contains { $0.column == name }, "\(proposal.lines)")
    }

    @Test(
        "words of platforms beside tokens of one form are a question of the platform, and no mark",
        arguments: TestEngine.available)
    func platforms(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255), platform VARCHAR(9)"
        ) { "\($0.number), '\($0.token)', '\($0.number % 4 == 0 ? "android" : "ios")'" }
        let proposal = try #require(try database.firstLook().1)
        let asked = proposal.questions.filter { $0.column == "platform" }
        #expect(asked.map(\.part) == [.platform])
        #expect(asked.first?.answer == "--platform platform=ios")
    }

    @Test(
        "each is one question with its values and the line to take, whatever its name is, and none is mapped",
        arguments: TestEngine.available)
    func names(_ engine: TestEngine) throws {
        let columns =
            Self.named + Self.others + (engine == .mariaDB ? Self.server : [])
        let database = try Self.database(engine, columns)
        let proposal = try #require(try database.firstLook().1)
        #expect(Self.named.count == 30 && Self.others.count >= 30)
        #expect(proposal.mapping.living.column == nil)
        #expect(proposal.mapping.invalidatedAt.column == .absent)
        for column in columns {
            // Two words may tell apps apart, too, and that is another question.
            let lines = proposal.lines.filter { $0.column == column.name && $0.part != .app }
            let line = try #require(lines.first, "\(column.name) is not mentioned")
            #expect(lines.count == 1 && line.value == nil, "\(lines)")
            let setting = (line.setting ?? "").filter { $0 != "\"" }
            #expect(setting == column.setting.filter { $0 != "\"" }, "\(line)")
            #expect(line.answer?.hasPrefix("--mark \(column.name)") == true, "\(line)")
        }
        // The likeliest first: nothing but two values speaks for some.
        let places = proposal.questions.map(\.column)
        let first = try #require(places.firstIndex(of: "token_dead"))
        #expect(try first < #require(places.firstIndex(of: "x1")))
        if engine == .mariaDB {
            #expect(
                proposal.questions.first { $0.column == "said" }?.reason.contains(
                    "its comment is \"sender reads it\"") == true)
        }
    }

    @Test(
        "what each question offers is taken when a person answers so",
        arguments: TestEngine.available)
    func answers(_ engine: TestEngine) throws {
        // One of each form.
        let columns = Array(Self.others.suffix(13)) + (engine == .mariaDB ? Self.server : [])
        let database = try Self.database(engine, columns)
        try database.createSideTables()
        let questions = try #require(try database.firstLook().1).questions
        for line in questions {
            guard let answer = line.answer, answer.hasPrefix("--mark ") else { continue }
            var answers = LookAnswers()
            try answers.setMark(String(answer.dropFirst(7)))
            let proposal = try #require(try database.firstLook(answers: answers).1)
            #expect(proposal.line(line.part)?.value == line.setting, "\(line)")
            let report = try database.store { $0 = proposal.mapping }.examineWithLook(.read)
            #expect(report.firstFailure == nil, "\(line): \(report.findings)")
        }
    }

    @Test("what is no mark is not asked about", arguments: TestEngine.available)
    func silence(_ engine: TestEngine) throws {
        let database = try Self.database(
            engine,
            [
                Column("valid_until", "DATETIME", "'2040-01-01 00:00:00'", "NULL"),
                Column("tenant", "INTEGER", "12", "12"),
                Column("note", "VARCHAR(20)", "NULL", "NULL"),
                Column("api_secret", "VARCHAR(40)", "'hunter2'", "'hunter3'"),
                Column("about", "VARCHAR(90)", "'\(String(repeating: "a", count: 60))'", "'b'"),
            ])
        let questions = try #require(try database.firstLook().1).questions
        #expect(questions.allSatisfy { $0.part == .app && $0.column == "about" }, "\(questions)")
    }

    @Test("the layout that schema apply makes keeps its mark", arguments: TestEngine.available)
    func own(_ engine: TestEngine) throws {
        let database = try Self.database(
            engine,
            [
                Column("invalidated_at", "DATETIME", "NULL", "T"),
                Column("invalid_reason", "VARCHAR(64)", "NULL", "'feedback'"),
                Column("blocked", "SMALLINT", "0", "1"),
            ])
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.mapping.invalidatedAt.column == .named("invalidated_at"))
        #expect(!proposal.questions.contains { $0.part == .living })
        let foreign = try Self.database(
            engine, [Column("invalidated_at", "DATETIME", "NULL", "T")])
        let asked = try #require(try foreign.firstLook().1)
        #expect(asked.mapping.invalidatedAt.column == .absent)
        #expect(asked.questions.map(\.setting) == ["invalidated_at"])
    }

    @Test(
        "a time whose name is that of a registration, a refresh or a visit is never offered as the mark",
        arguments: TestEngine.available)
    func registrations(_ engine: TestEngine) throws {
        let names = [
            "token_updated_at", "token_refreshed_at", "registered_at", "last_seen_at", "seen_on",
            "last_active_at", "modified_on", "updated", "device_registered", "token_created_at",
            "first_seen_at", "last_sync", "fcm_token_updated_at", "password_changed_at",
            "reregistered_at", "touched_at",
        ]
        let database = try Self.database(
            engine, names.map { Column($0, "DATETIME", "NULL", "T") } + Column.time("unseen_since"))
        let proposal = try #require(try database.firstLook().1)
        let marks = proposal.questions.filter { $0.part == .invalidatedAt }
        #expect(marks.map(\.column) == ["unseen_since"], "\(marks)")
        // A flag of such a name says something else.
        let flag = try Self.database(engine, [Column("registered", "SMALLINT", "1", "0")])
        #expect(try flag.firstLook().1?.questions.map(\.column) == ["registered"])
    }

    @Test(
        "a time is a question whatever its rows have in place of none",
        arguments: TestEngine.available,
        [
            ("DATETIME", "'1970-01-01 00:00:00'"), ("DATETIME", "'9999-12-31 23:59:59'"),
            ("DATETIME", "'0001-01-01 00:00:00'"), ("DATETIME", "'2038-01-19 03:14:07'"),
            ("DATETIME", "'1900-01-01'"), ("VARCHAR(30)", "'0000-00-00 00:00:00'"),
            ("VARCHAR(30)", "'0000-00-00'"), ("VARCHAR(30)", "''"), ("VARCHAR(30)", "'null'"),
            ("VARCHAR(30)", "'never'"), ("VARCHAR(30)", "'0'"), ("VARCHAR(30)", "'-1'"),
            ("VARCHAR(30)", "'1970-01-01T00:00:00Z'"), ("VARCHAR(30)", "'9999-12-31'"),
        ])
    func noTimes(_ engine: TestEngine, _ none: (type: String, value: String)) throws {
        let question = try Self.question(engine, none.type, none.value, "T")
        let line = try #require(question, "\(none.value) is not mentioned")
        #expect(line.reason.contains("in 6 of 120 rows"), "\(line)")
        // A run reads as living what its own rule says; nothing else may be offered.
        let isRead = none.value == "''" && engine == .sqlite
        #expect((line.setting != nil) == isRead, "\(line)")
    }

    @Test(
        "a number of seconds is a question whatever its rows have in place of none",
        arguments: TestEngine.inTurn([
            ("0", true), ("-1", true), ("253402300799", false), ("4294967295", false),
            ("2147483647", false),
        ]))
    func noNumbers(_ engine: TestEngine, _ none: (value: String, isRead: Bool)) throws {
        let question = try Self.question(engine, "BIGINT", none.value, "E")
        let line = try #require(question, "\(none.value) is not mentioned")
        #expect(line.reason.contains("in 6 of 120 rows"), "\(line)")
        #expect((line.setting != nil) == none.isRead, "\(line)")
    }

    /// The question about a column `stillgelegt` with some value in used rows.
    private static func question(
        _ engine: TestEngine, _ type: String, _ living: String, _ dead: String
    ) throws -> MappingProposal.Line? {
        let database = try database(engine, [Column("stillgelegt", type, living, dead)])
        return try #require(try database.firstLook().1).questions
            .first { $0.column == "stillgelegt" }
    }

    @Test("a zero date of a server is no time", .needsServer)
    func zeroDates() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.execute("SET SESSION sql_mode = ''")
        try database.make(
            "devices",
            "id INTEGER PRIMARY KEY, device_token VARCHAR(200), seen DATETIME, "
                + "tot_seit DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', weg DATETIME NULL"
        ) {
            let time = $0.isGone ? $0.time : "0000-00-00 00:00:00"
            return "\($0.number), '\($0.token)', '\($0.time)', '\(time)', '\(time)'"
        }
        let questions = try #require(try database.firstLook().1).questions
        #expect(questions.map(\.column) == ["tot_seit", "weg"], "\(questions)")
        // A run reads a zero date as none, but writes NULL when a mark is taken back.
        #expect(questions.map(\.setting) == [nil, "weg"])
    }

    @Test("a flag of bytes is a question, and no mark is offered", arguments: TestEngine.available)
    func bytes(_ engine: TestEngine) throws {
        for type in ["BLOB"] + (engine == .mariaDB ? ["BINARY(1)", "VARBINARY(4)"] : ["BIT(1)"]) {
            let line = try #require(
                try Self.question(engine, type, "x'00'", "x'01'"), "\(type) is not mentioned")
            #expect(line.part == .living && line.setting == nil && line.answer == nil, "\(line)")
            #expect(line.reason.contains("`0x00` (114), `0x01` (6)"), "\(line)")
        }
    }
}
