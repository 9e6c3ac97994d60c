import APNsProtocol
import Database
import Findings
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Suspects")
struct SuspectTests {
    private struct Source: ReportSource {
        var rest: ArraySlice<NumberedReport>

        mutating func next(_ limit: Int) -> [NumberedReport] {
            defer { rest = rest.dropFirst(limit) }
            return Array(rest.prefix(limit))
        }
    }

    /// Fills a batch with one report about each token, or with several, a millisecond apart.
    private static func fill(
        _ store: TokenTable, _ tokens: Range<Int>, at time: Int64, _ id: String,
        _ source: EvidenceSource = .badDeviceToken, times: Int = 1
    ) throws {
        let batch = ReportBatch(
            id: id, run: "r", chat, source, .table, label: "pushsweep_evidence", host: "h",
            opened: EpochMilliseconds(start))
        let reports = tokens.map { DeviceToken.numbered($0) }.sorted().flatMap { token in
            (0..<times).map {
                NumberedReport(token: token, number: $0, time: EpochMilliseconds(time + Int64($0)))
            }
        }
        #expect(try store.fill(batch) { _ in Source(rest: reports[...]) })
    }

    private static func note(
        _ store: TokenTable, _ id: String, _ source: EvidenceSource = .badDeviceToken
    ) throws -> BatchProgress {
        try store.noteSuspects(
            BatchApplication(
                run: "r", batch: id, partition: chat, policy: RemovalPolicy(), source: source,
                mapping: "mapping", hearing: .unknown))
    }

