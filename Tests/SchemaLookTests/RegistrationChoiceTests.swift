import APNsProtocol
import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

@Suite("The time of the registration as the first look finds it")
struct RegistrationChoiceTests {
    /// A table of devices with times, each as SQL of a device.
    private static func proposal(
        _ engine: TestEngine, _ times: [(name: String, type: String, value: (Device) -> String)],
        in table: String = "devices", others: String = "", trigger: String? = nil
    ) throws -> MappingProposal {
        let database = try TokenDatabase(engine)
        let columns = times.map { "\($0.name) \($0.type)" }.joined(separator: ", ")
        try database.execute(
            "CREATE TABLE \(table) (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "\(columns)\(others))")
        try database.sql.begin()
        for device in Device.some(mixed: false) {
            let values = times.map { $0.value(device) }.joined(separator: ", ")
            try database.execute(
                "INSERT INTO \(table) (id, device_token, \(times.map(\.name).joined(separator: ", "))) "
                    + "VALUES (\(device.number), '\(device.token)', \(values))")
        }
        try database.sql.commit()
        if let trigger { try database.sql.run(trigger) }
        return try #require(try database.firstLook().1)
    }

    private static func early(_ device: Device) -> String {
        "'\(Device.time(device.registered - 20 * 86_400))'"
    }
    private static func late(_ device: Device) -> String { "'\(device.time)'" }

    /// Two times, of which the second is later in all rows.
    private static func choice(
        _ engine: TestEngine, _ first: String, _ second: String, others: String = ""
    ) throws -> (mapped: String?, asked: [String]) {
        let found = try proposal(
            engine, [(first, "DATETIME", early), (second, "DATETIME", late)], others: others)
        return (
            found.line(.registeredAt)?.column,
            found.questions.filter { $0.part == .registeredAt }.map(\.reason)
        )
    }

    @Test(
        "a name that speaks of the token or the device wins over the time of the row, without a question",
        arguments: TestEngine.inTurn([
            "token_updated_at", "apns_token_refreshed_at", "token_saved_at", "tokenRefreshedAt",
            "last_token_refresh", "notification_token_updated_at", "device_registered_at",
            "last_seen_at",
            "device_token_modified", "push_token_set_at",
        ]))
    func named(_ engine: TestEngine, _ name: String) throws {
        let found = try Self.choice(engine, name, "updated_at")
        #expect(found.mapped == name && found.asked == [])
    }

    @Test(
        "two times of one kind are a question, and the later one is mapped until it is answered",
        arguments: TestEngine.inTurn([
            ("registered_at", "last_seen_at"), ("registered_at", "updated_at"),
            ("token_updated_at", "last_active"),
            ("modified_at", "last_update"), ("reg_date", "upd_date"), ("REG_DTTM", "MOD_DTTM"),
        ]))
    func rivals(_ engine: TestEngine, _ names: (first: String, second: String)) throws {
        let found = try Self.choice(engine, names.first, names.second)
        #expect(found.mapped == names.second)
        #expect(found.asked.count == 1 && found.asked[0].contains("120 of 120"), "\(found)")
    }

    @Test(
        "since when something is so, and a visit of something else, never win over a later time of the row",
        arguments: TestEngine.inTurn([
            "active_since", "online_since", "active_from", "connected_at", "facebook_connected_at",
            "terms_seen_at", "onboarding_seen_at", "checkin_date", "refresh_token_at",
            "session_token_updated_at",
        ]))
    func setOnce(_ engine: TestEngine, _ name: String) throws {
        #expect(try Self.choice(engine, name, "updated_at").mapped == "updated_at")
    }

    @Test(
        "the time at which one value of the row changed is a question",
        arguments: TestEngine.inTurn(["status_changed_at", "profile_updated_at", "emailModified"]))
    func ofValue(_ engine: TestEngine, _ name: String) throws {
        let found = try Self.choice(engine, "created_at", name)
        #expect(found.mapped != name && !found.asked.isEmpty, "\(found)")
    }

    @Test(
        "a time of the sender is never the registration",
        arguments: TestEngine.inTurn([
            "last_sent", "last_push_t", "last_pinged_at", "last_success", "pushed_at", "last_push",
            "notified_at", "sent_on", "last_alert_at", "expires_at", "token_expires_at",
            "registration_expires_at",
        ]))
    func sender(_ engine: TestEngine, _ name: String) throws {
        let found = try Self.choice(engine, "updated_at", name)
        #expect(found.mapped == "updated_at" && found.asked == [])
        let alone = try Self.proposal(engine, [(name, "DATETIME", Self.late)])
        #expect(alone.line(.registeredAt) == nil)
        #expect(!alone.questions.contains { $0.column == name })
    }

