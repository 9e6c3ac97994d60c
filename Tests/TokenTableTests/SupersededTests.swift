import APNsProtocol
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000

@Suite("The older of two tokens of a device")
struct SupersededTests {
    /// Our own table with columns of device and kind whose collation takes other cases for the same.
    private static func database(
        _ engine: TestEngine, indexed: Bool = true
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        let collation =
            engine == .sqlite
            ? "COLLATE NOCASE" : "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        for column in ["device_id VARCHAR(64)", "token_kind VARCHAR(20)"] {
            try database.execute("ALTER TABLE active_users ADD COLUMN \(column) \(collation)")
        }
        if indexed { try database.execute("CREATE INDEX of_device ON active_users (device_id)") }
        return database
    }

    private static func store(
        _ database: TokenDatabase, kind: OptionalColumn? = .named("token_kind")
    ) throws -> TokenTable {
        try database.store {
            $0.device = .named("device_id")
            $0.kind = kind
        }
    }

    /// Registers a token of a device that has no row of the token yet.
    private static func register(
        _ token: DeviceToken, of device: String?, kind: String? = "alert", at time: Int64,
        mark: Int64? = nil, environment: String = "production", in database: TokenDatabase
    ) throws {
        try database.register(token, at: time, environment: environment, mark: mark)
        guard let device else { return }
        try database.execute(
            "UPDATE active_users SET device_id = ?, token_kind = ? WHERE device_token = ? "
                + "AND environment = ? AND device_id IS NULL",
            [
                .text(device), kind.map(SQLValue.text) ?? .null, .bytes(token.bytes),
                .text(environment),
            ])
    }

    private static func register(
        _ number: Int, of device: String?, kind: String? = "alert", at time: Int64,
        mark: Int64? = nil, in database: TokenDatabase
    ) throws {
        try register(
            .numbered(number), of: device, kind: kind, at: time, mark: mark, in: database)
    }

    /// All that a search finds, with the numbers of crowded devices.
    private static func found(
        _ store: TokenTable, in partition: Partition = chat, span: Int = 10_000
    ) throws -> (tokens: [SupersededToken], crowded: Int) {
        var search = try SupersededSearch(store, in: partition, span: span)
        var (tokens, crowded) = ([SupersededToken](), 0)
        while let range = try search.next() {
            tokens += range.tokens
            crowded += range.crowded
        }
        return (tokens, crowded)
    }

    private static func older(_ store: TokenTable, span: Int = 10_000) throws -> Set<DeviceToken> {
        Set(try found(store, span: span).tokens.map(\.older.token))
    }

    @Test(
        "each older token of a device is found with the one that it registered last, in ranges of any size",
        arguments: TestEngine.available)
    func older(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        for device in 0..<12 {
            for step in 0..<3 {
                try Self.register(
                    device * 10 + step, of: "device-\(device)", at: start + Int64(step) * 2 * day,
                    in: database)
            }
        }
        try Self.register(900, of: "alone", at: start, in: database)
        let store = try Self.store(database)
        let all = Set((0..<12).flatMap { [$0 * 10, $0 * 10 + 1] }.map { DeviceToken.numbered($0) })
        for span in [1, 2, 5, 7, 10_000] { #expect(try Self.older(store, span: span) == all) }
        let first = try #require(
            try Self.found(store).tokens.first { $0.older.token == .numbered(10) })
        #expect(first.newer.token == .numbered(12))
        #expect(first.older.registered.rawValue == start)
        #expect(first.newer.registered.rawValue == start + 4 * day)
        #expect(
            first.older.key.text(wholeTokens: false) != first.newer.key.text(wholeTokens: false))
        #expect(first.evidence.time.rawValue == start + 3 * day)
        #expect(try database.unmarked() == 37)
    }

    @Test(
        "a token is left that registered less than a day before, and one of a day is found",
        arguments: TestEngine.available)
    func limit(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        try Self.register(1, of: "a", at: start, in: database)
        try Self.register(2, of: "a", at: start + day - 1, in: database)
        try Self.register(3, of: "b", at: start, in: database)
        try Self.register(4, of: "b", at: start + day, in: database)
        let store = try Self.store(database)
        let found = try Self.found(store).tokens
        #expect(found.map(\.older.token) == [.numbered(3)])
        // The evidence marks exactly what was found.
        try store.apply(found.map(\.evidence))
        #expect(try database.unmarked() == 3)
        #expect(try Self.older(store).isEmpty)
    }

    @Test(
        "kinds, lengths, cases and environments stand apart, and what names no device or kind is left",
        arguments: TestEngine.available)
    func apart(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let later = start + 5 * day
        // Two kinds, also by their case alone.
        try Self.register(1, of: "a", kind: "alert", at: start, in: database)
        try Self.register(2, of: "a", kind: "voip", at: later, in: database)
        try Self.register(3, of: "a", kind: "Alert", at: later, in: database)
        // Two lengths.
        try Self.register(4, of: "b", at: start, in: database)
        try Self.register(.numbered(5, count: 80), of: "b", at: later, in: database)
        // Two devices by their case alone.
        try Self.register(6, of: "case", at: start, in: database)
        try Self.register(7, of: "CASE", at: later, in: database)
        // No device, and what stands for none.
        let placeholders = ["", "0", "00000000-0000-0000-0000-000000000000", "---"]
        for (place, device) in placeholders.enumerated() {
            try Self.register(10 + 2 * place, of: device, at: start, in: database)
            try Self.register(11 + 2 * place, of: device, at: later, in: database)
        }
        try Self.register(30, of: nil, at: start, in: database)
        try Self.register(31, of: nil, at: later, in: database)
        // No kind.
        try Self.register(32, of: "c", kind: nil, at: start, in: database)
        try Self.register(33, of: "c", kind: "alert", at: later, in: database)
        // Two environments.
        try Self.register(34, of: "d", at: start, in: database)
        try Self.register(
            .numbered(35), of: "d", at: later, environment: "sandbox", in: database)
        let store = try Self.store(database)
        #expect(try Self.older(store).isEmpty)
        #expect(try Self.found(store).crowded == 0)
        // Where all are said to be of one kind, the kind of the rows says nothing.
        try database.execute("UPDATE active_users SET token_kind = 'alert'")
        let one = try Self.store(database, kind: .absent)
        #expect(try Self.older(one) == [.numbered(1), .numbered(32)])
    }

    /// A row of a table whose tokens may stand in several rows.
    private struct Row {
        let token: Int
        let device: String?
        let registered: Int64?
        var mark: Int64?
    }

    /// Runs a body with a table of some rows.
    private static func with<Value>(
        _ engine: TestEngine, _ rows: [Row], _ body: (TokenTable) throws -> Value
    ) throws -> Value {
        let database = try TokenDatabase.withSideTables(engine)
        let time = engine == .sqlite ? "TEXT" : "DATETIME(3) NULL"
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(255), "
                + "registered_at \(time), invalidated_at \(time), device_id VARCHAR(64))")
        try database.execute("CREATE INDEX of_device ON active_users (device_id)")
        for (number, row) in rows.enumerated() {
            try database.execute(
                "INSERT INTO active_users VALUES (\(number), ?, ?, ?, ?)",
                [
                    .text(DeviceToken.numbered(row.token).hex),
                    row.registered.map(database.time) ?? .null,
                    row.mark.map(database.time) ?? .null, row.device.map(SQLValue.text) ?? .null,
                ])
        }
        let store = try database.store {
            $0.encoding = .hex
            $0.device = .named("device_id")
            $0.kind = .absent
        }
        return try withExtendedLifetime(database) { try body(store) }
    }

    @Test(
        "dead rows, registrations that are no times, and tokens that another device has too decide nothing",
        arguments: TestEngine.available)
    func unclear(_ engine: TestEngine) throws {
        let later = start + 5 * day
        let rows = [
            Row(token: 1, device: "a", registered: start, mark: start + 1),
            Row(token: 2, device: "a", registered: later),
            Row(token: 3, device: "b", registered: start),
            Row(token: 4, device: "b", registered: later, mark: later + 1),
            // A registration in the future would be later than any other.
            Row(token: 5, device: "c", registered: start),
            Row(token: 6, device: "c", registered: 4_000_000_000_000),
            // Another device, no device, and no registration.
            Row(token: 7, device: "d", registered: start),
            Row(token: 7, device: "e", registered: start),
            Row(token: 8, device: "d", registered: later),
            Row(token: 9, device: "f", registered: start),
            Row(token: 9, device: nil, registered: start),
            Row(token: 10, device: "f", registered: later),
            Row(token: 11, device: "g", registered: start),
            Row(token: 11, device: "g", registered: nil),
            Row(token: 12, device: "g", registered: later),
            // Two rows of one device and token are one, by the later of their registrations.
            Row(token: 13, device: "h", registered: start),
            Row(token: 13, device: "h", registered: later),
            Row(token: 14, device: "h", registered: later + 1),
            Row(token: 15, device: "i", registered: start),
            Row(token: 15, device: "i", registered: start + 1),
            Row(token: 16, device: "i", registered: later),
        ]
        let found = try Self.with(engine, rows) { try Self.found($0).tokens }
        #expect(found.map(\.older.token) == [.numbered(15)])
        #expect(found.first?.older.registered.rawValue == start + 1)
    }

    @Test(
        "a value that more than ten living tokens share is counted as crowded, and no token of it is found",
        arguments: TestEngine.available)
    func crowded(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        for number in 0..<11 {
            try Self.register(
                number, of: "one-for-all", at: start + Int64(number) * day, in: database)
        }
        for number in 20..<30 {
            try Self.register(number, of: "busy", at: start + Int64(number) * day, in: database)
        }
        let found = try Self.found(Self.store(database))
        #expect(found.crowded == 1)
        #expect(
            Set(found.tokens.map(\.older.token)) == Set((20..<29).map { DeviceToken.numbered($0) }))
    }

    @Test(
        "what devices of different users share, words for no device, and a newer token of this week mark nothing",
        arguments: TestEngine.available)
    func doubtful(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        for (place, device) in ["(null)", "Unknown", "iPhone", "model-x"].enumerated() {
            try Self.register(10 * place, of: device, at: start, in: database)
            try Self.register(10 * place + 1, of: device, at: start + 9 * day, in: database)
        }
        try database.update("user_id = ?", [.text("another")], of: 31)
        try Self.register(50, of: "new", at: start, in: database)
        try Self.register(51, of: "new", at: now - 6 * day, in: database)
        try Self.register(60, of: "tried", at: start, in: database)
        try Self.register(61, of: "tried", at: now - 8 * day, in: database)
        let found = try Self.found(Self.store(database))
        #expect(found.tokens.map(\.older.token) == [.numbered(60)])
        #expect(found.crowded == 1)
    }

    @Test(
        "tokens that another column calls of two kinds supersede none, where the settings say that all are of one",
        arguments: TestEngine.available)
    func oneKind(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        try Self.register(1, of: "a", kind: "alert", at: start, in: database)
        try Self.register(2, of: "a", kind: "VoIP", at: start + 9 * day, in: database)
        try Self.register(3, of: "b", kind: nil, at: start, in: database)
        try Self.register(4, of: "b", kind: nil, at: start + 9 * day, in: database)
        // So many tokens are of many devices, also in two kinds.
        for number in 0..<12 {
            try Self.register(
                20 + number, of: "c", kind: number < 6 ? "x" : "y",
                at: start + Int64(number) * 2 * day, in: database)
        }
        #expect(try Self.older(Self.store(database, kind: .absent)) == [.numbered(3)])
        #expect(!(try Self.older(Self.store(database)).contains(.numbered(3))))
    }

    @Test(
        "a token whose mark a person took back is never found again, and the others of its device are",
        arguments: TestEngine.available)
    func undone(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        for number in 0..<3 {
            try Self.register(number, of: "a", at: start + Int64(number) * 2 * day, in: database)
        }
        let store = try Self.store(database)
        let found = try Self.found(store).tokens
        try store.sweep("sweep", [found[0].evidence])
        #expect(try database.marked == 1)
        #expect(try Self.older(store) == [found[1].older.token])
        try store.undo(.run("sweep"))
        #expect(try database.marked == 0)
        #expect(try Self.older(store) == [found[1].older.token])
    }

    @Test(
        "marks beside the table count, and a suspected token protects its device",
        arguments: TestEngine.available)
    func beside(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        for number in 0..<2 {
            try Self.register(number, of: "a", at: start + Int64(number) * 2 * day, in: database)
            try Self.register(
                10 + number, of: "b", at: start + Int64(number) * 2 * day, in: database)
        }
        let store = try database.store {
            $0.device = .named("device_id")
            $0.kind = .absent
            $0.invalidatedAt.column = .absent
        }
        let found = try Self.found(store).tokens
        #expect(found.map(\.older.token) == [.numbered(0), .numbered(10)])
        try store.apply([found[0].evidence])
        #expect(try database.rows(of: "pushsweep_invalid") == 1)
        #expect(try Self.older(store) == [.numbered(10)])
        try database.execute(
            "INSERT INTO pushsweep_suspect (token, app, environment, reason, first_at, last_at, times, "
                + "changed_at) VALUES (?, 'chat', 'production', 'BadDeviceToken', ?, ?, 1, ?)",
            [.bytes(DeviceToken.numbered(11).bytes)]
                + [SQLValue](repeating: database.time(start), count: 3))
        #expect(try Self.older(store).isEmpty)
        // A proof that a sweep has set aside protects the device, too.
        try database.execute("UPDATE pushsweep_suspect SET times = 0")
        #expect(try Self.older(store).isEmpty)
        try database.execute("DELETE FROM pushsweep_suspect")
        #expect(try Self.older(store) == [.numbered(10)])
    }

    @Test(
        "a table without an index, a registration or a word about kinds is refused, and the refusal says what helps",
        arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let database = try Self.database(engine, indexed: false)
        func refusal(_ change: (inout TableMapping) -> Void) throws -> String {
            let store = try database.store {
                $0.device = .named("device_id")
                $0.kind = .absent
                change(&$0)
            }
            do {
                try store.requireSuperseded()
                return ""
            } catch {
                #expect(error.code == .configuration)
                return error.sentence
            }
        }
        let statement = try refusal { _ in }
        #expect(statement.contains("no index begins with column device_id"))
        #expect(try refusal { $0.device = nil }.contains("store.active-users.device.column"))
        #expect(try refusal { $0.kind = nil }.contains("store.active-users.kind.column"))
        #expect(
            try refusal { $0.registeredAt.column = .absent }.contains(
                "store.active-users.registered-at.column"))
        #expect(try refusal { $0.kind = .named("nothing") }.contains("no column nothing"))
        let create = try #require(statement.range(of: "CREATE INDEX "))
        try database.execute(String(statement[create.lowerBound...]))
        #expect(try refusal { _ in } == "")
    }
}
