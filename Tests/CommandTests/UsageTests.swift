import APNsProtocol
import Foundation
import Settings
import TestSupport
import Testing

private let hex = DeviceToken.numbered(1).hex

/// Words of the command line that are refused with 64, and words of the reason.
private let mistakes: [(words: [String], reason: String)] = [
    (["swep"], "did you mean 'sweep'?"),
    (["check", "--settings", "--grants"], "goes with neither --example nor --grants"),
    (["sweep", "--color", "red"], "'red' is invalid for '--color"),
    (["holds", "lst"], "did you mean 'list'?"), (["sweep", "--bogus"], "--bogus"),
    (["demo", "--config", "/nowhere"], "--config"),
    (["sweep", "--app", ""], "the value of --app is empty"),
    (["sweep", "--app="], "Missing value for '--app"),
    (["undo", ""], "an argument is empty"), (["holds", "show", ""], "an argument is empty"),
    (["explain", ""], "an argument is empty"), (["replay", ""], "an argument is empty"),
    (["holds", "show", ""], "See 'pushsweep holds show --help' for"),
    (["sweep", "--app", ""], "See 'pushsweep sweep --help' for"),
    (["sweep", "--connections", "17"], "connections"),
    (["sweep", "--max-lag", "x"], "reading --max-lag"),
    (["sweep", "--max-load", "a=b"], "reading --max-load"),
    (["sweep", "--critical-load", ""], "value of --critical-load is empty"),
    (["sweep", "--time-budget", "10"], "reading --time-budget"),
    (["sweep", "--lag-replica", "sqlite:///x"], "reading --lag-replica"),
    (["replay"], "name either a feed file or a feed"),
    (["replay", "/no/such/file"], "no such file"),
    (["replay", "/tmp"], "it is a directory; name a file"),
    (["replay", "--feed", ""], "the value of --feed is empty"),
    (["import", "/nowhere/log", "--from", "jsonl"], "no such file"),
    (["import", "/dev/null", "--from", "jsonl", "--map", "tokn=.a"], "is not FIELD=PATH"),
    (
        ["import", "/dev/null", "--from", "feedback", "--map", "token=.a"],
        "are for jsonl, csv and tsv"
    ),
    (["undo"], "name one of"), (["undo", "abc", "--list"], "name one of"),
    (["undo", "--since", "yesterday"], "is no time"),
    (["undo", "--token", "zz"], "not a device token"),
    (["undo", "abc"], "give at least 4 characters"),
    (["undo", "--list", "--max-load", "x"], "reading --max-load"),
    (["holds", "show", "abc"], "give at least 4 characters"),
    (["holds", "discard", "abcd"], "--reason"),
    (["holds", "discard", "abcd", "--reason", " "], "must be one line of text"),
    (
        ["holds", "release", String(repeating: "a", count: 64), "--reason", " "],
        "one line"
    ),
    (["check", "somebody"], "goes with --grants only"),
    (["check", "--grants", "@h"], "needs a name"),
    (["check", "--grants", "--example"], "goes without --grants"),
    (["check", "--example=django", "--all"], "--all goes with --example"),
    (["check", "--example=Django"], "there is no example 'Django'; the names are short"),
    (["schema", "print", "--view", "--upgrade"], "--view"),
    (["schema", "print", "--view-name", "other"], "--view"),
    (["audit", "--output", "report"], "says no format"),
    (["audit", "--users-without-token", "x"], "needs --deep"),
    (["changes", "--since", ""], "--since is empty"),
    (["changes", "--since", "abc"], "see `pushsweep undo --list`"),
    (["changes", "--since", "n1.2"], "neither a cursor"),
    (["changes", "--since", "abcdef"], "no change of such a run"),
    (["changes", "--since", "n9"], "beyond the last change, which is n1"),
    (["changes", "--since", "n1.00000000"], "another one here"),
    (["explain"], "name one of: a token"),
    (["explain", "a5", "--user", "u"], "name one of: a token"),
    (["explain", "--user", ""], "--user is empty"),
    (["explain", "beefa"], "neither the token table nor the marks nor the ledger"),
    (["explain", "beefbeefa"], "looking for the token beefbeef…: neither"),
    (["explain", "beefa…"], "one that begins so; give the token whole"),
    (["undo", "--token", "a5a5…"], "not a device token"),
    (["explain", "{length = 32, bytes = 0xc9d4 ... 15de }"], "middle bytes are lost"),
    (["explain", "--token-file", "/dev/zero"], "which is the limit"),
    (["explain", "secretsecret"], "it is no device token in hex"),
    (["audit", "--since", "yesterday"], "reading --since 'yesterday': it is no time"),
    (["audit", "--format", "csv"], "'csv' is invalid for '--format"),
    (["changes", "--since", "n1", "--limit", "0"], "from 1 to"),
    (["send", "--app", "no"], "check --app"),
    (["send", "--limit=9223372036854775808"], "from 1 to"), (["send", "--rate=nan"], "from 1 to"),
    (["preflight", "--query", "SELECT 1"], "Unknown option '--query'"),
    (["preflight", "--format", "junit"], "'junit' is invalid for '--format"),
    (["preflight", "--only-known"], "goes with --filter"),
    (["preflight", "--filter", "--probe"], "without --probe"),
    (["preflight", "--filter", "--format", "json"], "without --format"),
    (["preflight", "--max-stale", "101%"], "0% to 100%"),
    (["preflight", "--max-hours", "soon"], "hours"),
    (["preflight", "--memory", "1.5"], "whole MiB"),
    (["preflight", "--fail-on", "fatal"], "fail-on"),
    (["preflight", "--tokens-from", "/nowhere/tokens"], "check the path"),
    (["preflight", "--app", "other"], "no such app"),
]

