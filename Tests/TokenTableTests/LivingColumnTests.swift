import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

private let day: Int64 = 86_400_000

/// A column of two values on an engine.
struct LivingCase: Sendable, CustomTestStringConvertible {
    let engine: TestEngine
    let type: String
    let living: String
    let dead: String
    var testDescription: String { "\(engine.rawValue), \(type), \(living) and \(dead)" }

    static let all: [LivingCase] = TestEngine.available.flatMap { engine in
        types(engine).map {
            LivingCase(engine: engine, type: $0.0, living: $0.1, dead: $0.2)
        }
    }

    /// One of numbers and one of words for each engine, where the type makes no difference.
    static let few = all.filter { ["INTEGER", "CHAR(1)"].contains($0.type) }

    private static func types(_ engine: TestEngine) -> [(String, String, String)] {
        let both = [("INTEGER", "1", "0"), ("CHAR(1)", "Y", "N"), ("BOOLEAN", "true", "false")]
        switch engine {
        case .mariaDB:
            return both + [
                ("TINYINT(1)", "0", "1"), ("BIT(1)", "1", "0"), ("BIT(9)", "256", "1"),
                ("BIGINT UNSIGNED", "18", "0"), ("ENUM('N','Y')", "Y", "N"),
                ("VARCHAR(20) CHARACTER SET latin1", "in use", "it's gone"),
            ]
        case .sqlite: return both + [("", "Y", "N"), ("", "1", "0"), ("REAL", "1", "0")]
        }
    }

    /// A word as a literal of SQL.
    func literal(_ word: String) -> String {
        Int(word) != nil || ["true", "false"].contains(word)
            ? word : "'\(word.replacing("'", with: "''"))'"
    }
}

/// A table whose own column says which tokens are used.
private struct LivingStage {
    let database: TokenDatabase
    let column: LivingCase

    /// Rows 0 and 1 are living, 2 was set dead by the app, 3 has NULL.
    init(_ column: LivingCase) throws {
        self.column = column
        database = try TokenDatabase(column.engine)
        try database.createOwnSchema()
        try database.execute("ALTER TABLE active_users ADD active \(column.type)")
        try database.register(0..<4, at: start)
        try set([0, 1], to: column.living)
        try set([2], to: column.dead)
    }

    func set(_ numbers: [Int], to word: String) throws {
        for number in numbers {
            try database.update("active = \(column.literal(word))", of: number)
        }
    }

    func store() throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.living = LivingMapping(
                column: "Active", living: column.living, dead: column.dead)
        }
    }

    /// The numbers of the rows that the app takes for dead.
    func dead() throws -> [Int] {
        try (0..<4).filter {
            try database.count(
                "SELECT COUNT(*) FROM active_users WHERE device_token = ? AND active = "
                    + column.literal(column.dead), [.bytes(DeviceToken.numbered($0).bytes)]) == 1
        }
    }

    /// The number of times in the side table.
    func times() throws -> Int { try database.rows(of: "pushsweep_invalid") }

    func evidence(at time: Int64 = start + 60_000, of numbers: [Int] = [0, 2, 3]) -> [TokenEvidence]
    {
        numbers.map { .dead($0, at: time) }
    }
}

