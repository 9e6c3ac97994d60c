import APNsProtocol
import EvidenceJournal
import Findings
import Foundation
import SecureTransport
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import Operations
@testable import TokenTable

@Suite("The end of a run whose database fails")
struct RunEndTests {
    private static let now = EpochMilliseconds(start + 3_600_000)
    private let temporary: TemporaryFolder
    private let folder: StateFolder

    init() throws {
        temporary = try TemporaryFolder()
        folder = try StateFolder(temporary.file("state"))
    }

    private static func outcome() -> RunOutcome<SweepReport> {
        RunOutcome(report: SweepReport(run: "r", kind: "sweep", dryRun: false, started: now))
    }

    private static let busy = RunFailure.wrapping(
        StoreFailure(.busy, "connecting: locked"), at: .store)

    private func capture(_ tuples: [FeedbackTuple]) throws -> CapturedList {
        let capture = try folder.beginList(
            run: "r", partition: chat, source: "gateway:2196", at: Self.now)
        try FeedbackTuple.bytes(tuples).withUnsafeBytes { try capture.append($0) }
        try capture.close(.closeNotify, at: Self.now)
        return try folder.list(capture.id)
    }

    /// A run that judges lists of the folder.
    private func run(_ store: TokenTable, floor: Int = GuardLimits().floor) throws -> EvidenceRun {
        let plan = SweepPlan(
            state: folder.path, store: store.settings, work: .waiting, partitions: [chat: chat],
            policy: RemovalPolicy(), limits: GuardLimits(floor: floor), dryRun: false)
        let context = RunContext(
            now: { Self.now }, interrupt: try Interrupt(), log: .init(label: "test"))
        return EvidenceRun(
            store: store, plan: plan, context: context, run: "r", started: Self.now)
    }

    @Test("a database that is busy before anything was read is 69 where nothing waits, else 75")
    func nothingRead() throws {
        var outcome = Self.outcome()
        outcome.fail(Self.busy)
        try outcome.noteWaiting(in: folder)
        try outcome.noteLeft(in: folder)
        #expect(outcome.exit == .unreachable)
        #expect(
            outcome.closingLine?.description
                == "code=69 stage=store pending=0 applied=0 held=0 next=rerun")

