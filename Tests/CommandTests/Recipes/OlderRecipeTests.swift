import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite(
    "The recipes for senders of the older interface",
    .needsServer)
struct OlderRecipeTests {
    private static let states =
        "SELECT state, COUNT(*) FROM push_queue GROUP BY state ORDER BY state"

    @Test(
        "first-provider: command 0 over one connection, custom keys as they are, and 2196 beside it"
    )
    func firstProvider() throws {
        let stage = try RecipeStage("first-provider", .mariaDB)
        var rules = BinaryRules()
        for number in [2, 3] { rules.script.tokens[.numbered(number)] = .dead() }
        let gateways = try stage.olderGateways("chat", rules)
        let certificates = try SweepStage.certificates.get()
        let pem = try [certificates.certificate(.client), certificates.key(.client)].map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        try stage.folder.write("apns.pem", pem.joined())
        for number in 1...4 {
            try stage.database.execute(
                "INSERT INTO devices (user_id, device_token, created_at) VALUES (?, ?, '2020-01-01')",
                [.integer(Int64(number)), .text(hexToken(number))])
        }
        try stage.follow("First run")
        try stage.follow("Send with command 0")
        let statement = try #require(
            stage.blocks.first { $0.section == "Send with command 0" && $0.language == "sql" })
        let sent = try #require(gateways.binary.log.accepted.first)
        #expect(sent.command == .simple && sent.token == .numbered(1))
        #expect(statement.text.contains("'\(String(decoding: sent.payload, as: UTF8.self))'"))

