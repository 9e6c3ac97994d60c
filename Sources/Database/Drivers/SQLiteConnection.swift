import Foundation
import GRDB
import GRDBSQLite

// SQLite through GRDB. The queue is used as a plain connection: every statement is one dispatch to
// it, and the store opens and closes transactions as on any server. GRDB calls that unsafe only
// because two users of a queue could mix their statements; the store is confined to one thread and
// owns its queue. Values are passed by length, see SQLiteStatement.
//
// `synchronous=FULL` because a chunk that was reported as applied must outlive a power cut: the
// journal drops evidence on the strength of that report. Write-ahead logging lets the application
// read and register while a chunk is written. It is set when this program creates the file; an
// existing file keeps the journal mode that its owner chose.

/// A connection to a SQLite file.
package final class SQLiteConnection: SQLConnection {
    /// The SQL dialect of SQLite.
    package let dialect = SQLDialect.sqlite

    /// The version of the loaded library.
    package static var libraryVersion: String { String(cString: sqlite3_libversion()) }

    private let path: String
    private let creates: Bool
    private let settings: StoreSettings
    private var queue: DatabaseQueue?
    private var statements = StatementCache<SQLiteStatement>(capacity: 64)
    /// Whether the file stores text as UTF-8.
    private var isUTF8 = true

    /// Stores the path; `connect` opens the file, and creates it only if `creates` is true.
    package init(path: String, creates: Bool, _ settings: StoreSettings) {
        self.path = path
        self.creates = creates
        self.settings = settings
    }

    /// Opens the file; see `SQLConnection.connect`. Throws `SQLFailure`.
    package func connect() throws(SQLFailure) {
        statements.removeAll()
        queue = nil
        var configuration = Configuration()
        configuration.label = "pushsweep.tokens"
        configuration.busyMode = .timeout(Double(settings.timeouts.lockWait))
        configuration.allowsUnsafeTransactions = true
        let creates = creates
        configuration.prepareDatabase { database in
            if creates { try database.execute(sql: "PRAGMA journal_mode = WAL") }
            try database.execute(sql: "PRAGMA synchronous = FULL")
        }
        do {
            if !creates && !Self.isFile(path) {
                throw SQLFailure(
                    kind: .configuration, code: 14, message: "there is no database file")
            }
            if creates { Self.makeFile(path) }
            queue = try DatabaseQueue(path: path, configuration: configuration)
        } catch {
            throw Self.failure(error)
        }
        isUTF8 = try query("PRAGMA encoding").scalar?.text == "UTF-8"
    }

    deinit { statements.removeAll() }

    /// Creates the file with access for its owner only, because it will hold whole tokens; SQLite
    /// would leave the mode to the process. The files beside it get the mode of this one. An error
    /// here occurs again, with a better message, when SQLite opens the file.
    private static func makeFile(_ path: String) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }

    private static func isFile(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Prepares and runs a statement that returns rows, and fetches all of them.
    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        try query(sql, parameters, mostBytes: .max)
    }

    /// Prepares and runs a statement that returns rows, and fetches rows until they have more than
    /// `mostBytes` bytes.
    package func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        try perform { database in
            try self.prepared(sql, database).rows(parameters, mostBytes: mostBytes)
        }
    }

    /// Runs a statement while the connection refuses changes; see `SQLConnection.read`.
    package func read(
        _ statement: SelectStatement, within seconds: Int, block: Int,
        _ body: (SQLRows) throws -> Void
    ) throws {
        try run("PRAGMA query_only = ON")
        defer { try? run("PRAGMA query_only = OFF") }
        let limit = SQLiteTimeLimit(seconds: seconds)
        guard let queue else {
            throw SQLFailure(kind: .lost, code: 21, message: "not open")
        }
        // Errors of the body keep their type.
        var failure: (any Error)?
        do {
            try queue.inDatabase { database in
                guard let connection = database.sqliteConnection else { return }
                limit.begin(on: connection)
                defer { limit.end(on: connection) }
                let prepared = try SQLiteStatement(connection, statement.text, isUTF8: isUTF8)
                try prepared.rows(block: block) { rows in
                    do { try body(rows) } catch {
                        failure = error
                        throw error
                    }
                }
            }
        } catch {
            throw failure ?? Self.failure(error)
        }
    }

    /// Prepares and runs a statement that changes rows; returns the number of rows it found.
    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        try perform { database in try self.prepared(sql, database).run(parameters) }
    }

    private func prepared(_ sql: String, _ database: Database) throws -> SQLiteStatement {
        if let known = statements[sql] { return known }
        guard let connection = database.sqliteConnection else {
            throw SQLFailure(kind: .lost, code: 21, message: "not open")
        }
        let statement = try SQLiteStatement(connection, sql, isUTF8: isUTF8)
        statements[sql] = statement
        return statement
    }

    /// Runs a statement unprepared.
    package func run(_ sql: String) throws(SQLFailure) {
        try perform { try $0.execute(sql: sql) }
    }

    /// Whether a transaction is open; false also where that cannot be read.
    package var isInTransaction: Bool {
        (try? perform { $0.isInsideTransaction }) ?? false
    }

    /// Whether a deferred foreign key is violated now.
    package var hasBrokenKeys: Bool {
        let isBroken = try? perform { database -> Bool in
            var count: CInt = 0
            var most: CInt = 0
            guard let connection = database.sqliteConnection else { return false }
            sqlite3_db_status(connection, SQLITE_DBSTATUS_DEFERRED_FKS, &count, &most, 0)
            return count != 0
        }
        return isBroken ?? false
    }

    /// The version of SQLite, for `check`.
    package func describe() throws(SQLFailure) -> ServerDescription {
        let version = try query("SELECT sqlite_version()").scalar?.text ?? ""
        return ServerDescription(
            version: "SQLite \(version)", encryption: nil, timeZone: "UTC", account: nil)
    }

    private func perform<R>(_ body: (Database) throws -> R) throws(SQLFailure) -> R {
        guard let queue else {
            throw SQLFailure(kind: .lost, code: 21, message: "not open")
        }
        do {
            return try queue.inDatabase(body)
        } catch {
            throw Self.failure(error)
        }
    }

    private static func failure(_ error: any Error) -> SQLFailure {
        if let failure = error as? SQLFailure { return failure }
        guard let error = error as? DatabaseError else {
            return SQLFailure(kind: .other, code: 0, message: "unexpected failure")
        }
        return .sqlite(
            code: error.resultCode.rawValue, message: error.message ?? "SQLite error")
    }
}

/// Ends the statements of a connection after some time (sqlite3_progress_handler).
private final class SQLiteTimeLimit {
    private let ends: ContinuousClock.Instant

    /// Virtual machine steps between two looks at the clock.
    private static let steps: CInt = 10_000

    init(seconds: Int) { ends = .now + .seconds(seconds) }

    /// Begins to watch. The object must live until `end`.
    func begin(on connection: OpaquePointer) {
        // The handler gets a pointer only; the caller of `begin` keeps the object.
        let limit = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_progress_handler(
            connection, Self.steps,
            { pointer in
                guard let pointer else { return 0 }
                let limit = Unmanaged<SQLiteTimeLimit>.fromOpaque(pointer).takeUnretainedValue()
                return ContinuousClock.now > limit.ends ? 1 : 0
            }, limit)
    }

    func end(on connection: OpaquePointer) {
        sqlite3_progress_handler(connection, 0, nil, nil)
    }
}
