import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Operations
import TestSupport
import Testing

private let before: Int64 = 1_600_000_000_000

/// A list about numbered tokens with times of their own.
private func feed(_ numbers: some Sequence<Int>) -> FeedSource {
    .tuples(numbers.map { .dead($0, at: 1_700_000_000 + UInt32($0)) })
}

@Suite("The first hold of a table, and the only one", .serialized)
struct FirstLookTests {
    private static func stage(
        _ engine: TestEngine = .sqlite, _ feeds: FeedSource...
    ) throws -> SweepStage {
        let stage = try SweepStage(engine, feeds: feeds)
        try stage.database.register(0..<2_000, at: before)
        return stage
    }

    /// Adds a second app whose list is held too.
    private static func addOther(_ stage: SweepStage) throws -> FeedbackGateway {
        let other = try FeedbackGateway(
            certificates: SweepStage.certificates.get(), feeds: [feed(5_000..<5_200)])
        stage.lines.apps = """
              - name: talk
                topic: com.example.talk
                environment: production
                \(stage.lines.certificate)
                feedback: {host: 127.0.0.1, port: \(other.port), ca: \(stage.lines.ca)}
            """
        for number in 5_000..<5_200 {
            try stage.database.register(.numbered(number), at: before, app: "talk")
        }
        return other
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
        try stage.run("holds", "release").ends(0)
        // What comes after it is no first look, whoever released it.
        try stage.run("sweep").ends(3, "900 of ").lacks("first look").lacks("holds release DIGEST")
        try stage.swept(dryRun: true).lacks("firstLook")
    }

    @Test("a hold for another cause than its size is no first look")
    func suspicion() throws {
        let stage = try Self.stage(.sqlite, .tuples((0..<900).map { .dead($0, at: 1_700_000_000) }))
        try stage.run("sweep").ends(3, "since the same moment").lacks("first look")
    }

    @Test("the only hold is shown, released and discarded without its name")
    func only() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900), feed(1_000..<1_900))
        for words in [["show"], ["release"], ["discard", "--reason", "x"]] {
            try stage.run(["holds"] + words).ends(64, "nothing is held", for: "\(words)")
        }
        try stage.json("sweep").ends(3).app(has: ["firstLook": true])
        let shown = try stage.shown()
        try stage.run("holds", "show").ends(0, "digest: \(shown["digest"] ?? "none")")
        try stage.run("holds", "release", "--reason", "looked at").ends(0, "900 became invalid")
        #expect(try stage.database.rows(of: "active_users", "invalidated_at IS NOT NULL") == 900)
        try stage.swept().ends(3)
        try stage.run("holds", "discard", "--reason", "a mistake").ends(0, "1 held feed discarded")
        #expect(try stage.holdList().isEmpty)
    }

    @Test("with several holds none is chosen, and they are listed")
    func several() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900))
        let other = try Self.addOther(stage)
        defer { other.stop() }
        try stage.swept().ends(3)
        let names = try stage.holdList().compactMap { $0["hold"] as? String }
        #expect(names.count == 2)
        for words in [["show"], ["release"], ["discard", "--reason", "x"]] {
            try stage.run(["holds"] + words).ends(
                64, "2 are open, name one of them", "\(names[0])  ", "\(names[1])  ",
                "talk/production")
        }
        #expect(try stage.holdList().count == 2)
    }

    @Test("of a hold with several feeds none is discarded without a name or --all")
    func feeds() throws {
        let stage = try Self.stage(.sqlite, feed(0..<900), feed(1_000..<1_010))
        try stage.swept().ends(3)
        try stage.swept().ends(3)
        try stage.run("holds", "discard", "--reason", "x").ends(64, "it has 2 feeds", "--all")
        try stage.run("holds", "discard", "--all", "--reason", "x").ends(
            0, "2 held feeds discarded")
    }
}
