import APNsProtocol
import Findings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// The tables a queue is tested on.
enum QueueTables: String, Sendable, CaseIterable {
    /// Our own schema.
    case own
    /// The tutorial's two unchanged tables, and our side tables.
    case tutorial
}

/// An engine and the tables on it.
struct QueueCase: Sendable, CustomTestStringConvertible {
    let engine: TestEngine
    let tables: QueueTables

    static let all = TestEngine.available.flatMap { engine in
        QueueTables.allCases.map { QueueCase(engine: engine, tables: $0) }
    }
    /// Each engine and each kind of tables once, for what meets faults at many statements; the long run
    /// takes all.
    static let crossed = Series.isLong ? all : [own.last, tutorial.first].compactMap { $0 }
    static let own = all.filter { $0.tables == .own }
    static let tutorial = all.filter { $0.tables == .tutorial }

    var testDescription: String { "\(engine.rawValue), \(tables.rawValue) tables" }
}

extension PushQueue {
    /// Opens the queue for a run whose batches have random names.
    convenience init(_ store: TokenTable, _ lease: QueueLease) throws(StoreFailure) {
        try self.init(store, lease, newName: { APNsID.random().description })
    }

    /// Where the answers of tests come from.
    static let origin = ReportOrigin(chat, gateway: "api.push.apple.com:443")

    /// Writes results of which none says anything against a token.
    func record(_ results: [DeliveryResult], of claim: inout Batch) throws(StoreFailure) -> Int? {
        try record(results, of: &claim, heard: [], from: Self.origin)
    }
}

/// A database with a queue in it.
struct QueueStage {
    let database: TokenDatabase
    let tables: QueueTables

    /// Registers numbered tokens, and queues notifications for them or for those of `rows`.
    init(_ queue: QueueCase, _ tokens: Range<Int>, rows: (any Sequence<Int>)? = nil) throws {
        try self.init(queue)
        try register(tokens)
        try enqueue(rows.map { $0.map { $0 } } ?? Array(tokens))
    }

    init(_ queue: QueueCase) throws {
        database = try TokenDatabase(queue.engine)
        tables = queue.tables
        switch tables {
        case .own: try database.createOwnSchema()
        case .tutorial:
            try database.createSideTables()
            let isServer = queue.engine == .mariaDB
            try database.sql.run(
                "CREATE TABLE active_users (udid varchar(40) NOT NULL PRIMARY KEY, "
                    + "device_token varchar(64) NOT NULL, nickname varchar(255) NOT NULL, "
                    + "secret_code varchar(255) NOT NULL, ip_address varchar(32) NOT NULL)"
                    + (isServer ? " ENGINE=InnoDB DEFAULT CHARSET=utf8" : ""))
            try database.sql.run(
                "CREATE TABLE push_queue (message_id "
                    + (isServer
                        ? "integer NOT NULL AUTO_INCREMENT, "
                        : "integer PRIMARY KEY AUTOINCREMENT, ")
                    + "device_token varchar(64) NOT NULL, payload varchar(256) NOT NULL, "
                    + "time_queued datetime NOT NULL, time_sent datetime"
                    + (isServer
                        ? ", PRIMARY KEY (message_id)) ENGINE=InnoDB DEFAULT CHARSET=latin1" : ")"))
        }
    }

    var key: String { tables == .own ? "id" : "message_id" }