@Suite("The command line")
struct UsageTests {
    @Test(
        "a mistake is refused with 64, its reason and a closing line, and nothing is done"
    )
    func refused() throws {
        let stage = try SendStage(rows: 3)
        stage.credential +=
            "\n    feedback: {host: 127.0.0.1, port: 1, ca: \(try SweepStage.certificates.get().authority)}"
        try stage.database.report(hex)
        // One change, for the cursors of `changes`.
        _ = try stage.run("sweep")
        let before =
            try stage.database.marks()
            + stage.database.texts("SELECT * FROM push_queue")
            .map { "\($0)" }
        for (words, reason) in mistakes {
            let result =
                words.contains("/nowhere")
                ? try Tool.pushsweep("demo", "--config", "/nowhere")
                : try stage.run(words)
            result.ends(64, reason, "code=64 ", "next=usage", for: "\(words)").lacks("secret")
            // A run that could not begin prints its report all the same.
            if !["replay", "import", "undo"].contains(words[0]) {
                #expect(result.output == "", "\(words)")
            }
        }
        let after =
            try stage.database.marks()
            + stage.database.texts("SELECT * FROM push_queue")
            .map { "\($0)" }
        #expect(after == before)
    }

    @Test("check --example prints a file without reading settings")
    func examples() throws {
        let printed = { (words: [String]) in
            try RunningTool(
                "pushsweep", ["check"] + words + ["--config", "/nowhere.yaml"],
                environment: ["PUSHSWEEP_STORE_URL": "nonsense"]
            ).wait().ends(0).output
        }
        #expect(try printed(["--example"]) == SettingsExample.short.text)
        #expect(try printed(["--all", "--example"]) == SettingsTable.sampleFile())
        #expect(try printed(["--example", "django"]) == SettingsExample.django.text)
    }
}

@Suite("The help")
struct HelpTests {
    private static func page(_ words: [String]) throws -> String {
        try RunningTool("pushsweep", words).wait().ends(0, for: "\(words)").output
    }

    /// The words of each command that has no further commands, and its page.
    private static let commands = Result { try commands(below: []) }

    private static func commands(below words: [String]) throws -> [(words: [String], page: String)]
    {
        let page = try page(["help"] + words)
        let parts = page.components(separatedBy: "SUBCOMMANDS:\n")
        guard parts.count == 2 else { return [(words, page)] }
        return try parts[1].split(separator: "\n").filter { $0.hasPrefix("  ") }.flatMap { line in
            let name = line.dropFirst(2).prefix { !$0.isWhitespace }
            return name.first?.isLowercase == true
                ? try commands(below: words + [String(name)]) : []
        }
    }

    @Test("each command has one example, which the command line accepts, and no exit codes")
    func examples() throws {
        let commands = try Self.commands.get()
        #expect(commands.count > 20)
        for (words, page) in commands {
            #expect(!page.contains("EXIT STATUS"), "\(words)")
            let parts = page.components(separatedBy: "EXAMPLE\n")
            #expect(parts.count == 2, "\(words)")
            guard let line = parts.last?.split(separator: "\n").first else { continue }
            #expect(line.hasPrefix("  pushsweep " + words.joined(separator: " ")), "\(line)")
            guard ![["demo"], ["init"]].contains(words) else { continue }
            // It goes as far as its files or the settings, which are missing.
            let digest = String(repeating: "a", count: 64)
            let typed = line.replacing("DIGEST", with: digest) + " --config /nowhere.yaml"
            try RunningTool(
                program: URL(filePath: "/bin/sh"), ["-c", String(typed)],
                environment: ["PATH": RunningTool.folderOfTests.path]
            ).wait().ends([64, 78], "/nowhere.yaml", for: "\(line)").lacks("Usage:")
        }
    }

    @Test("help explains a finding by its name")
    func rules() throws {
        let page = try Self.page(["help", "open-hold"])
        for words in ["open-hold\n", "Why it matters:", "Look closer:", "Next:"] {
            #expect(page.contains(words), "\(page)")
        }
        #expect(try Self.page(["help", "rules"]).contains("  open-hold\n"))
        #expect(try Self.page(["help", "quarantine"]).contains("SUBCOMMANDS"))
        #expect(try Self.page(["help", "certificate-ends"]).contains("medium within 7 days"))
    }

