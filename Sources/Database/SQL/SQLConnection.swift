/// A conversation with one database, the least that the store needs. The two drivers are thin:
/// they bind, run and fetch, and say what kind of trouble an error is. They decide nothing.
///
/// A connection is used by one thread at a time and is not Sendable.
package protocol SQLConnection: AnyObject {
    /// What this engine spells differently.
    var dialect: SQLDialect { get }

    /// Connects, or connects anew after the connection was lost; what was open before is gone.
    func connect() throws(SQLFailure)

    /// Runs a statement that returns rows.
    func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows

    /// Runs a statement that returns rows, and takes no more of them once they have more than
    /// `mostBytes` bytes. So a result with more was cut short and is of no use.
    func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows

    /// Runs a statement that changes rows and returns how many rows it found, changed or not.
    func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int

    /// Runs a statement without parameters and result that is not worth preparing: session
    /// settings, transaction control, DDL.
    func run(_ sql: String) throws(SQLFailure)

    /// Whether a transaction is open. Asked after a failure only: a trigger of SQLite may have ended it.
    var isInTransaction: Bool { get }

    /// Bytes of the longest statement that the server takes, values included.
    var mostBytes: Int { get }

    /// Whether a foreign key that is checked at COMMIT only is broken now.
    var hasBrokenKeys: Bool { get }

    /// Runs a statement that changes the schema, and waits for it as long as it takes: an index over
    /// a large table takes minutes.
    func runSchemaChange(_ sql: String) throws(SQLFailure)

    /// What the connection is made of, for `check`.
    func describe() throws(SQLFailure) -> ServerDescription
}

extension SQLConnection {
    /// Takes all rows: right where memory is of no concern.
    package func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        try query(sql, parameters)
    }

    /// Servers leave a transaction open when a statement is refused.
    package var isInTransaction: Bool { true }

    /// No limit that a row could meet.
    package var mostBytes: Int { .max }

    /// Servers check foreign keys at once.
    package var hasBrokenKeys: Bool { false }

    /// Runs it like any other statement: right where answers are waited for without limit anyway.
    package func runSchemaChange(_ sql: String) throws(SQLFailure) { try run(sql) }

    /// Opens the transaction of a chunk.
    package func begin() throws(SQLFailure) { try run(dialect.begin) }

    /// Makes the transaction's changes permanent.
    package func commit() throws(SQLFailure) { try run("COMMIT") }

    /// Gives the transaction up. A failure is of no interest: either the connection is gone, and
    /// with it the transaction, or there was none.
    package func rollBack() { try? run("ROLLBACK") }

    /// Runs a statement without parameters that returns rows.
    package func query(_ sql: String) throws(SQLFailure) -> SQLRows { try query(sql, []) }
}

/// What the other end says about itself.
package struct ServerDescription: Hashable, Sendable {
    /// Engine and version, such as `MariaDB 10.11.6`.
    package let version: String
    /// TLS version and cipher; nil without TLS.
    package let encryption: String?
    /// The session's time zone.
    package let timeZone: String
    /// The account the server sees; nil for a file.
    package let account: String?
}
