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
        let stage = try QueueStage(queueCase)
        try stage.register(0..<30)
        try stage.enqueue(0..<40)
        return stage
    }

    /// Drains the queue in batches, with results in two parts. Returns the claimed rows in order.
    private static func drain(_ queue: PushQueue) throws -> (keys: [Int64], skipped: Int) {
        var cursor = QueueCursor()
        var keys: [Int64] = []
        var skipped = 0
        while var claim = try queue.claim(chat, limit: 15, from: &cursor) {
            keys += claim.keys
            skipped += claim.skipped.values.reduce(0, +)
            guard !claim.notifications.isEmpty else { continue }
            guard try queue.handOver(claim) else { throw TestFailure("lease lost") }
            for part in claim.results(.sent).runs(of: 8) {
                let outcome = try queue.record(Array(part), of: &claim)
                guard case .recorded = outcome else { throw TestFailure("\(outcome)") }
            }
        }
        return (keys, skipped)
    }

    /// Operations of a drain without faults.
    private static func operations(_ queueCase: QueueCase) throws -> Int {
        let stage = try stage(queueCase)
        let (queue, connection) = try stage.queue([])
        _ = try drain(queue)
        return withExtendedLifetime(stage) { connection.operations }
    }

    @Test(
        "a fault at any statement, before or after the database ran it, changes no result",
        arguments: QueueCase.all, [SQLFailure.Kind.lost, .conflict])
    func anyStatement(_ queueCase: QueueCase, _ kind: SQLFailure.Kind) throws {
        let count = try Self.operations(queueCase)
        #expect(count > 20)
        // Each case needs a new database, which is slow. Odd steps still meet every kind of
        // statement.
        for operation in stride(from: 1, through: count, by: kind == .lost ? 3 : 5) {
            for isExecuted in [false, true] {
                // A conflict rolls back, so it cannot be reported of a commit that was executed.
                if kind == .conflict && isExecuted { continue }
                let stage = try Self.stage(queueCase)
                let note: Comment = "operation \(operation) of \(count), executed: \(isExecuted)"
                let (queue, _) = try stage.queue([
                    .init(operation: operation, isExecuted: isExecuted, kind: kind)
                ])
                let drained = try Self.drain(queue)
                #expect(drained.keys == Array(1...30), note)
                #expect(drained.skipped == 10, note)
                #expect(try stage.counts() == [.sent: 30, .skipped: 10], note)
                #expect(
                    try stage.states().allSatisfy {
                        $0.contains(" sent 1 -") || $0.contains("unknown")
                    },
                    note)
            }
        }
    }

    @Test(
        "a sender killed after any statement loses no row and has none sent twice",
        arguments: QueueCase.all)
    func kill(_ queueCase: QueueCase) throws {
        for operation in stride(from: 1, through: try Self.operations(queueCase), by: 3) {
            let stage = try Self.stage(queueCase)
            let broken = FaultyConnection(
                stage.database.driver(),
                [.init(operation: operation, isExecuted: operation % 2 == 0, kind: .other)])
            let store = try TokenTable(stage.database.settings, broken, hurried())
            // It throws at its fault and is dead then.
            _ = try? Self.drain(PushQueue(store, QueueLease(run: "dead", host: "host")))
            broken.rollBack()
            try stage.endLeases()
            let other = try stage.queue(run: "other")
            let reclaimed = try other.reclaimExpired(resendUnknown: false)
            let drained = try Self.drain(other)
            let counts = try stage.counts()
            let note: Comment = "killed at operation \(operation)"
            #expect(counts.values.reduce(0, +) == 40, note)
            #expect(counts[.skipped] == 10 && counts[.pending] == nil, note)
            #expect((counts[.sent] ?? 0) + (counts[.unknown] ?? 0) == 30, note)
            #expect(counts[.unknown] ?? 0 == reclaimed.unknown, note)
            #expect(Set(drained.keys).count == drained.keys.count, note)
        }
    }

    @Test(
        "results are written after a commit with a lost answer, whether it took effect or not",
        arguments: QueueCase.all, [false, true])
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
            let store = try TokenTable(stage.database.settings, broken, hurried())
            let first = claim.keys.prefix(4).map { DeliveryResult(key: $0, .sent) }
            // It fails while it opens, in the middle, or not at all.
            _ = try? PushQueue(store, QueueLease(run: "run-a", host: "host"))
                .record(first, of: &claim)
            broken.rollBack()
            let rest = claim.keys.dropFirst(4).map { DeliveryResult(key: $0, .returned) }
            let outcome = try plain.record(first + rest, of: &claim)
            #expect(outcome == .recorded(missing: 0), "operation \(operation)")
            #expect(try stage.counts() == [.sent: 4, .pending: 36], "operation \(operation)")
        }
    }
}
