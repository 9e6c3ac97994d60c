import APNsProtocol
import Findings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Marks ahead of the clock")
struct FutureMarkTests {
    private static func findings(_ store: TokenTable) throws -> [String] {
        try store.examine(.apply(RemovalPolicy()), partitions: [chat]).findings
            .filter { $0.rule == "mark-in-future" }.map(\.sentence)
    }

    /// Tables with marks in the row, and beside it.
    private static func database(_ engine: TestEngine, beside: Bool) throws -> (
        TokenDatabase, TokenTable
    ) {
        guard beside else {
            let database = try TokenDatabase.own(engine)
            try database.register(0..<20, at: start)
            return (database, try database.store(pacing: hurried()))
        }
        let database = try TokenDatabase.withSideTables(engine)
        try database.sql.run(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), registered_at BIGINT)"
        )
        for number in 0..<20 {
            try database.sql.run(
                "INSERT INTO devices VALUES (\(number), '\(DeviceToken.numbered(number).hex)', \(start))"
            )
        }
        let store = try database.store(pacing: hurried()) {
            $0.table = "devices"
            $0.registeredAt.column = .named("registered_at")
            $0.registeredAt.type = .epochMilliseconds
            $0.invalidatedAt.column = .absent
        }
        return (database, store)
    }

    @Test(
        "are found by check with the undo that takes them back, and are not once they are undone",
        arguments: TestEngine.available, [false, true])
    func found(_ engine: TestEngine, beside: Bool) throws {
        let (database, store) = try Self.database(engine, beside: beside)
        // The database goes with its object.
        defer { withExtendedLifetime(database) {} }
        let now = try store.session.databaseTime().rawValue
        try store.sweep("near", [.dead(0, at: now - 60_000), .dead(1, at: now + 200_000)])
        #expect(try Self.findings(store).isEmpty)
        // The clock of that run was ahead, too, and an undo of today takes it back all the same.
        try store.sweep(
            "future", [.dead(2, at: now + 400_000), .dead(3, at: now + 86_400_000)],
            at: now + 86_400_000)
        let told = try Self.findings(store)
        #expect(told.count == 1)
        #expect(told.first?.contains("2 marks are more than 5 minutes ahead") == true, "\(told)")
        #expect(told.first?.contains("`pushsweep undo future`") == true, "\(told)")
        #expect(told.first?.contains("near") == false)
        let undone = try store.undo(.run("future"))
        #expect(undone.isDone && undone.restored == 2)
        #expect(try Self.findings(store).isEmpty)
    }
}
