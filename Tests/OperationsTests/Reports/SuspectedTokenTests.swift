import APNsProtocol
import Foundation
import Looks
import TestSupport
import Testing
import TokenHygiene

private let before: Int64 = 1_600_000_000_000
private let dead: Int64 = 1_700_000_000_000

@Suite("Tokens that APNs called bad")
struct SuspectedTokenTests {
    /// A line of a log about a token.
    private static func line(
        _ number: Int, _ status: Int, _ time: Int64, reason: String = ""
    ) -> String {
        #"{"device_token":"\#(DeviceToken.numbered(number).hex)","status":\#(status),"reason":"\#(reason)","#
            + #""timestamp_ms":\#(time)}"# + "\n"
    }

    @Test(
        "a 200 about a suspected token, in a log or a row, says whether the token or the sender is to blame",
        arguments: TestEngine.available)
    func accepted(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<100, at: before)
        let bad = (0..<4).map { Self.line($0, 400, dead, reason: "BadDeviceToken") }
        // Before and behind the lines that suspect, and of tokens that nobody suspects.
        let lines =
            [Self.line(0, 200, dead + 1_000), Self.line(50, 200, dead)] + bad
            + [Self.line(1, 200, dead - 1_000), Self.line(51, 200, dead + 1_000)]
        let file = try stage.folder.write("log.jsonl", lines.joined())
        let words = ["import", file, "--from", "jsonl", "--app", "chat"]
        try stage.run(words + ["--dry-run"]).says("8, of which 0 call a token dead, 4 suspect one")
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 0)
        try stage.run(words).ends(
            0, "8, of which 0 call a token dead, 4 suspect one, 4 say nothing")
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 4)
        #expect(try stage.database.rows(of: "pushsweep_report") == 0)
        let other = stage.host("b")
        func explained(_ number: Int, _ words: String) throws {
            try stage.run(["explain", DeviceToken.numbered(number).hex], environment: other)
                .ends(0, words)
        }
        try explained(
            0, "it accepted it later, at 2023-11-14T22:13:21.000Z, so nothing of that is left")
        try explained(1, "it had known it at 2023-11-14T22:13:19.000Z, so credentials or settings")
        try explained(2, "no answer is known that accepted it")
        let list = stage.folder.file("suspects.csv")
        try stage.run(["audit", "--suspects", list], environment: other).ends(
            0, "APNs called 3 of 100 living tokens bad", "1 of them it had known before")
        let listed = try String(contentsOfFile: list, encoding: .utf8).split(separator: "\n")
        #expect(
            listed.count == 4 && listed[0].hasPrefix("app,environment,row,user,registered,token"))
        #expect(listed.count { $0.contains("2023-11-14T22:13:19.000Z") } == 1, "\(listed)")
        #expect(!listed.joined().contains(DeviceToken.numbered(1).hex))
        // By rows: one clears what is suspected, one comes with what it clears.
        for (number, status) in [(2, 200), (5, 400), (5, 200), (60, 200)] {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: status,
                reason: status == 400 ? "BadDeviceToken" : nil,
                time: dead + (status == 200 ? 5_000 : 0))
        }
        try stage.swept().ends(0)
        #expect(try stage.database.rows(of: "pushsweep_evidence") == 0)
        #expect(try stage.database.rows(of: "pushsweep_report") == 0)
        #expect(try stage.database.rows(of: "pushsweep_suspect") == 5)
        try explained(2, "it accepted it later")
        try explained(5, "it accepted it later")
        try stage.run(["audit"], environment: other).ends(
            0, "APNs called 2 of 100 living tokens bad")
        #expect(try stage.database.rows(where: "invalidated_at IS NULL") == 100)
    }

    @Test(
        "the file of suspects has the first and the last time of a token that was called bad twice")
    func twice() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<10, at: before)
        for time in [dead + 5_000, dead] {
            try stage.database.report(
                DeviceToken.numbered(3).hex, status: 400, reason: "BadDeviceToken", time: time)
        }
        try stage.swept().ends(0)
        var wish = AuditWish()
        let list = stage.folder.file("suspects.csv")
        wish.suspectsFile = list
        _ = try Audit.run(stage.loaded(), wish, version: "1", .silent())
        let lines = try String(contentsOfFile: list, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 2 && lines[0].hasSuffix(",reason,first,last,times,known"))
        let cells = lines[1].split(separator: ",", omittingEmptySubsequences: false).suffix(5)
        #expect(
            cells == [
                "BadDeviceToken", "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:25.000Z", "2", "",
            ], "\(lines)")
    }

    @Test(
        "the gate counts the tokens of a send that APNs called bad in the last seven days, and a filter leaves them out",
        arguments: TestEngine.available)
    func gate(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<100, at: before)
        for number in 0..<3 {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "BadDeviceToken", time: dead)
        }
        try stage.swept().ends(0)
        let list = try stage.folder.write(
            "tokens", (0..<20).map { DeviceToken.numbered($0).hex + "\n" }.joined())
        let gate = ["preflight", "--read-only", "--tokens-from", list]
        // What is not sent to does not dilute the share.
        let wide = try stage.folder.write(
            "wide",
            ((0..<20).map { $0 } + Array(500..<560)).map { DeviceToken.numbered($0).hex + "\n" }
                .joined())
        try stage.run("preflight", "--read-only", "--max-stale", "90", "--tokens-from", wide).ends(
            2, "high: suspect-tokens: chat/production: APNs called 3 of 20 living tokens")
        try stage.run(gate).ends(
            2, "APNs called 3 of 20 living tokens of the send bad",
            "20 read, 20 living, 3 called bad")
        try stage.run(gate + ["--max-suspect", "20"]).ends(0, "medium: suspect-tokens")
        try stage.run(gate + ["--max-suspect", "80"]).ends(0, "note: suspect-tokens")
        let filter = gate + ["--filter"]
        func passed(_ more: [String] = []) throws -> Int {
            try stage.run(filter + more).ends(0).output.split(separator: "\n").count
        }
        #expect(try passed() == 20)
        #expect(try passed(["--without-suspects"]) == 17)
        #expect(try passed(["--without-suspects", "--only-known"]) == 17)
        #expect(try passed(["--without-suspects", "--memory", "0"]) == 17)
        try stage.run(gate + ["--without-suspects"]).ends(
            64, "--without-suspects goes with --filter")
        // What APNs knew before is no fault of the token.
        try stage.database.execute(
            "UPDATE pushsweep_suspect SET accepted_at = first_at WHERE token = ?",
            [.bytes(DeviceToken.numbered(1).bytes)])
        #expect(try passed(["--without-suspects"]) == 18)
        try stage.run(gate).ends(2, "APNs called 3 of 20 living tokens of the send bad")
        // After a week it may be asked again.
        try stage.database.execute(
            "UPDATE pushsweep_suspect SET changed_at = ?", [stage.database.time(dead)])
        try stage.run(gate).ends(0).lacks("suspect-tokens")
        #expect(try passed(["--without-suspects"]) == 20)
        // A person asked for what is not there.
        try stage.database.execute("ALTER TABLE pushsweep_suspect RENAME TO elsewhere")
        try stage.run(filter + ["--without-suspects"]).ends(
            78, "there is no table pushsweep_suspect")
        #expect(try passed() == 20)
        let file = stage.folder.file("suspects.csv")
        try stage.run("audit", "--suspects", file).ends(0, "a part could not be examined")
        #expect(!FileManager.default.fileExists(atPath: file))
    }
}
