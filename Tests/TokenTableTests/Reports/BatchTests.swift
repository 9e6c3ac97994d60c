import APNsProtocol
import Database
import Findings
import TestSupport
import Testing
import TokenHygiene
import TokenTable

/// Reports in memory.
struct ListedReports: ReportSource {
    var rest: ArraySlice<NumberedReport>

    init(_ all: [NumberedReport], after place: (token: DeviceToken, number: Int)?) {
        rest = all[...]
        guard let place else { return }
        rest = rest.drop { ($0.token, $0.number) <= (place.token, place.number) }
    }

    mutating func next(_ limit: Int) -> [NumberedReport] {
        defer { rest = rest.dropFirst(limit) }
        return Array(rest.prefix(limit))
    }
}

@Suite("Batches of reports")
struct BatchTests {
    /// Three reports about each token.
    private static func reports(_ tokens: Range<Int>) -> [NumberedReport] {
        tokens.map { DeviceToken.numbered($0) }.sorted().flatMap { token in
            (0..<3).map {
                NumberedReport(
                    token: token, number: $0, time: EpochMilliseconds(start + 9_000 - Int64($0)))
            }
        }
    }

    private static func batch(_ id: String = "b", inlet: Inlet = .gateway) -> ReportBatch {
        ReportBatch(
            id: id, run: "r", chat, .feedback, inlet, label: "gateway:2196", host: "h",
            opened: EpochMilliseconds(start))
    }

    private static func fill(
        _ store: TokenTable, _ all: [NumberedReport], into batch: ReportBatch = batch()
    ) throws -> Bool {
        try store.fill(batch) { ListedReports(all, after: $0) }
    }

    private static func settle(_ store: TokenTable, _ id: String = "b") throws -> BatchProgress {
        var stream = StoredReports(of: id, in: store)
        return try store.applyReports(
            &stream,
            BatchApplication(
                run: "r", batch: id, partition: chat, policy: RemovalPolicy(), source: .feedback,
                hearing: .unknown))
    }

    @Test(
        "a list that was to be held is held, where its host stored a part of it and does not come back",
        arguments: TestEngine.available)
    func heldInPart(_ engine: TestEngine) throws {
        let cause = "the feed reached feedback.max-bytes"
        for hold in [BatchHold(cause: cause, gate: nil), nil] {
            let database = try TokenDatabase.own(engine, 0..<70)
            let store = try database.store(pacing: Pacing(firstChunk: 16, sleep: { _ in }))
            var batch = Self.batch()
            batch.hold = hold
            let all = Self.reports(0..<70)
            var chunks = 0
            let isWhole = try store.fill(
                batch,
                shouldStop: {
                    chunks += 1
                    return chunks > 1
                }
            ) { ListedReports(all, after: $0) }
            try #require(!isWhole)
            try Batches(store).completeFilling()
            #expect(try Batches(store).batch("b")?.state == .filling)
            try database.execute(
                "UPDATE pushsweep_batch SET changed_at = \(database.sql.dialect.now(adding: -90_000))"
            )
            try Batches(store).completeFilling()
            let found = try #require(try Batches(store).batch("b"))
            #expect(found.state == (hold == nil ? .waiting : .held))
            #expect(found.hold?.cause == hold?.cause && found.reports > 0)
            #expect(found.ending == .truncated)
        }
    }

