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
            return (try primary.queue(run: run, over: FaultyConnection(split, faults)), split)
        }
    }

    @Test(
        "tokens are vetted on the primary: new ones are sent to, and marked ones are not",
        arguments: QueueCase.all)
    func vetting(_ queueCase: QueueCase) throws {
        let pair = try Pair(queueCase)
        let (queue, split) = try pair.queue("run")
        let asked = split.answeredByReplica.count
        let keys = try queue.drain(limit: 70).keys
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
        arguments: QueueCase.own)
    func faults(_ queueCase: QueueCase) throws {
        for fault in FaultyConnection.Fault.spread(over: 60, most: 12) where fault.isExecuted {
            let pair = try Pair(queueCase)
            let (queue, _) = try pair.queue("run", faults: [fault])
            let keys = try queue.drain(limit: 70).keys
            #expect(keys == Array(1...100) + Array(201...300), "\(fault)")
            #expect(try pair.primary.counts() == [.sent: 200, .skipped: 100])
        }
    }

    @Test("leases are renewed, and found when they ended, on the primary", arguments: QueueCase.own)
    func leases(_ queueCase: QueueCase) throws {
        let pair = try Pair(queueCase)
        let (dead, _) = try pair.queue("dead")
        let claim = try #require(try dead.claim(50))
        let (other, _) = try pair.queue("other")
        try pair.primary.endLeases()
        _ = try dead.renewLeases()
        #expect(try other.reclaimExpired(resendUnknown: false) == [:])
        try pair.primary.endLeases()
        #expect(try other.reclaimExpired(resendUnknown: false) == [.pending: claim.open])
    }
}
