import APNsProtocol
import Foundation
import TestSupport
import Testing

@testable import Operations

private let before: Int64 = 1_600_000_000_000

/// The clocks of hosts differ; that of the database decides what is ahead, and what came after a person's no.
@Suite("One clock for all hosts")
struct OneClockTests {
    private static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

    @Test(
        "a host ten minutes behind or ahead takes fresh evidence of a gateway, a table and a file, and no later one",
        arguments: [-600_000, 600_000] as [Int64])
    func fresh(_ ahead: Int64) throws {
        let now = Self.now
        let stage = try SweepStage(
            .sqlite,
            feeds: [
                .tuples([
                    .dead(0, at: UInt32(now / 1_000)), .dead(1, at: UInt32(now / 1_000 + 480)),
                ])
            ])
        try stage.database.register(0..<6, at: before)
        try stage.database.report(DeviceToken.numbered(2).hex, time: now)
        try stage.database.report(DeviceToken.numbered(3).hex, time: now + 480_000)
        try stage.swept(clockAhead: ahead).ends(65)
        #expect(
            try stage.database.texts(
                "SELECT id FROM active_users WHERE invalidated_at IS NOT NULL ORDER BY id")
                == [["1"], ["3"]])
    }

    @Test(
        "an undo is taken back by nothing that a host ahead had heard before it",
        arguments: TestEngine.available)
    func undone(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [
                .tuples([.dead(0, at: 1_700_000_000)]), .tuples([]),
                .tuples([.dead(0, at: 1_700_000_000)]),
            ])
        try stage.database.register(0..<6, at: before)
        let first = try stage.swept().ends(0).json["run"] as? String ?? ""
        try stage.database.report(DeviceToken.numbered(0).hex, time: 1_700_000_000_000)
        try stage.undone(first).ends(0)
        try stage.swept(clockAhead: 600_000).ends(0)
        #expect(try stage.database.marked == 0)
        // The gateway names it again.
        try stage.swept(clockAhead: -600_000).ends(0)
        #expect(try stage.database.marked == 1)
    }

    @Test(
        "an undo since a time takes the time of the database, and not that of the host that made the changes",
        arguments: TestEngine.available)
    func since(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([.dead(0, at: 1_700_000_000)])])
        try stage.database.register(0..<6, at: before)
        let time = EpochMilliseconds(Self.now - 60_000).rfc3339
        try stage.swept(clockAhead: -3_600_000).ends(0)
        #expect(try stage.database.marked == 1)
        try stage.run("undo", "--since", time).ends(0, "1 taken back")
        #expect(try stage.database.marked == 0)
    }

    @Test("what a person replays counts from then on, also where he asked for it before an undo")
    func askedAgain() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<6, at: before)
        try stage.database.report(DeviceToken.numbered(0).hex, time: 1_700_000_000_000)
        let first = try stage.swept().ends(0).json["run"] as? String ?? ""
        // As an import with --again leaves its batch that was killed before it was judged.
        let asked = stage.database.time(Self.now - 1_000)
        try stage.database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, app_name, environment, source, state, inlet, "
                + "label, host, opened_at, ending, reports, changed_at, heard_at, asked_at) VALUES ('left', 'r', "
                + "'chat', 'chat', 'production', 'Unregistered', 'waiting', 'file', 'l', 'h', ?, 'clean', 1, ?, ?, ?)",
            [asked, asked, asked, asked])
        try stage.database.execute(
            "INSERT INTO pushsweep_report (batch, token, number, evidence_at, changed_at) VALUES (\(batchNumber("left")), ?, 0, ?, ?)",
            [.bytes(DeviceToken.numbered(0).bytes), stage.database.time(1_700_000_000_000), asked])
        try stage.undone(first).ends(0)
        try stage.replayed(feed: "left").ends(0)
        #expect(try stage.database.marked == 1)
    }

    @Test("an undo of a token takes back what a host ten minutes ahead did")
    func undoOfToken() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([.dead(0, at: 1_700_000_000)])])
        try stage.database.register(0..<6, at: before)
        try stage.swept(clockAhead: 600_000).ends(0)
        #expect(try stage.database.marked == 1)
        try stage.run("undo", "--token", DeviceToken.numbered(0).hex).ends(0, "1 taken back")
        #expect(try stage.database.marked == 0)
    }

    @Test("a row with a time of sending before an undo gives way, whenever it was inserted")
    func repeated() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<6, at: before)
        try stage.database.report(DeviceToken.numbered(0).hex, time: 1_700_000_000_000)
        let sent = Self.now
        let first = try stage.swept().ends(0).json["run"] as? String ?? ""
        try stage.undone(first).ends(0)
        // As SQL does that repeats all failures of a table.
        try stage.database.report(DeviceToken.numbered(0).hex, time: 1_700_000_000_000)
        try stage.database.execute(
            "UPDATE pushsweep_evidence SET sent_at = ?", [stage.database.time(sent)])
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 0)
        try stage.database.report(DeviceToken.numbered(0).hex, time: 1_700_000_000_000)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 1)
    }

    @Test("what was undone does not count in the guard's hour", arguments: TestEngine.available)
    func guardsHour(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<2_000, at: before)
        func report(_ numbers: Range<Int>) throws {
            for number in numbers {
                try stage.database.report(DeviceToken.numbered(number).hex, time: 1_700_000_000_000)
            }
        }
        try report(0..<90)
        let first = try stage.swept().ends(0).json["run"] as? String ?? ""
        try stage.undone(first).ends(0)
        #expect(
            try stage.database.texts("SELECT taken_back FROM pushsweep_part WHERE taken_back > 0")
                == [["90"]])
        try report(0..<90)
        try stage.swept().ends(0)
        #expect(try stage.database.marked == 90)
    }
}
