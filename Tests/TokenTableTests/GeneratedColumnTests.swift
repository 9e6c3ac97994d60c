import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000

/// A table in which the database computes all that is read of a row but its key and its mark.
struct GeneratedCase: Sendable, CustomTestStringConvertible {
    let engine: TestEngine
    /// `VIRTUAL` or `STORED`.
    let kind: String
    var testDescription: String { "\(engine.rawValue), \(kind)" }

    static let all = TestEngine.available.flatMap { engine in
        ["VIRTUAL", "STORED"].map { GeneratedCase(engine: engine, kind: $0) }
    }

    /// Rows 0..<12: even ones of Apple's devices, with the first three and the last registered early.
    func database(marks: Bool = true) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            """
            CREATE TABLE devices (id INTEGER NOT NULL PRIMARY KEY, raw VARCHAR(200) NOT NULL, \
            arn VARCHAR(60) NOT NULL, seen DOUBLE NULL, \
            token VARCHAR(200) AS (LOWER(REPLACE(raw, ' ', ''))) \(kind), \
            service VARCHAR(10) AS (CASE WHEN arn LIKE '%/APNS/%' THEN 'apns' ELSE 'other' END) \
            \(kind), app VARCHAR(10) AS (SUBSTR(arn, 1, 4)) \(kind), \
            place VARCHAR(20) AS (CASE WHEN arn LIKE '%/test' THEN 'sandbox' ELSE 'production' END) \
            \(kind), since BIGINT AS (seen * 2) \(kind)\
            \(marks ? ", marked DATETIME NULL, why VARCHAR(32) NULL" : ""))
            """)
        for number in 0..<12 {
            let hex = DeviceToken.numbered(number).hex
            let raw = "\(hex.prefix(8)) \(hex.dropFirst(8))".uppercased()
            let arn = "chat/\(number % 2 == 0 ? "APNS" : "FCM")/\(number == 8 ? "test" : "live")"
            let seen = number == 10 ? "NULL" : "\((start / 1_000 + (number == 6 ? 900 : 0)) / 2)"
            try database.execute(
                "INSERT INTO devices (id, raw, arn, seen) VALUES (\(number), '\(raw)', '\(arn)', "
                    + "\(seen))")
        }
        return database
    }

    func map(_ mapping: inout TableMapping) {
        mapping.table = "devices"
        mapping.token = "token"
        mapping.encoding = .hex
        mapping.app = .named("app")
        mapping.environment = .named("place")
        mapping.platform = PlatformMapping(column: "service", value: "apns")
        mapping.registeredAt = TimeMapping(column: .named("since"), type: .epochSeconds)
        mapping.invalidatedAt = TimeMapping(column: .named("marked"))
        mapping.reason = .detect("why")
    }
}

@Suite("Generated columns")
struct GeneratedColumnTests {
    private static let evidence = (0..<12).map { TokenEvidence.dead($0, at: start + 60_000) }
    private static let tokens = (0..<12).map { DeviceToken.numbered($0) }

