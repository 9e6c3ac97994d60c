import APNsProtocol
import Findings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000
private let period = 180 * day

/// A column of registrations, which a trigger writes with the token.
struct RegistrationShape: Sendable, CustomTestStringConvertible {
    let engine: TestEngine
    let type: String
    let storage: TimeColumnType?
    /// An expression for the time so many seconds before the present, as the application writes it.
    let before: @Sendable (Int64) -> String
    var zone = ZoneOffset.utc
    /// A value that is no time; nil where the column has none.
    var unreadable: String?
    var testDescription: String { "\(engine), \(type), \(zone)" }

    static let every: [RegistrationShape] = [
        RegistrationShape(
            engine: .mariaDB, type: "DATETIME(3)", storage: nil,
            before: { "UTC_TIMESTAMP(3) - INTERVAL \($0) SECOND" }),
        RegistrationShape(
            engine: .mariaDB, type: "DATETIME", storage: nil,
            before: { "UTC_TIMESTAMP() + INTERVAL 7200 SECOND - INTERVAL \($0) SECOND" },
            zone: ZoneOffset(seconds: 7_200)),
        RegistrationShape(
            engine: .mariaDB, type: "TIMESTAMP(3) NULL", storage: nil,
            before: { "FROM_UNIXTIME(UNIX_TIMESTAMP() - \($0))" }),
        RegistrationShape(
            engine: .mariaDB, type: "BIGINT", storage: .epochSeconds,
            before: { "UNIX_TIMESTAMP() - \($0)" }, unreadable: "99999999999"),
        RegistrationShape(
            engine: .mariaDB, type: "BIGINT", storage: .epochMilliseconds,
            before: { "(UNIX_TIMESTAMP() - \($0)) * 1000" }, unreadable: "5"),
        RegistrationShape(
            engine: .sqlite, type: "TEXT", storage: nil,
            before: { "strftime('%Y-%m-%d %H:%M:%f', 'now', '-\($0) seconds')" },
            unreadable: "'yesterday'"),
        RegistrationShape(
            engine: .sqlite, type: "INTEGER", storage: .epochSeconds,
            before: { "CAST(strftime('%s', 'now') AS INTEGER) - \($0)" }, unreadable: "'soon'"),
    ]
    static let all = every.filter { TestEngine.available.contains($0.engine) }

    /// The table of `shape` with a row for each age in seconds, nil for none; the last has no time that can be
    /// read, where the column has such values. `writes` makes the trigger.
    func database(_ ages: [Int64?], writes: Bool = true) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at \(type), invalidated_at \(engine == .sqlite ? "TEXT" : "DATETIME(3)"))"
        )
        for (number, age) in (ages.map { $0.map(before) ?? "NULL" } + [unreadable ?? "NULL"])
            .enumerated()
        {
            try database.execute(
                "INSERT INTO active_users VALUES (\(number), '\(DeviceToken.numbered(number).hex)', "
                    + "\(age), NULL)")
        }
        if writes { try database.sql.run(trigger) }
        return database
    }

    private var trigger: String {
        let now = before(0)
        return engine == .sqlite
            ? "CREATE TRIGGER pushsweep_registered_update AFTER UPDATE OF device_token ON active_users BEGIN "
                + "UPDATE active_users SET registered_at = \(now) WHERE id = NEW.id; END"
            : "CREATE TRIGGER pushsweep_registered_update BEFORE UPDATE ON active_users FOR EACH ROW BEGIN "
                + "IF NOT (NEW.device_token <=> OLD.device_token) THEN "
                + "SET NEW.registered_at = \(now); END IF; END"
    }

    func store(_ database: TokenDatabase, idleAfter: Int64? = period) throws -> TokenTable {
        database.settings.idleAfter = idleAfter
        return try database.store {
            $0.encoding = .hex
            $0.registeredAt = TimeMapping(
                column: .named("registered_at"), type: storage, zone: zone)
        }
    }
}

@Suite("Idle rows")
struct IdleTests {
    private static let seconds = period / 1_000

