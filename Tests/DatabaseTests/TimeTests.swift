import APNsProtocol
import Database
import Findings
import TestSupport
import Testing
import TokenHygiene

@Suite("Storage of times")
struct TimeTests {
    /// A column type, its declaration, and how it spells 12:00:00.700 and 12:00:10.700 UTC.
    struct Variant: Sendable, CustomTestStringConvertible {
        let type: String
        var declared: TimeColumnType?
        var zone = "UTC"
        let registered: String
        /// The text of a mark at 12:00:10.700 UTC.
        let mark: String

        var testDescription: String { "\(type) \(declared?.rawValue ?? "") \(zone)" }
    }

    static let serverVariants = [
        Variant(
            type: "DATETIME", registered: "'2024-01-01 12:00:00'", mark: "2024-01-01 12:00:10.000"),
        Variant(
            type: "DATETIME(1)", registered: "'2024-01-01 12:00:00.7'",
            mark: "2024-01-01 12:00:10.700"),
        Variant(
            type: "DATETIME(3)", registered: "'2024-01-01 12:00:00.700'",
            mark: "2024-01-01 12:00:10.700"),
        Variant(
            type: "DATETIME(6)", registered: "'2024-01-01 12:00:00.700001'",
            mark: "2024-01-01 12:00:10.700"),
        Variant(
            type: "DATETIME(3)", zone: "+05:30", registered: "'2024-01-01 17:30:00.700'",
            mark: "2024-01-01 17:30:10.700"),
        Variant(
            type: "DATETIME", zone: "-08:00", registered: "'2024-01-01 04:00:00'",
            mark: "2024-01-01 04:00:10.000"),
        Variant(
            type: "TIMESTAMP NULL", zone: "+05:30", registered: "'2024-01-01 12:00:00'",
            mark: "2024-01-01 12:00:10.000"),
        Variant(
            type: "INT UNSIGNED", declared: .epochSeconds, registered: "1704110400",
            mark: "1704110410"),
        Variant(
            type: "BIGINT", declared: .epochSeconds, registered: "1704110400", mark: "1704110410"),
        Variant(
            type: "BIGINT", declared: .epochMilliseconds, registered: "1704110400700",
            mark: "1704110410700"),
    ]

    static let sqliteVariants = [
        Variant(
            type: "DATETIME", registered: "'2024-01-01 12:00:00.700'",
            mark: "2024-01-01 12:00:10.700"),
        Variant(
            type: "TEXT", zone: "+01:00", registered: "'2024-01-01T13:00:00'",
            mark: "2024-01-01 13:00:10.700"),
        Variant(
            type: "INTEGER", declared: .epochSeconds, registered: "1704110400",
            mark: "1704110410"),
        Variant(
            type: "INTEGER", declared: .epochMilliseconds, registered: "1704110400700",
            mark: "1704110410700"),
    ]

    static var variants: [(TestEngine, Variant)] {
        let server = MariaDBServer.fromEnvironment == nil ? [] : serverVariants
        return server.map { (.mariaDB, $0) } + sqliteVariants.map { (.sqlite, $0) }
    }