        _ = try capture([.dead(1, at: 1_600_000_000)])
        var waiting = Self.outcome()
        waiting.fail(Self.busy)
        try waiting.noteWaiting(in: folder)
        try waiting.noteLeft(in: folder)
        #expect(waiting.exit == .pending)
    }

    @Test("a run that a limit or another host ended keeps 75, and one that read something too")
    func keeps() throws {
        var limited = Self.outcome()
        limited.fail(
            .wrapping(
                StoreFailure(.stopped, "ending this run early", reason: .timeBudget), at: .store))
        try limited.noteLeft(in: folder)
        #expect(limited.exit == .pending)

        var reading = Self.outcome()
        reading.report.apps.append(BatchReport(chat, source: "gateway:2196", end: .clean))
        reading.fail(Self.busy)
        try reading.noteLeft(in: folder)
        #expect(reading.exit == .pending)
    }

    @Test("the closing line names the stage of the failure when what waits decides the code")
    func stage() throws {
        _ = try capture([.dead(1, at: 1_600_000_000)])
        var outcome = Self.outcome()
        outcome.fail(
            .wrapping(StoreFailure(.unreachable, "applying: nobody answers"), at: .apply))
        try outcome.noteWaiting(in: folder)
        try outcome.noteLeft(in: folder)
        #expect(outcome.closingLine?.description.hasPrefix("code=75 stage=apply ") == true)
    }

    @Test("what was applied before the database went away is counted, without another long wait")
    func applied() throws {
        let database = try TokenDatabase(.sqlite)
        try database.createOwnSchema()
        try database.register(0..<2_000, at: start)
        let time = VirtualTime()
        let connection = FaultyConnection(database.driver(), [])
        var pacing = time.pacing
        pacing.sleep = { time.pass(Double($0)) }
        let store = try TokenTable(database.settings, connection, pacing)
        let seconds = UInt32(start / 1_000) + 60
        let feed = try capture((0..<2_000).map { .dead($0, at: seconds + UInt32($0)) })
        var commits = 0
        var isPoured = false
        connection.refusal = { sql in
            if sql == "COMMIT", isPoured { commits += 1 }
            return commits > 4
                ? SQLFailure(kind: .lost, code: 2_013, message: "Lost connection") : nil
        }
        let evidence = try run(store, floor: 10_000)
        let pouring = Pouring(folder: folder, evidence: evidence)
        let heard = try pouring.open(folder.evidence(of: feed))
        isPoured = true
        let result = evidence.judge(heard)
        connection.refusal = { _ in nil }
        #expect(result.failure?.exit == .pending, "\(result.entry)")
        let marked = try database.rows(of: "active_users", "invalidated_at IS NOT NULL")
        #expect(marked > 0 && marked < 2_000)
        #expect(result.entry.applied == marked && result.entry.rowsChanged == marked)
        #expect(time.now == 61_000)
    }

    @Test(
        "a list that names one token very often is stored first, and its memory does not grow with that"
    )
    func repeated() throws {
        let database = try TokenDatabase(.sqlite)
        try database.createOwnSchema()
        try database.register(0..<3, at: start)
        let seconds = UInt32(start / 1_000) + 60
        let often = (0..<1_500).map { FeedbackTuple.dead(1, at: seconds + UInt32($0)) }
        let list = try capture(often + [.dead(2, at: seconds)])
        let evidence = try run(database.store(), floor: 10_000)
        let pouring = Pouring(folder: folder, evidence: evidence)
        #expect(try pouring.open(folder.evidence(of: list)).isStored)
        let result = pouring.pour(list)
        #expect(result.failure == nil, "\(result.entry)")
        #expect(result.entry.applied == 2 && result.entry.already == 1_499)
        #expect(
            try database.texts(
                "SELECT state, COUNT(*) FROM pushsweep_report GROUP BY state ORDER BY state")
                == [["1", "2"], ["2", "1499"]])
        #expect(try folder.list(list.id).state == .applied)
    }

    @Test(
        "a list that a person gave up while it was compared is no fault, and the next run stores it"
    )
    func givenUpMeanwhile() throws {
        let database = try TokenDatabase(.sqlite)
        try database.createOwnSchema()
        try database.register(0..<9, at: start)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        let list = try capture((0..<9).map { .dead($0, at: UInt32(start / 1_000) + 60) })
        let evidence = try run(store)
        let pouring = Pouring(folder: folder, evidence: evidence)
        let other = Batches(try database.store())
        var isGivenUp = false
        connection.refusal = { sql in
            // The forecast has begun.
            guard !isGivenUp, sql.contains("FROM \"active_users\"") else { return nil }
            isGivenUp = true
            _ = try? other.discard(list.id, in: .filling, because: "gone", run: "me")
            return nil
        }
        let first = pouring.pour(list)
        #expect(
            isGivenUp && first.failure == nil && first.entry.state == "discarded", "\(first.entry)")
        #expect(try database.rows(of: "active_users", "invalidated_at IS NOT NULL") == 0)
        let second = pouring.pour(try folder.list(list.id))
        #expect(second.failure == nil && second.entry.applied == 9, "\(second.entry)")
        #expect(try folder.list(list.id).state == .applied)
    }

    @Test(
        "a batch that a person gave up while a run had it in its list changes no row, and does not end the run"
    )
    func givenUp() throws {
        let database = try TokenDatabase(.sqlite)
        try database.createOwnSchema()
        try database.register(0..<9, at: start)
        let store = try database.store()
        let feed = try capture((0..<9).map { .dead($0, at: UInt32(start / 1_000) + 60) })
        let evidence = try run(store)
        let heard = try Pouring(folder: folder, evidence: evidence)
            .open(folder.evidence(of: feed))
        #expect(
            try Batches(store).discard(heard.batch.id, in: .filling, because: "gone", run: "me"))
        let result = evidence.judge(heard)
        #expect(result.failure == nil && result.status == .done, "\(result.entry)")
        #expect(
            result.entry.state == "discarded" && result.entry.detail?.contains("meanwhile") == true)
        #expect(try database.rows(of: "active_users", "invalidated_at IS NOT NULL") == 0)
    }
}
