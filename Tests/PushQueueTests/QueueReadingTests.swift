import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Reading the queue")
struct QueueReadingTests {
    @Test("a preview says what a claim would do and changes nothing", arguments: QueueCase.all)
    func preview(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<8, rows: 0..<10)
        let before = try stage.database.texts("SELECT * FROM push_queue")
        let preview = try stage.preview()
        #expect(preview.sendable == 8 && preview.skipped == [.unknown: 2])
        #expect(try stage.preview(limit: 5).sendable == 5)
        #expect(try stage.database.texts("SELECT * FROM push_queue") == before)
        #expect(try stage.database.rows(of: "pushsweep_claim") == 0)
        #expect(try stage.counts() == [.pending: 10])
    }

    @Test(
        "a preview works on the tutorial's tables without any table of ours",
        arguments: QueueCase.tutorial)
    func untouchedDatabase(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<3)
        for table in try stage.database.texts(
            queueCase.engine == .mariaDB
                ? "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
                    + "AND table_name LIKE 'pushsweep%'"
                : "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'pushsweep%'")
        {
            try stage.database.sql.run("DROP TABLE \(table[0])")
        }
        try stage.database.execute(
            "UPDATE push_queue SET time_sent = '2024-01-01 00:00:00' WHERE message_id = 2")
        #expect(try stage.preview().sendable == 2)
    }

    @Test("our own queue keeps a row until its not-before", arguments: QueueCase.own)
    func notBefore(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<2, rows: [])
        let day: Int64 = 86_400_000
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        for (number, wait) in [day, -day].enumerated() {
            try stage.database.execute(
                "INSERT INTO push_queue (app_id, device_token, payload, not_before) "
                    + "VALUES ('chat', ?, '{}', ?)",
                [.bytes(DeviceToken.numbered(number).bytes), stage.database.time(now + wait)])
        }
        let claim = try #require(try stage.queue().claim())
        #expect(claim.notifications.map(\.token) == [.numbered(1)])
    }
}
