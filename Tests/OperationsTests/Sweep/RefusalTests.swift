import APNsProtocol
import APNsSimulator
import Database
import Foundation
import SecureTransport
import TestSupport
import Testing
import TokenHygiene

@testable import Operations

private let feed = ListSource.tuples([.dead(1, at: 1_700_000_000)])

@Suite("A gateway that cannot be trusted")
struct GatewayRefusalTests {
    private func stage(_ change: (inout FeedbackBehaviour) -> Void = { _ in }) throws -> SweepStage
    {
        var behaviour = FeedbackBehaviour()
        change(&behaviour)
        return try SweepStage(feeds: [feed], behaviour: behaviour)
    }

    /// A gateway and settings that do not fit, the exit code and words of the reason.
    struct Refusal: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let exit: Int32
        let words: [String]
        var behaviour: @Sendable (inout FeedbackBehaviour) -> Void = { _ in }
        var lines: @Sendable (inout SweepStage.Lines) throws -> Void = { _ in }

        static let all = [
            Refusal(
                testDescription: "foreign authority", exit: 78,
                words: ["127.0.0.1:", "authority", "feedback.ca)"],
                lines: { $0.ca = try SweepStage.certificates.get().foreignAuthority }),
            Refusal(
                testDescription: "wrong host name", exit: 78,
                words: ["feedback.example.net", "feedback.host-name)"],
                lines: { $0.hostName = "host-name: feedback.example.net" }),
            Refusal(
                testDescription: "expired", exit: 69, words: ["expired"],
                behaviour: { $0.certificate = .expired }),
            Refusal(
                testDescription: "not yet valid", exit: 69, words: ["valid only from"],
                behaviour: { $0.certificate = .notYetValid }),
            Refusal(
                testDescription: "another host's certificate", exit: 78, words: ["127.0.0.1"],
                behaviour: { $0.certificate = .wrongHost }),
            // Not mistaken for an empty list.
            Refusal(
                testDescription: "refuses our certificate", exit: 78, words: ["certificate"],
                behaviour: { $0.refusesClients = true }),
            Refusal(
                testDescription: "no certificate of ours", exit: 78, words: ["certificate"],
                lines: { $0.certificate = "" }),
        ]
    }

    @Test(
        "a gateway that cannot be trusted, or does not trust us, is refused, and no byte is read",
        arguments: Refusal.all)
    func untrusted(_ one: Refusal) throws {
        let stage = try stage(one.behaviour)
        try one.lines(&stage.lines)
        let result = try stage.swept().ends(one.exit, "code=\(one.exit) stage=read").app(
            has: ["end": "refused", "bytes": 0])
        for word in one.words { result.says(word) }
        #expect(stage.gateway.records.allSatisfy { $0.bytes == 0 })
    }

    @Test("a failure names the setting that cures it, the authorities or our certificate")
    func settings() {
        let chat = Partition(app: "chat", environment: "production")
        let keys: [(TransportFailure.Code, String?)] = [
            (.trustUnusable, "apps[chat/production].feedback.ca"),
            (.certificateUntrusted, "apps[chat/production].feedback.ca"),
            (.credentialsUnusable, "apps[chat/production].certificate"),
            (.clientCertificateRefused, "apps[chat/production].certificate"), (.reset, nil),
        ]
        for (code, key) in keys {
            #expect(GatewaySetting.feedback.keys(for: code, of: chat) == key)
        }
    }

    @Test("a gateway without TLS, or one that speaks HTTP/2, is refused and named")
    func plaintext() throws {
        try stage { $0.opening = .plaintext }.swept().ends(76, "TLS")
        let sender = try SendStage()
        let file = try sender.folder.write(
            "swapped.yaml", sender.settingsText.replacing("provider:", with: "feedback:"))
        try Tool.pushsweep("sweep", "--format", "json", "--config", file).ends(
            78, "the server speaks HTTP/2, as providers do", "apps[chat/production].feedback.port"
        ).app(has: ["end": "refused"])
    }

    @Test("a gateway that never answers the handshake costs three tries and 69")
    func silent() throws {
        let stage = try stage { $0.opening = .silentBeforeHandshake }
        stage.lines.feedbackOptions = "handshake-timeout: 100ms"
        try stage.swept().ends(69).app(has: ["end": "timeout"])
        #expect(stage.gateway.records(atLeast: 3).count == 3)
    }

    @Test("Apple's closed gateway is named, without a connection")
    func apple() throws {
        let stage = try stage()
        let file = try stage.folder.write(
            "apple.yaml",
            stage.settingsText.replacing("host: 127.0.0.1", with: "host: feedback.push.apple.com"))
        try Tool.pushsweep("sweep", "--format", "json", "--config", file).ends(
            78, "Apple closed this gateway in 2021"
        ).app(has: ["asked": false])
    }
}