    @Test(
        "a time with the better name that many rows lack is a question, and a time of all rows is mapped",
        arguments: TestEngine.inTurn([
            ("token_updated_at", "updated_at", 3), ("token_updated_at", "updated_at", 8),
            ("last_registered_at", "last_seen_at", 3), ("last_seen_at", "updated_at", 4),
            ("updated_at", "created_at", 2),
        ]))
    func lacking(_ engine: TestEngine, _ shape: (name: String, other: String, tenths: Int)) throws {
        func found(_ others: [(name: String, type: String, value: (Device) -> String)]) throws
            -> MappingProposal
        {
            let some = (
                name: shape.name, type: "DATETIME",
                value: { ($0.number % 10 < shape.tenths) ? Self.early($0) : "NULL" }
            )
            return try Self.proposal(engine, [some] + others)
        }
        let beside = try found([(shape.other, "DATETIME", Self.late)])
        #expect(beside.line(.registeredAt)?.column == shape.other)
        let asked = beside.questions.filter { $0.part == .registeredAt }
        #expect(asked.map(\.answer) == ["--registered-at \(shape.name)"], "\(asked)")
        #expect(asked.first?.reason.contains("\(12 * shape.tenths) of 120") == true, "\(asked)")
        #expect(!beside.questions.contains { $0.part == .invalidatedAt })
        let alone = try found([])
        let question = alone.questions.filter { $0.part == .registeredAt }
        #expect(question.map(\.answer) == ["--registered-at \(shape.name)"], "\(question)")
    }

    @Test(
        "the time of the row is taken where half of the rows have it, and not where fewer do",
        arguments: TestEngine.inTurn([(60, "created_at"), (59, nil)]))
    func half(_ engine: TestEngine, _ shape: (known: Int, mapped: String?)) throws {
        let found = try Self.proposal(
            engine,
            [("created_at", "DATETIME", { $0.number < shape.known ? Self.late($0) : "NULL" })])
        #expect(found.line(.registeredAt)?.column == shape.mapped)
        let asked = found.questions.filter { $0.part == .registeredAt }.map(\.reason)
        #expect(asked.count == (shape.mapped == nil ? 1 : 0), "\(asked)")
        #expect(asked.allSatisfy { $0.hasPrefix("no column has the time") }, "\(asked)")
    }

    @Test("a time that few rows lack is taken without a question", arguments: TestEngine.available)
    func hardlyLacking(_ engine: TestEngine) throws {
        let found = try Self.proposal(
            engine,
            [
                ("token_updated_at", "DATETIME", { $0.number % 10 == 0 ? "NULL" : Self.early($0) }),
                ("updated_at", "DATETIME", Self.late),
            ])
        #expect(found.line(.registeredAt)?.column == "token_updated_at" && found.questions == [])
    }

    @Test(
        "the time at which the token was made is a question where the row's own time is mapped",
        arguments: TestEngine.inTurn([
            "device_token_created_at", "token_added_at", "pushTokenInsertedAt", "token_issued_on",
        ]))
    func made(_ engine: TestEngine, _ name: String) throws {
        let found = try Self.proposal(
            engine, [("updated_at", "DATETIME", Self.late), (name, "DATETIME", Self.early)])
        #expect(found.line(.registeredAt)?.column == "updated_at")
        let asked = found.questions.filter { $0.part == .registeredAt }
        #expect(asked.map(\.answer) == ["--registered-at \(name)"], "\(asked)")
    }

    @Test(
        "each answer about a registration is words of a shell, whatever the column is called",
        arguments: TestEngine.available)
    func hostileNames(_ engine: TestEngine) throws {
        let head = "$(x);"
        func answers(
            _ first: String, _ second: String, _ value: @escaping (Device) -> String
        ) throws -> [String?] {
            try Self.proposal(
                engine,
                [
                    ("`\(head)\(first)`", "DATETIME", value),
                    ("`\(head)\(second)`", "DATETIME", Self.late),
                ]
            ).questions.filter { $0.part == .registeredAt }.map(\.answer)
        }
        let made = try answers("token_created_at", "updated_at", Self.early)
        #expect(made == ["--registered-at '\(head)token_created_at'"])
        let lacking = try answers("token_registered_at", "updated_at") {
            $0.number % 10 < 3 ? Self.early($0) : "NULL"
        }
        #expect(lacking == ["--registered-at '\(head)token_registered_at'"])
        let rivals = try answers("registered_at", "last_seen_at", Self.early)
        #expect(rivals == ["--registered-at '\(head)registered_at'"])
    }