    @Test(
        "rows of which all that is read is computed are marked or removed, and an undo restores them",
        arguments: GeneratedCase.all,
        [RemovalPolicy(), RemovalPolicy(action: .delete)])
    func thereAndBack(_ table: GeneratedCase, _ policy: RemovalPolicy) throws {
        for marks in [true, false] {
            let database = try table.database(marks: marks)
            let store = try database.store(pacing: hurried()) {
                table.map(&$0)
                if !marks { $0.invalidatedAt.column = .absent }
            }
            try store.require(.apply(policy), partitions: [chat])
            let before = try database.contents(of: "devices")
            let forecast = try store.classify(Self.evidence, policy: policy)
            #expect(forecast.counts == Counts(applied: 4, newer: 1, unknown: 7))
            try store.sweep("one", Self.evidence, policy: policy)
            let after = try database.contents(of: "devices")
            // Without a registration time a row is only marked.
            let removed = policy.action == .delete ? 3 : 0
            #expect(try database.rows(of: "devices") == 12 - removed)
            let stale = try store.tokenStatuses(in: chat).statuses(of: Self.tokens)
                .filter { $0.value == .stale }
            #expect(stale.count == 4 - removed)
            for statement in try store.sendableView(partitions: [chat]).statements {
                try database.sql.run(statement)
            }
            #expect(
                try database.texts(
                    "SELECT id FROM pushsweep_sendable WHERE place = 'production'") == [["6"]])
            #expect(try store.livingRows(in: chat).count(atMost: 100) == 1)
            let undone = try store.undo(.run("one"), as: "two")
            #expect(undone.restored == 4 && undone.kept.isEmpty)
            #expect(try database.contents(of: "devices") == before)
            #expect(try store.undo(.run("two"), as: "three", at: start + 910_000).restored == 4)
            #expect(try database.contents(of: "devices") == after)
            #expect(try store.undo(.run("three"), as: "four", at: start + 920_000).restored == 4)
            #expect(try database.contents(of: "devices") == before)
        }
    }

    @Test(
        "removal after a grace period, and its undo, work where all columns are computed",
        arguments: GeneratedCase.all)
    func expiry(_ table: GeneratedCase) throws {
        let database = try table.database()
        let store = try database.store(pacing: hurried(), table.map)
        try store.apply(Self.evidence)
        let marked = try database.contents(of: "devices")
        try database.forgetLedger()
        let now = EpochMilliseconds(start + 30 * day)
        try store.session.record(RunRecord(id: "run", kind: "sweep", started: now, host: "h"))
        let removal = GraceEnd.afterAWeek(at: start + 30 * day, run: "run")
        #expect(try store.remove(removal) == 3)
        #expect(try store.undo(.run("run"), at: start + 31 * day).restored == 3)
        #expect(try database.contents(of: "devices") == marked)
    }

    @Test(
        "a row that the table would compute otherwise now is not restored",
        arguments: GeneratedCase.all
    )
    func otherExpression(_ table: GeneratedCase) throws {
        guard table.engine == .mariaDB else { return }
        let database = try table.database()
        let store = try database.store(pacing: hurried(), table.map)
        try store.sweep("one", Self.evidence, policy: RemovalPolicy(action: .delete))
        try database.execute("ALTER TABLE devices DROP COLUMN service")
        try database.execute(
            "ALTER TABLE devices ADD service VARCHAR(10) AS (IF(id = 2, 'none', 'apns')) \(table.kind)"
        )
        let undone = try database.store(pacing: hurried(), table.map).undo(.run("one"))
        #expect(undone.kept == ["refused": 1])
        #expect(undone.inserted == 2)
    }

    @Test(
        "a generated column as the mark, its reason or the column of two values is refused with 78",
        arguments: GeneratedCase.all)
    func written(_ table: GeneratedCase) throws {
        let changes: [((inout TableMapping) -> Void, String)] = [
            (
                { $0.invalidatedAt = TimeMapping(column: .named("since"), type: .epochSeconds) },
                "no mark can be set in it"
            ),
            ({ $0.reason = .named("place") }, "no reason can be written to it"),
            (
                { $0.living = LivingMapping(column: "service", living: "apns", dead: "other") },
                "no mark can be set in it"
            ),
        ]
        for (change, words) in changes {
            let database = try table.database()
            let failure = expectFailure(.configuration) {
                try database.store {
                    table.map(&$0)
                    change(&$0)
                    if $0.living.column != nil {
                        $0.invalidatedAt = TimeMapping(column: .absent)
                        $0.reason = .absent
                    }
                }.require(.apply(RemovalPolicy()))
            }
            #expect(failure?.sentence.contains(words) == true, "\(failure?.sentence ?? "")")
        }
    }
}

/// What servers alone have.
@Suite("Columns that a server fills")
struct FilledColumnTests {
    /// Whether the server of the tests is a MariaDB.
    private static func isMariaDB(_ database: TokenDatabase) throws -> Bool {
        try database.texts("SELECT VERSION()")[0][0].contains("MariaDB")
    }

    /// The rights on the table of devices, as the printed statements give them.
    private static func grants(_ store: TokenTable) throws -> String {
        try store.grants(for: RemovalPolicy(), user: "u").joined(separator: ";")
    }

