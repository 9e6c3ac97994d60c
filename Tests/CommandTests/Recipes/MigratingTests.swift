import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite(
    "The way from the older interface to HTTP/2",
    .needsServer)
struct MigratingTests {
    @Test("PushChat's queue goes over 2195, then over HTTP/2, and no message goes twice")
    func changeover() throws {
        let stage = try RecipeStage("pushchat-gateway", .mariaDB)
        var rules = BinaryRules()
        rules.script.tokens[.numbered(1)] = .dead()
        rules.script.tokens[.numbered(2)] = .reject(.invalidToken)
        let gateways = try stage.olderGateways("pushchat", rules)
        try OlderRecipeTests.encryptedPEM(stage)
        for number in 0..<8 {
            try stage.database.execute(
                "INSERT INTO active_users VALUES (?, ?, 'n', 'room', '127.0.0.1')",
                [.text("udid\(number)"), .text(hexToken(number))])
        }
        for number in 0..<6 { try OlderRecipeTests.message(stage, to: hexToken(number)) }
        try stage.follow("First run")
        try stage.follow("Send PushChat's queue")
        try stage.follow("Dead tokens")

        // Step 5: the settings of the page for HTTP/2, the same tables and state folder.
        let other = try RecipeStage("pushchat", .mariaDB).settings
        stage.settings = other
        stage.environment = stage.environment.filter {
            !$0.key.contains("_BINARY_") && !$0.key.contains("_FEEDBACK_")
        }
        let provider = try stage.provider(["pushchat"], dead: [.numbered(7)])
        for number in [0, 1, 6, 7] {
            try OlderRecipeTests.message(stage, to: hexToken(number))
        }
        try stage.grantAgain()
        for command in [["check"], ["preflight"], ["send", "--limit", "50"]] {
            try stage.run(command).ends(0, for: "\(command)")
        }
        #expect(
            gateways.binary.log.acceptedByToken == [
                .numbered(0): 1, .numbered(1): 1, .numbered(3): 1, .numbered(4): 1, .numbered(5): 1,
            ])
        #expect(
            provider.log.requestsByToken == [
                .numbered(0): 1, .numbered(6): 1, .numbered(7): 1,
            ])
        #expect(try stage.marked == 1, "the 410 of token 7 is evidence like the list before")
    }

    @Test("two apps of the page send each row through one gateway, also while devices move")
    func sideBySide() throws {
        let stage = try RecipeStage("private-gateway", .mariaDB)
        let apps = try #require(
            try DocumentBlock.all(of: "docs/migrating.md").first { $0.language == "yaml" }
        ).text
        let store = try #require(stage.settings.range(of: "apps:")).lowerBound
        stage.settings = String(stage.settings[..<store]) + apps
        let certificates = try SweepStage.certificates.get()
        try stage.copy([
            (certificates.certificate(.client), "chat.pem"),
            (certificates.key(.client), "chat.key"),
        ])
        let older = try stage.olderGateways("chat_old")
        let provider = try stage.provider(["chat"], dead: [])
        try stage.follow("First run")
        for number in 0..<10 {
            let app = number < 4 ? "chat" : "chat-old"
            try stage.database.register(.numbered(number), at: 1_600_000_000_000, app: app)
            try Self.queue(stage, number, app)
        }
        // Two devices move while their notifications wait; one gets a new notification.
        try stage.database.execute(
            "UPDATE active_users SET app_id = 'chat' WHERE device_token IN (?, ?)",
            [8, 9].map { .bytes(DeviceToken.numbered($0).bytes) })
        try Self.queue(stage, 9, "chat")
        try stage.run("send").ends(0)
        #expect(
            older.binary.log.acceptedByToken
                == Dictionary(uniqueKeysWithValues: (4..<8).map { (.numbered($0), 1) }))
        #expect(
            provider.log.requestsByToken
                == Dictionary(uniqueKeysWithValues: [0, 1, 2, 3, 9].map { (.numbered($0), 1) }))
        #expect(
            try stage.database.texts(
                "SELECT state, reason, COUNT(*) FROM push_queue WHERE state <> 'sent' GROUP BY 1, 2"
            )
                == [["skipped", "unknown", "2"]])
    }

    private static func queue(_ stage: RecipeStage, _ number: Int, _ app: String) throws {
        try stage.database.execute(
            "INSERT INTO push_queue (app_id, device_token, payload) VALUES (?, ?, ?)",
            [.text(app), .bytes(DeviceToken.numbered(number).bytes), .text(payload(bytes: 40))])
    }

    @Test(
        "the results of PyAPNs2 become evidence for the 410 answers alone",
        .enabled(if: ForeignProgram.python.isInstalled))
    func pyAPNs2() throws {
        let stage = try RecipeStage("server-density", .mariaDB)
        let report = try DocumentBlock.report("py")
        let results = try #require(
            try DocumentBlock.all(of: "docs/migrating.md").first { $0.name == "apns2" }
        ).text
        let stub = """

            class Cursor:
                def __enter__(self): return self
                def __exit__(self, *_): pass
                def execute(self, statement, values): print(json.dumps(values))
            class Connection:
                def cursor(self): return Cursor()
                def commit(self): pass
            report_results(Connection(), {
                "\(hexToken(1))": "Success", "\(hexToken(2))": ("Unregistered", 1700000000123),
                "\(hexToken(3))": "BadDeviceToken"})

            """
        let script = try stage.folder.write("results.py", report + results + stub)
        let result = try ForeignProgram.python.run([script]).ends(0)
        let row = try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [Any]
        #expect(
            row as NSArray?
                == ["chat", hexToken(2), 410, "Unregistered", 1_700_000_000_123] as NSArray)
    }
}
