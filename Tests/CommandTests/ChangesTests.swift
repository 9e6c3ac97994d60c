import APNsProtocol
import Foundation
import TestSupport
import Testing

@Suite("pushsweep changes")
struct ChangesTests {
    private static func lines(_ result: ToolResult) -> [String] {
        result.output.split(separator: "\n").map(String.init)
    }

    private static func object(_ line: String) throws -> [String: String] {
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        return try #require(object).compactMapValues { $0 as? String }
    }

    private static func cursor(_ line: String) throws -> String {
        try #require(try object(line)["cursor"])
    }

    @Test(
        "a follower that is killed after any line goes on with the next one",
        arguments: zip(TestEngine.available, ["delete", "mark"]))
    func everyLine(_ engine: TestEngine, _ action: String) throws {
        let stage = try SweepStage(engine, dead: 6)
        stage.lines.policy = "policy: {action: \(action)}"
        let sweep = try stage.sweep()
        let run = try #require(sweep.json["run"] as? String)
        let undo = try stage.json("undo", run)
        let undone = try #require(undo.json["run"] as? String)
        let whole = try stage.run("changes", "--since", "n0").ends(0)
        #expect(whole.error == "", "\(whole.error)")
        let all = Self.lines(whole)
        #expect(all.count == 12)
        let changes = try all.map(Self.object)
        #expect(
            changes.map { $0["run"] }
                == Array(repeating: run, count: 6) + Array(repeating: undone, count: 6))
        #expect(
            changes.map { $0["state"] }
                == Array(repeating: action == "mark" ? "invalid" : "deleted", count: 6)
                + Array(repeating: "valid", count: 6))
        let tokens = (0..<6).map { DeviceToken.numbered($0) }
        #expect(changes.prefix(6).map { $0["token"] } == tokens.map(\.redacted))
        #expect(tokens.allSatisfy { !whole.output.contains($0.hex) })
        for place in [0, 5, 6, 11] {
            let rest = try stage.run("changes", "--since", try Self.cursor(all[place])).ends(0)
            #expect(Self.lines(rest) == Array(all[(place + 1)...]))
        }
        let from = try stage.run("changes", "--since", String(undone.prefix(8)))
        #expect(Self.lines(from) == Array(all[6...]))
        let few = try stage.run("changes", "--since", "2020-01-01 00:00", "--limit", "2").ends(0)
        #expect(Self.lines(few) == Array(all[..<2]))
        let none = try stage.run("changes", "--since", "2100-01-01T00:00:00Z").ends(0)
        #expect(none.output == "" && none.error == "")
        let bare = try stage.run("changes", "--since", run, "--whole-tokens")
        #expect(
            try Self.lines(bare).prefix(6).map { try Self.object($0)["token"] }
                == tokens.map(\.hex))
        let log = try stage.run("changes", "--since", "n0", "--verbose")
        let last = try Self.cursor(all[11])
        log.says("12 changes, the cursor after them is \(last)")
    }

    @Test("CSV has a line of names and the same values")
    func csv() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        _ = try stage.sweep()
        let csv = Self.lines(try stage.run("changes", "--since", "n0", "--format", "csv"))
        let json = Self.lines(try stage.run("changes", "--since", "n0"))
        #expect(csv.count == 4 && json.count == 3)
        try stage.database.execute(
            "UPDATE pushsweep_commit SET app = 'x, \"y\"\n' WHERE number = 1")
        try stage.database.execute(
            "UPDATE pushsweep_change SET row_key = '[\"a\",\"b c\"]' WHERE seq = 0")
        let odd = Self.lines(
            try stage.run("changes", "--since", "n0", "--format", "csv", "--limit", "1"))
        #expect(odd.count == 2)
        #expect(odd[1].contains(#","x, ""y""\n",production,mark,invalid,"[""a"",""b c""]","#))
        let names = csv[0].split(separator: ",").map(String.init)
        for (line, record) in zip(json, csv.dropFirst()) {
            let fields = record.split(separator: ",", omittingEmptySubsequences: false)
            let object = try Self.object(line)
            #expect(names.map { object[$0] ?? "" } == fields.map(String.init))
        }
    }

    @Test("a full disk ends the listing with 73")
    func fullDisk() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        _ = try stage.sweep()
        try stage.run(
            ["changes", "--since", "n0"], under: OutputTests.Loss.outputFull.command
        ).ends(
            73, "continue with the cursor of the last whole line",
            "code=73 stage=report pending=0 applied=0 held=0 next=disk")
    }

    @Test("a reader that ends early ends the listing quietly")
    func brokenPipe() throws {
        let stage = try SweepStage(.sqlite, dead: 3_000)
        _ = try stage.sweep()
        let result = try stage.run(
            ["changes", "--since", "n0"],
            under: ["/bin/sh", "-c", "(\"$@\"; echo \"exit $?\" >&2) | head -n 1", "sh"])
        #expect(Self.lines(result).count == 1)
        #expect(result.error == "exit 0\n")
    }

    @Test("the example that follows changes ends as the listing or the handler did, and loses none")
    func follower() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        _ = try stage.sweep()
        let (cursor, handled) = (stage.folder.file("cursor"), stage.folder.file("handled"))
        let example = try String(
            contentsOf: DocumentBlock.path("docs/examples/follow-changes.sh"), encoding: .utf8)
        let script = try stage.folder.write(
            "follow",
            example.replacing("/var/lib/follower/cursor", with: cursor)
                .replacing("./handle", with: "sh \(stage.folder.file("handle"))")
                .replacing("2026-11-22T10:00:00Z", with: "n0"))
        let environment = [
            "PATH": "\(RunningTool.folderOfTests.path):/usr/bin:/bin",
            "PUSHSWEEP_CONFIG": try stage.settings(),
        ]
        func follow(_ handler: String) throws -> ToolResult {
            try stage.folder.write("handle", handler)
            return try RunningTool(
                program: URL(fileURLWithPath: "/bin/sh"), [script], environment: environment
            ).wait()
        }
        // The second change is refused, and comes again.
        try follow("[ -e \(handled) ] && exit 9; cat >> \(handled)").ends(1)
        try follow("cat >> \(handled)").ends(0)
        let lines = try String(contentsOfFile: handled, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 3 && Set(lines).count == 3)
        try follow("exit 9").ends(0)
        try stage.folder.write("cursor", "n900.0.00000000\n")
        try follow("cat >> \(handled)").ends(64)
    }
}
