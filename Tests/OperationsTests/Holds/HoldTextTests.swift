import APNsProtocol
import Foundation
import Testing
import TokenHygiene
import TokenTable

@testable import Operations

@Suite("The text of a hold")
struct HoldTextTests {
    private static let chat = Partition(app: "chat", environment: "sandbox")

    private static func batch(
        _ id: String, _ label: String, held: Int64?, reports: Int, gate: GuardGate? = .volume
    ) -> ReportBatch {
        var batch = ReportBatch(
            id: id, run: "r", chat, .feedback, .gateway, label: label, host: "host of \(label)",
            opened: EpochMilliseconds(1_000))
        (batch.state, batch.reports, batch.bytes) = (.held, reports, reports * 38)
        batch.hold = BatchHold(
            cause: "cause of \(id)", gate: gate, since: held.map { EpochMilliseconds($0) })
        return batch
    }

    /// A hold of two batches.
    private static var hold: Hold {
        Hold(
            partition: chat,
            batches: [
                batch("b1", "g2", held: 2_000, reports: 3),
                batch("b2", "g1", held: nil, reports: 4),
            ])
    }

    /// The entry of the hold, with what a look found.
    private static func entry(_ more: [String: Any] = [:]) throws -> HoldEntry {
        var fields = try #require(
            JSONSerialization.jsonObject(with: JSONEncoder().encode(HoldEntry(hold)))
                as? [String: Any])
        fields.merge(more) { $1 }
        return try JSONDecoder().decode(
            HoldEntry.self, from: JSONSerialization.data(withJSONObject: fields))
    }

    @Test("a hold is known by its first batch, and has what all of them have")
    func entry() throws {
        let entry = HoldEntry(Self.hold)
        #expect(entry.hold == "b1" && entry.names == ["b1", "b2"] && entry.inlet == "gateway")
        #expect(entry.app == "chat" && entry.environment == "sandbox" && entry.gate == "volume")
        #expect(entry.sources == ["g1", "g2"] && entry.hosts == ["host of g1", "host of g2"])
        #expect(entry.cause == "cause of b1" && entry.since == "1970-01-01T00:00:02.000Z")
        #expect(entry.tuples == 7 && entry.bytes == 266)
        #expect(entry.candidates == nil && entry.living == nil && entry.judgement == nil)
        #expect(entry.gap == nil && Self.hold.since == EpochMilliseconds(2_000))
        let late = Hold(
            partition: Self.chat, batches: [Self.batch("b2", "g1", held: nil, reports: 4)])
        #expect(late.since == EpochMilliseconds(1_000) && late.reports == 4)
    }

    @Test("the list of holds says who is meant, why it is held, and what it would do now")
    func lines() throws {
        let head =
            "b1 chat/sandbox from g1, g2, since 1970-01-01T00:00:02.000Z: 2 batches, 7 reports"
        #expect(
            try Self.entry(["candidates": 5, "living": 200]).lines == [
                head, "  cause of b1",
                "  now: 5 of 200 living rows (2.5 %) would become invalid, by 7 reports; the guard would not "
                    + "stop them now",
            ])
        #expect(
            try Self.entry(["candidates": 1, "living": 3, "judgement": "too many"]).lines == [
                head, "  too many",
                "  now: 1 of 3 living rows (33.3 %) would become invalid, by 7 reports",
            ])
        #expect(try Self.entry(["gap": "no right"]).lines[2] == "  now: not known: no right")
        #expect(
            try Self.entry(["candidates": 0, "living": 0]).lines[2].hasPrefix(
                "  now: 0 of 0 living rows would become invalid, by"))
    }

    /// What a look found, in which each figure is another one.
    private static var details: HoldReport.Details {
        var details = HoldReport.Details(action: "mark")
        (details.digest, details.batches) = ("d1", hold.batches.map(HoldReport.Batch.init))
        (details.quarantined, details.tokens, details.applied, details.already) = (1, 2, 3, 4)
        (details.newer, details.unknown, details.registeredSince, details.spared) = (5, 6, 1, 1)
        details.registrations = [
            .init(registered: "this week", rows: 8), .init(registered: "x", rows: 0),
        ]
        details.ages = [
            .init(age: "under a day", tokens: 40), .init(age: "under a week", tokens: 1),
            .init(age: "in the future", tokens: 0),
        ]
        details.sample = [
            .init(token: "c9d4…", time: "t", user: "ada", registered: "r"),
            .init(token: "c8…", time: "u"),
        ]
        return details
    }

    @Test("what is shown of a hold has each figure in its place, and the commands that decide")
    func report() throws {
        let entry = try Self.entry(["candidates": 5, "living": 200])
        let lines = HoldReport(entry: entry, details: Self.details).lines
        let begin: [String] =
            [
                "chat/sandbox from g1, g2, held since 1970-01-01T00:00:02.000Z: 2 batches, 7 reports, 2 "
                    + "tokens", "cause: cause of b1",
                "now: 5 of 200 living rows (2.5 %) would become invalid (mark); of the reports 3 are about "
                    + "them, 4 about invalid rows, 5 about tokens that registered again, 6 about unknown "
                    + "tokens, 1 are quarantined", "judged again: the guard would not stop it now",
                "batches:",
                "  b1  gateway g2 on host of g2: 3 reports, heard 1970-01-01T00:00:01.000Z",
                "  b2  gateway g1 on host of g1: 4 reports, heard 1970-01-01T00:00:01.000Z",
            ]
        #expect(Array(lines.prefix(7)) == begin)
        let end: [String] =
            [
                "said to be dead:",
                "  under a day      40         ####################",
                "  under a week     1          #",
                "registered (rows that would become invalid):", "  this week            8",
                "1 row registered since it is held, so its device was alive",
                "a person undid or discarded what is said of 1 token, and a release makes it dead again",
                "for example:", "  c9d4… since t, user ada, registered r: pushsweep explain c9d4",
                "  c8… since u: pushsweep explain c8", "digest: d1",
                "to apply exactly this:  pushsweep holds release d1",
                "to drop one batch:      pushsweep holds discard BATCH --reason TEXT",
                "to drop all of it:      pushsweep holds discard b1 --all --reason TEXT",
            ]
        #expect(Array(lines.dropFirst(7)) == end)
    }

    @Test("a hold of one batch is dropped by its name, and what is refused names both ways")
    func decisions() throws {
        let entry = try Self.entry(["names": ["b1"], "candidates": 5, "living": 200])
        var details = Self.details
        (details.registeredSince, details.spared) = (2, nil)
        let report = HoldReport(entry: entry, details: details)
        #expect(
            report.lines.last == "to drop it:             pushsweep holds discard b1 --reason TEXT")
        #expect(
            report.lines.contains("2 rows registered since it is held, so their devices were alive")
        )
        #expect(
            report.digest == "d1" && report.unseen.exit == .usage && report.declined.exit == .held)
        #expect(
            report.unseen.description.contains("whether 5 of 200 living rows (2.5 %) would become"))
        #expect(report.unseen.description.hasSuffix("holds release d1"))
        #expect(report.declined.description.hasSuffix("holds release d1"))
    }

    @Test(
        "holds of the guard of one inlet are one, others stand alone, in the order of their times")
    func grouping() {
        let batches = [
            Self.batch("b3", "g", held: 9_000, reports: 1),
            Self.batch("b2", "g", held: 5_000, reports: 1),
            Self.batch("b4", "g", held: 7_000, reports: 1, gate: nil),
            Self.batch("b1", "g", held: 8_000, reports: 1, gate: nil),
        ]
        #expect(
            Hold.grouped(batches).map { $0.batches.map(\.id) } == [["b2", "b3"], ["b4"], ["b1"]])
        #expect(Hold.grouped([]).isEmpty)
    }
}
