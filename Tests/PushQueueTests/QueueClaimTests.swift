import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Claims of queued notifications")
struct QueueClaimTests {
    @Test(
        "a claim has the next rows in the order of their keys, each once, up to the limit",
        arguments: QueueCase.all)
    func order(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<25)
        let queue = try stage.queue()
        var cursor = QueueCursor()
        var numbers: [DeviceToken] = []
        var sizes: [Int] = []
        while let claim = try queue.claim(chat, limit: 10, from: &cursor) {
            numbers += claim.notifications.map(\.token)
            sizes.append(claim.notifications.count)
            #expect(claim.keys == claim.keys.sorted())
        }
        #expect(sizes == [10, 10, 5])
        #expect(numbers == (0..<25).map { DeviceToken.numbered($0) })
        #expect(try stage.counts() == [.claimed: 25])
    }

    @Test(
        "a notification carries what its row has, and an apns-id that names the row",
        arguments: QueueCase.own)
    func content(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 7..<8, rows: [])
        let headers = NotificationHeaders(
            pushType: "background", priority: 5, expiration: 1_800_000_000, collapseID: "news")
        let payload = Array("{\"ä\":1}".utf8)
        try stage.database.execute(
            "INSERT INTO push_queue (app_id, device_token, payload, push_type, priority, expiration, "
                + "collapse_id) VALUES ('chat', ?, ?, 'background', 5, 1800000000, 'news')",
            [.bytes(DeviceToken.numbered(7).bytes), .bytes(payload)])
        let notification = try #require(try stage.queue().claim()?.notifications.first)
        #expect(notification.payload == payload && notification.headers == headers)
        #expect(notification.attempts == 0)
        let id = notification.id.bytes
        #expect(id[6] >> 4 == 8 && id[8] >> 6 == 0b10)
        #expect(id.suffix(4).reduce(0) { $0 << 8 | Int64($1) } == notification.row)
    }

    @Test(
        "stale, unknown and malformed tokens are skipped with the reason and never handed out",
        arguments: QueueCase.own)
    func skipping(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase)
        let database = stage.database
        try database.register(.numbered(0), at: start)
        try database.register(.numbered(1), at: start, mark: start + 1)
        try database.register(.numbered(2), at: start + 2, mark: start + 1)
        try database.register(.numbered(3), at: start, app: "other")
        try database.register(.numbered(4), at: start, environment: "sandbox")
        try stage.enqueue([0, 1, 2, 3, 4, 5])
        try stage.enqueue(raw: .bytes([]))
        let claim = try #require(try stage.queue().claim())
        #expect(claim.notifications.map(\.token) == [.numbered(0), .numbered(2)])
        #expect(claim.skipped == [.stale: 1, .unknown: 3, .malformed: 1])
        #expect(claim.claimed == 7 && claim.open == 2)
        #expect(try stage.counts() == [.claimed: 2, .skipped: 5])
        #expect(
            try stage.database.texts(
                "SELECT reason FROM push_queue WHERE answered_at IS NOT NULL ORDER BY id")
                == [["stale"], ["unknown"], ["unknown"], ["unknown"], ["malformed"]])
    }

    @Test(
        "a mark older than the table's own column still stops sending to its token",
        arguments: QueueCase.tutorial)
    func upgradedTable(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<2)
        try stage.database.store().apply([.dead(1, at: start + 60_000)])
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 1)
        _ = try stage.database.store().applySchema(upgrading: true)
        #expect(try stage.database.store().layout().mark != nil)
        let claim = try #require(try stage.queue().claim())
        #expect(claim.notifications.map(\.token) == [.numbered(0)])
        #expect(claim.skipped == [.stale: 1])
    }

    @Test(
        "the tutorial's skipped rows get no time of sending: no user, no push yet, no token",
        arguments: QueueCase.tutorial)
    func tutorialSkipping(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<2, rows: [])
        try stage.register(2..<3, upperCase: true)
        try stage.enqueue(0..<4)
        for text in ["0", "", "{length=32,bytes=0xc9d4...defc}"] {
            try stage.enqueue(raw: .text(text))
        }
        try stage.database.execute(
            "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at) "
                + "VALUES ('chat', 'production', ?, ?)",
            [.bytes(DeviceToken.numbered(1).bytes), stage.database.time(start)])
        let queue = try stage.queue()
        var claim = try #require(try queue.claim())
        #expect(claim.notifications.map(\.token) == [.numbered(0), .numbered(2)])
        #expect(claim.skipped == [.stale: 1, .unknown: 1, .malformed: 3])
        #expect(try queue.record(claim.results(.sent), of: &claim) == 0)
        #expect(
            try stage.database.texts(
                "SELECT message_id FROM push_queue WHERE time_sent IS NOT NULL ORDER BY message_id")
                == [["1"], ["3"]])
        #expect(try stage.counts() == [.sent: 2, .skipped: 5])
        #expect(try queue.claim() == nil)
    }

    @Test(
        "queue and token table may spell tokens differently", arguments: TestEngine.available,
        [(TokenEncoding.hex, TokenEncoding.binary), (.binary, .hex)])
    func spellings(
        _ engine: TestEngine, _ encodings: (queue: TokenEncoding, users: TokenEncoding)
    ) throws {
        let database = try TokenDatabase(engine)
        try database.createSideTables()
        func type(_ encoding: TokenEncoding) -> String {
            if encoding == .hex { return engine == .mariaDB ? "VARCHAR(200)" : "TEXT" }
            return engine == .mariaDB ? "VARBINARY(100)" : "BLOB"
        }
        try database.sql.run(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token \(type(encodings.users)))"
        )
        try database.sql.run(
            "CREATE TABLE push_queue (id INTEGER PRIMARY KEY, device_token "
                + "\(type(encodings.queue)), payload VARCHAR(100))")
        func value(_ number: Int, _ encoding: TokenEncoding, _ upper: Bool) -> SQLValue {
            let token = DeviceToken.numbered(number)
            guard encoding == .hex else { return .bytes(token.bytes) }
            return .text(upper ? token.hex.uppercased() : token.hex)
        }
        for number in 0..<20 {
            let (one, two) = (number % 2 == 0, number % 3 == 0)
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?)",
                [.integer(Int64(number)), value(number, encodings.users, one)])
            try database.execute(
                "INSERT INTO push_queue VALUES (?, ?, '{}')",
                [.integer(Int64(number)), value(number, encodings.queue, two)])
        }
        let queue = try PushQueue(database.store(), QueueLease(run: "run", host: "host"))
        let claim = try #require(try queue.claim())
        #expect(claim.notifications.count == 20 && claim.skipped.isEmpty)
    }

    @Test("a claim has rows of its app and environment only", arguments: QueueCase.own)
    func partitions(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase)
        let sandbox = Partition(app: "chat", environment: "sandbox")
        let capital = Partition(app: "Chat", environment: "production")
        for (number, partition) in [chat, sandbox, capital].enumerated() {
            try stage.database.register(
                .numbered(number), at: start, app: partition.app,
                environment: partition.environment)
            try stage.enqueue([number], in: partition)
        }
        let queue = try stage.queue()
        for (number, partition) in [chat, sandbox, capital].enumerated() {
            let claim = try #require(try queue.claim(10, partition))
            #expect(claim.notifications.map(\.token) == [.numbered(number)])
            #expect(try queue.claim(10, partition) == nil)
        }
    }

    @Test("a row that became due behind the low-water mark is claimed", arguments: QueueCase.all)
    func lowWaterMark(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<6)
        let queue = try stage.queue()
        var cursor = QueueCursor()
        var first = try #require(try queue.claim(chat, limit: 2, from: &cursor))
        var rest = try #require(try queue.claim(chat, limit: 4, from: &cursor))
        _ = try queue.record(first.results(.returned), of: &first)
        let again = try #require(try queue.claim(chat, limit: 4, from: &cursor))
        #expect(again.keys == first.keys)
        #expect(again.notifications.map(\.id) == first.notifications.map(\.id))
        _ = try queue.record(rest.results(.sent), of: &rest)
        #expect(try queue.claim(chat, limit: 4, from: &cursor) == nil)
    }
}
