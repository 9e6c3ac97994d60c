import APNsProtocol
import Findings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

// A trigger of the application that can write the row which is changed: no mark goes into such a row.

/// Forty devices with a column of each kind of mark.
struct TriggerStage {
    /// Where marks are.
    enum Mark: CaseIterable, Sendable {
        case time, flag, beside
    }

    let database: TokenDatabase
    static let evidence = (0..<40).map { TokenEvidence.dead($0, at: start + 60_000) }
    static let removal = RemovalPolicy(action: .delete)

    init(_ engine: TestEngine) throws {
        database = try TokenDatabase.withSideTables(engine)
        // The sessions of tests are this program's; the application has none of its variables.
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64) UNIQUE, "
                + "nick VARCHAR(20), registered_at DATETIME NOT NULL, gone_at DATETIME NULL, active INTEGER)"
        )
        try database.execute("CREATE TABLE log (id INTEGER)")
        for number in 0..<40 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 'a', ?, NULL, 1)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number).hex),
                    database.time(start),
                ])
        }
    }

    func store(_ mark: Mark, _ settings: StoreSettings? = nil) throws -> TokenTable {
        var settings = settings ?? database.settings
        settings.mapping.table = "devices"
        settings.mapping.invalidatedAt.column = mark == .time ? .named("gone_at") : .absent
        if mark == .flag {
            settings.mapping.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        return try TokenTable(settings, pacing: hurried())
    }

    /// Makes a trigger that only writes a log.
    func log(_ moment: String, name: String = "touch") throws {
        let body = "INSERT INTO log VALUES (NEW.id)"
        try database.execute(
            "CREATE TRIGGER \(name) \(moment) ON devices FOR EACH ROW "
                + (database.engine == .sqlite ? "BEGIN \(body); END" : body))
    }

    /// Makes a trigger that writes the registration at any update.
    func move(name: String = "touch") throws {
        try database.execute(
            "CREATE TRIGGER \(name) BEFORE UPDATE ON devices FOR EACH ROW SET "
                + "NEW.registered_at = UTC_TIMESTAMP()", on: .mariaDB)
        try database.execute(
            "CREATE TRIGGER \(name) AFTER UPDATE ON devices BEGIN UPDATE devices SET "
                + "registered_at = '2030-01-01 00:00:00.000' WHERE id = NEW.id; END", on: .sqlite)
    }

    func rows() throws -> [[String]] { try database.texts("SELECT * FROM devices ORDER BY id") }
}

@Suite("Triggers that can write the row")
struct ForeignTriggerTests {
    /// The moments at which a trigger of an engine can write the row.
    static let moments: [(TestEngine, String)] = [
        (.mariaDB, "BEFORE UPDATE"), (.sqlite, "BEFORE UPDATE"), (.sqlite, "AFTER UPDATE"),
        (.sqlite, "AFTER UPDATE OF nick"),
    ].filter { TestEngine.available.contains($0.0) }

