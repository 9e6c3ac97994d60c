import APNsProtocol
import Database
import Encodings
import Foundation
import TokenHygiene
import TokenTable

/// The database engines for the conformance tests.
package enum TestEngine: String, Sendable, CaseIterable {
    case mariaDB = "MariaDB"
    case sqlite = "SQLite"

    /// The engines that are available in this environment. A run on another kind of server than MariaDB by
    /// itself comes after the usual one, which has tested SQLite.
    package static let available: [TestEngine] =
        MariaDBServer.fromEnvironment == nil
        ? [.sqlite] : Environment.text("PUSHSWEEP_TEST_SERVER") == nil ? allCases : [.mariaDB]

    /// Cases in which the engine decides nothing, neither a type nor a collation nor a statement of its own, each
    /// with an engine: in the usual run they take turns, in a long one each case meets all.
    package static func inTurn<Case>(_ cases: some Sequence<Case>) -> [(TestEngine, Case)] {
        zip(0..., cases).flatMap { place, one in
            Series.isLong
                ? available.map { ($0, one) } : [(available[place % available.count], one)]
        }
    }
}

/// Numbers in a column `seq`, as the table after FROM; MariaDB and MySQL take this form.
package func numbers(_ range: ClosedRange<Int>) -> String {
    "(SELECT seq + (\(range.lowerBound - 1)) AS seq FROM JSON_TABLE(CONCAT('[0', "
        + "REPEAT(',0', \(range.count - 1)), ']'), '$[*]' COLUMNS (seq FOR ORDINALITY)) AS ordinals) "
        + "AS numbers"
}