    @Test(
        "registrations are read and marks written in the column's own type, unit and zone",
        arguments: variants)
    func readsAndWrites(_ engine: TestEngine, _ variant: Variant) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute("SET SESSION time_zone = '+00:00'", on: .mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "seen \(variant.type), dead \(variant.type))")
        let token = DeviceToken.numbered(1)
        try database.execute(
            "INSERT INTO devices VALUES (1, ?, \(variant.registered), NULL)", [.text(token.hex)])
        let zone = try #require(ZoneOffset(variant.zone))
        let store = try database.store {
            $0.table = "devices"
            $0.registeredAt = TimeMapping(
                column: .named("seen"), type: variant.declared, zone: zone)
            $0.invalidatedAt = TimeMapping(
                column: .named("dead"), type: variant.declared, zone: zone)
        }
        let noon: Int64 = 1_704_110_400_000
        func evidence(_ time: Int64) -> [TokenEvidence] {
            [TokenEvidence(token: token, time: EpochMilliseconds(time))]
        }
        #expect(try store.apply(evidence(noon - 1)).counts == Counts(newer: 1))
        let marked = try store.apply(evidence(noon + 10_700))
        #expect(marked.counts == Counts(applied: 1) && marked.rowsChanged == 1)
        #expect(try database.texts("SELECT dead FROM devices") == [[variant.mark]])
        let again = try store.apply(evidence(noon + 10_700))
        #expect(again.counts == Counts(already: 1) && again.rowsChanged == 0)
        let deleted = try store.apply(
            evidence(noon + 10_700), policy: RemovalPolicy(action: .delete))
        #expect(deleted.rowsChanged == 1)
        #expect(try database.rows(of: "devices") == 0)
    }

    @Test(
        "rows without a registration time are marked, and deleted only where the policy says so",
        arguments: TestEngine.available, ["NULL", "'0000-00-00 00:00:00'"])
    func unknownRegistration(_ engine: TestEngine, _ stored: String) throws {
        if engine == .sqlite && stored != "NULL" { return }
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute("SET SESSION sql_mode = ''", on: .mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at DATETIME, invalidated_at DATETIME)")
        try database.execute(
            "INSERT INTO devices VALUES (1, ?, \(stored), NULL)",
            [.text(DeviceToken.numbered(1).hex)])
        let store = try database.store { $0.table = "devices" }
        let careful = try store.apply(
            [.dead(1, at: start)], policy: RemovalPolicy(action: .delete))
        #expect(careful.counts == Counts(applied: 1))
        #expect(try database.rows(of: "devices", "invalidated_at IS NOT NULL") == 1)
        let told = try store.apply(
            [.dead(1, at: start)],
            policy: RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true))
        #expect(told.counts == Counts(applied: 1))
        #expect(try database.rows(of: "devices") == 0)
    }

    @Test(
        "a registration that cannot be read protects its row",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func unreadableRegistration(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at BIGINT, invalidated_at BIGINT)")
        // Seconds in a column declared to hold milliseconds would be in January 1970.
        try database.execute(
            "INSERT INTO devices VALUES (1, ?, 1704067200, NULL)",
            [.text(DeviceToken.numbered(1).hex)])
        let store = try database.store {
            $0.table = "devices"
            $0.registeredAt.type = .epochMilliseconds
            $0.invalidatedAt.column = .named("invalidated_at")
            $0.invalidatedAt.type = .epochMilliseconds
        }
        let progress = try store.apply(
            [.dead(1, at: start + 900_000)], policy: RemovalPolicy(action: action))
        #expect(progress.counts == Counts(refused: 1) && progress.rowsChanged == 0)
        expectFailure(.configuration, "declare type epoch-seconds") {
            try store.require(.apply(RemovalPolicy(action: action)))
        }
    }

    @Test(
        "a mark does not look like a registration where the column updates itself",
        .needsServer
    )
    func selfMovingRegistration() throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP "
                + "ON UPDATE CURRENT_TIMESTAMP, invalidated_at DATETIME NULL)")
        try database.execute(
            "INSERT INTO devices VALUES (1, ?, '2024-01-01 00:00:00', NULL)",
            [.text(DeviceToken.numbered(1).hex)])
        let store = try database.store { $0.table = "devices" }
        try store.apply([.dead(1, at: start + 60_000)])
        #expect(
            try database.texts("SELECT registered_at, invalidated_at FROM devices") == [
                ["2024-01-01 00:00:00.000", "2024-01-01 00:01:00.000"]
            ])
        try database.execute(
            "ALTER TABLE devices MODIFY invalidated_at TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP")
        #expect(throws: StoreFailure.self) {
            try database.store { $0.table = "devices" }.apply([.dead(1, at: start + 90_000)])
        }
    }

    @Test("calendar dates and epoch times convert both ways")
    func calendar() throws {
        for (text, seconds) in [
            ("1970-01-01 00:00:00", 0), ("2000-02-29 12:34:56", 951_827_696),
            ("2038-01-19 03:14:08", 2_147_483_648), ("1969-12-31 23:59:59", -1),
            ("2100-03-01 00:00:00", 4_107_542_400),
        ] as [(String, Int64)] {
            let clock = try #require(WallClock(text: text))
            #expect(clock.microseconds == seconds * 1_000_000)
            #expect(clock.text(fraction: 0) == text)
        }
        for text in ["2023-02-29 00:00:00", "2024-13-01 00:00", "2024-01-01", "", "now"] {
            #expect(WallClock(text: text) == nil)
        }
    }

    @Test("a zone in the text overrides the declared zone, and an incomplete zone is ignored")
    func statedZones() throws {
        let noon = start + 12 * 3_600_000
        let cases: [(String, Int64?)] = [
            ("2024-01-01T12:00:00Z", noon), ("2024-01-01 12:00:00.000z", noon),
            ("2024-01-01T17:30:00+05:30", noon), ("2024-01-01 04:00-08:00", noon),
            ("2024-01-01T12:00:00", noon - 3_600_000),
            ("2024-01-01T17:00:00+05", noon), ("2024-01-01T12:00:00 Z", noon),
            ("2024-01-01 17:30:00 +0530", noon), ("2024-01-01 12:00:00 UTC", noon),
            ("2024-01-01 12:00:00,000 GMT", noon), ("2024-01-01 12:00:00 CET", nil),
            ("2024-01-01T12:00:00+05:00[Asia/Tashkent]", nil), ("2024-01-01 12:00:00UTC", nil),
            ("2024-01-01T12:00:00+99:00", nil), ("2024-01-01T12:00:00ZZ", nil),
        ]
        for (text, instant) in cases {
            let database = try TokenDatabase.own(.sqlite)
            try database.execute(
                "INSERT INTO active_users (user_id, app_id, device_token, registered_at) "
                    + "VALUES ('u', 'chat', ?, ?)",
                [.bytes(DeviceToken.numbered(1).bytes), .text(text)])
            let store = try database.store {
                $0.registeredAt.zone = ZoneOffset(seconds: 3_600)
            }
            // Dead a millisecond before the registration: the row lives. A second after: it is
            // stale.
            let before = try store.classify([.dead(1, at: (instant ?? noon) - 1)])
            #expect(
                before.counts
                    == (instant == nil ? Counts(refused: 1) : Counts(newer: 1)),
                "\(text)")
            let after = try store.classify([.dead(1, at: (instant ?? noon) + 1_000_000)])
            #expect(
                after.counts
                    == (instant == nil ? Counts(refused: 1) : Counts(applied: 1)),
                "\(text)")
        }
    }
}

