import APNsProtocol
import APNsSimulator
import EvidenceJournal
import Foundation
import Glibc
import TestSupport
import Testing
import TokenHygiene

private let start: UInt32 = 1_700_000_000

/// A database that a wrong feed has swept, and its rows before.
private struct UndoStage {
    let stage: SweepStage
    let before: [[String]]
    let after: [[String]]
    /// The sweep's name.
    let run: String

    init(_ engine: TestEngine, _ action: String, rows: Int = 300) throws {
        stage = try SweepStage(engine, dead: rows)
        stage.lines.policy = "policy: {action: \(action)}"
        before = try Self.contents(stage)
        let result = try stage.sweep()
        guard result.exit == 0, let run = result.json["run"] as? String else {
            throw TestFailure("the sweep ended with \(result.exit): \(result.error)")
        }
        self.run = run
        after = try Self.contents(stage)
    }

    static func contents(_ stage: SweepStage) throws -> [[String]] {
        try stage.database.texts("SELECT * FROM active_users ORDER BY id")
    }

    var contents: [[String]] { get throws { try Self.contents(stage) } }
}

@Suite("pushsweep undo")
struct UndoCommandTests {
    @Test(
        "undo finds, previews and takes back a wrong sweep, which can then be done again",
        arguments: zip(TestEngine.available.reversed(), ["mark", "delete"]))
    func wholeStory(_ engine: TestEngine, _ action: String) throws {
        let wrong = try UndoStage(engine, action)
        let stage = wrong.stage
        #expect(wrong.before != wrong.after)
        try stage.run("undo", "--list").ends(0, "\(wrong.run.prefix(8))  ", "sweep on ")

        try stage.run("undo", String(wrong.run.prefix(9)), "--dry-run").ends(
            0, action == "delete" ? "300 would be tried, 0 back" : "300 would be taken back")
        #expect(try wrong.contents == wrong.after)

        let undone = try stage.json("undo", wrong.run).ends(0)
        let report = undone.json
        #expect(report["restored"] as? Int == 300 && report["entries"] as? Int == 300)
        #expect(report["inserted"] as? Int == (action == "delete" ? 300 : 0))
        #expect(report["runs"] as? [String] == [wrong.run])
        #expect((report["kept"] as? [String: Int])?.isEmpty == true)
        #expect(try wrong.contents == wrong.before)

        try stage.sweep().ends(0)
        #expect(try wrong.contents == wrong.before)

        let name = try #require(report["run"] as? String)
        try stage.run("undo", name).ends(0, "300 changes by 1 run, 300 taken back")
        #expect(try wrong.contents == wrong.after)
    }

    @Test("--since and --token select changes too")
    func otherChoices() throws {
        let wrong = try UndoStage(.sqlite, "mark", rows: 10)
        let token = DeviceToken.numbered(3).hex
        let one = try wrong.stage.run("undo", "--token", token).ends(
            0, "1 change by 1 run, 1 taken back")
        #expect(!(one.output + one.error).contains(token))
        try wrong.stage.run("undo", "--since", "2020-01-01T00:00:00Z").ends(
            0, "11 changes by 2 runs, 11 taken back")
        let none = try wrong.stage.run("undo", "--since", "2100-01-01 00:00").ends(0)
        #expect(none.output == "undo: there is nothing to take back\n")
        #expect(try wrong.contents == wrong.before)
        try wrong.stage.run("undo", "--token", String(token.prefix(10))).ends(
            0, "which has 5 bytes; a token is given whole")
        let halt = try wrong.stage.folder.write("halt", "")
        let stopped = try wrong.stage.run("undo", "--token", token, "--stop-file", halt).ends(75)
        #expect(stopped.output == "undo: nothing was taken back\n")
    }

