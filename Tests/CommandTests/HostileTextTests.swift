// Texts from a database, a certificate, a file name or a word of the command line, written by an
// attacker who wants to control the terminal or to forge the last line of stderr.

import APNsSimulator
import EvidenceJournal
import Foundation
import TestSupport
import Testing

/// Control characters of both sets, the clipboard sequence of terminals, characters that turn the
/// direction of writing, and a line that looks like our last one.
private let evil =
    "evil\u{1B}]52;c;ZXZpbA==\u{07}\u{9B}2J\u{7F}\u{202E}\u{2066}\u{200F}\u{2028}\u{85}\r"
    + "\ncode=0 stage=done pending=0 applied=9 held=0 next=none\n\tend"

/// Characters that must never come out as they are; line breaks are counted by the lines.
private let forbidden: [Character] = [
    "\u{1B}", "\u{07}", "\u{9B}", "\u{7F}", "\u{202E}", "\u{2066}", "\u{200F}", "\u{2028}",
    "\u{85}",
    "\r", "\t",
]

@Suite("Text from outside")
struct HostileTextTests {
    private func expectTame(_ result: ToolResult, _ what: String) {
        for (stream, text) in [("stdout", result.output), ("stderr", result.error)] {
            for character in forbidden {
                let number = String(character.unicodeScalars.first?.value ?? 0, radix: 16)
                #expect(
                    !text.unicodeScalars.contains(where: { Character($0) == character }),
                    "\(what): \(number) on \(stream)")
            }
            let forged = text.split(separator: "\n").filter { $0.hasPrefix("code=0 ") }
            #expect(forged.isEmpty, "\(what): a line was forged on \(stream)")
        }
        #expect(
            result.exit == 0 || result.closingLine.hasPrefix("code=\(result.exit) "),
            "\(what): \(result.error)")
    }

    @Test(
        "control characters in the row of the lease are shown as numbers, in text and JSON",
        arguments: ["text", "json"])
    func lease(_ format: String) throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try stage.database.execute(
            "INSERT INTO pushsweep_lease (name, owner, fence, expires_at) VALUES (?, ?, 1, ?)",
            [
                .text("active_users"), .text("sweep@\(evil) run=\(evil) home=x since=\(evil)"),
                .text("2999-01-01 00:00:00.000"),
            ])
        let result = try stage.run("sweep", "--format", format, "--verbose").ends(
            4, #"\u{1B}]52;c;"#)
        expectTame(result, "lease, \(format)")
        if format == "json" {
            let problems = result.json["problems"] as? [[String: Any]] ?? []
            #expect((problems.first?["message"] as? String)?.contains("\u{1B}]52;c;") == true)
        }
    }

    @Test(
        "control characters in the record of a run are shown as numbers",
        arguments: ["text", "json"])
    func run(_ format: String) throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try stage.sweep().ends(0)
        try stage.database.execute("UPDATE pushsweep_run SET host = ?", [.text(evil)])
        let result = try stage.run("undo", "--list", "--format", format).ends(0)
        #expect(result.output.split(separator: "\n").count == 1, "\(result.output)")
        expectTame(result, "run, \(format)")
        if format == "json" { #expect(result.json["host"] as? String == evil) }
    }

    @Test("control characters in the name of a file are shown as numbers")
    func files() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        try stage.sweep().ends(0)
        let name = stage.folder.file(evil.replacing("/", with: "_"))
        for words in [
            ["sweep", "--config", name], ["replay", name], ["check", "--config", name],
            ["sweep", "--stop-file", name], ["preflight", "--tokens-from", name],
        ] {
            let tool =
                words.contains("--config")
                ? try RunningTool("pushsweep", words) : try stage.start(words)
            let result = tool.wait()
            #expect(result.exit != 0)
            expectTame(result, "\(words[0])")
        }
        // A feed read from a file keeps the file's name, which lists print.
        try Data([1, 2, 3]).write(to: URL(fileURLWithPath: name))
        expectTame(try stage.run("replay", name), "a feed")
        for format in ["text", "json"] {
            let list = try stage.run("quarantine", "list", "--format", format).ends(0, "evil")
            expectTame(list, "quarantine, \(format)")
        }
        for words in [["holds", "list"], ["check"]] {
            expectTame(try stage.run(words), words[0])
        }
    }

    @Test("control characters in a refused word of the command line are shown as numbers")
    func words() throws {
        for words in [
            [evil], ["sweep", "--\(evil)"], ["send", "--limit=\(evil)"], ["undo", "--since", evil],
            ["holds", evil], ["sweep", "--config", evil],
            ["sweep", "--max-load", evil, "--config", "/nonexistent"],
        ] {
            let result = try RunningTool("pushsweep", words).wait()
            #expect(result.exit == 64 || result.exit == 78, "\(words): \(result.exit)")
            expectTame(result, "\(words.map { $0 == evil ? "..." : $0 })")
        }
    }

    @Test("control characters in a variable or in the settings are shown as numbers")
    func settings() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        for (name, value) in [
            ("PUSHSWEEP_STATE", evil), ("PUSHSWEEP_STORE_URL", evil),
            ("PUSHSWEEP_POLICY_ACTION", evil),
            ("PUSHSWEEP_\(evil)", "x"), ("PUSHSWEEP_CONFIG", evil),
        ] {
            let result = try stage.run("check", environment: [name: value])
            expectTame(result, "\(name == "PUSHSWEEP_\(evil)" ? "a name" : name)")
        }
        let file = try stage.folder.write(
            "evil.yaml", "state: \"a\\u001b\\u202e\\nb\"\n\"x\\u001b\\ncode=0 y\": 1\n")
        let result = try Tool.pushsweep("check", "--config", file).ends(78)
        expectTame(result, "settings")
    }

    @Test("control characters in a certificate are shown as numbers")
    func certificate() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let (key, certificate) = (stage.folder.file("e.key"), stage.folder.file("e.pem"))
        let made = try RunningTool(
            program: URL(fileURLWithPath: "/usr/bin/openssl"),
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "30", "-utf8", "-subj", "/CN=a\u{1B}[2J\u{202E}\u{9B}b\ncode=0 c",
                "-keyout", key, "-out", certificate,
            ]
        ).wait()
        try #require(made.exit == 0, "\(made.error)")
        chmod(key, 0o600)
        stage.lines.certificate = "certificate: {file: \(certificate), key: \(key)}"
        for format in ["text", "json"] {
            let check = try stage.run("check", "--format", format).says("code=0 c")
            expectTame(check, "check, \(format)")
        }
        expectTame(try stage.sweep(), "sweep")
    }
}