    @Test(
        "lookup, fingerprints, view and audit leave out the same rows, whatever form the time has",
        arguments: RegistrationShape.all)
    func same(_ shape: RegistrationShape) throws {
        let database = try shape.database([
            Self.seconds + 60, Self.seconds - 60, 0, 900 * 86_400, nil,
        ])
        let store = try shape.store(database)
        let tokens = (0..<6).map { DeviceToken.numbered($0) }
        let statuses = try store.tokenStatuses(in: chat, idle: true).statuses(of: tokens)
        let idle = Set(statuses.filter { $0.value == .idle }.keys)
        #expect(idle == [tokens[0], tokens[3]], "\(statuses)")
        #expect(statuses.values.count { $0 == .living } == 4)
        // What is suspected or applied does not ask for it.
        let plain = try store.tokenStatuses(in: chat).statuses(of: tokens)
        #expect(plain.values.allSatisfy { $0 == .living })
        var marked = TokenFingerprints(mostBytes: 1 << 20)
        var decided =
            try store.judgesMarksAlone() ? TokenFingerprints(mostBytes: 1 << 20) : nil
        try store.addMarkedTokens(of: chat, to: &marked, decided: &decided)
        #expect(decided == nil)
        for token in tokens {
            let isFound = token.bytes.withUnsafeBytes { marked.contains(marked.fingerprint($0)) }
            #expect(isFound == idle.contains(token))
        }
        let view = try store.sendableView(partitions: [chat])
        for statement in view.statements { try database.sql.run(statement) }
        let rows = try database.sql.query("SELECT device_token FROM pushsweep_sendable")
        let shown = Set((0..<rows.count).compactMap { rows[$0, 0].text })
        #expect(shown == Set(tokens.filter { !idle.contains($0) }.map(\.hex)))
        let audit = try TableAudit(store, [chat], at: store.session.databaseTime())
        let tally = try #require(try audit.tallies()?.tallies[chat])
        #expect(tally.idle == 2 && tally.count(.living) == 6)
        #expect(tally.registrationAges.values.reduce(0, +) == 6)
        #expect(tally.registrationAges[.over2Years] == 1)
        #expect(try store.viewFinding() == nil)
        for other in [nil, period * 2] {
            let finding = try shape.store(database, idleAfter: other).viewFinding()
            #expect(finding?.rule == "view-of-other-settings", "\(finding as Any)")
        }
        // A registration brings a row back at once.
        try database.execute(
            "UPDATE active_users SET device_token = '\(DeviceToken.numbered(90).hex)' WHERE id = 0")
        let back = try store.tokenStatuses(in: chat, idle: true).statuses(of: [.numbered(90)])
        #expect(back == [.numbered(90): .living])
        let now = try database.sql.query("SELECT COUNT(*) FROM pushsweep_sendable")
        #expect(now[0, 0].count == 5)
    }

    @Test("a token in several rows is idle only where each row that is not dead is")
    func several() throws {
        let shape = try #require(RegistrationShape.every.last { $0.engine == .sqlite })
        let database = try shape.database([Self.seconds + 60, Self.seconds + 60, 0])
        let store = try shape.store(database)
        let token = DeviceToken.numbered(0)
        func status() throws -> TokenStatus? {
            try store.tokenStatuses(in: chat, idle: true).statuses(of: [token])[token]
        }
        try database.execute(
            "UPDATE active_users SET device_token = '\(token.hex)', registered_at = "
                + "CAST(strftime('%s', 'now') AS INTEGER) - 999999999 WHERE id = 1")
        try database.execute(
            "UPDATE active_users SET registered_at = CAST(strftime('%s', 'now') AS INTEGER) "
                + "- 999999999 WHERE id = 1")
        #expect(try status() == .idle)
        try database.execute(
            "UPDATE active_users SET invalidated_at = '2030-01-01 00:00:00' WHERE id = 0")
        #expect(try status() == .idle)
        try database.execute(
            "UPDATE active_users SET invalidated_at = '2030-01-01 00:00:00' WHERE id = 1")
        #expect(try status() == .stale)
        try database.execute(
            "UPDATE active_users SET registered_at = CAST(strftime('%s', 'now') AS INTEGER), "
                + "invalidated_at = NULL WHERE id = 1")
        #expect(try status() == .living)
    }

