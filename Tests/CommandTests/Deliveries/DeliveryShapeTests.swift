import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing

@Suite("pushsweep deliveries, queues of other shapes")
struct DeliveryShapeTests {
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
        for number in 1...6 {
            let hex = DeviceToken.numbered(number).hex
            try database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n')",
                [.text("udid\(number)"), .text(number == 2 ? hex.uppercased() : hex)])
            try database.execute(
                "INSERT INTO push_queue (device_token, payload, time_queued, time_sent) "
                    + "VALUES (?, '{}', '2026-11-20 10:00:0\(number)', ?)",
                [.text(hex), number <= 2 ? .text("2026-11-20 10:05:00") : .null])
        }
        try database.execute(
            "INSERT INTO push_queue (device_token, payload, time_queued) "
                + "VALUES ('0', '{}', '2026-11-20 10:00:07')")
        // Row 1 was sent by another program alone; row 6 waits.
        for (key, state, reason) in [
            (2, "sent", nil), (3, "failed", "BadDeviceToken"), (4, "gone", "Unregistered"),
            (5, "retry", "InternalServerError"), (7, "skipped", "malformed"),
        ] as [(Int, String, String?)] {
            try database.execute(
                "INSERT INTO pushsweep_delivery (queue, queue_key, state, attempts, reason, "
                    + "not_before, answered_at) VALUES (?, ?, ?, 1, ?, ?, ?)",
                [
                    .text("push_queue"), .integer(Int64(key)), .text(state),
                    reason.map(SQLValue.text) ?? .null,
                    state == "retry" ? database.time(1_795_170_000_000) : .null,
                    state == "retry" ? .null : database.time(1_795_169_000_000),
                ])
        }
        return stage
    }

    @Test(
        "of the tutorial's tables states come from pushsweep_delivery and time_sent",
        arguments: TestEngine.available)
    func states(_ engine: TestEngine) throws {
        let stage = try Self.tutorial(engine)
        let found = try stage.deliveries()
        #expect(
            found.deliveries.map(\.state) == [
                "skipped", "pending", "retry", "gone", "failed", "sent", "sent",
            ])
        #expect(
            found.deliveries.map(\.token) == [nil] + [String?](repeating: "a5a5a5a5…", count: 6))
        #expect(
            found.deliveries.map { $0.users?.first } == [
                nil, "udid6", "udid5", "udid4", "udid3", "udid2", "udid1",
            ])
        #expect(found.deliveries.allSatisfy { $0.app == "chat" && $0.environment == "production" })
        let other = try #require(found.deliveries.last)
        #expect(other.attempts == 0 && other.answered == "2026-11-20T10:05:00.000Z")
        #expect(other.queued == "2026-11-20T10:00:01.000Z")
        // Its tokens have no index, which is said where users are looked up.
        #expect(found.notes.contains { $0.contains("to name users") }, "\(found.notes)")
        for (state, ids) in [
            ("sent", [2, 1]), ("pending", [6]), ("retry", [5]), ("failed", [3]), ("gone", [4]),
            ("skipped", [7]), ("claimed", []),
        ] as [(String, [Int64])] {
            #expect(try stage.deliveries("--state", state).deliveries.map(\.id) == ids, "\(state)")
        }
        #expect(
            try stage.deliveries("--state", "sent", "--state", "pending").deliveries.map(\.id) == [
                6, 2, 1,
            ])
        let user = try stage.deliveries("--user", "udid2")
        #expect(user.deliveries.map(\.id) == [2] && user.deliveries[0].users == ["udid2"])
        #expect(
            try stage.deliveries("--since", "2026-11-20T10:00:05Z").deliveries.map(\.id) == [
                7, 6, 5,
            ])
    }

    @Test(
        "a row that another program marked as sent is sent, although it waited before",
        arguments: TestEngine.available)
    func sentElsewhere(_ engine: TestEngine) throws {
        let stage = try Self.tutorial(engine)
        try stage.database.execute(
            "UPDATE push_queue SET time_sent = '2026-11-20 11:00:00' WHERE message_id = 5")
        #expect(try stage.deliveries("--state", "sent").deliveries.map(\.id) == [5, 2, 1])
        #expect(try stage.deliveries("--state", "retry").deliveries.isEmpty)
    }

    @Test(
        "without the side tables the time of sending tells the state, and the gap is named",
        arguments: TestEngine.available)
    func noSideTables(_ engine: TestEngine) throws {
        let stage = try Self.tutorial(engine)
        try stage.database.execute("DROP TABLE pushsweep_delivery")
        try stage.database.execute("DROP TABLE pushsweep_claim")
        let found = try stage.deliveries()
        #expect(found.gaps.count == 2, "\(found.gaps)")
        #expect(found.gaps.contains { $0.hasPrefix("pushsweep_delivery: ") })
        #expect(
            found.deliveries.map(\.state) == [
                "pending", "pending", "pending", "pending", "pending", "sent", "sent",
            ])
        #expect(try stage.deliveries("--state", "sent").deliveries.map(\.id) == [2, 1])
        #expect(try stage.deliveries("--state", "failed").deliveries.isEmpty)
    }

    @Test(
        "a queue without a time of queueing is listed, and --since names the setting it needs",
        arguments: TestEngine.available)
    func untimed(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        stage.lines.store += "\n  push-queue: {queued-at: none}"
        try stage.queue(.numbered(1), "sent")
        #expect(try stage.deliveries().deliveries.map(\.queued) == [nil])
        let refused = try stage.run("deliveries", "--since", "2023-01-01")
        #expect(refused.exit == 78 && refused.output == "", "\(refused.error)")
        #expect(refused.error.contains("store.push-queue.queued-at"), "\(refused.error)")
    }

    @Test("texts of times are found by instant, whatever separator and zone they have")
    func textTimes() throws {
        let stage = try SweepStage(.sqlite)
        for text in [
            "2026-11-20 10:00:00", "2026-11-20T10:00:01.000Z", "2026-11-20T05:00:02-05:00",
            "2026-11-20 09:59:59.999",
        ] {
            try stage.queue(.numbered(1), "sent")
            try stage.database.execute(
                "UPDATE push_queue SET queued_at = ? WHERE id = (SELECT MAX(id) FROM push_queue)",
                [.text(text)])
        }
        #expect(
            try stage.deliveries("--since", "2026-11-20T10:00:00Z").deliveries.map(\.id) == [
                3, 2, 1,
            ])
    }

    @Test("an account without the time of queueing lists the rows, and names the gap")
    func hiddenTime() throws {
        guard let server = MariaDBServer.fromEnvironment else { return }
        let stage = try Self.tutorial(.mariaDB)
        let account = try #require(try ReadingAccount(of: stage.database))
        for table in ["active_users", "pushsweep_claim", "pushsweep_delivery"] {
            try account.grantSelect(on: table)
        }
        let url = try #require(account.environment["PUSHSWEEP_STORE_URL"])
        let name = try #require(url.split(separator: "@").first?.dropFirst("mysql://".count))
        try server.connection().run(
            "GRANT SELECT (message_id, device_token, payload, time_sent), INSERT (time_queued) "
                + "ON \(stage.database.name).push_queue TO '\(name)'@'%'")
        let found = try stage.deliveries(environment: account.environment)
        #expect(found.deliveries.count == 7 && found.deliveries.allSatisfy { $0.queued == nil })
        #expect(found.gaps.contains { $0.hasPrefix("the time of queueing") }, "\(found.gaps)")
        let refused = try stage.run(
            "deliveries", "--since", "2023-01-01", environment: account.environment)
        #expect(refused.exit == 77 && refused.error.contains("grant SELECT"), "\(refused.error)")
    }
}
