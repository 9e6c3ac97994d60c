import APNsSimulator
import Findings
import Foundation
import TestSupport
import Testing
import TokenTable

@testable import Database

@Suite("Trust in the server")
struct TrustTests {
    private static func failure(_ settings: StoreSettings) -> StoreFailure? {
        #expect(throws: StoreFailure.self) { try TokenTable(settings, pacing: hurried()) }
    }

    @Test("a server without TLS is refused before the user name is sent")
    func plaintext() throws {
        let server = try SilentServer(saying: MySQLPacket.greeting(offersTLS: false))
        var settings = StoreSettings(
            location: try StoreLocation(
                "mysql://tellnobody@127.0.0.1:\(server.port)/push", relativeTo: "/"),
            password: "secret")
        settings.timeouts = StoreTimeouts(connect: 2, read: 2, write: 2)
        let failure = Self.failure(settings)
        #expect(failure?.code == .untrusted, "\(failure as Any)")
        #expect(failure?.description.contains("no credentials were sent") == true)
        #expect(!String(decoding: server.heard, as: UTF8.self).contains("tellnobody"))
    }

    @Test(
        "a certificate that has expired, or is not valid yet, or of another host is refused",
        arguments: [
            (SimulatorCertificates.Name.expiredServer, "expired"),
            (.notYetValidServer, "not yet valid"), (.wrongHostServer, "host"),
        ])
    func badCertificate(_ name: SimulatorCertificates.Name, _ word: String) throws {
        let folder = try TemporaryFolder()
        let server = try EncryptedGreeter(
            showing: name, of: SimulatorCertificates(directory: folder.path),
            greeting: MySQLPacket.greeting(offersTLS: true))
        var settings = StoreSettings(
            location: try StoreLocation(
                "mysql://somebody@127.0.0.1:\(server.port)/push", relativeTo: "/"),
            password: "secret", tls: .verify(ca: server.authority))
        settings.timeouts = StoreTimeouts(connect: 5, read: 5, write: 5)
        let failure = Self.failure(settings)
        #expect(failure?.code == .untrusted, "\(failure as Any)")
        #expect(failure?.description.contains(word) == true, "\(failure as Any)")
        #expect(
            failure?.description.contains("no credentials were sent") == true,
            "\(failure as Any)")
    }

    @Test("the client gives up a silent server after the timeout")
    func silence() throws {
        let server = try SilentServer(saying: [])
        var settings = StoreSettings(
            location: try StoreLocation("mysql://u@127.0.0.1:\(server.port)/push", relativeTo: "/"))
        settings.timeouts = StoreTimeouts(connect: 1, read: 1, write: 1)
        var pacing = hurried()
        pacing.patience = 0
        expectFailure(.unreachable) {
            try TokenTable(settings, pacing: pacing)
        }
    }

    @Test(
        "a certificate of an unknown authority is refused",
        .needsServer
    )
    func wrongAuthority() throws {
        let server = try #require(MariaDBServer.fromEnvironment)
        var settings = server.settings(database: "mysql")
        settings.tls = .verify(ca: nil)
        #expect(Self.failure(settings)?.code == .untrusted)
    }

    @Test(
        "a file of authorities that cannot be used is named, with its setting and the cause",
        .needsServer
    )
    func wrongFile() throws {
        let server = try #require(MariaDBServer.fromEnvironment)
        let folder = try TemporaryFolder()
        // Words of the path decide nothing.
        let none = folder.file("hostname.pem")
        let text = try folder.write("hostname.txt", "no certificate")
        let other = try SimulatorCertificates(directory: folder.file("other")).authority
        for (path, words) in [
            (none, "no such file or directory"), (folder.path, "it is not a regular file"),
            (text, "no certificate or crl found"), (other, "name the file of the authority"),
        ] {
            var settings = server.settings(database: "mysql")
            settings.tls = .verify(ca: path)
            let said = "\(try #require(Self.failure(settings)))"
            for word in [path, words, "store.tls.ca"] {
                #expect(said.contains(word), "\(said)")
            }
            #expect(!said.contains("host name"), "\(said)")
        }
    }

    @Test(
        "a certificate that names another host is refused",
        .needsServer
    )
    func wrongHost() throws {
        let server = try #require(MariaDBServer.fromEnvironment)
        var settings = server.settings(database: "mysql")
        // The same address in a spelling that the certificate does not carry.
        settings.location = server.location(database: "mysql", host: "127.1")
        let failure = Self.failure(settings)
        #expect(failure?.code == .untrusted, "\(failure as Any)")
    }

    @Test(
        "a unix socket needs no TLS, and the settings must ask for TCP without TLS",
        .needsServer
    )
    func unixSocket() throws {
        let server = try #require(MariaDBServer.fromEnvironment)
        let location = try StoreLocation(
            "mysql+unix://\(server.socket)?db=mysql&user=\(server.user)", relativeTo: "/")
        let settings = StoreSettings(location: location, password: server.password)
        let report = try TokenTable(settings).examine(.read)
        #expect(report.server.encryption == nil)
        let tls = try TokenTable(server.settings(database: "mysql")).examine(.read)
        #expect(tls.server.encryption?.hasPrefix("TLSv1.") == true)
        #expect(StoreTLS.usual(for: location) == .off)
        #expect(StoreTLS.usual(for: server.location(database: "x")) == .verify(ca: nil))
    }
}
