// Some engines keep the user's rows on other servers: Spider, FEDERATED. A COMMIT of a
// transaction that changed such rows and a table of the local engine is two commits, and between them
// the server or a shard may fail. Then rows are changed without an entry in the ledger, so nothing can
// undo them, or the ledger tells of changes that were never made.
//
// So the rows have a connection of their own, and a chunk is committed in three steps:
//
//   1. ledger: entries with before-images, and in the checkpoint what the chunk is going to do
//   2. rows:   the changes, which were made before step 1 and have held their locks since
//   3. ledger: the checkpoint moves, and the entries get their number
//
// A row is never changed before its image is committed. A failure before step 1 leaves nothing. One
// after it leaves a checkpoint that says which entries are open; the next transaction of the feed, or
// the next run, looks at the rows of these entries and finishes what was begun (see Settlement). No
// commit over several servers at once is needed, whatever the engine promises about it.

/// Two connections to one server: one for the user's rows, one for this program's own tables.
package final class ApartConnection: SQLConnection {
    private let rows: any SQLConnection
    /// The connection to this program's own tables.
    package let ledger: any SQLConnection

    /// Joins two connections that are not yet opened, or opens them again.
    package init(rows: any SQLConnection, ledger: any SQLConnection) {
        self.rows = rows
        self.ledger = ledger
    }

    /// That of the rows' connection, as all that has no word of its own here.
    package var dialect: SQLDialect { rows.dialect }
    /// Whether the rows' transaction is open.
    package var isInTransaction: Bool { rows.isInTransaction }
    /// Bytes of the longest statement that both connections accept.
    package var mostBytes: Int { min(rows.mostBytes, ledger.mostBytes) }
    /// Whether a foreign key of the rows is violated now.
    package var hasBrokenKeys: Bool { rows.hasBrokenKeys }

    /// The host of both connections.
    package var host: String? { ledger.host }

    /// What the server of both connections is. Throws `SQLFailure`.
    package func standing() throws(SQLFailure) -> ServerStanding? { try ledger.standing() }

    /// Opens both connections.
    package func connect() throws(SQLFailure) {
        try ledger.connect()
        try rows.connect()
    }

    /// Begins a transaction on both connections.
    package func begin() throws(SQLFailure) {
        try ledger.begin()
        try rows.begin()
    }

    /// Commits both transactions, the ledger's first. Only for transactions that changed one of the
    /// two; a chunk commits in the three steps above.
    package func commit() throws(SQLFailure) {
        try ledger.commit()
        try rows.commit()
    }

    /// Commits the changes of the user's rows.
    package func commitRows() throws(SQLFailure) { try rows.commit() }

    /// Rolls both transactions back.
    package func rollBack() {
        rows.rollBack()
        ledger.rollBack()
    }

    /// Runs a statement on the rows' connection, and so do all below. Throws `SQLFailure`.
    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        try rows.query(sql, parameters)
    }

    /// Reads rows until they have more than `mostBytes` bytes. Throws `SQLFailure`.
    package func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        try rows.query(sql, parameters, mostBytes: mostBytes)
    }

    /// Runs reads of the rows that belong together; see `SQLConnection.reading`. Throws `SQLFailure`.
    package func reading<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        try rows.reading(body)
    }

    /// Reads in a transaction that can change nothing; see `SQLConnection.read`.
    package func read(
        _ statement: SelectStatement, within seconds: Int, block: Int,
        _ body: (SQLRows) throws -> Void
    ) throws {
        try rows.read(statement, within: seconds, block: block, body)
    }

    /// Changes rows, and returns how many were found. Throws `SQLFailure`.
    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        try rows.execute(sql, parameters)
    }

    /// Runs a statement without parameters. Throws `SQLFailure`.
    package func run(_ sql: String) throws(SQLFailure) { try rows.run(sql) }

    /// Changes the schema, without a time limit. Throws `SQLFailure`.
    package func runSchemaChange(_ sql: String) throws(SQLFailure) {
        try rows.runSchemaChange(sql)
    }

    /// The server's description of itself. Throws `SQLFailure`.
    package func describe() throws(SQLFailure) -> ServerDescription { try rows.describe() }
}
