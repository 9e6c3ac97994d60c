import APNsProtocol
import Foundation
import Glibc
import Logging
import Operations
import SecureTransport
import Settings
import Synchronization
import TestSupport
import Testing

@Suite("The command after a run")
struct AfterRunTests {
    /// A stage whose settings name a script; the script may use `$out`, a file.
    private static func stage(
        _ script: String, timeout: String = "10s", dead count: Int = 3
    ) throws -> SweepStage {
        let stage = try SweepStage(.sqlite, dead: count)
        try name(script, timeout, in: stage)
        return stage
    }

    private static func name(_ script: String, _ timeout: String, in stage: SweepStage) throws {
        let path = try stage.folder.write(
            "hook", "out=\(stage.folder.file("out"))\n\(script)\n")
        stage.lines.limits =
            "\(SweepStage.anyNumber)\nhooks: {after-run: sh \(path), timeout: \(timeout)}"
    }

    private static func out(_ stage: SweepStage) -> String? {
        try? String(contentsOfFile: stage.folder.file("out"), encoding: .utf8)
    }

    /// Lines of stderr that are about the command.
    private static func warnings(_ result: ToolResult) -> [Substring] {
        result.error.split(separator: "\n").filter { $0.contains("hooks.after-run") }
    }

    @Test("the command gets the report and the facts of the run, and no password")
    func facts() throws {
        let stage = try Self.stage(
            """
            { echo "$PUSHSWEEP_KIND $PUSHSWEEP_EXIT $PUSHSWEEP_RUN"; cat; env; ls /proc/self/fd
            } > $out
            echo noise
            """)
        let result = try stage.start(
            ["sweep", "--format", "json"], environment: ["PUSHSWEEP_STORE_PASSWORD": "hunter2"]
        ).wait()
        #expect(result.exit == 0 && result.error.isEmpty, "\(result.error)")
        let out = try #require(Self.out(stage))
        let lines = out.split(separator: "\n").map(String.init)
        #expect(lines[0] == "sweep 0 \(result.json["run"] as? String ?? "")")
        #expect(lines[1] + "\n" == result.output)
        #expect(!out.contains("hunter2") && !out.contains("PASSWORD"))
        // ls has its streams and the folder it reads.
        #expect(
            lines.suffix(5).dropFirst().elementsEqual(["0", "1", "2", "3"])
                && Int(lines.suffix(5)[lines.count - 5]) == nil, "\(lines.suffix(6))")
    }

    @Test("each kind of run runs it, and a dry run does not")
    func kinds() throws {
        let stage = try Self.stage("echo $PUSHSWEEP_KIND $PUSHSWEEP_EXIT >> $out")
        let swept = try stage.sweep()
        let run = try #require(swept.json["run"] as? String)
        let feed = try stage.folder.write(
            "feed", FeedbackTuple.bytes([.dead(0, at: 1_700_000_000)]))
        #expect(try stage.run("undo", run).exit == 0)
        #expect(try stage.run("replay", feed).exit == 0)
        #expect(try stage.run("purge").exit == 0)
        for words in [["sweep"], ["undo", run], ["replay", feed], ["purge"]] {
            #expect(try stage.start(words + ["--dry-run"]).wait().exit == 0)
        }
        #expect(Self.out(stage) == "sweep 0\nundo 0\nreplay 0\npurge 0\n")
    }

    @Test("a run that fails runs it too, and the closing line stays the last")
    func failure() throws {
        let stage = try Self.stage("cat > $out; echo $PUSHSWEEP_EXIT >> $out; echo odd >&2; exit 5")
        try stage.database.execute("DROP TABLE active_users")
        for words in [["sweep"], ["purge"]] {
            let result = try stage.start(words).wait()
            #expect(result.exit == 78)
            #expect(result.closingLine.hasPrefix("code=78 "))
            let out = try #require(Self.out(stage))
            #expect(out.contains("problems") && out.hasSuffix("}\n78\n"), "\(out)")
            #expect(Self.warnings(result).count == 1)
        }
    }

    @Test("a command that fails is one warning with its last line, and changes no exit code")
    func fault() throws {
        let stage = try Self.stage("cat; echo first >&2; printf 'last\\033[0m' >&2; exit 3")
        let result = try stage.sweep()
        #expect(result.exit == 0 && result.json["exit"] as? Int == 0)
        #expect(result.output.split(separator: "\n").count == 1)
        let lines = result.error.split(separator: "\n")
        #expect(lines.count == 1, "\(lines)")
        #expect(lines[0].contains("it ended with 3: last\\u{1B}[0m; "), "\(lines)")
        stage.lines.limits = "hooks: {after-run: kill -9 $$}"
        #expect(try stage.sweep().error.contains("it was ended by signal 9; "))
    }

    @Test("a command that takes too long is killed with all that it started")
    func slow() throws {
        let stage = try Self.stage(
            "sleep 600 & echo $! > $out; yes >&2 & echo $! >> $out; trap '' TERM; wait",
            timeout: "300ms")
        let result = try stage.sweep()
        #expect(result.exit == 0)
        #expect(Self.warnings(result).count == 1)
        #expect(result.error.contains("hooks.timeout and was killed"), "\(result.error)")
        let started = (Self.out(stage) ?? "").split(separator: "\n").compactMap { Int32($0) }
        #expect(started.count == 2)
        for process in started { #expect(Self.isGone(process)) }
    }

    /// Whether a process ends soon; a zombie that nobody reaps has ended.
    private static func isGone(_ process: Int32) -> Bool {
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline {
            let stat = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
            guard let stat else { return true }
            if stat.split(separator: ")").last?.hasPrefix(" Z") == true { return true }
        }
        return false
    }

    @Test("a child in the background that keeps the streams does not hold the run up")
    func background() throws {
        let stage = try Self.stage("sleep 600 & echo $! > $out", timeout: "1h")
        let began = ContinuousClock.now
        let result = try stage.sweep()
        #expect(result.exit == 0 && result.error.isEmpty, "\(result.error)")
        #expect(ContinuousClock.now - began < .seconds(300))
        let child = try #require(Int32((Self.out(stage) ?? "").dropLast()))
        #expect(kill(child, SIGKILL) == 0)
    }

    @Test(
        "a report larger than a pipe harms nobody, however much of it the command reads",
        arguments: ["true", "head -c 1 > $out", "exec <&-", "cat | wc -c > $out"])
    func large(_ script: String) throws {
        let stage = try Self.stage(script)
        let settings = try Settings.load(configFile: stage.settings(), environment: [:])
        let hook = try #require(AfterRun(settings, environment: ["PATH": "/usr/bin:/bin"]))
        let lines = LogLines()
        let context = RunContext(
            interrupt: try Interrupt(), log: Logger(label: "test") { _ in lines })
        var report = SweepReport(
            run: "r", kind: "sweep", dryRun: false, started: EpochMilliseconds(0))
        report.reason = String(repeating: "x", count: 1 << 20)
        hook.inform(RunOutcome(report: report), context)
        #expect(lines.all.isEmpty, "\(lines.all)")
        if script.contains("wc") {
            let size = Self.out(stage)?.trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(size == "\(report.documentLine.utf8.count + 1)")
        }
    }

    @Test("a command may start pushsweep: locks and lease are free, and it does not start itself")
    func nested() throws {
        let stage = try Self.stage("")
        let program = RunningTool.folderOfTests.appendingPathComponent("pushsweep").path
        try Self.name(
            """
            echo $PUSHSWEEP_RUN >> $out.runs
            \(program) sweep --format json --config \(stage.folder.file("pushsweep.yaml")) > $out
            """, "60s", in: stage)
        let result = try stage.sweep()
        #expect(result.exit == 0 && result.error.isEmpty, "\(result.error)")
        #expect((Self.out(stage) ?? "").contains("\"exit\":0"))
        let runs = try String(contentsOfFile: stage.folder.file("out.runs"), encoding: .utf8)
        #expect(runs == "\(result.json["run"] as? String ?? "")\n")
    }

    @Test("a sender that is told to stop runs it, and keeps its exit code")
    func sender() throws {
        let stage = try SendStage()
        let path = try stage.folder.write(
            "hook", "echo $PUSHSWEEP_KIND $PUSHSWEEP_EXIT > \(stage.folder.file("out"))\nsleep 600")
        stage.lines = "hooks: {after-run: sh \(path), timeout: 1h}"
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        try stage.queue(1...1)
        let sender = try stage.start(["send", "--follow", "--verbose"])
        let deadline = ContinuousClock.now + .seconds(60)
        while try stage.states()["sent"] != 1, ContinuousClock.now < deadline {}
        sender.signal(SIGTERM)
        let result = sender.wait()
        // 75 where the signal came in the middle of a claim.
        #expect([0, 75].contains(result.exit), "\(result.error)")
        #expect(result.error.contains("told to stop, so the command was killed"))
        let out = try String(contentsOfFile: stage.folder.file("out"), encoding: .utf8)
        #expect(out == "send \(result.exit)\n")
    }
}

/// A log that keeps its messages.
private final class LogLines: LogHandler, Sendable {
    private let messages = Mutex<[String]>([])
    var all: [String] { messages.withLock { $0 } }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .debug }
        set {}
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) { messages.withLock { $0.append("\(event.message)") } }
}
