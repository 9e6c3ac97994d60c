import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("Files that an import cannot understand")
struct ImportRefusalTests {
    private static let when = 1_700_000_000_123
    private static let map = ["--map", "token=token,reason=reason,time=time"]

    private static func stage() throws -> IntakeStage {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        return stage
    }

    /// Expects that nothing of a file was taken, here or in the quarantine.
    private static func expectNothing(_ stage: IntakeStage, _ note: String) throws {
        #expect(try stage.marked == 0, "\(note)")
        #expect(try stage.lists().isEmpty, "\(note)")
        #expect(try stage.database.rows(of: "pushsweep_intake") == 0, "\(note)")
    }

    @Test(
        "a reason that APNs does not have is named and counted, and a line without one is silent",
        arguments: [
            "unregistered", "Optional[Unregistered]", "APNS_UNREGISTERED", "ExpiredChannel",
            "code 410: APNs push error: Unregistered: timestamp 1700000000123",
            "Unregistered\u{301}",
        ])
    func reasons(_ reason: String) throws {
        let stage = try Self.stage()
        let lines = [
            #"{"token":"\#(hex(0))","reason":"Unregistered","time":\#(Self.when)}"#,
            #"{"token":"\#(hex(1))","reason":"\#(reason)","time":\#(Self.when)}"#,
            #"{"level":"info"}"#, #"{"token":"\#(hex(2))","reason":null}"#,
            #"{"token":"\#(hex(2))","reason":""}"#,
        ].joined(separator: "\n")
        let path = try stage.folder.write("push.log", lines)
        let result = try stage.run(
            ["import", path, "--from", "jsonl", "--format", "json"] + Self.map
        )
        .ends(65, "1 line without a status names a reason that APNs does not have", "(line 2)")
        let intake = try #require(result.json["intake"] as? [String: Any])
        #expect(intake["unknownReasons"] as? Int == 1 && intake["other"] as? Int == 3)
        #expect(intake["quarantined"] as? Int == 0)
        #expect(try stage.marked == 1)
        let silent = try stage.folder.write("silent.log", String(lines.split(separator: "\n")[0]))
        let quiet = try stage.run(["import", silent, "--from", "jsonl"] + Self.map).ends(0)
        #expect(quiet.error.isEmpty, "\(quiet.error)")
    }

    @Test(
        "nothing is taken of a file whose times no unit reads, and the forms that are read are named",
        arguments: [
            "26.11.2026 14:03", "\"Nov 14, 2023 @ 22:13:20.123\"", "\"1,700,000,000,123\"",
            "2023-11-14T22:13:20+01:00[Europe/Berlin]", "2023-11-14 22:13:20 CET",
            "\"Tue, 14 Nov 2023 22:13:20 GMT\"",
        ], ["ms", "s", "iso"])
    func dates(_ time: String, _ unit: String) throws {
        let stage = try Self.stage()
        for rows in [1, 3] {
            let text = (0..<rows).map { "\(hex($0)),\(time)\n" }.joined()
            let path = try stage.folder.write("dead.csv", "token,time\n" + text)
            try stage.run(
                "import", path, "--from", "csv", "--map", "token=token,time=time", "--time-unit",
                unit
            ).ends(
                65, "nothing of it was taken", "--time-unit s", "--time-unit iso",
                "2023-11-14T22:13:20+01:00"
            ).lacks("check --time-unit")
        }
        try Self.expectNothing(stage, time)
    }

    @Test("a file without a line is called empty, however it is empty")
    func empty() throws {
        let stage = try Self.stage()
        for (form, text) in [
            ("jsonl", ""), ("csv", ""), ("rpush", "\n\n"), ("gorush", " \r\n"), ("csv", "\u{FEFF}"),
        ] {
            let path = try stage.folder.write("leer.csv", text)
            try stage.run("import", path, "--from", form).ends(65, "leer.csv is empty")
        }
        try Self.expectNothing(stage, "empty")
        // The names of columns alone are an export of a day without a dead token.
        let path = try stage.folder.write("none.csv", "device_token,status,timestamp_ms\n")
        try stage.run("import", path, "--from", "csv").ends(0)
    }

