import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("The queue under faults")
struct QueueFaultTests {
    private static func stage(_ queueCase: QueueCase) throws -> QueueStage {
        try QueueStage(queueCase, 0..<30, rows: 0..<40)
    }

    /// Operations of a drain without faults.
    private static func operations(_ queueCase: QueueCase) throws -> Int {
        let stage = try stage(queueCase)
        let (queue, connection) = try stage.queue([])
        _ = try queue.drain(limit: 15, parts: 8)
        return withExtendedLifetime(stage) { connection.operations }
    }

    @Test(
        "a fault at any statement, before or after the database ran it, changes no result",
        arguments: QueueCase.crossed, [SQLFailure.Kind.lost, .conflict])
    func anyStatement(_ queueCase: QueueCase, _ kind: SQLFailure.Kind) throws {
        let count = try Self.operations(queueCase)
        #expect(count > 20)
        for fault in FaultyConnection.Fault.spread(
            over: count, most: 10, kind: kind)
        {
            let stage = try Self.stage(queueCase)
            let note: Comment = "\(fault) of \(count)"
            let (queue, _) = try stage.queue([fault])
            let drained = try queue.drain(limit: 15, parts: 8)
            #expect(drained.keys == Array(1...30) && drained.skipped == 10, note)
            #expect(try stage.counts() == [.sent: 30, .skipped: 10], note)
            let isRight = try stage.states().allSatisfy {
                $0.contains(" sent 1 -") || $0.contains("unknown")
            }
            #expect(isRight, note)
        }
    }

    @Test(
        "a sender killed after any statement loses no row and has none sent twice",
        arguments: QueueCase.all)
    func kill(_ queueCase: QueueCase) throws {
        let count = try Self.operations(queueCase)
        for fault in FaultyConnection.Fault.spread(
            over: count, most: 6, kind: .other, on: queueCase.engine)
        {
            let stage = try Self.stage(queueCase)
            let broken = FaultyConnection(stage.database.driver(), [fault])
            // It throws at its fault and is dead then.
            _ = try? stage.queue(run: "dead", over: broken).drain(limit: 15, parts: 8)
            broken.rollBack()
            try stage.endLeases()
            let other = try stage.queue(run: "other")
            let reclaimed = try other.reclaimExpired(resendUnknown: false)
            let drained = try other.drain(limit: 15, parts: 8)
            let counts = try stage.counts()
            let note: Comment = "killed at \(fault)"
            #expect(counts.values.reduce(0, +) == 40, note)
            #expect(counts[.skipped] == 10 && counts[.pending] == nil, note)
            #expect((counts[.sent] ?? 0) + (counts[.unknown] ?? 0) == 30, note)
            #expect(counts[.unknown] ?? 0 == reclaimed[.unknown] ?? 0, note)
            #expect(Set(drained.keys).count == drained.keys.count, note)
        }
    }

    @Test(
        "results are written after a commit with a lost answer, whether it took effect or not",
        arguments: QueueCase.crossed, [false, true])
    func moreAfterAnUnclearCommit(_ queueCase: QueueCase, _ isExecuted: Bool) throws {
        // The operations of one call of record, so that each of them can fail.
        for operation in 1...8 {
            let stage = try Self.stage(queueCase)
            let plain = try stage.queue(run: "run-a")
            var claim = try #require(try plain.claim(10))
            #expect(try plain.handOver(claim))
            let broken = FaultyConnection(
                stage.database.driver(),
                [.init(operation: operation, isExecuted: isExecuted, kind: .other)])
            let first = claim.keys.prefix(4).map { DeliveryResult(key: $0, .sent) }
            // It fails while it opens, in the middle, or not at all.
            _ = try? stage.queue(over: broken).record(first, of: &claim)
            broken.rollBack()
            let rest = claim.keys.dropFirst(4).map { DeliveryResult(key: $0, .returned) }
            let outcome = try plain.record(first + rest, of: &claim)
            #expect(outcome == 0, "operation \(operation)")
            #expect(try stage.counts() == [.sent: 4, .pending: 36], "operation \(operation)")
        }
    }
}
