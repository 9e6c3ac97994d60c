import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Reading and filling the queue")
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
        "a preview and a count work on the tutorial's tables without any table of ours",
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
        #expect(try stage.counts() == [.pending: 2, .sent: 1])
        #expect(try stage.preview().sendable == 2)
    }

    @Test("the tokens of a user are those that may be sent to", arguments: QueueCase.all)
    func usersTokens(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase)
        let store = try stage.database.store()
        if queueCase.tables == .own {
            try stage.database.register(.numbered(1), at: start, user: "anna")
            try stage.database.register(.numbered(2), at: start, mark: start + 1, user: "anna")
            try stage.database.register(.numbered(3), at: start, app: "other", user: "anna")
            try stage.database.register(.numbered(4), at: start, user: "bert")
            #expect(try store.tokens(ofUser: "anna", in: chat) == [.numbered(1)])
        } else {
            try stage.register(1..<3)
            #expect(try store.tokens(ofUser: "udid2", in: chat) == [.numbered(2)])
        }
        #expect(try store.tokens(ofUser: "nobody", in: chat).isEmpty)
    }

    @Test("a value that the queue has no column for is refused, and nothing is queued")
    func missingColumn() throws {
        let stage = try QueueStage(QueueCase(engine: .sqlite, tables: .tutorial))
        let failure = #expect(throws: StoreFailure.self) {
            try stage.database.store().enqueue(
                [
                    NewNotification(token: .numbered(1), payload: [0x7B, 0x7D]),
                    NewNotification(
                        token: .numbered(2), payload: [0x7B, 0x7D],
                        headers: NotificationHeaders(priority: 5)),
                ], for: chat)
        }
        #expect(failure?.sentence.contains("store.push-queue.priority") == true)
        #expect(try stage.counts() == [:])
    }

    @Test(
        "a commit of new rows with a lost answer is reported and not repeated",
        arguments: QueueCase.own, [false, true])
    func lostCommit(_ queueCase: QueueCase, _ isExecuted: Bool) throws {
        let stage = try QueueStage(queueCase)
        let rows = [NewNotification(token: .numbered(1), payload: [0x7B, 0x7D])]
        let counter = FaultyConnection(stage.database.driver(), [])
        try TokenTable(stage.database.settings, counter, hurried()).enqueue(rows, for: chat)
        let commit = counter.operations
        let connection = FaultyConnection(
            stage.database.driver(),
            [.init(operation: commit, isExecuted: isExecuted, kind: .lost)])
        let failure = #expect(throws: StoreFailure.self) {
            try TokenTable(stage.database.settings, connection, hurried()).enqueue(rows, for: chat)
        }
        #expect(failure?.code == .commitUnknown)
        #expect(try stage.counts() == [.pending: isExecuted ? 2 : 1])
    }

    @Test("our own queue keeps a row until its not-before", arguments: QueueCase.own)
    func notBefore(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<2, rows: [])
        let day: Int64 = 86_400_000
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        try stage.database.store().enqueue(
            [day, -day].enumerated().map { number, wait in
                NewNotification(
                    token: .numbered(number), payload: [0x7B, 0x7D],
                    notBefore: EpochMilliseconds(now + wait))
            }, for: chat)
        let claim = try #require(try stage.queue().claim())
        #expect(claim.notifications.map(\.token) == [.numbered(1)])
    }

    @Test(
        "a payload goes into a column of any character set with the meaning that it had",
        .needsServer,
        arguments: [
            ("latin1", true), ("ascii", true), ("cp1251", true), ("utf8mb3", true),
            ("utf8mb4", false), ("utf16", false),
        ])
    func characterSets(_ set: String, _ isEscaped: Bool) throws {
        let stage = try QueueStage(QueueCase(engine: .mariaDB, tables: .tutorial))
        try stage.database.execute(
            "ALTER TABLE push_queue MODIFY payload VARCHAR(256) CHARACTER SET \(set) NOT NULL")
        try stage.register(1..<2)
        let text =
            "{\"aps\":{\"alert\":\"\u{E9}\u{20AC}\u{65E5}\u{1F600}\u{1F468}\u{200D}\u{1F469} \\\" ?\"}}"
        try stage.database.store().enqueue(
            [NewNotification(token: .numbered(1), payload: Array(text.utf8))], for: chat)
        let claim = try #require(try stage.queue().claim())
        let sent = try #require(claim.notifications.first).payload
        let meaning = { (bytes: [UInt8]) in
            try JSONDecoder().decode([String: [String: String]].self, from: Data(bytes))
        }
        #expect(try meaning(sent) == meaning(Array(text.utf8)))
        #expect((sent == Array(text.utf8)) != isEscaped)
        #expect(String(decoding: sent, as: UTF8.self).contains("\\ud83d\\ude00") == isEscaped)
    }

    @Test(
        "a payload that is too long with its escapes is refused before it is queued",
        .needsServer
    )
    func tooLongWithEscapes() throws {
        let stage = try QueueStage(QueueCase(engine: .mariaDB, tables: .tutorial))
        try stage.database.execute(
            "ALTER TABLE push_queue MODIFY payload VARCHAR(9000) CHARACTER SET latin1 NOT NULL")
        let text = "{\"aps\":{\"alert\":\"\(String(repeating: "\u{1F600}", count: 400))\"}}"
        let failure = #expect(throws: StoreFailure.self) {
            try stage.database.store().enqueue(
                [NewNotification(token: .numbered(1), payload: Array(text.utf8))], for: chat)
        }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("with escapes") == true)
        #expect(try stage.database.rows(of: "push_queue") == 0)
    }
}
