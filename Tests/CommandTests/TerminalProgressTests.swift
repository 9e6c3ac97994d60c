import Foundation
import TestSupport
import Testing

@Suite("Progress on a narrow terminal")
struct TerminalProgressTests {
    private static let script = "/usr/bin/script"

    /// What a command writes to a terminal of 40 columns.
    private func screen(_ stage: SweepStage, _ words: [String]) throws -> String {
        let program = RunningTool.folderOfTests.appendingPathComponent("pushsweep").path
        let command = ([program] + words + ["--config", try stage.settings()])
            .map { "'\($0)'" }.joined(separator: " ")
        let result = try RunningTool(
            program: URL(filePath: Self.script),
            ["-qec", "stty cols 40; exec \(command)", stage.folder.file("typescript")]
        ).wait().ends(0, for: "\(words)")
        return result.output
    }

    /// The phrases of jobs, without units.
    private static let jobs = [
        "reading", "applying", "taking back", "importing",
    ]

    /// The states of the row that is redrawn, in order. What follows the last one is the report.
    private func rows(_ screen: String) -> [Substring] {
        screen.components(separatedBy: "\r\u{1B}[K").dropFirst().compactMap { state in
            guard Self.jobs.contains(where: state.hasPrefix) else { return nil }
            return state.split(separator: "\r", omittingEmptySubsequences: false).first
        }
    }

    private func expectProgress(
        _ screen: String, _ start: String, sourceLocation: SourceLocation = #_sourceLocation
    ) -> [Substring] {
        let rows = rows(screen)
        #expect(
            rows.contains { $0.hasPrefix(start) }, "\(rows)", sourceLocation: sourceLocation)
        #expect(rows.allSatisfy { $0.count < 40 }, "\(rows)", sourceLocation: sourceLocation)
        // Nothing is printed after a row before that is removed.
        #expect(rows.allSatisfy { !$0.contains("\n") }, "\(rows)")
        return rows
    }

    @Test(
        "sweep, undo and import redraw one row within 40 columns",
        .enabled(if: FileManager.default.isExecutableFile(atPath: script)))
    func jobs() throws {
        let stage = try SweepStage(.sqlite, dead: 2_000)
        _ = expectProgress(try screen(stage, ["sweep"]), "applying chat")
        _ = expectProgress(
            try screen(stage, ["undo", "--since", "2020-01-01T00:00:00Z"]), "taking back: ")
        // Enough lines for a second of a slow build: then there is a rate.
        let lines = (0..<12_000).map {
            #"{"token":"\#(String(format: "%064x", $0))","status":410,"timestamp":1700000000123}"#
        }
        let log = try stage.folder.write("log.jsonl", lines.joined(separator: "\n") + "\n")
        let words = [
            "import", log, "--from", "jsonl", "--app", "chat", "--dry-run", "--map",
            "token=.token,time=.timestamp,status=.status",
        ]
        let screen = try self.screen(stage, words)
        let imported = rows(screen)
        #expect(imported.allSatisfy { $0.count < 40 }, "\(imported)")
        #expect(imported.contains { $0.hasPrefix("importing") }, "\(imported)")
        let rated = imported.contains { $0.contains("/s, 0:") && $0.hasSuffix(" left") }
        #expect(rated || imported.count < 10, "\(imported)")
    }
}
