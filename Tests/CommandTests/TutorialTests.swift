import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("The tutorial's two tables, unchanged")
struct TutorialTests {
    private static let tables = [
        """
        CREATE TABLE active_users (udid varchar(40) NOT NULL PRIMARY KEY,
        device_token varchar(64) NOT NULL, nickname varchar(255) NOT NULL,
        secret_code varchar(255) NOT NULL, ip_address varchar(32) NOT NULL)
        """,
        """
        CREATE TABLE push_queue (message_id integer NOT NULL PRIMARY KEY %AUTO%,
        device_token varchar(64) NOT NULL, payload varchar(256) NOT NULL,
        time_queued datetime NOT NULL, time_sent datetime)
        """,
    ]

    private static func columns(_ stage: SendStage) throws -> [[String]] {
        try stage.database.engine == .mariaDB
            ? stage.database.texts(
                "SELECT table_name, column_name, column_type, is_nullable, extra "
                    + "FROM information_schema.columns WHERE table_schema = DATABASE() "
                    + "AND table_name IN ('active_users', 'push_queue') ORDER BY 1, 2")
            : stage.database.texts(
                "SELECT sql FROM sqlite_master WHERE name IN ('active_users', 'push_queue')")
    }

    @Test(
        "rows go from enqueue to sent in these tables, and a 410 is remembered",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        var script = ProviderScript()
        script.tokens[.numbered(3)] = .reply(
            ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        let stage = try SendStage(engine, script: script, schema: false)
        stage.store += """

              active-users:
                key: [udid]
                app: none
                environment: none
                registered-at: none
                invalidated-at: none
                reason: none
            """
        for table in Self.tables {
            try stage.database.sql.run(
                table.replacingOccurrences(
                    of: "%AUTO%", with: engine == .mariaDB ? "AUTO_INCREMENT" : ""))
        }
        try stage.database.createSideTables()
        for number in 1...5 {
            let hex = DeviceToken.numbered(number).hex
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n', 'room', '127.0.0.1')",
                [.text("udid\(number)"), .text(number == 2 ? hex.uppercased() : hex)])
        }
        try stage.database.execute(
            "INSERT INTO active_users VALUES ('simulator', '0', 'n', 'room', '127.0.0.1')")
        let before = try Self.columns(stage)

        for number in 1...5 {
            let queued = try stage.start(
                ["enqueue", "--alert", "hello", "--user", "udid\(number)"]
            ).wait()
            #expect(queued.exit == 0, "\(queued.error)")
        }
        try stage.database.execute(
            "INSERT INTO push_queue (device_token, payload, time_queued) "
                + "VALUES ('0', '{}', '2024-01-01 00:00:00')")
        let result = try stage.send()
        #expect(result.exit == 0, "\(result.error)")
        #expect(result.app()["sent"] as? Int == 4)
        #expect(result.app()["gone"] as? Int == 1)
        #expect(result.app()["skipped"] as? [String: Int] == ["malformed": 1])
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM push_queue WHERE time_sent IS NOT NULL") == 4)
        #expect(
            try stage.database.texts("SELECT token FROM pushsweep_invalid").map { $0[0] }
                == [DeviceToken.numbered(3).hex])

        // The dead token is not sent to again.
        #expect(
            try stage.start(
                ["enqueue", "--alert", "again", "--token", DeviceToken.numbered(3).hex]
            ).wait().exit == 0)
        let second = try stage.send()
        #expect(second.app()["skipped"] as? [String: Int] == ["stale": 1], "\(second.error)")
        #expect(stage.gateway.log.requestsByToken[.numbered(3)] == 1)
        #expect(try Self.columns(stage) == before)
    }
}
