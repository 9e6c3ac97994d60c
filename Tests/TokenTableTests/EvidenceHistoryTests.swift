import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("The history of evidence")
struct EvidenceHistoryTests {
    private static let start: Int64 = 1_700_000_000_000
    private static let day: Int64 = 86_400_000

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        try database.register(0..<100, at: start)
        let store = try database.store(pacing: hurried())
        for (run, tokens) in [("first", 0..<30), ("second", 20..<60), ("third", 90..<130)] {
            try store.sweep(run, tokens.map { .dead($0, at: start + 60_000) }, at: start + day)
        }
        for (run, days) in [("first", 1), ("second", 1), ("third", 2)] {
            try database.execute(
                "UPDATE pushsweep_batch SET changed_at = ? WHERE run = '\(run)'",
                [database.time(start + Int64(days) * day)])
            try database.execute(
                "UPDATE pushsweep_change SET changed_at = ? WHERE \(isOfRun(run))",
                [database.time(start + Int64(days) * day)])
        }
        return database
    }

    @Test(
        "purges, also such that fail at any operation, leave the totals of each day as they were",
        arguments: TestEngine.available)
    func purges(_ engine: TestEngine) throws {
        func days(_ database: TokenDatabase) throws -> [DayOfEvidence] {
            try EvidenceHistory(try database.store()).days(from: "2023-11-01", to: "2023-12-31")
        }
        let cutoff = EpochMilliseconds(Self.start + 40 * Self.day)
        func run(_ fault: FaultyConnection.Fault?) throws -> Int {
            let database = try Self.database(engine)
            let before = try days(database)
            #expect(before.map(\.day) == ["2023-11-15", "2023-11-16"])
            #expect(before.map(\.counts.applied) == [60, 10])
            #expect(before.map(\.counts.already) == [10, 0])
            #expect(before.map(\.counts.unknown) == [0, 30])
            let connection = FaultyConnection(database.driver(), fault.map { [$0] } ?? [])
            let store = try TokenTable(database.settings, connection, hurried())
            _ = try? store.purge(before: cutoff)
            #expect(try days(database) == before, "\(fault as Any)")
            #expect(try database.store().purge(before: cutoff).isDone)
            #expect(try database.rows(of: "pushsweep_batch") == 0)
            #expect(try days(database) == before, "\(fault as Any)")
            return connection.operations
        }
        for fault in FaultyConnection.Fault.spread(over: try run(nil), most: 6, on: engine) {
            _ = try run(fault)
        }
    }

    @Test(
        "a purge keeps the parts of a batch that stays, and counts one of which a later run has a part",
        arguments: TestEngine.available)
    func parts(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let store = try database.store()
        // As a run leaves it that looked for the rows of unknown tokens under another mapping.
        try store.session.record(
            RunRecord(
                id: "later", kind: "sweep", started: EpochMilliseconds(Self.start + 60 * Self.day),
                host: "h"))
        try database.execute(
            "INSERT INTO pushsweep_part (run, batch, app, environment, source, table_name, key_columns, mapping) "
                + "SELECT 'later', number, app, environment, source, '', '', 'm' FROM pushsweep_batch "
                + "WHERE run = 'first'")
        // A run that began long ago and judged a batch lately, in which it found no row.
        try database.execute(
            "UPDATE pushsweep_batch SET changed_at = ? WHERE run = 'third'",
            [database.time(Self.start + 50 * Self.day)])
        try database.execute("DELETE FROM pushsweep_change WHERE \(isOfRun("third"))")
        func days() throws -> [DayOfEvidence] {
            try EvidenceHistory(store).days(from: "2023-11-01", to: "2024-12-31")
        }
        let before = try days()
        for _ in 0..<2 {
            #expect(
                try store.purge(before: EpochMilliseconds(Self.start + 40 * Self.day)).isDone)
            #expect(try days() == before)
        }
        #expect(try database.texts("SELECT run FROM pushsweep_batch") == [["third"]])
        #expect(try database.texts("SELECT run FROM pushsweep_part") == [["third"]])
        #expect(
            try database.texts("SELECT id FROM pushsweep_run ORDER BY id") == [
                ["later"], ["third"],
            ]
        )
    }

    @Test("a period has its first and its last day", arguments: TestEngine.available)
    func period(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let history = EvidenceHistory(try database.store())
        #expect(try history.days(from: "2023-11-16", to: "2023-11-16").map(\.day) == ["2023-11-16"])
        #expect(try history.days(from: "2023-11-17", to: "2023-12-31").isEmpty)
        #expect(try history.isReadable())
    }
}
