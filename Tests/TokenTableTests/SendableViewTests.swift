import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// The random tables compare the view with the sender too; these are the shapes that they lack.
@Suite("The view of sendable rows")
struct SendableViewTests {
    private static let tokens = (0..<12).map { DeviceToken.numbered($0) }

    /// The tokens of the view in a partition, and those of a SELECT with the condition, which are the
    /// same besides the rows of other platforms.
    private static func shown(
        _ database: TokenDatabase, _ store: TokenTable, where condition: String = "1 = 1",
        partitions: [Partition] = [chat], others: String = "1 = 0"
    ) throws -> Set<DeviceToken> {
        let view = try store.sendableView(named: "may_send", partitions: partitions)
        for statement in view.statements { try database.sql.run(statement) }
        let layout = try store.layout()
        func tokens(_ source: String) throws -> Set<DeviceToken> {
            let rows = try database.sql.query("SELECT device_token FROM \(source)")
            return Set((0..<rows.count).compactMap { layout.token.token(rows[$0, 0]) })
        }
        let seen = try tokens("may_send WHERE \(condition)")
        let direct = try tokens(
            "active_users WHERE \(condition) AND \(view.condition.joined(separator: " AND "))")
        let foreign = try tokens("active_users WHERE \(condition) AND \(others)")
        #expect(seen.isDisjoint(with: foreign) && seen.union(foreign) == direct)
        return seen
    }

    private static func sendable(
        _ store: TokenTable, _ partition: Partition = chat
    ) throws -> Set<DeviceToken> {
        Set(
            try store.tokenStatuses(in: partition).statuses(of: tokens).filter {
                $0.value == .living
            }.keys)
    }

    @Test("a column of two values decides alone", arguments: LivingCase.all)
    func living(_ column: LivingCase) throws {
        let database = try TokenDatabase(column.engine)
        try database.createOwnSchema()
        try database.execute("ALTER TABLE active_users ADD active \(column.type)")
        try database.register(0..<12, at: start)
        for number in 0..<9 {
            try database.execute(
                "UPDATE active_users SET active = "
                    + column.literal(number % 3 == 0 ? column.dead : column.living)
                    + ", invalidated_at = '2024-05-01 00:00:00' WHERE device_token = ?",
                [.bytes(Self.tokens[number].bytes)])
        }
        let store = try database.store {
            $0.living = LivingMapping(column: "active", living: column.living, dead: column.dead)
        }
        let shown = try Self.shown(database, store)
        #expect(shown.count == 9)
        #expect(try shown == Self.sendable(store))
    }

    /// The stale tokens by the lookup, each of them in the fingerprints of tokens with a mark.
    private static func stale(_ store: TokenTable) throws -> Set<DeviceToken> {
        let stale = try store.tokenStatuses(in: chat).statuses(of: tokens).filter {
            $0.value == .stale
        }
        var marked = TokenFingerprints(mostBytes: 1 << 20)
        var decided =
            try store.judgesMarksAlone() ? TokenFingerprints(mostBytes: 1 << 20) : nil
        try store.addMarkedTokens(of: chat, to: &marked, decided: &decided)
        for token in stale.keys {
            #expect(token.bytes.withUnsafeBytes { marked.contains(marked.fingerprint($0)) })
        }
        // What is decided where it is read is what the lookup says.
        if let decided {
            for token in tokens {
                let isStale = token.bytes.withUnsafeBytes {
                    decided.contains(decided.fingerprint($0))
                }
                #expect(isStale == stale.keys.contains(token), "\(token)")
            }
        }
        return Set(stale.keys)
    }

    /// A word for dead in a column, and the values that are it and are not.
    struct DeadWord: Sendable, CustomTestStringConvertible {
        let type: String
        let word: String
        let dead: [String]
        let living: [String]
        var testDescription: String { "\(type), \(word)" }

