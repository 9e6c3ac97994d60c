import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("Importing the log of another sender")
struct ImportTests {
    @Test(
        "an import marks the dead, counts the rest, and names bad lines by number",
        arguments: TestEngine.available)
    func jsonLines(_ engine: TestEngine) throws {
        let stage = try IntakeStage(engine)
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        let log = """
            {"device":"\(hex(0))","timestamp":1700000000000,"status":410,"reason":"Unregistered"}
            {"level":"info"}
            {"device":"\(hex(1))","status":400,"reason":"BadDeviceToken"}
            {"device":"zz","timestamp":1700000000000,"status":410}
            {"device":"\(hex(2))","status":200}

            """
        let path = try stage.folder.write("push.log", log)
        let map = "token=.device,time=.timestamp,status=.status,reason=.reason"
        let result = try stage.run("import", path, "--from", "jsonl", "--map", map).ends(65)
        #expect(try stage.marked == 1)
        result.says(
            "reports of other senders: 5, of which 1 call a token dead, 1 suspect one, 2 say "
                + "nothing about one, 1 quarantined")
        let list = try stage.json("quarantine", "list")
        #expect(list.output.contains(path) && list.output.contains("line 4"))
        let listed = try stage.run("quarantine", "list")
            .says("1 the token is not hex", "first: line 4")
        #expect(!listed.output.contains("parts:"))
        let name = String(listed.output.prefix(8))
        try stage.run("quarantine", "list", name).ends(0, "parts:", "  line 4, ", ": the token is")
        try stage.run("quarantine", "list", "nothing").ends(64, "nothing of this name")

        // The same content under another name, compressed, changes nothing, also after an undo.
        try stage.run("undo", "--since", "2000-01-01T00:00:00Z").ends(0)
        let copy = try stage.folder.write("copy.log", log)
        let gzip = Process()
        gzip.executableURL = URL(fileURLWithPath: "/bin/gzip")
        gzip.arguments = [copy]
        try gzip.run()
        gzip.waitUntilExit()
        try stage.run("import", copy + ".gz", "--from", "jsonl", "--map", map).ends(
            0, "imported before")
        #expect(try stage.marked == 0)
        try stage.run("import", path, "--from", "jsonl", "--map", map, "--again").ends(65)
        #expect(try stage.marked == 1)
    }

