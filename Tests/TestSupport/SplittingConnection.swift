import Database

/// A connection through a proxy that splits reads from writes: it answers a plain SELECT outside a
/// transaction from a replica, which here never receives another change. All else goes to the primary.
package final class SplittingConnection: SQLConnection {
    private let primary: any SQLConnection
    private let replica: any SQLConnection
    package private(set) var isInTransaction = false
    /// The SELECTs that the replica answered.
    package private(set) var answeredByReplica: [String] = []

    package init(primary: any SQLConnection, replica: any SQLConnection) {
        self.primary = primary
        self.replica = replica
    }

    package var dialect: SQLDialect { primary.dialect }
    package var hasBrokenKeys: Bool { primary.hasBrokenKeys }
    package var certifiesCommits: Bool { primary.certifiesCommits }
    package var mostBytes: Int { primary.mostBytes }

    package func connect() throws(SQLFailure) {
        isInTransaction = false
        try primary.connect()
        try replica.connect()
    }

    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        guard !isInTransaction, sql.hasPrefix("SELECT"), !sql.hasSuffix("FOR UPDATE") else {
            return try primary.query(sql, parameters)
        }
        answeredByReplica.append(sql)
        return try replica.query(sql, parameters)
    }

    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        try primary.execute(sql, parameters)
    }

    package func run(_ sql: String) throws(SQLFailure) {
        if sql == dialect.beginning { isInTransaction = true }
        if sql == "COMMIT" || sql == "ROLLBACK" { isInTransaction = false }
        try primary.run(sql)
    }

    package func describe() throws(SQLFailure) -> ServerDescription { try primary.describe() }
}

extension SQLDialect {
    /// The statement that begins a transaction.
    fileprivate var beginning: String {
        engine == .mariaDB ? "START TRANSACTION" : "BEGIN IMMEDIATE"
    }
}
