import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite(
    "The recipes for tables that only a server has",
    .needsServer)
struct ServerRecipeTests {
    private static let hex = RecipeStage.hex

    @Test("pushchat: the two tables stay as they are, with the sender kept or replaced")
    func pushchat() throws {
        let stage = try RecipeStage("pushchat", .mariaDB)
        let gateway = try stage.provider(["pushchat"], dead: [.numbered(2)])
        let columns =
            "SELECT table_name, column_name, column_type FROM information_schema.columns "
            + "WHERE table_schema = DATABASE() AND table_name IN ('active_users', 'push_queue') "
            + "ORDER BY 1, 2"
        let before = try stage.database.texts(columns)
        let tokens = [hexToken(1), hexToken(2).uppercased(), Self.hex, "0"]
        for (number, token) in tokens.enumerated() {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n', 'room', '127.0.0.1')",
                [.text("udid\(number)"), .text(token)])
            try stage.database.execute(
                "INSERT INTO push_queue (device_token, payload, time_queued) VALUES (?, ?, NOW())",
                [.text(token), .text(#"{"aps":{"alert":"hello"}}"#)])
        }
        let printed = try stage.follow("First run")
        #expect(
            printed.contains("warning: database: column device_token of active_users has no index"))
        #expect(printed.contains("active_users has no column for the time of registration"))
        try stage.follow("Replace push.php")
        #expect(gateway.log.requestsByToken.count == 3)
        #expect(try stage.database.rows(of: "push_queue", "time_sent IS NOT NULL") == 2)
        #expect(try stage.marked == 1)
        let log = try stage.log().map { [$0[0]] + $0[3...4] }
        #expect(log.map { $0[0] } == ["4", "3", "2", "1"])
        #expect(
            log[0] == ["4", "skipped", "malformed"] && log[2] == ["2", "gone", "Unregistered"])
        #expect(log[3][1] == "sent")

        stage.settings = stage.settings.split(separator: "\n").filter {
            !$0.contains("token-key") && !$0.contains("provider")
        }.joined(separator: "\n")
        stage.environment = stage.environment.filter { !$0.key.contains("PROVIDER") }
        try stage.follow("Keep another sender")
        #expect(try stage.marked == 2)
        #expect(try stage.database.texts(columns) == before)
        try stage.database.sql.run("UPDATE push_queue SET time_sent = NULL")
        let query = try #require(stage.blocks.first { $0.name == "sender" }?.statements.first)
        #expect(
            try stage.database.texts(query).map { $0[1] }.sorted() == ["0", hexToken(1)].sorted())
    }

    @Test("pushchat: with the added time a user who joins again is kept")
    func pushchatComesBack() throws {
        let stage = try RecipeStage("pushchat", .mariaDB)
        try stage.provider(["pushchat"], dead: [])
        let join =
            "INSERT INTO active_users (udid, device_token, nickname, secret_code, ip_address) "
            + "VALUES ('u', '\(Self.hex)', 'n', 'room', '127.0.0.1')"
        try stage.database.sql.run(join)
        try stage.follow("First run")
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        let evidence =
            "INSERT INTO pushsweep_evidence (app, device_token, timestamp_ms) "
            + "VALUES ('pushchat', '\(Self.hex)', ?)"
        func rejoin() throws {
            try stage.database.sql.run("DELETE FROM active_users WHERE udid = 'u'")
            try stage.database.sql.run(join)
        }
        func send() throws -> [String: Any] {
            try stage.database.execute(
                "INSERT INTO push_queue (device_token, payload, time_queued) VALUES (?, ?, NOW())",
                [.text(Self.hex), .text(#"{"aps":{"alert":"hello"}}"#)])
            return try stage.json("send").app()
        }

        // Without the time the token is skipped for good.
        try stage.database.execute(evidence, [.integer(now - 90_000)])
        try stage.run("sweep").ends(0)
        try rejoin()
        #expect(try send()["skipped"] as? [String: Int] == ["stale": 1])

        let time = try #require(stage.blocks.first { $0.name == "time" }?.statements.first)
        try stage.database.sql.run(time)
        // A server hides the new column from the account, and rows must not be judged as if none was there.
        try stage.run("check").ends(77, "GRANT SELECT (`registered_at`)")
        try stage.follow("A device that comes back")
        #expect(try !stage.run("check").output.contains("no column for the time"))
        try stage.database.execute(
            "UPDATE active_users SET registered_at = registered_at - INTERVAL 1 DAY")
        try stage.database.execute(evidence, [.integer(now - 60_000)])
        try stage.run("sweep").ends(0)
        #expect(try stage.marked == 1)
        #expect(try send()["skipped"] as? [String: Int] == ["stale": 1])
        try rejoin()
        try stage.database.execute(evidence, [.integer(now - 30_000)])
        try stage.json("sweep").ends(0).app(has: ["newer": 1])
        let query = try #require(
            stage.blocks.first { $0.name == "sender-with-time" }?.statements.first)
        try stage.database.sql.run("SET time_zone = '+00:00'")
        try stage.database.sql.run("UPDATE push_queue SET time_sent = NULL")
        #expect(try !stage.database.texts(query).isEmpty)
        for change in [
            "UPDATE active_users SET registered_at = '2020-01-01'",
            "UPDATE active_users SET registered_at = NULL",
            "DELETE FROM active_users WHERE udid = 'u'",
        ] {
            try stage.database.sql.run(change)
            #expect(try stage.database.texts(query).isEmpty, "after \(change)")
        }
        try rejoin()
        #expect(try send()["sent"] as? Int ?? 0 > 0)
    }

    @Test(
        "pushchat: after --upgrade the marks are in the row, and the printed view leaves them out")
    func pushchatUpgraded() throws {
        let stage = try RecipeStage("pushchat", .mariaDB)
        try stage.provider(["pushchat"], dead: [])
        for (number, token) in [hexToken(1), hexToken(2), hexToken(3)].enumerated() {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n', 'room', '127.0.0.1')",
                [.text("udid\(number)"), .text(token)])
        }
        try stage.follow("First run")
        try stage.insert(["pushchat", hexToken(1), 410, nil, 1_700_000_000_000])
        try stage.run("sweep").ends(0)
        try stage.run("schema", "apply", "--upgrade").ends(0)
        try stage.follow("A device that comes back")
        try stage.insert(["pushchat", hexToken(2), 410, nil, 1_700_000_000_000])
        try stage.run("sweep").ends(0)
        #expect(
            try stage.database.texts(
                "SELECT device_token FROM active_users WHERE invalidated_at IS NOT NULL")
                == [[hexToken(2)]])
        #expect(try stage.marked == 1)
        let view = try stage.json("schema", "print", "--view")
        for statement in try #require(view.json["statements"] as? [String]) {
            try stage.database.sql.run(statement)
        }
        let sendable = try stage.database.texts("SELECT device_token FROM pushsweep_sendable")
        #expect(!sendable.contains([hexToken(2)]) && sendable.contains([hexToken(3)]))
        #expect(!sendable.contains([hexToken(1)]), "marked before the upgrade")
    }

    @Test("pushchat: the list of a private gateway marks tokens of the unchanged table")
    func pushchatGateway() throws {
        let stage = try RecipeStage("pushchat", .mariaDB)
        let gateway = try stage.feedback("pushchat", [FeedbackTuple.dead(1, at: 1_700_000_000)])
        defer { gateway.stop() }
        let other = try RecipeStage("private-gateway", .mariaDB).settings
        let lines = other.split(separator: "\n").filter {
            $0.contains("certificate:") || $0.contains("feedback:")
        }
        stage.settings =
            (stage.settings.split(separator: "\n").filter {
                !$0.contains("token-key") && !$0.contains("provider")
            } + lines).joined(separator: "\n")
        try stage.database.execute(
            "INSERT INTO active_users VALUES ('u', ?, 'n', 'room', '127.0.0.1')",
            [.text(hexToken(1))])
        try stage.run("schema", "apply").ends(0)
        try stage.run("sweep").ends(0)
        #expect(try stage.marked == 1)
    }

    @Test("pushchat: delete only marks without the time, unless the settings allow more")
    func pushchatDelete() throws {
        let stage = try RecipeStage("pushchat", .mariaDB)
        try stage.provider(["pushchat"], dead: [])
        try stage.database.execute(
            "INSERT INTO active_users VALUES ('u', ?, 'n', 'room', '127.0.0.1')",
            [.text(Self.hex)])
        let rows = "SELECT COUNT(*) FROM active_users"
        try stage.follow("First run")
        let page = stage.settings
        for (policy, left) in [
            ("policy: {action: delete}", 1),
            ("policy: {action: delete, delete-without-registration-time: true}", 0),
        ] {
            stage.settings = page + policy + "\n"
            try stage.grantAgain()
            try stage.follow("Keep another sender")
            #expect(try stage.database.count(rows) == left, "\(policy)")
        }
    }

    @Test("server-density: check prints the page's statement, and the certificate's steps work")
    func serverDensity() throws {
        let stage = try RecipeStage("server-density", .mariaDB)
        let certificates = try SweepStage.certificates.get()
        for (from, to) in [
            (certificates.clientPKCS12, "apns.p12"),
            (certificates.clientPassphraseFile, "apns-passphrase"),
        ] {
            try stage.folder.write(to, try Data(contentsOf: URL(fileURLWithPath: from)))
        }
        let gateway = try stage.provider(["chat"], dead: [.numbered(2)], certificate: true)
        for number in 1...2 {
            let hex = hexToken(number)
            let groups = stride(from: 0, to: hex.count, by: 8).map { place in
                String(hex.dropFirst(place).prefix(8))
            }
            try stage.database.execute(
                "INSERT INTO devices (user_id, device_token, created_at) "
                    + "VALUES (?, ?, '2020-01-01 00:00:00')",
                [.integer(Int64(number)), .text(groups.joined(separator: " "))])
        }
        try stage.database.execute(
            "INSERT INTO devices (user_id, device_token, created_at) VALUES (3, ?, '2020-01-01')",
            [.text(Self.hex)])
        try stage.follow("Certificate")
        let printed = try stage.follow("First run")
        let statement = try #require(
            stage.blocks.first { $0.section == "Rewrite the tokens" && $0.language == "sql" }?
                .statements.first)
        let words = statement.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(
            printed.split(whereSeparator: \.isWhitespace).joined(separator: " ").contains(words),
            "\(printed)")
        try stage.follow("Rewrite the tokens")
        try stage.follow("Evidence")
        #expect(try stage.marked == 1)
        try stage.follow("Send")
        #expect(gateway.log.requestsByToken.count == 2)
        #expect(try stage.marked == 2)

        // The same certificate as PKCS#12, without the steps.
        stage.settings = stage.settings.replacingOccurrences(
            of: "{file: apns.pem}",
            with: try Self.codeSpan("certificate: ", in: "docs/recipes/server-density.md"))
        try stage.run("check").ends(0)
    }

    /// The rest of the first code span of a page that starts with a text.
    private static func codeSpan(_ start: String, in page: String) throws -> String {
        let text = try String(contentsOf: DocumentBlock.path(page), encoding: .utf8)
        let place = try #require(text.range(of: "`" + start)).upperBound
        return String(text[place...].prefix { $0 != "`" })
    }

    @Test(
        "the zone that a page names for a place with summer time reads no registration too early",
        arguments: ["django", "server-density"])
    func summerTime(_ page: String) throws {
        let stage = try RecipeStage(page, .mariaDB)
        let sentence = try Self.codeSpan("registered-at: {", in: "docs/recipes/\(page).md")
        let column = sentence.prefix { $0 != "," }.split(separator: " ").last ?? ""
        stage.settings = stage.settings.replacingOccurrences(
            of: "registered-at: \(column)", with: "registered-at: {" + sentence)
        #expect(stage.settings.contains("zone: "))
        // The offsets of Berlin in January and in July. Each token was dead before it registered.
        for (number, (time, dead)) in [
            ("2023-01-15 12:00:00", "2023-01-15T10:30:00Z"),
            ("2023-07-15 12:00:00", "2023-07-15T09:30:00Z"),
        ].enumerated() {
            let insert =
                page == "django"
                ? "INSERT INTO push_notifications_apnsdevice (registration_id, date_created, active) "
                    + "VALUES (?, ?, 1)"
                : "INSERT INTO devices (user_id, device_token, created_at) VALUES (1, ?, ?)"
            try stage.database.execute(insert, [.text(hexToken(number)), .text(time)])
            if number == 0 {
                try stage.run("schema", "apply").ends(0)
            }
            let milliseconds = try Date(dead, strategy: .iso8601).timeIntervalSince1970 * 1_000
            try stage.insert(["chat", hexToken(number), 410, nil, Int(milliseconds)])
        }
        let sweep = try stage.json("sweep").ends(0)
        #expect(try stage.marked == 0, "\(sweep.output)")
    }

    @Test("rpush: failed notifications and feedback become marks in the application's table")
    func rpush() throws {
        let stage = try RecipeStage("rpush", .mariaDB)
        for (token, platform) in [
            (Self.hex, "ios"), (hexToken(1), "ios"), (hexToken(2), "ios"), (hexToken(3), "android"),
        ] {
            try stage.database.execute(
                "INSERT INTO devices (user_id, platform, token, created_at, updated_at) "
                    + "VALUES (1, ?, ?, '2020-01-01', '2020-01-01')",
                [.text(platform), .text(token)])
        }
        try stage.follow("First run")
        for (name, type) in [("chat", "Apnsp8"), ("other", "Apns2"), ("chat", "Gcm")] {
            try stage.database.execute(
                "INSERT INTO rpush_apps (name, environment, created_at, updated_at, type) "
                    + "VALUES (?, 'production', '2020-01-01', '2020-01-01', ?)",
                [.text(name), .text("Rpush::Client::ActiveRecord::\(type)::App")])
        }
        for (token, app) in [(Self.hex, 1), (hexToken(2), 2), (nil, 3)] {
            try stage.database.execute(
                "INSERT INTO rpush_notifications (device_token, failed, error_code, error_description, "
                    + "created_at, updated_at, type, app_id) "
                    + "VALUES (?, 1, 410, 'Unregistered', '2023-11-14', '2023-11-14', 'x', ?)",
                [token.map { .text($0) } ?? .null, .integer(Int64(app))])
        }
        for (token, app) in [(hexToken(1), 1), (hexToken(3), 1), (hexToken(2), 2), (nil, 1)] {
            try stage.database.execute(
                "INSERT INTO rpush_feedback (device_token, failed_at, created_at, updated_at, app_id) "
                    + "VALUES (?, '2023-11-14 22:13:20', '2023-11-14', '2023-11-14', ?)",
                [token.map { .text($0) } ?? .null, .integer(Int64(app))])
        }
        let notifications = try #require(
            try DocumentBlock.all(of: "docs/evidence.md").first { $0.name == "rpush" })
        for statement in notifications.statements { try stage.database.sql.run(statement) }
        try stage.follow("Evidence from rpush_feedback")
        #expect(
            try stage.database.texts(
                "SELECT token FROM devices WHERE invalidated_at IS NOT NULL ORDER BY id")
                == [[Self.hex], [hexToken(1)]])
        let scope = try #require(stage.blocks.first { $0.language == "ruby" }).text
        let clause = try #require(scope.split(separator: "\"").dropFirst().first)
        #expect(
            try stage.database.texts("SELECT token FROM devices WHERE \(clause) ORDER BY id")
                == [[hexToken(2)], [hexToken(3)]])
    }
}