    @Test(
        "a person's sign-up is a question, and not mapped", arguments: TestEngine.available)
    func signUp(_ engine: TestEngine) throws {
        let alone = try Self.proposal(
            engine, [("registered_at", "DATETIME", Self.late)], in: "contacts",
            others: ", email VARCHAR(100)")
        #expect(alone.line(.registeredAt)?.column == nil)
        #expect(alone.questions.contains { $0.reason.contains("signed up") })
        #expect(alone.questions.contains { $0.answer == "--registered-at registered_at" })
        let beside = try Self.choice(
            engine, "registered_at", "token_saved_at", others: ", email VARCHAR(100)")
        #expect(beside.mapped == "token_saved_at" && beside.asked == [])
    }

    @Test(
        "a time that any write of the row moves is said to be so, and another of its kind is taken",
        .needsServer)
    func anyWrite() throws {
        let moving = "DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
        let alone = try Self.proposal(.mariaDB, [("updated_at", moving, Self.late)])
        let reason = try #require(alone.line(.registeredAt)?.reason)
        #expect(reason.contains("any write of the row counts as a registration"))
        let two = try Self.proposal(
            .mariaDB, [("modified_at", "DATETIME", Self.early), ("updated_at", moving, Self.late)])
        #expect(two.line(.registeredAt)?.column == "modified_at")
    }

    @Test(
        "a trigger that may write the time at any update is named, and marks stay beside its rows",
        arguments: TestEngine.available)
    func trigger(_ engine: TestEngine) throws {
        func proposal(_ name: String, _ server: String, _ lite: String) throws -> MappingProposal {
            let trigger =
                engine == .mariaDB
                ? "CREATE TRIGGER \(name) BEFORE UPDATE ON devices FOR EACH ROW \(server)"
                : "CREATE TRIGGER \(name) AFTER UPDATE\(lite) ON devices BEGIN UPDATE devices "
                    + "SET updated_at = datetime('now') WHERE id = NEW.id; END"
            return try Self.proposal(
                engine,
                [
                    ("updated_at", "DATETIME", Self.late),
                    ("invalidated_at", "DATETIME", { _ in "NULL" }),
                ],
                trigger: trigger)
        }
        let foreign = try proposal("touch", "SET NEW.updated_at = NOW()", "")
        let reason = try #require(foreign.line(.registeredAt)?.reason)
        #expect(
            reason.contains("any write of the row")
                && reason.contains("trigger touch may write it at any update"), "\(reason)")
        let mark = try #require(foreign.line(.invalidatedAt))
        #expect(mark.value == "none" && mark.reason.contains("trigger touch"), "\(mark)")
        #expect(foreign.mapping.invalidatedAt.column == .absent)
        let own = try proposal(
            "pushsweep_registered_update",
            "IF @pushsweep IS NULL THEN SET NEW.updated_at = NOW(); END IF", " OF device_token")
        let words = try #require(own.line(.registeredAt)?.reason)
        #expect(words.contains("writes it with the token"), "\(words)")
        #expect(own.line(.invalidatedAt)?.reason.contains("trigger") != true)
    }
}

@Suite("Zones of times without one")
struct ZoneTests {
    private static let winter = ServerZone(now: 3_600, least: 3_600, greatest: 7_200)
    private static let summer = ServerZone(now: 7_200, least: 3_600, greatest: 7_200)
    private static let now = EpochMilliseconds(1_795_780_800_000)

    private static func sample(_ minutes: [Int64], _ server: ServerZone = .utc) -> ClockSample {
        ClockSample(minutes.map { now.advanced(by: $0 * 60_000) }, now: now, server)
    }

    @Test("rows ahead of the clock give the zone, in summer the smallest offset of the year")
    func ahead() {
        #expect(Self.sample([-600, -4, 58]).zone == ZoneOffset(seconds: 3_600))
        #expect(Self.sample([-600, 58, 20]).ahead == 2)
        #expect(Self.sample([119, -4], Self.summer).zone == ZoneOffset(seconds: 3_600))
        #expect(Self.sample([58], Self.winter).zone == ZoneOffset(seconds: 3_600))
        #expect(Self.sample([326]).zone == ZoneOffset(seconds: 19_800))
        #expect(Self.sample([99]).zone == ZoneOffset(seconds: 7_200))
        #expect(Self.sample([99], Self.summer).zone == ZoneOffset(seconds: 3_600))
        #expect(Self.sample([4, -90]).zone == nil)
        // Another kind of time.
        #expect(Self.sample([-4, 60 * 24 * 30]).zone == nil)
    }

