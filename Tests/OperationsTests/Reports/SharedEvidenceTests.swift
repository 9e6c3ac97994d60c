import APNsProtocol
import APNsSimulator
import Database
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let before: Int64 = 1_600_000_000_000
private let dead: Int64 = 1_700_000_000_000

@Suite("Evidence that several hosts see")
struct SharedEvidenceTests {
    /// A stage whose first host holds a list that is too large.
    private static func held(_ engine: TestEngine) throws -> (SweepStage, id: String) {
        let stage = try SweepStage(
            engine,
            feeds: [
                .tuples((0..<500).map { .dead($0, at: UInt32(dead / 1_000) + UInt32($0 % 10)) })
            ]
                + [ListSource](repeating: .tuples([]), count: 9))
        try stage.database.register(0..<1_000, at: before)
        let id = try stage.swept().ends(3).app()["batch"] as? String ?? ""
        return (stage, id)
    }

    private static func living(_ stage: SweepStage) throws -> Int {
        try stage.database.rows(where: "invalidated_at IS NULL")
    }

    @Test(
        "a hold of one is listed, shown, told by gate, audit, check and explain, and released on the other",
        arguments: TestEngine.available)
    func released(_ engine: TestEngine) throws {
        let (stage, id) = try Self.held(engine)
        let other = stage.host("b")
        let here = try stage.run("holds", "show").ends(0).output
        let there = try stage.run(["holds", "show"], environment: other).ends(0).output
        #expect(here == there && here.contains(id))
        try stage.run(["holds", "list"], environment: other).ends(0, id)
        try stage.run(["check"], environment: other).ends(
            3, "waits for a decision", "holds show \(id)")
        try stage.run(
            ["preflight", "--read-only", "--app", "chat"], environment: other
        ).says("open-hold: chat/production: a removal of")
        try stage.run(["audit"], environment: other).says("Not healthy: chat/production: a removal")
        // A decision about an app is none about its hold, and one about a hold names it; a check ends with it still.
        for (object, isDecided) in [("chat/*", false), ("hold \(id)", true)] {
            let ignore = try stage.folder.write(
                "ignore.yaml",
                "- {rule: open-hold, object: '\(object)', reason: seen, until: 2099-12-31}\n")
            let audit = try stage.run(["audit", "--ignore", ignore], environment: other).ends(0)
            #expect(audit.output.hasPrefix("Healthy") == isDecided, "\(object): \(audit.output)")
            try stage.run(["check", "--ignore", ignore], environment: other).ends(
                3, "warning: database: chat/production: a removal of")
        }
        try stage.run(["explain", DeviceToken.numbered(3).hex], environment: other).ends(
            0, "held (", "because hold \(id) of this app waits for a decision")
        try stage.run(["sweep"], environment: other).ends(3, id)
        let digest = try #require(try stage.shown()["digest"] as? String)
        try stage.run(["holds", "release", digest], environment: other).ends(0)
        #expect(try Self.living(stage) == 500)
        try stage.run("holds", "list").ends(0, "nothing is held")
        try stage.swept().ends(0)
        try stage.run(["audit"], environment: stage.host("c")).says("nothing waits for a decision")
    }

    @Test("with the folder of the host that heard it gone, what was stored is decided all the same")
    func folderIsGone() throws {
        let (stage, id) = try Self.held(.sqlite)
        try FileManager.default.removeItem(atPath: stage.state)
        try stage.swept().ends(3).says(id)
        try stage.run(
            ["holds", "discard", id, "--reason", "a mistake"], environment: stage.host("b")
        )
        .ends(0, "pushsweep replay --batch \(id)")
        try stage.swept().ends(0)
        // A person changes his mind, on a third host.
        stage.lines.limits = SweepStage.anyNumber
        try stage.run(["replay", "--batch", "abc"], environment: stage.host("c")).ends(
            64, "give at least 4 characters")
        try stage.run(["replay", "--batch", String(id.prefix(8))], environment: stage.host("c"))
            .ends(0)
        #expect(try Self.living(stage) == 500)
    }