    @Test(
        "an impossible date in an image of the ledger is left alone",
        arguments: TestEngine.available)
    func images(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        stage.lines.activeUsers =
            "  active-users: {invalidated-at: {column: none}, reason: {column: none}}"
        let run = try #require(try stage.sweep().json["run"] as? String)
        for (number, entry) in ["9223372036854775807", "-9223372036854775808"].enumerated() {
            try stage.database.execute(
                "UPDATE pushsweep_change SET before_image = ? WHERE seq = \(number)",
                [.text("{\"invalidated_at\":\(entry),\"reason\":null}")])
        }
        let undone = try stage.json("undo", run).ends(0).json(has: ["restored": 1])
        #expect((undone.json["kept"] as? [String: Int])?["unreadable"] == 2, "\(undone.output)")
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 2)
    }

    @Test("undo ends with 4 beside a running sweep and does not touch it")
    func lock() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.delay = .milliseconds(200)
        behaviour.writeSize = 38
        let stage = try SweepStage(
            feeds: [.tuples((0..<200).map { .dead($0, at: start + UInt32($0 % 10)) })],
            behaviour: behaviour)
        let sweep = try stage.start(["sweep"])
        stage.awaitJournal()
        let result = try stage.run("undo", "--since", "2020-01-01T00:00")
        sweep.signal(SIGTERM)
        _ = sweep.wait()
        result.ends(4, "code=4 ")
    }

    @Test("kill -9 at any moment of an undo and the same command again restore the rows")
    func kills() throws {
        let kills = Series.length("PUSHSWEEP_TEST_UNDO_KILLS", short: 2, long: 4)
        for engine in TestEngine.available {
            var random = SeededGenerator("kills of undo on \(engine)")
            let rows = engine == .mariaDB ? 4_000 : 2_000
            var halves = 0
            for round in 0..<kills {
                let wrong = try UndoStage(engine, round % 2 == 0 ? "mark" : "delete", rows: rows)
                let undo = try wrong.stage.start(["undo", wrong.run])
                // Half of them as soon as the first chunk is seen, half at any moment.
                if round % 4 < 2 {
                    try awaitChanges(wrong.stage)
                } else {
                    var pause = timespec(
                        tv_sec: 0, tv_nsec: Int.random(in: 0...400_000_000, using: &random))
                    nanosleep(&pause, nil)
                }
                undo.signal(SIGKILL)
                let hasEnded = undo.wait().exit != 137
                let changed = try wrong.stage.database.rows(
                    of: "pushsweep_change", "source = 'undo'")
                if !hasEnded && changed > 0 && changed < rows { halves += 1 }
                let note: Comment = "\(engine), seed \(random.seed), kill \(round), \(changed) done"
                let again = try wrong.stage.json("undo", wrong.run).ends(0, for: "\(note)")
                #expect(try wrong.contents == wrong.before, note)
                let report = again.json
                let isContinued = report["resumed"] as? Bool == true
                #expect(report["entries"] as? Int == rows, note)
                #expect(
                    report[isContinued || changed == 0 ? "restored" : "already"] as? Int == rows,
                    note)
                #expect(
                    try wrong.stage.database.count(
                        "SELECT COUNT(DISTINCT row_key) FROM pushsweep_change WHERE source = 'undo'"
                    )
                        == rows, note)
            }
            #expect(halves > 0 || kills < 4, "\(engine), seed \(random.seed)")
            print("kills of undo on \(engine): \(kills), \(halves) of them half-way")
        }
    }

    /// Waits until the undo has changed rows, at most 20 seconds.
    private func awaitChanges(_ stage: SweepStage) throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while try stage.database.texts(
            "SELECT 1 FROM pushsweep_change c JOIN pushsweep_part p ON p.number = c.part JOIN "
                + "pushsweep_run r ON r.id = p.run "
                + "WHERE r.kind = 'undo' LIMIT 1"
        ).isEmpty, ContinuousClock.now < deadline {}
    }
}

