import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000

@Suite("Evidence that a run was not about", .serialized)
struct WaitingEvidenceTests {
    private func write(
        _ name: String, _ numbers: Range<Int>, _ stage: SweepStage
    ) throws -> String {
        let tuples = numbers.map { FeedbackTuple.dead($0, at: start) }
        return try stage.folder.write(name, FeedbackTuple.bytes(tuples))
    }

    @Test("a replay beside an older feed that waits ends with 75, and says which feed and how much")
    func pending() throws {
        let stage = try SweepStage(feeds: [.tuples([])])
        try stage.database.register(0..<400, at: before)
        let halt = try stage.folder.write("halt", "")
        let older = try write("older.bin", 0..<30, stage)
        stage.lines.limits = "throttle: {stop-file: \(halt)}"
        for _ in 0..<2 { try stage.replayed(older).ends(75) }
        try stage.swept().ends(75).lacks("other evidence")
        try FileManager.default.removeItem(atPath: halt)
        let replay = try stage.replayed(try write("new.bin", 100..<105, stage)).ends(75).app(
            has: ["applied": 5]).json(has: ["waiting": 60])
        #expect(replay.closingLine == "code=75 stage=done pending=60 applied=5 held=0 next=rerun")
        let feed = try #require(
            replay.error.firstMatch(
                of:
                    /other evidence waits: list .*, list .* replay --batch ([0-9a-f-]+)/
            )
        ).1
        try stage.replayed(feed: "\(feed)").ends(75).app(has: ["applied": 30]).json(has: [
            "waiting": 30
        ])
        let last = try stage.swept().ends(0)
        #expect(last.json["waiting"] == nil && !last.error.contains("other evidence"))
    }

    @Test("a replay beside a feed of another app that is held ends with 3, and names it")
    func held() throws {
        let stage = try SweepStage(feeds: [.tuples((0..<500).map { .dead($0, at: start) })])
        stage.lines.apps = """
              - name: talk
                topic: com.example.talk
                environment: production
            """
        try stage.database.register(0..<500, at: before)
        try stage.database.register(.numbered(700), at: before, app: "talk")
        let sweep = try stage.swept().ends(3).lacks("other evidence")
        let replay = try stage.replayed(
            try write("talk.bin", 700..<701, stage), app: "talk"
        ).ends(3).app(has: ["applied": 1])
        let feed = try #require(sweep.app()["batch"] as? String)
        replay.says(
            "other evidence is held: batch \(feed) of chat/production; see pushsweep holds list")
    }
}