@Suite("A column of two values as the mark")
struct LivingColumnTests {
    @Test(
        "a mark sets the column and its time beside, and undo takes both back",
        arguments: LivingCase.all)
    func thereAndBack(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        let before = try stage.database.contents()
        #expect(try store.livingRows(in: chat).count(atMost: 100) == 3)
        let forecast = try store.classify(stage.evidence())
        #expect(forecast.counts == Counts(applied: 2, already: 1))
        #expect(forecast.candidateRows == 2)
        try store.sweep("one", stage.evidence())
        let marked = try stage.database.contents()
        #expect(try stage.dead() == [0, 2, 3])
        #expect(try stage.times() == 2)
        #expect(try store.livingRows(in: chat).count(atMost: 100) == 1)
        #expect(
            try stage.database.count("SELECT COUNT(invalidated_at) FROM active_users") == 0)
        // The same evidence again changes nothing, later evidence moves the time.
        try store.sweep("two", stage.evidence(), at: start + 700_000)
        #expect(try stage.database.contents() == marked)
        try store.sweep("three", stage.evidence(at: start + 90_000), at: start + 800_000)
        #expect(try stage.dead() == [0, 2, 3])
        #expect(try stage.times() == 2)
        #expect(try stage.database.contents() != marked)
        let undone = try store.undo(.run("three"), as: "u3")
        #expect(undone.restored == 2)
        #expect(try stage.database.contents() == marked)
        #expect(try store.undo(.run("one"), as: "u1", at: start + 910_000).restored == 2)
        #expect(try stage.database.contents() == before)
        #expect(try store.undo(.run("u1"), as: "u0", at: start + 920_000).restored == 2)
        #expect(try stage.database.contents() == marked)
    }

    @Test(
        "a follower gets each change of a row once, with the state that the column has then",
        arguments: LivingCase.few)
    func followed(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        try store.sweep("one", stage.evidence())
        _ = try store.undo(.run("one"), as: "u1")
        var follower = try ChangeFollower(store.session, from: .time(EpochMilliseconds(0)))
        var states: [String?] = []
        while case let page = try follower.next(), !page.isEmpty {
            states += page.map(\.entry.state)
        }
        #expect(states == ["invalid", "invalid", "valid", "valid"])
    }

    @Test(
        "a row that the app sets living again is living, until later evidence",
        arguments: LivingCase.few)
    func revived(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        try store.sweep("one", stage.evidence())
        try stage.set([0], to: column.living)
        let tokens = (0..<4).map { DeviceToken.numbered($0) }
        #expect(
            try store.skipReasons(of: tokens, in: chat) == [tokens[2]: .stale, tokens[3]: .stale])
        #expect(try store.livingRows(in: chat).count(atMost: 100) == 2)
        // The evidence that the app has overruled does not mark the row again.
        let again = try store.apply(stage.evidence(of: [0]))
        #expect(again.counts == Counts(newer: 1))
        #expect(try stage.dead() == [2, 3])
        // An undo finds the row as it was before the mark, and takes the time away.
        let undone = try store.undo(.token(.numbered(0)), isDry: true)
        #expect(undone.restored == 0)
        #expect(undone.already == 1)
        let later = try store.apply(stage.evidence(at: start + 90_000, of: [0]))
        #expect(later.counts == Counts(applied: 1))
        #expect(later.rowsInvalidated == 1)
        #expect(try stage.dead() == [0, 2, 3])
    }

    @Test(
        "an undo leaves a row dead that the application has set living and dead again since",
        arguments: LivingCase.few)
    func setDeadAgain(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        try store.sweep("one", stage.evidence())
        try stage.set([0], to: column.living)
        try stage.database.update(
            "registered_at = ?", [stage.database.time(start + 650_000)], of: 0)
        try stage.set([0], to: column.dead)
        let undone = try store.undo(.run("one"), as: "u1")
        #expect(undone.restored == 1)
        #expect(undone.kept == ["registered": 1])
        #expect(try stage.dead() == [0, 2])
        #expect(try stage.times() == 1)
    }

    @Test(
        "without a registration time nothing shows who set a row dead last, and an undo leaves it",
        arguments: LivingCase.few)
    func undated(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.database.store(pacing: hurried()) {
            $0.living = LivingMapping(
                column: "active", living: column.living, dead: column.dead)
            $0.registeredAt = TimeMapping(column: .absent)
        }
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        #expect(
            try store.require(.apply(RemovalPolicy())).findings.contains {
                $0.sentence.contains("an undo cannot take marks in active back")
            })
        try store.sweep("one", stage.evidence())
        let marked = try stage.database.contents()
        #expect(try store.undo(.run("one"), as: "u1", isDry: true).kept == ["undated": 2])
        #expect(try store.undo(.run("one"), as: "u1").kept == ["undated": 2])
        #expect(try stage.database.contents() == marked)
        // A row that is living again needs no undo, and one that was removed comes back.
        try stage.set([0], to: column.living)
        #expect(try store.undo(.run("one"), as: "u2", isDry: true).already == 1)
        try store.sweep(
            "two", stage.evidence(at: start + 90_000, of: [1]), at: start + 700_000, policy: policy)
        #expect(try store.undo(.run("two"), as: "u3").restored == 1)
        #expect(try stage.dead() == [2, 3])
    }

    @Test(
        "removal after a grace period takes marked rows, and keeps those the app set dead or living",
        arguments: LivingCase.few)
    func expiry(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        try store.apply(stage.evidence(of: [0, 1, 2, 3]))
        try stage.set([1], to: column.living)
        try stage.database.forgetLedger()
        let now = EpochMilliseconds(start + 30 * day)
        let removal = GraceEnd.afterAWeek(at: start + 30 * day, run: "run")
        #expect(try store.due(removal) == 2)
        try store.session.record(
            RunRecord(id: "run", kind: "sweep", started: now, host: "h"))
        #expect(try store.remove(removal) == 2)
        let left = [DeviceToken.numbered(1), .numbered(2)]
        #expect(
            try stage.database.texts("SELECT device_token FROM active_users ORDER BY device_token")
                == left.map { [$0.hex] })
        #expect(
            try stage.database.texts("SELECT token FROM pushsweep_invalid") == [[left[0].hex]])
        let listed = try store.changingRuns(from: now, to: now)
        #expect(listed.map(\.rowsChanged) == [2])
        let undone = try store.undo(.run("run"), at: start + 31 * day)
        #expect(undone.restored == 2)
        #expect(undone.devicesChanged == 2)
        #expect(undone.kept.isEmpty)
        #expect(try stage.dead() == [0, 2, 3])
        #expect(try stage.times() == 3)
    }

    @Test(
        "a device with its mark in the row and the time of it beside counts once, wherever it is counted",
        arguments: TestEngine.available)
    func once(_ engine: TestEngine) throws {
        let stage = try LivingStage(
            LivingCase(engine: engine, type: "INTEGER", living: "1", dead: "0"))
        let store = try stage.store()
        let first = EpochMilliseconds(start)
        for run in ["one", "two"] {
            try store.session.record(RunRecord(id: run, kind: "sweep", started: first, host: "h"))
        }
        try store.sweep("one", stage.evidence(of: [0, 1]))
        // Later evidence moves the time beside the row alone: a change of its own.
        try store.sweep("two", stage.evidence(at: start + 90_000, of: [0]), at: start + 700_000)
        #expect(try stage.database.rows(of: "pushsweep_change") == 3)
        #expect(try store.changes(of: "one") == 2)
        #expect(try store.changes(of: "two") == 1)
        let all = try store.planUndo(
            .since(first), until: first.advanced(by: day), excluding: nil)
        #expect(all.changes == 3 && all.entries == 5)
        let undone = try store.undo(.since(first), as: "u1", at: start + 800_000)
        #expect(undone.entries == 3 && undone.restored == 3)
        #expect(undone.devicesChanged == 2 && undone.rowsChanged == 4)
        #expect(try store.changes(of: "u1") == 2)
        #expect(try stage.times() == 0 && stage.dead() == [2])
        for isPurged in [false, true] {
            // A purge drops the entries of the ledger long before the records of runs.
            if isPurged { try stage.database.execute("DELETE FROM pushsweep_change") }
            let listed = try store.changingRuns(from: first, to: first.advanced(by: day))
            #expect(
                Dictionary(uniqueKeysWithValues: listed.map { ($0.record.id, $0.rowsChanged) })
                    == ["one": 2, "two": 1, "u1": 2], "purged: \(isPurged)")
        }
    }

    @Test("a row that changes after it was judged is judged again", arguments: LivingCase.all)
    func guarded(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        let layout = try store.layout()
        let lookup = try RowLookup(layout, store.connection, chat, wholeRows: false)
        let rows = try lookup.rows(for: stage.evidence(of: [0, 1])[...], locking: false).rows
        let statements = ChangeStatements(lookup: lookup, source: .feedback).statements(
            for: rows.map {
                RowChange(verdict: .mark, row: $0, time: EpochMilliseconds(start))
            })
        try stage.set([0], to: column.dead)
        let found = try statements.map { try store.connection.execute($0.sql, $0.values) }
        #expect(found.reduce(0, +) == 1)
    }

    @Test("many rows are marked in one statement each", arguments: TestEngine.available)
    func many(_ engine: TestEngine) throws {
        let stage = try LivingStage(
            LivingCase(engine: engine, type: "INTEGER", living: "1", dead: "0"))
        try stage.database.register(4..<3_000, at: start)
        try stage.database.execute("UPDATE active_users SET active = id % 3")
        let store = try stage.store()
        let living = try stage.database.rows(of: "active_users", "active <> 0")
        try store.sweep("one", (0..<3_000).map { .dead($0, at: start + 60_000) })
        #expect(
            try stage.database.rows(of: "active_users", "active = 0") == 3_000)
        #expect(try stage.times() == living)
        #expect(try store.undo(.run("one")).restored == living)
        #expect(try stage.times() == 0)
        #expect(try stage.database.rows(of: "active_users", "active = id % 3") == 3_000)
    }

    @Test(
        "a row that a trigger keeps living is refused and gets no time",
        arguments: TestEngine.available)
    func refusedRow(_ engine: TestEngine) throws {
        let stage = try LivingStage(
            LivingCase(engine: engine, type: "INTEGER", living: "1", dead: "0"))
        let kept = DeviceToken.numbered(0).hex
        try stage.database.hold("device_token", "X'\(kept)'", once: "active = 0")
        let progress = try stage.store().apply(stage.evidence(of: [0, 1]))
        #expect(progress.counts == Counts(applied: 1, refused: 1))
        #expect(try stage.dead() == [1, 2])
        #expect(
            try stage.database.texts("SELECT token FROM pushsweep_invalid")
                == [[DeviceToken.numbered(1).hex]])
    }

    @Test(
        "deletion at once removes living rows and keeps what undo needs", arguments: LivingCase.few)
    func deletion(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let store = try stage.store()
        let before = try stage.database.contents()
        try store.sweep("one", stage.evidence(of: [0, 1]), policy: RemovalPolicy(action: .delete))
        #expect(try stage.database.rows() == 2)
        #expect(try stage.times() == 0)
        #expect(try store.undo(.run("one")).restored == 2)
        #expect(try stage.database.contents() == before)
    }

    @Test(
        "an undo of marks in a time column leaves the column of two values alone",
        arguments: TestEngine.available)
    func changedSettings(_ engine: TestEngine) throws {
        let stage = try LivingStage(
            LivingCase(engine: engine, type: "INTEGER", living: "1", dead: "0"))
        try stage.database.store(pacing: hurried()).sweep("one", stage.evidence())
        try stage.set([0], to: "0")
        let undone = try stage.store().undo(.run("one"))
        #expect(undone.restored == 0)
        #expect(try stage.dead() == [0, 2])
    }

    @Test(
        "upper and lower case are one word where the column says so",
        arguments: TestEngine.available)
    func otherCase(_ engine: TestEngine) throws {
        let isOne = engine == .mariaDB
        let collation = isOne ? " COLLATE utf8mb4_general_ci" : ""
        let stage = try LivingStage(
            LivingCase(engine: engine, type: "CHAR(1)\(collation)", living: "Y", dead: "N"))
        try stage.set([1], to: "n")
        let reasons = try stage.store().skipReasons(of: [.numbered(1)], in: chat)
        #expect(reasons[.numbered(1)] == (isOne ? .stale : nil))
        #expect(try stage.store().livingRows(in: chat).count(atMost: 100) == (isOne ? 2 : 3))
    }
}

