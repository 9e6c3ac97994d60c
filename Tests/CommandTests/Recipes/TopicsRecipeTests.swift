import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("The recipe for one certificate or key with many topics")
struct TopicsRecipeTests {
    private static let apps = [
        "chat", "chat-voip", "chat-complication", "chat-activity", "chat-widgets",
    ]

    @Test(
        "each topic is sent with its own suffix, and a 410 touches its own row only",
        arguments: zip(TestEngine.available.reversed(), [true, false]))
    func sends(_ engine: TestEngine, certificate: Bool) throws {
        let stage = try RecipeStage("topics", engine)
        let gateway = try stage.provider(Self.apps, dead: [.numbered(2)], certificate: certificate)
        if certificate { try Self.useCertificate(stage) }
        try stage.follow("First run")
        for (number, app) in Self.apps.enumerated() {
            try stage.database.register(
                .numbered(number + 1), at: 1_600_000_000_000, app: app, user: "ada")
        }
        let token = try #require(try? DeviceToken(spelling: RecipeStage.hex))
        for app in ["chat", "chat-voip"] {
            try stage.database.register(token, at: 1_600_000_000_000, app: app, user: "ben")
        }
        let marks =
            "SELECT app_id FROM active_users WHERE invalidated_at IS NOT NULL ORDER BY app_id"
        try stage.follow("Evidence")
        #expect(try stage.database.texts(marks) == [["chat-voip"]])

        try stage.follow("Send")
        #expect(gateway.log.requestsByToken[.numbered(1)] == 1)
        #expect(gateway.log.requestsByToken[.numbered(2)] == 1)
        #expect(gateway.log.requestsByToken.count == 2)
        #expect(try stage.database.texts(marks) == [["chat-voip"], ["chat-voip"]])

        // A certificate names its topics, so the simulator knows that an alert's topic is not one.
        guard certificate else { return }
        try stage.database.register(
            .numbered(9), at: 1_600_000_000_000, app: "chat-voip", user: "cho")
        try stage.database.execute(
            "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat-voip', ?, '{}')",
            [.bytes(DeviceToken.numbered(9).bytes)])
        try stage.run("send").ends(78, "opic")
    }

    @Test(
        "the guard holds the dead tokens of one topic and applies those of another",
        arguments: TestEngine.available)
    func guards(_ engine: TestEngine) throws {
        let stage = try RecipeStage("topics", engine)
        try stage.provider(Self.apps, dead: [])
        try stage.follow("First run")
        func report(_ app: String, _ numbers: Range<Int>) throws {
            for number in numbers {
                try stage.database.execute(
                    "INSERT INTO pushsweep_evidence (app, device_token, timestamp_ms) "
                        + "VALUES (?, ?, ?)",
                    [
                        .text(app), .text(hexToken(number)),
                        .integer(1_700_000_000_000 + Int64(number) * 60_000),
                    ])
            }
        }
        try stage.database.sql.begin()
        for number in 0..<300 {
            for app in ["chat", "chat-activity"] {
                try stage.database.register(.numbered(number), at: 1_600_000_000_000, app: app)
            }
        }
        try report("chat-activity", 0..<200)
        try report("chat", 0..<20)
        try stage.database.sql.commit()

        try stage.json("sweep").ends(3)
        #expect(
            try stage.database.texts(
                "SELECT app_id, COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL "
                    + "GROUP BY app_id") == [["chat", "20"]])
    }

    /// Names the certificate of the page's sentence in place of the key.
    private static func useCertificate(_ stage: RecipeStage) throws {
        let certificates = try SweepStage.certificates.get()
        for (from, to) in [
            (certificates.certificate(.client), "chat.pem"),
            (certificates.key(.client), "chat.key"),
        ] {
            try stage.folder.write(to, try Data(contentsOf: URL(fileURLWithPath: from)))
        }
        stage.settings = stage.settings.split(separator: "\n").map {
            $0.contains("token-key:") ? "    certificate: {file: chat.pem, key: chat.key}" : $0
        }.joined(separator: "\n")
    }
}