    @Test(
        "no mark goes into a row beside one, whatever it does; the words name it and what helps",
        arguments: moments, [TriggerStage.Mark.time, .flag])
    func refused(_ moment: (TestEngine, String), _ mark: TriggerStage.Mark) throws {
        let stage = try TriggerStage(moment.0)
        try stage.log(moment.1)
        let column = mark == .time ? "gone_at" : "active"
        let store = try stage.store(mark)
        for use in [
            TableUse.apply(RemovalPolicy()), .apply(TriggerStage.removal), .read,
            .undo(actions: ["mark"], isDry: false),
        ] {
            let failure = expectFailure(.configuration, "trigger touch of devices", column) {
                try store.require(use, partitions: [chat])
            }
            #expect(
                failure?.sentence.contains("INSERT INTO pushsweep_invalid") == true
                    && failure?.sentence.contains("invalidated-at: none") == true)
            expectFailure(.configuration, "pushsweep check") { try store.require(use) }
        }
        // Who only looks at the table is not stopped.
        try store.require(.read, judgingRows: false)
        try stage.database.execute("DROP TRIGGER touch")
        try stage.store(mark).require(.apply(RemovalPolicy()))
    }

    @Test("marks beside the rows run none of them, and delete is refused", arguments: moments)
    func beside(_ engine: TestEngine, _ moment: String) throws {
        let stage = try TriggerStage(engine)
        try stage.log(moment)
        let store = try stage.store(.beside)
        try store.require(.apply(RemovalPolicy()), partitions: [chat])
        let before = try stage.rows()
        try store.sweep("run", TriggerStage.evidence)
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 40)
        try store.require(.undo(actions: ["side-mark"], isDry: false))
        #expect(try store.undo(.run("run")).restored == 40)
        #expect(try stage.rows() == before)
        #expect(try stage.database.rows(of: "log") == 0)
        expectFailure(.configuration, "trigger touch of devices", "policy.action") {
            try store.require(.apply(TriggerStage.removal))
        }
    }

    @Test(
        "the printed statements copy the marks: a marked device stays dead, another and one that came back live",
        arguments: TestEngine.available, ["time", "seconds", "binary", "words", "flag"])
    func copied(_ engine: TestEngine, _ form: String) throws {
        let stage = try CopyStage(engine, form)
        try stage.mark()
        try stage.share(.numbered(7))
        let failure = expectFailure(.configuration, "trigger touch of devices") {
            try stage.store(beside: false).require(.apply(RemovalPolicy()), partitions: [chat])
        }
        try stage.run(failure)
        let statuses = try stage.store(beside: true).tokenStatuses(in: chat)
        #expect(
            try statuses.statuses(of: [0, 1, 2, 3, 7].map { .numbered($0) }) == [
                .numbered(0): .living, .numbered(1): .stale, .numbered(2): .living,
                .numbered(3): .stale, .numbered(7): .living,
            ])
        // A column of two values says that a row is dead now, whatever stood beside it.
        #expect(
            try stage.database.texts("SELECT invalidated_at FROM pushsweep_invalid ORDER BY token")
                .contains([stage.database.time(start + 60_000).testText]) == (form != "flag"))
        // What the statements did once they do again without harm.
        try stage.run(failure)
        #expect(
            try stage.store(beside: true).apply([.dead(1, at: start + 60_000)]).counts.already == 1)
    }

    @Test(
        "one that a server runs behind the change stops nothing, and a row that it refuses is named",
        .needsServer, arguments: [TriggerStage.Mark.time, .flag])
    func after(_ mark: TriggerStage.Mark) throws {
        let stage = try TriggerStage(.mariaDB)
        try stage.log("AFTER UPDATE")
        try stage.database.hold("id", "3", table: "devices")
        let store = try stage.store(mark)
        let report = try store.examine(.apply(RemovalPolicy()), partitions: [chat])
        #expect(report.firstFailure == nil, "\(report.findings)")
        #expect(report.findings.contains { $0.sentence.contains("runs triggers: hold, touch") })
        let progress = try store.apply(TriggerStage.evidence, run: "run")
        #expect(progress.counts == Counts(applied: 39, refused: 1))
        #expect(try stage.database.rows(of: "log") == 39)
        try store.record("run", at: start + 600_000)
        try stage.database.release()
        #expect(try stage.store(mark).undo(.run("run")).restored == 39)
    }

    @Test(
        "an undo of marks is refused by name, and takes them back once it is gone",
        arguments: moments, [TriggerStage.Mark.time, .flag])
    func undo(_ moment: (TestEngine, String), _ mark: TriggerStage.Mark) throws {
        let stage = try TriggerStage(moment.0)
        let before = try stage.rows()
        try stage.store(mark).sweep("run", TriggerStage.evidence)
        let marked = try stage.rows()
        try stage.log(moment.1)
        let store = try stage.store(mark)
        expectFailure(.configuration, "trigger touch of devices") {
            try store.require(.undo(actions: ["mark"], isDry: false))
        }
        // One that did not ask would find it behind its statement.
        expectFailure(.configuration, "trigger touch") { try store.undo(.run("run"), as: "none") }
        #expect(try stage.rows() == marked)
        try stage.database.execute("DROP TRIGGER touch")
        #expect(try stage.store(mark).undo(.run("run"), as: "all").restored == 40)
        #expect(try stage.rows() == before)
    }

    @Test(
        "one that is made while a run works ends it, and the chunk that met it changes nothing",
        arguments: TestEngine.available)
    func madeMeanwhile(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        let store = try database.store(pacing: hurried())
        var marked = 0
        expectFailure(.configuration, "trigger back") {
            try store.apply(
                (0..<400).map { .dead($0, at: start + 60_000) },
                report: { _ in
                    guard marked == 0 else { return }
                    do {
                        marked = try database.marked
                        try database.execute(
                            engine == .mariaDB
                                ? "CREATE TRIGGER back BEFORE UPDATE ON active_users FOR EACH ROW "
                                    + "SET NEW.invalidated_at = NULL"
                                : "CREATE TRIGGER back AFTER UPDATE ON active_users BEGIN UPDATE "
                                    + "active_users SET invalidated_at = NULL WHERE id = NEW.id; END"
                        )
                    } catch {
                        Issue.record(error)
                    }
                })
        }
        #expect(marked > 0 && marked < 400)
        #expect(try database.marked == marked)
        #expect(try database.rows(of: "pushsweep_change", "action = 'mark'") == marked)
    }

    @Test(
        "a trigger for removed rows that is made while a run works ends it, and nothing runs it",
        arguments: TestEngine.available)
    func removalMeanwhile(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute("CREATE TABLE gone (id INTEGER)")
        try database.register(0..<400, at: start)
        let store = try database.store(pacing: hurried())
        var left = 0
        expectFailure(.configuration, "told") {
            try store.apply(
                (0..<400).map { .dead($0, at: start + 60_000) },
                policy: RemovalPolicy(action: .delete),
                report: { _ in
                    guard left == 0 else { return }
                    do {
                        left = try database.rows()
                        try database.execute(
                            "CREATE TRIGGER told AFTER DELETE ON active_users FOR EACH ROW "
                                + (engine == .sqlite ? "BEGIN " : "")
                                + "INSERT INTO gone VALUES (1)"
                                + (engine == .sqlite ? "; END" : ""))
                    } catch {
                        Issue.record(error)
                    }
                })
        }
        #expect(try database.rows() == left && left > 0)
        #expect(try database.rows(of: "gone") == 0)
    }

    @Test(
        "one of our name that does something else is refused like any other",
        arguments: TestEngine.available)
    func ourName(_ engine: TestEngine) throws {
        let stage = try TriggerStage(engine)
        try stage.move(name: "pushsweep_registered_update")
        expectFailure(.configuration, "trigger pushsweep_registered_update") {
            try stage.store(.time).require(.apply(RemovalPolicy()))
        }
    }

    @Test(
        "an account that does not see the statements of one is refused all the same", .needsServer)
    func hidden() throws {
        let stage = try TriggerStage(.mariaDB)
        try stage.move()
        let account = try ServerAccount(of: stage.database)
        try account.run(
            try stage.store(.time).grants(for: RemovalPolicy(), user: "\(account.name)@%"))
        expectFailure(.configuration, "trigger touch of devices") {
            try stage.store(.time, account.settings).require(.apply(RemovalPolicy()))
        }
    }

    @Test(
        "a registration that moves behind our statement ends the run, and no row of the chunk is changed",
        .needsServer, arguments: [TriggerStage.Mark.time, .flag])
    func moved(_ mark: TriggerStage.Mark) throws {
        let stage = try TriggerStage(.mariaDB)
        // Of our name, with statements that the account does not see.
        try stage.move(name: "pushsweep_registered_update")
        let account = try ServerAccount(of: stage.database)
        try account.run(
            try stage.store(mark).grants(for: RemovalPolicy(), user: "\(account.name)@%").filter {
                !$0.contains("TRIGGER")
            })
        let before = try stage.rows()
        expectFailure(.configuration, "registered_at", "void") {
            try stage.store(mark, account.settings).apply([.dead(1, at: start + 60_000)])
        }
        #expect(try stage.rows() == before)
        #expect(try stage.database.rows(of: "pushsweep_change") == 0)
    }

    @Test(
        "a registration that is computed from the mark ends it too", arguments: TestEngine.available
    )
    func computed(_ engine: TestEngine) throws {
        let stage = try TriggerStage(engine)
        try stage.database.execute(
            "ALTER TABLE devices ADD COLUMN seen DATETIME GENERATED ALWAYS AS "
                + "(COALESCE(gone_at, registered_at)) VIRTUAL")
        var settings = stage.database.settings
        settings.mapping.registeredAt.column = .named("seen")
        expectFailure(.configuration, "seen") {
            try stage.store(.time, settings).apply(TriggerStage.evidence)
        }
        #expect(try stage.database.rows(of: "devices", "gone_at IS NOT NULL") == 0)
    }

    @Test(
        "check warns where one may write the time, and names ours as good",
        arguments: TestEngine.available)
    func writers(_ engine: TestEngine) throws {
        let stage = try TriggerStage(engine)
        try stage.move()
        func said() throws -> [Finding] {
            try stage.store(.beside).examine(.apply(RemovalPolicy()), partitions: [chat]).findings
                .filter { $0.sentence.contains("trigger touch") }
        }
        let found = try said()
        #expect(
            found.count == 1 && found[0].severity == .medium
                && found[0].sentence.contains("may write registered_at"), "\(found)")
        try stage.database.execute("DROP TRIGGER touch")
        try stage.database.execute("ALTER TABLE devices ADD COLUMN place VARCHAR(20)")
        try stage.log("BEFORE UPDATE")
        #expect(try said().isEmpty)
    }

    @Test("in SQLite none for INSERT may stand beside a removal, nor beside its undo")
    func inserting() throws {
        let stage = try TriggerStage(.sqlite)
        let before = try stage.rows()
        try stage.store(.time).sweep("run", TriggerStage.evidence, policy: TriggerStage.removal)
        try stage.log("AFTER INSERT")
        let store = try stage.store(.time)
        for use in [
            TableUse.apply(TriggerStage.removal), .undo(actions: ["delete"], isDry: false),
        ] {
            expectFailure(.configuration, "trigger touch of devices") { try store.require(use) }
        }
        try store.require(.apply(RemovalPolicy()))
        expectFailure(.configuration, "trigger touch") { try store.undo(.run("run"), as: "none") }
        #expect(try stage.database.rows(of: "devices") == 0)
        try stage.database.execute("DROP TRIGGER touch")
        #expect(try stage.store(.time).undo(.run("run"), as: "all").restored == 40)
        #expect(try stage.rows() == before)
    }
}

