import Database

/// A real connection that fails at chosen operations: before a statement reaches the database, or
/// after its execution and before its answer.
package final class FaultyConnection: SQLConnection {
    /// A planned fault.
    package struct Fault: Sendable, CustomStringConvertible {
        /// The number of the operation, from 1: statements, BEGIN and COMMIT count.
        package let operation: Int
        /// Whether the database executes the operation before the fault.
        package let isExecuted: Bool
        package let failure: SQLFailure
        package var description: String { "operation \(operation), executed: \(isExecuted)" }

        package init(operation: Int, isExecuted: Bool, kind: SQLFailure.Kind) {
            self.init(
                operation: operation, isExecuted: isExecuted,
                failure: SQLFailure(kind: kind, code: 9_999, message: "injected fault"))
        }

        /// A fault with the words of an engine.
        package init(operation: Int, isExecuted: Bool, failure: SQLFailure) {
            self.operation = operation
            self.isExecuted = isExecuted
            self.failure = failure
        }

        /// Faults spread over a run of so many operations, the last one among them: each before the
        /// database executes the operation, and after it. The long series takes ten times as many.
        ///
        /// - Parameters:
        ///   - most: about how many operations fail in the usual run.
        ///   - last: how many of the last operations fail in any case: those around the commit.
        ///   - engine: the engine of the run, where each runs the same operations. In the usual run they share
        ///     the others, two and two, so that each meets both of a pair.
        package static func spread(
            over count: Int, from first: Int = 1, most: Int, last: Int = 1,
            kind: SQLFailure.Kind = .lost, on engine: TestEngine? = nil
        ) -> [Fault] {
            // Statements come in pairs, and an even step would meet one of each pair only.
            let step = max(1, (count - first) / (Series.isLong ? 10 * most : most)) | 1
            let share = TestEngine.available.count > 1 && !Series.isLong ? engine : nil
            let spread = Array(stride(from: first, through: count, by: step)).enumerated().filter {
                share == nil || ($0.offset / 2 % 2 == 0) == (share == .mariaDB)
            }
            let operations = Set(spread.map(\.element)).union(max(first, count - last + 1)...count)
            // A conflict rolls back, so it cannot be reported of a commit that was executed.
            let moments = kind == .conflict ? [false] : [false, true]
            return operations.sorted().flatMap { operation in
                moments.map { Fault(operation: operation, isExecuted: $0, kind: kind) }
            }
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
    /// A failure that meets statements and connections as long as it is not nil.
    package var outage: () -> SQLFailure? = { nil }
    /// A refusal of statements by what they say, before the database sees them.
    package var refusal: (String) -> SQLFailure? = { _ in nil }

    /// Called before each statement, BEGIN and COMMIT included, and after each query.
    package var before: (String) -> Void = { _ in }
    package var after: (String) -> Void = { _ in }

    package init(_ real: any SQLConnection, _ faults: [Fault] = []) {
        self.real = real
        self.faults = faults
    }

    package var dialect: SQLDialect { real.dialect }
    package var isInTransaction: Bool { real.isInTransaction }
    package var hasBrokenKeys: Bool { real.hasBrokenKeys }
    /// As the real connection, or as a test sets it.
    package lazy var certifiesCommits = real.certifiesCommits
    package var mostBytes: Int { real.mostBytes }

    package func connect() throws(SQLFailure) {
        if staysAway && connections > 0 {
            throw SQLFailure(kind: .unreachable, code: 2002, message: "nobody there")
        }
        if let failure = outage() { throw failure }
        connections += 1
        try real.connect()
    }

    private func meeting<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        operations += 1
        let number = operations
        if let failure = outage() {
            if failure.kind == .lost { real.rollBack() }
            throw failure
        }
        guard let fault = faults.first(where: { $0.operation == number }) else { return try body() }
        if fault.isExecuted { _ = try body() }
        if fault.failure.kind == .lost {
            // The server rolls back the open transaction of a lost connection.
            real.rollBack()
        }
        throw fault.failure
    }

    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        log.append((sql, parameters))
        before(sql)
        defer { after(sql) }
        if let failure = refusal(sql) { throw failure }
        return try meeting { () throws(SQLFailure) in try real.query(sql, parameters) }
    }

    package func reading<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        try real.reading(body)
    }

    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        log.append((sql, parameters))
        before(sql)
        if let failure = refusal(sql) { throw failure }
        return try meeting { () throws(SQLFailure) in try real.execute(sql, parameters) }
    }

    package func run(_ sql: String) throws(SQLFailure) {
        if sql == "ROLLBACK" { return try real.run(sql) }
        before(sql)
        if let failure = refusal(sql) { throw failure }
        try meeting { () throws(SQLFailure) in try real.run(sql) }
    }

    package func describe() throws(SQLFailure) -> ServerDescription { try real.describe() }
}
