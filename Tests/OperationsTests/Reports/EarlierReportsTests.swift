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
    /// A stage whose gateway calls tokens dead, and whose settings have a wrong value for the app.
    private static func wrong(
        _ engine: TestEngine, rows: Int, dead numbers: Range<Int>
    ) throws -> SweepStage {
        let stage = try SweepStage(
            engine,
            feeds: [
                .tuples(numbers.map { .dead($0, at: UInt32(dead / 1_000) + UInt32($0 % 10)) })
            ] + [FeedSource](repeating: .tuples([]), count: 9))
        try stage.database.register(0..<rows, at: before)
        stage.lines.certificate += "\n    value: talk"
        stage.lines.limits = SweepStage.anyNumber
        return stage
    }

    private static func correct(_ stage: SweepStage) {
        stage.lines.certificate = stage.lines.certificate.replacing("\n    value: talk", with: "")
    }

    private static func batches(_ stage: SweepStage) throws -> Int {
        try stage.database.rows(of: "pushsweep_feed", "inlet <> ''")
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
        let swept = try stage.swept().ends(3)
        let settled = try #require(swept.json["apps"] as? [[String: Any]])
        #expect(
            settled.map { $0["state"] as? String } == ["held", "held", nil], "\(settled)")
        try stage.run("holds", "list").ends(0, "reports that were judged before")
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

    @Test("two hosts with other settings judge each report once under each of them")
    func twoHosts() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try stage.database.report(DeviceToken.numbered(9).hex, time: dead)
        let other = "policy: {action: mark, clock-skew: 10s}"
        var counts: [Int] = []
        for policy in [stage.lines.policy, other, stage.lines.policy, other, stage.lines.policy] {
            stage.lines.policy = policy
            try stage.swept().ends(0)
            counts.append(try Self.batches(stage))
        }
        #expect(counts == [2, 3, 3, 3, 3])
        let terms = try stage.database.texts(
            "SELECT terms FROM pushsweep_feed WHERE inlet = 'earlier'")
        #expect(terms[0][0].split(separator: " ").count == 2)
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
        let run = try stage.database.texts("SELECT DISTINCT run FROM pushsweep_change")[0][0]
        try stage.undone(run).ends(0)
        #expect(try stage.database.marked == 0)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 2, "only 2 and 3 were never undone")
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "an undo came after this evidence was heard")
        // A person may say so.
        let batch = try stage.database.texts(
            "SELECT feed FROM pushsweep_feed WHERE inlet = 'earlier'")[0][0]
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
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 1, "only the token 1, which nobody undid")
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 0)
        try stage.run("explain", DeviceToken.numbered(0).hex).ends(
            0, "an undo came after this evidence was heard")
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
            0, "only a row that certainly registered before the evidence")
        let batch = try stage.database.texts(
            "SELECT feed FROM pushsweep_feed WHERE inlet = 'earlier'")[0][0]
        try stage.replayed(feed: batch).ends(0).app(has: ["applied": 1, "already": 2, "newer": 1])
        try stage.run("audit", "--deep").ends(0)
    }
}
