import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing
import TokenTable

private let feed = FeedSource.tuples([.dead(1, at: 1_700_000_000)])

@Suite("A gateway that cannot be trusted")
struct GatewayRefusalTests {
    private func expect(
        _ stage: SweepStage, exit: Int32, saying words: String...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let result = try stage.sweep()
        #expect(result.exit == exit, "\(result.error)", sourceLocation: sourceLocation)
        #expect(result.app()["end"] as? String == "refused", sourceLocation: sourceLocation)
        #expect(result.app()["bytes"] as? Int == 0, sourceLocation: sourceLocation)
        for word in words {
            #expect(
                result.error.contains(word), "no \(word) in: \(result.error)",
                sourceLocation: sourceLocation)
        }
        #expect(
            stage.gateway.records.allSatisfy { $0.bytes == 0 }, sourceLocation: sourceLocation)
        #expect(
            result.closingLine.hasPrefix("code=\(exit) stage=read"),
            sourceLocation: sourceLocation)
    }

    private func stage(_ certificate: FeedbackBehaviour.Certificate) throws -> SweepStage {
        var behaviour = FeedbackBehaviour()
        behaviour.certificate = certificate
        return try SweepStage(feeds: [feed], behaviour: behaviour)
    }

    @Test("a gateway of a foreign authority is refused")
    func foreignAuthority() throws {
        let stage = try SweepStage(feeds: [feed])
        stage.lines.ca = try SweepStage.certificates.get().foreignAuthority
        try expect(
            stage, exit: 78, saying: "127.0.0.1:\(stage.gateway.port)", "authority", "feedback.ca)")
    }

    @Test("a gateway with a wrong host name is refused")
    func wrongHost() throws {
        let stage = try SweepStage(feeds: [feed])
        stage.lines.hostName = "host-name: feedback.example.net"
        try expect(stage, exit: 78, saying: "feedback.example.net", "feedback.host-name)")
    }

    @Test("a certificate that is expired, not yet valid or for another host is refused")
    func certificateVariants() throws {
        try expect(try stage(.expired), exit: 69, saying: "expired")
        try expect(try stage(.notYetValid), exit: 69, saying: "valid only from")
        try expect(try stage(.wrongHost), exit: 78, saying: "127.0.0.1")
    }

    @Test("a refusal of our certificate is not mistaken for an empty list")
    func clientCertificate() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.refusesClients = true
        try expect(
            try SweepStage(feeds: [feed], behaviour: behaviour), exit: 78, saying: "certificate")
        behaviour = FeedbackBehaviour()
        let without = try SweepStage(feeds: [feed], behaviour: behaviour)
        without.lines.certificate = ""
        try expect(without, exit: 78, saying: "certificate")
    }

    @Test("a gateway without TLS is refused")
    func plaintext() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.opening = .plaintext
        let stage = try SweepStage(feeds: [feed], behaviour: behaviour)
        let result = try stage.sweep()
        #expect(result.exit == 76)
        #expect(result.error.contains("TLS"))
    }

    @Test("a gateway that never answers the handshake costs three tries and 69")
    func silent() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.opening = .silentBeforeHandshake
        let stage = try SweepStage(feeds: [feed], behaviour: behaviour)
        stage.lines.feedbackOptions = "handshake-timeout: 100ms"
        let result = try stage.sweep()
        #expect(result.exit == 69)
        #expect(result.app()["end"] as? String == "timeout")
        #expect(stage.gateway.records(atLeast: 3).count == 3)
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
        let result = try stage.sweep()
        #expect(result.exit == 78)
        #expect(result.error.contains("expired"))
        #expect(result.app()["end"] as? String == "refused")
        #expect(result.app()["asked"] as? Bool == false)
        #expect(stage.gateway.records.isEmpty)
        let text = try stage.run("sweep")
        #expect(
            text.output.contains("127.0.0.1:\(stage.gateway.port): not asked\n"), "\(text.output)")
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
        let result = try stage.sweep()
        #expect(result.exit == 77)
        #expect(result.error.contains("open.key"))
        #expect(stage.gateway.records.isEmpty)
    }
}

@Suite("A database that cannot take evidence")
struct DatabaseRefusalTests {
    @Test("a missing table costs no feed")
    func missingTable() throws {
        for engine in TestEngine.available {
            let stage = try SweepStage(engine, feeds: [feed], schema: false)
            let result = try stage.sweep()
            #expect(result.exit == 78, "\(engine): \(result.error)")
            #expect(result.error.contains("active_users"))
            #expect(stage.gateway.records.isEmpty)
        }
    }

    @Test("an unreachable database costs no feed", .enabled(if: MariaDBServer.isAvailable))
    func unreachable() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        stage.lines.store = stage.lines.store.replacing(/localhost:\d+/, with: "localhost:1")
        let result = try stage.sweep()
        #expect(result.exit == 69, "\(result.error)")
        #expect(stage.gateway.records.isEmpty)
        #expect(result.closingLine.hasPrefix("code=69 stage=store"))
    }

    @Test(
        "a database that is busy ends a command that only reads with 69, since no evidence waits",
        arguments: [
            ["audit"], ["explain", String(repeating: "ab", count: 32)], ["undo", "--list"],
            ["changes", "--since", "2026-01-01T00:00"],
            ["preflight", "--app", "chat"], ["preflight", "--filter", "--app", "chat"],
        ])
    func busy(command: [String]) throws {
        let stage = try SweepStage()
        let busy = try SilentServer(
            saying: MySQLPacket.refusal(1_047, "WSREP has not yet prepared node"))
        stage.lines.store = """
            url: mysql://nobody@127.0.0.1:\(busy.port)/push
              tls: {mode: off}
            """
        let result = try stage.start(command).wait()
        #expect(result.exit == 69, "\(result.error)")
        #expect(result.error.contains("prepared node (1047)"), "\(result.error)")
    }

    @Test("a missing right costs no feed", .enabled(if: MariaDBServer.isAvailable))
    func missingGrant() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        let user = "u" + stage.database.name.suffix(12)
        try stage.database.execute("CREATE USER '\(user)'@'%' IDENTIFIED BY 'canary-password'")
        defer { try? stage.database.execute("DROP USER '\(user)'@'%'") }
        try stage.database.execute("GRANT SELECT ON \(stage.database.name).* TO '\(user)'@'%'")
        try stage.folder.write("other-password", "canary-password\n")
        stage.lines.store = stage.lines.store
            .replacing(/mysql:\/\/[^@]+@/, with: "mysql://\(user)@")
            .replacing("db-password", with: "other-password")
        let result = try stage.sweep()
        #expect(result.exit == 77, "\(result.error)")
        #expect(result.error.contains("GRANT"))
        #expect(stage.gateway.records.isEmpty)
        let wrong = try stage.folder.write("other-password", "not-the-password\n")
        #expect(wrong.hasSuffix("other-password"))
        let refused = try stage.sweep()
        #expect(refused.exit == 77)
        #expect(!refused.error.contains("not-the-password"))
        #expect(stage.gateway.records.isEmpty)
    }

    @Test(
        "a database with a foreign certificate is refused", .enabled(if: MariaDBServer.isAvailable))
    func foreignServer() throws {
        let stage = try SweepStage(.mariaDB, feeds: [feed])
        let foreign = try SweepStage.certificates.get().foreignAuthority
        stage.lines.store = stage.lines.store.replacing(
            /tls: .*/, with: "tls: {ca: \(foreign)}")
        let result = try stage.sweep()
        #expect(result.exit == 78, "\(result.error)")
        #expect(result.error.contains("certificate"))
        #expect(stage.gateway.records.isEmpty)
    }
}
