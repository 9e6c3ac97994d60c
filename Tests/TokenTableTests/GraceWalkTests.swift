// One statement over a large table would take too long. So the walk uses statements that each read
// a limited number of rows, wherever the marks are.

import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000

/// A connection that asks the server after every query how many rows it read.
private final class MeteredConnection: SQLConnection {
    private let real: any SQLConnection
    /// The most rows that one query read, and that query.
    private(set) var worst = (rows: 0, sql: "")
    private(set) var queries = 0
    private var total = 0

    init(_ real: any SQLConnection) { self.real = real }

    var dialect: SQLDialect { real.dialect }

    func connect() throws(SQLFailure) {
        try real.connect()
        total = try examined()
    }

    func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        let rows = try real.query(sql, parameters)
        queries += 1
        let now = try examined()
        // The server's reads for its own counters do not count.
        if ["active_users", "pushsweep_invalid", "pushsweep_change", "pushsweep_batch"]
            .contains(where: sql.contains), now - total > worst.rows
        {
            worst = (now - total, sql)
        }
        total = try examined()
        return rows
    }

    func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        let count = try real.execute(sql, parameters)
        total = try examined()
        return count
    }

    func run(_ sql: String) throws(SQLFailure) { try real.run(sql) }

    func describe() throws(SQLFailure) -> ServerDescription { try real.describe() }

    /// Rows and index entries read so far by this connection; the engine counts them one by one.
    private func examined() throws(SQLFailure) -> Int {
        let names = ["first", "key", "next", "prev", "rnd", "rnd_next"].map { "Handler_read_" + $0 }
        let status = try real.query("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return (0..<status.count).filter { names.contains(status[$0, 0].text ?? "") }
            .reduce(0) { $0 + (Int(status[$1, 1].text ?? "") ?? 0) }
    }
}

@Suite(
    "The walk over a huge table with few marks",
    .enabled(if: TestEngine.available.contains(.mariaDB), "needs a MariaDB"))
struct GraceWalkTests {
    private static let rows = 60_000
    private static let allowed = 25_000

    enum Shape: CaseIterable {
        case number
        case composite
        case text
        case markBeside
    }

    private func fill(_ database: TokenDatabase, _ shape: Shape) throws {
        try database.createSideTables()
        let key =
            switch shape {
            case .number, .markBeside: "id BIGINT PRIMARY KEY"
            case .composite:
                "number BIGINT NOT NULL, shard VARCHAR(8) NOT NULL, PRIMARY KEY (shard, number)"
            case .text: "id VARCHAR(40) COLLATE utf8mb4_general_ci PRIMARY KEY"
            }
        let mark = shape == .markBeside ? "" : ", invalidated_at DATETIME(3) NULL"
        try database.sql.run(
            "CREATE TABLE active_users (\(key), app_id VARCHAR(20), environment VARCHAR(20), "
                + "device_token VARBINARY(100), registered_at DATETIME(3)\(mark), KEY (device_token))"
        )
        let columns = shape == .composite ? "number, shard" : "id"
        let values =
            switch shape {
            case .number, .markBeside: "seq"
            case .composite: "seq, CONCAT('s', seq % 7)"
            case .text: "CONCAT('User-', LPAD(seq, 9, '0'))"
            }
        try database.sql.run(
            "INSERT INTO active_users (\(columns), app_id, environment, device_token, registered_at) "
                + "SELECT \(values), 'chat', 'production', UNHEX(LPAD(HEX(seq), 64, '0')), "
                + "'2023-01-01' FROM \(numbers(1...Self.rows))")
        guard shape == .markBeside else {
            let last = "UNHEX(LPAD(HEX(\(Self.rows - 3)), 64, '0'))"
            try database.sql.run(
                "UPDATE active_users SET invalidated_at = '2023-12-01' WHERE device_token = \(last)"
            )
            return
        }
        // All marks but one are about another app.
        try database.sql.run(
            "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at) SELECT "
                + "IF(seq = \(Self.rows - 3), 'chat', 'other'), 'production', "
                + "UNHEX(LPAD(HEX(seq), 64, '0')), '2023-12-01' FROM \(numbers(1...Self.rows))")
    }

