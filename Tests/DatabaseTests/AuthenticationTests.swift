// The login that a server may demand, after it has proved its name or without a proof.

import APNsSimulator
import Findings
import TestSupport
import Testing
import TokenTable

@testable import Database

@Suite("Authentication at the server")
struct AuthenticationTests {
    private static let password = "canary-of-a-password"

    private func settings(_ port: Int, _ tls: StoreTLS) throws -> StoreSettings {
        var settings = StoreSettings(
            location: try StoreLocation(
                "mysql://somebody@127.0.0.1:\(port)/push", relativeTo: "/"),
            password: Self.password, tls: tls)
        settings.timeouts = StoreTimeouts(connect: 2, read: 2, write: 2)
        return settings
    }

    private func failure(_ settings: StoreSettings) -> StoreFailure? {
        var pacing = hurried()
        pacing.patience = 0
        return #expect(throws: StoreFailure.self) { try TokenTable(settings, pacing: pacing) }
    }

    private func hasPassword(_ bytes: [UInt8]) -> Bool {
        !bytes.ranges(of: Array(Self.password.utf8)).isEmpty
    }

    @Test(
        "without TLS the client refuses a plugin that sends the password as plain text",
        arguments: ["mysql_clear_password", "dialog", "auth_gssapi_client"])
    func clearPassword(_ plugin: String) throws {
        let server = try SilentServer(
            saying: MySQLPacket.greeting(offersTLS: false)
                + MySQLPacket.switchTo(plugin, number: 2))
        let failure = failure(try settings(server.port, .off))
        #expect(!hasPassword(server.heard), "the password was sent")
        #expect(failure?.code == .configuration, "\(failure as Any)")
        #expect(
            failure?.description.contains("the password was not sent") == true,
            "\(failure as Any)")
    }

    @Test(
        "with TLS too the client refuses a plugin that sends the password as plain text",
        arguments: ["mysql_clear_password", "dialog"])
    func clearPasswordInTLS(_ plugin: String) throws {
        let folder = try TemporaryFolder()
        let server = try EncryptedGreeter(
            showing: .server, of: SimulatorCertificates(directory: folder.path),
            greeting: MySQLPacket.greeting(offersTLS: true),
            answer: MySQLPacket.switchTo(plugin, number: 3))
        let failure = failure(try settings(server.port, .verify(ca: server.authority)))
        #expect(!server.heard.ranges(of: Array("somebody".utf8)).isEmpty, "no login came")
        #expect(!hasPassword(server.heard), "the password was sent")
        #expect(failure?.code == .configuration, "\(failure as Any)")
    }

    @Test("a server that breaks off the login is not reported as one that failed to prove itself")
    func brokenOff() throws {
        let folder = try TemporaryFolder()
        let server = try EncryptedGreeter(
            showing: .server, of: SimulatorCertificates(directory: folder.path),
            greeting: MySQLPacket.greeting(offersTLS: true))
        let failure = failure(try settings(server.port, .verify(ca: server.authority)))
        #expect(!server.heard.isEmpty, "no login came")
        #expect(failure?.code == .unreachable, "\(failure as Any)")
        #expect(
            failure?.description.contains("no credentials were sent") == false,
            "\(failure as Any)")
    }

    @Test(
        "the usual plugins of a real server work",
        .needsServer,
        arguments: MariaDBServer.isMariaDB
            ? ["mysql_native_password", "ed25519"]
            : ["caching_sha2_password", "sha256_password"])
    func usual(_ plugin: String) throws {
        let server = try #require(MariaDBServer.fromEnvironment)
        let admin = try server.connection()
        if plugin == "ed25519" {
            // Not every server has it.
            guard
                (try? admin.run("INSTALL SONAME 'auth_ed25519'")) != nil
                    || (try? admin.query(
                        "SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'ed25519'"))?
                        .count == 1
            else { return }
        }
        let user = "auth_\(plugin.prefix(6))"
        try admin.run("DROP USER IF EXISTS '\(user)'@'%'")
        try admin.run(
            "CREATE USER '\(user)'@'%' IDENTIFIED "
                + (MariaDBServer.isMariaDB
                    ? "VIA \(plugin) USING PASSWORD('\(Self.password)')"
                    : "WITH \(plugin) BY '\(Self.password)'"))
        defer { try? admin.run("DROP USER '\(user)'@'%'") }
        let report = try TokenTable(
            server.settings(database: "information_schema", user: user, password: Self.password)
        ).examine(.read)
        #expect(report.server.account?.hasPrefix(user) == true)
    }
}