/// A separate database for one test: a schema on the test server or a file. It is removed with the
/// object.
package final class TokenDatabase {
    package let engine: TestEngine
    package let name: String
    /// The settings by which a store opens it.
    package var settings: StoreSettings
    /// A connection with all rights.
    package let sql: any SQLConnection

    /// Makes an empty database, on the server of the environment or on another one.
    package init(
        _ engine: TestEngine, on server: MariaDBServer? = MariaDBServer.fromEnvironment
    ) throws {
        self.engine = engine
        name = "ps_" + UUID().uuidString.lowercased().filter { $0 != "-" }
        switch engine {
        case .mariaDB:
            guard let server else { throw TestFailure(MariaDBServer.absence) }
            try server.connection().run("CREATE DATABASE \(name) CHARACTER SET utf8mb4")
            sql = try server.connection(database: name)
            settings = server.settings(database: name)
        case .sqlite:
            let path = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
            settings = StoreSettings(location: .sqlite(path: path))
            sql = SQLiteConnection(path: path, creates: true, settings)
            try sql.connect()
        }
    }

    deinit {
        switch engine {
        case .mariaDB: try? sql.run("DROP DATABASE \(name)")
        case .sqlite:
            guard case .sqlite(let path) = settings.location else { return }
            for suffix in ["", "-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: path + suffix)
            }
        }
    }

    /// A store on this database.
    package func store(
        pacing: Pacing = Pacing(), _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> TokenTable {
        var settings = settings
        change(&settings.mapping)
        return try TokenTable(settings, pacing: pacing)
    }

    /// The driver a store on this database would use, not yet connected.
    package func driver() -> any SQLConnection {
        switch settings.location {
        case .server(let server): MariaDBConnection(server, settings)
        case .sqlite(let path): SQLiteConnection(path: path, creates: false, settings)
        }
    }

    /// Makes a database with our own schema and these tokens, registered at `start`.
    package static func own(
        _ engine: TestEngine, _ numbers: Range<Int>? = nil
    ) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        if let numbers { try database.register(numbers, at: start) }
        return database
    }

    /// Makes a database with our side tables only.
    package static func withSideTables(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        try database.createSideTables()
        return database
    }

    /// The rows in the table of our own schema, or those under a condition.
    package func rows(where condition: String = "1 = 1") throws -> Int {
        try count("SELECT COUNT(*) FROM active_users WHERE \(condition)")
    }

    /// The rows without a mark.
    package func unmarked() throws -> Int { try rows(where: "invalidated_at IS NULL") }

    /// Whether the ledger has so many entries, each about another row.
    package func changedOnce(_ count: Int) throws -> Bool {
        try texts("SELECT COUNT(*), COUNT(DISTINCT row_key) FROM pushsweep_change")
            == [["\(count)", "\(count)"]]
    }

    /// Empties the ledger, as if the changes had been made by another program.
    package func forgetLedger() throws {
        try execute("DELETE FROM pushsweep_change")
        try execute("DELETE FROM pushsweep_commit WHERE number > 0")
        try execute("DELETE FROM pushsweep_part")
        try execute("DELETE FROM pushsweep_hold")
        try execute("DELETE FROM pushsweep_batch")
        try execute("DELETE FROM pushsweep_report")
    }

    /// Creates our whole schema.
    package func createOwnSchema() throws {
        for statement in SchemaScript.whole(for: settings.location).statements {
            try sql.run(statement)
        }
    }

    /// Creates our side tables only.
    package func createSideTables() throws {
        for statement in SchemaScript.sideTables(for: settings.location).statements {
            try sql.run(statement)
        }
    }

    /// Runs a statement.
    package func execute(_ statement: String, _ values: [SQLValue] = []) throws {
        // MySQL prepares no CREATE TRIGGER.
        if values.isEmpty { try sql.run(statement) } else { _ = try sql.execute(statement, values) }
    }

    /// Runs a statement on one engine only.
    package func execute(_ statement: String, on engine: TestEngine) throws {
        if engine == self.engine { try sql.run(statement) }
    }

    /// Has the table refuse marks of the rows whose column has a value, until `release`. SQLite serves no trigger
    /// that could refuse them, so there the computation of an index fails.
    package func hold(
        _ column: String, _ value: String, table: String = "active_users",
        once isMarked: String = "invalidated_at IS NOT NULL"
    ) throws {
        try execute(
            "CREATE TRIGGER hold AFTER UPDATE ON \(table) FOR EACH ROW IF OLD.\(column) = \(value) THEN "
                + "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'held', MYSQL_ERRNO = 31001; END IF",
            on: .mariaDB)
        try execute(
            "CREATE INDEX hold ON \(table) (CASE WHEN \(column) = \(value) THEN "
                + "abs(-9223372036854775807 - (\(isMarked))) END)", on: .sqlite)
    }

    /// Ends `hold`.
    package func release() throws {
        try execute(engine == .sqlite ? "DROP INDEX hold" : "DROP TRIGGER hold")
    }

    /// The rows of a query, each value as text.
    package func texts(_ query: String, _ values: [SQLValue] = []) throws -> [[String]] {
        let rows = try sql.query(query, values)
        return (0..<rows.count).map { rows.row($0).map(\.testText) }
    }

    /// The number that a query returns.
    package func count(_ query: String, _ values: [SQLValue] = []) throws -> Int {
        try sql.query(query, values).scalar?.count ?? -1
    }

    /// All columns of all rows of our own schema.
    package var contents: [[String]] {
        get throws { try texts("SELECT * FROM active_users ORDER BY id") }
    }

    /// Number of rows of our own schema with a mark.
    package var marked: Int {
        get throws { try rows(of: "active_users", "invalidated_at IS NOT NULL") }
    }

    /// Number of rows of a table that meet a condition.
    package func rows(of table: String, _ condition: String = "1 = 1") throws -> Int {
        try count("SELECT COUNT(*) FROM \(table) WHERE \(condition)")
    }

    /// Puts a row into `pushsweep_evidence`, as another sender does.
    package func report(
        _ token: String, status: Int? = 410, reason: String? = nil,
        time: Int64? = 1_700_000_000_000, app: String = "chat",
        on connection: (any SQLConnection)? = nil
    ) throws {
        _ = try (connection ?? sql).execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) "
                + "VALUES (?, ?, ?, ?, ?)",
            [
                .text(app), .text(token), .integer(Int64(status ?? 410)),
                reason.map(SQLValue.text) ?? .null, time.map(SQLValue.integer) ?? .null,
            ])
    }

    /// Changes the row of a numbered token in the table of our own schema.
    package func update(
        _ assignments: String, _ values: [SQLValue] = [], of number: Int
    ) throws {
        try execute(
            "UPDATE active_users SET \(assignments) WHERE device_token = ?",
            values + [.bytes(DeviceToken.numbered(number).bytes)])
    }

    /// Registers a token in the table of our own schema; times in milliseconds since 1970.
    package func register(
        _ token: DeviceToken, at registered: Int64, app: String = "chat",
        environment: String = "production", mark: Int64? = nil, user: String = "user"
    ) throws {
        try execute(
            "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at, "
                + "invalidated_at) VALUES (?, ?, ?, ?, ?, ?)",
            [
                .text(user), .text(app), .text(environment), .bytes(token.bytes),
                time(registered), mark.map(time) ?? .null,
            ])
    }

    /// Registers many numbered tokens at the same time.
    package func register(_ numbers: Range<Int>, at registered: Int64) throws {
        let row = "('user', 'chat', 'production', ?, ?)"
        try sql.begin()
        for first in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
            let block = first..<min(first + 100, numbers.upperBound)
            try execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, "
                    + "registered_at) VALUES "
                    + repeatElement(row, count: block.count).joined(separator: ", "),
                block.flatMap { [.bytes(DeviceToken.numbered($0).bytes), time(registered)] })
        }
        try sql.commit()
    }

    /// A time as a value for a column of our own schema.
    package func time(_ milliseconds: Int64) -> SQLValue {
        let clock = WallClock(microseconds: milliseconds * 1_000)
        return engine == .mariaDB ? .wallClock(clock) : .text(clock.text(fraction: 3))
    }

    /// The tokens and marks in the table of our own schema, in token order: `hex invalidated_at
    /// reason`.
    package func marks() throws -> [String] {
        try texts(
            "SELECT device_token, invalidated_at, invalid_reason FROM active_users "
                + "ORDER BY device_token, app_id, environment, id"
        ).map { $0.joined(separator: " ") }
    }
}

extension SQLValue {
    /// The value as text for tests.
    package var testText: String {
        switch self {
        case .null: "NULL"
        case .integer(let value): "\(value)"
        case .unsigned(let value): "\(value)"
        case .real(let value): "\(value)"
        case .text(let value): value.string
        case .bytes(let value), .rawText(let value):
            Hex.text(value)
        case .wallClock(let value): value.text(fraction: 3)
        }
    }
}

extension DeviceToken {
    /// A token of 32 bytes (or another length) that contains its number.
    package static func numbered(_ number: Int, count: Int = 32) -> DeviceToken {
        var bytes = [UInt8](repeating: 0xA5, count: count)
        for place in 0..<min(8, count) {
            bytes[count - 1 - place] = UInt8(truncatingIfNeeded: number >> (8 * place))
        }
        // A token has at least one byte, and so does `count` here.
        return DeviceToken(bytes) ?? DeviceToken.numbered(number, count: 32)
    }
}

extension TokenEvidence {
    /// Evidence that a numbered token was dead at a time in milliseconds.
    package static func dead(_ number: Int, at time: Int64, statements: Int = 1) -> TokenEvidence {
        TokenEvidence(
            token: .numbered(number), time: EpochMilliseconds(time), statements: statements)
    }
}
