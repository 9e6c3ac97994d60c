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
        let database = try TokenDatabase.withSideTables(engine)
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

    @Test(
        "the guard decides by ranges as it does by an exact count, and counts no range twice",
        arguments: TestEngine.available)
    func decisions(_ engine: TestEngine) throws {
        var random = SeededGenerator("of living rows on \(engine)")
        for _ in 0..<6 {
            let rows = Int.random(in: 1...4_000, using: &random)
            let database = try Self.stage(
                engine, rows, gap: [1, 50].randomElement(using: &random) ?? 1, &random)
            let exact = try database.count(
                "SELECT COUNT(*) FROM devices WHERE app_id = 'chat' AND "
                    + "(invalidated_at IS NULL OR registered_at > invalidated_at)")
            let connection = FaultyConnection(database.driver(), [])
            let store = try TokenTable(database.settings, connection, hurried())
            for _ in 0..<10 {
                let living = LivingRows(store, in: chat, span: 500)
                for _ in 0..<3 {
                    let limit =
                        Bool.random(using: &random)
                        ? Int.random(in: 0...rows + 10, using: &random)
                        : max(0, exact + Int.random(in: -20...20, using: &random))
                    #expect(try living.count(atMost: limit) == min(limit, exact))
                }
                #expect(try living.count(atMost: .max) == exact)
                let asked = connection.log.count
                #expect(try living.count(atMost: exact / 2) == exact / 2)
                #expect(connection.log.count == asked)
                try Self.compare(store, exact: exact, rows, &random)
            }
        }
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
        let living = LivingRows(store, in: chat, span: 500)
        let found = try judge.cause(toHold: proposal, after: history) {
            try living.count(atMost: $0)
        }
        let expected = judge.cause(toHold: proposal, after: history) { min($0, exact) }
        #expect(found == expected, "\(removals) of \(exact) living, history \(history)")
    }
}
