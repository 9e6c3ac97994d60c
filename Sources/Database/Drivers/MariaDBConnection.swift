import CMariaDB
import Glibc

// A connection through libmariadb. The library's defaults are unsafe for a batch job: plaintext,
// any certificate, no timeouts, and a server may request local files. So every option is set here,
// whatever its default. After connecting the cipher is checked: with verification on, a connection
// without a cipher is an error even if the library reports success. The order inside the library is
// capability check, TLS handshake, certificate and host name check, credentials; so a wrong peer
// never receives a credential.
//
// Confinement: libmariadb allows a handle in one thread at a time and keeps no state per thread
// besides the OpenSSL error queue, which OpenSSL (1.1 and later) frees by itself when a thread
// ends. So thread_init and thread_end are not called. `library` runs the only global initialization
// once.

/// A connection to MariaDB, MySQL or another server with their protocol.
package final class MariaDBConnection: SQLConnection {
    /// The SQL dialect of MariaDB and MySQL.
    package let dialect = SQLDialect.mariaDB

    /// The version of the loaded library.
    package static var libraryVersion: String {
        mysql_get_client_info().map { String(cString: $0) } ?? "unknown"
    }

    private let settings: StoreSettings
    private let endpoint: StoreLocation.Server
    private var handle: UnsafeMutablePointer<MYSQL>?
    private var statements = StatementCache<MariaDBStatement>(capacity: 64)
    /// Bytes of the longest statement that the server accepts.
    package private(set) var mostBytes = 1_048_576

    /// The authentication methods that a server may request. Other methods send the password in
    /// plain text to any peer (mysql_clear_password, dialog), or are not supported here. Two of
    /// these send it only inside verified TLS or encrypted with the server's key.
    private static let plugins =
        "mysql_native_password,client_ed25519,parsec,caching_sha2_password,sha256_password"

    /// Whether the library is initialized, once per process.
    private static let library: Bool = mysql_server_init(0, nil, nil) == 0

    /// Stores the endpoint and the settings; `connect` opens the connection.
    package init(_ endpoint: StoreLocation.Server, _ settings: StoreSettings) {
        self.endpoint = endpoint
        self.settings = settings
    }

    deinit { disconnect() }

    private func disconnect() {
        statements.removeAll()
        if let handle { mysql_close(handle) }
        handle = nil
    }

    /// Connects and prepares the session; see `SQLConnection.connect`. Throws `SQLFailure`.
    package func connect() throws(SQLFailure) {
        disconnect()
        guard Self.library, let handle = mysql_init(nil) else {
            throw SQLFailure(kind: .other, code: 2008, message: "out of memory")
        }
        self.handle = handle
        do {
            try setOptions(handle)
            try open(handle)
            try checkEncryption(handle)
            try prepareSession()
        } catch {
            disconnect()
            throw error
        }
    }

    private func open(_ handle: UnsafeMutablePointer<MYSQL>) throws(SQLFailure) {
        let opened: UnsafeMutablePointer<MYSQL>?
        switch endpoint.address {
        case .tcp(let host, let port):
            opened = mysql_real_connect(
                handle, host, endpoint.user, settings.password ?? "", endpoint.database,
                UInt32(port), nil, UInt(CLIENT_FOUND_ROWS))
        case .unixSocket(let path):
            opened = mysql_real_connect(
                handle, nil, endpoint.user, settings.password ?? "", endpoint.database, 0, path,
                UInt(CLIENT_FOUND_ROWS))
        }
        guard opened != nil else {
            throw .mariaDB(
                code: mysql_errno(handle), message: String(cString: mysql_error(handle)),
                whileConnecting: true)
        }
    }

    private func setOptions(_ handle: UnsafeMutablePointer<MYSQL>) throws(SQLFailure) {
        func set(_ option: mysql_option, _ value: UInt32) throws(SQLFailure) {
            var value = value
            guard mysql_options(handle, option, &value) == 0 else { throw refusal(of: option) }
        }
        func set(_ option: mysql_option, _ value: String) throws(SQLFailure) {
            guard mysql_options(handle, option, value) == 0 else { throw refusal(of: option) }
        }
        func set(_ option: mysql_option, _ value: Bool) throws(SQLFailure) {
            var value: my_bool = value ? 1 : 0
            guard mysql_options(handle, option, &value) == 0 else { throw refusal(of: option) }
        }
        try set(MYSQL_OPT_CONNECT_TIMEOUT, UInt32(settings.timeouts.connect))
        try set(MYSQL_OPT_READ_TIMEOUT, UInt32(settings.timeouts.read))
        try set(MYSQL_OPT_WRITE_TIMEOUT, UInt32(settings.timeouts.write))
        try set(MYSQL_OPT_LOCAL_INFILE, UInt32(0))
        try set(MYSQL_OPT_RECONNECT, false)
        try set(MYSQL_SET_CHARSET_NAME, "utf8mb4")
        try set(MYSQL_REPORT_DATA_TRUNCATION, true)
        try set(MARIADB_OPT_RESTRICTED_AUTH, Self.plugins)
        switch endpoint.address {
        case .tcp: try set(MYSQL_OPT_PROTOCOL, MYSQL_PROTOCOL_TCP.rawValue)
        case .unixSocket: try set(MYSQL_OPT_PROTOCOL, MYSQL_PROTOCOL_SOCKET.rawValue)
        }
        switch settings.tls {
        case .verify(let ca):
            try checkRegular(ca)
            try set(MYSQL_OPT_SSL_ENFORCE, true)
            try set(MYSQL_OPT_SSL_CA, ca ?? StoreTLS.systemCA)
            try set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, true)
            try set(MARIADB_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3")
        case .off:
            try set(MYSQL_OPT_SSL_ENFORCE, false)
            try set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, false)
        }
    }

    /// Refuses a CA file that is a pipe, because the library would wait for a writer.
    private func checkRegular(_ ca: String?) throws(SQLFailure) {
        var facts = stat()
        guard let ca, stat(ca, &facts) == 0, facts.st_mode & S_IFMT != S_IFREG else { return }
        throw SQLFailure(
            kind: .configuration, code: 2026,
            message: "the authorities file \(ca) is not a regular file; give the file itself")
    }

    private func refusal(of option: mysql_option) -> SQLFailure {
        SQLFailure(
            kind: .configuration, code: Int(option.rawValue),
            message: "the client library refused connection option \(option.rawValue)")
    }

    private func checkEncryption(_ handle: UnsafeMutablePointer<MYSQL>) throws(SQLFailure) {
        guard case .verify = settings.tls, mysql_get_ssl_cipher(handle) == nil else { return }
        throw SQLFailure(
            kind: .untrusted, code: 2026, message: "the connection came up without encryption")
    }

    /// The SQL mode of every session: a value that does not fit its column is an error.
    package static let strictMode =
        "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,"
        + lenientMode
    /// The variable that is set in every session of this program.
    package static let ownMark = "@pushsweep"
    /// The SQL mode that changes a value that does not fit, for rows that are compared afterwards.
    package static let lenientMode = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"

    /// READ COMMITTED, so that FOR UPDATE takes no gap locks, which would block registrations of
    /// other tokens. Times are in UTC. A value that does not fit is an error, never shortened. A
    /// row whose number is 0 is inserted with 0, and a row with a date that does not exist is
    /// restored with that date. The variable keeps triggers of `schema print --upgrade` from taking
    /// a change of this program for a registration.
    private func prepareSession() throws(SQLFailure) {
        try run(
            """
            SET SESSION time_zone = '+00:00', sql_mode = '\(Self.strictMode)', \
            sql_safe_updates = 1, autocommit = 1, \
            innodb_lock_wait_timeout = \(settings.timeouts.lockWait), \(Self.ownMark) = 1
            """)
        try run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        mostBytes = try query("SELECT @@max_allowed_packet").scalar?.count ?? 1_048_576
    }

    private func opened() throws(SQLFailure) -> UnsafeMutablePointer<MYSQL> {
        guard let handle else {
            throw SQLFailure(kind: .lost, code: 2006, message: "not connected")
        }
        return handle
    }

    private func lastFailure(_ handle: UnsafeMutablePointer<MYSQL>) -> SQLFailure {
        .mariaDB(
            code: mysql_errno(handle), message: String(cString: mysql_error(handle)),
            state: String(cString: mysql_sqlstate(handle)))
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
        let statement = try prepared(sql)
        try statement.execute(parameters)
        return try statement.fetch(mostBytes: mostBytes)
    }

    /// Runs a statement in a read-only transaction; see `SQLConnection.read`. MariaDB and MySQL have
    /// different names for the limit of time, and without one nothing is run.
    package func read(
        _ statement: SelectStatement, within seconds: Int, block: Int,
        _ body: (SQLRows) throws -> Void
    ) throws {
        try limitStatements(to: seconds)
        try run("START TRANSACTION READ ONLY")
        defer { rollBack() }
        let prepared = try MariaDBStatement(opened(), statement.text)
        try prepared.execute([])
        try prepared.fetch(block: block, body)
    }

    private func limitStatements(to seconds: Int) throws(SQLFailure) {
        do throws(SQLFailure) {
            try run("SET SESSION max_statement_time = \(seconds)")
        } catch {
            // An unknown variable.
            guard error.code == 1_193 else { throw error }
            try run("SET SESSION max_execution_time = \(seconds * 1_000)")
        }
    }

    /// Prepares and runs a statement that changes rows; returns the number of rows it found.
    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        let statement = try prepared(sql)
        try statement.execute(parameters)
        return statement.foundRows
    }

    private func prepared(_ sql: String) throws(SQLFailure) -> MariaDBStatement {
        let handle = try opened()
        if let known = statements[sql] { return known }
        let statement = try MariaDBStatement(handle, sql)
        statements[sql] = statement
        return statement
    }

    /// Runs a statement unprepared.
    package func run(_ sql: String) throws(SQLFailure) {
        let handle = try opened()
        guard mysql_real_query(handle, sql, UInt(sql.utf8.count)) == 0 else {
            throw lastFailure(handle)
        }
        // Unused results have to be read from the connection too.
        if let result = mysql_store_result(handle) { mysql_free_result(result) }
    }

    /// Runs a statement without a time limit for its answer. TCP keep-alive detects a peer that
    /// vanishes.
    package func runSchemaChange(_ sql: String) throws(SQLFailure) {
        let handle = try opened()
        var unlimited: UInt32 = 0
        var usual = UInt32(settings.timeouts.read)
        guard mysql_options(handle, MYSQL_OPT_READ_TIMEOUT, &unlimited) == 0 else {
            throw refusal(of: MYSQL_OPT_READ_TIMEOUT)
        }
        defer { _ = mysql_options(handle, MYSQL_OPT_READ_TIMEOUT, &usual) }
        // A statement prepared before has the columns of then (error 2057).
        statements.removeAll()
        try run(sql)
    }

    /// The server's version, encryption, time zone and account, for `check`.
    package func describe() throws(SQLFailure) -> ServerDescription {
        let handle = try opened()
        let rows = try query("SELECT VERSION(), @@session.time_zone, CURRENT_USER()")
        let version = rows[0, 0].text ?? ""
        let cipher = mysql_get_ssl_cipher(handle).map { String(cString: $0) }
        let protocolVersion = try? query("SHOW SESSION STATUS LIKE 'Ssl_version'")[0, 1].text
        return ServerDescription(
            version: version.contains("MariaDB") ? "MariaDB \(version)" : "MySQL \(version)",
            encryption: cipher.map { "\(protocolVersion ?? "TLS") \($0)" },
            timeZone: rows[0, 1].text ?? "", account: rows[0, 2].text)
    }
}