    @Test(
        "whatever statement of the filling fails, each report is in its batch once, and nobody judges half",
        arguments: TestEngine.available)
    func filling(_ engine: TestEngine) throws {
        let all = Self.reports(0..<70)
        let whole = try TokenDatabase.own(engine)
        let probe = FaultyConnection(whole.driver())
        #expect(try Self.fill(TokenTable(whole.settings, probe, hurried()), all))
        for kind in [SQLFailure.Kind.lost, .conflict] {
            for fault in FaultyConnection.Fault.spread(
                over: probe.operations, most: 40, last: 6, kind: kind, on: engine)
            {
                let database = try TokenDatabase.own(engine, 0..<70)
                let connection = FaultyConnection(database.driver(), [fault])
                connection.staysAway = kind == .lost
                do {
                    let store = try TokenTable(database.settings, connection, hurried())
                    _ = try Self.fill(store, all)
                } catch {
                    #expect((error as? StoreFailure)?.code != .inconsistent, "\(fault): \(error)")
                }
                let store = try database.store(pacing: hurried())
                if let left = try Batches(store).batch("b"), left.state == .filling {
                    #expect(throws: StoreFailure.self) { try Self.settle(store) }
                }
                #expect(try Self.fill(store, all))
                let batch = try #require(try Batches(store).batch("b"))
                #expect(batch.state == .waiting && batch.reports == 210, "\(fault): \(batch)")
                #expect(try database.rows(of: "pushsweep_report", "state = 0") == 210, "\(fault)")
                let progress = try Self.settle(store)
                #expect(progress.counts == Counts(applied: 70, already: 140), "\(fault)")
                #expect(
                    try database.texts(
                        "SELECT state, COUNT(*) FROM pushsweep_report GROUP BY state ORDER BY state"
                    )
                        == [["1", "70"], ["2", "140"]])
            }
        }
    }

    @Test(
        "where a server that takes over lacks stored reports, the filling ends, and the next one stores all",
        arguments: TestEngine.available)
    func takenOver(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<70)
        let all = Self.reports(0..<70)
        var chunks = 0
        let failure = #expect(throws: StoreFailure.self) {
            try database.store(pacing: hurried()).fill(
                Self.batch(),
                report: { _ in
                    chunks += 1
                    guard chunks == 1 else { return }
                    _ = try? database.sql.execute(
                        "DELETE FROM pushsweep_report WHERE number >= 0", [])
                    _ = try? database.sql.execute("DELETE FROM pushsweep_batch", [])
                }
            ) { ListedReports(all, after: $0) }
        }
        #expect(failure?.code == .commitUnknown, "\(failure as Any)")
        #expect(try Self.fill(database.store(pacing: hurried()), all))
        #expect(try database.rows(of: "pushsweep_report") == 210)
    }

    @Test(
        "each report has the outcome of its token, and the sum of outcomes is that of the batch",
        arguments: TestEngine.available)
    func outcomes(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.register(0..<300, at: start)
        try database.register(300..<340, at: start + 90_000_000)
        for number in 340..<350 {
            try database.register(.numbered(number), at: start, mark: start + 90_000)
        }
        // 350 to 399 are unknown, and row 7 refuses its change.
        try database.hold("device_token", "x'\(DeviceToken.numbered(7).hex)'")
        let store = try database.store(pacing: hurried())
        let all = (0..<400).map { DeviceToken.numbered($0) }.sorted().map {
            NumberedReport(token: $0, number: 0, time: EpochMilliseconds(start + 9_000))
        }
        #expect(try Self.fill(store, all))
        let progress = try Self.settle(store)
        #expect(
            progress.counts
                == Counts(applied: 299, already: 10, newer: 40, unknown: 50, refused: 1))
        #expect(
            try database.texts(
                "SELECT state, COUNT(*), COUNT(refusal), SUM(changed_at > evidence_at) "
                    + "FROM pushsweep_report GROUP BY state ORDER BY state") == [
                    ["1", "299", "0", "299"], ["2", "10", "0", "10"], ["3", "40", "0", "40"],
                    ["4", "50", "0", "50"], ["5", "1", "1", "1"],
                ])
        let history = ReportHistory(store)
        let refused = try history.reports(about: .numbered(7)).reports
        #expect(refused.map(\.state) == [.refused] && refused[0].refusal != nil)
        #expect(try history.reports(about: .numbered(310)).reports.map(\.state) == [.newer])
        #expect(try history.reports(about: .numbered(999)).reports == [])
    }

    @Test(
        "two runs that judge one batch decide each report once",
        arguments: TestEngine.available)
    func shared(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        let (one, other) = (
            try database.store(pacing: hurried()), try database.store(pacing: hurried())
        )
        let all = (0..<400).map { DeviceToken.numbered($0) }.sorted().map {
            NumberedReport(token: $0, number: 0, time: EpochMilliseconds(start + 9_000))
        }
        #expect(try Self.fill(one, all))
        let application = BatchApplication(
            run: "r", batch: "b", partition: chat, policy: RemovalPolicy(), source: .feedback,
            hearing: .unknown)
        var (first, second) = (
            StoredReports(of: "b", in: one), StoredReports(of: "b", in: other)
        )
        var turns = 0
        let half = try one.applyReports(
            &first, application,
            shouldStop: {
                turns += 1
                return turns > 1
            })
        #expect(!half.isApplied && half.counts.total > 0 && half.counts.total < 400)
        // What the other one has read before is decided meanwhile.
        let rest = try other.applyReports(&second, application)
        #expect(rest.isApplied && rest.counts == Counts(applied: 400))
        var again = StoredReports(of: "b", in: one)
        #expect(try one.applyReports(&again, application) == rest)
        #expect(try database.changedOnce(400))
        #expect(try database.rows(of: "pushsweep_report", "state = 1") == 400)
    }

    @Test(
        "a state is left by one of several that want to leave it", arguments: TestEngine.available)
    func transitions(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<5)
        let store = try database.store(pacing: hurried())
        let batches = Batches(store)
        for (name, inlet) in [("b", Inlet.file), ("c", .file), ("d", .sender)] {
            #expect(try Self.fill(store, Self.reports(0..<2), into: Self.batch(name, inlet: inlet)))
        }
        let cause = GuardCause.dayShare(removals: 9, living: 10, percent: 5)
        #expect(try batches.hold("b", BatchHold(cause: "\(cause)", gate: cause.gate)))
        #expect(try batches.hold("c", BatchHold(cause: "behind", gate: .behind)))
        // A held file holds back files, and no sender.
        #expect(try batches.holder(of: chat, .file)?.id == "b")
        #expect(try batches.holder(of: chat, .sender) == nil)
        #expect(throws: StoreFailure.self) { try Self.settle(store) }
        #expect(try !batches.release(["b", "d"], under: "t", as: "t"), "one of them is not held")
        #expect(try batches.batch("b")?.state == .held)
        #expect(try batches.discard("b", because: "a mistake", run: "me"))
        // The second of two people hears that it was not he; one whose answer was lost, that it was.
        #expect(try !batches.discard("b", because: "a mistake", run: "another"))
        #expect(try batches.discard("b", because: "a mistake", run: "me"))
        #expect(try !batches.hold("b", BatchHold(cause: "late", gate: nil)))
        #expect(try batches.batch("b")?.state == .discarded)
        try batches.releaseFollowers()
        #expect(try batches.batch("c")?.state == .waiting && batches.batch("c")?.asked == nil)
        // What a person asks for counts from then on, whatever becomes of the run.
        #expect(try batches.reopen("b", atWordOf: true) && batches.batch("b")?.asked != nil)
        #expect(try batches.hold("d", BatchHold(cause: "x", gate: .volume)))
        let since = EpochMilliseconds(start)
        try database.execute(
            "UPDATE pushsweep_hold SET held_at = ? WHERE batch = \(batchNumber("d"))",
            [database.time(start)])
        // Judged again and held again it waits since the first time, unless somebody had decided.
        #expect(try batches.reopen("d") && batches.hold("d", BatchHold(cause: "y", gate: .volume)))
        #expect(try batches.batch("d")?.hold?.since == since)
        #expect(try batches.discard("d", because: "a mistake", run: "me") && batches.reopen("d"))
        #expect(try batches.hold("d", BatchHold(cause: "z", gate: .volume)))
        #expect(try batches.batch("d")?.hold?.since != since)
        #expect(
            try batches.release(["d"], under: "t", as: "t")
                && batches.batch("d")?.isReleased == true)
        // The same again, as after a lost answer.
        #expect(try batches.release(["d"], under: "t", as: "t"))
        // Given up before it was judged, it comes back without its release.
        #expect(try batches.discard("d", in: .waiting, because: "gone", run: "me"))
        #expect(try batches.reopen("d") && batches.batch("d")?.isReleased == false)
    }

    @Test(
        "what changed nothing of several batches moves into one, whatever statement fails, and what changed rows stays",
        arguments: TestEngine.available)
    func moved(_ engine: TestEngine) throws {
        func stage() throws -> TokenDatabase {
            let database = try TokenDatabase.own(engine, 0..<3)
            let store = try database.store(pacing: hurried())
            for (name, tokens) in [("b", 0..<6), ("c", 4..<7), ("d", 2..<5)] {
                #expect(try Self.fill(store, Self.reports(tokens), into: Self.batch(name)))
                _ = try Self.settle(store, name)
            }
            try database.execute("UPDATE pushsweep_part SET mapping = 'a'")
            try database.execute("UPDATE pushsweep_batch SET opened_at = changed_at")
            try database.execute(
                "UPDATE pushsweep_report SET state = 5, refusal = 'x' WHERE batch = \(batchNumber("b")) AND number = 1 AND state = 4"
            )
            try database.execute(
                "UPDATE pushsweep_batch SET refused = 3, unknown_tokens = 6 WHERE name = 'b'")
            return database
        }
        func move(_ connection: any SQLConnection, _ database: TokenDatabase) throws {
            let batches = Batches(try TokenTable(database.settings, connection, hurried()))
            let next = Self.batch("n", inlet: .earlier)
            for old in try batches.judged(neverUnder: "t", about: chat) where old.id != "n" {
                _ = try batches.move(
                    .unmatched, of: old, to: next, under: "t", lease: nil)
            }
            if try batches.batch("n")?.state == .filling { try batches.closeMoved(next) }
        }
        let first = try stage()
        let probe = FaultyConnection(first.driver())
        try move(probe, first)
        for fault in FaultyConnection.Fault.spread(
            over: probe.operations, most: 60, last: 6, on: engine)
        {
            let database = try stage()
            let connection = FaultyConnection(database.driver(), [fault])
            connection.staysAway = true
            _ = try? move(connection, database)
            #expect(try database.rows(of: "pushsweep_report") == 36, "\(fault)")
            let store = try database.store(pacing: hurried())
            #expect(try ReportHistory(store).unbalanced(limit: 9) == [], "\(fault)")
            try move(database.driver(), database)
            let batches = Batches(store)
            #expect(try batches.judged(neverUnder: "t", about: chat) == [])
            // Of b the tokens 3 to 5, of c 4 to 6, of d 3 and 4; those that changed a row stay.
            #expect(try batches.batch("n")?.reports == 24, "\(fault)")
            #expect(try batches.batch("b")?.progress.counts == Counts(applied: 3, already: 6))
            #expect(try batches.batch("d")?.mappings == ["a", "t"])
            #expect(
                try database.rows(
                    of: "pushsweep_report",
                    "batch = \(batchNumber("n")) AND state = 0 AND number = 0")
                    == 4)
            for number in 3..<7 { try database.register(.numbered(number), at: start) }
            #expect(try Self.settle(store, "n").counts == Counts(applied: 4, already: 20))
            #expect(try ReportHistory(store).unbalanced(limit: 9) == [], "\(fault)")
        }
    }

    @Test(
        "reports move into a batch of their own when they are judged again, whatever statement fails",
        arguments: TestEngine.available)
    func again(_ engine: TestEngine) throws {
        func stage() throws -> (TokenDatabase, ReportBatch, ReportBatch) {
            let database = try TokenDatabase.own(engine, 0..<5)
            let store = try database.store(pacing: hurried())
            #expect(try Self.fill(store, Self.reports(0..<5)))
            _ = try Self.settle(store)
            try database.execute("UPDATE active_users SET invalidated_at = NULL")
            let old = try #require(try Batches(store).batch("b"))
            var next = Self.batch("n")
            next.origin = "b"
            return (database, old, next)
        }
        let (first, old, next) = try stage()
        let probe = FaultyConnection(first.driver())
        func move(_ store: TokenTable, _ old: ReportBatch, _ next: ReportBatch) throws -> Int {
            let moved = try Batches(store).move(.all, of: old, to: next, lease: nil)
            try Batches(store).closeMoved(next)
            return moved
        }
        #expect(try move(TokenTable(first.settings, probe, hurried()), old, next) == 15)
        for fault in FaultyConnection.Fault.spread(
            over: probe.operations, most: 40, last: 6, on: engine)
        {
            let (database, old, next) = try stage()
            let connection = FaultyConnection(database.driver(), [fault])
            connection.staysAway = true
            _ = try? move(TokenTable(database.settings, connection, hurried()), old, next)
            #expect(try database.rows(of: "pushsweep_report") == 15, "\(fault)")
            let store = try database.store(pacing: hurried())
            if try Batches(store).batch("n")?.state != .waiting {
                _ = try move(store, old, next)
            }
            #expect(try Self.settle(store, "n").counts == Counts(applied: 5, already: 10))
            #expect(try database.marked == 5, "\(fault)")
            #expect(try Batches(store).successors(of: "b").map(\.id) == ["n"])
        }
    }

    @Test(
        "reports about dead rows are kept for a day, others for thirty, and their batch counts what went",
        arguments: TestEngine.available)
    func retention(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<4)
        let store = try database.store(pacing: hurried())
        #expect(try Self.fill(store, Self.reports(0..<4)))
        _ = try Self.settle(store)
        #expect(try Self.fill(store, Self.reports(4..<6), into: Self.batch("w")))
        let now = try store.session.databaseTime()
        func left(after days: Int64) throws -> [Int] {
            try ReportRetention(store).trim(at: now.advanced(by: days * 86_400_000 + 60_000))
            return try ["b", "w"].map {
                try database.rows(of: "pushsweep_report", "batch = \(batchNumber($0))")
            }
        }
        #expect(try left(after: 0) == [12, 6])
        #expect(try left(after: 1) == [4, 6])
        #expect(try left(after: 29) == [4, 6])
        #expect(try left(after: 30) == [0, 6], "what waits is never removed")
        #expect(
            try database.texts(
                "SELECT reports, removed, trimmed FROM pushsweep_batch WHERE name = 'b'")
                == [["12", "12", "2"]])
    }
}
