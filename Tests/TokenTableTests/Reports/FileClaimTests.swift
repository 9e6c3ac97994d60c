import APNsProtocol
import Findings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Files that are imported")
struct FileClaimTests {
    private static func reports(_ tokens: Range<Int>) -> [NumberedReport] {
        tokens.map { DeviceToken.numbered($0) }.sorted().map {
            NumberedReport(token: $0, number: 0, time: EpochMilliseconds(start))
        }
    }

    private static func batch(_ id: String, reports: Int, _ source: EvidenceSource) -> ReportBatch {
        var batch = ReportBatch(
            id: id, run: "r", source == .unusable ? .noApp : chat, source, .file, label: "file",
            host: "h", opened: EpochMilliseconds(start))
        (batch.reports, batch.quarantined) = (reports, source == .unusable ? 1 : 0)
        return batch
    }

    /// The batches of one file: two with reports, and one of what cannot be used.
    private static let batches = [
        batch("dead", reports: 40, .unregistered), batch("bad", reports: 3, .badDeviceToken),
        batch("line", reports: 0, .unusable),
    ]

    private static func fill(_ store: TokenTable) throws {
        for batch in batches {
            let all = reports(0..<batch.reports)
            #expect(
                try store.fill(batch, staysOpen: true) { ListedReports(all, after: $0) })
        }
        try Quarantine(store).keep(
            [QuarantinedPart(place: 7, bytes: [65], reason: "not JSON", token: nil)], of: "line")
    }

    private static func claim(
        _ store: TokenTable, _ name: String = "name", run: String = "r"
    ) throws -> Bool {
        try EvidenceIntake(store).claim(name, run: run, ReportCounts(), letting: batches)
    }

    /// Each batch with its state, the reports that it says it has, and those that are there.
    private static func states(_ database: TokenDatabase) throws -> [String] {
        let rows = try database.sql.query(
            "SELECT f.name, f.state, f.reports, COUNT(r.token) FROM pushsweep_batch f LEFT JOIN "
                + "pushsweep_report r ON r.batch = f.number GROUP BY f.name, f.state, f.reports ORDER BY f.name",
            [])
        return (0..<rows.count).map { row in
            rows.row(row).map { $0.text ?? "\($0.integer ?? -1)" }.joined(separator: " ")
        }
    }

    private static let whole = ["bad waiting 3 3", "dead waiting 40 40", "line applied 0 0"]
    private static let open = ["bad filling 3 3", "dead filling 40 40", "line filling 0 0"]

    @Test(
        "whatever statement fails, a file counts as a whole or not at all, and the next import completes it",
        arguments: TestEngine.available)
    func faults(_ engine: TestEngine) throws {
        let probed = try TokenDatabase.own(engine)
        let probe = FaultyConnection(probed.driver())
        let plain = try TokenTable(probed.settings, probe, hurried())
        try Self.fill(plain)
        #expect(try Self.claim(plain))
        for kind in [SQLFailure.Kind.lost, .conflict] {
            for fault in FaultyConnection.Fault.spread(
                over: probe.operations, most: Series.isLong ? 30 : 12, last: 8, kind: kind,
                on: engine)
            {
                let database = try TokenDatabase.own(engine)
                let connection = FaultyConnection(database.driver(), [fault])
                connection.staysAway = kind == .lost
                let isTaken = try? {
                    let store = try TokenTable(database.settings, connection, hurried())
                    try Self.fill(store)
                    return try Self.claim(store)
                }()
                let store = try database.store(pacing: hurried())
                let states = try Self.states(database)
                #expect(isTaken != true || states == Self.whole, "\(fault): \(states)")
                if try EvidenceIntake(store).isTaken("name") {
                    #expect(states == Self.whole, "\(fault)")
                } else {
                    #expect(states.allSatisfy { $0.contains(" filling ") }, "\(fault)")
                    try Batches(store).dropDrafts(lease: nil)
                    #expect(
                        try Self.states(database).allSatisfy { $0.hasSuffix(" filling 0 0") },
                        "\(fault)")
                    #expect(try database.rows(of: "pushsweep_quarantine") == 0, "\(fault)")
                    try Self.fill(store)
                    #expect(try Self.claim(store))
                }
                #expect(try Self.states(database) == Self.whole, "\(fault)")
            }
        }
    }

    @Test(
        "of two imports of one content one is taken", arguments: TestEngine.available)
    func once(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try Self.fill(store)
        #expect(try !EvidenceIntake(store).isTaken("name"))
        #expect(try Self.claim(store))
        #expect(try Self.states(database) == Self.whole)
        #expect(try Self.claim(store), "the answer to the first was lost")
        #expect(try !Self.claim(store, run: "other"))
        #expect(try EvidenceIntake(store).isTaken("name"))
    }

    @Test(
        "a file of which the database has lost a part is not taken", arguments: TestEngine.available
    )
    func behind(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try Self.fill(store)
        try database.execute("UPDATE pushsweep_batch SET reports = 39 WHERE name = 'dead'")
        let failure = #expect(throws: StoreFailure.self) { try Self.claim(store) }
        #expect(failure?.code == .inconsistent)
        #expect(try !EvidenceIntake(store).isTaken("name"))
        #expect(try Self.states(database).allSatisfy { $0.contains(" filling ") })
    }

    @Test(
        "what a killed import left is removed in steps, and no list of a gateway and no other batch with it",
        arguments: TestEngine.available)
    func drafts(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try Self.fill(store)
        let list = Self.batch("list", reports: 5, .feedback)
        #expect(
            try store.fill(list, staysOpen: true) { ListedReports(Self.reports(0..<5), after: $0) })
        let taken = Self.batch("taken", reports: 2, .unregistered)
        #expect(try store.fill(taken) { ListedReports(Self.reports(0..<2), after: $0) })
        // Several reports about one token stay together at the end of a step.
        try database.execute(
            "UPDATE pushsweep_report SET number = 1 WHERE batch = \(batchNumber("bad"))")
        try Batches(store).dropDrafts(lease: nil)
        let others = ["list filling 5 5", "taken waiting 2 2"]
        #expect(
            try Self.states(database)
                == ["bad filling 0 0", "dead filling 0 0", "line filling 0 0"] + others)
        #expect(try database.rows(of: "pushsweep_quarantine") == 0)
        // An empty draft goes with a purge, once it is old.
        try database.execute(
            "UPDATE pushsweep_batch SET changed_at = \(database.sql.dialect.now(adding: -86_400))")
        let now = try store.session.databaseTime()
        let dry = try store.purge(before: now.advanced(by: -3_600_000), isDry: true)
        #expect(dry.batches == 3)
        #expect(try store.purge(before: now.advanced(by: -3_600_000)).batches == 3)
        #expect(try Self.states(database) == others)
    }

    @Test(
        "what an import has not ended is in no list, and never judged however old it is",
        arguments: TestEngine.available)
    func unseen(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try Self.fill(store)
        try database.execute(
            "UPDATE pushsweep_batch SET changed_at = \(database.sql.dialect.now(adding: -200_000))")
        try Batches(store).completeFilling()
        try Batches(store).closeAbandonedTurns()
        #expect(try Self.states(database) == Self.open)
        #expect(try Quarantine(store).batches().isEmpty)
        #expect(try ReportHistory(store).reports(about: .numbered(1)).reports.isEmpty)
        #expect(try Self.claim(store))
        #expect(try Quarantine(store).batches().map(\.batch) == ["line"])
        #expect(try ReportHistory(store).reports(about: .numbered(1)).reports.count == 2)
    }

    @Test(
        "a content that was left as a draft is taken by the host that imports it again, as its own",
        arguments: TestEngine.available)
    func takenElsewhere(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        try Self.fill(store)
        try Batches(store).dropDrafts(lease: nil)
        try database.execute(
            "UPDATE pushsweep_batch SET host = 'gone', run = 'killed', label = 'old'")
        try Self.fill(store)
        #expect(try Self.claim(store))
        #expect(try Self.states(database) == Self.whole)
        for batch in try Batches(store).all(.waiting, .applied) {
            #expect(batch.host == "h" && batch.run == "r" && batch.label == "file")
            #expect(batch.quarantined == (batch.id == "line" ? 1 : 0))
        }
    }
}
