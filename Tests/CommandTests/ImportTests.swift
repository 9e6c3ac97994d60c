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
        let result = try stage.run(
            "import", path, "--format", "jsonl", "--map", map)
        #expect(result.exit == 65, "\(result.error)")
        #expect(try stage.marked == 1)
        #expect(
            result.output.contains(
                "reports of other senders: 5, of which 1 call a token dead, 1 suspect one, 2 say "
                    + "nothing about one, 1 quarantined"), "\(result.output)")
        let list = try stage.run("quarantine", "list", "--format", "json")
        #expect(list.output.contains(path) && list.output.contains("line 4: the token is not hex"))

        // The same content under another name, compressed, changes nothing, also after an undo.
        #expect(try stage.run("undo", "--since", "2000-01-01T00:00:00Z").exit == 0)
        let copy = try stage.folder.write("copy.log", log)
        let gzip = Process()
        gzip.executableURL = URL(fileURLWithPath: "/bin/gzip")
        gzip.arguments = [copy]
        try gzip.run()
        gzip.waitUntilExit()
        let second = try stage.run("import", copy + ".gz", "--format", "jsonl", "--map", map)
        #expect(second.exit == 0, "\(second.error)")
        #expect(second.output.contains("imported before"), "\(second.output)")
        #expect(try stage.marked == 0)
        let again = try stage.run(
            "import", path, "--format", "jsonl", "--map", map, "--again")
        #expect(again.exit == 65)
        #expect(try stage.marked == 1)
    }

    @Test("no message contains a whole token, also where one is in the wrong place")
    func noTokens() throws {
        let stage = try IntakeStage(.sqlite)
        let list = try stage.folder.write("dead.csv", "\(hex(0)),1\n\(hex(1)),2\n")
        let headless = try stage.run("import", list, "--format", "csv", "--map", "token=token")
        #expect(headless.exit == 64)
        #expect(!headless.error.contains(hex(0)), "\(headless.error)")
        try stage.report("chat", app: hex(2))
        try stage.report(hex(3) + "\n\n")
        let swept = try stage.run("sweep", "--format", "json")
        #expect(swept.exit == 65)
        // A row is one line of the quarantine, whatever it contains.
        #expect(swept.app()["quarantined"] as? Int == 2, "\(swept.output)")
        let listed = try stage.run("quarantine", "list")
        #expect(listed.output.contains("the settings name no app"))
        #expect(!listed.output.contains(hex(2)) && !swept.output.contains(hex(2)))
    }

    @Test("a mapping that fits no line, or means nothing, is named")
    func wrongMapping() throws {
        let stage = try IntakeStage(.sqlite)
        let path = try stage.folder.write("push.log", "{\"device\":\"c9d4\"}\n")
        let none = try stage.run("import", path, "--format", "jsonl")
        #expect(none.exit == 0)
        #expect(none.error.contains("none of 1 line says that a token is dead; check --map"))
        let bad = try stage.run("import", path, "--format", "jsonl", "--map", "tokn=.device")
        #expect(bad.exit == 64)
        #expect(bad.error.contains("'tokn=.device' is not FIELD=PATH"), "\(bad.error)")
    }

    @Test("a dry run of an import says what would change and keeps nothing")
    func dryRun() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        let path = try stage.folder.write("dead.csv", "token,when\n\(hex(0)),2023-11-14\n")
        let arguments = [
            "import", path, "--format", "csv", "--map", "token=token,time=when", "--time-unit",
            "iso",
        ]
        let trial = try stage.start(arguments + ["--dry-run"]).wait()
        #expect(trial.exit == 0, "\(trial.error)")
        #expect(trial.output.contains("1 would become invalid"), "\(trial.output)")
        #expect(try stage.marked == 0)
        #expect(try stage.start(arguments).wait().exit == 0)
        #expect(try stage.marked == 1)
    }

    @Test("an import reads the bytes of a feedback list too, as a replay does")
    func feedback() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<2, at: 1_600_000_000_000)
        let bytes = FeedbackTuple.bytes([.dead(0, at: 1_700_000_000)])
        let file = try stage.folder.write("feed", bytes)
        let imported = try stage.run("import", file, "--format", "feedback", "--report", "json")
        #expect(imported.exit == 0, "\(imported.error)")
        #expect(try stage.marked == 1)
        #expect(try stage.run("import", file, "--format", "feedback").exit == 0)
        #expect(try stage.sum("applied") == 1)
        let refused = try stage.run(
            "import", file, "--format", "feedback", "--map", "token=.device")
        #expect(refused.exit == 64 && refused.error.contains("are for jsonl and csv"))
    }

    @Test(
        "an import of what cannot be read ends with 64 and says what to do",
        arguments: [
            (["/nowhere/log"], "no such file"), (["/tmp"], "it is a directory"),
        ])
    func unreadable(_ words: [String], _ cause: String) throws {
        let stage = try IntakeStage(.sqlite)
        let result = try stage.start(["import"] + words + ["--format", "jsonl"]).wait()
        #expect(result.exit == 64)
        #expect(result.error.contains(cause), "\(result.error)")
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
        let command = ["import", path, "--format", "csv", "--map", "token=token,time=time"]
        for _ in 0..<2 {
            let result = try stage.start(command).wait()
            #expect(result.exit == exit, "\(result.error)")
            #expect(words.allSatisfy(result.error.contains), "\(result.error)")
        }
        #expect(try stage.marked == 0)
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_intake") == 0)
        #expect(try stage.run("quarantine", "list").output == "nothing is quarantined\n")
        #expect(try stage.feeds() == 0)
        // The corrected file is taken, and one bad value in it spoils its own row alone.
        try Data("token,time\n\(hex(0)),zz\n\(hex(1)),\(Self.time)\n".utf8)
            .write(to: URL(fileURLWithPath: path))
        #expect(try stage.start(command).wait().exit == 65)
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
        let waiting = try stage.start(["import", pipe, "--format", format] + map)
        let writer = try #require(FileHandle(forWritingAtPath: pipe))
        try writer.write(contentsOf: Data("token,time\n".utf8))
        // It reads once it has its file; before that it looks at the lock for a moment.
        let deadline = ContinuousClock.now + .seconds(60)
        func isReading() -> Bool {
            let names = try? FileManager.default.contentsOfDirectory(
                atPath: stage.folder.file("state-one"))
            return names?.contains { $0.hasPrefix("pipe-") } ?? false
        }
        while !isReading(), ContinuousClock.now < deadline { sched_yield() }
        #expect(try stage.run("sweep").exit == 0)
        waiting.signal(SIGTERM)
        let result = waiting.wait()
        try writer.close()
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.error.contains("told to stop while reading; nothing of it counts"))
        #expect(!result.error.contains("in the journal"))
        #expect(try stage.feeds() == 0)
    }

    @Test(
        "a stop signal ends the reading of gzip that expands to empty lines at once",
        arguments: ["jsonl", "csv"])
    func stopsExpansion(_ format: String) throws {
        let stage = try IntakeStage(.sqlite)
        let path = stage.folder.file("blank.gz")
        let gzip = Process()
        gzip.executableURL = URL(fileURLWithPath: "/bin/sh")
        // Less than one piece of the file, and minutes of reading.
        gzip.arguments = [
            "-c", "head -c 900000000 /dev/zero | tr '\\0' '\\n' | gzip -9 > \"$0\"", path,
        ]
        try gzip.run()
        gzip.waitUntilExit()
        let run = try stage.start(["import", path, "--format", format])
        let deadline = ContinuousClock.now + .seconds(20)
        while !Self.isRead(path, by: run.pid), ContinuousClock.now < deadline { sched_yield() }
        run.signal(SIGTERM)
        let result = run.wait()
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.error.contains("told to stop while reading"), "\(result.error)")
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
        let command = ["import", path, "--format", "csv", "--map", "token=token,time=time"]
        #expect(try stage.start(command).wait().exit == 3)
        let holds = try stage.run("holds", "list", "--format", "json").json["holds"]
        let hold = try #require((holds as? [[String: Any]])?.first?["hold"] as? String)
        #expect(try stage.run("holds", "discard", hold, "--reason", "a mistake").exit == 0)
        let again = try stage.start(command + ["--report", "json"]).wait()
        #expect(again.exit == 0, "\(again.error)")
        let intake = try #require(again.json["intake"] as? [String: Any])
        #expect(intake["known"] as? Bool == true && intake["discarded"] as? Bool == true)
        let told = try stage.start(command).wait()
        #expect(told.output.contains("imported before and discarded"), "\(told.output)")
    }

    private static let time = 1_700_000_000_123
}

extension IntakeStage {
    /// Number of feeds in the journal.
    fileprivate func feeds() throws -> Int {
        let path = folder.file("state-one") + "/journal.sqlite"
        let journal = SQLiteConnection(
            path: path, creates: false, StoreSettings(location: .sqlite(path: path)))
        try journal.connect()
        return try journal.query("SELECT COUNT(*) FROM feed").scalar?.count ?? 0
    }
}
