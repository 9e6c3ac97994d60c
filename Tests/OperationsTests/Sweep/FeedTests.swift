import APNsProtocol
import APNsSimulator
import Foundation
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
        // What the database does with it is its own tests' matter.
        for engine in feed.description == "base" ? TestEngine.available : [.sqlite] {
            let stage = try SweepStage(
                engine, feeds: [.tuples(feed.tuples)], behaviour: feed.behaviour)
            stage.lines.limits = SweepStage.anyNumber
            for tuple in feed.tuples {
                guard let token = tuple.token else { continue }
                try stage.database.register(token, at: 1_600_000_000_000)
            }
            let result = try stage.swept().ends(feed.exit, for: "\(engine)")
            let app = result.app()
            #expect(app["end"] as? String == feed.end)
            #expect(app["tuples"] as? Int == feed.tuples.count)
            #expect(app["applied"] as? Int == feed.tuples.count)
            #expect(app["quarantinedBytes"] as? Int == feed.quarantinedBytes)
            #expect(try stage.database.rows(of: "active_users", "invalidated_at IS NULL") == 0)
            try stage.swept().app(has: ["tuples": 0])
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
        let result = try stage.swept().ends(65)
        let app = result.app()
        #expect(app["end"] as? String == "clean")
        #expect(app["tuples"] as? Int == 6)
        #expect(app["applied"] as? Int == 1)
        #expect(app["already"] as? Int == 1)
        #expect(app["quarantined"] as? Int == 4)
        #expect(try stage.database.marked == 1)
        try stage.run("quarantine", "list").says(
            "a token of zero bytes", "time 0", "ahead of this machine's clock", "before June 2009",
            "in 4 parts")
        let json = try stage.json("quarantine", "list").json
        let feeds = try #require(json["batches"] as? [[String: Any]])
        #expect(feeds.count == 1 && feeds[0]["places"] as? Int == 4 && json["exit"] as? Int == 0)
        #expect((feeds[0]["first"] as? [[String: Any]])?.count == 4)
    }

    @Test("the sweep stops decoding at an impossible length and keeps the rest raw")
    func misframed() throws {
        let garbage = [UInt8](repeating: 0x7f, count: 40_000)
        let stage = try SweepStage(
            feeds: [.bytes(FeedbackTuple.bytes([.dead(1, at: start)]) + garbage)])
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        let result = try stage.swept().ends(65).app(has: [
            "end": "misframed", "applied": 1, "quarantinedBytes": garbage.count,
        ])
        let id = try #require(result.app()["batch"] as? String)
        let file = stage.folder.file("exported")
        try stage.json("quarantine", "export", id, file).ends(0).json(has: [
            "bytes": garbage.count
        ])
        #expect(try Array(Data(contentsOf: URL(fileURLWithPath: file))) == garbage)
        try stage.run("quarantine", "export", id, file).ends(73)
        try stage.json("quarantine", "discard", id).ends(0).json(has: ["places": 5])
        #expect(try stage.run("quarantine", "list").output == "nothing is quarantined\n")
    }

    @Test("the sweep distinguishes an end without close_notify from a complete list")
    func withoutCloseNotify() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .noCloseNotify
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: start)])], behaviour: behaviour)
        try stage.database.register(.numbered(1), at: 1_600_000_000_000)
        try stage.swept().ends(76).app(has: ["end": "truncated", "applied": 1])
    }

    @Test("silence on a tuple boundary ends the list, silence inside a tuple is a fault")
    func silence() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let whole = try SweepStage(feeds: [.tuples([.dead(1, at: start)])], behaviour: behaviour)
        whole.lines.feedbackOptions = "idle-timeout: 200ms"
        try whole.swept().ends(0).app(has: ["end": "idle"])

        let bytes = FeedbackTuple.bytes([.dead(1, at: start), .dead(2, at: start)])
        let half = try SweepStage(feeds: [.bytes(Array(bytes.dropLast(10)))], behaviour: behaviour)
        half.lines.feedbackOptions = "idle-timeout: 200ms"
        try half.database.register(.numbered(1), at: 1_600_000_000_000)
        try half.swept().ends(75).app(has: ["end": "timeout", "applied": 1, "quarantinedBytes": 28])
    }

    @Test("the sweep reads an endless feed up to the limit, holds it, and applies it on request")
    func endless() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.isEndless = true
        let stage = try SweepStage(
            feeds: [.tuples((0..<100).map { .dead($0, at: start + UInt32($0)) })],
            behaviour: behaviour)
        stage.lines.feedbackOptions = "max-bytes: 76000\n      handshake-timeout: 100ms"
        try stage.database.register(0..<100, at: 1_600_000_000_000)
        let result = try stage.swept().ends(3).app(has: ["held": 2_000, "applied": 0]).says(
            "held=2000")
        let id = try #require(result.app()["batch"] as? String)
        stage.gateway.stop()
        try stage.swept().ends(3).app(has: ["batch": id, "held": 2_000])
        try stage.replayed(feed: id).ends(0).app(has: [
            "applied": 100, "state": "applied",
        ])
    }
}
