/// A connection to one database, with the least that the store needs. The two drivers only bind,
/// run, fetch and classify errors. They decide nothing.
///
/// A connection is used by one thread at a time and is not Sendable.
package protocol SQLConnection: AnyObject {
    /// The SQL dialect of the engine.
    var dialect: SQLDialect { get }

    /// Connects, or connects again after the connection was lost; open statements and transactions
    /// are lost. Throws `SQLFailure`.
    func connect() throws(SQLFailure)

    /// Runs a statement that returns rows. Throws `SQLFailure`.
    func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows

    /// Runs a statement that returns rows, and stops reading once they have more than `mostBytes`
    /// bytes. A result with more bytes is incomplete and must not be used.
    func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows

    /// Runs reads that belong together. Where each would have a transaction of its own, they share one,
    /// so a node of a cluster waits for the others once. `body` must not wait for anything else. Throws
    /// `SQLFailure`.
    func reading<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R

    /// Runs a statement that changes rows and returns how many rows it found, changed or not.
    func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int

    /// Runs a statement without parameters and result that is not worth preparing: session
    /// settings, transaction control, DDL.
    func run(_ sql: String) throws(SQLFailure)

    /// Begins the transaction of a chunk.
    func begin() throws(SQLFailure)

    /// Commits the transaction. Throws `SQLFailure`; a lost answer leaves the outcome unknown.
    func commit() throws(SQLFailure)

    /// Rolls the transaction back. A failure is not thrown: either there was no transaction, or the
    /// connection is lost or closed, and the transaction with it.
    func rollBack()

    /// Whether a transaction is open. Used after a failure only: a trigger of SQLite may have ended
    /// it.
    var isInTransaction: Bool { get }

    /// Bytes of the longest statement that the server accepts, values included.
    var mostBytes: Int { get }

    /// Whether a foreign key that is checked at COMMIT only is violated now.
    var hasBrokenKeys: Bool { get }

    /// Runs a statement that changes the schema, without a time limit: an index over a large table
    /// takes minutes.
    func runSchemaChange(_ sql: String) throws(SQLFailure)

    /// The server's version, encryption, time zone and account, for `check`.
    func describe() throws(SQLFailure) -> ServerDescription

    /// The host that is used, in the spelling of the settings; nil for a file.
    var host: String? { get }

    /// Whether others may write the same database. Asks each time.
    var hasOtherWriters: Bool { get }

    /// Whether a commit is certified against those of other nodes, which do not wait for this node's
    /// locks: a node of a Galera cluster. As found when the connection was opened.
    var certifiesCommits: Bool { get }

    /// What the server is: a primary, a replica, a node of a cluster; nil for a file. Asks each time.
    func role() throws(SQLFailure) -> ServerRole?
}

extension SQLConnection {
    /// Reads all rows, for drivers without a limit of memory.
    package func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        try query(sql, parameters)
    }

    /// Runs the reads one by one, for drivers whose reads have no transaction.
    package func reading<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        try body()
    }

    /// Begins the transaction of a chunk.
    package func begin() throws(SQLFailure) { try run(dialect.begin) }

    /// Commits the transaction. Throws `SQLFailure`; a lost answer leaves the outcome unknown.
    package func commit() throws(SQLFailure) { try run("COMMIT") }

    /// Rolls the transaction back. A failure is ignored: either the connection is lost, and the
    /// transaction with it, or there was no transaction.
    package func rollBack() { try? run("ROLLBACK") }

    /// True, because servers leave a transaction open when a statement is refused.
    package var isInTransaction: Bool { true }

    /// Nil, for drivers without hosts.
    package var host: String? { nil }

    /// True, because a server has other clients.
    package var hasOtherWriters: Bool { true }

    /// False, because the locks of a server hold for all its clients.
    package var certifiesCommits: Bool { false }

    /// Nil, for drivers without servers.
    package func role() throws(SQLFailure) -> ServerRole? { nil }

    /// No limit that a row could reach.
    package var mostBytes: Int { .max }

    /// False, because servers check foreign keys at once.
    package var hasBrokenKeys: Bool { false }

    /// Runs it like any other statement, for drivers without a time limit for answers.
    package func runSchemaChange(_ sql: String) throws(SQLFailure) { try run(sql) }

    /// Runs a statement that changes one row, and returns whether the row has changed. An earlier try
    /// whose answer was lost may have changed it: then `isDone` reads the row again.
    package func changesRow(
        _ sql: String, _ parameters: [SQLValue], isDone: () throws(SQLFailure) -> Bool
    ) throws(SQLFailure) -> Bool {
        if try execute(sql, parameters) > 0 { return true }
        return try isDone()
    }

    /// Runs a statement of the form about several tables, which `sql_safe_updates` forbids, and returns the
    /// number of rows it found. Throws `SQLFailure`.
    package func executeJoin(
        _ sql: String, _ parameters: [SQLValue]
    ) throws(SQLFailure) -> Int {
        try run("SET SESSION sql_safe_updates = 0")
        let found: Int
        do {
            found = try execute(sql, parameters)
            // A failure here may be the end of the transaction, as any other, so it is not ignored.
            try run("SET SESSION sql_safe_updates = 1")
        } catch {
            // A server that has ended the transaction by itself says so in place of the next statement.
            for _ in 0..<2 {
                if (try? run("SET SESSION sql_safe_updates = 1")) != nil { break }
            }
            throw error
        }
        return found
    }

    /// Runs a statement without parameters that returns rows. Throws `SQLFailure`.
    package func query(_ sql: String) throws(SQLFailure) -> SQLRows { try query(sql, []) }
}

/// The server's description of itself.
package struct ServerDescription: Hashable, Sendable {
    /// Engine and version, such as `MariaDB 10.11.6`.
    package let version: String
    /// TLS version and cipher; nil without TLS.
    package let encryption: String?
    /// The session's time zone, as the server names it.
    package let timeZone: String
    /// The account as the server sees it; nil for a file.
    package let account: String?
}