/// Four devices beside a trigger: one living, one marked, one that came back since, and one marked twice.
private struct CopyStage {
    let database: TokenDatabase
    let form: String

    private var isBinary: Bool { form == "binary" }

    init(_ engine: TestEngine, _ form: String) throws {
        self.form = form
        database = try TokenDatabase.withSideTables(engine)
        let token = form == "binary" ? "VARBINARY(32)" : "VARCHAR(64)"
        let mark = form == "seconds" ? "BIGINT" : "DATETIME"
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(token), service VARCHAR(20), place VARCHAR(20), "
                + "registered_at DATETIME NULL, gone_at \(mark) NULL, active INTEGER)")
        for (id, number) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)] {
            let token = DeviceToken.numbered(number)
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 'chat', 'p', ?, NULL, 1)",
                [
                    .integer(Int64(id)), isBinary ? .bytes(token.bytes) : .text(token.hex),
                    database.time(id == 2 ? start + 120_000 : start),
                ])
        }
        try database.execute("INSERT INTO devices VALUES (9, NULL, 'chat', 'p', NULL, NULL, 1)")
    }

    func store(beside: Bool) throws -> TokenTable {
        var settings = database.settings
        settings.mapping.table = "devices"
        settings.mapping.encoding = isBinary ? .binary : .hex
        settings.mapping.invalidatedAt = TimeMapping(
            column: beside || form == "flag" ? .absent : .named("gone_at"),
            type: form == "seconds" ? .epochSeconds : nil)
        if form == "flag", !beside {
            settings.mapping.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        if form == "words" {
            settings.mapping.app = .named("service")
            settings.mapping.environment = .named("place")
            settings.mapping.environmentValues = ["production": "p"]
        }
        return try TokenTable(settings, pacing: hurried())
    }

    /// Inserts two rows with one token, of which one is marked.
    func share(_ token: DeviceToken) throws {
        for (id, isDead) in [(20, true), (21, false)] {
            let mark: SQLValue =
                form == "seconds"
                ? .integer((start + 30_000) / 1_000) : database.time(start + 30_000)
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, 'chat', 'p', ?, ?, ?)",
                [
                    .integer(Int64(id)), isBinary ? .bytes(token.bytes) : .text(token.hex),
                    database.time(start), isDead && form != "flag" ? mark : .null,
                    .integer(isDead ? 0 : 1),
                ])
        }
    }

    /// Marks the devices 1 and 3 as a run does, has the device 2 marked before it came back, and makes the trigger.
    func mark() throws {
        try store(beside: false).sweep(
            "run", [.dead(1, at: start + 60_000), .dead(3, at: start + 60_000)])
        switch form {
        case "flag":
            // The application set it dead and living again, and the mark stayed beside.
            try database.execute(
                "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at) SELECT app, environment, "
                    + "?, ? FROM pushsweep_invalid LIMIT 1",
                [.bytes(DeviceToken.numbered(0).bytes), database.time(start + 60_000)])
        case "seconds":
            try database.execute(
                "UPDATE devices SET gone_at = \((start + 30_000) / 1_000) WHERE id IN (2, 4)")
        default:
            try database.execute(
                "UPDATE devices SET gone_at = ? WHERE id IN (2, 4)",
                [database.time(start + 30_000)])
        }
        try database.execute(
            "CREATE TRIGGER touch BEFORE UPDATE ON devices FOR EACH ROW BEGIN "
                + "\(database.engine == .sqlite ? "SELECT 1" : "SET @touched = 1"); END")
    }

    /// Runs the statements of a refusal.
    func run(_ failure: StoreFailure?) throws {
        let sentence = try #require(failure?.sentence)
        let begin = try #require(sentence.firstRange(of: "in one transaction: "))
        let end = try #require(sentence.firstRange(of: "; or remove the trigger"))
        for statement in sentence[begin.upperBound..<end.lowerBound].split(separator: "; ") {
            try database.execute(String(statement))
        }
    }
}
