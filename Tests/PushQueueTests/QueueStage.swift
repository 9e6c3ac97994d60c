import APNsProtocol
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

    var testDescription: String { "\(engine.rawValue), \(tables.rawValue) tables" }
}

/// A database with a queue in it.
struct QueueStage {
    let database: TokenDatabase
    let tables: QueueTables

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
        try database.store().enqueue(
            numbers.map {
                NewNotification(token: .numbered($0), payload: Self.payload($0))
            }, for: partition)
    }

    static func payload(_ number: Int) -> [UInt8] {
        Array("{\"aps\":{\"alert\":\"\(number)\"}}".utf8)
    }

    /// Puts a text or bytes where a token should be.
    func enqueue(raw token: SQLValue) throws {
        try database.execute(
            tables == .own
                ? "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, '{}')"
                : "INSERT INTO push_queue (device_token, payload, time_queued) "
                    + "VALUES (?, '{}', '2024-01-01 00:00:00')", [token])
    }

    /// A sender's queue.
    func queue(
        run: String = "run-a", seconds: Int = 60, pacing: Pacing = Pacing(),
        _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> PushQueue {
        try PushQueue(
            database.store(pacing: pacing, change),
            QueueLease(run: run, host: "host", seconds: seconds))
    }

    /// A sender's queue over a connection with faults.
    func queue(
        _ faults: [FaultyConnection.Fault], run: String = "run-a"
    ) throws -> (PushQueue, FaultyConnection) {
        let connection = FaultyConnection(database.driver(), faults)
        let store = try TokenTable(database.settings, connection, hurried())
        return (try PushQueue(store, QueueLease(run: run, host: "host")), connection)
    }

    func counts() throws -> [DeliveryState: Int] { try database.store().queueCounts() }

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
