import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Reports that a sender hears")
struct SenderReportTests {
    /// A queue with a claim of eight rows that a sender handed over, and reports about the last four.
    private struct Stage {
        let stage: QueueStage
        var claim: Batch
        let heard: [HeardReport]

        init(_ queueCase: QueueCase) throws {
            stage = try QueueStage(queueCase, 0..<10)
            let sender = try stage.queue(run: "sender")
            claim = try #require(try sender.claim(8))
            #expect(try sender.handOver(claim))
            heard = claim.notifications.suffix(4).map {
                HeardReport(
                    row: $0.row, token: $0.token, source: .unregistered,
                    time: EpochMilliseconds(1_700_000_000_000))
            }
        }

        var results: [DeliveryResult] {
            let gone = Set(heard.map(\.row))
            return claim.notifications.map(\.row).map {
                DeliveryResult(
                    key: $0, gone.contains($0) ? .gone(reason: "Unstart") : .sent)
            }
        }

        /// The batches with their state, and how many reports each has and says it has.
        func batches() throws -> [String] {
            let rows = try stage.database.sql.query(
                "SELECT f.state, f.inlet, f.reports, COUNT(r.token) FROM pushsweep_batch f LEFT JOIN "
                    + "pushsweep_report r ON r.batch = f.number GROUP BY f.name, f.state, f.inlet, f.reports "
                    + "ORDER BY f.state, f.reports", [])
            return (0..<rows.count).map { row in
                rows.row(row).map { $0.text ?? "\($0.integer ?? -1)" }.joined(separator: " ")
            }
        }

        /// Lets another sender take the claim.
        func takeAway() throws {
            try stage.endLeases()
            _ = try stage.queue(run: "other").reclaimExpired(resendUnknown: false)
        }
    }

    /// Faults at any statement of a call that has about twenty.
    private static let faults = FaultyConnection.Fault.spread(
        over: 20, most: Series.isLong ? 20 : 8)

    @Test(
        "each is inserted once with its row's result, whichever statement fails",
        arguments: QueueCase.crossed)
    func withResults(_ queueCase: QueueCase) throws {
        for fault in Self.faults {
            var stage = try Stage(queueCase)
            let (queue, _) = try stage.stage.queue([fault], run: "sender")
            let results = stage.results
            // The second call has the same results and more, as one after a failure has.
            for some in [results.suffix(3), results[...]] {
                let missing = try queue.record(
                    Array(some), of: &stage.claim, heard: stage.heard, from: PushQueue.origin)
                #expect(missing == 0, "\(fault)")
            }
            #expect(try stage.batches() == ["filling sender 4 4"], "\(fault)")
            #expect(try stage.stage.counts()[.gone] == 4, "\(fault)")
            #expect(try queue.closeBatches().map(\.reports) == [4], "\(fault)")
            #expect(try stage.batches() == ["waiting sender 4 4"], "\(fault)")
        }
    }