    @Test("what was released is held again where it would do something else than was shown")
    func otherTerms() throws {
        let (stage, id) = try Self.held(.sqlite)
        let digest = try #require(try stage.shown()["digest"] as? String)
        // As a run leaves it that was killed between the release and the first chunk.
        let settings = try stage.loaded()
        try stage.database.execute(
            "UPDATE pushsweep_batch SET state = 'waiting'")
        try stage.database.execute("UPDATE pushsweep_hold SET terms = 'x'")
        stage.lines.policy = "policy: {action: delete}"
        try stage.swept().ends(3).says("was released under other settings")
        #expect(try stage.database.rows(of: "active_users") == 1_000)
        let again = try #require(try stage.shown()["digest"] as? String)
        #expect(again != digest && settings.policy.action == .mark)
        try stage.released(again).ends(0)
        #expect(try stage.database.rows(of: "active_users") == 500)
        #expect(try stage.holdList().isEmpty && id != "")
    }

    @Test("the same tokens of a table and of a file are two holds with two digests")
    func twoInlets() throws {
        let (stage, id) = try Self.held(.sqlite)
        try stage.database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, environment, source, state, inlet, "
                + "label, host, opened_at, reports) SELECT 'other', run, app, "
                + "environment, source, state, 'file', label, host, opened_at, "
                + "reports FROM pushsweep_batch")
        try stage.database.execute(
            "INSERT INTO pushsweep_hold (batch, gate, cause, held_at) SELECT \(batchNumber("other")), gate, cause, "
                + "held_at FROM pushsweep_hold")
        try stage.database.execute(
            "INSERT INTO pushsweep_report (batch, token, number, evidence_at, changed_at) SELECT \(batchNumber("other")), "
                + "token, number, evidence_at, changed_at FROM pushsweep_report")
        let (one, other) = (try stage.shown(id), try stage.shown("other"))
        #expect(one["digest"] as? String != other["digest"] as? String)
        try stage.released(other["digest"] as? String ?? "").ends(3).app(has: ["batch": "other"])
    }

    @Test("a held file holds back no sender and no row of pushsweep_evidence")
    func heldFile() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<1_000, at: before)
        let lines = (0..<500).map {
            #"{"token":"\#(DeviceToken.numbered($0).hex)","status":410,"reason":"Unregistered","timestamp":\#(dead + Int64($0))}"#
        }
        let file = try stage.folder.write("log.jsonl", lines.joined(separator: "\n") + "\n")
        try stage.run(
            "import", file, "--app", "chat", "--from", "jsonl", "--map",
            "token=token,status=status,reason=reason,time=timestamp"
        ).ends(3)
        for number in 600..<604 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        try stage.swept().ends(3)
        #expect(try Self.living(stage) == 996)
    }

    @Test("a replay after an undo marks again, and the undo of the replay takes it back")
    func replayAfterUndo() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let swept = try stage.swept().ends(0)
        let (run, feed) = (
            swept.json["run"] as? String ?? "", swept.app()["batch"] as? String ?? ""
        )
        try stage.undone(run).ends(0)
        #expect(try stage.database.marked == 0)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 0, "a sweep took the undo back")
        try stage.replayed(feed: feed, dryRun: true).ends(75).app(has: ["applied": 3])
        #expect(try stage.database.marked == 0)
        let again = try stage.replayed(feed: feed).ends(0).app(has: ["applied": 3])
        #expect(try stage.database.marked == 3)
        #expect(again.app()["batch"] as? String != feed)
        try stage.undone(again.json["run"] as? String ?? "").ends(0)
        #expect(try stage.database.marked == 0)
        // By its first name it is still found.
        try stage.replayed(feed: feed).ends(0).app(has: ["applied": 3])
        #expect(try stage.database.rows(of: "pushsweep_report") == 3)
    }

    @Test("a batch of an app that a host does not name waits for the host that does")
    func otherApps() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try stage.swept().ends(0)
        try stage.database.execute("UPDATE active_users SET invalidated_at = NULL")
        try stage.database.execute("UPDATE pushsweep_report SET state = 0")
        try stage.database.execute(
            "UPDATE pushsweep_batch SET state = 'waiting', app_name = 'talk', last_token = NULL, applied = 0, "
                + "invalidated = 0, host = 'elsewhere'")
        try stage.swept().ends(0)
        #expect(try stage.database.texts("SELECT state FROM pushsweep_batch") == [["waiting"]])
        try stage.database.execute("UPDATE pushsweep_batch SET app_name = 'chat'")
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 3)
    }

    @Test(
        "a batch of an app that no settings name any more is given up by its name, and no other one that waits"
    )
    func appIsGone() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let swept = try stage.swept().ends(0)
        let feed = swept.app()["batch"] as? String ?? ""
        try stage.database.execute("UPDATE active_users SET invalidated_at = NULL")
        try stage.database.execute("UPDATE pushsweep_report SET state = 0")
        try stage.database.execute(
            "UPDATE pushsweep_batch SET state = 'waiting', last_token = NULL, applied = 0, "
                + "invalidated = 0")
        // Somebody's settings name this app.
        try stage.run("holds", "discard", feed, "--reason", "gone").ends(
            64, "nothing of this name is held")
        try stage.database.execute("UPDATE pushsweep_batch SET app_name = 'talk'")
        try stage.swept().ends(78, "pushsweep holds discard \(feed)")
        try stage.run("holds", "discard", feed, "--reason", "gone").ends(
            0, "1 batch discarded", "pushsweep replay --batch \(feed)")
        try stage.run("holds", "discard", feed, "--reason", "gone").ends(
            64, "the batch is discarded (gone), and pushsweep replay --batch brings it back")
        try stage.swept().ends(0)
        #expect(
            try stage.database.texts(
                "SELECT state, decision FROM pushsweep_batch JOIN pushsweep_hold ON batch = number")
                == [
                    ["discarded", "gone"]
                ])
        try stage.database.execute("UPDATE pushsweep_batch SET app_name = 'chat'")
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(
            0, "discarded the evidence from", "gone")
        try stage.replayed(feed: feed).ends(0).app(has: ["applied": 3])
    }

    @Test(
        "bad tokens mark nothing, are told on each host, and go with the mark; a sender's wrong environment shuts the gate",
        arguments: TestEngine.available)
    func suspects(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<100, at: before)
        for number in 0..<4 {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "BadDeviceToken", time: dead)
        }
        try stage.database.report(
            DeviceToken.numbered(500).hex, status: 400, reason: "BadDeviceToken", time: dead)
        try stage.swept().ends(0)
        #expect(try Self.living(stage) == 100)
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 4)
        try FileManager.default.removeItem(atPath: stage.state)
        let other = stage.host("b")
        try stage.run(["audit"], environment: other).says("APNs called 4 of 100 living tokens bad")
        try stage.run(["explain", DeviceToken.numbered(2).hex], environment: other).ends(
            0, "APNs called it bad, 1 time", "BadDeviceToken")
        let gate = ["preflight", "--read-only", "--app", "chat", "--fail-on", "high"]
        try stage.run(gate, environment: other).says("suspect-tokens")
        for number in 4..<10 {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "DeviceTokenNotForTopic",
                time: dead)
        }
        try stage.database.report(DeviceToken.numbered(0).hex, time: dead)
        try stage.run(["sweep"], environment: other).ends(0)
        try stage.run(gate, environment: stage.host("c")).ends(
            2, "APNs called 9 of 99 living tokens bad")
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 9)
        #expect(try stage.database.rows(of: "pushsweep_report", "state = 0") == 0)
        // As a run leaves it that was killed between intake and noting.
        try stage.database.execute(
            "INSERT INTO pushsweep_report (batch, token, number, evidence_at, changed_at) SELECT number, ?, 0, "
                + "opened_at, opened_at FROM pushsweep_batch WHERE source = 'DeviceTokenNotForTopic'",
            [.bytes(DeviceToken.numbered(20).bytes)])
        try stage.database.execute(
            "UPDATE pushsweep_batch SET state = 'waiting', reports = reports + 1 WHERE source = 'DeviceTokenNotForTopic'"
        )
        let told = try stage.run("explain", DeviceToken.numbered(20).hex).ends(
            0, "an answer 400 DeviceTokenNotForTopic")
        #expect(!told.output.contains("judged now"), "\(told.output)")
        try stage.run(["sweep"], environment: stage.host("d")).ends(0)
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 10)
        #expect(try Self.living(stage) == 99)
    }

    @Test("suspects that cannot be written stop no marking, and the first of several times is kept")
    func suspectsFail() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<9, at: before)
        for time in [dead + 5_000, dead, dead + 9_000] {
            try stage.database.report(
                DeviceToken.numbered(0).hex, status: 400, reason: "BadDeviceToken", time: time)
        }
        try stage.database.report(DeviceToken.numbered(1).hex)
        try stage.database.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON pushsweep_suspect "
                + "BEGIN SELECT RAISE(ABORT, 'no room'); END")
        try stage.swept().says("no room")
        #expect(try stage.database.marked == 1)
        try stage.database.report(DeviceToken.numbered(2).hex)
        try stage.swept().says("no room")
        #expect(try stage.database.marked == 2)
        try stage.database.execute("DROP TRIGGER broken")
        try stage.swept().ends(0)
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "3 times since 2023-11-14T22:13:20.000Z")
        // An import that marks it ends that too.
        let file = try stage.folder.write(
            "dead.jsonl",
            #"{"device_token":"\#(DeviceToken.numbered(0).hex)","status":410,"timestamp_ms":\#(dead)}"#
                + "\n")
        try stage.run("import", file, "--from", "jsonl").ends(0)
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 0)
    }

    @Test(
        "what one host could not use another lists, exports, imports and discards",
        arguments: TestEngine.available)
    func quarantine(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<2, at: before)
        for _ in 0..<3 { try stage.database.report("?") }
        try stage.database.report(DeviceToken.numbered(1).hex, time: 5)
        try stage.swept().ends(65)
        try FileManager.default.removeItem(atPath: stage.state)
        let other = stage.host("b")
        let listed = try stage.run(["quarantine", "list"], environment: other).ends(
            0, "4 parts", "  3 the token is", "  1 its time is 5 ms"
        ).output
        let batch = String(listed.prefix(8))
        try stage.run(["explain", DeviceToken.numbered(1).hex], environment: other).ends(
            0, "quarantined (its time is 5 ms")
        let file = stage.folder.file("rows.jsonl")
        try stage.run(["quarantine", "export", batch, file], environment: other).ends(0)
        let rows = try String(contentsOfFile: file, encoding: .utf8)
        #expect(rows.split(separator: "\n").count == 4)
        let mended = try stage.folder.write(
            "mended.jsonl",
            rows.split(separator: "\n").filter { $0.contains(DeviceToken.numbered(1).hex) }
                .joined().replacing(":5,", with: ":\(dead),") + "\n")
        try stage.run(
            ["import", mended, "--from", "quarantine", "--app", "chat"], environment: other
        ).ends(0)
        #expect(try Self.living(stage) == 1)
        try stage.run(["audit"], environment: stage.host("c")).says(
            "1 batch has parts that could not be used")
        try stage.run(["quarantine", "discard", batch], environment: other).ends(0, "4 parts")
        try stage.run("quarantine", "list").ends(0, "nothing is quarantined")
    }

    @Test("a sender's row of an app that one host does not name waits for the host that does")
    func otherHostsRows() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<2, at: before)
        try stage.database.report(DeviceToken.numbered(0).hex)
        try stage.database.report(DeviceToken.numbered(1).hex, app: "talk")
        for words in [["sweep", "--dry-run"], ["sweep"]] {
            try stage.run(words).ends(0, "1 row of pushsweep_evidence names an app")
        }
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(
            0, "these settings name no app talk")
        try stage.run("preflight", "--read-only", "--app", "chat").ends(0)
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 1)
        try stage.database.execute(
            "UPDATE pushsweep_evidence SET created_at = '2020-01-01 00:00:00.000'")
        try stage.swept().ends(65)
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 0)
        try stage.run(["quarantine", "list"], environment: stage.host("b")).ends(
            0, "the settings name no app talk in environment production")
    }

    @Test(
        "a row that says the table's words is counted, explained, judged and imported as one of the settings' app",
        arguments: TestEngine.available)
    func tableWords(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        stage.lines.activeUsers = "  active-users: {environment: {values: {production: prod}}}"
        stage.lines.apps = """
              - {name: talk, value: "7", topic: com.example.talk, environment: production}
            """
        for number in 0..<2 {
            try stage.database.register(
                .numbered(number), at: before, app: "7", environment: "prod")
        }
        let token = engine == .mariaDB ? "LOWER(HEX(device_token))" : "lower(hex(device_token))"
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, environment, device_token, timestamp_ms) SELECT app_id, environment, "
                + "\(token), CASE WHEN device_token = ? THEN \(dead) ELSE 5 END FROM active_users",
            [.bytes(DeviceToken.numbered(0).bytes)])
        try stage.run("preflight", "--read-only", "--app", "talk").says(
            "2 rows of pushsweep_evidence")
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "talk/production: row 1 of pushsweep_evidence waits", "before this evidence: marked")
        try stage.run("sweep", "--dry-run").ends(65, "talk/production")
        try stage.swept().ends(65)
        #expect(try stage.database.marked == 1)
        #expect(
            try stage.database.texts("SELECT app_name, app FROM pushsweep_batch WHERE applied = 1")
                == [
                    ["talk", "7"]
                ])
        // What a person corrects has the same words still.
        let listed = try stage.run("quarantine", "list").ends(0, "1 part").output
        let file = stage.folder.file("rows.jsonl")
        try stage.run("quarantine", "export", String(listed.prefix(8)), file).ends(0)
        let row = try String(contentsOfFile: file, encoding: .utf8)
        let mended = try stage.folder.write("mended.jsonl", row.replacing(":5,", with: ":\(dead),"))
        try stage.run("import", mended, "--from", "quarantine").ends(0)
        #expect(try stage.database.marked == 2)
    }

    @Test(
        "a list that a host has read and not stored is told on each host, and that host stores it",
        arguments: TestEngine.available)
    func unstored(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try SweepStage(engine, dead: 3, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let run = try stage.start(["sweep"])
        let isKnown = eventually(seconds: 20) {
            (try? stage.database.rows(of: "pushsweep_batch", "state = 'filling'")) == 1
        }
        #expect(isKnown)
        run.signal(SIGKILL)
        _ = run.wait()
        let (other, told) = (stage.host("b"), "has read a list of chat/production from 127.0.0.1")
        try stage.run(["check"], environment: other).says(told)
        try stage.run(["audit"], environment: other).says(told)
        try stage.run(
            ["preflight", "--read-only", "--app", "chat", "--fail-on", "medium"], environment: other
        ).ends(2, "1 batch")
        // After a day the rest of other batches is judged without its host. Here that would be nothing.
        try stage.database.execute(
            "UPDATE pushsweep_batch SET changed_at = ?", [stage.database.time(dead)])
        try stage.database.execute("UPDATE pushsweep_lease SET owner = NULL, expires_at = NULL")
        let name = try stage.database.texts("SELECT name FROM pushsweep_batch")[0][0]
        try stage.run(["replay", "--batch", name], environment: other).ends(75, told)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        try stage.run(["sweep", "--app", "none"], environment: other).ends(64)
        try stage.run(["sweep"], environment: other).ends(0)
        #expect(try stage.database.marked == 0)
        if engine == .sqlite {
            try stage.run(
                ["holds", "discard", name, "--all", "--reason", "gone"], environment: other
            ).ends(64, "nothing holds it", "leave --all out")
            try stage.run(
                ["holds", "discard", String(name.prefix(8)), "--reason", "gone"], environment: other
            ).ends(0, "nobody waits for batch")
            try stage.run(["check"], environment: other).ends(0)
        }
        try stage.swept().ends(0).app(has: ["applied": 3])
        let known = try stage.database.texts(
            "SELECT state, reports, ending FROM pushsweep_batch WHERE state <> 'discarded'")
        #expect(known == [["applied", "3", "truncated"]])
        try stage.run("audit", "--deep").ends(0)
    }
}
