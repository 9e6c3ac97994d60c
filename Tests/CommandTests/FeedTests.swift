import APNsProtocol
import APNsSimulator
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000

/// The six feeds on which existing readers lose or invent tokens, each with its correct end.
struct HostileFeed: Sendable, CustomStringConvertible {
    let description: String
    var tuples: [FeedbackTuple]
    var behaviour = FeedbackBehaviour()
    var end = "clean"
    var exit: Int32 = 0
    var quarantinedBytes = 0

    private static func tuples(_ count: Int, lengths: [Int] = [32]) -> [FeedbackTuple] {
        (0..<count).map {
            .dead($0, at: start + UInt32($0), count: lengths[$0 % lengths.count])
        }
    }

    static let all: [HostileFeed] = {
        let base = HostileFeed(description: "base", tuples: tuples(300))
        var mixed = base
        mixed = HostileFeed(
            description: "tokens of 32, 54, 80 and 100 bytes",
            tuples: tuples(300, lengths: [32, 54, 80, 100]))
        var records = HostileFeed(
            description: "records of 1 to 60 bytes", tuples: tuples(300, lengths: [12, 32, 54]))
        records.behaviour.writeSize = 7
        var pause = HostileFeed(description: "a pause of 300 ms", tuples: tuples(300))
        pause.behaviour.pause = .init(afterByte: 5_003, duration: .milliseconds(300))
        var stray = HostileFeed(description: "20 stray bytes, then a close", tuples: tuples(300))
        stray.behaviour.appendix = [UInt8](repeating: 0x41, count: 20)
        stray.end = "truncated"
        stray.exit = 65
        stray.quarantinedBytes = 20
        var reset = HostileFeed(
            description: "a reset after the last tuple", tuples: tuples(300))
        reset.behaviour.resetAfter = 300 * 38
        reset.end = "reset"
        reset.exit = 76
        return [base, mixed, records, pause, stray, reset]
    }()
}

