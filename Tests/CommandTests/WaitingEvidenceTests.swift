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
        for _ in 0..<2 {
            #expect(try stage.run("replay", older, "--stop-file", halt).exit == 75)
        }
        let stopped = try stage.start(["sweep", "--stop-file", halt]).wait()
        #expect(stopped.exit == 75 && !stopped.error.contains("other evidence"), "\(stopped.error)")
        try FileManager.default.removeItem(atPath: halt)
        let replay = try stage.run(
            "replay", try write("new.bin", 100..<105, stage), "--format", "json")
        #expect(replay.exit == 75, "\(replay.error)")
        #expect(replay.app()["applied"] as? Int == 5)
        #expect(replay.json["waiting"] as? Int == 60)
        #expect(replay.closingLine == "code=75 stage=done pending=60 applied=5 held=0 next=rerun")
        let feed = try #require(
            replay.error.firstMatch(
                of:
                    /other evidence waits in the journal: feed .*, feed .* replay --feed ([0-9a-f-]+)/
            )
        ).1
        let next = try stage.run("replay", "--feed", "\(feed)", "--format", "json")
        #expect(next.exit == 75 && next.app()["applied"] as? Int == 30, "\(next.error)")
        #expect(next.json["waiting"] as? Int == 30)
        let last = try stage.sweep()
        #expect(last.exit == 0, "\(last.error)")
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
        let sweep = try stage.sweep()
        #expect(sweep.exit == 3, "\(sweep.error)")
        #expect(!sweep.error.contains("other evidence"), "\(sweep.error)")
        let replay = try stage.run(
            "replay", try write("talk.bin", 700..<701, stage), "--app", "talk", "--format", "json")
        #expect(replay.exit == 3, "\(replay.error)")
        #expect(replay.app()["applied"] as? Int == 1)
        let feed = try #require(sweep.app()["feed"] as? String)
        #expect(
            replay.error.contains(
                "other evidence is held: feed \(feed) of chat/production; see pushsweep holds list"),
            "\(replay.error)")
    }
}