    @Test("a line that is longer than 1 MiB waits in the quarantine, and the others count")
    func longLine() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        let long = String(repeating: "x", count: 1 << 20 + 1)
        let path = try stage.folder.write(
            "push.log",
            "\(long)\n{\"device_token\":\"\(hex(0))\",\"status\":410,\"timestamp_ms\":1700000000000}\n"
        )
        try stage.run("import", path, "--from", "jsonl").ends(
            65,
            "2, of which 1 call a token dead, 0 suspect one, 0 say nothing about one, 1 quarantined"
        )
        #expect(try stage.marked == 1)
        try stage.run("quarantine", "list").says("it is longer than 1 MiB, first: line 1")
    }

    @Test("no message contains a whole token, also where one is in the wrong place")
    func noTokens() throws {
        let stage = try IntakeStage(.sqlite)
        let list = try stage.folder.write("dead.csv", "\(hex(0)),1\n\(hex(1)),2\n")
        let headless = try stage.run("import", list, "--from", "csv", "--map", "token=token")
            .ends(64)
        #expect(!headless.error.contains(hex(0)), "\(headless.error)")
        try stage.report("chat", app: hex(2))
        try stage.database.execute(
            "UPDATE pushsweep_evidence SET created_at = '2026-01-01 00:00:00'")
        try stage.report(hex(3) + "\n\n")
        let swept = try stage.json("sweep").ends(65)
        // A row is one line of the quarantine, whatever it contains.
        #expect((swept.json["intake"] as? [String: Any])?["quarantined"] as? Int == 2)
        let listed = try stage.run("quarantine", "list").says("the settings name no app")
        #expect(!listed.output.contains(hex(2)) && !swept.output.contains(hex(2)))
    }

    @Test("a mapping that fits no line, or means nothing, is named")
    func wrongMapping() throws {
        let stage = try IntakeStage(.sqlite)
        let path = try stage.folder.write("push.log", "{\"device\":\"c9d4\"}\n")
        try stage.run("import", path, "--from", "jsonl").ends(
            0, "none of 1 line says that a token is dead; check --from and --map")
        try stage.run("import", path, "--from", "jsonl", "--map", "tokn=.device").ends(
            64, "'tokn=.device' is not FIELD=PATH")
    }

    @Test("a dry run of an import says what would change and keeps nothing")
    func dryRun() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        let path = try stage.folder.write("dead.csv", "token,when\n\(hex(0)),2023-11-14\n")
        let arguments = [
            "import", path, "--from", "csv", "--map", "token=token,time=when", "--time-unit",
            "iso",
        ]
        try stage.run(arguments + ["--dry-run"]).ends(0, "1 would become invalid")
        #expect(try stage.marked == 0)
        try stage.run(arguments).ends(0)
        #expect(try stage.marked == 1)
    }

    @Test("an import reads the bytes of a feedback list too, as a replay does")
    func feedback() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<2, at: 1_600_000_000_000)
        let bytes = FeedbackTuple.bytes([.dead(0, at: 1_700_000_000)])
        let file = try stage.folder.write("feed", bytes)
        try stage.run("import", file, "--from", "feedback", "--format", "json").ends(0)
        #expect(try stage.marked == 1)
        try stage.run("import", file, "--from", "feedback").ends(0)
        #expect(try stage.sum("applied") == 1)
        try stage.run("import", file, "--from", "feedback", "--map", "token=.device").ends(
            64, "are for jsonl, csv and tsv")
    }

    @Test(
        "a CSV file with one mistake is refused with its place, and nothing of it is remembered",
        arguments: [
            ("\(hex(0)),\(Self.time)\n\(hex(1)),\"x\"y\n", 65, "line 3, column"),
            ("\(hex(0)),\(Self.time)\n\(hex(1))\n", 65, "line 3, column 1: this row has 1 fields"),
            ("\(hex(0)),zz\n\(hex(1)),\"\(Self.time)\n", 65, "this quote is not closed"),
        ])
    func wholeOrNotAtAll(_ rows: String, _ exit: Int32, _ words: String) throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<2, at: 1_600_000_000_000)
        let words = [words, "nothing of the file was taken"]
        let path = try stage.folder.write("dead.csv", "token,time\n" + rows)
        let command = ["import", path, "--from", "csv", "--map", "token=token,time=time"]
        for _ in 0..<2 {
            let result = try stage.run(command).ends(exit)
            #expect(words.allSatisfy(result.error.contains), "\(result.error)")
        }
        #expect(try stage.marked == 0)
        #expect(try stage.database.rows(of: "pushsweep_intake") == 0)
        #expect(try stage.run("quarantine", "list").output == "nothing is quarantined\n")
        #expect(try stage.feeds() == 0)
        // The corrected file is taken, and one bad value in it spoils its own row alone.
        try Data("token,time\n\(hex(0)),zz\n\(hex(1)),\(Self.time)\n".utf8)
            .write(to: URL(fileURLWithPath: path))
        try stage.run(command).ends(65)
        #expect(try stage.marked == 1)
    }

    @Test(
        "an import that waits for its input keeps nobody from work, and a stop signal ends it at once",
        arguments: ["jsonl", "csv", "feedback"])
    func waits(_ format: String) throws {
        let stage = try IntakeStage(.sqlite)
        let pipe = stage.folder.file("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        let map = format == "feedback" ? [] : ["--map", "token=token,time=time"]
        let waiting = try stage.start(["import", pipe, "--from", format] + map)
        let writer = try #require(FileHandle(forWritingAtPath: pipe))
        try writer.write(contentsOf: Data("token,time\n".utf8))
        // It reads once it has its file; before that it looks at the lock for a moment.
        func isReading() -> Bool {
            let names = try? FileManager.default.contentsOfDirectory(
                atPath: stage.folder.file("state"))
            return names?.contains { $0.hasPrefix("pipe-") } ?? false
        }
        eventually(seconds: 60, isReading)
        try stage.run("sweep").ends(0)
        waiting.signal(SIGTERM)
        let result = waiting.wait()
        try writer.close()
        result.ends(75, "told to stop while reading; nothing of it counts").lacks("in the journal")
        #expect(try stage.feeds() == 0)
    }

    @Test(
        "a stop signal ends the reading of gzip that expands to empty lines at once",
        arguments: ["jsonl", "csv"])
    func stopsExpansion(_ format: String) throws {
        let stage = try IntakeStage(.sqlite)
        let path = stage.folder.file("blank.gz")
        // Less than one piece of the file, and minutes of reading: many members of one content.
        let made = try RunningTool(
            program: URL(fileURLWithPath: "/bin/sh"),
            [
                "-c",
                "head -c 9000000 /dev/zero | tr '\\0' '\\n' | gzip -9 > \"$0.one\"; "
                    + "for i in $(seq 100); do cat \"$0.one\"; done > \"$0\"", path,
            ]
        ).wait()
        #expect(made.exit == 0, "\(made.error)")
        let run = try stage.start(["import", path, "--from", format])
        eventually { Self.isRead(path, by: run.pid) }
        run.signal(SIGTERM)
        run.wait().ends(75, "told to stop while reading")
    }

    /// Whether a process has read from a file.
    private static func isRead(_ path: String, by pid: Int32) -> Bool {
        let files = FileManager.default
        let names = (try? files.contentsOfDirectory(atPath: "/proc/\(pid)/fd")) ?? []
        return names.contains { name in
            guard
                (try? files.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(name)")) == path
            else { return false }
            let facts = try? String(
                contentsOfFile: "/proc/\(pid)/fdinfo/\(name)", encoding: .utf8)
            return facts?.contains("pos:\t0\n") == false
        }
    }

    @Test("a content that a person discarded is called discarded when it is imported again")
    func discarded() throws {
        let stage = try IntakeStage(.sqlite, floor: 1)
        try stage.database.register(0..<40, at: 1_600_000_000_000)
        let rows = (0..<40).map { "\(hex($0)),\(Self.time)\n" }.joined()
        let path = try stage.folder.write("dead.csv", "token,time\n" + rows)
        let command = ["import", path, "--from", "csv", "--map", "token=token,time=time"]
        try stage.run(command).ends(3)
        let holds = try stage.json("holds", "list").json["holds"]
        let hold = try #require((holds as? [[String: Any]])?.first?["hold"] as? String)
        try stage.run("holds", "discard", hold, "--reason", "a mistake").ends(0)
        let again = try stage.run(command + ["--format", "json"]).ends(0)
        let intake = try #require(again.json["intake"] as? [String: Any])
        #expect(intake["known"] as? Bool == true && intake["discarded"] as? Bool == true)
        try stage.run(command).says("imported before and discarded")
    }

    private static let time = 1_700_000_000_123
}

extension IntakeStage {
    /// Number of lists in the state folder.
    fileprivate func feeds() throws -> Int { try lists().count }
}
