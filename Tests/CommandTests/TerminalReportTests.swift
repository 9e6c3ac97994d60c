import Foundation
import TestSupport
import Testing

@Suite("Reports at a terminal")
struct TerminalReportTests {
    private static let script = "/usr/bin/script"

    /// What a command writes to a terminal of a width.
    private func screen(
        _ stage: SweepStage, _ words: [String], columns: Int,
        _ environment: [String: String] = [:], ends exit: Int32 = 0
    ) throws -> [String] {
        let program = RunningTool.folderOfTests.appendingPathComponent("pushsweep").path
        let isHelp = words.first == "help" || words == ["holds"]
        let command = ([program] + words + (isHelp ? [] : ["--config", try stage.settings()]))
            .map { "'\($0)'" }.joined(separator: " ")
        let result = try RunningTool(
            program: URL(filePath: Self.script),
            ["-qec", "stty cols \(columns); exec \(command)", stage.folder.file("typescript")],
            environment: ["TERM": "xterm-256color"].merging(environment) { $1 }
        ).wait().ends(exit, for: "\(words)")
        return result.output.components(separatedBy: "\r\n")
    }

    private func plain(_ row: String) -> String { row.replacing(/\u{1B}\[[0-9;]*m/, with: "") }

    @Test(
        "check fits its words into the terminal, colours severities, and names each failure once",
        .enabled(if: FileManager.default.isExecutableFile(atPath: script)))
    func check() throws {
        let stage = try SweepStage()
        stage.lines.certificate = "certificate: {file: /nowhere/a.pem, key: /nowhere/a.key}"
        for columns in [40, 80] {
            let rows = try screen(stage, ["check"], columns: columns, ends: 78)
            let long = rows.map(plain).filter { $0.count >= columns && !$0.hasPrefix("code=") }
            // A row of one word: a path, an address.
            #expect(long.allSatisfy { $0.split(separator: " ").count == 1 }, "\(long)")
            for start in [
                "  \u{1B}[1;38;5;196mfailure\u{1B}[0m: settings:",
                "\u{1B}[1;38;5;196m2 failures\u{1B}[0m, 1 warning",
                "code=78 stage=check pending=0 applied=0 held=0",
            ] {
                #expect(rows.contains { $0.hasPrefix(start) }, "\(rows)")
            }
            #expect(rows.count { plain($0).contains("failure: settings") } == 2)
            #expect(!rows.contains { $0.contains("pushsweep: ") })
        }
        let quiet: [([String], [String: String])] = [
            (["check", "--color", "never"], [:]), (["check"], ["NO_COLOR": "1"]),
            (["check"], ["TERM": "dumb"]),
        ]
        for (words, environment) in quiet {
            let rows = try screen(stage, words, columns: 80, environment, ends: 78)
            #expect(!rows.joined().contains("\u{1B}"), "\(words) \(environment)")
        }
    }

    @Test("into a file the lines stay whole, with all digits, and with colour only when asked")
    func file() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let lines = try stage.run("check").ends(0).output.split(separator: "\n")
        #expect(lines.contains { $0.count > 120 })
        #expect(lines.contains { $0.contains(/is valid to \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z/) })
        #expect(!lines.joined().contains("\u{1B}"))
        let coloured = try stage.run("check", "--color", "always").ends(0).output
        #expect(coloured.contains("\u{1B}[1;38;5;28mok\u{1B}[0m: "))
        #expect(plain(coloured).split(separator: "\n") == lines)
        try stage.run("check", "--color", "always", "--format", "json").ends(0).lacks("\u{1B}")
    }

    @Test(
        "a terminal shows times to the minute, JSON and explain keep all digits",
        .enabled(if: FileManager.default.isExecutableFile(atPath: script)))
    func times() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let rows = try screen(stage, ["check"], columns: 200)
        #expect(rows.contains { $0.contains(/valid to \d{4}-\d\d-\d\d \d\d:\d\d UTC/) })
        let json = try screen(stage, ["check", "--format", "json"], columns: 80)
        #expect(json.contains { $0.contains(/is valid to \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z/) })
        #expect(json.count { !$0.isEmpty } == 1)
        let token = String(repeating: "0", count: 63) + "1"
        let story = try screen(stage, ["explain", token], columns: 80)
        #expect(story.contains { $0.hasPrefix("token ") })
    }

    @Test(
        "the help and the commands of the first day fit into 40 columns, and no command is broken",
        .enabled(if: FileManager.default.isExecutableFile(atPath: script)))
    func help() throws {
        let stage = try SweepStage()
        for words in [["holds"], ["help", "exit-codes"], ["help"]] {
            let rows = try screen(stage, words, columns: 40)
            #expect(rows.allSatisfy { $0.count < 40 }, "\(rows)")
        }
        let page = try screen(stage, ["help", "preflight"], columns: 40)
        let example = "  pushsweep preflight --app chat --environment production"
        #expect(page.contains(example))
        let long = page.filter { $0.count >= 40 && $0 != example }
        #expect(long.allSatisfy { $0.hasPrefix("USAGE: ") || !$0.contains(" ") }, "\(long)")
    }

    @Test("a settings file with several mistakes is told whole, and counted in a last line")
    func mistakes() throws {
        let stage = try SweepStage()
        let file = try stage.folder.write("wrong.yaml", "stat: x\npolicy: {action: mrak}\n")
        for command in ["check", "sweep"] {
            let result = try Tool.pushsweep(command, "--config", file).ends(78)
            let lines = result.error.split(separator: "\n")
            #expect(lines.count == 4)
            #expect(lines[0].hasPrefix("pushsweep: error: ") && lines[1].contains("mrak"))
            #expect(
                lines[2].hasPrefix("pushsweep: 2 failures: the first is ")
                    && lines[2].hasSuffix("unknown key 'stat'"), "\(lines)")
        }
    }
}