@Suite("Examining a column of two values")
struct LivingColumnRefusalTests {
    @Test(
        "check names the column and its values, and needs no right on other columns",
        arguments: LivingCase.all)
    func summary(_ column: LivingCase) throws {
        let stage = try LivingStage(column)
        let report = try stage.store().examine(.apply(RemovalPolicy()), partitions: [chat])
        #expect(report.firstFailure == nil)
        #expect(
            report.findings.contains {
                $0.sentence.contains(
                    "mark active (living `\(column.living)`, dead `\(column.dead)`), its time in "
                        + "pushsweep_invalid")
            })
        guard column.engine == .mariaDB else { return }
        let grants = try stage.store().grants(for: RemovalPolicy(), user: "u")
        #expect(grants.contains { $0.contains("UPDATE (`active`)") }, "\(grants)")
        #expect(grants.contains { $0.contains("pushsweep_invalid") })
    }

    @Test(
        "a column of two values given as a time is refused with the lines to write",
        arguments: TestEngine.available,
        ["BOOLEAN", "TINYINT(1)", "BIT(1)", "CHAR(1)", "ENUM('Y','N')", "INTEGER"])
    func asTime(_ engine: TestEngine, _ type: String) throws {
        guard engine == .mariaDB || !type.hasPrefix("ENUM") else { return }
        let isWord = type.hasPrefix("CHAR") || type.hasPrefix("ENUM")
        let (living, dead) = isWord ? ("Y", "N") : ("1", "0")
        let stage = try LivingStage(
            LivingCase(engine: engine, type: type, living: living, dead: dead))
        let store = try stage.database.store { $0.invalidatedAt.column = .named("active") }
        let failure = try #require(try store.examine(.read).firstFailure)
        #expect(failure.code == .configuration)
        #expect(
            failure.sentence.contains(
                "living: {column: active, living: \(living), dead: \(dead)}"),
            "\(failure.sentence)")
    }

    @Test("values that the column cannot hold are refused with 78", arguments: TestEngine.available)
    func values(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute("ALTER TABLE active_users ADD number INTEGER")
        try database.execute(
            "ALTER TABLE active_users ADD word VARCHAR(3)"
                + (engine == .mariaDB ? " COLLATE utf8mb4_general_ci" : ""))
        var wrong: [(LivingMapping, String)] = [
            (LivingMapping(column: "none", living: "1", dead: "0"), "there is no column none"),
            (LivingMapping(column: "number", living: "1", dead: "no"), "cannot hold `no`"),
            (LivingMapping(column: "number", living: "true", dead: "1"), "are the same value"),
            (LivingMapping(column: "word", living: "yes", dead: nil), "needs its two values"),
        ]
        if engine == .mariaDB {
            try database.execute("ALTER TABLE active_users ADD flag ENUM('Y', 'N')")
            try database.execute("ALTER TABLE active_users ADD bits BIT(1)")
            try database.execute("ALTER TABLE active_users ADD made INT AS (number) VIRTUAL")
            wrong += [
                (
                    LivingMapping(column: "word", living: "yes", dead: "never"),
                    "has no room for `never`"
                ),
                (LivingMapping(column: "flag", living: "Y", dead: "no"), "has no `no`"),
                (LivingMapping(column: "bits", living: "1", dead: "2"), "cannot hold `2`"),
                (LivingMapping(column: "made", living: "1", dead: "0"), "the database itself sets"),
                (LivingMapping(column: "registered_at", living: "1", dead: "0"), "neither whole"),
                (LivingMapping(column: "word", living: "yes", dead: "YES"), "are the same value"),
            ]
        }
        for (mapping, part) in wrong {
            let store = try database.store { $0.living = mapping }
            let failure = try #require(try store.examine(.read).firstFailure, "\(mapping)")
            #expect(failure.code == .configuration)
            #expect(failure.sentence.contains(part), "\(failure.sentence)")
        }
    }

    @Test("a second mark beside the column is refused with 78", arguments: TestEngine.available)
    func twoMarks(_ engine: TestEngine) throws {
        let stage = try LivingStage(
            LivingCase(engine: engine, type: "INTEGER", living: "1", dead: "0"))
        let changes: [(String, (inout TableMapping) -> Void)] = [
            ("invalidated-at", { $0.invalidatedAt.column = .named("invalidated_at") }),
            ("reason", { $0.reason = .named("invalid_reason") }),
        ]
        for (setting, change) in changes {
            let store = try stage.database.store {
                $0.living = LivingMapping(column: "active", living: "1", dead: "0")
                change(&$0)
            }
            let failure = try #require(try store.examine(.read).firstFailure)
            #expect(failure.code == .configuration)
            #expect(failure.sentence.contains("remove \(setting) or living"), "\(failure.sentence)")
        }
    }

    @Test(
        "an upgrade adds no time column beside a column of two values",
        arguments: TestEngine.available)
    func upgrade(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(200), active INTEGER)"
        )
        let store = try database.store {
            $0.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        let script = try store.missingSchema(upgrading: true).statements
        #expect(!script.contains { $0.contains("active_users") && $0.contains("invalid") })
        #expect(script.contains { $0.contains("registered_at") })
    }
}
