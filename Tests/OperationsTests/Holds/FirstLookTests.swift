import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Operations
import TestSupport
import Testing

@Suite("The first hold of a table, and the only one", .serialized)
struct FirstLookTests {
    private static func stage(
        _ engine: TestEngine = .sqlite, _ feeds: ListSource...
    ) throws -> SweepStage {
        try SweepStage(engine, living: 2_000, feeds: feeds)
    }

    @Test(
        "the first removal of a table is called the first look, with the two commands that follow",
        arguments: TestEngine.available)
    func first(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine, feed(0..<900), feed(1_000..<1_900))
        let swept = try stage.run("sweep").ends(
            3,
            "this is the first look at an old table, where nothing was removed in 30 days: 900 of "
                + "2000 living rows", "pushsweep holds show ", "pushsweep holds release DIGEST")
        #expect(swept.output.contains("held: this is the first look"))
        let judgement = try stage.shown()["judgement"] as? String
        #expect(judgement?.hasPrefix("this is the first look") == true)
        try stage.run("holds", "release", stage.digest()).ends(0)
        // What comes after it is no first look, whoever released it.
        try stage.run("sweep").ends(3, "900 of ").lacks("first look").lacks("holds release DIGEST")
        try stage.swept(dryRun: true).lacks("firstLook")
    }

    @Test("a hold for another cause than its size is no first look")
    func suspicion() throws {
        let stage = try Self.stage(.sqlite, .tuples((0..<900).map { .dead($0, at: 1_700_000_000) }))
        try stage.run("sweep").ends(3, "since the same moment").lacks("first look")
    }

    @Test("a table whose first removals are older than 30 days has no first look")
    func old() throws {
        let stage = try Self.stage(.sqlite, feed(1_900..<1_920), feed(0..<900))
        try stage.swept().ends(0)
        try stage.database.execute(
            "UPDATE pushsweep_batch SET changed_at = '2020-01-01 00:00:00.000'")
        try stage.run("sweep").ends(3, "900 of ").lacks("first look")
        #expect((try stage.shown()["judgement"] as? String)?.contains("first look") == false)
    }

    @Test("where the checkpoints cannot be read, nothing is called a first look")
    func unknown() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900))
        try stage.database.execute("DROP TABLE pushsweep_batch")
        try stage.run("sweep", "--dry-run").ends(3, "would be held: 900 of ").lacks("first look")
    }

    @Test("the only hold is shown and discarded without its name, and released by its digest")
    func only() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900), feed(1_000..<1_900))
        for words in [["show"], ["release"], ["discard", "--reason", "x"]] {
            try stage.run(["holds"] + words).ends(64, "nothing is held", for: "\(words)")
        }
        try stage.json("sweep").ends(3).app(has: ["firstLook": true])
        let shown = try stage.shown()
        try stage.run("holds", "show").ends(0, "digest: \(shown["digest"] ?? "none")")
        // Nobody has seen what joined meanwhile, so a script has to name what it releases.
        let (hold, digest) = (shown["hold"] ?? "none", try stage.digest())
        try stage.run("holds", "release", "--reason", "looked at").ends(
            64, "900 of 2000 living rows (45.0 %) would become invalid should be applied",
            "pushsweep holds show \(hold); then run: pushsweep holds release \(digest)")
        #expect(try stage.database.rows(of: "active_users", "invalidated_at IS NOT NULL") == 0)
        try stage.run("holds", "release", digest, "--reason", "looked at").ends(
            0, "900 became invalid")
        #expect(try stage.database.rows(of: "active_users", "invalidated_at IS NOT NULL") == 900)
        try stage.swept().ends(3)
        try stage.run("holds", "discard", "--reason", "a mistake").ends(0, "1 batch discarded")
        #expect(try stage.holdList().isEmpty)
    }

    @Test(
        "at a terminal a release without a digest shows the set, and applies it after a yes only",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/script")),
        arguments: [("y", true), ("YES", true), ("n", false), ("", false), ("yesterday", false)])
    func asked(_ answer: String, _ isYes: Bool) throws {
        let stage = try Self.stage(.sqlite, feed(0..<900))
        try stage.swept().ends(3)
        let digest = try stage.digest()
        let program = RunningTool.folderOfTests.appendingPathComponent("pushsweep").path
        let command = "'\(program)' holds release --config '\(try stage.settings())'"
        let shown = try RunningTool(
            program: URL(filePath: "/bin/sh"),
            [
                "-c", #"printf '%s\n' "$1" | script -qec "$2" "$3""#, "sh", answer,
                "stty cols 200; exec \(command)", stage.folder.file("typescript"),
            ]
        ).wait().ends(isYes ? 0 : 3, "digest: \(digest)", "Apply exactly this? (y/N) ")
        if isYes {
            shown.says("900 became invalid")
        } else {
            shown.says("the answer was not yes", "code=3 ", "pushsweep holds release \(digest)")
        }
        #expect(
            try stage.database.rows(of: "active_users", "invalidated_at IS NOT NULL")
                == (isYes ? 900 : 0))
    }

    @Test("with several holds none is chosen, and they are listed")
    func several() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900))
        let other = try stage.addTalk(5_000..<5_200)
        defer { other.stop() }
        try stage.swept().ends(3)
        let names = try stage.holdList().compactMap { $0["hold"] as? String }
        #expect(names.count == 2)
        for words in [["show"], ["release"], ["discard", "--reason", "x"]] {
            try stage.run(["holds"] + words).ends(
                64, "2 are open, name one of them", "\(names[0])  ", "\(names[1])  ",
                "talk/production"
            ).lacks("failures")
        }
        #expect(try stage.holdList().count == 2)
    }

    @Test("of a hold with several feeds none is discarded without a name or --all")
    func feeds() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900), feed(1_000..<1_010))
        try stage.swept().ends(3)
        try stage.swept().ends(3)
        try stage.run("holds", "discard", "--reason", "x").ends(
            64, "it has 2 batches; name one, or add --all: pushsweep holds show ")
        try stage.run("holds", "discard", "--all", "--reason", "x").ends(
            0, "2 batches discarded")
    }
}

extension SweepStage {
    /// The digest of the only hold.
    fileprivate func digest() throws -> String {
        try #require(try shown()["digest"] as? String)
    }
}
