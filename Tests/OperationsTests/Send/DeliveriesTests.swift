import APNsProtocol
import Database
import Foundation
import Operations
import PushQueue
import TestSupport
import Testing
import TokenHygiene
import TokenTable

private let began: Int64 = 1_700_000_000_000

/// A list of notifications as JSON has it.
private struct Listed: Decodable {
    let deliveries: [DeliveryLine]
    let exit: Int32
    let gaps: [String]
    let more: Bool
    let notes: [String]

    var ids: [Int64] { deliveries.map(\.id) }
    var states: [String] { deliveries.map(\.state) }
}

extension SweepStage {
    /// Lists notifications; `change` says which.
    fileprivate func list(
        _ environment: [String: String] = [:],
        _ change: (inout DeliveryWish) throws -> Void = { _ in }
    ) throws -> Listed {
        var wish = DeliveryWish()
        wish.format = .json
        try change(&wish)
        let text = Mutable("")
        try Deliveries.run(loaded(nil, environment), wish, .silent()) {
            text.value += $0
            return true
        }
        return try JSONDecoder().decode(Listed.self, from: Data(text.value.utf8))
    }

    fileprivate func ids(_ change: (inout DeliveryWish) throws -> Void) throws -> [Int64] {
        try list([:], change).ids
    }

    /// Puts a row into the queue of our own schema, queued a number of seconds after the start.
    fileprivate func queue(
        _ token: DeviceToken, _ state: String = "pending", _ reason: String? = nil,
        after seconds: Int64 = 0, app: String = "chat", environment: String = "production"
    ) throws {
        let queued = began + seconds * 1_000
        let isOpen = ["pending", "retry"].contains(state)
        try database.execute(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at, state, "
                + "attempts, reason, not_before, answered_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                .text(app), .text(environment), .bytes(token.bytes), .bytes(Array("{}".utf8)),
                database.time(queued), .text(state), .integer(state == "pending" ? 0 : 2),
                reason.map(SQLValue.text) ?? .null,
                state == "retry" ? database.time(queued + 60_000) : .null,
                isOpen ? .null : database.time(queued + 5_000),
            ])
    }

    /// One row in each state, in the order of `DeliveryState`, to tokens 0 to 7; a sender holds row 2.
    fileprivate func queueAllStates() throws {
        for (number, state) in DeliveryState.allCases.enumerated() {
            try database.register(.numbered(number), at: 1, user: "user \(number)")
            let isOpen = !state.isFinal && state != .retry
            try queue(
                .numbered(number), isOpen ? "pending" : state.rawValue,
                isOpen || state == .sent ? nil : "why \(number)", after: Int64(number))
        }
        let queue = try PushQueue(TokenTable(database.settings), QueueLease(run: "r", host: "h"))
        var cursor = QueueCursor()
        // The token of the first row must not be sent to by then.
        try database.execute(
            "UPDATE push_queue SET not_before = ? WHERE id = 1", [database.time(4_000_000_000_000)])
        _ = try queue.claim(chat, limit: 1, from: &cursor)
        try database.execute("UPDATE push_queue SET not_before = NULL WHERE id = 1")
    }
}

/// A value that a closure changes.
private final class Mutable<Value> {
    var value: Value
    init(_ value: Value) { self.value = value }
}

@Suite("A list of notifications")
struct DeliveriesTests {
    private static func stage(_ engine: TestEngine) throws -> SweepStage {
        let stage = try SweepStage(engine)
        try stage.queueAllStates()
        return stage
    }

    @Test(
        "each notification has its state, the newest first, and each filter lets through what it says",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        let found = try stage.list()
        #expect(!found.more && found.gaps == [] && found.notes == [])
        #expect(found.states == DeliveryState.allCases.map(\.rawValue).reversed())
        #expect(found.ids == (1...8).reversed())
        #expect(found.deliveries.map(\.users) == (0..<8).reversed().map { ["user \($0)"] })
        #expect(found.deliveries.allSatisfy { $0.token == "a5a5a5a5…" && $0.app == "chat" })
        let gone = try #require(found.deliveries.first { $0.state == "gone" })
        #expect(gone.reason == "why 5" && gone.attempts == 2 && gone.notBefore == nil)
        #expect(gone.queued == "2023-11-14T22:13:25.000Z")
        #expect(gone.answered == "2023-11-14T22:13:30.000Z")
        let retry = try #require(found.deliveries.first { $0.state == "retry" })
        #expect(retry.notBefore == "2023-11-14T22:14:22.000Z" && retry.answered == nil)
        let whole = try stage.list { $0.wholeTokens = true }
        #expect(whole.deliveries[0].token == DeviceToken.numbered(7).hex)

        for (place, state) in DeliveryState.allCases.enumerated() {
            #expect(try stage.ids { $0.states = [state] } == [Int64(place + 1)], "\(state)")
        }
        #expect(try stage.ids { $0.states = [.claimed, .retry, .gone] } == [6, 3, 2])
        #expect(try stage.ids { $0.subject = .token(.numbered(3)) } == [4])
        #expect(try stage.ids { $0.subject = .user("user 4") } == [5])
        let none = try stage.ids {
            ($0.subject, $0.states) = (.user("user 4"), [.sent])
        }
        #expect(none == [])
        let late = EpochMilliseconds(began + 6_000)
        #expect(try stage.ids { $0.since = late } == [8, 7])
        #expect(try stage.ids { ($0.since, $0.states) = (late, [.failed]) } == [7])
        let nobody = try stage.list { $0.subject = .user("nobody") }
        #expect(nobody.ids == [] && nobody.notes.contains { $0.contains("check --user") })
        // Reading fails in a list of rows that wait, and only there.
        try stage.database.execute("UPDATE pushsweep_claim SET row_keys = x'ffff'")
        #expect(throws: RunFailure.self) { try stage.list() }
        #expect(try stage.ids { $0.states = [.gone] } == [6])
    }