    @Test(
        "a registration computed from a column that moves by itself stays when a row is marked",
        .needsServer,
        arguments: ["VIRTUAL", "STORED"])
    func moving(_ kind: String) throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.execute(
            """
            CREATE TABLE devices (id INT PRIMARY KEY, device_token VARBINARY(100) NOT NULL, \
            updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, \
            seen DATETIME AS (updated_at - INTERVAL 1 HOUR) \(kind), \
            since DATETIME AS (seen + INTERVAL 1 HOUR) \(kind), invalidated_at DATETIME NULL)
            """)
        try database.execute(
            "INSERT INTO devices (id, device_token, updated_at) VALUES (1, ?, '2024-01-01 00:00:00')",
            [.bytes(DeviceToken.numbered(1).bytes)])
        let store = try database.store(pacing: hurried()) {
            $0.table = "devices"
            $0.registeredAt = TimeMapping(column: .named("since"))
        }
        #expect(try Self.grants(store).contains("UPDATE (`invalidated_at`, `updated_at`)"))
        let before = try database.contents(of: "devices")
        try store.sweep("one", [.dead(1, at: start + 60_000)])
        #expect(
            try database.texts("SELECT since, invalidated_at IS NULL FROM devices")
                == [["2024-01-01 00:00:00.000", "0"]])
        #expect(try store.undo(.run("one")).restored == 1)
        #expect(try database.contents(of: "devices") == before)
    }

    @Test(
        "the period of a system-versioned table is no registration, and its rows come back",
        .needsServer
    )
    func versioned() throws {
        let database = try TokenDatabase(.mariaDB)
        guard try Self.isMariaDB(database) else { return }
        try database.createSideTables()
        try database.execute(
            """
            CREATE TABLE devices (id INT PRIMARY KEY, device_token VARBINARY(100) NOT NULL, \
            registered_at DATETIME NULL, note VARCHAR(20) INVISIBLE NULL, \
            valid_from TIMESTAMP(6) GENERATED ALWAYS AS ROW START, \
            valid_to TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, \
            PERIOD FOR SYSTEM_TIME (valid_from, valid_to)) WITH SYSTEM VERSIONING
            """)
        try database.execute(
            "INSERT INTO devices (id, device_token, registered_at, note) VALUES (1, ?, "
                + "'2024-01-01 00:00:00', 'kept')", [.bytes(DeviceToken.numbered(1).bytes)])
        expectFailure(.configuration, "whenever the row changes") {
            try database.store {
                $0.table = "devices"
                $0.registeredAt = TimeMapping(column: .named("valid_from"))
            }.require(.apply(RemovalPolicy()))
        }
        let store = try database.store(pacing: hurried()) { $0.table = "devices" }
        let policy = RemovalPolicy(action: .delete)
        try store.require(.apply(policy))
        try store.sweep("one", [.dead(1, at: start + 60_000)], policy: policy)
        #expect(try database.rows(of: "devices") == 0)
        #expect(try store.undo(.run("one")).restored == 1)
        #expect(
            try database.texts("SELECT id, registered_at, note FROM devices")
                == [["1", "2024-01-01 00:00:00.000", "kept"]])
    }

    @Test(
        "a row comes back with its invisible columns, the key among them, and with the key 0",
        .needsServer
    )
    func invisible() throws {
        let database = try TokenDatabase(.mariaDB)
        let isMariaDB = try Self.isMariaDB(database)
        try database.createSideTables()
        // MySQL adds this key by itself where a table has none.
        if !isMariaDB { try database.execute("SET SESSION sql_generate_invisible_primary_key = 1") }
        let key =
            isMariaDB ? "my_row_id BIGINT UNSIGNED AUTO_INCREMENT INVISIBLE PRIMARY KEY, " : ""
        try database.execute(
            "CREATE TABLE devices (\(key)device_token VARBINARY(100) NOT NULL, registered_at DATETIME "
                + "NULL, note VARCHAR(20) NULL INVISIBLE)")
        try database.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        for id in [0, 7] {
            try database.execute(
                "INSERT INTO devices (my_row_id, device_token, registered_at, note) VALUES (\(id), ?, "
                    + "'2024-01-01 00:00:00', 'kept')", [.bytes(DeviceToken.numbered(id).bytes)])
        }
        let store = try database.store(pacing: hurried()) { $0.table = "devices" }
        let policy = RemovalPolicy(action: .delete)
        try store.require(.apply(policy))
        let before = try database.texts("SELECT my_row_id, registered_at, note FROM devices")
        try store.sweep("one", [0, 7].map { .dead($0, at: start + 60_000) }, policy: policy)
        #expect(try database.rows(of: "devices") == 0)
        #expect(try store.undo(.run("one")).restored == 2)
        #expect(
            try database.texts("SELECT my_row_id, registered_at, note FROM devices ORDER BY 1")
                == before)
    }
}