    @Test("exit codes stand in one place, and each that the program has is there")
    func exitCodes() throws {
        let page = try Self.page(["help", "exit-codes"])
        let codes = page.split(separator: "\n").compactMap { $0.split(separator: " ").first }
            .compactMap { Int($0) }
        #expect(codes == [0, 2, 3, 4, 64, 65, 69, 70, 73, 74, 75, 76, 77, 78])
        let help = try Self.page(["--help"])
        #expect(help.replacing("\n", with: " ").contains("pushsweep help exit-codes"))
        #expect(!help.contains("EXIT STATUS"))
    }

    @Test("called alone it prints the five commands of the first day, and how to see all")
    func firstDay() throws {
        let page = try Self.page([])
        let commands = page.split(separator: "\n").filter { $0.hasPrefix("  pushsweep ") }
            .map { $0.dropFirst(2).components(separatedBy: "  ")[0] }
        #expect(
            commands == [
                "pushsweep init ADDRESS", "pushsweep check", "pushsweep sweep --dry-run",
                "pushsweep sweep", "pushsweep explain TOKEN",
            ])
        #expect(page.contains("All commands: pushsweep help\n"))
    }

    @Test(
        "help about a word that is no command is a mistake, and names what is near",
        arguments: [
            (["nonsense"], "there is no help about 'nonsense'\n"),
            (["swep"], "did you mean 'sweep'?"), (["exit-code"], "did you mean 'exit-codes'?"),
            (["stale-token"], "did you mean 'stale-tokens'?"),
            (["holds", "lst"], "there is no help about 'lst'; did you mean 'list'?"),
            (["sweep", "now"], "there is no help about 'now'\n"),
            ([""], "there is no help about ''"), (["a\u{1B}b"], "'a\\u{1B}b'"),
        ])
    func unknown(_ words: [String], _ reason: String) throws {
        let result = try RunningTool("pushsweep", ["help"] + words).wait()
            .ends(64, reason, "code=64 stage=usage ")
        #expect(result.output == "")
    }

    @Test("an empty argument behind -- is no value of an option")
    func emptyArgument() throws {
        try RunningTool("pushsweep", ["explain", "--", ""]).wait().ends(
            64, "an argument is empty", "See 'pushsweep explain --help'")
    }

    @Test("the help tells of evidence first and of gateways last")
    func story() throws {
        for words in [["--help"], ["help", "sweep"]] {
            let page = try Self.page(words)
            let evidence = try #require(page.range(of: "410"))
            let gateway = try #require(page.range(of: "gateway"))
            #expect(evidence.lowerBound < gateway.lowerBound, "\(page)")
        }
        let names = try Self.commands.get().map { $0.words[0] }
        let (log, list) = (names.firstIndex(of: "import"), names.firstIndex(of: "replay"))
        #expect(try #require(log) < #require(list))
    }
}

@Suite("The command demo")
struct DemoTests {
    /// Times and names of runs differ from run to run; all of them are hex digits and long.
    private static func timeless(_ text: String) -> [String] {
        text.split(separator: "\n").map {
            String($0.replacing(/[0-9]{4}-[0-9]{2}-[0-9]{2}|undo [0-9a-f]{8}/, with: "0"))
        }
    }

    @Test("demo begins with a sender's 410, shows what the README shows, and ends with gateways")
    func story() throws {
        let result = try Tool.pushsweep("demo").ends(0)
        let lines = result.output.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 25 && lines.allSatisfy { $0.count <= 80 }, "\(result.output)")
        let first = lines.prefix { !$0.isEmpty }
        #expect(first.count == 12)
        for words in [
            "INSERT INTO pushsweep_evidence", "1 became invalid, 1 kept", "$ pushsweep explain ",
            "stale: a sender would not send", "living: a sender would send", "$ pushsweep undo ",
            "1 of 1 change taken back, living again: ada",
        ] {
            #expect(first.contains { $0.contains(words) }, "\(words): \(result.output)")
        }
        result.says(
            "sent 1, skipped 1 (stale), gone 1", "  never on the wire: ada\n",
            "  marked now: ada, eve\n")
        let readme = try String(contentsOf: DocumentBlock.path("README.md"), encoding: .utf8)
        let block = readme.components(separatedBy: "```\n").first { $0.hasPrefix("APNs answered") }
        #expect(
            Self.timeless(first.joined(separator: "\n")) == Self.timeless(try #require(block)))
    }

    @Test("demo prints the reports of its runs as JSON")
    func documents() throws {
        let documents = try Tool.pushsweep("demo", "--format", "json").ends(0)
        #expect(documents.output.split(separator: "\n").count == 6)
        #expect(documents.output.contains("\"claimed\":3"))
    }
}
