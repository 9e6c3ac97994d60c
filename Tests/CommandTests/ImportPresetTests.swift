import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let old: Int64 = 1_600_000_000_000

@Suite("An import of a form that the program knows, or that the options miss")
struct ImportPresetTests {
    private static let good = "1700000000000"

    private static func lines(_ count: Int, _ time: String = "1700000000") -> String {
        (0..<count).map {
            #"{"device_token":"\#(hex($0))","status":410,"timestamp_ms":\#(time)}"# + "\n"
        }.joined()
    }

    /// Lines that are passed over, and a log of SNS.
    private static let others = lines(300).replacing("410", with: "200")
    private static let sns =
        #"{"delivery":{"token":"\#(hex(0))","statusCode":410,"providerResponse":"#
        + #""{\"reason\":\"Unregistered\",\"timestamp\":1700000000123}"}}"# + "\n"

    private static let hundred = "each of the first 100 lines that are not passed over fails"
    private static let seconds = "read it with --time-unit s"

    /// Files that no import takes, with the options, the exit code and words of the reason.
    private static let refusals:
        [(name: String, text: String, options: [String], exit: Int32, words: [String])] = [
            (
                "a hundred lines fail for one reason", lines(150), ["jsonl"], 64,
                ["\(hundred) for one reason, line 1: its time", seconds]
            ),
            (
                "others before them are passed over", others + lines(300), ["jsonl"], 64,
                [hundred, "line 301: its time", seconds]
            ),
            ("and one of them is enough", others + lines(1), ["jsonl"], 64, [seconds]),
            (
                "a CSV file has its line of names far in front of them",
                "device_token,status,timestamp_ms\n"
                    + (0..<400).map { "\(hex($0)),\($0 < 300 ? 200 : 410),1700000000\n" }.joined(),
                ["csv"], 64, ["line 302: its time", seconds]
            ),
            (
                "no line is JSON", String(repeating: "no JSON\n", count: 120), ["jsonl"], 65,
                ["it is not one JSON value", "check --from"]
            ),
            (
                "text stands before the JSON",
                lines(120).replacing("{\"dev", with: "2023-11-14T22:13:20Z {\"dev"),
                ["jsonl", "--time-unit", "s"], 65,
                [
                    "text stands before its JSON object",
                    "sed 's/^[^{]*//' FILE | pushsweep import - --from jsonl --time-unit s",
                ]
            ),
            (
                "a short file that an option reads", lines(2), ["jsonl"], 64,
                ["each line fails for one reason", seconds]
            ),
            (
                "a short CSV file that an option reads",
                "token;dead\n\(hex(0));2023-11-14T22:13:20,123Z\n",
                ["csv", "--map", "token=token,time=dead"], 64, ["read it with --time-unit iso"]
            ),
            (
                "the log of another sender", sns, ["jsonl"], 64,
                ["none of 1 line says that a token is dead", "read it with --from sns"]
            ),
            ("one that is no CSV", sns, ["csv"], 64, ["read it with --from sns"]),
            ("one for another preset", sns, ["gorush"], 64, ["read it with --from sns"]),
            (
                "our own form for a preset", lines(1, "1700000000000"), ["gorush"], 64,
                ["read it with --from jsonl"]
            ),
            (
                "two lines without the form of a preset", "root:x:0\nmail:x:8\n", ["sns"], 65,
                ["each line fails for one reason"]
            ),
        ]