    @Test(
        "a token becomes suspect only where a living row has it, whatever statement fails, and is counted once",
        arguments: TestEngine.available)
    func faults(_ engine: TestEngine) throws {
        func run(_ fault: FaultyConnection.Fault?) throws -> Int {
            let database = try TokenDatabase.own(engine)
            try database.register(0..<40, at: start)
            try database.execute(
                "UPDATE active_users SET invalidated_at = registered_at WHERE device_token IN (?, ?)",
                [.bytes(DeviceToken.numbered(3).bytes), .bytes(DeviceToken.numbered(4).bytes)])
            try Self.fill(database.store(), 0..<60, at: start + 5, "b")
            let connection = FaultyConnection(database.driver(), fault.map { [$0] } ?? [])
            let failing = try TokenTable(
                database.settings, connection, Pacing(firstChunk: 16, sleep: { _ in }))
            _ = try? Self.note(failing, "b")
            let progress = try Self.note(database.store(), "b")
            #expect(
                progress.isApplied && progress.counts.applied == 38
                    && progress.counts.already == 2 && progress.counts.unknown == 20,
                "\(fault as Any): \(progress.counts)")
            #expect(try database.rows(of: "pushsweep_report") == 0)
            #expect(
                try database.texts("SELECT COUNT(*), SUM(times) FROM pushsweep_suspect")
                    == [["38", "38"]], "\(fault as Any)")
            #expect(try database.rows(where: "invalidated_at IS NOT NULL") == 2)
            return connection.operations
        }
        let count = try run(nil)
        for fault in FaultyConnection.Fault.spread(over: count, most: 24, on: engine) {
            _ = try run(fault)
        }
    }

    @Test(
        "what a person discarded meanwhile makes no token suspect", arguments: TestEngine.available)
    func discarded(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try database.register(0..<3, at: start)
        try Self.fill(store, 0..<3, at: start + 5, "b")
        #expect(try Batches(store).discard("b", in: .waiting, because: "gone", run: "me"))
        #expect(throws: StoreFailure.self) { try Self.note(store, "b") }
        #expect(try database.rows(of: "pushsweep_suspect") == 0)
        #expect(try database.rows(of: "pushsweep_report") == 3)
        #expect(try Batches(store).batch("b")?.state == .discarded)
    }

    @Test(
        "each answer of a batch is counted, also where several are about one token",
        arguments: TestEngine.available)
    func counted(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try database.register(0..<2, at: start)
        try database.update("invalidated_at = registered_at", of: 1)
        try Self.fill(store, 0..<4, at: start + 5, "bad", times: 3)
        let bad = try Self.note(store, "bad").counts
        #expect(bad.applied == 3 && bad.already == 3 && bad.unknown == 6, "\(bad)")
        #expect(try Suspects(store).among([.numbered(0)]).map(\.times) == [3])
        try Self.fill(store, 0..<4, at: start + 50, "good", .accepted, times: 2)
        let good = try Self.note(store, "good", .accepted).counts
        #expect(good.applied == 2 && good.already == 0 && good.unknown == 6, "\(good)")
    }

    @Test(
        "a later report moves the last time and the reason, an earlier one the first, and the same one nothing",
        arguments: TestEngine.available)
    func merged(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try database.register(0..<1, at: start)
        for (id, time, source) in [
            ("a", 500, EvidenceSource.badDeviceToken), ("b", 900, .deviceTokenNotForTopic),
            ("c", 100, .badDeviceToken),
        ] {
            try Self.fill(store, 0..<1, at: start + Int64(time), id, source)
            _ = try Self.note(store, id, source)
        }
        let found = try #require(try Suspects(store).among([.numbered(0)]).first)
        #expect(found.reason == "DeviceTokenNotForTopic" && found.times == 2)
        #expect(found.first.rawValue == start + 100 && found.last.rawValue == start + 900)
        // What is reported again is no other answer.
        try Self.fill(store, 0..<1, at: start + 900, "d", .deviceTokenNotForTopic)
        _ = try Self.note(store, "d", .deviceTokenNotForTopic)
        #expect(try Suspects(store).among([.numbered(0)]) == [found])
        let counts = try Suspects(store).counts()
        #expect(counts.map(\.tokens) == [1] && counts[0].partition == chat)
    }

    @Test(
        "what APNs accepted later is suspected no more, and what it accepted or called dead before blames the sender",
        arguments: TestEngine.available)
    func accepted(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try database.register(0..<8, at: start)
        // A device that was dead and came back, in the ledger and in the reports.
        for (number, id) in [(0, "ledger"), (1, "report")] {
            try Self.fill(store, number..<number + 1, at: start + 1, id, .unregistered)
            try store.sweep(id, [.dead(number, at: start + 1)])
            try database.update(
                "registered_at = ?, invalidated_at = NULL", [database.time(start + 60_000)],
                of: number)
        }
        try database.execute(
            "UPDATE pushsweep_batch SET state = 'applied' WHERE name = 'report'")
        try database.execute(
            "DELETE FROM pushsweep_report WHERE token = ?", [.bytes(DeviceToken.numbered(0).bytes)])
        try database.execute(
            "DELETE FROM pushsweep_change WHERE token = ?", [.bytes(DeviceToken.numbered(1).bytes)])
        try Self.fill(store, 0..<6, at: start + 100_000, "bad")
        _ = try Self.note(store, "bad")
        func counts() throws -> [[Int]] {
            try Suspects(store).counts().map { [$0.tokens, $0.accepted] }
        }
        #expect(try counts() == [[6, 2]])
        // Of tokens that nobody suspects nothing is kept; what came before clears nothing.
        try Self.fill(store, 2..<8, at: start + 50_000, "before", .accepted)
        let early = try Self.note(store, "before", .accepted)
        #expect(early.isApplied && early.counts.applied == 4 && early.counts.unknown == 2)
        #expect(try counts() == [[6, 6]])
        try Self.fill(store, 3..<5, at: start + 200_000, "after", .accepted)
        _ = try Self.note(store, "after", .accepted)
        #expect(try counts() == [[4, 4]])
        #expect(
            try Suspects(store).open(among: [.numbered(3), .numbered(5)], of: chat) == [
                .numbered(5)
            ])
        #expect(try Suspects(store).among([.numbered(3)]).first?.isCleared == true)
        #expect(try Suspects(store).among([.numbered(3)]).first?.times == 1)
        // An earlier acceptance does not take the later one back; a bad answer after it counts again.
        try Self.fill(store, 3..<4, at: start + 60_000, "late", .accepted)
        _ = try Self.note(store, "late", .accepted)
        #expect(try counts() == [[4, 4]])
        try Self.fill(store, 3..<4, at: start + 300_000, "again")
        _ = try Self.note(store, "again")
        #expect(try counts() == [[5, 5]])
        #expect(try database.rows(of: "pushsweep_suspect") == 6)
        // A 410 that came after the 400, and whose device came back, is written down by the next sweep.
        try Self.fill(store, 7..<8, at: start + 70_000, "bad once more")
        _ = try Self.note(store, "bad once more")
        try store.sweep("dead", [.dead(7, at: start + 71_000)])
        try database.update(
            "registered_at = ?, invalidated_at = NULL", [database.time(start + 80_000)], of: 7)
        #expect(try Suspects(store).among([.numbered(7)]).first?.accepted == nil)
        try Suspects(store).trim(at: store.session.databaseTime(), [chat: "mapping"])
        #expect(
            try Suspects(store).among([.numbered(7)]).first?.accepted
                == EpochMilliseconds(start + 71_000))
        #expect(try database.rows(of: "pushsweep_suspect") == 7)
        #expect(try database.rows(where: "invalidated_at IS NOT NULL") == 0)
        #expect(
            try database.rows(
                of: "pushsweep_report",
                "batch IN (SELECT number FROM pushsweep_batch WHERE source IN ('BadDeviceToken', 'Accepted'))"
            )
                == 0)
    }

    @Test(
        "a suspect goes with its row, with its mark, and 30 days after the last report; of another host's app, or by another host's mapping, with its time alone",
        arguments: TestEngine.available)
    func trimmed(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        let now = try store.session.databaseTime()
        try database.register(0..<2_000, at: start)
        try Self.fill(store, 0..<1_990, at: now.rawValue - 5, "young")
        try Self.fill(store, 1_990..<2_000, at: start, "old")
        for id in ["young", "old"] { _ = try Self.note(store, id) }
        let old = store.connection.dialect.ownTime("changed_at").value(
            now.advanced(by: -31 * 86_400_000))
        for number in 1_990..<2_000 {
            try database.execute(
                "UPDATE pushsweep_suspect SET changed_at = ? WHERE token = ?",
                [old, .bytes(DeviceToken.numbered(number).bytes)])
        }
        #expect(try database.rows(of: "pushsweep_suspect") == 2_000)
        try database.execute(
            "DELETE FROM active_users WHERE device_token = ?",
            [.bytes(DeviceToken.numbered(0).bytes)])
        try database.execute(
            "UPDATE active_users SET invalidated_at = registered_at WHERE device_token = ?",
            [.bytes(DeviceToken.numbered(1).bytes)])
        for others in [
            [:], [chat: "another", Partition(app: "mail", environment: "production"): "mapping"],
        ] {
            try Suspects(store).trim(at: now, others)
            #expect(try database.rows(of: "pushsweep_suspect") == 1_990)
        }
        try Suspects(store).trim(at: now, [chat: "mapping"])
        #expect(try database.rows(of: "pushsweep_suspect") == 1_988)
        #expect(try Suspects(store).among([.numbered(0), .numbered(1)]).isEmpty)
    }
}