    @Test(
        "rows of several apps and environments are told apart, and those of none are there",
        arguments: TestEngine.available)
    func apps(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        stage.lines.apps = """
              - {name: chat, topic: com.example.chat, environment: sandbox}
              - {name: talk, value: T, topic: com.example.talk, environment: production}
            """
        try stage.queue(.numbered(1))
        try stage.queue(.numbered(1), environment: "sandbox")
        try stage.queue(.numbered(1), app: "T")
        try stage.queue(.numbered(1), app: "Chat")
        let all = try stage.list().deliveries
        #expect(all.map(\.app) == [nil, "talk", "chat", "chat"])
        #expect(all.map(\.environment) == [nil, "production", "sandbox", "production"])
        #expect(try stage.ids { $0.apps = ["chat"] } == [2, 1])
        #expect(try stage.ids { $0.environment = "production" } == [3, 1])
        #expect(
            try stage.ids { ($0.apps, $0.environment) = (["chat", "talk"], "production") } == [
                3, 1,
            ])
        #expect(throws: RunFailure.self) {
            try stage.list { ($0.apps, $0.environment) = (["talk"], "sandbox") }
        }
    }

    @Test(
        "the list ends at the limit, and without an index only the newest rows are searched",
        arguments: TestEngine.available)
    func limits(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        try stage.database.sql.begin()
        for number in 0..<1_201 {
            try stage.queue(.numbered(number), number == 4 ? "failed" : "sent")
        }
        try stage.database.sql.commit()
        #expect(try stage.ids { _ in } == (1_102...1_201).reversed())
        let most = try stage.list { $0.limit = 1_200 }
        #expect(most.more && most.ids == (2...1_201).reversed())
        let all = try stage.list { $0.limit = 1_201 }
        #expect(!all.more && all.ids == (1...1_201).reversed())

        func failed(_ searched: Int) throws -> Listed {
            try stage.list { ($0.states, $0.searched) = ([.failed], searched) }
        }
        let little = try failed(20)
        #expect(little.ids == [] && little.notes.count == 1)
        #expect(little.notes[0].contains("only its newest 20 rows were searched; --search"))
        #expect(try failed(1_197).ids == [5])
        #expect(try failed(1_201).notes == [])
        // The queue's own index finds open rows, and keys find claimed ones.
        for state in [DeliveryState.retry, .claimed] {
            #expect(try stage.list { ($0.states, $0.searched) = ([state], 1) }.notes == [])
        }
        func token() throws -> Listed {
            try stage.list { ($0.subject, $0.searched) = (.token(.numbered(4)), 20) }
        }
        #expect(try token().notes.count == 1)
        try stage.database.execute("CREATE INDEX by_token ON push_queue (device_token)")
        let found = try token()
        #expect(found.notes == [] && found.ids == [5])
    }

    @Test("what an account may not read is named, and the rest is listed", .needsServer)
    func account() throws {
        let stage = try Self.stage(.mariaDB)
        let account = try ServerAccount(of: stage.database)
        let ca = ["PUSHSWEEP_STORE_TLS_CA": try #require(MariaDBServer.fromEnvironment).ca]
        let environment = account.environment.merging(ca) { $1 }
        try account.grant(on: "push_queue")
        let little = try stage.list(environment)
        #expect(little.gaps.contains { $0.hasPrefix("pushsweep_claim: the account may not") })
        #expect(little.gaps.contains { $0.hasPrefix("users: ") }, "\(little.gaps)")
        #expect(little.ids.count == 8 && little.deliveries.allSatisfy { $0.users == nil })
        #expect(!little.states.contains("claimed"))
        try account.grant()
        let whole = try stage.list(environment)
        #expect(whole.gaps == [] && whole.deliveries[0].users == ["user 7"])
        #expect(whole.states.contains("claimed"))
    }

    /// The tables of the PushChat tutorial, with rows of every kind.
    private static func tutorial(_ engine: TestEngine) throws -> SweepStage {
        let stage = try SweepStage(engine, schema: false)
        let database = stage.database
        try database.createSideTables()
        try database.sql.run(
            "CREATE TABLE active_users (udid varchar(40) NOT NULL PRIMARY KEY, "
                + "device_token varchar(64) NOT NULL, nickname varchar(255) NOT NULL)")
        try database.sql.run(
            "CREATE TABLE push_queue (message_id integer NOT NULL PRIMARY KEY "
                + (engine == .mariaDB ? "AUTO_INCREMENT" : "AUTOINCREMENT")
                + ", device_token varchar(64) NOT NULL, payload varchar(256) NOT NULL, "
                + "time_queued datetime NOT NULL, time_sent datetime)")
        stage.lines.activeUsers =
            "  active-users: {key: [udid], app: none, environment: none, registered-at: none, "
            + "invalidated-at: none, reason: none}"
        for number in 1...7 {
            let hex = number == 7 ? "0" : DeviceToken.numbered(number).hex
            if number < 7 {
                try database.execute(
                    "INSERT INTO active_users VALUES (?, ?, 'n')",
                    [.text("udid\(number)"), .text(number == 2 ? hex.uppercased() : hex)])
            }
            try database.execute(
                "INSERT INTO push_queue (device_token, payload, time_queued, time_sent) "
                    + "VALUES (?, '{}', '2026-11-20 10:00:0\(number)', ?)",
                [.text(hex), number <= 2 ? .text("2026-11-20 10:05:00") : .null])
        }
        // Row 1 was sent by another program alone; row 6 waits.
        for (key, state) in [(2, "sent"), (3, "failed"), (4, "gone"), (5, "retry"), (7, "skipped")]
        {
            let (time, isOpen) = (database.time(1_795_169_000_000), state == "retry")
            try database.execute(
                "INSERT INTO pushsweep_delivery (queue, queue_key, state, attempts, reason, "
                    + "not_before, answered_at) VALUES ('push_queue', ?, ?, 1, 'why', ?, ?)",
                [.integer(Int64(key)), .text(state), isOpen ? time : .null, isOpen ? .null : time])
        }
        return stage
    }

    @Test(
        "of the tutorial's tables states come from the side table and the time of sending",
        arguments: TestEngine.available)
    func tutorial(_ engine: TestEngine) throws {
        let stage = try Self.tutorial(engine)
        let found = try stage.list()
        #expect(found.states == ["skipped", "pending", "retry", "gone", "failed", "sent", "sent"])
        #expect(
            found.deliveries.map(\.token) == [nil] + [String?](repeating: "a5a5a5a5…", count: 6))
        #expect(
            found.deliveries.map { $0.users?.first }
                == [nil] + (1...6).reversed().map { "udid\($0)" })
        let other = try #require(found.deliveries.last)
        #expect(other.attempts == 0 && other.answered == "2026-11-20T10:05:00.000Z")
        #expect(other.queued == "2026-11-20T10:00:01.000Z" && other.app == "chat")
        // Its tokens have no index, which is said where users are looked up.
        #expect(found.notes.contains { $0.contains("to name users") }, "\(found.notes)")
        for (state, ids) in [
            (.sent, [2, 1]), (.pending, [6]), (.retry, [5]), (.failed, [3]), (.claimed, []),
        ] as [(DeliveryState, [Int64])] {
            #expect(try stage.ids { $0.states = [state] } == ids, "\(state)")
        }
        #expect(try stage.ids { $0.states = [.sent, .pending] } == [6, 2, 1])
        #expect(try stage.ids { $0.subject = .user("udid2") } == [2])
        // Another program marks a row that waited.
        try stage.database.execute(
            "UPDATE push_queue SET time_sent = '2026-11-20 11:00:00' WHERE message_id = 5")
        #expect(try stage.ids { $0.states = [.sent] } == [5, 2, 1])
        #expect(try stage.ids { $0.states = [.retry] } == [])
        // Without the side tables the time of sending tells the state, and the gap is named.
        for table in ["pushsweep_delivery", "pushsweep_claim"] {
            try stage.database.execute("DROP TABLE \(table)")
        }
        let bare = try stage.list()
        #expect(bare.gaps.count == 2, "\(bare.gaps)")
        #expect(
            bare.states == ["pending", "pending", "sent", "pending", "pending", "sent", "sent"])
    }

    @Test("times of queueing are found by instant, and --since names the setting that it needs")
    func times() throws {
        let stage = try SweepStage(.sqlite)
        for (number, text) in [
            "2026-11-20 10:00:00", "2026-11-20T10:00:01.000Z", "2026-11-20T05:00:02-05:00",
            "2026-11-20 09:59:59.999",
        ].enumerated() {
            try stage.queue(.numbered(1), "sent")
            try stage.database.execute(
                "UPDATE push_queue SET queued_at = ? WHERE id = \(number + 1)", [.text(text)])
        }
        let since = try #require(EpochMilliseconds(iso8601: "2026-11-20T10:00:00Z"))
        #expect(try stage.ids { $0.since = since } == [3, 2, 1])
        stage.lines.store += "\n  push-queue: {queued-at: none}"
        #expect(try stage.list().deliveries.allSatisfy { $0.queued == nil })
        let failure = #expect(throws: RunFailure.self) { try stage.list { $0.since = since } }
        #expect(failure?.exit == .configuration)
        #expect(failure?.description.contains("store.push-queue.queued-at") == true)
    }
}
