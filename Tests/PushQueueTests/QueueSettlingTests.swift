import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Answers that a sender kept")
struct QueueSettlingTests {
    /// A queue with a claim of six rows that a sender handed over before it was killed.
    private static func abandoned(
        _ queueCase: QueueCase
    ) throws -> (stage: QueueStage, claim: Batch) {
        let stage = try QueueStage(queueCase, 0..<10)
        let sender = try stage.queue(run: "dead")
        let claim = try #require(try sender.claim(6))
        #expect(try sender.handOver(claim))
        return (stage, claim)
    }

    private static func answers(_ claim: Batch) -> [DeliveryResult] {
        [
            DeliveryResult(key: claim.keys[0], .sent),
            DeliveryResult(key: claim.keys[1], .retry(seconds: 3_600, reason: "BadDeviceToken")),
            DeliveryResult(key: claim.keys[2], .gone(reason: "Unregistered")),
            DeliveryResult(key: claim.keys[3], .returned),
            DeliveryResult(key: claim.keys[1], .failed(reason: "BadDeviceToken")),
        ]
    }

    /// The rows that got their result, and those that say something else.
    private static func settle(
        _ results: [DeliveryResult], of claim: Batch, _ queue: PushQueue
    ) throws -> String {
        let (written, differing) = try queue.settle(
            results, of: claim.id, heard: [], from: PushQueue.origin)
        return "\(written) [\(differing.map { "\($0.key) \($0.value)" }.joined(separator: ", "))]"
    }

    @Test("they are written into the claim's rows once, and the others wait for its lease")
    func settles() throws {
        for queueCase in QueueCase.all {
            let (stage, claim) = try Self.abandoned(queueCase)
            let queue = try stage.queue(run: "next")
            #expect(try Self.settle(Self.answers(claim), of: claim, queue) == "4 []")
            #expect(try Self.settle(Self.answers(claim), of: claim, queue) == "0 []")
            let counts: [DeliveryState: Int] = [
                .sent: 1, .failed: 1, .gone: 1, .claimed: 2, .pending: 5,
            ]
            #expect(try stage.counts() == counts)
            try stage.endLeases()
            #expect(try queue.reclaimExpired(resendUnknown: false) == [.unknown: 2])
        }
    }

    @Test(
        "a fault at any statement, before or after the database ran it, changes no result",
        arguments: QueueCase.crossed)
    func faults(_ queueCase: QueueCase) throws {
        for fault in FaultyConnection.Fault.spread(over: 16, most: 16) {
            let (stage, claim) = try Self.abandoned(queueCase)
            let (queue, _) = try stage.queue([fault], run: "next")
            #expect(try Self.settle(Self.answers(claim), of: claim, queue) == "4 []")
            #expect(try stage.counts()[.sent] == 1, "\(fault)")
            #expect(try stage.counts()[.claimed] == 2)
        }
    }

    @Test(
        "rows that another sender has taken keep what they say, and the difference is counted",
        arguments: QueueCase.all, [false, true])
    func late(_ queueCase: QueueCase, _ resends: Bool) throws {
        let (stage, claim) = try Self.abandoned(queueCase)
        try stage.endLeases()
        let other = try stage.queue(run: "other")
        _ = try other.reclaimExpired(resendUnknown: resends)
        let before = try stage.states()
        let queue = try stage.queue(run: "next")
        #expect(
            try Self.settle(Self.answers(claim), of: claim, queue)
                == "0 [\(resends ? "retry" : "unknown") 3]")
        #expect(try stage.states() == before)
    }

    @Test("answers that were written before their sender was killed differ from nothing")
    func written() throws {
        let stage = try QueueStage(QueueCase(engine: .sqlite, tables: .own), 0..<10)
        let sender = try stage.queue(run: "dead")
        var claim = try #require(try sender.claim(6))
        #expect(try sender.record(claim.results(.sent), of: &claim) == 0)
        let queue = try stage.queue(run: "next")
        #expect(try Self.settle(claim.results(.sent), of: claim, queue) == "0 []")
        try stage.database.execute("DELETE FROM pushsweep_claim WHERE id > 0")
        #expect(try Self.settle(claim.results(.sent), of: claim, queue) == "0 []")
    }
}
