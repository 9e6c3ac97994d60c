import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Taking reports out of the table")
struct EvidenceIntakeTests {
    static func database(_ engine: TestEngine, rows: Int) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        for number in 0..<rows { try database.report(DeviceToken.numbered(number).hex) }
        return database
    }

    private static let now = EpochMilliseconds(1_790_000_000_000)

    private static func terms(_ apps: String...) -> IntakeTerms {
        terms(words(Dictionary(uniqueKeysWithValues: apps.map { ($0, $0) })))
    }

    static func terms(_ apps: AppWords) -> IntakeTerms {
        IntakeTerms(
            run: "run", host: "h", apps, ReportReader(now: now, mayUseArrival: false),
            name: { UUID().uuidString.lowercased() })
    }

    private static func waiting(_ database: TokenDatabase) throws -> Int {
        try database.rows(of: "pushsweep_evidence")
    }

    /// Takes everything as a sweep does.
    static func takeAll(
        _ intake: EvidenceIntake, _ terms: IntakeTerms = terms("chat"), limit: Int = 1_000,
        at now: EpochMilliseconds = now
    ) throws -> [TakenRows] {
        var (all, last) = ([TakenRows](), Int64?.none)
        while let taken = try intake.take(terms, after: last, limit: limit, at: now) {
            all.append(taken)
            last = taken.last
        }
        return all
    }

    @Test(
        "a run takes what was there when it began, and leaves what comes meanwhile to the next",
        arguments: TestEngine.available)
    func endOfRun(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 5)
        let intake = EvidenceIntake(try database.store())
        let end = try #require(try intake.lastNumber())
        try database.report(DeviceToken.numbered(7).hex)
        let terms = IntakeTerms(
            run: "run", host: "h", Self.words(["chat": "chat"]),
            ReportReader(now: Self.now, mayUseArrival: false), end: end,
            name: { UUID().uuidString.lowercased() })
        for limit in [2, 1_000] {
            _ = try Self.takeAll(intake, terms, limit: limit)
            #expect(try Self.waiting(database) == 1)
        }
        #expect(try Self.takeAll(intake).count == 1)
        #expect(try Self.waiting(database) == 0)
    }

    @Test(
        "reports of a batch that is not there are a finding, are of no later batch, and go with a purge",
        arguments: TestEngine.available)
    func strays(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<4)
        let store = try database.store()
        try store.apply([.dead(1, at: start + 60_000), .dead(2, at: start + 60_000)], feed: "list")
        try database.execute("DELETE FROM pushsweep_batch WHERE name = 'list'")
        let found = try ReportHistory(store).unbalanced(limit: 9)
        #expect(found.map(\.said) == [0] && found.map(\.found) == [2])
        try store.apply([.dead(1, at: start + 60_000)], feed: "list")
        #expect(try ReportHistory(store).unbalanced(limit: 9) == found)
        _ = try store.purge(before: EpochMilliseconds(start))
        #expect(try ReportHistory(store).unbalanced(limit: 9).isEmpty)
        #expect(try database.rows(of: "pushsweep_report") == 1)
    }

    @Test(
        "after a fault at any operation each report is in one place: the table, or a batch that waits",
        arguments: TestEngine.available)
    func faults(_ engine: TestEngine) throws {
        var (taken, left, lost) = (0, 0, 0)
        func run(_ fault: FaultyConnection.Fault?) throws -> Int {
            let database = try Self.database(engine, rows: 3)
            try database.report("no token")
            try database.report(DeviceToken.numbered(9).hex, status: 400, reason: "BadDeviceToken")
            let connection = FaultyConnection(database.driver(), fault.map { [$0] } ?? [])
            let intake = EvidenceIntake(
                try TokenTable(database.settings, connection, Pacing(sleep: { _ in })))
            let result = Result {
                try intake.take(Self.terms("chat"), after: nil, limit: 9, at: Self.now)
            }
            let rows = try Self.waiting(database)
            let reports = try database.rows(of: "pushsweep_report", "state = 0")
            let parts = try database.rows(of: "pushsweep_quarantine")
            #expect([[5, 0, 0], [0, 4, 1]].contains([rows, reports, parts]), "\(fault as Any)")
            #expect(
                try database.rows(of: "pushsweep_batch", "state = 'waiting'")
                    == (rows == 0 ? 2 : 0))
            if case .success(let found) = result {
                #expect(rows == 0 && found?.counts.reports == 5 && found?.batches.count == 2)
            } else if rows == 0 {
                lost += 1
            }
            if rows == 0 { taken += 1 } else { left += 1 }
            return connection.operations
        }
        let count = try run(nil)
        for fault in FaultyConnection.Fault.spread(over: count, most: count, on: engine) {
            _ = try run(fault)
        }
        // A lost answer to the commit is among them, and the run knows what became of it.
        #expect(taken >= 2 && left >= 8 && lost == 0)
    }

    @Test(
        "rows of any numbers are taken, also many, each once and in batches by app and reason",
        arguments: TestEngine.available)
    func numbers(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 0)
        let hex = { (number: Int) in DeviceToken.numbered(number).hex }
        let values = (1...5_000).map {
            "(\($0 * 3 / 2), '\($0 % 2 == 0 ? "chat" : "mail")', '\(hex($0 / 4))', \(1_700_000_000_000 + $0))"
        }
        for part in stride(from: 0, to: values.count, by: 500) {
            try database.execute(
                "INSERT INTO pushsweep_evidence (id, app, device_token, timestamp_ms) VALUES "
                    + values[part..<part + 500].joined(separator: ", "))
        }
        for bound in [Int64.min, -1, Int64.max] {
            try database.execute(
                "INSERT INTO pushsweep_evidence (id, app, device_token) VALUES (?, 'chat', 'x')",
                [.integer(bound)])
        }
        let intake = EvidenceIntake(try database.store())
        #expect(try intake.peek(after: nil, limit: 1).map(\.id) == [.min])
        let all = try Self.takeAll(intake, Self.terms("chat", "mail"), limit: 2_000)
        #expect(all.count == 3 && all.reduce(0) { $0 + $1.counts.reports } == 5_003)
        #expect(try Self.waiting(database) == 0)
        #expect(try database.rows(of: "pushsweep_report") == 5_000)
        #expect(try database.rows(of: "pushsweep_quarantine") == 3)
        for (batch, evidence) in all.flatMap(\.batches) {
            var stored = StoredReports(of: batch.id, in: try database.store())
            #expect(try stored.next(9_000) == evidence && batch.reports > evidence.count)
        }
    }

    @Test(
        "rows of an app that these settings do not name wait a day for another host, and hold up no other",
        arguments: TestEngine.available)
    func otherApps(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 0)
        let intake = EvidenceIntake(try database.store())
        let now = try database.store().session.databaseTime()
        for number in 0..<5 { try database.report(DeviceToken.numbered(number).hex, app: "mail") }
        for number in 5..<8 { try database.report(DeviceToken.numbered(number).hex) }
        let all = try Self.takeAll(intake, limit: 2, at: now)
        #expect(all.reduce(0) { $0 + $1.left.count } == 5)
        #expect(all.reduce(0) { $0 + $1.counts.evidence } == 3)
        #expect(try Self.waiting(database) == 5)
        // The least number there is holds up nothing, and a row that uses up the numbers does not stay.
        for bound in [Int64.min, Int64.max] {
            try database.execute(
                "INSERT INTO pushsweep_evidence (id, app, device_token) VALUES (?, 'other', 'x')",
                [.integer(bound)])
        }
        let bounds = try Self.takeAll(intake, limit: 2, at: now)
        #expect(bounds.reduce(0) { $0 + $1.left.count } == 6)
        let left = bounds.reduce(into: LeftRows()) { $0 += $1.left }
        #expect(left.names.contains("app mail in environment") && left.names.contains("app other"))
        #expect(bounds.reduce(0) { $0 + $1.counts.quarantined } == 1)
        #expect(try intake.peek(after: .min, limit: 9).count == 5)
        try database.execute("DELETE FROM pushsweep_evidence WHERE app = 'other'")
        #expect(try intake.renumber())
        // The host whose settings name it takes them; what none takes is kept for a person.
        let other = try Self.takeAll(intake, Self.terms("mail", "web"), limit: 2, at: now)
        #expect(other.reduce(0) { $0 + $1.counts.evidence } == 5)
        try database.report(DeviceToken.numbered(9).hex, app: "mial")
        let late = now.advanced(by: IntakeTerms.patience + 60_000)
        #expect(try Self.takeAll(intake, at: late).map(\.counts.quarantined) == [1])
        let part = try #require(
            try Quarantine(database.store()).parts(about: .numbered(9), limit: 9).first)
        #expect(part.part.reason.contains("the settings name no app mial"))
        #expect(try Self.waiting(database) == 0)
    }

    @Test(
        "a row that somebody has locked is passed over, and the others are taken",
        arguments: TestEngine.available.filter { $0 == .mariaDB })
    func locked(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 5)
        let holder = database.driver()
        try holder.connect()
        try holder.begin()
        _ = try holder.query(
            "SELECT id FROM pushsweep_evidence WHERE device_token = ? FOR UPDATE",
            [.text(DeviceToken.numbered(2).hex)])
        // The lock of a scan is of all rows at this isolation, so it is asked by its number.
        holder.rollBack()
        try holder.begin()
        let id = try holder.query(
            "SELECT id FROM pushsweep_evidence WHERE device_token = ?",
            [.text(DeviceToken.numbered(2).hex)]
        ).scalar
        _ = try holder.query(
            "SELECT id FROM pushsweep_evidence WHERE id = ? FOR UPDATE", [id ?? .null])
        let intake = EvidenceIntake(try database.store())
        #expect(try Self.takeAll(intake).map(\.counts.evidence) == [4])
        #expect(try Self.waiting(database) == 1)
        holder.rollBack()
        #expect(try Self.takeAll(intake).map(\.counts.evidence) == [1])
    }

    @Test("where fewer rows go than were read, none counts, since it would count again")
    func undeleted() throws {
        let database = try Self.database(.sqlite, rows: 3)
        try database.execute(
            "CREATE TRIGGER kept BEFORE DELETE ON pushsweep_evidence WHEN old.id = 2 "
                + "BEGIN SELECT RAISE(IGNORE); END")
        let intake = EvidenceIntake(try database.store())
        #expect(throws: StoreFailure.self) { try Self.takeAll(intake) }
        #expect(try Self.waiting(database) == 3)
        #expect(try database.rows(of: "pushsweep_report") == 0)
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
