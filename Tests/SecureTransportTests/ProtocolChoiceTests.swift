import APNsSimulator
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import SecureTransport

@Suite("The protocol that a server chooses")
struct ProtocolChoiceTests {
    private final class Count: Sendable {
        let served = Mutex(0)
    }

    private func chosen(_ loopback: Loopback, _ context: TLSClientContext) throws -> String? {
        try TLSConnection.protocolChosen(
            by: loopback.listener.address, hostName: "localhost", context: context,
            offering: ["h2"], connectDeadline: .in(patience), handshakeTimeout: patience)
    }

    @Test(
        "it is asked without a complete handshake, so the server has no client",
        arguments: [TLSServerContext.Version.tls12, .tls13])
    func asked(_ version: TLSServerContext.Version) throws {
        let authority = try Authority()
        for (alpn, expected) in [(["h2"], "h2"), (["http/1.1", "h2"], "h2"), ([], nil)] {
            let count = Count()
            let loopback = try Loopback(
                authority.server(versions: version...version, alpn: alpn)
            ) { _ in count.served.withLock { $0 += 1 } }
            #expect(try chosen(loopback, authority.client()) == expected)
            #expect(loopback.finish().count == 1, "the server completed a handshake")
            #expect(count.served.withLock { $0 } == 0)
        }
    }

    @Test("a server without a common protocol, or of another authority, has chosen none")
    func none() throws {
        let (authority, other) = (try Authority(), try Authority("Another"))
        let strange = try Loopback(authority.server(alpn: ["acme-tls/1"]))
        #expect(try chosen(strange, authority.client()) == nil)
        let foreign = try Loopback(other.server(alpn: ["h2"]))
        #expect(try chosen(foreign, authority.client()) == nil)
    }

    @Test(
        "a handshake that needs a protocol ends before it is complete without it",
        arguments: [TLSServerContext.Version.tls12, .tls13])
    func required(_ version: TLSServerContext.Version) throws {
        let authority = try Authority()
        for alpn in [[], ["http/1.1"]] {
            let count = Count()
            let loopback = try Loopback(
                authority.server(versions: version...version, alpn: alpn)
            ) { _ in count.served.withLock { $0 += 1 } }
            let failure = #expect(throws: TransportFailure.self) {
                try TLSConnection.connect(
                    to: loopback.listener.address, hostName: "localhost",
                    context: authority.client(alpn: ["h2", "http/1.1"]),
                    connectDeadline: .in(patience), handshakeTimeout: patience, requiring: "h2")
            }
            #expect(failure?.code == .wrongProtocol, "\(failure as Any)")
            #expect(failure?.description.contains("h2 was offered and the server ") == true)
            _ = loopback.finish()
            #expect(count.served.withLock { $0 } == 0)
        }
    }

    @Test("a handshake that needs a protocol is complete with it")
    func agreed() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server(alpn: ["h2"])) { _ = try $0.read(1) }
        let connection = try TLSConnection.connect(
            to: loopback.listener.address, hostName: "localhost",
            context: authority.client(alpn: ["h2"]), connectDeadline: .in(patience),
            handshakeTimeout: patience, requiring: "h2")
        #expect(connection.negotiatedProtocol == "h2")
        connection.close()
    }
}

@Suite("The topics of a certificate")
struct CertificateTopicsTests {
    /// A sequence or string of DER with a length below 128.
    private func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        [tag, UInt8(content.count)] + content
    }

    private func text(_ text: String) -> [UInt8] { element(0x0C, Array(text.utf8)) }

    @Test("those of Apple's extension are its strings, not their kinds")
    func list() {
        let der = element(
            0x30,
            text("com.example.a") + element(0x30, text("app")) + text("com.example.a.voip")
                + element(0x30, text("voip")))
        #expect(CertificateTopics.topics(der: der) == ["com.example.a", "com.example.a.voip"])
    }

    @Test("a damaged extension gives the topics before the damage and never reads past its end")
    func damaged() {
        let der = element(0x30, text("com.example.a") + element(0x30, text("app")))
        for count in 0..<der.count {
            #expect(CertificateTopics.topics(der: Array(der.prefix(count))).isEmpty)
        }
        for index in der.indices {
            for value in [UInt8(0), 0x7F, 0x80, 0x84, 0xFF] {
                var bytes = der
                bytes[index] = value
                #expect(CertificateTopics.topics(der: bytes).count <= 2)
            }
        }
        #expect(CertificateTopics.topics(der: []).isEmpty)
    }

    @Test("a certificate of one topic has it as its user id")
    func userID() throws {
        let authority = try CertificateAuthority()
        #expect(try authority.issue(.client()).identity.topics == ["com.example.chat"])
        #expect(try authority.issue(.server()).identity.topics == [])
    }

    @Test("Apple's extension counts more than the user id")
    func certificate() throws {
        let folder = try TemporaryFolder()
        let settings = try folder.write(
            "openssl.cnf",
            """
            [req]
            distinguished_name = name
            x509_extensions = extensions
            [name]
            [extensions]
            1.2.840.113635.100.6.3.6 = ASN1:SEQUENCE:topics
            [topics]
            one = UTF8:com.example.chat
            kind = SEQUENCE:app
            two = UTF8:com.example.chat.voip
            kinds = SEQUENCE:voip
            [app]
            kind = UTF8:app
            [voip]
            kind = UTF8:voip

            """)
        let (file, key) = (folder.file("a.pem"), folder.file("a.key"))
        let made = try RunningTool(
            program: URL(filePath: "/usr/bin/openssl"),
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-config", settings, "-subj", "/UID=com.example.user/CN=Apple Push Services",
                "-keyout", key, "-out", file,
            ]
        ).wait()
        #expect(made.exit == 0, "\(made.error)")
        #expect(
            try TLSIdentity.load(file: file, key: key).topics == [
                "com.example.chat", "com.example.chat.voip",
            ])
    }
}
