import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Counting the rows of the token table")
struct TableAuditTests {
    private static let now = EpochMilliseconds(1_735_000_000_000)
    private static let day: Int64 = 86_400_000

    private static func time(daysAgo days: Int64) -> Int64 { now.rawValue - days * day }

    /// Rows of every kind, with marks in the row or beside the table.
    private static func database(
        _ engine: TestEngine, marksInRow: Bool
    ) throws -> (TokenDatabase, TokenTable) {
        let database = try TokenDatabase.own(engine)
        let store = try database.store {
            guard !marksInRow else { return }
            $0.invalidatedAt.column = .absent
            $0.reason = .absent
        }
        for (number, age) in [0, 3, 20, 60, 200, 500, 900].enumerated() {
            try database.register(.numbered(number), at: time(daysAgo: Int64(age)))
        }
        try database.register(.numbered(7), at: time(daysAgo: -2))
        for token in [[UInt8](repeating: 7, count: 80), []] {
            try database.execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, "
                    + "registered_at) VALUES ('x', 'chat', 'production', ?, ?)",
                [.bytes(token), database.time(time(daysAgo: 2))])
        }
        try database.register(.numbered(50), at: time(daysAgo: 1), app: "other")
        // Two become stale, one of them long ago; one registered since.
        try store.apply([
            .dead(4, at: time(daysAgo: 100)), .dead(5, at: time(daysAgo: 2)),
            .dead(6, at: time(daysAgo: 10)),
        ])
        try database.update("registered_at = ?", [database.time(time(daysAgo: 5))], of: 6)
        return (database, store)
    }

    @Test(
        "each row is counted once, by what it is and by its age",
        arguments: TestEngine.available,
        [true, false])
    func counts(_ engine: TestEngine, _ marksInRow: Bool) throws {
        let (database, store) = try Self.database(engine, marksInRow: marksInRow)
        defer { withExtendedLifetime(database) {} }
        let audit = try TableAudit(store, [chat], at: Self.now)
        let (tallies, others) = try #require(try audit.tallies())
        #expect(others == 1)
        let tally = try #require(tallies[chat])
        #expect(tally.rows == 10)
        #expect(tally.count(.stale) == 2 && tally.count(.revived) == 1)
        #expect(tally.count(.living) == 6 && tally.count(.empty) == 1)
        #expect(tally.staleAges == [.underAWeek: 1, .underAYear: 1])
        #expect(
            tally.registrationAges == [
                .underADay: 1, .underAWeek: 3, .under30Days: 1, .under90Days: 1, .future: 1,
            ])
        #expect(tally.neverRegistered == 0 && tally.fromTheFuture == 1)
        #expect(tally.forms == ["32 bytes": 8, "80 bytes": 1])
        #expect(tally.reasons.values.reduce(0, +) == 2)
    }

    @Test(
        "living and stale are what the sender's own code says, for every kind of hex",
        arguments: TestEngine.available)
    func agrees(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at BIGINT, invalidated_at BIGINT)")
        let store = try database.store {
            $0.encoding = .hex
            $0.registeredAt.type = .epochSeconds
            $0.invalidatedAt.type = .epochSeconds
        }
        let hex = DeviceToken.numbered(1).hex
        let tokens = [
            hex, hex.uppercased(), "<\(hex)>", " ", "0", "", "{length = 32, bytes = 0x00}",
            String(hex.dropLast()), "zz", String(hex.prefix(8)).uppercased() + hex.dropFirst(8),
        ]
        let pairs: [(registered: Int64?, marked: Int64?)] = [
            (nil, nil), (5, nil), (nil, 5), (5, 5), (6, 5), (4, 5),
        ]
        var rows: [[SQLValue]] = []
        for token in tokens {
            for pair in pairs {
                rows.append(
                    [.integer(Int64(rows.count)), .text(token)]
                        + [pair.registered, pair.marked].map { seconds in
                            seconds.map { .integer(1_700_000_000 + $0) } ?? .null
                        })
            }
        }
        let insert = "INSERT INTO active_users VALUES (?, ?, ?, ?)"
        // The sender's code knows tokens, not rows, so it sees one row at a time.
        var (living, stale) = (0, 0)
        for row in rows {
            try database.execute("DELETE FROM active_users")
            try database.execute(insert, row)
            switch try store.tokenStatuses(in: chat).statuses(of: [.numbered(1)])[.numbered(1)] {
            case .living: living += 1
            case .stale: stale += 1
            default: break
            }
        }
        try database.execute("DELETE FROM active_users")
        for row in rows { try database.execute(insert, row) }
        let tally = try #require(
            try TableAudit(store, [chat], at: Self.now).tallies()?.tallies[chat])
        #expect(tally.rows == rows.count)
        #expect(tally.count(.living) + tally.count(.revived) == living)
        #expect(tally.count(.stale) == stale)
        #expect(tally.count(.empty) == 18 && tally.count(.truncated) == 6)
    }

    @Test(
        "a stale row whose registration is no date counts as one that came back", .needsServer)
    func unreadable() throws {
        let database = try TokenDatabase.own(.mariaDB)
        try database.sql.run("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        try database.register(0..<3, at: Self.time(daysAgo: 20))
        let store = try database.store()
        try store.apply((0..<3).map { .dead($0, at: Self.time(daysAgo: 2)) })
        try database.update("registered_at = '2024-05-00 00:00:00'", [], of: 1)
        let tally = try #require(
            try TableAudit(store, [chat], at: Self.now).tallies()?.tallies[chat])
        #expect(tally.count(.stale) == 2 && tally.count(.revived) == 1)
    }

    @Test(
        "a table of several ranges is counted whole",
        arguments: TestEngine.available)
    func ranges(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.register(0..<2_500, at: 1_700_000_000_000)
        var seen: [Int] = []
        let audit = try TableAudit(try database.store(), [chat], at: Self.now, span: 1_000)
        let tallies = try #require(try audit.tallies(report: { seen.append($0) }))
        #expect(tallies.tallies[chat]?.rows == 2_500)
        #expect(seen == [1_000, 2_000, 2_500])
        #expect(try audit.tallies(shouldStop: { true }) == nil)
    }

    @Test(
        "sorting shows tokens in several rows, and users without a living token",
        arguments: TestEngine.available)
    func deep(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, user_id VARCHAR(20), "
                + "environment VARCHAR(20), device_token VARCHAR(64), invalidated_at BIGINT)")
        let rows: [(String, String, Int, Int64?)] = [
            ("ada", "production", 1, nil), ("ada", "sandbox", 1, nil),
            ("ben", "production", 1, nil),
            ("cho", "production", 2, 5), ("cho", "production", 3, 5), ("dee", "production", 4, nil),
            ("dee", "production", 5, nil), ("dee", "production", 5, nil),
        ]
        for (id, row) in rows.enumerated() {
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, ?, ?, ?)",
                [
                    .integer(Int64(id)), .text(row.0), .text(row.1),
                    .text(DeviceToken.numbered(row.2).hex),
                    row.3.map { .integer(1_700_000_000 + $0) } ?? .null,
                ])
        }
        let store = try database.store {
            $0.encoding = .hex
            $0.invalidatedAt.type = .epochSeconds
        }
        let sandbox = Partition(app: chat.app, environment: "sandbox")
        let audit = try DeepAudit(store, [chat, sandbox], user: "user_id")
        let shared = try audit.sharedTokens()
        #expect(shared.tokens == 2 && shared.rows == 3)
        #expect(shared.ofSeveralUsers == 1 && shared.inSeveralEnvironments == 1)
        let users = try #require(try audit.tokensPerUser(in: chat)).users
        #expect(users == [1: 2, 0: 1, 3: 1])
        var without: [String] = []
        try audit.usersWithoutToken(in: chat) { without.append($0) }
        #expect(without == ["cho"])
    }

    @Test(
        "a token with a mark beside the table is none of the living ones of its user",
        arguments: TestEngine.available)
    func deepBeside(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        for (number, user) in ["ada", "ada", "ben"].enumerated() {
            try database.register(.numbered(number), at: Self.time(daysAgo: 20), user: user)
        }
        let store = try database.store {
            $0.invalidatedAt.column = .absent
            $0.reason = .absent
        }
        try store.apply([1, 2].map { .dead($0, at: Self.time(daysAgo: 2)) })
        let audit = try DeepAudit(store, [chat], user: "user_id")
        #expect(try audit.tokensPerUser(in: chat)?.users == [0: 1, 1: 1])
        var without: [String] = []
        try audit.usersWithoutToken(in: chat) { without.append($0) }
        #expect(without == ["ben"])
    }
}
