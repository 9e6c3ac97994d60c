import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let old: Int64 = 1_600_000_000_000

@Suite("An import of a form that the program knows, or that the options miss")
struct ImportPresetTests {
    private static func lines(_ count: Int, _ time: String = "1700000000") -> String {
        (0..<count).map {
            #"{"device_token":"\#(hex($0))","status":410,"timestamp_ms":\#(time)}"# + "\n"
        }.joined()
    }

    /// Expects that an import of a text ends so, and that nothing of it is anywhere.
    private static func refused(
        _ text: String, _ options: [String], _ exit: Int32, _ words: String...,
        on engine: TestEngine = .sqlite
    ) throws {
        let stage = try IntakeStage(engine)
        try stage.database.register(0..<3, at: old)
        let path = try stage.folder.write("push.log", text)
        for more in [["--dry-run"], []] {
            let result = try stage.run(["import", path] + options + more)
            for word in words { result.ends(exit, word, "nothing of", for: "\(options)") }
            result.lacks(hex(0))
        }
        #expect(try stage.marked == 0)
        #expect(try stage.database.rows(of: "pushsweep_intake") == 0)
        #expect(try stage.run("quarantine", "list").output == "nothing is quarantined\n")
        let journal = stage.folder.file("state") + "/journal.sqlite"
        let connection = SQLiteConnection(
            path: journal, creates: false, StoreSettings(location: .sqlite(path: journal)))
        try connection.connect()
        #expect(try connection.query("SELECT COUNT(*) FROM feed").scalar?.count == 0)
    }

    @Test(
        "a hundred lines that fail for one reason stop the import, and the option is named",
        arguments: TestEngine.available)
    func hundred(_ engine: TestEngine) throws {
        try Self.refused(
            Self.lines(150), ["--from", "jsonl"], 64,
            "each of the first 100 lines that are not passed over fails for one reason, line 1: its time",
            "read it with --time-unit s", on: engine)
    }

    @Test(
        "lines that are passed over do not hide that the others fail for one reason",
        arguments: [1, 300])
    func passedOver(_ count: Int) throws {
        let others = Self.lines(300).replacing("410", with: "200")
        try Self.refused(
            others + Self.lines(300), ["--from", "jsonl"], 64,
            "each of the first 100 lines that are not passed over fails", "line 301: its time",
            "read it with --time-unit s")
        try Self.refused(
            others + Self.lines(count), ["--from", "jsonl"], 64, "read it with --time-unit s")
        // A CSV file has its line of names far in front of them.
        let rows = (0..<400).map { "\(hex($0)),\($0 < 300 ? 200 : 410),1700000000\n" }
        try Self.refused(
            "device_token,status,timestamp_ms\n" + rows.joined(), ["--from", "csv"], 64,
            "line 302: its time", "read it with --time-unit s")
    }

    @Test("behind a hundred bad lines that no option reads the good ones count")
    func behind() throws {
        for bad in [String(repeating: "torn\n", count: 100), Self.lines(100, "null")] {
            let stage = try IntakeStage(.sqlite)
            try stage.database.register(0..<2, at: old)
            let path = try stage.folder.write("push.log", bad + Self.lines(2, "1700000000000"))
            try stage.run("import", path, "--from", "jsonl").ends(65, "100 quarantined")
            #expect(try stage.marked == 2)
        }
    }

    @Test("where no other option reads the lines, the one to look at is named")
    func unmended() throws {
        let stage = try IntakeStage(.sqlite)
        let path = try stage.folder.write("push.log", Self.lines(120, "null"))
        try stage.run("import", path, "--from", "jsonl").ends(
            65, "120 quarantined", "each line fails for one reason, line 1: it has no time",
            "check time= and sent= in --map")
        try Self.refused(
            String(repeating: "no JSON\n", count: 120), ["--from", "jsonl"], 65,
            "it is not one JSON value", "check --from")
        let dated = Self.lines(120).replacing("{\"dev", with: "2023-11-14T22:13:20Z {\"dev")
        try Self.refused(
            dated, ["--from", "jsonl", "--time-unit", "s"], 65,
            "text stands before its JSON object",
            "sed 's/^[^{]*//' FILE | pushsweep import - --from jsonl --time-unit s")
    }