    /// Registers numbered tokens, one user each.
    func register(_ numbers: Range<Int>, upperCase: Bool = false) throws {
        if tables == .own { return try database.register(numbers, at: start) }
        try database.sql.begin()
        for number in numbers {
            let hex = DeviceToken.numbered(number).hex
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'nick', 'room', '::1')",
                [.text("udid\(number)"), .text(upperCase ? hex.uppercased() : hex)])
        }
        try database.sql.commit()
    }

    /// Queues a notification for each of some numbered tokens.
    func enqueue(_ numbers: some Sequence<Int>, in partition: Partition = chat) throws {
        try database.sql.begin()
        for number in numbers {
            let token = DeviceToken.numbered(number)
            let payload = Self.payload(number)
            switch tables {
            case .own:
                try database.execute(
                    "INSERT INTO push_queue (app_id, environment, device_token, payload) "
                        + "VALUES (?, ?, ?, ?)",
                    [
                        .text(partition.app), .text(partition.environment), .bytes(token.bytes),
                        .text(payload),
                    ])
            case .tutorial:
                try database.execute(
                    "INSERT INTO push_queue (device_token, payload, time_queued) "
                        + "VALUES (?, ?, '2024-01-01 00:00:00')",
                    [.text(token.hex), .text(payload)])
            }
        }
        try database.sql.commit()
    }

    private static func payload(_ number: Int) -> String {
        "{\"aps\":{\"alert\":\"\(number)\"}}"
    }

    /// Puts a text or bytes where a token should be.
    func enqueue(raw token: SQLValue) throws {
        try database.execute(
            tables == .own
                ? "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, '{}')"
                : "INSERT INTO push_queue (device_token, payload, time_queued) "
                    + "VALUES (?, '{}', '2024-01-01 00:00:00')", [token])
    }

    /// A sender's queue, also over a connection of its own.
    func queue(
        run: String = "run-a", over connection: (any SQLConnection)? = nil, _ pacing: Pacing? = nil
    ) throws -> PushQueue {
        try PushQueue(
            connection.map {
                try TokenTable(database.settings, $0, pacing ?? hurried())
            } ?? database.store(), QueueLease(run: run, host: "host", seconds: 60))
    }

    /// A sender's queue over a connection with faults.
    func queue(
        _ faults: [FaultyConnection.Fault], run: String = "run-a"
    ) throws -> (PushQueue, FaultyConnection) {
        let connection = FaultyConnection(database.driver(), faults)
        return (try queue(run: run, over: connection), connection)
    }

    /// How many rows are in each state, of all apps.
    func counts() throws -> [DeliveryState: Int] {
        let rows = try database.sql.query(
            tables == .own
                ? "SELECT id, state, NULL FROM push_queue"
                : "SELECT q.message_id, COALESCE(d.state, 'pending'), q.time_sent FROM push_queue q "
                    + "LEFT JOIN pushsweep_delivery d ON d.queue = 'push_queue' "
                    + "AND d.queue_key = q.message_id", [])
        let claimed = try ClaimRecord.openClaims(of: "push_queue", database.sql).keys
        var counts: [DeliveryState: Int] = [:]
        for row in 0..<rows.count {
            var state = try #require(DeliveryState(rawValue: rows[row, 1].testText))
            if !state.isFinal, rows[row, 2] != .null { state = .sent }
            if !state.isFinal, claimed.contains(try #require(rows[row, 0].integer)) {
                state = .claimed
            }
            counts[state, default: 0] += 1
        }
        return counts
    }

    /// What a dry run finds: the rows that would be sent, and the others by the reason.
    func preview(
        limit: Int = .max, by store: TokenTable? = nil
    ) throws -> (sendable: Int, skipped: [SkipReason: Int]) {
        var (sendable, skipped) = (0, [SkipReason: Int]())
        try (store ?? database.store()).previewClaims(chat, limit: limit) { batch in
            sendable += batch.notifications.count
            skipped.merge(batch.skipped, uniquingKeysWith: +)
        }
        return (sendable, skipped)
    }

    /// State, attempts and reason of each row that has them, by key.
    func states() throws -> [String] {
        try database.texts(
            tables == .own
                ? "SELECT id, state, attempts, COALESCE(reason, '-') FROM push_queue ORDER BY id"
                : "SELECT queue_key, state, attempts, COALESCE(reason, '-') "
                    + "FROM pushsweep_delivery ORDER BY queue_key"
        ).map { $0.joined(separator: " ") }
    }

    /// Ends the lease of every claim.
    func endLeases() throws {
        try database.execute(
            "UPDATE pushsweep_claim SET expires_at = ? WHERE id > 0", [database.time(start)])
    }
}

extension PushQueue {
    /// Claims from the start.
    func claim(_ limit: Int = 100, _ partition: Partition = chat) throws -> Batch? {
        var cursor = QueueCursor()
        return try claim(partition, limit: limit, from: &cursor)
    }

    /// Sends a batch, or all that is due, with the results in parts; the rows in order, and how many were
    /// skipped.
    func drain(
        _ first: Batch? = nil, limit: Int = 100, parts: Int = 1_000
    ) throws -> (keys: [Int64], skipped: Int) {
        var cursor = QueueCursor()
        var (keys, skipped): ([Int64], Int) = ([], 0)
        var next = try first ?? claim(chat, limit: limit, from: &cursor)
        while var claim = next {
            keys += claim.keys
            skipped += claim.settled.count
            if claim.open > 0 {
                guard try handOver(claim) else { throw TestFailure("lease lost") }
                for part in claim.results(.sent).runs(of: parts) {
                    guard try record(Array(part), of: &claim) == 0 else {
                        throw TestFailure("not recorded")
                    }
                }
            }
            next = try self.claim(chat, limit: limit, from: &cursor)
        }
        return (keys, skipped)
    }
}

/// Passes everything on to another connection; a base for those that do something on the way.
class PassingConnection: SQLConnection {
    let real: any SQLConnection

    init(_ real: any SQLConnection) { self.real = real }

    var dialect: SQLDialect { real.dialect }
    var isInTransaction: Bool { real.isInTransaction }
    var mostBytes: Int { real.mostBytes }

    func connect() throws(SQLFailure) { try real.connect() }

    func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        try real.query(sql, parameters)
    }

    func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        try real.execute(sql, parameters)
    }

    func run(_ sql: String) throws(SQLFailure) { try real.run(sql) }

    func describe() throws(SQLFailure) -> ServerDescription { try real.describe() }
}

extension Batch {
    var keys: [Int64] { notifications.map(\.row) }

    /// The rows that must not be sent, counted by the reason.
    var skipped: [SkipReason: Int] {
        settled.reduce(into: [:]) { counts, result in
            if let reason = result.outcome.reason.flatMap(SkipReason.init) {
                counts[reason, default: 0] += 1
            }
        }
    }

    /// The same result for all.
    func results(_ outcome: Outcome) -> [DeliveryResult] {
        keys.map { DeliveryResult(key: $0, outcome) }
    }
}
