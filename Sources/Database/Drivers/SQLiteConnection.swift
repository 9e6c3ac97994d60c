import CSQLite
import Glibc

// `synchronous=FULL` because a chunk that was reported as applied must outlive a power cut: the
// journal drops evidence on the strength of that report. Write-ahead logging lets the application
// read and register while a chunk is written. It is set when this program creates the file; an
// existing file keeps the journal mode that its owner chose.

/// A connection to a SQLite file: the token database, the journal, or a scratch file.
package final class SQLiteConnection: SQLConnection {
    package let dialect = SQLDialect.sqlite

    /// The version of the loaded library.
    package static var libraryVersion: String { String(cString: sqlite3_libversion()) }

    /// How a file is opened.
    package enum Access: Sendable {
        /// It must exist.
        case existing
        /// It is made where there is none, for its owner only.
        case creating
        /// It must exist and is not changed.
        case reading
    }

    private let path: String
    private let access: Access
    private let busySeconds: Int
    private let preparation: String
    private var connection: OpaquePointer?
    private var sharing: SQLiteSharing?
    private var statements = StatementCache<SQLiteStatement>(capacity: 64)
    /// Stores the path; `connect` opens the file, and creates it only if `creates` is true.
    package convenience init(path: String, creates: Bool, _ settings: StoreSettings) {
        self.init(
            path: path, creates ? .creating : .existing, busySeconds: settings.timeouts.lockWait,
            (creates ? "PRAGMA journal_mode = WAL;" : "") + "PRAGMA synchronous = FULL")
    }

    /// Stores the path. `connect` opens the file and runs the statements of `preparation`.
    /// `busySeconds` is the limit for a lock that another process holds.
    package init(path: String, _ access: Access, busySeconds: Int, _ preparation: String = "") {
        self.path = path
        self.access = access
        self.busySeconds = busySeconds
        self.preparation = preparation
    }

    /// Opens the file; see `SQLConnection.connect`. Throws `SQLFailure`.
    package func connect() throws(SQLFailure) {
        close()
        switch access {
        case .creating: Self.makeFile(path)
        case .existing, .reading:
            // SQLite would make an empty file, or say less.
            guard Glibc.access(path, F_OK) == 0 else {
                throw SQLFailure(
                    kind: .configuration, code: 14, message: "there is no database file")
            }
        }
        let flags =
            access == .reading ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        // One thread at a time uses a connection, as its type demands; so SQLite needs no lock for each value.
        let code = sqlite3_open_v2(path, &connection, flags | SQLITE_OPEN_NOMUTEX, nil)
        do throws(SQLFailure) {
            guard code == SQLITE_OK else { throw failure(code) }
            sharing = SQLiteSharing(path)
            sqlite3_extended_result_codes(connection, 1)
            sqlite3_busy_timeout(connection, CInt(busySeconds) * 1_000)
            pushsweep_sqlite_refuse_quoted_text(connection)
            try run("PRAGMA foreign_keys = ON")
            try run(preparation)
            try refuseOtherEncodings()
        } catch {
            close()
            throw error
        }
    }

    /// SQLite converts text of a UTF-16 file to UTF-8, and replaces half a character, or an invalid
    /// one, by another character. So different keys become equal, and before-images are altered.
    private func refuseOtherEncodings() throws(SQLFailure) {
        let encoding = try query("PRAGMA encoding").scalar?.text ?? ""
        guard encoding != "UTF-8" else { return }
        throw SQLFailure(
            kind: .misplaced, code: 0,
            message:
                "it stores text as \(encoding), which cannot be restored byte by byte; copy it "
                + "into a new file of UTF-8: sqlite3 OLD .dump | sqlite3 NEW")
    }

    deinit { close() }

    /// Closes the file. The object may be connected again.
    package func close() {
        statements.removeAll()
        sqlite3_close_v2(connection)
        connection = nil
        sharing = nil
    }

    /// Creates the file with access for its owner only, because it will hold whole tokens; SQLite
    /// would leave the mode to the process. The files beside it get the mode of this one. An error
    /// here occurs again, with a better message, when SQLite opens the file.
    private static func makeFile(_ path: String) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    /// Prepares and runs a statement that returns rows, and fetches all of them.
    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        try query(sql, parameters, mostBytes: .max)
    }

    /// Prepares and runs a statement that returns rows, and fetches rows until they have more than
    /// `mostBytes` bytes.
    package func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        try prepared(sql).rows(parameters, mostBytes: mostBytes)
    }

    /// Prepares and runs a statement that changes rows; returns the number of rows it found.
    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        try prepared(sql).run(parameters)
    }

    private func prepared(_ sql: String) throws(SQLFailure) -> SQLiteStatement {
        if let known = statements[sql] { return known }
        let statement = try SQLiteStatement(try opened(), sql)
        statements[sql] = statement
        return statement
    }

    /// Runs statements unprepared, one after the other.
    package func run(_ sql: String) throws(SQLFailure) {
        let code = sqlite3_exec(try opened(), sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw failure(code) }
    }

    /// Runs a body in one transaction, which rolls back when the body throws.
    package func transaction<Result>(_ body: () throws -> Result) throws -> Result {
        try begin()
        do {
            let result = try body()
            try commit()
            return result
        } catch {
            rollBack()
            throw error
        }
    }

    /// Whether a transaction is open; false also where that cannot be read.
    package var isInTransaction: Bool {
        connection.map { sqlite3_get_autocommit($0) == 0 } ?? false
    }

    /// Whether a deferred foreign key is violated now.
    package var hasBrokenKeys: Bool {
        var count: CInt = 0
        var most: CInt = 0
        guard let connection else { return false }
        sqlite3_db_status(connection, SQLITE_DBSTATUS_DEFERRED_FKS, &count, &most, 0)
        return count != 0
    }

    /// Whether somebody else may have the file open.
    package var hasOtherWriters: Bool { sharing?.isShared ?? true }

    private func opened() throws(SQLFailure) -> OpaquePointer {
        guard let connection else {
            throw SQLFailure(kind: .lost, code: 21, message: "not open")
        }
        return connection
    }

    private func failure(_ code: CInt) -> SQLFailure {
        .sqlite(
            code: code,
            message: sqlite3_errmsg(connection).map { String(cString: $0) } ?? "SQLite error")
    }

    /// The version of SQLite, for `check`.
    package func describe() throws(SQLFailure) -> ServerDescription {
        let version = try query("SELECT sqlite_version()").scalar?.text ?? ""
        return ServerDescription(
            version: "SQLite \(version)", encryption: nil, timeZone: "UTC", account: nil)
    }
}