    @Test("a newest time that is whole hours behind gives a zone, others do not")
    func behind() {
        #expect(Self.sample([-302, -900]).zone == ZoneOffset(seconds: -18_000))
        #expect(Self.sample([-60]).zone == ZoneOffset(seconds: -3_600))
        for minutes in [-5, -30, -59, -100, -60 * 24] as [Int64] {
            #expect(Self.sample([minutes]).zone == nil, "\(minutes)")
        }
        #expect(ClockSample([EpochMilliseconds(.min)], now: Self.now, .utc).zone == nil)
        #expect(ClockSample([EpochMilliseconds(.max)], now: Self.now, .utc).zone == nil)
    }

    @Test("check warns of a zone that is greater than the server's own offset, now or in winter")
    func configured() {
        func warning(_ server: ServerZone, _ offset: Int) -> String? {
            server.finding(on: offset, of: "column seen of devices")?.sentence
        }
        #expect(warning(Self.winter, 7_200)?.contains("+01:00") == true)
        #expect(warning(Self.summer, 7_200)?.contains("in winter") == true)
        #expect(warning(Self.winter, 3_600) == nil && warning(Self.summer, 3_600) == nil)
        #expect(warning(.utc, 7_200) == nil)
        #expect(warning(ServerZone(now: 3_600, least: 3_600, greatest: 3_600), 7_200) != nil)
    }

    /// The questions about a registration under some clock of the server.
    private static func asked(
        _ shift: Int, _ zone: ServerZone, _ engine: TestEngine, type: String = "DATETIME"
    ) throws -> [String] {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), last_seen \(type))"
        )
        try database.sql.begin()
        for device in Device.some(mixed: false) {
            try database.execute(
                "INSERT INTO devices VALUES (\(device.number), '\(device.token)', "
                    + "'\(Device.time(device.registered + shift))')")
        }
        try database.sql.commit()
        let session = try DatabaseSession(database.settings)
        var table = try TokenTable.look(
            at: session.catalogTable(TableName(name: "devices"), setting: "--table", cure: ""),
            session,
            now: session.databaseTime())
        table.serverZone = zone
        let token = try #require(TokenCandidate.all(of: table).first)
        return MappingSearch.mapping(of: table, tokens: token).questions
            .filter { $0.part == .registeredAt }.map(\.reason)
    }

    @Test(
        "init asks for the zone with the count of rows ahead, and where the newest is whole hours behind",
        arguments: TestEngine.available)
    func questions(_ engine: TestEngine) throws {
        #expect(try Self.asked(0, .utc, engine) == [])
        let ahead = try Self.asked(3_600, .utc, engine)
        #expect(ahead.count == 1 && ahead[0].contains("1 of 120 times"), "\(ahead)")
        #expect(ahead[0].contains("zone: \"+01:00\"") && ahead[0].contains("local time"))
        let behind = try Self.asked(-5 * 3_600, .utc, engine)
        #expect(behind.count == 1 && behind[0].contains("zone: \"-05:00\""), "\(behind)")
    }

    @Test(
        "two rows of ten thousand that are ahead of the clock are seen, though the sample has none",
        arguments: TestEngine.available)
    func aheadBesideTheSample(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), last_seen DATETIME)"
        )
        let now = Int(Date().timeIntervalSince1970)
        let rows = (1...10_000).map { number -> String in
            let seen = [4_001, 4_003].contains(number) ? now + 58 * 60 : now - 100_000 - number
            return "(\(number), '\(Device.hex(number))', '\(Device.time(seen))')"
        }
        try database.sql.begin()
        for start in stride(from: 0, to: rows.count, by: 1_000) {
            try database.execute(
                "INSERT INTO devices VALUES "
                    + rows[start..<start + 1_000].joined(separator: ", "))
        }
        try database.sql.commit()
        let found = try #require(try database.firstLook().1)
        let asked = found.questions.filter { $0.part == .registeredAt }.map(\.reason)
        #expect(asked.count == 1 && asked[0].contains("zone: \"+01:00\""), "\(asked)")
    }

    @Test("init names the smallest offset of the year of a server with summer time", .needsServer)
    func summerTime() throws {
        for shift in [0, 7_200] {
            let asked = try Self.asked(shift, Self.summer, .mariaDB)
            #expect(asked.count == 1 && asked[0].contains("zone: \"+01:00\""), "\(asked)")
            #expect(asked[0].contains("smallest offset of the year"))
        }
        #expect(try Self.asked(0, Self.summer, .mariaDB, type: "TIMESTAMP") == [])
    }

    @Test("a server that shows UTC all year is known to do so", .needsServer)
    func server() throws {
        let database = try TokenDatabase(.mariaDB)
        let session = try DatabaseSession(database.settings)
        #expect(try ServerZone.read(session) == .utc)
    }
}