@Suite("What cannot be used")
struct QuarantineTests {
    private static func parts(_ places: Range<Int>) -> [QuarantinedPart] {
        places.map {
            QuarantinedPart(
                place: $0, bytes: [UInt8](repeating: UInt8($0 % 251), count: $0 == 0 ? 9_000 : 3),
                reason: $0.isMultiple(of: 3) ? "one" : "other",
                token: $0 == 5 ? .numbered(5) : nil)
        }
    }

    @Test(
        "parts are kept once however often, whole up to 8 KiB, found by token and reason, and discarded in steps",
        arguments: TestEngine.available)
    func kept(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        let quarantine = Quarantine(store)
        for name in ["a", "b", "c"] {
            try store.begin(
                ReportBatch(
                    id: name, run: "r", chat, .feedback, .gateway, label: "l", host: "h",
                    opened: EpochMilliseconds(start)))
        }
        let least = QuarantinedPart(place: .min, bytes: [1], reason: "least", token: nil)
        try quarantine.keep([least], of: "a")
        #expect(try quarantine.parts(of: "a", limit: 9) == [least])
        #expect(try quarantine.discard("a") == 1)
        for _ in 0..<2 { try quarantine.keep(Self.parts(0..<2_500), of: "b") }
        try quarantine.keep(Self.parts(0..<1), of: "c")
        let found = try quarantine.batches()
        #expect(found.map(\.batch) == ["b", "c"] && found.map(\.parts) == [2_500, 1])
        #expect(found[0].bytes == 9_000 + 3 * 2_499)
        let first = try quarantine.parts(of: "b", limit: 2)
        #expect(first[0].isCut && first[0].bytes.count == 8_192 && first[0].length == 9_000)
        #expect(first[1] == Self.parts(1..<2)[0])
        #expect(try quarantine.reasons(in: "b", limit: 1).map(\.parts) == [1_666])
        #expect(
            try quarantine.parts(about: .numbered(5), limit: 9).map(\.part) == Self.parts(5..<6))
        #expect(try quarantine.discard("b") == 2_500)
        #expect(try quarantine.batches().map(\.batch) == ["c"])
        #expect(try quarantine.discard("b") == 0)
    }
}