        static let all = [
            DeadWord(
                type: "utf8mb4 COLLATE utf8mb4_general_ci", word: "N", dead: ["N", "n"],
                living: ["\u{D1}", "\u{FF4E}", "Y"]),
            DeadWord(
                type: "utf8mb4 COLLATE utf8mb4_unicode_ci", word: "stra\u{DF}e",
                dead: ["stra\u{DF}e"],
                living: ["STRASSE", "strasse", "STRA\u{DF}E", "STRA\u{1E9E}E"]),
            DeadWord(
                type: "utf8mb4 COLLATE utf8mb4_general_ci", word: "I", dead: ["I", "i"],
                living: ["\u{130}", "\u{131}"]),
            DeadWord(
                type: "utf8mb4 COLLATE utf8mb4_unicode_ci", word: "kI", dead: ["kI", "Ki", "KI"],
                living: ["\u{212A}i", "k\u{130}", "k\u{131}"]),
            DeadWord(
                type: "utf8mb4 COLLATE utf8mb4_turkish_ci", word: "I", dead: ["I"],
                living: ["i", "\u{130}", "\u{131}"]),
            DeadWord(
                type: "latin1 COLLATE latin1_swedish_ci", word: "\u{E4}", dead: ["\u{E4}"],
                living: ["\u{C4}", "a"]),
            DeadWord(
                type: "utf8mb4 COLLATE utf8mb4_bin", word: "off", dead: ["off"],
                living: ["OFF", "off ", ""]),
        ]
    }

    @Test(
        "a dead word is the same for the lookup, the fingerprints and the view, whatever its letters",
        .needsServer,
        arguments: DeadWord.all)
    func deadWords(_ word: DeadWord) throws {
        let database = try TokenDatabase.own(.mariaDB)
        try database.execute(
            "ALTER TABLE active_users ADD status VARCHAR(20) CHARACTER SET \(word.type)")
        try database.register(0..<12, at: start)
        for (number, value) in (word.dead + word.living).enumerated() {
            try database.execute(
                "UPDATE active_users SET status = ? WHERE device_token = ?",
                [.text(value), .bytes(Self.tokens[number].bytes)])
        }
        let store = try database.store {
            $0.living = LivingMapping(column: "status", living: "Y", dead: word.word)
        }
        let stale = try Self.stale(store)
        #expect(stale == Set(Self.tokens.prefix(word.dead.count)))
        #expect(try Self.shown(database, store) == Set(Self.tokens).subtracting(stale))
    }