    @Test(
        "a file whose lines fail for one reason is refused as a whole, and what to do is named",
        arguments: refusals.indices)
    func refused(_ place: Int) throws {
        let (name, text, options, exit, words) = Self.refusals[place]
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<3, at: old)
        let path = try stage.folder.write("push.log", text)
        for more in [["--dry-run"], []] {
            let result = try stage.run(["import", path, "--from"] + options + more)
                .ends(exit, "nothing of", for: name).lacks(hex(0))
            for word in words { result.says(word, for: name) }
        }
        #expect(try stage.marked == 0)
        #expect(try stage.database.rows(of: "pushsweep_intake") == 0)
        #expect(try stage.lists().isEmpty)
    }

    @Test(
        "lines that no option reads go to quarantine, and the good ones count",
        arguments: [
            (String(repeating: "torn\n", count: 100) + lines(2, good), ["100 quarantined"], 2),
            (lines(100, "null") + lines(2, good), ["100 quarantined"], 2),
            (
                lines(120, "null"),
                [
                    "120 quarantined", "each line fails for one reason, line 1: it has no time",
                    "check time= and sent= in --map",
                ], 0
            ),
            (lines(2, "null"), ["2 quarantined"], 0),
            // One line of a hundred that is right, or fails otherwise, keeps the import going.
            (lines(99) + lines(1, good) + lines(50), ["149 quarantined"], 1),
            (lines(99) + lines(1, "null") + lines(50), ["150 quarantined"], 0),
        ])
    func quarantined(_ text: String, _ words: [String], _ marked: Int) throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<2, at: old)
        let path = try stage.folder.write("push.log", text)
        let result = try stage.run("import", path, "--from", "jsonl").ends(65)
        for word in words { result.says(word) }
        #expect(try stage.marked == marked)
    }

    @Test("a map that fits no column leads to the preset that reads the file")
    func another() throws {
        let stage = try IntakeStage(.sqlite)
        let path = try stage.folder.write(
            "rpush.tsv",
            "device_token\terror_code\terror_description\tcreated_at\n"
                + "\(hex(0))\t410\tUnregistered\t2023-11-14 22:13:20\n")
        try stage.run("import", path, "--from", "csv", "--map", "token=token").ends(
            64, "names no column token", "; read it with --from rpush, without --map"
        ).lacks("check --map")
    }

    @Test("a preset reads its log, the same content is known however it is named")
    func preset() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<2, at: old)
        let path = try stage.folder.write(
            "rpush.tsv",
            "device_token\terror_code\terror_description\tcreated_at\n"
                + "\(hex(0))\t410\tUnregistered\t2023-11-14 22:13:20.000000\n"
                + "\(hex(1))\t400\tBadDeviceToken\t2023-11-14 22:13:20.000000\n")
        try stage.run("import", path, "--from", "rpush").ends(0, "1 suspect one")
        #expect(try stage.marked == 1)
        let map = "token=device_token,status=error_code,reason=error_description,sent=created_at"
        try stage.run("import", path, "--from", "tsv", "--map", map, "--time-unit", "iso").ends(
            0, "imported before")
    }

    @Test("what a sweep quarantined comes back by the preset of its export")
    func quarantine() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: old)
        try stage.report(hex(0), app: "caht")
        try stage.database.execute(
            "UPDATE pushsweep_evidence SET created_at = '2026-01-01 00:00:00'")
        try stage.run("sweep").ends(65)
        let feeds = try stage.json("quarantine", "list").json["batches"] as? [[String: Any]]
        let feed = try #require(feeds?.first?["batch"] as? String)
        let rows = stage.folder.file("rows.jsonl")
        try stage.run("quarantine", "export", feed, rows).ends(0)
        try stage.run("import", rows, "--from", "quarantine", "--app", "chat").ends(0)
        #expect(try stage.marked == 1)
    }

    @Test("rows of the quarantine name their own apps, unless one is given for all")
    func ownApps() throws {
        let stage = try IntakeStage(.sqlite, others: ["mail"])
        try stage.database.register(0..<2, at: old)
        let line = { (number: Int, app: String) in
            #"{"app":"\#(app)","environment":"production","device_token":"\#(hex(number))","status":410,"#
                + #""timestamp_ms":1700000000000}"# + "\n"
        }
        let rows = try stage.folder.write(
            "rows.jsonl", line(0, "chat") + line(1, "mail") + line(2, "caht") + "{}\n")
        let imported = try stage.json("import", rows, "--from", "quarantine").ends(65)
        let intake = imported.json["intake"] as? [String: Any]
        #expect(intake?["evidence"] as? Int == 2 && intake?["quarantined"] as? Int == 1)
        let apps = imported.json["apps"] as? [[String: Any]] ?? []
        #expect(
            apps.map { "\($0["app"] ?? "") \($0["applied"] ?? "") \($0["unknown"] ?? "")" }.sorted()
                .filter { !$0.hasPrefix("none") } == ["chat 1 0", "mail 0 1"], "\(apps)")
        try stage.run("quarantine", "list").says("the settings name no app caht")
        try stage.run("import", rows, "--from", "jsonl").ends(64)
        let all = try stage.json("import", rows, "--from", "quarantine", "--app", "chat").ends(0)
        #expect((all.json["intake"] as? [String: Any])?["evidence"] as? Int == 3)
        #expect(try stage.marked == 2)
    }

    @Test("an unknown name lists the known ones, and a known sender's log has its own fields")
    func usage() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.run("import", "/dev/null", "--from", "onesignal").ends(
            64, "gorush", "sns", "rpush", "quarantine")
        try stage.run("import", "/dev/null").ends(
            64, "--from <jsonl|csv|tsv|feedback|gorush|sns|rpush")
        try stage.run("import", "/dev/null", "--from", "sns", "--map", "token=.a").ends(
            64, "--from sns has a map of its own")
    }

    @Test("beside a line that cannot be used it is told that no other one says anything")
    func silentBesideUnusable() throws {
        let stage = try IntakeStage(.sqlite)
        for unusable in 1...2 {
            let lines =
                (0..<5).map { #"{"device":"\#(hex($0))","code":200,"run":\#(unusable)}"# }
                + (0..<unusable).map { #"{"token":"\#(hex($0))","status":410}"# }
            let file = try stage.folder.write(
                "log\(unusable).jsonl", lines.joined(separator: "\n") + "\n")
            try stage.run(
                "import", file, "--app", "chat", "--from", "jsonl", "--map",
                "token=token,status=status,time=timestamp"
            ).ends(65, "5 say nothing about one, \(unusable) quarantined", "check --from and --map")
        }
    }
}