@Suite("A sweep of a hostile feed")
struct FeedTests {
    @Test("the sweep applies every whole tuple and names the end", arguments: HostileFeed.all)
    func hostileFeeds(feed: HostileFeed) throws {
        for engine in TestEngine.available {
            let stage = try SweepStage(
                engine, feeds: [.tuples(feed.tuples)], behaviour: feed.behaviour)
            stage.lines.limits = SweepStage.anyNumber
            for tuple in feed.tuples {
                guard let token = tuple.token else { continue }
                try stage.database.register(token, at: 1_600_000_000_000)
            }
            let result = try stage.sweep()
            #expect(result.exit == feed.exit, "\(engine): \(result.error)")
            let app = result.app()
            #expect(app["end"] as? String == feed.end)
            #expect(app["tuples"] as? Int == feed.tuples.count)
            #expect(app["applied"] as? Int == feed.tuples.count)
            #expect(app["quarantinedBytes"] as? Int == feed.quarantinedBytes)
            #expect(
                try stage.database.count(
                    "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NULL") == 0)
            let again = try stage.sweep()
            #expect(again.app()["tuples"] as? Int == 0)
        }
    }

    @Test("the sweep reads past empty tokens and impossible times, and counts them")
    func uselessTuples() throws {
        let tuples = [
            FeedbackTuple(time: EpochSeconds(start), token: nil), .dead(1, at: start),
            .dead(2, at: 0), .dead(3, at: .max), .dead(4, at: 5), .dead(1, at: start - 9),
        ]
        let stage = try SweepStage(feeds: [.tuples(tuples)])
        for number in 1...4 {
            try stage.database.register(.numbered(number), at: 1_600_000_000_000)
        }
        let result = try stage.sweep()
        #expect(result.exit == 65)
        let app = result.app()
        #expect(app["end"] as? String == "clean")
        #expect(app["tuples"] as? Int == 6)
        #expect(app["applied"] as? Int == 1)
        #expect(app["already"] as? Int == 1)
        #expect(app["quarantined"] as? Int == 4)
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL") == 1)
        let list = try stage.run("quarantine", "list")
        #expect(list.output.contains("empty-token"))
        #expect(list.output.contains("zero-time"))
        #expect(list.output.contains("future"))
        #expect(list.output.contains("too-early") && list.output.contains("in 4 places"))
        let json = try stage.run("quarantine", "list", "--format", "json").json
        let feeds = try #require(json["feeds"] as? [[String: Any]])
        #expect(feeds.count == 1 && feeds[0]["places"] as? Int == 4 && json["exit"] as? Int == 0)
        #expect((feeds[0]["first"] as? [[String: Any]])?.count == 4)
    }

    @Test("the sweep stops decoding at an impossible length and keeps the rest raw")
    func misframed() throws {
        let garbage = [UInt8](repeating: 0x7f, count: 40_000)
        let stage = try SweepStage(
            feeds: [.bytes(FeedbackTuple.bytes([.dead(1, at: start)]) + garbage)])
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        let result = try stage.sweep()
        #expect(result.exit == 65)
        #expect(result.app()["end"] as? String == "misframed")
        #expect(result.app()["applied"] as? Int == 1)
        #expect(result.app()["quarantinedBytes"] as? Int == garbage.count)
        let id = try #require(result.app()["feed"] as? String)
        let file = stage.folder.file("exported")
        let export = try stage.run("quarantine", "export", id, file, "--format", "json")
        #expect(export.exit == 0 && export.json["bytes"] as? Int == 38 + garbage.count)
        #expect(try stage.run("quarantine", "export", id, file).exit == 73)
        let discard = try stage.run("quarantine", "discard", id, "--format", "json")
        #expect(discard.exit == 0 && discard.json["places"] as? Int == 1)
        #expect(try stage.run("quarantine", "list").output == "nothing is quarantined\n")
    }

    @Test("the sweep distinguishes an end without close_notify from a complete list")
    func withoutCloseNotify() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .noCloseNotify
        let stage = try SweepStage(
            feeds: [.tuples([.dead(1, at: start)])], behaviour: behaviour)
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        let result = try stage.sweep()
        #expect(result.exit == 76)
        #expect(result.app()["end"] as? String == "truncated")
        #expect(result.app()["applied"] as? Int == 1)
    }

    @Test("silence on a tuple boundary ends the list, silence inside a tuple is a fault")
    func silence() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let whole = try SweepStage(
            feeds: [.tuples([.dead(1, at: start)])], behaviour: behaviour)
        whole.lines.feedbackOptions = "idle-timeout: 200ms"
        let complete = try whole.sweep()
        #expect(complete.exit == 0, "\(complete.error)")
        #expect(complete.app()["end"] as? String == "idle")

        let bytes = FeedbackTuple.bytes([.dead(1, at: start), .dead(2, at: start)])
        let half = try SweepStage(
            feeds: [.bytes(Array(bytes.dropLast(10)))], behaviour: behaviour)
        half.lines.feedbackOptions = "idle-timeout: 200ms"
        try half.database.register(.numbered(1), at: 1_600_000_000_000)
        let cut = try half.sweep()
        #expect(cut.exit == 75)
        #expect(cut.app()["end"] as? String == "timeout")
        #expect(cut.app()["applied"] as? Int == 1)
        #expect(cut.app()["quarantinedBytes"] as? Int == 28)
    }

    @Test("the sweep reads an endless feed up to the limit, holds it, and applies it on request")
    func endless() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.isEndless = true
        let stage = try SweepStage(
            feeds: [.tuples((0..<100).map { .dead($0, at: start + UInt32($0)) })],
            behaviour: behaviour)
        stage.lines.feedbackOptions = "max-bytes: 76000"
        try stage.database.register(0..<100, at: 1_600_000_000_000)
        let result = try stage.sweep()
        #expect(result.exit == 3, "\(result.error)")
        #expect(result.app()["held"] as? Int == 2_000)
        #expect(result.app()["applied"] as? Int == 0)
        #expect(result.closingLine.contains("held=2000"))
        let id = try #require(result.app()["feed"] as? String)
        stage.gateway.stop()
        let later = try stage.sweep()
        #expect(later.exit == 3, "\(later.error)")
        #expect(later.app()["feed"] as? String == id)
        #expect(later.app()["held"] as? Int == 2_000)
        let release = try stage.run("replay", "--feed", id, "--format", "json")
        #expect(release.exit == 0, "\(release.error)")
        #expect(release.app()["applied"] as? Int == 100)
        #expect(release.app()["state"] as? String == "applied")
    }
}