@Suite("Times that are handed in")
struct HandedInTimeTests {
    @Test(
        "ISO 8601 is read with every zone and fraction that programs write",
        arguments: [
            ("2023-11-14T22:13:20Z", 1_700_000_000_000), ("2023-11-14 22:13:20", 1_700_000_000_000),
            ("2023-11-14T22:13:20+00", 1_700_000_000_000),
            ("2023-11-14T22:13:20+0000", 1_700_000_000_000),
            ("2023-11-15 00:13:20+02", 1_700_000_000_000),
            ("2023-11-15 00:13:20 +0200", 1_700_000_000_000),
            ("2023-11-14T17:13:20-05:00", 1_700_000_000_000),
            ("2023-11-14 22:13:20 UTC", 1_700_000_000_000),
            ("2023-11-14T22:13:20,123Z", 1_700_000_000_123),
            ("2023-11-14T22:13:20.123456+00", 1_700_000_000_123),
            ("2023-11-14T22:13Z", 1_699_999_980_000), ("2023-11-14", 1_699_920_000_000),
            ("2023-11-14Z", 1_699_920_000_000), ("2023-11-14 UTC", 1_699_920_000_000),
            ("2023-11-14T22:13:20+2", nil), ("2023-11-14T22:13:20+020", nil),
            ("2023-11-14T22:13:20+02:0", nil), ("2023-11-14T22:13:20,1,2Z", nil),
            ("2023-11-14T22:13:20 CET", nil), ("2023-11-1", nil), ("2023-11-31", nil),
            ("2023-11-14+02", nil), ("", nil), ("2023-11-14T22:13:20 Z", 1_700_000_000_000),
            ("2023-11-14 22:13:20 +01:00[Europe/Berlin]", nil), ("2023-11-14 22:13:20UTC", nil),
            ("2023-11-14 22:13:20 +0000 UTC", nil), ("2023-11-14 22:13:20 GMT", 1_700_000_000_000),
        ] as [(String, Int64?)])
    func iso8601(_ text: String, _ time: Int64?) {
        #expect(EpochMilliseconds(iso8601: text)?.rawValue == time)
    }
}