    @Test(
        "a row whose key is NULL counts for lookup, fingerprints, view and audit, and no sweep changes it",
        arguments: [
            "TEXT PRIMARY KEY", "INT PRIMARY KEY", "TEXT, b INTEGER DEFAULT 1, PRIMARY KEY (id, b)",
            "INTEGER, b INTEGER DEFAULT 1, PRIMARY KEY (id, b)",
        ],
        ["2024-01-01 00:01:00", nil])
    func nullKey(_ key: String, _ mark: String?) throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute(
            "CREATE TABLE active_users (device_token BLOB NOT NULL, registered_at DATETIME, "
                + "invalidated_at DATETIME, id \(key))")
        for (number, id) in [SQLValue.null, .null, .integer(7)].enumerated() {
            try database.execute(
                "INSERT INTO active_users (id, device_token, registered_at, invalidated_at) "
                    + "VALUES (?, ?, '2024-01-01 00:00:00', ?)",
                [
                    id, .bytes(Self.tokens[number].bytes),
                    mark.map { .text($0) } ?? .null,
                ])
        }
        let store = try database.store(pacing: hurried())
        let all = Set(Self.tokens.prefix(3))
        let stale = try Self.stale(store)
        #expect(stale == (mark == nil ? [] : all))
        #expect(try Self.shown(database, store) == all.subtracting(stale))
        #expect(
            try TableAudit(store, [chat], at: EpochMilliseconds(start)).tallies()?.0[chat]?.rows
                == 3
        )
        let counts = try store.apply((0..<3).map { .dead($0, at: start + 120_000) }).counts
        #expect(counts.refused == 2 && counts.applied + counts.already == 1)
    }

    @Test(
        "rows of an app that a collation takes for ours decide nothing where they are read",
        arguments: TestEngine.available)
    func judged(_ engine: TestEngine) throws {
        let loose =
            engine == .sqlite ? "TEXT COLLATE NOCASE" : "VARCHAR(20) COLLATE utf8mb4_general_ci"
        let app = engine == .sqlite ? "app_id COLLATE BINARY" : "app_id"
        for isUnique in [true, false] {
            let database = try TokenDatabase.withSideTables(engine)
            try database.execute(
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token "
                    + "\(engine == .sqlite ? "BLOB" : "VARBINARY(64)"), app_id \(loose) NOT NULL, "
                    + "registered_at DATETIME, invalidated_at DATETIME)")
            try database.execute(
                "CREATE \(isUnique ? "UNIQUE" : "") INDEX device ON devices (device_token, \(app))")
            let rows = [
                (0, "chat", true), (1, "Chat", true), (2, "chat ", true), (3, "chat", false),
            ]
            for (number, name, isDead) in rows + (engine == .sqlite ? [(1, "chat", false)] : []) {
                try database.execute(
                    "INSERT INTO devices (device_token, app_id, registered_at, invalidated_at, id) "
                        + "VALUES (?, ?, '2024-01-01 00:00:00', ?, ?)",
                    [
                        .bytes(DeviceToken.numbered(number).bytes), .text(name),
                        isDead ? .text("2024-02-01 00:00:00") : .null,
                        .integer(Int64(number * 10 + (isDead ? 1 : 2))),
                    ])
            }
            let store = try database.store { $0.table = "devices" }
            #expect(try store.judgesMarksAlone() == isUnique)
            var marked = TokenFingerprints(mostBytes: 1 << 20)
            var decided: TokenFingerprints? = TokenFingerprints(mostBytes: 1 << 20)
            try store.addMarkedTokens(of: chat, to: &marked, decided: &decided)
            let found = (0..<4).filter { number in
                DeviceToken.numbered(number).bytes.withUnsafeBytes { bytes in
                    decided.map { $0.contains($0.fingerprint(bytes)) } ?? false
                }
            }
            #expect(found == [0], "\(found)")
        }
    }

    @Test(
        "rows of other platforms are left out, and stay under the condition, and values of apps and environments are the table's",
        arguments: TestEngine.available, [true, false])
    func words(_ engine: TestEngine, _ marksInRow: Bool) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute("ALTER TABLE active_users ADD platform VARCHAR(20)")
        for number in 0..<12 {
            try database.register(
                Self.tokens[number], at: start, app: number < 6 ? "7" : "8",
                environment: number % 2 == 0 ? "prod" : "it's dev")
        }
        try database.execute(
            "UPDATE active_users SET platform = CASE WHEN id % 5 = 0 THEN 'it''s' "
                + "WHEN id % 5 = 1 THEN 'IT''S' WHEN id = 12 THEN NULL ELSE 'it''s' END")
        let store = try database.store {
            $0.platform = PlatformMapping(column: "platform", value: "it's")
            $0.environmentValues = ["production": "prod", "sandbox": "it's dev"]
            if !marksInRow {
                $0.invalidatedAt.column = .absent
                $0.reason = .absent
            }
        }
        let partitions = ["7", "8"].flatMap { app in
            ["production", "sandbox"].map { Partition(app: app, environment: $0) }
        }
        try store.apply(
            (0..<4).map { .dead($0, at: start + 60_000) }, app: "7", environment: "production")
        for partition in partitions {
            let environment = partition.environment == "production" ? "prod" : "it''s dev"
            let shown = try Self.shown(
                database, store,
                where: "app_id = '\(partition.app)' AND environment = '\(environment)'",
                partitions: partitions, others: "(id % 5 = 1 OR id = 12)")
            #expect(try shown == Self.sendable(store, partition), "\(partition)")
            #expect(!shown.isEmpty)
        }
    }

    @Test(
        "marks beside the table count after the table has got a column for them",
        arguments: TestEngine.available)
    func upgraded(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<12)
        try database.store {
            $0.invalidatedAt.column = .absent
            $0.reason = .absent
        }.apply((0..<4).map { .dead($0, at: start + 60_000) })
        try database.execute(
            "UPDATE active_users SET registered_at = '2024-01-01 00:05:00' WHERE device_token = ?",
            [.bytes(Self.tokens[3].bytes)])
        let store = try database.store()
        try store.apply((2..<6).map { .dead($0, at: start + 50_000) })
        let shown = try Self.shown(database, store)
        #expect(try shown == Self.sendable(store))
        #expect(shown == Set(Self.tokens[6...] + [Self.tokens[3]]))
    }

    @Test(
        "times of another zone or form are compared as instants",
        .needsServer,
        arguments: [
            ("TIMESTAMP(3) NULL", "DATETIME(3) NULL"), ("DATETIME(3) NULL", "TIMESTAMP(3) NULL"),
            ("TIMESTAMP(3) NULL", "TIMESTAMP(6) NULL"), ("DATETIME(6) NULL", "DATETIME(6) NULL"),
        ])
    func zones(_ registered: String, _ marked: String) throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.execute(
            "CREATE TABLE active_users (id INT PRIMARY KEY, device_token VARBINARY(100), "
                + "registered_at \(registered), invalidated_at \(marked))")
        for number in 0..<12 {
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, '2024-05-01 10:00:00.500', ?)",
                [
                    .integer(Int64(number)), .bytes(Self.tokens[number].bytes),
                    .text("2024-05-01 10:00:\(number % 2 == 0 ? "00.499" : "00.500")"),
                ])
        }
        let store = try database.store()
        try database.execute("SET SESSION time_zone = '+05:00'")
        let shown = try Self.shown(database, store)
        #expect(shown.count == 6)
        #expect(try shown == Self.sendable(store))
    }

    @Test("texts with a zone of their own, of a declared zone and without seconds are instants")
    func texts() throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token BLOB, "
                + "registered_at DATETIME, invalidated_at DATETIME)")
        let times = [
            "2024-05-01 10:00", "2024-05-01T08:00:00Z", "2024-05-01 10:00:00.7",
            "2024-05-01 12:00:00.700+02:00", "2024-05-01T10:00:00.699", "2024-02-31 10:00:00",
            "soon", "   ", "2024-05-01 10:00:00.700",
            // Zones in other forms, and rests of other texts.
            "2024-05-01 08:30:15-0800", "2024-05-01 08:30:15 UTC", "2024-05-01 08:30:15-08",
            "2024-05-01 08:30:15 -08:00", "2024-05-01 08:30:15+15:00", "2024-05-01 08:30:15+02:60",
            "2024-05-01 08:30:15.", "2024-05-01 08:30:1", "2024-05-01 08:30:15.7x",
            "2024-05-01 24:00", "2024-05-01 10:60", "2024-05-01 10:00:60", "0000-05-01 10:00:00",
            "2024-05-01", "2024-05-01 08:30:15\n", "2024-05-01T10:00z", "2024-05-01 10:00-14:00",
            // Zones after a space, and what is nearly one.
            "2024-05-01 10:00:00.7 +0200", "2024-05-01 08:30:15 +02", "2024-05-01 08:30 GMT",
            "2024-05-01 08:30:15 Z", "2024-05-01 08:30-0800", "2024-05-01 08:30:15  +02:00",
            "2024-05-01 08:30:15 CET", "2024-05-01 08:30:15UTC", "2024-05-01 08:30:15 +1401",
            "2024-05-01 08:30:15 +020", "2024-05-01 08:30:15+14", "2024-05-01 08:30:15 utc",
            "2024-05-01 08:30:15,7 +0200", "2024-05-01 08:30:15,7,1", "2024-05-01 08:30:15 UTC ",
            "2024-05-01 08:30:15+02:00[Europe/Berlin]", "2024-05-01 08:30:15 +0200 CEST",
            // Parts of a millisecond.
            "2024-05-01 10:00:00.7004", "2024-05-01 10:00:00.6999999",
            "2024-05-01 10:00:00.7000009Z",
            // Other signs, other digits, and what SQLite's functions do not see.
            "2024/05/01 10:00:00", "2024-05-01_10:00", "01.05.2024 10:00", "20240501100000",
            "2024-05-01t10:00:00", "\u{FF12}024-05-01 10:00", "2024-05-01 1\u{301}0:00",
            "2024-05-01 10:00:00.700\0", "2024-05-01 10:00:00.700\0x", "\0", " \0 ", " \u{301} ",
        ]
        var number = 0
        for registered in times {
            for mark in times {
                try database.execute(
                    "INSERT INTO active_users VALUES (?, ?, ?, ?)",
                    [
                        .integer(Int64(number)), .bytes(DeviceToken.numbered(number).bytes),
                        .text(registered), .text(mark),
                    ])
                number += 1
            }
        }
        let store = try database.store { $0.registeredAt.zone = ZoneOffset(seconds: 7_200) }
        let shown = try Self.shown(database, store)
        let all = (0..<number).map { DeviceToken.numbered($0) }
        let living = try store.tokenStatuses(in: chat).statuses(of: all).filter {
            $0.value == .living
        }
        let differing = all.indices.filter {
            shown.contains(all[$0]) != (living[all[$0]] != nil)
        }
        #expect(differing.map { "\(times[$0 / times.count]), \(times[$0 % times.count])" } == [])
        #expect(shown.count > 200 && shown.count < number - 50)
    }

    @Test(
        "the view works without the account that made it, and with the rights of the sender",
        .needsServer)
    func withoutDefiner() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<3)
        let view = try database.store().sendableView(named: "may_send", partitions: [chat])
        // As if an account that is gone had made it.
        for statement in view.statements {
            let view = try #require(statement.firstRange(of: "SQL SECURITY INVOKER VIEW"))
            try database.sql.run(
                statement.replacingCharacters(
                    in: view, with: "DEFINER = gone@localhost SQL SECURITY INVOKER VIEW"))
        }
        #expect(try database.rows(of: "may_send") == 3)
    }

    @Test(
        "apps that differ in case only have marks of their own", arguments: TestEngine.available,
        [["chat", "Chat"], ["Chat", "chat"]])
    func casesOfApps(_ engine: TestEngine, _ apps: [String]) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "app_id VARCHAR(9))")
        for (id, app) in apps.enumerated() {
            try database.execute(
                "INSERT INTO active_users VALUES (\(id), ?, ?)",
                [.text(Self.tokens[1].hex), .text(app)])
        }
        let store = try database.store { $0.encoding = .hex }
        try store.apply([.dead(1, at: start)])
        for statement in try store.sendableView(named: "may_send", partitions: [chat]).statements {
            try database.sql.run(statement)
        }
        #expect(try database.texts("SELECT app_id FROM may_send") == [["Chat"]])
    }

    @Test("a token with a line feed after it is none", arguments: TestEngine.available)
    func lineFeeds(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(80))")
        for (id, end) in ["\n", "", " ", " \n"].enumerated() {
            try database.execute(
                "INSERT INTO active_users VALUES (\(id), ?)",
                [.text(Self.tokens[id].hex + end)])
        }
        let store = try database.store { $0.encoding = .hex }
        let view = try store.sendableView(named: "may_send", partitions: [chat])
        for statement in view.statements { try database.sql.run(statement) }
        // MariaDB's default collation fills up with spaces, so a search finds that token there.
        let pads = engine == .mariaDB && MariaDBServer.isMariaDB
        #expect(
            try database.texts("SELECT id FROM may_send ORDER BY id")
                == (pads ? [["1"], ["2"]] : [["1"]]))
    }

    @Test(
        "a table that does not show the app is refused for several apps with marks beside it",
        arguments: TestEngine.available)
    func severalApps(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(64))")
        expectFailure(.configuration, "store.active-users.app") {
            try database.store().sendableView(
                partitions: [chat, Partition(app: "mail", environment: "production")])
        }
        try database.execute(
            "INSERT INTO active_users VALUES (1, ?)", [.text(Self.tokens[1].hex.uppercased())])
        #expect(try Self.shown(database, database.store()) == [Self.tokens[1]])
        try database.store().apply([.dead(1, at: start)])
        #expect(try Self.shown(database, database.store()) == [])
    }
}
