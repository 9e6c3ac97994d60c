import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// One row with two tokens and a mark for each, and a settings file for each of them.
@Suite("Entries of another token or mark")
struct EntryColumnTests {
    private static let evidence = (0..<20).map { TokenEvidence.dead($0, at: start + 60_000) }

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, push_token VARCHAR(64), "
                + "voip_token VARCHAR(64), registered_at DATETIME, invalidated_at DATETIME NULL, "
                + "voip_invalidated_at DATETIME NULL, active INTEGER)")
        for number in 0..<20 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?, NULL, NULL, 1)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    .text(DeviceToken.numbered(100 + number).hex), database.time(start),
                ])
        }
        return database
    }

    private static func store(
        _ database: TokenDatabase, token: String = "push_token",
        mark: OptionalColumn = .named("invalidated_at"), living: String? = nil
    ) throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.table = "devices"
            $0.token = token
            $0.invalidatedAt.column = mark
            if living != nil {
                ($0.living.column, $0.living.living, $0.living.dead) = (living, "1", "0")
            }
        }
    }

    private static func contents(_ database: TokenDatabase) throws -> [[String]] {
        try database.contents(of: "devices")
    }

    @Test(
        "an undo under the settings of another token of the row leaves its marks alone and says so",
        arguments: TestEngine.available, ["voip_invalidated_at", "invalidated_at"])
    func otherToken(_ engine: TestEngine, _ column: String) throws {
        let database = try Self.database(engine)
        let push = try Self.store(database)
        let voip = try Self.store(database, token: "voip_token", mark: .named(column))
        try push.sweep("alert", Array(Self.evidence.prefix(10)))
        try voip.sweep("voip", (105..<115).map { .dead($0, at: start + 60_000) })
        let before = try Self.contents(database)
        // Marks of the same time and source in both.
        for isDry in [true, false] {
            let undone = try push.undo(.run("voip"), isDry: isDry)
            #expect(
                undone.isDone && undone.kept == ["foreign": column == "invalidated_at" ? 5 : 10])
            #expect(undone.restored == 0 && undone.already == 0)
        }
        #expect(try push.undo(.token(.numbered(105)), isDry: true).restored == 0)
        #expect(try Self.contents(database) == before)
        #expect(try voip.undo(.run("voip")).restored == (column == "invalidated_at" ? 5 : 10))
        #expect(try push.undo(.run("alert")).restored == 10)
        #expect(
            try database.rows(
                of: "devices", "invalidated_at IS NULL AND voip_invalidated_at IS NULL") == 20)
    }

    @Test(
        "an undo under another word for dead takes no word of the application for a mark",
        arguments: TestEngine.available)
    func otherWord(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        func store(_ dead: String, _ other: String) throws -> TokenTable {
            try database.store(pacing: hurried()) {
                $0.table = "devices"
                $0.token = "push_token"
                $0.living = LivingMapping(
                    column: "active", living: "1", dead: dead, others: [other])
            }
        }
        try store("0", "2").sweep("run", Array(Self.evidence.prefix(4)))
        // The application's own word for a row that it put aside.
        try database.execute("UPDATE devices SET active = 2 WHERE id < 2")
        let before = try Self.contents(database)
        let undone = try store("2", "0").undo(.run("run"))
        #expect(undone.restored == 0 && undone.kept == ["foreign": 4], "\(undone)")
        #expect(try Self.contents(database) == before)
        #expect(try store("0", "2").undo(.run("run")).restored == 2)
    }

    @Test(
        "an undo after the mark was given another column leaves the old marks alone and says so",
        arguments: TestEngine.available)
    func otherMark(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        try Self.store(database).sweep("run", Self.evidence)
        let before = try Self.contents(database)
        for store in [
            try Self.store(database, mark: .named("voip_invalidated_at")),
            try Self.store(database, mark: .absent),
            try Self.store(database, mark: .absent, living: "active"),
        ] {
            let undone = try store.undo(.run("run"))
            #expect(undone.isDone && undone.kept == ["foreign": 20], "\(undone)")
            #expect(undone.restored == 0 && undone.already == 0)
            #expect(try store.undo(.token(.numbered(3))).kept == ["foreign": 1])
        }
        #expect(try Self.contents(database) == before)
        #expect(try Self.store(database).undo(.run("run")).restored == 20)
    }

    @Test(
        "a column of two values is foreign to settings without it, with the time beside it",
        arguments: TestEngine.available)
    func otherLiving(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let living = try Self.store(database, mark: .absent, living: "active")
        try living.sweep("run", Self.evidence)
        let before = try Self.contents(database)
        for store in [try Self.store(database), try Self.store(database, mark: .absent)] {
            let undone = try store.undo(.run("run"))
            #expect(undone.kept == ["foreign": 20] && undone.rowsChanged == 0, "\(undone)")
        }
        #expect(try Self.contents(database) == before)
        #expect(try living.undo(.run("run")).restored == 20)
        #expect(try database.rows(of: "pushsweep_invalid") == 0)
    }

    @Test(
        "marks beside the table stay undoable after the table is given a column for marks",
        arguments: TestEngine.available)
    func columnGiven(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        try Self.store(database, mark: .absent).sweep("run", Self.evidence)
        #expect(try Self.store(database).undo(.run("run")).restored == 20)
        #expect(try database.rows(of: "pushsweep_invalid") == 0)
    }

    @Test(
        "removed rows come back whatever the mark is now, and not under the settings of another token",
        arguments: TestEngine.available)
    func removals(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let before = try Self.contents(database)
        try Self.store(database).sweep(
            "run", Self.evidence, policy: RemovalPolicy(action: .delete))
        let voip = try Self.store(
            database, token: "voip_token", mark: .named("voip_invalidated_at"))
        #expect(try voip.undo(.run("run")).kept == ["foreign": 20])
        #expect(try database.rows(of: "devices") == 0)
        #expect(try Self.store(database, mark: .absent).undo(.run("run")).restored == 20)
        #expect(try Self.contents(database) == before)
    }

    @Test(
        "an undo that was cut short is not continued under the settings of another token",
        arguments: TestEngine.available)
    func continued(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let push = try Self.store(database)
        let voip = try Self.store(
            database, token: "voip_token", mark: .named("voip_invalidated_at"))
        try push.sweep("run", Self.evidence)
        try voip.apply((100..<110).map { .dead($0, at: start + 60_000) }, run: "run")
        let cut = try push.undo(.run("run"), shouldStop: { true })
        #expect(!cut.isDone)
        expectFailure(.configuration, "another key, token or mark") {
            try voip.undo(.run("run"))
        }
        #expect(try push.undo(.run("run")).restored == 20)
    }

    @Test(
        "a grace period does not start anew for changes by another token",
        arguments: TestEngine.available)
    func grace(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let day: Int64 = 86_400_000
        let policy = RemovalPolicy(action: .delete, deletesAfter: 7 * day)
        let push = try Self.store(database)
        let voip = try Self.store(
            database, token: "voip_token", mark: .named("voip_invalidated_at"))
        try push.sweep("alert", Array(Self.evidence.prefix(10)), policy: policy)
        try voip.sweep(
            "voip", [.dead(115, at: start + 8 * day)], at: start + 8 * day, policy: policy)
        var untouched: EpochMilliseconds?
        let expiry = GraceEnd.afterAWeek(at: start + 9 * day)
        #expect(try push.due(expiry, noticing: { untouched = $0 }) == 10)
        #expect(untouched == nil)
    }

    @Test(
        "an explanation tells no state of a change by another token",
        arguments: TestEngine.available)
    func explained(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let voip = try Self.store(
            database, token: "voip_token", mark: .named("voip_invalidated_at"))
        try voip.sweep("voip", [.dead(105, at: start + 60_000)])
        for (store, isForeign) in [(try Self.store(database), true), (voip, false)] {
            let history = try TokenHistory(store)
            let changes = try history.changes(of: .numbered(105), readsBatches: true).entries
            #expect(changes.map(\.isForeign) == [isForeign])
            #expect((history.states(of: changes[0]).after == nil) == isForeign)
        }
    }

    @Test("names of any length make a text of 255 characters at most, and others another text")
    func texts() {
        let names = (0..<9).map { String(repeating: "ü\u{301}", count: 31) + "\($0)" }
        let long = EntryColumns(key: names, token: names[0], mark: [names[1], names[2]])
        #expect(long.text.unicodeScalars.count <= 255)
        let other = EntryColumns(
            key: names.dropLast() + ["x"], token: names[0], mark: [names[1], names[2]])
        #expect(long.text != other.text && !long.likeness(to: other.text).hasKey)
        #expect(long.likeness(to: long.text).hasMark && !long.likeness(to: nil).hasKey)
        let usual = EntryColumns(key: ["ID"], token: "Token", mark: [])
        #expect(usual.text == "id | token | ")
        #expect(usual.likeness(to: "id | token | dead") == .init(hasKey: true, hasToken: true))
        #expect(usual.likeness(to: "id | voip | ") == .init(hasKey: true))
        #expect(
            usual.likeness(to: "") == .init() && usual.likeness(to: "number | token | ") == .init())
    }
}
