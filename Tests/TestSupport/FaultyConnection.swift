import Database

/// A real connection that fails at chosen operations: before a statement reaches the database, or
/// after its execution and before its answer.
package final class FaultyConnection: SQLConnection {
    /// A planned fault.
    package struct Fault: Sendable {
        /// The number of the operation, from 1: statements, BEGIN and COMMIT count.
        package let operation: Int
        /// Whether the database executes the operation before the fault.
        package let isExecuted: Bool
        package let kind: SQLFailure.Kind

        package init(operation: Int, isExecuted: Bool, kind: SQLFailure.Kind) {
            self.operation = operation
            self.isExecuted = isExecuted
            self.kind = kind
        }
    }

    private let real: any SQLConnection
    private let faults: [Fault]
    /// Number of operations so far.
    package private(set) var operations = 0
    /// The statements with their values, in order.
    package private(set) var log: [(String, [SQLValue])] = []
    /// Number of connections made so far.
    package private(set) var connections = 0
    /// Whether every connection is refused after the first fault.
    package var staysAway = false

    package init(_ real: any SQLConnection, _ faults: [Fault]) {
        self.real = real
        self.faults = faults
    }

    package var dialect: SQLDialect { real.dialect }
    package var isInTransaction: Bool { real.isInTransaction }
    package var hasBrokenKeys: Bool { real.hasBrokenKeys }
    package var mostBytes: Int { real.mostBytes }

    package func connect() throws(SQLFailure) {
        if staysAway && connections > 0 {
            throw SQLFailure(kind: .unreachable, code: 2002, message: "nobody there")
        }
        connections += 1
        try real.connect()
    }

    private func meeting<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        operations += 1
        let number = operations
        guard let fault = faults.first(where: { $0.operation == number }) else { return try body() }
        if fault.isExecuted { _ = try body() }
        if fault.kind == .lost {
            // The server rolls back the open transaction of a lost connection.
            real.rollBack()
        }
        throw SQLFailure(kind: fault.kind, code: 9_999, message: "injected fault")
    }

    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        log.append((sql, parameters))
        return try meeting { () throws(SQLFailure) in try real.query(sql, parameters) }
    }

    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        log.append((sql, parameters))
        return try meeting { () throws(SQLFailure) in try real.execute(sql, parameters) }
    }

    package func run(_ sql: String) throws(SQLFailure) {
        if sql == "ROLLBACK" { return try real.run(sql) }
        try meeting { () throws(SQLFailure) in try real.run(sql) }
    }

    package func describe() throws(SQLFailure) -> ServerDescription { try real.describe() }
}
