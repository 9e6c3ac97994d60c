import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("The hand-over of a claim, a slice at a time")
struct HandOverTests {
    /// The keys of each open claim in the database, by state.
    private static func open(_ stage: QueueStage) throws -> [String: [[Int64]]] {
        let rows = try stage.database.sql.query(
            "SELECT state, row_keys, id FROM pushsweep_claim WHERE state IN ('held', 'handed') "
                + "ORDER BY state, row_keys", [])
        var open: [String: [[Int64]]] = [:]
        for row in 0..<rows.count {
            let keys = try ClaimRecord.keys(rows[row, 1], of: rows[row, 2].integer ?? 0)
            open[rows[row, 0].text ?? "", default: []].append(Array(keys.keys))
        }
        return open
    }

    @Test(
        "the slice's keys are handed over, the rest is held, and a kill makes no others unknown",
        arguments: QueueCase.all)
    func slices(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let sender = try stage.queue(run: "dead")
        var rest = try #require(try sender.claim())
        for (first, keys) in [(Int64(1), [Int64(1), 2, 3]), (4, [4, 5])] {
            let slice = try #require(try sender.handOver(rest, rows: keys.count))
            #expect(slice.slice.keys == keys && slice.slice.notifications.first?.row == first)
            rest = try #require(slice.rest)
        }
        #expect(
            try Self.open(stage) == ["handed": [[1, 2, 3], [4, 5]], "held": [[6, 7, 8, 9, 10]]])
        #expect(try stage.counts() == [.claimed: 10])
        let other = try stage.queue(run: "other")
        #expect(try other.claim() == nil, "a part of it could be claimed")
        try stage.endLeases()
        #expect(try other.reclaimExpired(resendUnknown: false) == [.unknown: 5, .pending: 5])
        #expect(try other.claim()?.keys == Array(6...10))
    }

    @Test(
        "each slice has its own results, and the last one leaves no rest", arguments: QueueCase.all)
    func results(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<7)
        let sender = try stage.queue()
        var next = try sender.claim()
        var sizes: [Int] = []
        while let claim = next {
            let handedOver = try #require(try sender.handOver(claim, rows: 3))
            var slice = handedOver.slice
            sizes.append(slice.open)
            #expect(try sender.record(slice.results(.sent), of: &slice) == 0)
            next = handedOver.rest
        }
        #expect(sizes == [3, 3, 1])
        #expect(try stage.counts() == [.sent: 7])
        #expect(try Self.open(stage).isEmpty)
    }

    @Test(
        "a claim that others took gives nothing, and holds none of its rows",
        arguments: QueueCase.own)
    func taken(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<6)
        let sender = try stage.queue(run: "slow")
        let claim = try #require(try sender.claim())
        try stage.endLeases()
        let other = try stage.queue(run: "other")
        #expect(try other.reclaimExpired(resendUnknown: false) == [.pending: 6])
        #expect(try sender.handOver(claim, rows: 2) == nil)
        #expect(try sender.renewLeases().isEmpty)
        #expect(try other.claim()?.keys == Array(1...6))
    }

    @Test(
        "a fault at any statement, before or after the database ran it, leaves each key in one claim",
        arguments: QueueCase.crossed, [SQLFailure.Kind.lost, .conflict])
    func faults(_ queueCase: QueueCase, _ kind: SQLFailure.Kind) throws {
        for isExecuted in [false, true] {
            for operation in 1...12 {
                let stage = try QueueStage(queueCase, 0..<5)
                let claim = try #require(try stage.queue().claim())
                let (queue, _) = try stage.queue([
                    .init(operation: operation, isExecuted: isExecuted, kind: kind)
                ])
                let note: Comment = "operation \(operation), \(isExecuted)"
                let handedOver = try #require(try queue.handOver(claim, rows: 2), note)
                #expect(handedOver.slice.keys == [1, 2], note)
                #expect(handedOver.rest?.keys == [3, 4, 5], note)
                #expect(try Self.open(stage) == ["handed": [[1, 2]], "held": [[3, 4, 5]]], note)
                #expect(
                    try queue.renewLeases()
                        == [handedOver.slice.number, handedOver.rest?.number ?? 0], note)
            }
        }
    }
}