    @Test("a short file stops too where an option reads it, else its bad lines go to quarantine")
    func short() throws {
        try Self.refused(
            Self.lines(2), ["--from", "jsonl"], 64, "each line fails for one reason",
            "read it with --time-unit s")
        try Self.refused(
            "token;dead\n\(hex(0));2023-11-14T22:13:20,123Z\n",
            ["--from", "csv", "--map", "token=token,time=dead"], 64,
            "read it with --time-unit iso")
        let stage = try IntakeStage(.sqlite)
        let path = try stage.folder.write("push.log", Self.lines(2, "null"))
        try stage.run("import", path, "--from", "jsonl").ends(65, "2 quarantined")
    }

    @Test("a log that is read for another one says which it is, in place of success with nothing")
    func another() throws {
        let sns =
            #"{"delivery":{"token":"\#(hex(0))","statusCode":410,"providerResponse":"#
            + #""{\"reason\":\"Unregistered\",\"timestamp\":1700000000123}"}}"# + "\n"
        try Self.refused(
            sns, ["--from", "jsonl"], 64, "none of 1 line says that a token is dead",
            "read it with --from sns")
        try Self.refused(
            sns, ["--from", "csv"], 64, "nothing of the file was taken; read it with --from sns")
        let stage = try IntakeStage(.sqlite)
        let path = try stage.folder.write(
            "rpush.tsv",
            "device_token\terror_code\terror_description\tcreated_at\n"
                + "\(hex(0))\t410\tUnregistered\t2023-11-14 22:13:20\n")
        try stage.run("import", path, "--from", "csv", "--map", "token=token").ends(
            64, "names no column token", "; read it with --from rpush, without --map"
        ).lacks("check --map")
        try Self.refused(sns, ["--from", "gorush"], 64, "read it with --from sns")
        try Self.refused(
            Self.lines(1, "1700000000000"), ["--from", "gorush"], 64, "read it with --from jsonl")
    }

    @Test("two lines without the form of a preset are refused as a whole")
    func forms() throws {
        try Self.refused(
            "root:x:0\nmail:x:8\n", ["--from", "sns"], 65, "each line fails for one reason")
    }

    @Test("one line in a hundred that is right, or fails otherwise, keeps the import going")
    func mixed() throws {
        for (odd, exit) in [
            (Self.lines(1, "1700000000000"), Int32(65)), (Self.lines(1, "null"), 65),
        ] {
            let stage = try IntakeStage(.sqlite)
            try stage.database.register(0..<1, at: old)
            let path = try stage.folder.write("push.log", Self.lines(99) + odd + Self.lines(50))
            try stage.run("import", path, "--from", "jsonl").ends(exit, "quarantined")
        }
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
        try stage.run("import", path, "--from", "csv", "--map", map, "--time-unit", "iso").ends(
            0, "imported before")
    }

    @Test("what a sweep quarantined comes back by the preset of its export")
    func quarantine() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: old)
        try stage.report(hex(0), app: "caht")
        try stage.run("sweep").ends(65)
        let feeds = try stage.json("quarantine", "list").json["feeds"] as? [[String: Any]]
        let feed = try #require(feeds?.first?["feed"] as? String)
        let rows = stage.folder.file("rows.jsonl")
        try stage.run("quarantine", "export", feed, rows).ends(0)
        try stage.run("import", rows, "--from", "quarantine", "--app", "chat").ends(0)
        #expect(try stage.marked == 1)
    }

    @Test("an unknown name lists the known ones, and a known sender's log has its own fields")
    func usage() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.run("import", "/dev/null", "--from", "onesignal").ends(
            64, "gorush", "sns", "rpush", "quarantine")
        try stage.run("import", "/dev/null").ends(64, "--from <jsonl|csv|feedback|gorush|sns|rpush")
        try stage.run("import", "/dev/null", "--from", "sns", "--map", "token=.a").ends(
            64, "--from sns has a map of its own")
    }
}