    @Test(
        "what was heard before a person's no and after it are batches apart, in one record and in a turn",
        arguments: QueueCase.crossed)
    func aroundRefusal(_ queueCase: QueueCase) throws {
        var stage = try Stage(queueCase)
        let queue = try stage.stage.queue(run: "sender")
        let now = try stage.stage.database.store().session.databaseTime()
        func refuse(_ name: String, at time: EpochMilliseconds) throws {
            try stage.stage.database.execute(
                "INSERT INTO pushsweep_run (id, kind, started, host, counts) VALUES (?, 'undo', ?, 'h', ?)",
                [
                    .text(name), stage.stage.database.time(time.rawValue),
                    .text(#"{"firstNote":\#(time.rawValue),"lastNote":\#(time.rawValue)}"#),
                ])
        }
        try refuse("first", at: now.advanced(by: -60_000))
        var heard = stage.heard
        heard[0].heard = now.advanced(by: -90_000)
        let results = stage.results
        _ = try queue.record(
            Array(results.suffix(2)), of: &stage.claim, heard: Array(heard.suffix(2)),
            from: PushQueue.origin)
        try refuse("second", at: try stage.stage.database.store().session.databaseTime())
        _ = try queue.record(
            results, of: &stage.claim, heard: Array(heard.prefix(2)), from: PushQueue.origin)
        // Two after the first no and before the second, one before both, one after both.
        #expect(try queue.closeBatches().map(\.reports).sorted() == [1, 1, 2])
    }

    @Test(
        "those of another reason are a batch apart, in one record and over the transactions of a turn",
        arguments: TestEngine.available)
    func reasons(_ engine: TestEngine) throws {
        var stage = try Stage(QueueCase(engine: engine, tables: .own))
        let queue = try stage.stage.queue(run: "sender")
        let heard = zip(0..., stage.heard).map { place, report in
            HeardReport(
                row: report.row, token: report.token,
                source: place.isMultiple(of: 2) ? .unregistered : .expiredToken, time: report.time)
        }
        for results in [stage.results.suffix(2), stage.results.dropLast(2)] {
            _ = try queue.record(
                Array(results), of: &stage.claim, heard: heard, from: PushQueue.origin)
        }
        let closed = try queue.closeBatches()
        #expect(closed.count == 2)
        for batch in closed {
            let tokens = try stage.stage.database.texts(
                "SELECT token FROM pushsweep_report WHERE batch = \(batchNumber(batch.id))")
            let own = heard.filter { $0.source == batch.source }.map(\.token.hex)
            #expect(Set(tokens.map { $0[0] }) == Set(own) && batch.reports == own.count)
        }
    }

    @Test(
        "those of a claim that another sender has taken are kept once, and its rows stay as they are",
        arguments: QueueCase.crossed)
    func taken(_ queueCase: QueueCase) throws {
        for fault in Self.faults {
            var stage = try Stage(queueCase)
            try stage.takeAway()
            let (queue, _) = try stage.stage.queue([fault], run: "sender")
            for _ in 1...2 {
                let missing = try queue.record(
                    stage.results, of: &stage.claim, heard: stage.heard, from: PushQueue.origin)
                #expect(missing == nil, "\(fault)")
            }
            #expect(try stage.batches() == ["filling sender 4 4"], "\(fault)")
            #expect(try stage.stage.counts()[.unknown] == 8, "\(fault)")
        }
    }

    @Test(
        "those that a sender has left are kept once, whatever became of its claim",
        arguments: QueueCase.crossed, ["open", "taken", "forgotten"])
    func left(_ queueCase: QueueCase, _ fate: String) throws {
        for fault in FaultyConnection.Fault.spread(over: 20, most: 4) {
            let stage = try Stage(queueCase)
            if fate != "open" { try stage.takeAway() }
            if fate == "forgotten" {
                try stage.stage.database.execute("DELETE FROM pushsweep_claim WHERE id > 0")
            }
            let (queue, _) = try stage.stage.queue([fault], run: "next")
            for _ in 1...2 {
                _ = try queue.settle(
                    stage.results, of: stage.claim.id, heard: stage.heard, from: PushQueue.origin)
            }
            #expect(try stage.batches() == ["filling sender 4 4"], "\(fault)")
            let gone = try stage.stage.counts()[.gone] ?? 0
            #expect(gone == (fate == "open" ? 4 : 0), "\(fault)")
        }
    }

    @Test(
        "a batch that was closed meanwhile gets no more, and another one is opened",
        arguments: TestEngine.available)
    func closedMeanwhile(_ engine: TestEngine) throws {
        var stage = try Stage(QueueCase(engine: engine, tables: .own))
        let queue = try stage.stage.queue(run: "sender")
        for (state, results) in zip(
            ["waiting", "applied"], [stage.results.suffix(2), stage.results.dropLast(2)])
        {
            _ = try queue.record(
                Array(results), of: &stage.claim, heard: stage.heard, from: PushQueue.origin)
            try stage.stage.database.execute(
                "UPDATE pushsweep_batch SET state = '\(state)' WHERE state = 'filling'")
        }
        #expect(try stage.batches() == ["applied sender 2 2", "waiting sender 2 2"])
        #expect(
            try queue.closeBatches().map(\.state).map(\.rawValue).sorted() == [
                "applied", "waiting",
            ])
        #expect(try queue.closeBatches().isEmpty)
    }