    @Test("text lines among JSON behind a prefix are no file of JSON, and the cure is named")
    func syslog() throws {
        let stage = try Self.stage()
        let prefix = "Nov 14 22:13:00 host1 sender[131]: "
        for count in [1, 60] {
            let text = (0..<count).map { number in
                prefix + "2023-11-14 22:13:20,802 INFO connection \(number) opened\n" + prefix
                    + #"{"token":"\#(hex(number))","reason":"Unregistered","time":\#(Self.when)}"#
                    + "\n"
            }.joined()
            let path = try stage.folder.write("syslog", text)
            try stage.run(["import", path, "--from", "jsonl"] + Self.map).ends(
                65, "nothing of it was taken", "sed 's/^[^{]*//' FILE | pushsweep import -")
        }
        let braces = "[{3}] {\"token\":\"\(hex(0))\",\"reason\":\"Unregistered\"}\n"
        let path = try stage.folder.write("braces", braces + "[{4}] opened\n")
        try stage.run(["import", path, "--from", "jsonl"] + Self.map).ends(
            65, "nothing of it was taken", #"grep -o '{".*' FILE | pushsweep import -"#)
        try Self.expectNothing(stage, "syslog")
    }

    @Test(
        "where text stands before the JSON in each line's field, the field and the cure are named")
    func textInField() throws {
        let stage = try Self.stage()
        let line =
            #"{"handle":"\#(hex(0))","err":"APNS: 410 - {\"reason\":\"Unregistered\",\"at\":1700000000123}"}"#
        let path = try stage.folder.write("push.log", "\(line)\n\(line)\n")
        try stage.run(
            "import", path, "--from", "jsonl", "--map",
            "token=.handle,reason=.err.reason,time=.err.at"
        ).ends(65, "cut the text in .err off with: jq -c", "beside the JSON object in .err")
        try Self.expectNothing(stage, "text in a field")
    }

    @Test("the text format of gorush inside of JSON leads to its setting")
    func gorush() throws {
        let stage = try Self.stage()
        let line =
            #"{"level":"error","msg":"| failed-push | ios [\#(hex(0))] | hi | Error Message: Unregistered"}"#
        let path = try stage.folder.write("gorush.log", "\(line)\n\(line)\n")
        try stage.run("import", path, "--from", "gorush").ends(65, "log.format: json")
        try Self.expectNothing(stage, "gorush")
    }

    @Test("JSON over several lines leads to the command whose lines are read")
    func pretty() throws {
        let stage = try Self.stage()
        let path = try stage.folder.write(
            "pretty.json",
            """
            {
              "events": [
                {"token": "\(hex(0))",
                 "reason": "Unregistered", "time": \(Self.when)}
              ]
            }
            """)
        try stage.run(["import", path, "--from", "jsonl"] + Self.map).ends(
            65, "write it so with: jq -c '.events[]'")
    }

    @Test("lines and rows of other platforms are passed over and counted, and end no run with 65")
    func platforms() throws {
        let stage = try Self.stage()
        func gorush(_ token: String, _ platform: String, _ error: String) -> String {
            let msg =
                #"{\"type\":\"failed-push\",\"platform\":\"\#(platform)\",\"token\":\"\#(token)\","#
                + #"\"error\":\"\#(error)\"}"#
            return #"{"level":"error","msg":"\#(msg)","time":"2023-11-14T22:13:20Z"}"# + "\n"
        }
        let path = try stage.folder.write(
            "gorush.log",
            gorush(hex(0), "ios", "Unregistered")
                + gorush("dX9:APA91bHun4MxP5egoKMwt2KZF", "android", "Unregistered")
                + gorush(hex(1), "huawei", "NotRegistered"))
        let result = try stage.json("import", path, "--from", "gorush").ends(0)
        let intake = try #require(result.json["intake"] as? [String: Any])
        #expect(intake["otherPlatform"] as? Int == 2 && intake["quarantined"] as? Int == 0)
        let marked = try stage.marked
        #expect(result.error.isEmpty && marked == 1)

        try stage.report("dX9:APA91bHun4MxP5egoKMwt2KZF")
        try stage.report("ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]", app: "android")
        try stage.report(hex(1))
        for words in [["sweep", "--dry-run"], ["sweep"]] {
            let swept = try stage.run(words + ["--format", "json"]).ends(0)
            let rows = try #require(swept.json["intake"] as? [String: Any])
            #expect(rows["otherPlatform"] as? Int == 2, "\(rows)")
        }
        #expect(try stage.marked == 2 && stage.waiting == 0)

        let csv = try stage.folder.write(
            "azure.csv", "token,os,time\n\(hex(2)),gcm,\(Self.when)\n\(hex(2)),gcm,\(Self.when)\n")
        let wrong = [
            "import", csv, "--from", "csv", "--map", "token=token,time=time,platform=os=apns",
        ]
        try stage.run(wrong).ends(0, "each line names another platform; check platform= in --map")
        #expect(try stage.marked == 2)
    }

    @Test("a file with tabs that is called CSV is read as mysql --batch writes it, or refused")
    func tabs() throws {
        let stage = try Self.stage()
        let map = ["--map", "token=token,reason=note,sent=at", "--time-unit", "iso"]
        func write(_ note: String) throws -> String {
            try stage.folder.write(
                "dead.tsv",
                "token\tnote\tat\n\(hex(0))\t\(note)\t2019-11-14 22:13:20\n"
                    + "\(hex(1))\t\(note)\t2023-11-14 22:13:20\n")
        }
        try stage.run(["import", write("\""), "--from", "csv"] + map).ends(
            65, "line 2, column 66", "nothing of the file was taken", "--from tsv")
        try Self.expectNothing(stage, "quotes")
        try stage.run(["import", write("Unregistered"), "--from", "csv"] + map).ends(
            0, "tabs separate its fields", "--from tsv")
        // The first registered after its answer.
        #expect(try stage.marked == 1)
    }

    @Test(
        "the failure of an import comes before the hold of another source, and its own hold before 0"
    )
    func holds() throws {
        let stage = try IntakeStage(.sqlite, floor: 1)
        try stage.database.register(0..<80, at: 1_600_000_000_000)
        let rows = { (range: Range<Int>) in
            "token,time\n" + range.map { "\(hex($0)),\(Self.when)\n" }.joined()
        }
        let command = { (path: String) in
            ["import", path, "--from", "csv", "--map", "token=token,time=time"]
        }
        let held = try stage.folder.write("held.csv", rows(0..<40))
        try stage.run(command(held)).ends(3)
        // What it brought is still held.
        try stage.run(command(held)).ends(3, "imported before")
        for (text, exit) in [
            ("token,time\n\(hex(0)),\"\n", 65), ("", 65), ("token;when\n1;2\n", 64),
            ("token,time\n", 0),
        ] as [(String, Int32)] {
            let path = try stage.folder.write("other.csv", text)
            try stage.run(command(path)).ends(exit, for: "\(text)")
        }
        try stage.run("sweep").ends(3)
    }
}
