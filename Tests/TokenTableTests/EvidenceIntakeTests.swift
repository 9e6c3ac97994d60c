import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Taking reports out of the table")
struct EvidenceIntakeTests {
    private static func database(_ engine: TestEngine, rows: Int) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        for number in 0..<rows {
            try database.execute(
                "INSERT INTO pushsweep_evidence (app, device_token) VALUES ('chat', ?)",
                [.text("\(number)")])
        }
        return database
    }

    private static func counts(_ number: Int) -> ReportCounts {
        var counts = ReportCounts()
        (counts.reports, counts.suspects, counts.other) = (number, 1, number - 1)
        return counts
    }

    private static func waiting(_ database: TokenDatabase) throws -> Int {
        try database.rows(of: "pushsweep_evidence")
    }

    @Test(
        "after a fault at any operation the name says whether the rows changed hands",
        arguments: TestEngine.available)
    func faults(_ engine: TestEngine) throws {
        var (taken, void) = (0, 0)
        func run(_ fault: FaultyConnection.Fault?) throws -> Int {
            let database = try Self.database(engine, rows: 3)
            let connection = FaultyConnection(database.driver(), fault.map { [$0] } ?? [])
            let intake = EvidenceIntake(
                try TokenTable(database.settings, connection, Pacing(sleep: { _ in })))
            let name = UUID().uuidString.lowercased()
            var kept = 0
            let result = Result {
                try intake.take(as: name, run: "run", limit: 3) {
                    kept += $0.count
                } seal: {
                    Self.counts(kept)
                }
            }
            if case .success(let count) = result { #expect(count == 3 && kept == 3) }
            let asked = EvidenceIntake(try database.store())
            let state = try asked.resolve(name, run: "run")
            #expect(try Self.waiting(database) == (state == .taken ? 0 : 3), "\(fault as Any)")
            if state == .taken {
                #expect(kept == 3)
                #expect(try asked.counts(of: name) == Self.counts(3))
            }
            #expect(try asked.resolve(name, run: "run") == state)
            if state == .taken { taken += 1 } else { void += 1 }
            return connection.operations
        }
        let count = try run(nil)
        for fault in FaultyConnection.Fault.spread(over: count, most: count) {
            _ = try run(fault)
        }
        // A lost answer to the commit is among them.
        #expect(taken >= 2 && void >= 8)
    }

    @Test(
        "rows of any numbers are taken, also many, and also where some go away meanwhile",
        arguments: TestEngine.available)
    func numbers(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 0)
        let values = (1...5_000).map { "(\($0 * 3 / 2), 'chat', '\($0)')" }
        for part in stride(from: 0, to: values.count, by: 500) {
            try database.execute(
                "INSERT INTO pushsweep_evidence (id, app, device_token) VALUES "
                    + values[part..<part + 500].joined(separator: ", "))
        }
        for bound in [Int64.min, -1, Int64.max] {
            try database.execute(
                "INSERT INTO pushsweep_evidence (id, app, device_token) VALUES (?, 'chat', 'x')",
                [.integer(bound)])
        }
        let intake = EvidenceIntake(try database.store())
        var kept: [Int64] = []
        var isFirst = true
        let taken = try intake.take(
            as: UUID().uuidString.lowercased(), run: "run", limit: 100_000,
            keep: { rows in
                kept += rows.map(\.id)
                // SQLite has one writer at a time.
                guard isFirst, engine != .sqlite else { return }
                isFirst = false
                try database.execute(
                    "DELETE FROM pushsweep_evidence WHERE id BETWEEN 3000 AND 3100")
            }, seal: { Self.counts(kept.count) })
        let gone =
            engine == .sqlite ? 0 : (1...5_000).count { (3_000...3_100).contains($0 * 3 / 2) }
        #expect(taken == 5_003 - gone && kept.count == taken && Set(kept).count == taken)
        #expect(kept.contains(.min) && kept.contains(.max))
        #expect(try Self.waiting(database) == 0)
    }

    @Test("where fewer rows go than were read, none counts, since it would count again")
    func undeleted() throws {
        let database = try Self.database(.sqlite, rows: 3)
        try database.execute(
            "CREATE TRIGGER kept BEFORE DELETE ON pushsweep_evidence WHEN old.id = 2 "
                + "BEGIN SELECT RAISE(IGNORE); END")
        let intake = EvidenceIntake(try database.store())
        let name = UUID().uuidString.lowercased()
        #expect(throws: StoreFailure.self) {
            try intake.take(
                as: name, run: "run", limit: 3, keep: { _ in }, seal: { Self.counts(3) })
        }
        #expect(try Self.waiting(database) == 3)
        #expect(try intake.resolve(name, run: "run") == .void)
    }

    @Test(
        "a name that became void can never be taken by the transaction that still held it",
        arguments: TestEngine.available.filter { $0 == .mariaDB })
    func voidWins(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 1)
        let intake = EvidenceIntake(try database.store())
        let name = UUID().uuidString.lowercased()
        #expect(try intake.resolve(name, run: "run") == .void)
        #expect(throws: StoreFailure.self) {
            try intake.take(
                as: name, run: "run", limit: 3, keep: { _ in }, seal: { Self.counts(1) })
        }
        #expect(try Self.waiting(database) == 1)
    }

    @Test(
        "one of two imports of the same content is taken, and a void one may be taken later",
        arguments: TestEngine.available)
    func claims(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 0)
        let intake = EvidenceIntake(try database.store())
        let name = UUID().uuidString.lowercased()
        #expect(try intake.resolve(name, run: "killed") == .void)
        #expect(try intake.claim(name, run: "first", Self.counts(5)))
        #expect(try !intake.claim(name, run: "second", Self.counts(5)))
        // The killed import of another host must not count what the first one has counted.
        #expect(try intake.resolve(name, run: "killed") == .void)
        #expect(try intake.resolve(name, run: "first") == .taken)
        #expect(try intake.counts(of: name) == Self.counts(5))
        // An answer to the claim that got lost is no other import.
        for operation in 1...3 {
            let again = UUID().uuidString.lowercased()
            #expect(try intake.resolve(again, run: "killed") == .void)
            let connection = FaultyConnection(
                database.driver(), [.init(operation: operation, isExecuted: true, kind: .lost)])
            let faulty = EvidenceIntake(
                try TokenTable(database.settings, connection, Pacing(sleep: { _ in })))
            #expect(try faulty.claim(again, run: "first", Self.counts(1)), "operation \(operation)")
            #expect(try intake.resolve(again, run: "first") == .taken)
        }
    }

    @Test(
        "an account with the documented grant can report, and nothing else: it cannot choose a number",
        arguments: TestEngine.available.filter { $0 == .mariaDB })
    func insertAlone(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 0)
        let page = try String(
            contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appending(path: "../../docs/evidence.md"), encoding: .utf8)
        let found = try #require(page.firstMatch(of: /GRANT INSERT[^;]*/))
        let grant = String(found.output)
        let account = try ServerAccount(of: database)
        try account.run([
            grant.replacing("'sender'", with: "'\(account.name)'").replacing(
                "push.", with: "\(database.name).")
        ])
        guard case .server(let address) = account.settings.location else { return }
        let connection = MariaDBConnection(address, account.settings)
        try connection.connect()
        _ = try connection.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, timestamp_ms) VALUES (?, ?, ?)",
            [.text("chat"), .text("c9d4"), .integer(1_700_000_000_000)])
        for refused in [
            "SELECT * FROM pushsweep_evidence",
            "INSERT INTO pushsweep_evidence (id, app, device_token) VALUES (9223372036854775807, 'a', 'b')",
        ] {
            #expect(throws: SQLFailure.self) { try connection.query(refused) }
        }
        #expect(try Self.waiting(database) == 1)
    }

    @Test(
        "a row with the highest number is told of after it was taken, until the statement has run",
        arguments: TestEngine.available)
    func exhaustion(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 2)
        let intake = EvidenceIntake(try database.store())
        #expect(try intake.exhaustion() == nil)
        try database.execute(
            "INSERT INTO pushsweep_evidence (id, app, device_token) "
                + "VALUES (9223372036854775807, 'chat', 'zz')")
        // The row itself still has the last number.
        #expect(try !intake.renumber())
        try database.execute("DELETE FROM pushsweep_evidence")
        let sentence = try #require(try intake.exhaustion())
        let cure = try #require(sentence.firstMatch(of: /run: ([^;]*);/)).output.1
        #expect(try intake.renumber())
        #expect(try intake.exhaustion() == nil)
        // An administrator's way, where the account may not.
        try database.execute(String(cure))
    }
}
