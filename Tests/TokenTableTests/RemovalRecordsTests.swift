import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("The guard's questions to the database", .serialized)
struct RemovalRecordsTests {
    /// A checkpoint as an application some time ago would have left it.
    private func checkpoint(
        _ database: TokenDatabase, removed: Int, hoursAgo: Double, released: Bool = false,
        app: String = "chat"
    ) throws {
        let now = Date().timeIntervalSince1970 * 1_000
        let name = UUID().uuidString.lowercased()
        try database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, environment, source, "
                + "invalidated, state, inlet, reports, changed_at) VALUES (?, 'r', ?, "
                + "'production', 'feedback', ?, 'applied', 'gateway', 0, ?)",
            [
                .text(name), .text(app), .integer(Int64(removed)),
                database.time(Int64(now - hoursAgo * 3_600_000)),
            ])
        guard released else { return }
        try database.execute(
            "INSERT INTO pushsweep_hold (batch, terms) VALUES (\(batchNumber(name)), 'x')")
    }

    @Test("removals add up by hours of the database's clock", arguments: TestEngine.available)
    func hours(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        #expect(try database.store().removals(from: chat).isAny == false)
        for (removed, ago) in [(3, 30.0), (4, 30.0), (9, 60), (50, 719), (1_000, 721), (0, 5)] {
            try checkpoint(database, removed: removed, hoursAgo: ago)
        }
        try checkpoint(database, removed: 500, hoursAgo: 30, released: true)
        try checkpoint(database, removed: 700, hoursAgo: 30, app: "talk")
        let history = try database.store().removals(from: chat)
        #expect(history.hours.sorted() == [7, 9, 50])
        #expect(history.thisHour == 0)
        #expect(history.day == 0)
        #expect(history.month == 566)
        #expect(history.isAny == true)
    }

    @Test(
        "evidence that was applied long ago, or changed no row, is no first evidence",
        arguments: TestEngine.available)
    func anyEvidence(_ engine: TestEngine) throws {
        for (removed, ago) in [(7, 1_000.0), (0, 5)] {
            let database = try TokenDatabase.withSideTables(engine)
            try checkpoint(database, removed: removed, hoursAgo: ago, app: "talk")
            #expect(try database.store().removals(from: chat).isAny == false)
            try checkpoint(database, removed: removed, hoursAgo: ago)
            let history = try database.store().removals(from: chat)
            #expect(history.isAny == true && history.month == 0)
        }
    }

    @Test(
        "applied removals count at once, by the rows that were living",
        arguments: TestEngine.available)
    func presentHour(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<40)
        try database.register(.numbered(40), at: start, mark: start + 1_000)
        let store = try database.store()
        // The present hour may end between two statements: then it is another hour, and the day's.
        try store.apply((0..<30).map { .dead($0, at: start + 60_000) })
        let progress = try store.apply((20...50).map { .dead($0, at: start + 90_000) })
        #expect(progress.rowsChanged == 21)
        #expect(progress.rowsInvalidated == 10)
        let history = try store.removals(from: chat)
        #expect(history.thisHour + history.hours.reduce(0, +) == 40)
        #expect(history.day == 40)
        #expect(history.month == 40)
    }

    @Test("without the right to read the checkpoints there is no history")
    func hidden() throws {
        let database = try TokenDatabase(.sqlite)
        let history = try database.store().removals(from: chat)
        #expect(history == RemovalHistory() && history.isAny == nil)
    }

    @Test(
        "living rows are those without a mark, or with a later registration, up to a limit",
        arguments: TestEngine.available)
    func living(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<20)
        try database.register(.numbered(20), at: start, mark: start + 1)
        try database.register(.numbered(21), at: start, mark: start)
        try database.register(.numbered(22), at: start + 1, mark: start)
        try database.register(.numbered(23), at: start, app: "talk")
        try database.register(.numbered(24), at: start, environment: "sandbox")
        let store = try database.store()
        #expect(try store.livingRows(in: chat).count(atMost: .max) == 21)
        #expect(try store.livingRows(in: chat).count(atMost: 21) == 21)
        #expect(try store.livingRows(in: chat).count(atMost: 7) == 7)
    }

    @Test("marks in the side table count too", arguments: TestEngine.available)
    func sideMarks(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64))")
        for row in 0..<10 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?)",
                [.integer(Int64(row)), .text(DeviceToken.numbered(row).hex)])
        }
        let store = try database.store { $0.table = "devices" }
        #expect(try store.livingRows(in: chat).count(atMost: .max) == 10)
        try store.apply((0..<4).map { .dead($0, at: start) })
        #expect(try store.livingRows(in: chat).count(atMost: .max) == 6)
        #expect(try store.livingRows(in: chat).count(atMost: 5) == 5)
        #expect(try store.removals(from: chat).day == 4)
    }

    @Test("a zero in an epoch column is not a mark", arguments: TestEngine.available)
    func epochs(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "registered_at BIGINT, invalidated_at BIGINT)")
        for (row, mark) in [(1, "0"), (2, "NULL"), (3, "1704067300"), (4, "1704067000")] {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 1704067200, \(mark))",
                [.integer(Int64(row)), .text(DeviceToken.numbered(row).hex)])
        }
        let store = try database.store {
            $0.table = "devices"
            $0.registeredAt.type = .epochSeconds
            $0.invalidatedAt.type = .epochSeconds
        }
        #expect(try store.livingRows(in: chat).count(atMost: .max) == 3)
    }
}
