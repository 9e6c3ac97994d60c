import TestSupport

@testable import Database
@testable import TokenTable

/// A connection that stays open over the stores of many tables, and fails at chosen moments. A loss
/// of the connection is a rollback here: the store sees the same, and no handshake is needed.
final class KeptConnection: SQLConnection {
    private let real: any SQLConnection
    private var isOpen = false
    /// Operations until the next faults, the nearest first.
    var faults: [(after: Int, kind: SQLFailure.Kind, isExecuted: Bool)] = []

    init(_ real: any SQLConnection) { self.real = real }

    var dialect: SQLDialect { real.dialect }
    var isInTransaction: Bool { real.isInTransaction }
    var hasBrokenKeys: Bool { real.hasBrokenKeys }
    var mostBytes: Int { real.mostBytes }

    func connect() throws(SQLFailure) {
        if isOpen { return real.rollBack() }
        try real.connect()
        isOpen = true
    }

    private func meeting<R>(_ body: () throws(SQLFailure) -> R) throws(SQLFailure) -> R {
        guard let next = faults.first else { return try body() }
        guard next.after <= 0 else {
            faults[0].after -= 1
            return try body()
        }
        faults.removeFirst()
        if next.isExecuted { _ = try body() }
        real.rollBack()
        throw SQLFailure(kind: next.kind, code: 9_999, message: "injected fault")
    }

    func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        try meeting { () throws(SQLFailure) in try real.query(sql, parameters) }
    }

    func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        try meeting { () throws(SQLFailure) in try real.execute(sql, parameters) }
    }

    func run(_ sql: String) throws(SQLFailure) {
        if sql == "ROLLBACK" { return try real.run(sql) }
        try meeting { () throws(SQLFailure) in try real.run(sql) }
    }

    func describe() throws(SQLFailure) -> ServerDescription { try real.describe() }
}