@Suite("Our own side")
struct OwnSideTests {
    @Test("a sweep with an expired certificate does not connect")
    func expiredCertificate() throws {
        let stage = try SweepStage(feeds: [feed])
        let certificates = try SweepStage.certificates.get()
        stage.lines.certificate =
            "certificate: {file: \(certificates.certificate(.expiredClient)), "
            + "key: \(certificates.key(.expiredClient))}"
        try stage.swept().ends(78, "expired").app(has: ["end": "refused", "asked": false])
        #expect(stage.gateway.records.isEmpty)
    }

    @Test("a sweep with a key that others can read does not connect")
    func openKey() throws {
        let stage = try SweepStage(feeds: [feed])
        let certificates = try SweepStage.certificates.get()
        let key = try stage.folder.write(
            "open.key", try String(contentsOfFile: certificates.key(.client), encoding: .utf8),
            mode: 0o644)
        stage.lines.certificate =
            "certificate: {file: \(certificates.certificate(.client)), key: \(key)}"
        try stage.swept().ends(77, "open.key")
        #expect(stage.gateway.records.isEmpty)
    }
}

@Suite("A database that cannot take evidence")
struct DatabaseRefusalTests {
    @Test("a missing table costs no feed", arguments: TestEngine.available)
    func missingTable(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [feed], schema: false)
        try stage.swept().ends(78, "active_users")
        #expect(stage.gateway.records.isEmpty)
    }

    @Test(
        "a database that is down or foreign, a missing right and a wrong password cost no feed",
        .needsServer)
    func closed() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        let account = try ServerAccount(of: stage.database)
        try account.grant()
        let foreign = try SweepStage.certificates.get().foreignAuthority
        try stage.folder.write("right-password", "p\n")
        try stage.folder.write("wrong-password", "not-the-password\n")
        let good = stage.lines.store
        let user = good.replacing(/mysql:\/\/[^@]+@/) { _ in "mysql://\(account.name)@" }
        for (store, exit, words) in [
            (good.replacing(/localhost:\d+/) { _ in "localhost:1" }, 69, "code=69 stage=store"),
            (good.replacing(/tls: .*/) { _ in "tls: {ca: \(foreign)}" }, 78, "certificate"),
            (user.replacing("db-password", with: "right-password"), 77, "GRANT"),
            (user.replacing("db-password", with: "wrong-password"), 77, "(1045)"),
        ] as [(String, Int32, String)] {
            stage.lines.store = store
            try stage.swept().ends(exit, words).lacks("not-the-password")
        }
        #expect(stage.gateway.records.isEmpty)
    }

    @Test("a database that is busy ends commands that only read with 69, since no evidence waits")
    func busy() throws {
        let stage = try SweepStage()
        let busy = try SilentServer(
            saying: MySQLPacket.refusal(1_047, "WSREP has not yet prepared node"))
        stage.lines.store = """
            url: mysql://nobody@127.0.0.1:\(busy.port)/push
              tls: {mode: off}
            """
        let commands = try [
            ["audit"], ["explain", String(repeating: "ab", count: 32)], ["undo", "--list"],
            ["changes", "--since", "2026-01-01T00:00"], ["preflight", "--app", "chat"],
            ["preflight", "--filter", "--app", "chat"],
        ].map { ($0, try stage.start($0)) }
        for (words, tool) in commands {
            tool.wait().ends(69, "prepared node (1047)", for: "\(words)")
        }
    }
}
