import APNsProtocol
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("The command of hooks.after-run")
struct AfterRunCommandTests {
    /// Names a script in the settings; the script may use `$out`, a file.
    private static func name(_ script: String, in stage: SweepStage) throws {
        let path = try stage.folder.write("hook", "out=\(stage.folder.file("out"))\n\(script)\n")
        stage.lines.limits =
            "\(SweepStage.anyNumber)\nhooks: {after-run: sh \(path), timeout: 60s}"
    }

    private static func out(_ stage: SweepStage) throws -> String {
        try String(contentsOfFile: stage.folder.file("out"), encoding: .utf8)
    }

    @Test("the command gets the report and the facts of the run, and no password")
    func facts() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try Self.name(
            """
            { echo "$PUSHSWEEP_KIND $PUSHSWEEP_EXIT $PUSHSWEEP_RUN"; cat; env; ls /proc/self/fd
            } > $out
            echo noise
            """, in: stage)
        let result = try stage.json("sweep", environment: ["PUSHSWEEP_STORE_PASSWORD": "hunter2"])
            .ends(0)
        #expect(result.error.isEmpty, "\(result.error)")
        let out = try Self.out(stage)
        let lines = out.split(separator: "\n").map(String.init)
        #expect(lines[0] == "sweep 0 \(result.json["run"] as? String ?? "")")
        #expect(lines[1] + "\n" == result.output)
        #expect(!out.contains("hunter2") && !out.contains("PASSWORD"))
        // ls has its streams and the folder it reads.
        #expect(
            lines.suffix(5).dropFirst().elementsEqual(["0", "1", "2", "3"])
                && Int(lines.suffix(5)[lines.count - 5]) == nil, "\(lines.suffix(6))")
    }

    @Test("each kind of run runs it, a failed one too, and a dry run or an idle look does not")
    func kinds() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try Self.name(
            "echo $PUSHSWEEP_KIND $PUSHSWEEP_EXIT >> $out; echo odd >&2; exit 5", in: stage)
        stage.lines.certificate += "\n    provider: {host: 127.0.0.1, port: 1}"
        let swept = try stage.sweep().ends(0)
        #expect(swept.error.split(separator: "\n").count == 1, "\(swept.error)")
        let run = try #require(swept.json["run"] as? String)
        let feed = try stage.folder.write(
            "feed", FeedbackTuple.bytes([.dead(0, at: 1_700_000_000)]))
        for words in [["undo", run], ["replay", feed], ["purge"]] {
            try stage.run(words).ends(0, "hooks.after-run", for: "\(words)")
        }
        for words in [["sweep"], ["undo", run], ["replay", feed], ["purge"]] {
            try stage.run(words + ["--dry-run"]).ends(0, for: "\(words)")
        }
        _ = try stage.run("preflight")
        #expect(try Self.out(stage) == "sweep 0\nundo 0\nreplay 0\npurge 0\n")
        // Preflight applies what waits.
        try stage.database.report(hexToken(1))
        _ = try stage.run("preflight")
        try stage.database.execute("DROP TABLE active_users")
        for words in ["sweep", "purge"] {
            let result = try stage.run(words).ends(78)
            #expect(result.closingLine.hasPrefix("code=78 "))
        }
        #expect(try Self.out(stage).hasSuffix("purge 0\npreflight 0\nsweep 78\npurge 78\n"))
    }

    @Test("a command may start pushsweep: locks and lease are free, and it does not start itself")
    func nested() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let program = RunningTool.folderOfTests.appendingPathComponent("pushsweep").path
        try Self.name(
            """
            echo $PUSHSWEEP_RUN >> $out.runs
            \(program) sweep --format json --config \(stage.folder.file("pushsweep.yaml")) > $out
            """, in: stage)
        let result = try stage.sweep().ends(0)
        #expect(result.error.isEmpty, "\(result.error)")
        #expect(try Self.out(stage).contains("\"exit\":0"))
        let runs = try String(contentsOfFile: stage.folder.file("out.runs"), encoding: .utf8)
        #expect(runs == "\(result.json["run"] as? String ?? "")\n")
    }

    @Test("a sender that is told to stop runs it, and keeps its exit code")
    func sender() throws {
        let stage = try SendStage(rows: 1)
        let path = try stage.folder.write(
            "hook", "echo $PUSHSWEEP_KIND $PUSHSWEEP_EXIT > \(stage.folder.file("out"))\nsleep 600")
        stage.lines = "hooks: {after-run: sh \(path), timeout: 1h}"
        let sender = try stage.start(["send", "--follow", "--verbose"])
        #expect(try eventually { try stage.states()["sent"] == 1 })
        sender.signal(SIGTERM)
        // 75 where the signal came in the middle of a claim.
        let result = sender.wait().ends([0, 75], "told to stop, so the command was killed")
        let out = try String(contentsOfFile: stage.folder.file("out"), encoding: .utf8)
        #expect(out == "send \(result.exit)\n")
    }
}