    @Test("the walk reads a limited number of rows in each statement", arguments: Shape.allCases)
    func bounded(_ shape: Shape) throws {
        let database = try TokenDatabase(.mariaDB)
        try fill(database, shape)
        let connection = MeteredConnection(database.driver())
        let store = try TokenTable(database.settings, connection, hurried())
        let now = start + 30 * day
        #expect(try store.due(.afterAWeek(at: now)) == 1)
        #expect(
            connection.worst.rows <= Self.allowed, "\(connection.worst), \(connection.queries)")
        // The walk does not use a statement for every few rows either.
        #expect(connection.queries < 200, "\(connection.queries)")
        #expect(try store.remove(.afterAWeek(at: now)) == 1)
        #expect(
            connection.worst.rows <= Self.allowed, "\(connection.worst), \(connection.queries)")
        #expect(try database.rows() == Self.rows - 1)
    }

    @Test(
        "the walk skips old entries of the ledger and reads young ones in pages"
    )
    func ledger() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<10)
        // Two feeds each: a long one and many short ones, of the period and before it.
        for (age, run) in [(40, "old"), (2, "new")] {
            let time = "UTC_TIMESTAMP(3) - INTERVAL \(age) DAY"
            let first = run == "old" ? 1 : 10_000
            let part = first
            try database.sql.run(
                "INSERT INTO pushsweep_run (id, kind, started, host) VALUES ('\(run)', 'send', "
                    + "UTC_TIMESTAMP(3) - INTERVAL 90 DAY, 'h')")
            try database.sql.run(
                "INSERT INTO pushsweep_change (part, seq, action, row_key, evidence_at, source, "
                    + "changed_at) SELECT \(part), seq, 'mark', seq + 100, "
                    + "'2024-01-05', 'feedback', \(time) FROM \(numbers(0...Self.rows - 1))")
            try database.sql.run(
                "INSERT INTO pushsweep_change (part, seq, action, row_key, evidence_at, source, "
                    + "changed_at) SELECT \(part) + seq, 0, 'mark', seq, "
                    + "'2024-01-05', 'Unregistered', \(time) FROM \(numbers(1...2_000))")
            let columns =
                "number, run, part, app, environment, source, first_seq, last_seq, committed_at"
            try database.sql.run(
                "INSERT INTO pushsweep_commit (\(columns)) SELECT \(first) + seq, '\(run)', "
                    + "\(part), 'chat', 'production', 'feedback', seq * 1000, seq * 1000 + 999, \(time) "
                    + "FROM \(numbers(0...Self.rows / 1_000 - 1))")
            try database.sql.run(
                "INSERT INTO pushsweep_commit (\(columns)) SELECT \(first) + 100 + seq, '\(run)', "
                    + "\(part) + seq, 'chat', 'production', 'feedback', 0, 0, \(time) "
                    + "FROM \(numbers(1...2_000))")
        }
        try database.execute(
            "INSERT INTO pushsweep_commit SELECT 0, '', 0, '', '', '', 0, MAX(number), "
                + "UTC_TIMESTAMP(3) FROM pushsweep_commit")
        try database.execute(
            "UPDATE active_users SET invalidated_at = '2024-01-05' WHERE id <= 5")
        try database.execute("DELETE FROM active_users WHERE id IN (1, 2)")
        let connection = MeteredConnection(database.driver())
        let store = try TokenTable(database.settings, connection, hurried())
        let now = try store.session.databaseTime().rawValue
        // Rows 3 to 5 carry old marks that the short feeds have set two days ago.
        #expect(try store.due(.afterAWeek(at: now)) == 0)
        #expect(
            connection.worst.rows <= Self.allowed, "\(connection.worst), \(connection.queries)")
        #expect(connection.queries < 200, "\(connection.queries)")
        #expect(try store.remove(.afterAWeek(at: now)) == 0)
        #expect(try store.due(.afterAWeek(at: now + 6 * day)) == 3)
    }

    @Test(
        "counting living rows reads as few rows in each statement",
        arguments: [Shape.number, .composite, .text])
    func living(_ shape: Shape) throws {
        let database = try TokenDatabase(.mariaDB)
        try fill(database, shape)
        try database.sql.run("UPDATE active_users SET invalidated_at = '2023-12-01'")
        try database.sql.run("UPDATE active_users SET invalidated_at = NULL LIMIT 40")
        let connection = MeteredConnection(database.driver())
        let store = try TokenTable(database.settings, connection, hurried())
        #expect(try store.livingRows(in: chat).count(atMost: 1_000) == 40)
        #expect(
            connection.worst.rows <= Self.allowed, "\(connection.worst), \(connection.queries)")
        #expect(try store.livingRows(in: chat).count(atMost: 30) == 30)
    }
}
