import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing

@Suite("A mistake about a gateway that check finds")
struct CheckGatewayTests {
    private func failures(_ result: ToolResult, _ area: String) -> [String] {
        let findings = result.json["findings"] as? [[String: Any]] ?? []
        return findings.filter {
            $0["area"] as? String == area && $0["severity"] as? String != "ok"
        }.map { "\($0["exit"] ?? "") \($0["message"] ?? "")" }
    }

    private func check(_ stage: SweepStage) throws -> ToolResult {
        try stage.run("check", "--format", "json")
    }

    /// Replaces the stage's gateway in the settings by a provider.
    private func withProvider(_ lines: String) throws -> SweepStage {
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        stage.lines.certificate += "\n    provider: {host: 127.0.0.1, \(lines)}"
        return stage
    }

    @Test("a provider that is down is named with its settings, and ends check with 69")
    func down() throws {
        let result = try check(withProvider("port: 1"))
        #expect(result.exit == 69)
        let failure = try #require(failures(result, "provider").first)
        #expect(
            failure.hasPrefix("69 chat/production: connecting to 127.0.0.1:1: connection refused"))
        #expect(
            failure.hasSuffix(
                "(apps[chat/production].provider.host, apps[chat/production].provider.port)"))
    }

    @Test("a provider of an unknown authority, or of another name, ends check and send with 78")
    func untrusted() throws {
        let stage = try SendStage()
        let good = try String(contentsOfFile: stage.settings(), encoding: .utf8)
        let certificates = try SweepStage.certificates.get()
        let wrong = try stage.folder.write(
            "wrong.yaml",
            good.replacing(
                "ca: \(certificates.authority)", with: "ca: \(certificates.foreignAuthority)"))
        let result = try Tool.pushsweep("check", "--format", "json", "--config", wrong)
        #expect(result.exit == 78)
        let failure = try #require(failures(result, "provider").first)
        #expect(failure.contains("is not trusted") && failure.contains("production].provider.ca)"))
        _ = try Tool.pushsweep(
            "enqueue", "--alert", "x", "--token", DeviceToken.numbered(1).hex, "--config", wrong)
        try stage.database.register(1..<2, at: 1_600_000_000_000)
        let send = try Tool.pushsweep("send", "--config", wrong)
        #expect(send.exit == 78, "\(send.error)")
        #expect(stage.gateway.log.totals.requests == 0)
    }

    @Test("a feedback gateway given as provider is named, and keeps its list")
    func feedbackAsProvider() throws {
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        let port = stage.gateway.port
        let text = try String(contentsOfFile: stage.settings(), encoding: .utf8)
            .replacing("feedback:", with: "provider:")
        let file = try stage.folder.write("swapped.yaml", text)
        let result = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(result.exit == 78, "\(result.error)")
        let failure = try #require(failures(result, "provider").first)
        #expect(failure.contains("h2 was offered and the server did not agree on it"))
        #expect(failure.contains("127.0.0.1:\(port)"))
        #expect(stage.gateway.records(atLeast: 1).allSatisfy { $0.bytes == 0 })
        try stage.database.register(1..<2, at: 1_600_000_000_000)
        #expect(try stage.sweep().app()["tuples"] as? Int == 1, "the list was spent")
    }

    @Test("a feedback gateway is never connected to by check, whatever its address")
    func neverConnected() throws {
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        #expect(try check(stage).exit == 0)
        #expect(stage.gateway.records.isEmpty)
    }

    @Test(
        "Apple's gateways given as feedback are named by check and by sweep, without a connection",
        arguments: [
            ("feedback.push.apple.com", "Apple closed this gateway in 2021"),
            ("feedback.sandbox.push.apple.com", "Apple closed this gateway in 2021"),
            ("API.push.apple.com", "Apple takes notifications over HTTP/2"),
        ])
    func apple(_ host: String, _ words: String) throws {
        let stage = try SweepStage(feeds: [])
        let text = try String(contentsOfFile: stage.settings(), encoding: .utf8)
            .replacing("host: 127.0.0.1", with: "host: \(host)")
        let file = try stage.folder.write("apple.yaml", text)
        let checked = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(checked.exit == 78)
        #expect(failures(checked, "feedback").first?.contains(words) == true, "\(checked.output)")
        let swept = try Tool.pushsweep("sweep", "--format", "json", "--config", file)
        #expect(swept.exit == 78)
        #expect(swept.error.contains(words), "\(swept.error)")
        #expect(swept.app()["asked"] as? Bool == false)
    }

    @Test("a feedback gateway at a provider's address is a mistake, at port 443 a warning")
    func portsOfHTTP2() throws {
        let stage = try SweepStage(feeds: [])
        stage.lines.certificate +=
            "\n    provider: {host: 127.0.0.1, port: \(stage.gateway.port)}"
        let same = try check(stage)
        #expect(same.exit == 78)
        #expect(failures(same, "feedback").first?.contains("has the same address") == true)
        let other = try SweepStage(feeds: [])
        let text = try String(contentsOfFile: other.settings(), encoding: .utf8)
            .replacing("port: \(other.gateway.port)", with: "port: 2197")
        let file = try other.folder.write("port.yaml", text)
        let warned = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(warned.exit == 0, "\(warned.error)")
        #expect(failures(warned, "feedback").first?.contains("a port of HTTP/2 gateways") == true)
    }

    @Test("a sweep names an HTTP/2 port given as feedback, and ends with 78")
    func http2AsFeedback() throws {
        let stage = try SendStage()
        let text = try String(contentsOfFile: stage.settings(), encoding: .utf8)
            .replacing("provider:", with: "feedback:")
        let file = try stage.folder.write("swapped.yaml", text)
        let result = try Tool.pushsweep("sweep", "--format", "json", "--config", file)
        #expect(result.exit == 78, "\(result.error)")
        #expect(result.error.contains("the server speaks HTTP/2, as providers do"))
        #expect(result.error.contains("apps[chat/production].feedback.port"))
        #expect(result.app()["end"] as? String == "refused")
    }

    @Test("a certificate for another topic ends check of a sender with 78 and names both")
    func topic() throws {
        let stage = try SendStage()
        let text = try String(contentsOfFile: stage.settings(), encoding: .utf8)
            .replacing("topic: com.example.chat", with: "topic: com.example.other")
        let file = try stage.folder.write("topic.yaml", text)
        let result = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(result.exit == 78)
        let failure = try #require(failures(result, "certificate").first)
        #expect(failure.contains("is for com.example.chat, and the topic is com.example.other"))
        #expect(failure.contains("apps[chat/production].topic"))
        // Apple's suffixes belong to the same app.
        let calls = try stage.folder.write(
            "calls.yaml", text.replacing("com.example.other", with: "com.example.chat.voip"))
        #expect(try Tool.pushsweep("check", "--config", calls).exit == 0)
        // A private gateway may know its clients by other names.
        let sweeper = try SweepStage(feeds: [])
        let other = try String(contentsOfFile: sweeper.settings(), encoding: .utf8)
            .replacing("topic: com.example.chat", with: "topic: com.example.other")
        let warned = try Tool.pushsweep(
            "check", "--format", "json", "--config", try sweeper.folder.write("topic.yaml", other))
        #expect(warned.exit == 0)
        #expect(failures(warned, "certificate").count == 1)
    }
}

