import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Results of queued notifications")
struct QueueResultTests {
    @Test("every outcome leaves its row in exactly one state", arguments: QueueCase.all)
    func outcomes(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<7)
        let queue = try stage.queue()
        var claim = try #require(try queue.claim())
        #expect(try queue.handOver(claim))
        let outcomes: [Outcome] = [
            .sent, .gone(reason: "Unregistered"), .failed(reason: "BadDeviceToken"),
            .retry(seconds: 900, reason: "ServiceUnavailable"), .unknown(reason: "reset"),
            .skipped(.malformed), .returned,
        ]
        let results = zip(claim.keys, outcomes).map { DeliveryResult(key: $0, $1) }
        #expect(try queue.record(results, of: &claim) == 0)
        #expect(claim.open == 0)
        #expect(
            try stage.states() == [
                "1 sent 1 -", "2 gone 1 Unregistered", "3 failed 1 BadDeviceToken",
                "4 retry 1 ServiceUnavailable", "5 unknown 1 reset", "6 skipped 0 malformed",
            ] + (queueCase.tables == .own ? ["7 pending 0 -"] : []))
        #expect(
            try stage.counts() == [
                .sent: 1, .gone: 1, .failed: 1, .retry: 1, .unknown: 1, .skipped: 1, .pending: 1,
            ])
        let next = try #require(try queue.claim())
        #expect(next.keys == [7])
    }

    @Test(
        "a postponed row comes back at its time, with its attempts and its apns-id",
        arguments: QueueCase.all)
    func retries(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<1)
        let queue = try stage.queue()
        var claim = try #require(try queue.claim())
        let first = try #require(claim.notifications.first)
        _ = try queue.record(claim.results(.retry(seconds: 3_600, reason: "Shutdown")), of: &claim)
        #expect(try queue.claim() == nil)
        let table = queueCase.tables == .own ? "push_queue" : "pushsweep_delivery"
        try stage.database.execute(
            "UPDATE \(table) SET not_before = ? WHERE state = 'retry'", [stage.database.time(start)]
        )
        claim = try #require(try queue.claim())
        let second = try #require(claim.notifications.first)
        #expect(second.attempts == 1 && second.id == first.id)
    }

    @Test("results come in any number of parts, and rows of others stay", arguments: QueueCase.all)
    func parts(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<20)
        let (one, two) = (try stage.queue(run: "run-a"), try stage.queue(run: "run-b"))
        var first = try #require(try one.claim(10))
        let second = try #require(try two.claim(10))
        #expect(Set(first.keys).isDisjoint(with: second.keys))
        for part in first.results(.sent).runs(of: 3) {
            #expect(try one.record(Array(part), of: &first) == 0)
        }
        #expect(first.open == 0)
        #expect(try one.record(second.results(.sent), of: &first) == 0)
        #expect(try stage.counts() == [.sent: 10, .claimed: 10])
    }

    @Test(
        "rows deleted by another program are reported, though another queue of the side table has their keys",
        arguments: QueueCase.all)
    func deletedRows(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<4)
        let queue = try stage.queue()
        var claim = try #require(try queue.claim())
        if queueCase.tables == .tutorial {
            try stage.database.execute(
                "INSERT INTO pushsweep_delivery (queue, queue_key, state, attempts) "
                    + "SELECT 'other_queue', message_id, 'sent', 1 FROM push_queue")
        }
        try stage.database.execute("DELETE FROM push_queue WHERE \(stage.key) = 2")
        #expect(try queue.record(claim.results(.sent), of: &claim) == 1)
    }

    @Test(
        "every second row of a batch has its result, in runs or in lists", arguments: QueueCase.all,
        [20, 150])
    func scattered(_ queueCase: QueueCase, _ rows: Int) throws {
        let stage = try QueueStage(queueCase, 0..<rows)
        let queue = try stage.queue()
        var claim = try #require(try queue.claim(rows))
        let results = claim.keys.enumerated().map { index, key in
            DeliveryResult(
                key: key,
                [.sent, .retry(seconds: 900, reason: "x"), .gone(reason: "y"), .sent][index % 4])
        }
        for part in results.runs(of: rows / 2) {
            #expect(try queue.record(Array(part), of: &claim) == 0)
        }
        var expected: [DeliveryState: Int] = [:]
        for index in 0..<rows {
            expected[[.sent, .retry, .gone, .sent][index % 4], default: 0] += 1
        }
        #expect(try stage.counts() == expected)
    }

    @Test("SQLite finds the rows of a batch by key, however many rows wait")
    func plans() throws {
        for tables in QueueTables.allCases {
            let stage = try QueueStage(QueueCase(engine: .sqlite, tables: tables), 0..<200)
            _ = try stage.database.store().applySchema(upgrading: true)
            let (queue, connection) = try stage.queue([])
            var claim = try #require(try queue.claim(200))
            let results = claim.keys.map {
                DeliveryResult(key: $0, $0 % 10 == 0 ? .gone(reason: "x") : .sent)
            }
            _ = try queue.record(results, of: &claim)
            let written = connection.log.filter {
                $0.0.hasPrefix("UPDATE") && $0.0.contains("BETWEEN")
                    || $0.0.hasPrefix("INSERT INTO \"pushsweep_delivery\"")
            }
            #expect(written.count >= 2)
            for (sql, values) in written {
                let plan = try stage.database.sql.query("EXPLAIN QUERY PLAN \(sql)", values)
                let steps = (0..<plan.count).map { plan[$0, 3].text ?? "" }
                #expect(!steps.contains { $0.contains("open") || $0.hasPrefix("SCAN") }, "\(steps)")
            }
        }
    }

    @Test("the results of a period are counted by state and reason", arguments: QueueCase.all)
    func ofPeriod(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let queue = try stage.queue()
        var claim = try #require(try queue.claim())
        let outcomes: [Outcome] =
            Array(repeating: .sent, count: 5)
            + [
                .skipped(.stale), .skipped(.stale), .gone(reason: "Unregistered"),
                .unknown(reason: "timeout"),
            ]
        let results = zip(claim.keys, outcomes).map { DeliveryResult(key: $0, $1) }
        _ = try queue.record(results, of: &claim)
        let store = try stage.database.store()
        let now = try store.session.databaseTime()
        func counted(_ from: EpochMilliseconds, _ to: EpochMilliseconds) throws -> [String] {
            try store.queueResults(of: chat, from: from, to: to).map {
                "\($0.state) \($0.reason ?? "-") \($0.rows)"
            }
        }
        #expect(
            try counted(now.advanced(by: -60_000), now) == [
                "sent - 5", "skipped stale 2", "gone Unregistered 1", "unknown timeout 1",
            ])
        #expect(try counted(now.advanced(by: -120_000), now.advanced(by: -60_000)) == [])
        guard queueCase.tables == .own else { return }
        let other = Partition(app: "other", environment: "production")
        #expect(try store.queueResults(of: other, from: EpochMilliseconds(start), to: now) == [])
    }
}
