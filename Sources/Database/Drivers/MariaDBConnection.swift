import CMariaDB
import Glibc

// A connection through libmariadb; MariaDBOpening.swift says how it is opened, HostChoice.swift to which host.
//
// A proxy may split a connection: it sends changes to the primary, and each SELECT outside of a transaction to
// a replica, whose rows are older. A decision by such rows is wrong. No proxy takes a transaction apart,
// so a connection for changes or decisions reads inside of transactions only: where none is open, `query`
// opens one for itself. That is the same read on a plain server, at the price of two short answers.
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
    /// The host to which it is or was connected last; nil before the first connection.
    private var address: StoreLocation.Address?
    /// Whether a transaction of this program is open, as far as it was begun and ended by `run`.
    private var isOpen = false
    /// Whether reads open a transaction; not while the server is asked what it is.
    private var isPinned = true
    private var statements = StatementCache<MariaDBStatement>(capacity: 64)
    /// Bytes of the longest statement that the server accepts.
    package private(set) var mostBytes = 1_048_576

    /// Whether the server is a node of a Galera cluster, as found when the connection was opened.
    package private(set) var certifiesCommits = false

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
        isOpen = false
    }

    /// The host that is used, in the spelling of the settings; nil before the first connection.
    package var host: String? { address?.description }

    /// Connects and prepares the session; see `SQLConnection.connect`. Throws `SQLFailure`.
    package func connect() throws(SQLFailure) {
        let hasOthers = endpoint.addresses.count > 1
        switch settings.use {
        case .reports: try choose { _ in nil }
        case .changes:
            let accepts = settings.acceptsReplica
            try choose { $0.objection(acceptsReplica: accepts, hasOthers: hasOthers) }
        case .decisions: try chooseForDecisions()
        }
    }

    /// The first connection takes the server with the newest rows that there is. Those after it take none
    /// with older rows: after a loss such a server is about to take over, or another one is.
    private func chooseForDecisions() throws(SQLFailure) {
        if let oldest = settings.hosts.oldest {
            return try choose { $0.objection(toRowsOlderThan: oldest) }
        }
        for age in StateAge.allCases {
            do {
                try choose { $0.objection(toRowsOlderThan: age) }
                settings.hosts.oldest = age
                return
            } catch {
                guard age < .replicas, [.misplaced, .readOnly].contains(error.kind) else {
                    throw error
                }
            }
        }
    }

    private func choose(
        _ objection: (ServerRole) -> SQLFailure?
    ) throws(SQLFailure) {
        address = try settings.hosts.choose(among: endpoint.addresses, after: address) {
            (address) throws(SQLFailure) in
            try connect(to: address, objection)
        }
    }

    private func connect(
        to address: StoreLocation.Address, _ objection: (ServerRole) -> SQLFailure?
    ) throws(SQLFailure) {
        disconnect()
        guard Self.library, let handle = mysql_init(nil) else {
            throw SQLFailure(kind: .other, code: 2008, message: "out of memory")
        }
        self.handle = handle
        do throws(SQLFailure) {
            try MariaDBOpening(
                handle: handle, endpoint: endpoint, address: address, settings: settings
            ).open()
            try prepareSession()
            if settings.use != .reports, let role = try role(),
                let objection = objection(role)
            {
                throw objection
            }
            // What failed within the examination may have closed the connection.
            _ = try opened()
        } catch {
            disconnect()
            throw error
        }
    }

    /// What the server is, see `SQLConnection.role`.
    package func role() throws(SQLFailure) -> ServerRole? {
        isPinned = false
        defer { isPinned = true }
        return try RoleReading(connection: self).read()
    }

    /// The SQL mode of every session: a value that does not fit its column is an error.
    package static let strictMode =
        "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,"
        + lenientMode
    /// The variable that is set in every session of this program.
    package static let ownMark = "@pushsweep"
    /// The SQL mode that changes a value that does not fit, for rows that are compared afterwards.
    package static let lenientMode = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"

    private func prepareSession() throws(SQLFailure) {
        let preparation = SessionPreparation(
            connection: self, database: endpoint.database, timeouts: settings.timeouts,
            changes: settings.use == .changes)
        try preparation.setAlways()
        try waitForCluster()
        mostBytes = try preparation.setOthers()
    }

    /// A Galera node answers before it has applied what other nodes have committed. With this setting
    /// each transaction and each statement outside of one first waits for that, so that a read
    /// decides by the rows that every node has. Other servers have no such variable or do not use it.
    private func waitForCluster() throws(SQLFailure) {
        certifiesCommits = false
        do throws(SQLFailure) {
            // A server whose file turns wsrep on, and which loads no Galera, serves as one by itself.
            let cluster = try query("SELECT @@wsrep_on, @@wsrep_provider")
            certifiesCommits =
                cluster[0, 0].count == 1 && cluster[0, 1].text != GaleraState.noProvider
        } catch {
            guard error.code == Self.unknownVariable else { throw error }
        }
        guard certifiesCommits else { return }
        // A node without its cluster would let the first read wait, and say then that a lock held it up.
        let ready = try query("SHOW GLOBAL STATUS LIKE 'wsrep_ready'")
        guard ready.count == 0 || ready[0, 1].text != "OFF" else {
            throw .mariaDB(
                code: Self.notReady,
                message: "WSREP has not yet prepared node for application use")
        }
        try run("SET SESSION wsrep_sync_wait = \(Self.syncedStatements)")
    }

    /// Reads and BEGIN (1), UPDATE and DELETE (2), INSERT (4).
    private static let syncedStatements = 7
    /// ER_UNKNOWN_COM_ERROR, with which a node refuses statements.
    private static let notReady: UInt32 = 1_047
    /// ER_UNKNOWN_SYSTEM_VARIABLE.
    private static let unknownVariable = 1_193

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

    /// Rolls the transaction back, or ends the connection and with it the transaction. A node that lost its
    /// cluster refuses even ROLLBACK (1047) and keeps the transaction; a read in it would show changes that
    /// were never committed. A server that has ended the transaction by itself says so at the next statement,
    /// which may be this one, so it is tried twice.
    package func rollBack() {
        for _ in 0..<2 {
            guard handle != nil else { return }
            if (try? run("ROLLBACK")) != nil { return }
        }
        disconnect()
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
        try reading { () throws(SQLFailure) in try rows(sql, parameters, mostBytes) }
    }

    /// Runs reads in one transaction, because a proxy keeps a transaction on the primary, and a node of
    /// a cluster then waits for the others once. Reports read without one. Throws `SQLFailure`.
    package func reading<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        // BEGIN in an open transaction would commit it, so the server's word counts too.
        guard settings.use != .reports, !isOpen, isPinned,
            try opened().pointee.server_status & UInt32(SERVER_STATUS_IN_TRANS) == 0
        else { return try body() }
        do {
            try begin()
            let result = try body()
            try commit()
            return result
        } catch {
            rollBack()
            throw error
        }
    }

    private func rows(
        _ sql: String, _ parameters: [SQLValue], _ mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        let statement = try prepared(sql)
        try statement.execute(parameters)
        return try statement.fetch(mostBytes: mostBytes)
    }

    /// Prepares and runs a statement that changes rows; returns the number of rows it found.
    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        let statement = try prepared(sql)
        try statement.execute(parameters)
        defer { statement.discardRows() }
        return statement.foundRows
    }

    private func prepared(_ sql: String) throws(SQLFailure) -> MariaDBStatement {
        let handle = try opened()
        if let known = statements[sql] { return known }
        let statement = try MariaDBStatement(handle, sql)
        try ensureOpen()
        statements[sql] = statement
        return statement
    }

    /// Throws where the node has ended the open transaction. A node ends it when it loses against one of
    /// another node, and reports that at the next command. But to PREPARE it answers as if nothing had
    /// happened (seen with MariaDB 10.11): the commands after it would be committed one by one, without
    /// those before it. So a command that has an answer of its own follows.
    private func ensureOpen() throws(SQLFailure) {
        guard isOpen, certifiesCommits else { return }
        try run("DO 0")
        guard try opened().pointee.server_status & UInt32(SERVER_STATUS_IN_TRANS) == 0 else {
            return
        }
        throw .mariaDB(
            code: Self.deadlock,
            message: "the node ended this transaction for another while it prepared a statement")
    }

    /// ER_LOCK_DEADLOCK, with which a node reports a transaction that it ended.
    private static let deadlock: UInt32 = 1_213

    /// Runs a statement unprepared.
    package func run(_ sql: String) throws(SQLFailure) {
        let handle = try opened()
        if sql == dialect.begin { isOpen = true }
        defer { if sql == "COMMIT" || sql == "ROLLBACK" { isOpen = false } }
        guard mysql_real_query(handle, sql, UInt(sql.utf8.count)) == 0 else {
            throw lastFailure(handle)
        }
        // Unused results have to be read from the connection too.
        if let result = mysql_store_result(handle) { mysql_free_result(result) }
    }

    /// Runs a statement without a time limit for its answer. TCP keep-alive detects a peer that
    /// vanishes. The library reads its limit when it connects, so this takes a connection of its own.
    package func runSchemaChange(_ sql: String) throws(SQLFailure) {
        var unlimited = settings
        unlimited.timeouts.read = 0
        let other = MariaDBConnection(endpoint, unlimited)
        try other.connect()
        // A statement prepared before has the columns of then (error 2057).
        statements.removeAll()
        try other.run(sql)
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
