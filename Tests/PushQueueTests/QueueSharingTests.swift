import APNsProtocol
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("A queue that several senders share")
struct QueueSharingTests {
    /// The results of two senders together.
    private struct Tally {
        var keys: [Int64] = []
        var failures: [String] = []
    }

    @Test(
        "two senders at once never get one row twice and leave none", arguments: QueueCase.all)
    func twoSenders(_ queueCase: QueueCase) throws {
        let rows = 10_000
        let tokens = queueCase.tables == .own ? rows : 10
        let stage = try QueueStage(queueCase, 0..<tokens, rows: (0..<rows).map { $0 % tokens })
        let settings = stage.database.settings
        let tally = Mutex(Tally())
        let group = DispatchGroup()
        for sender in 0..<2 {
            group.enter()
            Thread {
                defer { group.leave() }
                do {
                    let keys = try PushQueue(
                        TokenTable(settings), QueueLease(run: "run-\(sender)", host: "host")
                    ).drain(limit: 230).keys
                    tally.withLock { $0.keys += keys }
                } catch {
                    tally.withLock { $0.failures.append("\(error)") }
                }
            }.start()
        }
        group.wait()
        let done = tally.withLock { $0 }
        #expect(done.failures.isEmpty)
        #expect(done.keys.count == rows && Set(done.keys).count == rows)
        #expect(try stage.counts() == [.sent: rows])
        #expect(try stage.database.rows(of: "pushsweep_queue") == 65)
        // The next transaction removes finished claims; at most one per sender stays.
        #expect(try stage.database.rows(of: "pushsweep_claim") <= 2)
    }

    @Test(
        "senders whose settings spell the table differently share its claims",
        arguments: QueueCase.all)
    func spellings(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let schema = queueCase.engine == .sqlite ? "main" : stage.database.name
        var other = stage.database.settings
        other.queue.table = "\(schema).push_queue"
        let qualified = try PushQueue(
            TokenTable(other), QueueLease(run: "other", host: "host", seconds: 60))
        let plain = try stage.queue()
        let first = try #require(try plain.claim(6))
        let second = try #require(try qualified.claim(10))
        #expect(first.keys + second.keys == Array(1...10))
        #expect(
            first.notifications[0].id.bytes.prefix(8) == second.notifications[0].id.bytes.prefix(8))
        if queueCase.engine == .sqlite {
            other.queue.table = "PUSH_Queue"
            let capital = try PushQueue(TokenTable(other), QueueLease(run: "third", host: "host"))
            #expect(try capital.claim(10) == nil)
        }
    }

    @Test(
        "rows of a sender that died before it sent return without an attempt",
        arguments: QueueCase.all)
    func abandonedBeforeSending(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let dead = try #require(try stage.queue(run: "dead").claim(6))
        let other = try stage.queue(run: "other")
        #expect(try other.reclaimExpired(resendUnknown: false) == [:])
        try stage.endLeases()
        #expect(try other.reclaimExpired(resendUnknown: false) == [.pending: 6])
        #expect(try other.reclaimExpired(resendUnknown: false) == [:])
        let claim = try #require(try other.claim())
        #expect(claim.notifications.count == 10)
        #expect(claim.notifications.allSatisfy { $0.attempts == 0 })
        #expect(claim.notifications.map(\.id).starts(with: dead.notifications.map(\.id)))
    }

    @Test(
        "rows a dead sender may have sent are closed, or sent again under the same apns-id",
        arguments: QueueCase.all, [false, true])
    func abandonedWhileSending(_ queueCase: QueueCase, _ resends: Bool) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let sender = try stage.queue(run: "dead")
        var dead = try #require(try sender.claim(6))
        #expect(try sender.handOver(dead))
        _ = try sender.record(
            dead.keys.prefix(2).map { DeliveryResult(key: $0, .sent) }, of: &dead)
        try stage.endLeases()
        let other = try stage.queue(run: "other")
        let taken: DeliveryState = resends ? .retry : .unknown
        #expect(try other.reclaimExpired(resendUnknown: resends) == [taken: 4])
        let claim = try #require(try other.claim())
        #expect(claim.notifications.count == (resends ? 8 : 4))
        if resends {
            let again = claim.notifications.prefix(4)
            #expect(again.map(\.id) == dead.notifications.dropFirst(2).map(\.id))
            #expect(again.allSatisfy { $0.attempts == 1 })
        }
        let states = try stage.counts()
        #expect(states[.sent] == 2 && states[.unknown] == (resends ? nil : 4))
        // The dead sender was only asleep, and its results come too late.
        #expect(try sender.record(dead.results(.sent), of: &dead) == nil)
        #expect(try sender.handOver(dead) == false)
        #expect(try stage.counts() == states)
    }

    @Test(
        "a lease that is renewed does not end, and one that ended and was not taken is still valid",
        arguments: QueueCase.own, [false, true])
    func lateResults(_ queueCase: QueueCase, _ renews: Bool) throws {
        let stage = try QueueStage(queueCase, 0..<3)
        let sender = try stage.queue(run: "slow")
        var claim = try #require(try sender.claim())
        try stage.endLeases()
        let other = try stage.queue(run: "other")
        if renews {
            _ = try sender.renewLeases()
            #expect(try other.reclaimExpired(resendUnknown: true) == [:])
        }
        #expect(try sender.record(claim.results(.sent), of: &claim) == 0)
        #expect(try other.reclaimExpired(resendUnknown: true) == [:])
        #expect(try stage.counts() == [.sent: 3])
    }
}