    @Test(
        "no row is idle where nothing in the database moves the time, and the refusal says what would",
        arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let shape = try #require(RegistrationShape.all.first { $0.engine == engine })
        let database = try shape.database([0, 0], writes: false)
        let store = try shape.store(database)
        func failure(_ store: TokenTable) throws -> String {
            let refusal = try #require(try store.idleFinding()?.failure)
            #expect(refusal.code == .configuration)
            #expect(throws: StoreFailure.self) { try store.sendableView(partitions: [chat]) }
            #expect(throws: StoreFailure.self) {
                try store.tokenStatuses(in: chat, idle: true)
            }
            // What marks rows does not ask for it.
            #expect(try store.examine(.read, partitions: [chat]).findings.refusal == nil)
            return refusal.sentence
        }
        #expect(try failure(store).contains("policy.idle-after of 180 days needs a time that"))
        database.settings.idleAfter = period
        let bare = try database.store {
            $0.encoding = .hex
            $0.registeredAt.column = .absent
        }
        #expect(try failure(bare).contains("has no column of it"))
        // Without the setting nothing of it is said.
        #expect(try shape.store(database, idleAfter: nil).idleFinding() == nil)
    }

    @Test(
        "a trigger counts only where it writes the present at any update, or is that of the page",
        arguments: TestEngine.available)
    func triggers(_ engine: TestEngine) throws {
        let shape = try #require(RegistrationShape.all.first { $0.engine == engine })
        let now = shape.before(0)
        let update = "UPDATE active_users SET registered_at ="
        let bodies: [(isEnough: Bool, statement: String)] =
            engine == .sqlite
            ? [
                (
                    false,
                    "AFTER UPDATE OF device_token ON active_users WHEN old.device_token IS NOT new.device_token "
                        + "BEGIN \(update) \(now) WHERE id = NEW.id; END"
                ),
                (
                    false,
                    "AFTER UPDATE ON active_users BEGIN \(update) '2000-01-01 00:00:00' WHERE id = NEW.id; END"
                ),
                (
                    false,
                    "AFTER INSERT ON active_users BEGIN \(update) \(now) WHERE id = NEW.id; END"
                ),
                (
                    true,
                    "AFTER UPDATE OF device_token ON active_users BEGIN \(update) \(now) "
                        + "WHERE id = NEW.id; END"
                ),
                (
                    true,
                    "AFTER UPDATE ON active_users BEGIN \(update) \(now) WHERE id = NEW.id; END"
                ),
            ]
            : [
                (
                    false,
                    "BEFORE UPDATE ON active_users FOR EACH ROW BEGIN IF NEW.device_token <> OLD.device_token "
                        + "THEN SET NEW.registered_at = \(now); END IF; END"
                ),
                (
                    false,
                    "BEFORE UPDATE ON active_users FOR EACH ROW SET NEW.registered_at = '2000-01-01 00:00:00'"
                ),
                (
                    false,
                    "BEFORE INSERT ON active_users FOR EACH ROW SET NEW.registered_at = \(now)"
                ),
                (true, "BEFORE UPDATE ON active_users FOR EACH ROW SET NEW.registered_at = \(now)"),
            ]
        for (isEnough, statement) in bodies {
            let database = try shape.database([0], writes: false)
            try database.sql.run("CREATE TRIGGER moves \(statement)")
            let finding = try shape.store(database).idleFinding()
            #expect((finding?.failure == nil) == isEnough, "\(statement)")
        }
        guard engine == .mariaDB else { return }
        // ON UPDATE does nothing where a device registers with the same token.
        let database = try shape.database([0], writes: false)
        try database.sql.run(
            "ALTER TABLE active_users MODIFY registered_at DATETIME(3) NULL ON UPDATE CURRENT_TIMESTAMP(3)"
        )
        #expect(try shape.store(database).idleFinding()?.failure != nil)
    }

    @Test("the printed grants show the trigger, also to an account that only reads", .needsServer)
    func rights() throws {
        let shape = try #require(RegistrationShape.all.first { $0.engine == .mariaDB })
        let database = try shape.database([0, Self.seconds + 60], writes: false)
        try database.sql.run(
            "CREATE TRIGGER moves BEFORE UPDATE ON active_users FOR EACH ROW BEGIN "
                + "IF @pushsweep IS NULL THEN SET NEW.registered_at = UTC_TIMESTAMP(3); END IF; END"
        )
        let account = try ServerAccount(of: database)
        let grants = try shape.store(database).grants(
            for: RemovalPolicy(), user: "\(account.name)@%")
        func examined() throws -> StoreFailure? {
            var settings = account.settings
            settings.idleAfter = period
            settings.mapping.encoding = .hex
            let store = try TokenTable(settings)
            if let refusal = try store.idleFinding()?.failure { return refusal }
            let statuses = try store.tokenStatuses(in: chat, idle: true)
            #expect(try statuses.statuses(of: [.numbered(1)]) == [.numbered(1): .idle])
            return nil
        }
        try account.run(grants.filter { !$0.contains("TRIGGER") })
        let refusal = try #require(try examined())
        let grant = try #require(grants.first { $0.contains("TRIGGER") })
        #expect(refusal.sentence.contains(grant.split(separator: " TO ")[0]), "\(refusal)")
        try account.run(grants.filter { $0.contains("TRIGGER") })
        #expect(try examined() == nil)
    }
}