    @Test(
        "several about one token are numbered, also over the transactions of a turn",
        arguments: TestEngine.available)
    func repeated(_ engine: TestEngine) throws {
        var stage = try Stage(QueueCase(engine: engine, tables: .own))
        let queue = try stage.stage.queue(run: "sender")
        let rows = stage.claim.notifications
        let heard = rows.map { row in
            HeardReport(
                row: row.row, token: .numbered(row.row == rows[0].row ? 7 : 8),
                source: .expiredToken, time: EpochMilliseconds(row.row))
        }
        for results in [stage.results.prefix(5), stage.results.suffix(3)] {
            _ = try queue.record(
                Array(results), of: &stage.claim, heard: heard, from: PushQueue.origin)
        }
        let found = try stage.stage.database.sql.query(
            "SELECT token, MAX(number), COUNT(*), COUNT(DISTINCT number) FROM pushsweep_report "
                + "GROUP BY token ORDER BY COUNT(*)", [])
        let numbers = (0..<found.count).map { row in (1...3).map { found[row, $0].count ?? -1 } }
        #expect(numbers == [[0, 1, 1], [6, 7, 7]])
    }

    @Test(
        "the batch of a sender that has said nothing for five minutes is judged, and no other",
        arguments: TestEngine.available)
    func abandoned(_ engine: TestEngine) throws {
        var stage = try Stage(QueueCase(engine: engine, tables: .own))
        let queue = try stage.stage.queue(run: "sender")
        _ = try queue.record(
            stage.results, of: &stage.claim, heard: stage.heard, from: PushQueue.origin)
        let batches = try Batches(stage.stage.database.store())
        for (seconds, state) in [(290, "filling"), (310, "waiting")] {
            let dialect = stage.stage.database.sql.dialect
            try stage.stage.database.execute(
                "UPDATE pushsweep_batch SET changed_at = \(dialect.now(adding: -seconds))")
            try batches.completeFilling()
            try batches.closeAbandonedTurns()
            #expect(try stage.batches() == ["\(state) sender 4 4"])
        }
    }

    @Test(
        "the batch of a sender that is certainly gone is judged at once, and no other",
        arguments: TestEngine.available)
    func gone(_ engine: TestEngine) throws {
        var stage = try Stage(QueueCase(engine: engine, tables: .own))
        let queue = try stage.stage.queue(run: "sender")
        _ = try queue.record(
            stage.results, of: &stage.claim, heard: stage.heard, from: PushQueue.origin)
        let batches = try Batches(stage.stage.database.store())
        #expect(try batches.closeTurns(ofRuns: ["other"]).isEmpty)
        #expect(try stage.batches() == ["filling sender 4 4"])
        #expect(try batches.closeTurns(ofRuns: ["other", "sender"]).map(\.state) == [.waiting])
    }

    @Test(
        "a log that comes back after its claim was finished and forgotten stores another time and reason, and nothing twice",
        arguments: TestEngine.available)
    func restored(_ engine: TestEngine) throws {
        var stage = try Stage(QueueCase(engine: engine, tables: .own))
        let sender = try stage.stage.queue(run: "sender")
        _ = try sender.record(
            stage.results, of: &stage.claim, heard: stage.heard, from: PushQueue.origin)
        _ = try sender.closeBatches()
        try stage.stage.database.execute("DELETE FROM pushsweep_claim WHERE id > 0")
        let next = try stage.stage.queue(run: "next")
        let later = HeardReport(
            row: stage.heard[0].row, token: stage.heard[0].token, source: .unregistered,
            time: EpochMilliseconds(1_700_000_000_001))
        let other = HeardReport(
            row: stage.heard[1].row, token: stage.heard[1].token, source: .expiredToken,
            time: stage.heard[1].time)
        _ = try next.settle(
            stage.results, of: stage.claim.id, heard: stage.heard + [later, other],
            from: PushQueue.origin)
        #expect(
            try stage.batches() == [
                "filling sender 1 1", "filling sender 1 1", "waiting sender 4 4",
            ])
    }
}
