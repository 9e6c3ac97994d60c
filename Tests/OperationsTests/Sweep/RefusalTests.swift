import APNsProtocol
import APNsSimulator
import Database
import Foundation
import SecureTransport
import TestSupport
import Testing
import TokenHygiene

@testable import Operations

private let feed = FeedSource.tuples([.dead(1, at: 1_700_000_000)])

@Suite("A gateway that cannot be trusted")
struct GatewayRefusalTests {
    private func expect(
        _ stage: SweepStage, exit: Int32, saying words: String..., line: Int = #line
    ) throws {
        let result = try stage.swept().ends(exit, "code=\(exit) stage=read", line: line).app(
            has: ["end": "refused", "bytes": 0], line: line)
        for word in words { result.says(word, line: line) }
        #expect(stage.gateway.records.allSatisfy { $0.bytes == 0 }, "line \(line)")
    }

    private func stage(_ change: (inout FeedbackBehaviour) -> Void = { _ in }) throws -> SweepStage
    {
        var behaviour = FeedbackBehaviour()
        change(&behaviour)
        return try SweepStage(feeds: [feed], behaviour: behaviour)
    }

    @Test("a gateway of a foreign authority is refused")
    func foreignAuthority() throws {
        let stage = try stage()
        stage.lines.ca = try SweepStage.certificates.get().foreignAuthority
        try expect(
            stage, exit: 78, saying: "127.0.0.1:\(stage.gateway.port)", "authority", "feedback.ca)")
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

    @Test("a gateway with a wrong host name is refused")
    func wrongHost() throws {
        let stage = try stage()
        stage.lines.hostName = "host-name: feedback.example.net"
        try expect(stage, exit: 78, saying: "feedback.example.net", "feedback.host-name)")
    }

    @Test("a certificate that is expired, not yet valid or for another host is refused")
    func certificateVariants() throws {
        try expect(stage { $0.certificate = .expired }, exit: 69, saying: "expired")
        try expect(stage { $0.certificate = .notYetValid }, exit: 69, saying: "valid only from")
        try expect(stage { $0.certificate = .wrongHost }, exit: 78, saying: "127.0.0.1")
    }

    @Test("a refusal of our certificate is not mistaken for an empty list")
    func clientCertificate() throws {
        try expect(stage { $0.refusesClients = true }, exit: 78, saying: "certificate")
        let without = try stage()
        without.lines.certificate = ""
        try expect(without, exit: 78, saying: "certificate")
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

    @Test("an unreachable database costs no feed", .enabled(if: MariaDBServer.isAvailable))
    func unreachable() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        stage.lines.store = stage.lines.store.replacing(/localhost:\d+/, with: "localhost:1")
        try stage.swept().ends(69, "code=69 stage=store")
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

    @Test(
        "a missing right or a wrong password costs no feed", .enabled(if: MariaDBServer.isAvailable)
    )
    func missingGrant() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        let account = try ServerAccount(of: stage.database)
        try account.grant()
        stage.lines.store = stage.lines.store
            .replacing(/mysql:\/\/[^@]+@/, with: "mysql://\(account.name)@")
            .replacing("db-password", with: "other-password")
        for (password, words) in [("p", "GRANT"), ("not-the-password", "(1045)")] {
            try stage.folder.write("other-password", password + "\n")
            try stage.swept().ends(77, words).lacks("not-the-password")
        }
        #expect(stage.gateway.records.isEmpty)
    }

    @Test(
        "a database with a foreign certificate is refused", .enabled(if: MariaDBServer.isAvailable))
    func foreignServer() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        let foreign = try SweepStage.certificates.get().foreignAuthority
        stage.lines.store = stage.lines.store.replacing(/tls: .*/, with: "tls: {ca: \(foreign)}")
        try stage.swept().ends(78, "certificate")
        #expect(stage.gateway.records.isEmpty)
    }
}
