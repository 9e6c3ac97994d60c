import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Counting living rows for the guard")
struct LivingRowsTests {
    /// A table whose keys lie `gap` apart on average, with marks and rows of another app.
    private static func stage(
        _ engine: TestEngine, _ rows: Int, gap: Int, _ random: inout SeededGenerator
    ) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        try database.createSideTables()
        try database.execute(
            "CREATE TABLE devices (id BIGINT PRIMARY KEY, device_token VARCHAR(64) NOT NULL, "
                + "app_id VARCHAR(32) NOT NULL, registered_at BIGINT, invalidated_at BIGINT)")
        var id = Int64.random(in: -1_000...1_000, using: &random)
        let marks = Int.random(in: 0...4, using: &random)
        try database.sql.begin()
        for first in stride(from: 0, to: rows, by: 100) {
            let values = (first..<min(first + 100, rows)).map { row -> String in
                id += Int64.random(in: 1...Int64(gap * 2 - 1), using: &random)
                let isMarked = Int.random(in: 0..<10, using: &random) < marks
                let mark = isMarked ? "\(Int.random(in: 1...3, using: &random))" : "NULL"
                let app = Int.random(in: 0..<20, using: &random) == 0 ? "talk" : "chat"
                return "(\(id), '\(DeviceToken.numbered(row).hex)', '\(app)', 2, \(mark))"
            }
            try database.sql.run("INSERT INTO devices VALUES \(values.joined(separator: ", "))")
        }
        try database.sql.commit()
        database.settings.mapping.table = "devices"
        database.settings.mapping.registeredAt.type = .epochSeconds
        database.settings.mapping.invalidatedAt.type = .epochSeconds
        return database
    }

    @Test("a row without a token is nobody's device", arguments: TestEngine.available)
    func withoutToken(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), registered_at DATETIME)"
        )
        for number in 0..<60 {
            let token =
                switch number % 3 {
                case 0: "'\(DeviceToken.numbered(number).hex)'"
                case 1: "NULL"
                default: "''"
                }
            try database.execute(
                "INSERT INTO devices VALUES (\(number), \(token), '2024-01-01 00:00:00')")
        }
        let store = try database.store {
            $0.table = "devices"
            $0.invalidatedAt.column = .absent
        }
        #expect(try store.livingRows(in: chat).count(atMost: .max) == 20)
    }

    @Test(
        "the guard decides by sample and ranges as it does by an exact count",
        arguments: TestEngine.available)
    func decisions(_ engine: TestEngine) throws {
        var random = SeededGenerator("of living rows on \(engine)")
        var sampled = 0
        let tables = Series.isLong ? 12 : 4
        for _ in 0..<tables {
            let rows = Int.random(in: 1...4_000, using: &random)
            let gap = [1, 1, 2, 50, 100_000].randomElement(using: &random) ?? 1
            let database = try Self.stage(engine, rows, gap: gap, &random)
            let exact = try database.count(
                "SELECT COUNT(*) FROM devices WHERE app_id = 'chat' AND "
                    + "(invalidated_at IS NULL OR registered_at > invalidated_at)")
            let connection = FaultyConnection(database.driver(), [])
            let store = try TokenTable(database.settings, connection, hurried())
            for _ in 0..<20 {
                let before = connection.log.count
                let living = LivingRows(store, in: chat, fewRows: 100, span: 500)
                for _ in 0..<3 {
                    let limit =
                        Bool.random(using: &random)
                        ? Int.random(in: 0...rows + 10, using: &random)
                        : max(0, exact + Int.random(in: -20...20, using: &random))
                    #expect(
                        try living.count(atMost: limit) == min(limit, exact),
                        "\(limit) of \(exact) living in \(rows) rows, gap \(gap)")
                }
                sampled += connection.log[before...].contains { $0.0.contains("MIN(") } ? 1 : 0
                try Self.compare(store, exact: exact, rows, &random)
            }
        }
        #expect(sampled > tables, "\(sampled) questions were answered with a sample")
    }

    /// Compares one random decision of the guard with that by the exact count.
    private static func compare(
        _ store: TokenTable, exact: Int, _ rows: Int, _ random: inout SeededGenerator
    ) throws {
        let removals = Int.random(in: 1...max(2, rows / 5), using: &random)
        let proposal = RemovalProposal(
            candidates: removals, counts: Counts(applied: removals), tuples: removals,
            tokens: removals)
        let past = Int.random(in: 0...20, using: &random)
        let history = RemovalHistory(
            hours: (0..<Int.random(in: 0...120, using: &random)).map { _ in past }, thisHour: past,
            day: past * 2)
        let judge = RemovalGuard(GuardLimits(floor: Int.random(in: 0...30, using: &random)))
        let living = LivingRows(store, in: chat, fewRows: 100, span: 500)
        let found = try judge.cause(toHold: proposal, after: history) {
            try living.count(atMost: $0)
        }
        let expected = judge.cause(toHold: proposal, after: history) { min($0, exact) }
        #expect(found == expected, "\(removals) of \(exact) living, history \(history)")
    }

    @Test("a large table with dense keys takes few statements, and no range is counted twice")
    func statements() throws {
        var random = SeededGenerator("of a large table")
        let database = try Self.stage(.sqlite, 30_000, gap: 1, &random)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        let living = LivingRows(store, in: chat, fewRows: 1_000, span: 1_000)
        // What a run reads once about the table is not of the sample.
        _ = try store.layout()
        let begin = connection.log.count
        #expect(try living.count(atMost: 10_000) == 10_000)
        let asked = connection.log.count - begin
        #expect(asked < 20, "\(asked) statements for a sample")
        let exact = try living.count(atMost: .max)
        let whole = connection.log.count
        #expect(whole - begin < asked + 70)
        #expect(try living.count(atMost: .max) == exact && living.count(atMost: 3) == 3)
        #expect(connection.log.count == whole)
    }

    @Test("the least share that a sample proves is below the true one, and close to it")
    func share() {
        #expect(LivingRows.leastShare(0, of: 1_000) == 0)
        let all = LivingRows.leastShare(7_200, of: 7_200)
        #expect(all > 0.996 && all < 0.997)
        #expect((0.455..<0.457).contains(LivingRows.leastShare(3_600, of: 7_200)))
        var random = SeededGenerator("of samples")
        for _ in 0..<2_000 {
            let p = Double.random(in: 0..<1, using: &random)
            let found = (0..<300).count { _ in Double.random(in: 0..<1, using: &random) < p }
            #expect(LivingRows.leastShare(found, of: 300) <= p)
        }
    }
}
