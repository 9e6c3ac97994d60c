import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let before: Int64 = 1_600_000_000_000
private let dead: Int64 = 1_700_000_000_000
private let after: Int64 = 1_750_000_000_000

@Suite("Reports that are judged again")
struct EarlierReportsTests {
    private static let wrongValue = "\n    value: talk"

    /// A stage whose gateway calls tokens dead, and whose settings have a wrong value for the app.
    private static func wrong(
        _ engine: TestEngine, rows: Int, dead numbers: Range<Int>
    ) throws -> SweepStage {
        let stage = try SweepStage(
            engine,
            feeds: [
                .tuples(numbers.map { .dead($0, at: UInt32(dead / 1_000) + UInt32($0 % 10)) })
            ] + [ListSource](repeating: .tuples([]), count: 9))
        try stage.database.register(0..<rows, at: before)
        stage.lines.certificate += wrongValue
        stage.lines.limits = SweepStage.anyNumber
        return stage
    }

    private static func correct(_ stage: SweepStage) {
        stage.lines.certificate = stage.lines.certificate.replacing(wrongValue, with: "")
    }

    private static func batches(_ stage: SweepStage) throws -> Int {
        try stage.database.rows(of: "pushsweep_batch", "inlet <> ''")
    }

    @Test(
        "a mapping that was wrong is corrected, and its reports are judged once, under the guard",
        arguments: TestEngine.available)
    func corrected(_ engine: TestEngine) throws {
        let stage = try Self.wrong(engine, rows: 1_000, dead: 0..<500)
        try stage.swept().ends(0).app(has: ["unknown": 500])
        // Two senders report some of them once more, and one device that no row has.
        for number in [3, 3, 4, 700, 2_000] {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 0)
        Self.correct(stage)
        stage.lines.limits = ""
        try stage.run("explain", DeviceToken.numbered(3).hex).ends(
            0, "the next sweep judges it again", "again under another mapping: row")
        let before = try stage.database.texts("SELECT * FROM pushsweep_batch ORDER BY name")
        let dry = try stage.run("sweep", "--dry-run").ends(3)
        #expect(dry.output.contains("reports that found no row"), "\(dry.output)")
        #expect(try stage.database.texts("SELECT * FROM pushsweep_batch ORDER BY name") == before)
        let swept = try stage.swept().ends(3)
        let settled = try #require(swept.json["apps"] as? [[String: Any]])
        #expect(
            settled.map { $0["state"] as? String } == ["held", "held", nil], "\(settled)")
        try stage.run("holds", "list").ends(0, "reports that found no row")
        try stage.run("audit", "--deep").says("a removal")
        #expect(try stage.database.marked == 0)
        let digest = try #require(try stage.shown()["digest"] as? String)
        try stage.released(digest).ends(0)
        #expect(try stage.database.marked == 501)
        let batches = try Self.batches(stage)
        for host in ["a", "b"] {
            try stage.run(["sweep"], environment: stage.host(host)).ends(0)
        }
        #expect(try Self.batches(stage) == batches, "they were judged twice")
        #expect(try stage.database.rows(of: "pushsweep_report") == 505)
        try stage.run("audit", "--deep").ends(0)
        try stage.run("explain", DeviceToken.numbered(2_000).hex).ends(0, "no row of this app")
    }

    @Test("what is judged again was read and heard when the first of its batches was")
    func firstTimes() throws {
        let stage = try Self.wrong(.sqlite, rows: 10, dead: 0..<0)
        for number in 0..<3 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
            try stage.swept().ends(0)
        }
        let now = Int64(Date().timeIntervalSince1970) * 1_000
        func ago(_ days: Int64) -> SQLValue { stage.database.time(now - days * 86_400_000) }
        let feeds = try stage.database.texts(
            "SELECT name FROM pushsweep_batch WHERE inlet = 'table' ORDER BY opened_at")
        #expect(feeds.count == 3)
        for (feed, days) in zip(feeds, [(2, 5), (3, 4), (1, 6)] as [(Int64, Int64)]) {
            try stage.database.execute(
                "UPDATE pushsweep_batch SET opened_at = ?, heard_at = ? WHERE name = ?",
                [ago(days.0), ago(days.1), .text(feed[0])])
        }
        Self.correct(stage)
        try stage.swept().ends(0).app(has: ["applied": 3])
        #expect(
            try stage.database.texts(
                "SELECT opened_at, heard_at FROM pushsweep_batch WHERE inlet = 'earlier'")
                == [[ago(3).testText, ago(6).testText]])
    }

    @Test("two hosts with other mappings judge each report once under each of them")
    func twoHosts() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try stage.database.report(DeviceToken.numbered(9).hex, time: dead)
        var counts: [Int] = []
        for isWrong in [false, true, false, true, false] {
            Self.correct(stage)
            if isWrong { stage.lines.certificate += Self.wrongValue }
            try stage.swept().ends(0)
            counts.append(try Self.batches(stage))
        }
        #expect(counts == [2, 3, 3, 3, 3])
        let mappings = try stage.database.texts(
            "SELECT DISTINCT mapping FROM pushsweep_part WHERE batch = "
                + "(SELECT number FROM pushsweep_batch WHERE inlet = 'earlier')")
        #expect(mappings.count == 2)
        // A policy makes no row findable.
        stage.lines.policy = "policy: {action: delete, clock-skew: 10m}"
        try stage.swept().ends(0)
        #expect(try Self.batches(stage) == 3)
    }

    @Test(
        "an undo is not taken back by reports that were there before it",
        arguments: TestEngine.available)
    func undone(_ engine: TestEngine) throws {
        let stage = try Self.wrong(engine, rows: 10, dead: 0..<4)
        try stage.swept().ends(0).app(has: ["unknown": 4])
        Self.correct(stage)
        // The same tokens come by a file, are marked, and a person takes that back.
        let line = { (number: Int) in
            #"{"device_token":"\#(DeviceToken.numbered(number).hex)","status":410,"timestamp_ms":\#(dead + 9_000)}"#
        }
        let file = try stage.folder.write("log.jsonl", line(0) + "\n" + line(1) + "\n")
        try stage.run("import", file, "--from", "jsonl", "--app", "chat").ends(0)
        #expect(try stage.database.marked == 2)
        let run = try stage.database.texts("SELECT DISTINCT run FROM \(ledgerWithRuns)")[0][0]
        try stage.undone(run).ends(0)
        #expect(try stage.database.marked == 0)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 2, "only 2 and 3 were never undone")
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "the row was kept, because a person undid as much at ")
        // A person may say so.
        let batch = try stage.database.texts(
            "SELECT name FROM pushsweep_batch WHERE inlet = 'earlier'")[0][0]
        try stage.replayed(feed: batch).ends(0)
        #expect(try stage.database.marked == 4)
    }

    @Test(
        "rows of pushsweep_evidence that were there before an undo do not take it back, and later ones count",
        arguments: TestEngine.available)
    func rowsBeforeUndo(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<3, at: before)
        try stage.database.report(DeviceToken.numbered(0).hex, time: dead)
        let run = try stage.swept().ends(0)
        #expect(try stage.database.marked == 1)
        // A sender that does not look at marks says it again, with an older and a newer time.
        for time in [dead, dead + 1, dead + 5_000_000] {
            try stage.database.report(DeviceToken.numbered(0).hex, time: time)
        }
        try stage.database.report(DeviceToken.numbered(1).hex, time: dead)
        try stage.undone(run.json["run"] as? String ?? "").ends(0)
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "it changes nothing, because a person undid as much at ")
        let dry = try stage.swept(dryRun: true)
        #expect(
            (dry.json["apps"] as? [[String: Any]])?.compactMap { $0["applied"] as? Int }.reduce(
                0, +) == 1,
            "\(dry.output)")
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 1, "only the token 1, which nobody undid")
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 0)
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "the row was kept, because a person undid as much at ")
        try stage.database.report(DeviceToken.numbered(0).hex, time: dead)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 2)
    }

    @Test("what registered near the evidence, later, or at an unknown time is left to a person")
    func doubt() throws {
        let stage = try Self.wrong(.sqlite, rows: 4, dead: 0..<4)
        for (user, time) in [(1, "'2023-11-14 22:13:20.500'"), (2, "'2025-11-14 22:13:20.500'")] {
            try stage.database.execute(
                "UPDATE active_users SET registered_at = \(time) WHERE device_token = ?",
                [.bytes(DeviceToken.numbered(user).bytes)])
        }
        try stage.swept().ends(0)
        Self.correct(stage)
        try stage.swept().ends(0).app(has: ["applied": 2, "newer": 2])
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(
            0, "only a row changes that certainly registered before the evidence")
        let batch = try stage.database.texts(
            "SELECT name FROM pushsweep_batch WHERE inlet = 'earlier'")[0][0]
        try stage.replayed(feed: batch).ends(0).app(has: ["applied": 1, "already": 2, "newer": 1])
        try stage.run("audit", "--deep").ends(0)
    }

    @Test("an undo that comes after a replay that was not ended precedes it")
    func undoAfterWord() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let run = try stage.swept().ends(0).json["run"] as? String ?? ""
        // As a run leaves it that was killed after a person had decided.
        try stage.database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, app_name, environment, source, state, inlet, "
                + "label, host, opened_at, ending, reports, changed_at) SELECT 'later', run, app, app_name, "
                + "environment, source, 'waiting', inlet, label, host, opened_at, ending, reports, "
                + "changed_at FROM pushsweep_batch")
        try stage.database.execute(
            "UPDATE pushsweep_batch SET origin = 'x', asked_at = changed_at WHERE name = 'later'")
        try stage.database.execute(
            "INSERT INTO pushsweep_report (batch, token, number, evidence_at, changed_at) SELECT \(batchNumber("later")), "
                + "token, number, evidence_at, changed_at FROM pushsweep_report")
        try stage.undone(run).ends(0)
        #expect(try stage.database.marked == 0)
        // A sweep that was stopped after a chunk moves this, and says nothing for a person.
        try stage.database.execute(
            "UPDATE pushsweep_batch SET changed_at = ? WHERE name = 'later'",
            [stage.database.time(4_000_000_000_000)])
        _ = try stage.swept()
        #expect(try stage.database.marked == 0)
    }

    @Test(
        "what an undo precedes is told, causes no hold, and is counted where a person looks at a hold"
    )
    func undoneInHold() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<300, at: before)
        stage.lines.limits = SweepStage.anyNumber
        for number in 0..<60 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        let run = try stage.swept().ends(0).json["run"] as? String ?? ""
        for number in 0..<65 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        try stage.undone(run).ends(0)
        // A value that was corrected since changes nothing of that.
        try stage.database.execute("UPDATE active_users SET app_id = 'talk'")
        stage.lines.certificate += Self.wrongValue
        let swept = try stage.swept().ends(
            0, "60 reports of batch", "because a person undid or discarded what they say")
        #expect(try stage.database.marked == 5)
        let told = (swept.json["apps"] as? [[String: Any]])?.compactMap { $0["spared"] as? Int }
        #expect(told == [60])
        for number in 0..<60 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        stage.lines.limits = "guard: {floor: 10}"
        try stage.swept().ends(3)
        let shown = try stage.run("holds", "show").ends(0)
        #expect(!shown.output.contains("a person undid"), "these were reported after the undo")
        try stage.database.execute(
            "UPDATE pushsweep_batch SET heard_at = ? WHERE state = 'held'",
            [stage.database.time(dead)])
        try stage.run("holds", "show").ends(
            0, "a person undid or discarded what is said of 60 tokens")
    }

    @Test("reports from before and after an undo are judged again as two batches")
    func aroundUndo() throws {
        let stage = try Self.wrong(.sqlite, rows: 10, dead: 0..<1)
        try stage.swept().ends(0)
        Self.correct(stage)
        let file = try stage.folder.write(
            "log.jsonl",
            #"{"device_token":"\#(DeviceToken.numbered(5).hex)","status":410,"timestamp_ms":\#(dead)}"#
                + "\n")
        try stage.run("import", file, "--from", "jsonl", "--app", "chat").ends(0)
        let run = try stage.database.texts("SELECT DISTINCT run FROM \(ledgerWithRuns)")[0][0]
        try stage.undone(run).ends(0)
        stage.lines.certificate += Self.wrongValue
        for number in 5..<7 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        try stage.swept().ends(0)
        Self.correct(stage)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 3, "a fresh report of 5 came after the undo")
    }

    @Test(
        "a log that was written anew takes no undo back by its old lines, and does by new ones or by a person's word",
        arguments: TestEngine.available)
    func grownLog(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<4, at: before)
        func line(_ number: Int, _ time: Int64) -> String {
            #"{"device_token":"\#(DeviceToken.numbered(number).hex)","status":410,"timestamp_ms":\#(time)}"#
        }
        func imported(_ lines: [String], _ words: String...) throws -> ToolResult {
            let file = try stage.folder.write("log.jsonl", lines.joined(separator: "\n") + "\n")
            return try stage.run(["import", file, "--from", "jsonl", "--app", "chat"] + words)
        }
        var lines = [line(0, dead), line(1, dead)]
        _ = try imported(lines).ends(0)
        #expect(try stage.database.marked == 2)
        let run = try stage.database.texts("SELECT DISTINCT run FROM \(ledgerWithRuns)")[0][0]
        try stage.undone(run).ends(0)
        // Its beginning is another one, so all of it is read.
        lines = [#"{"level":"info"}"#] + lines + [line(1, dead + 60_000), line(2, dead)]
        _ = try imported(lines).ends(
            0, "1 report of batch", "because a person undid or discarded what it says",
            "0 kept because they registered again, 1 because a person undid or discarded them")
        #expect(
            try stage.database.marked == 2, "1, which has a new line, and 2, which nobody undid")
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "the row was kept, because a person undid as much at ")
        _ = try imported(lines, "--again").ends(0)
        #expect(try stage.database.marked == 3)
        // It is his word too where the database has not seen that content.
        let again = try stage.database.texts(
            "SELECT run FROM pushsweep_batch WHERE inlet = 'file' ORDER BY asked_at DESC")[0][0]
        try stage.undone(again).ends(0)
        let marked = try stage.database.marked
        _ = try imported([line(0, dead)], "--again").ends(0)
        #expect(try stage.database.marked == marked + 1)
    }

    @Test(
        "lines of a log with a time of sending count where they were sent after the undo, whatever time they name",
        arguments: TestEngine.available)
    func sentLines(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<4, at: before)
        for number in 0..<4 {
            try stage.database.report(DeviceToken.numbered(number).hex, time: dead)
        }
        let run = try stage.swept().ends(0)
        let sent = Int64(Date().timeIntervalSince1970 * 1_000)
        try stage.undone(run.json["run"] as? String ?? "").ends(0)
        eventually { Int64(Date().timeIntervalSince1970 * 1_000) > sent + 50 }
        let later = Int64(Date().timeIntervalSince1970 * 1_000)
        // Sent before and after; one names no time of sending and says no more than was undone, as does one whose
        // time of sending is ahead: nobody can have heard it then.
        let lines = [
            (0, dead + 60_000, "\(sent)"), (1, dead, "\(later)"), (2, dead, "null"),
            (3, dead, "\(later + 3_600_000)"),
        ].map {
            #"{"token":"\#(DeviceToken.numbered($0).hex)","status":410,"time":\#($1),"sent":\#($2)}"#
        }
        let file = try stage.folder.write("log.jsonl", lines.joined(separator: "\n") + "\n")
        try stage.run(
            "import", file, "--from", "jsonl", "--app", "chat", "--map",
            "token=.token,status=.status,time=.time,sent=.sent"
        ).ends(0, "1 line names a time of sending that is ahead")
        #expect(
            try stage.database.texts("SELECT id FROM active_users WHERE invalidated_at IS NOT NULL")
                == [["2"]])
    }

    @Test(
        "a dry run needs the token table alone, and a moved batch names the one that has its reports"
    )
    func aloneAndMoved() throws {
        let stage = try Self.wrong(.sqlite, rows: 2, dead: 5..<9)
        try stage.swept().ends(0)
        Self.correct(stage)
        try stage.swept().ends(0)
        let names = try stage.database.texts(
            "SELECT name, moved_to FROM pushsweep_batch WHERE moved_to IS NOT NULL")
        try stage.replayed(feed: names[0][0]).ends(64, "moved into batch \(names[0][1])")
        try stage.replayed(feed: names[0][1]).ends(0).app(has: ["unknown": 4])
        let file = try stage.folder.write(
            "log.jsonl",
            #"{"device_token":"\#(DeviceToken.numbered(1).hex)","status":410,"timestamp_ms":\#(dead)}"#
                + "\n")
        for table in try stage.database.texts(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'pushsweep%'")
        {
            try stage.database.execute("DROP TABLE \(table[0])")
        }
        try stage.run("import", file, "--from", "jsonl", "--app", "chat", "--dry-run").ends(
            0, "1 would be")
    }
}