@Suite("pushsweep purge and policy.delete-after")
struct RetentionTests {
    @Test("purge drops entries older than the settings keep", arguments: TestEngine.available)
    func purge(_ engine: TestEngine) throws {
        let wrong = try UndoStage(engine, "mark", rows: 50)
        let stage = wrong.stage
        try stage.json("purge").ends(0).json(has: ["changes": 0])
        try stage.database.execute(
            "UPDATE pushsweep_run SET started = ? WHERE id = ?",
            [stage.database.time(1_700_000_000_000), .text(wrong.run)])
        for table in ["pushsweep_batch", "pushsweep_change"] {
            try stage.database.execute(
                "UPDATE \(table) SET changed_at = ?", [stage.database.time(1_700_000_000_000)])
        }
        try stage.run("purge", "--dry-run").says(
            "would drop 50 changes of the ledger, 1 batch and 1 run record")
        // One that fails after the entries says that they are gone.
        try stage.database.execute(
            "CREATE TRIGGER hold BEFORE DELETE ON pushsweep_batch BEGIN SELECT RAISE(ABORT, 'held'); END",
            on: .sqlite)
        if engine == .sqlite {
            #expect(try stage.json("purge").json(has: ["changes": 50]).exit != 0)
            try stage.database.sql.run("DROP TRIGGER hold")
            try stage.run("purge").ends(0)
            return
        }
        try stage.json("purge").ends(0).json(has: ["changes": 50])
        #expect(try stage.database.rows(of: "pushsweep_change") == 0)
        try stage.run("undo", wrong.run).ends(64)
        #expect(try wrong.contents == wrong.after)
    }

    @Test("purge drops old runs from the state folder, and from that of a sender that has ended")
    func oldRuns() throws {
        let stage = try UndoStage(.sqlite, "mark", rows: 50).stage
        let folders = [stage.state, stage.state + "/send/1"]
        for folder in folders {
            let journal = try EvidenceJournal(in: StateFolder(folder))
            for (day, name) in ["ancient", "old"].enumerated() {
                let began = EpochMilliseconds(1_700_000_000_000 + Int64(day) * 86_400_000)
                try journal.beginRun(name, kind: "replay", at: began)
                try journal.endRun(name, exit: 0, summary: "{}", at: began)
            }
        }
        try stage.run("purge").ends(0)
        for folder in folders {
            let left = try EvidenceJournal(in: StateFolder(folder)).runs(limit: 9).map(\.id)
            #expect(left.contains("old") && !left.contains("ancient"), "\(folder): \(left)")
        }
    }

    @Test(
        "a sweep marks first and removes when the period has passed",
        arguments: TestEngine.available)
    func deleteAfter(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [
                .tuples((0..<40).map { .dead($0, at: start + UInt32($0 % 10)) }), .tuples([]),
                .tuples([]),
            ])
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        try stage.database.register(0..<40, at: 1_600_000_000_000)
        let first = try stage.sweep().ends(0).app(has: ["applied": 40])
        func gone(_ result: ToolResult) -> [String: Any] {
            (result.json["apps"] as? [[String: Any]])?.first { $0["grace"] as? Bool == true } ?? [:]
        }
        #expect(gone(first).isEmpty)
        #expect(try stage.database.rows(of: "active_users") == 40)
        // Eight days later, as far as the ledger knows.
        let past = Int64(Date().timeIntervalSince1970 * 1_000) - 8 * 86_400_000
        let times = [
            "pushsweep_batch SET changed_at", "pushsweep_change SET changed_at",
            "pushsweep_commit SET committed_at",
        ]
        for time in times {
            try stage.database.execute("UPDATE \(time) = ?", [stage.database.time(past)])
        }
        let trial = try stage.sweep("--dry-run")
        #expect(gone(trial)["applied"] as? Int == 40, "\(trial.output)")
        #expect(try stage.database.rows(of: "active_users") == 40)
        let second = try stage.sweep()
        second.ends(0)
        #expect(gone(second)["applied"] as? Int == 40)
        #expect(try stage.database.rows(of: "active_users") == 0)
        let run = second.json["run"] as? String ?? ""
        try stage.run("undo", run).ends(0)
        #expect(try stage.database.rows(of: "active_users", "invalid_reason = 'feedback'") == 40)
        try stage.sweep().ends(0)
        #expect(try stage.database.rows(of: "active_users") == 40)
    }

    @Test(
        "the guard holds more removals than usual until a person releases them",
        arguments: TestEngine.available)
    func guardedRemoval(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([]), .tuples([])])
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        try stage.database.register(0..<600, at: 1_500_000_000_000)
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = ? WHERE id <= 200",
            [stage.database.time(1_600_000_000_000)])
        try stage.sweep().ends(3, "would have gone after their grace period")
        #expect(try stage.database.rows(of: "active_users") == 600)
        let digest = try #require(try stage.shownHold()["digest"] as? String)
        try stage.run("holds", "release", digest).ends(0)
        #expect(try stage.database.rows(of: "active_users") == 400)
    }

}