@Suite(
    "A mistake about the encryption of the database",
    .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
struct CheckEncryptionTests {
    @Test("a wrong authority leads to store.tls.ca, before the password is sent")
    func wrongAuthority() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let foreign = try SweepStage.certificates.get().foreignAuthority
        stage.lines.store = stage.lines.store.replacing(/tls: .*/, with: "tls: {ca: \(foreign)}")
        let result = try stage.run("check")
        #expect(result.exit == 78)
        #expect(
            result.error.contains(
                "no credentials were sent; name the file of the authority that signed the server's "
                    + "certificate in store.tls.ca\n"), "\(result.error)")
    }

    @Test(
        "a server without TLS leads to a certificate or store.tls.mode, before the password is sent"
    )
    func plaintext() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let server = try SilentServer(saying: MySQLPacket.greeting(offersTLS: false))
        stage.lines.store = stage.lines.store.replacing(
            /localhost:\d+/, with: "127.0.0.1:\(server.port)")
        let result = try stage.run("check")
        #expect(result.exit == 78, "\(result.error)")
        #expect(
            result.error.contains(
                "no credentials were sent; give the server a certificate (ssl_cert"),
            "\(result.error)")
        #expect(result.error.contains("store.tls.mode: off"))
    }

    @Test("a server of another name leads to the name in store.url")
    func wrongName() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let certificates = try SweepStage.certificates.get()
        let server = try EncryptedGreeter(
            showing: .wrongHostServer, of: certificates,
            greeting: MySQLPacket.greeting(offersTLS: true))
        stage.lines.store = stage.lines.store
            .replacing(/localhost:\d+/, with: "127.0.0.1:\(server.port)")
            .replacing(/tls: .*/, with: "tls: {ca: \(server.authority)}")
        let result = try stage.run("check")
        #expect(result.exit == 78, "\(result.error)")
        #expect(
            result.error.contains("write the host name of the server's certificate into store.url"),
            "\(result.error)")
    }
}
