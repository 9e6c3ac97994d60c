import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("The rows of the queue that carry a token")
struct QueueHistoryTests {
    private static func found(
        _ stage: QueueStage, _ numbers: [Int], by store: TokenTable? = nil
    ) throws -> QueueFound {
        let store = try store ?? stage.database.store()
        return try #require(
            try store.queueHistory(of: numbers.map { .numbered($0) }, in: [chat]))
    }

    /// The states of the rows with a token, newest first.
    private static func states(_ stage: QueueStage, _ number: Int) throws -> [String] {
        try found(stage, [number]).rows[.numbered(number)]?.map(\.state) ?? []
    }

    @Test(
        "each row has its state, and is claimed while a sender holds it", arguments: QueueCase.all)
    func states(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<6)
        let queue = try stage.queue()
        var claim = try #require(try queue.claim(5))
        let outcomes: [Outcome] = [
            .sent, .gone(reason: "Unregistered"), .failed(reason: "BadTopic"),
            .retry(seconds: 900, reason: "InternalServerError"),
        ]
        let results = zip(claim.keys, outcomes).map { DeliveryResult(key: $0, $1) }
        #expect(try queue.record(results, of: &claim) == 0)
        #expect(
            try (0..<6).map { try Self.states(stage, $0) }
                == [["sent"], ["gone"], ["failed"], ["retry"], ["claimed"], ["pending"]])
        try stage.enqueue([1])
        #expect(try Self.states(stage, 1) == ["pending", "gone"])
        let rows = try Self.found(stage, [1, 3])
        #expect(rows.gaps == [] && !rows.isCut && rows.newest == nil)
        let gone = try #require(rows.rows[.numbered(1)]?.last)
        #expect(gone.reason == "Unregistered" && gone.attempts == 1 && gone.partition == chat)
        #expect(gone.answered != nil)
        #expect(rows.rows[.numbered(3)]?.first?.notBefore != nil)
        #expect(try Self.found(stage, [77]).rows == [:])
    }

    @Test(
        "without the side tables the time of sending tells the state, and the gaps are named",
        arguments: QueueCase.tutorial)
    func withoutSideTables(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<2)
        try stage.database.execute(
            "UPDATE push_queue SET time_sent = '2026-11-20 10:05:00' WHERE message_id = 1")
        for table in ["pushsweep_delivery", "pushsweep_claim"] {
            try stage.database.execute("DROP TABLE \(table)")
        }
        let found = try Self.found(stage, [0, 1])
        #expect(found.gaps.count == 2, "\(found.gaps)")
        #expect(found.rows[.numbered(0)]?.map(\.state) == ["sent"])
        #expect(
            found.rows[.numbered(0)]?.first?.answered
                == EpochMilliseconds(iso8601: "2026-11-20T10:05:00Z"))
        #expect(found.rows[.numbered(1)]?.map(\.state) == ["pending"])
    }

    @Test("without an index over the tokens only the newest rows are read, and so many at most")
    func limits() throws {
        let stage = try QueueStage(QueueCase(engine: .sqlite, tables: .own))
        try stage.enqueue([1])
        try stage.database.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
            INSERT INTO push_queue (app_id, device_token, payload)
            SELECT 'chat', CASE WHEN i > 49400 THEN ? ELSE ? END, '{}' FROM n
            """, [2, 3].map { .bytes(DeviceToken.numbered($0).bytes) })
        let hidden = try Self.found(stage, [1])
        #expect(hidden.rows == [:] && hidden.newest == TokenTable.mostQueueRowsSearched)
        let many = try Self.found(stage, [2])
        #expect(many.isCut && many.rows[.numbered(2)]?.count == TokenTable.mostQueueRowsRead)
        #expect(many.rows[.numbered(2)]?.first?.key == 50_001)
        try stage.database.execute("CREATE INDEX by_token ON push_queue (device_token)")
        let found = try Self.found(stage, [1])
        #expect(found.newest == nil && found.rows[.numbered(1)]?.map(\.key) == [1])
    }

    @Test(
        "what the account may not read is named, the rest is told, and the printed grants suffice",
        .needsServer)
    func account() throws {
        let stage = try QueueStage(QueueCase(engine: .mariaDB, tables: .own), 0..<2)
        _ = try #require(try stage.queue().claim(1))
        let account = try ServerAccount(of: stage.database)
        try account.grant(on: "push_queue")
        let little = try Self.found(stage, [0], by: TokenTable(account.settings))
        #expect(little.gaps.contains { $0.hasPrefix("pushsweep_claim: the account may not") })
        #expect(little.rows[.numbered(0)]?.map(\.state) == ["pending"])
        let grants = try stage.database.store().queueGrants(
            for: .history, user: "\(account.name)@%")
        try account.run(grants)
        let whole = try Self.found(stage, [0], by: TokenTable(account.settings))
        #expect(whole.gaps == [] && whole.rows[.numbered(0)]?.map(\.state) == ["claimed"])
    }
}
