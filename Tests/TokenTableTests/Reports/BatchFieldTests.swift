import APNsProtocol
import Encodings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("The fields of a batch and of a suspect")
struct BatchFieldTests {
    private static func batch(
        _ inlet: Inlet, _ source: EvidenceSource = .feedback, state: BatchState = .filling,
        origin: String? = nil, reports: Int = 0
    ) -> ReportBatch {
        var batch = ReportBatch(
            id: "b", run: "r", chat, source, inlet, label: "l", host: "h",
            opened: EpochMilliseconds(start))
        (batch.state, batch.origin, batch.reports) = (state, origin, reports)
        return batch
    }

    @Test("each column of a stored batch is a field of its own", arguments: TestEngine.available)
    func columns(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let token = DeviceToken.numbered(7)
        let time = (1...4).map { database.time(start + Int64($0) * 1_000) }
        try database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, app_name, environment, source, inlet, label, host, "
                + "opened_at, ending, detail, state, origin, reports, quarantined, "
                + "out_of_bounds, bytes, quarantined_bytes, last_token, applied, already, newer, "
                + "unknown_tokens, refused, invalidated, removed, asked_at, moved_to, changed_at) VALUES ('b', 'r', "
                + "'value', 'chat', 'sandbox', 'ExpiredToken', 'file', 'log', 'host', ?, 'truncated', "
                + "'a detail', 'held', 'from', 11, 12, 13, 14, 15, ?, 16, 17, 18, "
                + "19, 20, 22, 24, ?, 'next', ?)",
            [time[0], .bytes(token.bytes), time[2], time[3]])
        try database.execute(
            "INSERT INTO pushsweep_hold (batch, held_at, gate, cause, decision, terms) VALUES (\(batchNumber("b")), "
                + "?, 'volume', 'a cause', 'a reason', 'digest')", [time[1]])
        for (mapping, changed, refused) in [("m1", 20, 20), ("m2", 1, 3), ("m1", 0, 0)] {
            try database.execute(
                "INSERT INTO pushsweep_part (run, batch, app, environment, source, table_name, key_columns, mapping, "
                    + "rows_changed, rows_refused) VALUES ('r', \(batchNumber("b")), 'value', 'sandbox', 'ExpiredToken', "
                    + "'t', 'c', '\(mapping)', \(changed), \(refused))")
        }
        let batch = try #require(try Batches(database.store()).batch("b"))
        #expect([batch.id, batch.run, batch.label, batch.host] == ["b", "r", "log", "host"])
        #expect(batch.partition == Partition(app: "chat", environment: "sandbox"))
        #expect(batch.source == .expiredToken && batch.inlet == .file && batch.state == .held)
        #expect(batch.ending.rawValue == "truncated" && batch.detail == "a detail")
        #expect(
            batch.hold
                == BatchHold(
                    cause: "a cause", gate: .volume, since: EpochMilliseconds(start + 2_000)))
        #expect(batch.opened == EpochMilliseconds(start + 1_000))
        #expect(batch.asked == EpochMilliseconds(start + 3_000))
        #expect(batch.origin == "from" && batch.movedTo == "next" && batch.isReleased)
        #expect(batch.decision == "a reason" && batch.terms == "digest")
        #expect(batch.mappings == ["m1", "m2"] && batch.removed == 24)
        #expect([batch.reports, batch.quarantined, batch.outOfBounds] == [11, 12, 13])
        #expect([batch.bytes, batch.quarantinedBytes] == [14, 15])
        #expect(batch.progress.position == token && !batch.progress.isApplied)
        #expect(
            batch.progress.counts
                == Counts(applied: 16, already: 17, newer: 18, unknown: 19, refused: 20))
        #expect(batch.progress.rowsChanged == 21 && batch.progress.rowsInvalidated == 22)
        #expect(batch.progress.rowsRefused == 23)
        #expect(batch.counts.tuples == 23 && batch.counts.quarantined == 12)
        #expect(batch.counts.total == 90)
    }

    @Test("words of another version read as the least harmful", arguments: TestEngine.available)
    func unknownWords(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, environment, source, inlet, state, ending, "
                + "reports) VALUES ('b', 'r', 'chat', 'sandbox', 'odd', 'odd', 'odd', "
                + "'odd', 1)")
        try database.execute(
            "INSERT INTO pushsweep_hold (batch, gate, cause) VALUES (\(batchNumber("b")), 'odd', 'a cause')"
        )
        let batch = try #require(try Batches(database.store()).batch("b"))
        #expect(batch.source == .unusable && batch.inlet == .table && batch.state == .held)
        #expect(batch.ending == .clean && batch.hold == BatchHold(cause: "a cause", gate: nil))
        #expect(batch.opened == EpochMilliseconds(0) && batch.mappings.isEmpty)
        #expect(batch.asked == nil && batch.origin == nil && batch.movedTo == nil)
        #expect(!batch.isReleased && batch.progress.position == nil && batch.label.isEmpty)
    }

    @Test("only a file's own batch that is being filled is a draft, unless its lines are a list")
    func drafts() {
        #expect(Self.batch(.file, .unregistered).isDraft)
        #expect(!Self.batch(.file, .feedback).isDraft && !Self.batch(.table, .unregistered).isDraft)
        #expect(!Self.batch(.file, .unregistered, state: .waiting).isDraft)
        #expect(!Self.batch(.file, .unregistered, origin: "o").isDraft)
    }

    @Test("only a list's batch that is being filled and has nothing is unstored")
    func unstored() {
        #expect(Self.batch(.gateway).isUnstored && !Self.batch(.gateway, reports: 1).isUnstored)
        #expect(Self.batch(.file).isUnstored && !Self.batch(.file, .unregistered).isUnstored)
        #expect(!Self.batch(.gateway, state: .waiting).isUnstored)
    }

    @Test("earlier reports are judged by themselves unless a person moved or released them")
    func byItself() {
        var batch = Self.batch(.earlier)
        #expect(batch.isJudgedByItself && !Self.batch(.gateway).isJudgedByItself)
        #expect(!Self.batch(.earlier, origin: "o").isJudgedByItself)
        batch.isReleased = true
        #expect(!batch.isJudgedByItself)
    }

    private static func misplaced(
        reason: String = "BadDeviceToken", accepted: Int64? = nil, elsewhere: EvidenceSource? = nil,
        rows: Int = 1
    ) -> MisplacedToken {
        let time = EpochMilliseconds(10)
        let suspect = Suspect(
            token: .numbered(1), partition: chat, reason: reason, first: time, last: time, times: 1,
            accepted: accepted.map { EpochMilliseconds($0) },
            elsewhere: elsewhere.map { .init(answer: $0, time: time) }, heard: time,
            mapping: nil)
        let row = MisplacedRow(
            key: LedgerKey(ExactText("1"), of: .numbered(1)), registered: nil, values: [])
        return MisplacedToken(
            suspect: suspect, rows: Array(repeating: row, count: rows), isElsewhereToo: false)
    }

    @Test(
        "where a suspect stands goes by what is known here first, then by its rows and the other side"
    )
    func standings() {
        #expect(Self.misplaced(accepted: 1, elsewhere: .accepted).standing == .knownHere)
        #expect(Self.misplaced(elsewhere: .accepted, rows: 0).standing == .registeredSince)
        #expect(
            Self.misplaced(reason: "DeviceTokenNotForTopic", elsewhere: .accepted).standing
                == .otherTopic)
        #expect(Self.misplaced().standing == .notAsked)
        #expect(Self.misplaced(elsewhere: .accepted).standing == .accepted)
        #expect(Self.misplaced(elsewhere: .unregistered).standing == .dead)
        #expect(Self.misplaced(elsewhere: .badDeviceToken).standing == .neither)
        #expect(
            MisplacedToken.Standing.allCases.filter(\.isProof) == [.accepted, .dead])
    }

    @Test("a suspicion is cleared by what APNs accepted after it, and not at the same time")
    func cleared() {
        #expect(!Self.misplaced(accepted: 10).suspect.isCleared)
        #expect(
            Self.misplaced(accepted: 11).suspect.isCleared && !Self.misplaced().suspect.isCleared)
    }
}
