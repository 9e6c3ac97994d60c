import APNsProtocol
import Foundation
import Settings
import TestSupport
import Testing

private let hex = DeviceToken.numbered(1).hex

/// Words of the command line that a command refuses with 64 when it is run, and words of the reason; the first two
/// the program itself refuses. `CommandsTests` has what the words alone show to be a mistake.
private let mistakes: [(words: [String], reason: String)] = [
    (["swep"], "did you mean 'sweep'?"), (["help", "swep"], "did you mean 'sweep'?"),
    (["sweep", "--max-lag", "x"], "reading --max-lag"),
    (["sweep", "--max-load", "a=b"], "reading --max-load"),
    (["sweep", "--time-budget", "10"], "reading --time-budget"),
    (["sweep", "--lag-replica", "sqlite:///x"], "reading --lag-replica"),
    (["replay", "/no/such/file"], "no such file"),
    (["replay", "/tmp"], "it is a directory; name a file"),
    (["import", "/nowhere/log", "--from", "jsonl"], "no such file"),
    (["undo", "abc"], "give at least 4 characters"),
    (["undo", "--list", "--max-load", "x"], "reading --max-load"),
    (["holds", "show", "abc"], "give at least 4 characters"),
    (["changes", "--since", "abc"], "see `pushsweep undo --list`"),
    (["changes", "--since", "n1.2"], "neither a cursor"),
    (["changes", "--since", "abcdef"], "no change of such a run"),
    (["changes", "--since", "n9"], "beyond the last change, which is n1"),
    (["changes", "--since", "n1.00000000"], "another one here"),
    (["explain", "beefa"], "neither the token table nor the marks nor the ledger"),
    (["explain", "beefbeefa"], "looking for the token beefbeef…: neither"),
    (["explain", "beefa…"], "one that begins so; give the token whole"),
    (["explain", "{length = 32, bytes = 0xc9d4 ... 15de }"], "middle bytes are lost"),
    (["explain", "--token-file", "/dev/zero"], "which is the limit"),
    (["explain", "secretsecret"], "it is no device token in hex"),
    (["audit", "--since", "yesterday"], "reading --since 'yesterday': it is no time"),
    (["send", "--app", "no"], "check --app"),
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
            let result = try stage.run(words)
                .ends(64, reason, "code=64 ", "next=usage", for: "\(words)").lacks("secret")
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