        let follower = try stage.start(block: "follow")
        for (number, size) in [(2, 40), (3, 40), (4, 256), (4, 257)] {
            try stage.database.execute(
                "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, ?)",
                [.bytes(DeviceToken.numbered(number).bytes), .text(payload(bytes: size))])
        }
        try stage.awaitRows(Self.states, [["failed", "1"], ["sent", "4"]])
        #expect(
            try stage.database.texts("SELECT reason FROM push_queue WHERE state = 'failed'")
                == [["invalid payload size (7)"]])
        // A device that registered after the gateway's time is kept.
        try stage.database.execute("UPDATE devices SET created_at = '2037-01-01' WHERE user_id = 3")
        try stage.follow("Dead tokens")
        #expect(
            try stage.database.texts("SELECT LOWER(HEX(token)) FROM pushsweep_invalid")
                == [[hexToken(2)]])
        for number in [2, 3] {
            try stage.database.execute(
                "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, ?)",
                [.bytes(DeviceToken.numbered(number).bytes), .text(payload(bytes: 40))])
        }
        try stage.awaitRows(Self.states, [["failed", "1"], ["sent", "5"], ["skipped", "1"]])
        follower.signal(SIGTERM)
        let end = follower.wait()
        // One notification was closed as failed.
        #expect(end.exit == 65, "\(end.error)")

        // `check` made one more, without a handshake.
        let connections = gateways.binary.log.connections(atLeast: 3).filter { $0.frames > 0 }
        #expect(connections.map(\.frames) == [1, 4], "one connection for each sender")
        #expect(gateways.binary.log.records.allSatisfy { $0.frame.command == .simple })
        #expect(
            gateways.binary.log.acceptedByToken == [
                .numbered(1): 1, .numbered(2): 1, .numbered(3): 2, .numbered(4): 1,
            ])
    }

    @Test("pushchat-gateway: both daemons replaced on the unchanged tables, deleted rows come back")
    func pushchatGateway() throws {
        let stage = try RecipeStage("pushchat-gateway", .mariaDB)
        let columns =
            "SELECT table_name, column_name, column_type FROM information_schema.columns "
            + "WHERE table_schema = DATABASE() AND table_name IN ('active_users', 'push_queue') "
            + "ORDER BY 1, 2"
        let before = try stage.database.texts(columns)
        var rules = BinaryRules()
        rules.script.tokens[.numbered(2)] = .dead()
        rules.script.tokens[.numbered(4)] = .reject(.invalidToken)
        let gateways = try stage.olderGateways("pushchat", rules)
        try Self.encryptedPEM(stage)

        // As join and message of api.php write the rows; user 6 has left.
        let tokens = [hexToken(1), hexToken(2).uppercased(), hexToken(3), hexToken(4), "0"]
        for (number, token) in tokens.enumerated() {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n', 'room', '127.0.0.1')",
                [.text("udid\(number)"), .text(token)])
        }
        for token in tokens + [hexToken(6)] { try Self.message(stage, to: token) }
        try stage.follow("First run")
        try stage.follow("Send PushChat's queue")
        let waiting =
            "SELECT device_token FROM push_queue WHERE time_sent IS NULL ORDER BY message_id"
        #expect(try stage.database.texts(waiting) == [[hexToken(4)], ["0"], [hexToken(6)]])
        let results =
            "SELECT d.state, d.reason FROM push_queue q JOIN pushsweep_delivery d "
            + "ON d.queue_key = q.message_id WHERE q.time_sent IS NULL ORDER BY q.message_id"
        #expect(
            try stage.database.texts(results) == [
                ["failed", "invalid token (8)"], ["skipped", "malformed"], ["skipped", "unknown"],
            ])

        let follower = try stage.start(block: "follow")
        try Self.message(stage, to: hexToken(3))
        try stage.awaitRows("SELECT COUNT(*) FROM push_queue WHERE time_sent IS NOT NULL", [["4"]])
        follower.signal(SIGTERM)
        let end = follower.wait()
        #expect(Self.isStop(end.exit), "\(end.error)")
        #expect(
            gateways.binary.log.acceptedByToken
                == [.numbered(1): 1, .numbered(2): 1, .numbered(3): 2])
        #expect(gateways.binary.log.records.allSatisfy { $0.frame.command == .framed })
        let log = try stage.log()
        #expect(log.contains { $0[3] == "sent" }, "\(log)")
        #expect(log.contains { $0[3...4] == ["failed", "invalid token (8)"] }, "\(log)")

        let users = "SELECT udid FROM active_users ORDER BY udid"
        try stage.follow("Dead tokens")
        #expect(try stage.database.texts(users) == [["udid0"], ["udid2"], ["udid3"], ["udid4"]])
        #expect(try stage.database.texts(columns) == before)
        try stage.run("undo", "--since", "2000-01-01T00:00:00Z").ends(0)
        #expect(try stage.database.texts(users).count == 5)
    }

    @Test("pushchat-gateway: with the added time, a user who joined after the report is kept")
    func pushchatGatewayTime() throws {
        let stage = try RecipeStage("pushchat-gateway", .mariaDB)
        let gateways = try stage.olderGateways("pushchat")
        try Self.encryptedPEM(stage)
        let other = try DocumentBlock.all(of: "docs/recipes/pushchat.md")
        let time = try #require(other.first { $0.name == "time" }?.statements.first)
        try stage.database.sql.run(time)
        stage.settings = stage.settings.replacing(
            ", delete-without-registration-time: true", with: "")
        for (number, registered) in [(1, "2020-01-01"), (2, "2037-01-01")] {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n', 'room', '127.0.0.1', ?)",
                [.text("udid\(number)"), .text(hexToken(number)), .text(registered)])
            gateways.dead.kill(.numbered(number))
            try Self.message(stage, to: hexToken(number))
        }
        try stage.follow("First run")
        try stage.follow("Send PushChat's queue")
        try stage.follow("Dead tokens")
        #expect(try stage.database.texts("SELECT udid FROM active_users") == [["udid2"]])
    }

    /// Whether a following sender ended well: 75 says that the signal came within a batch.
    private static func isStop(_ exit: Int32) -> Bool { exit == 0 || exit == 75 }

    /// The tutorial's file: the certificate and its key, encrypted, in one PEM file.
    static func encryptedPEM(_ stage: RecipeStage) throws {
        let certificates = try SweepStage.certificates.get()
        // The certificate of the tests is for this topic.
        stage.environment["PUSHSWEEP_APPS_PUSHCHAT_TOPIC"] = "com.example.chat"
        try stage.copy([(certificates.clientPassphraseFile, "pushchat-passphrase")])
        let file = stage.folder.file("ck_production.pem")
        let made = try RunningTool(
            program: URL(fileURLWithPath: "/usr/bin/openssl"),
            [
                "pkcs12", "-in", certificates.clientPKCS12, "-out", file, "-passin",
                "file:\(certificates.clientPassphraseFile)", "-passout",
                "file:\(stage.folder.file("pushchat-passphrase"))",
            ]
        ).wait()
        try #require(made.exit == 0, "\(made.error)")
        #expect(try String(contentsOfFile: file, encoding: .utf8).contains("ENCRYPTED"))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
    }

    /// Queues a message as `api.php` does.
    static func message(_ stage: RecipeStage, to token: String) throws {
        try stage.database.execute(
            "INSERT INTO push_queue (device_token, payload, time_queued) VALUES (?, ?, NOW())",
            [.text(token), .text(#"{"aps":{"alert":"ada: hello","sound":"default"}}"#)])
    }
}
