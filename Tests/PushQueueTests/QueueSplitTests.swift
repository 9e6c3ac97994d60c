import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("A queue behind a proxy that splits reads from writes")
struct QueueSplitTests {
    private static let rows = 300

    /// A queue on a primary, and the same queue on a replica that lags: there the first third of the
    /// tokens is not registered yet, and the second third not marked yet.
    private struct Pair {
        let primary: QueueStage
        let replica: QueueStage

        init(_ queueCase: QueueCase) throws {
            primary = try QueueStage(queueCase)
            replica = try QueueStage(queueCase)
            try primary.register(0..<rows)
            try replica.register(rows / 3..<rows)
            for stage in [primary, replica] { try stage.enqueue(0..<rows) }
            try primary.database.store().apply(
                (rows / 3..<rows * 2 / 3).map { .dead($0, at: start + 60_000) })
        }

        func queue(
            _ run: String, faults: [FaultyConnection.Fault] = []
        ) throws -> (PushQueue, SplittingConnection) {
            let split = SplittingConnection(
                primary: primary.database.driver(), replica: replica.database.driver())
            let store = try TokenTable(
                primary.database.settings, FaultyConnection(split, faults), hurried())
            return (try PushQueue(store, QueueLease(run: run, host: "host")), split)
        }
    }

    /// Sends all that is due; gives the keys in order.
    private static func drain(_ queue: PushQueue) throws -> [Int64] {
        var cursor = QueueCursor()
        var keys: [Int64] = []
        while var claim = try queue.claim(chat, limit: 70, from: &cursor) {
            keys += claim.keys
            guard claim.open > 0 else { continue }
            guard try queue.handOver(claim) else { throw TestFailure("lease lost") }
            try queue.renewLeases()
            guard try queue.record(claim.results(.sent), of: &claim) == .recorded(missing: 0)
            else { throw TestFailure("not recorded") }
        }
        return keys
    }

    @Test(
        "tokens are vetted on the primary: new ones are sent to, and marked ones are not",
        arguments: QueueCase.all)
    func vetting(_ queueCase: QueueCase) throws {
        let pair = try Pair(queueCase)
        let (queue, split) = try pair.queue("run")
        let asked = split.answeredByReplica.count
        let keys = try Self.drain(queue)
        #expect(keys == Array(1...100) + Array(201...300))
        #expect(try pair.primary.counts() == [.sent: 200, .skipped: 100])
        // What still goes to the replica is the catalog and the layout, which both have.
        let late = split.answeredByReplica.dropFirst(asked)
        #expect(
            !late.contains { query in
                ["push_queue", "pushsweep_queue", "pushsweep_claim", "device_token"]
                    .contains(where: query.contains)
            }, "\(late)")
    }

    @Test(
        "faults at any statement change nothing, though a replica would deny each commit",
        arguments: TestEngine.available)
    func faults(_ engine: TestEngine) throws {
        for operation in stride(from: 1, through: 60, by: 2) {
            let pair = try Pair(QueueCase(engine: engine, tables: .own))
            let (queue, _) = try pair.queue(
                "run", faults: [.init(operation: operation, isExecuted: true, kind: .lost)])
            let keys = try Self.drain(queue)
            #expect(keys == Array(1...100) + Array(201...300), "operation \(operation)")
            #expect(try pair.primary.counts() == [.sent: 200, .skipped: 100])
        }
    }

    @Test("leases that ended are found on the primary", arguments: TestEngine.available)
    func leases(_ engine: TestEngine) throws {
        let pair = try Pair(QueueCase(engine: engine, tables: .own))
        let (dead, _) = try pair.queue("dead")
        let claim = try #require(try dead.claim(50))
        try pair.primary.endLeases()
        let (other, _) = try pair.queue("other")
        var expected = ReclaimedRows()
        expected.returned = claim.open
        #expect(try other.reclaimExpired(resendUnknown: false) == expected)
    }
}
