import APNsSimulator
import Foundation
import Glibc
import Testing

@testable import SecureTransport

@Suite("Connecting")
struct ConnectingTests {
    @Test(
        "a client connects to a server it trusts, under each version",
        arguments: [TLSServerContext.Version.tls12, .tls13])
    func connects(version: TLSServerContext.Version) throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server(versions: version...version))
        let connection = try loopback.connect(authority.client())
        #expect(connection.tlsVersion == (version == .tls12 ? "TLSv1.2" : "TLSv1.3"))
        #expect(!connection.cipher.isEmpty)
        #expect(connection.peerSubject == "CN=localhost")
        #expect(connection.negotiatedProtocol == nil)
    }

    @Test("the client looks for an IP literal among the certificate's addresses")
    func literal() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server())
        _ = try loopback.connect(authority.client(), hostName: "127.0.0.1")
        let named = try Loopback(authority.server(.server(addresses: [])))
        #expect(
            named.failure(try authority.client(), hostName: "127.0.0.1")?.code
                == .hostNameMismatch)
    }

    @Test("the root's dot at the end of a host name is not part of the name")
    func rootDot() throws {
        let authority = try Authority()
        _ = try Loopback(authority.server()).connect(authority.client(), hostName: "localhost.")
    }

    @Test("the server learns the subject of the client's certificate")
    func subject() throws {
        let authority = try Authority()
        let server = try authority.server(clients: .required(authorities: authority.file))
        let loopback = try Loopback(server) { connection in
            try connection.write(Array((connection.peerSubject ?? "none").utf8))
            connection.close()
        }
        let client = try authority.client(authority.identity(.client(bundleID: "com.example.x")))
        let heard = try loopback.connect(client).readAll()
        #expect(
            String(decoding: heard.bytes, as: UTF8.self)
                == "CN=Apple Push Services: com.example.x,UID=com.example.x")
    }

    @Test("the first protocol of the server's list that the client offers is agreed on")
    func alpn() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server(alpn: ["h2", "http/1.1"]))
        let both = try loopback.connect(authority.client(alpn: ["http/1.1", "h2"]))
        #expect(both.negotiatedProtocol == "h2")
        let other = try loopback.connect(authority.client(alpn: ["spdy/3"]))
        #expect(other.negotiatedProtocol == nil)
    }

    @Test("a port without a listener refuses the connection")
    func refused() throws {
        let authority = try Authority()
        let address = try TLSListener().address
        let failure = #expect(throws: TransportFailure.self) {
            try TLSConnection.connect(
                to: address, hostName: "localhost", context: try authority.client(),
                connectDeadline: .in(patience), handshakeTimeout: patience)
        }
        #expect(failure?.code == .connectionRefused)
        #expect(
            failure?.description
                == "connecting to localhost:\(address.port) (127.0.0.1:\(address.port)): "
                + "connection refused; check that the gateway listens at that port")
    }

    @Test("a host that answers no connection request costs the connect deadline")
    func connectDeadline() throws {
        // With its queue of pending connections full, Linux drops further requests unanswered.
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        let loopback = try #require(try NameResolution.resolve(host: "127.0.0.1", port: 0).first)
        #expect(loopback.withPointer { bind(listener, $0, $1) } == 0)
        #expect(listen(listener, 0) == 0)
        let address = try #require(SocketAddress.bound(to: listener))
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
        let fillers = (0..<4).map { _ in socket(AF_INET, kind, 0) }
        defer { fillers.forEach { close($0) } }
        for filler in fillers {
            _ = address.withPointer { connect(filler, $0, $1) }
        }
        let authority = try Authority()
        let failure = #expect(throws: TransportFailure.self) {
            try TLSConnection.connect(
                to: address, hostName: "localhost", context: try authority.client(),
                connectDeadline: .in(.milliseconds(50)), handshakeTimeout: patience)
        }
        #expect(failure?.code == .timedOut)
    }

    @Test(
        "a name that does not exist is not found", arguments: ["no-such-host.invalid", "", "a\0b"])
    func nameNotFound(name: String) throws {
        let failure = #expect(throws: TransportFailure.self) {
            try NameResolution.resolve(host: name, port: 2196)
        }
        #expect(failure?.code == .nameNotFound)
    }

    @Test("a peer that cannot be trusted is named before one that does not answer, in any order")
    func finalFailure() throws {
        let addresses = try ["127.0.0.1", "127.0.0.2"].map {
            try NameResolution.resolve(host: $0, port: 2196)[0]
        }
        for untrusted in addresses {
            let failure = #expect(throws: TransportFailure.self) {
                try NameResolution.first(of: addresses, until: .never) {
                    address throws(TransportFailure) -> Int in
                    throw TransportFailure(
                        address.description == untrusted.description
                            ? .certificateUntrusted : .connectionRefused, "\(address)")
                }
            }
            #expect(failure?.code == .certificateUntrusted)
        }
    }

    @Test("addresses print with their port, IPv6 in brackets")
    func addresses() throws {
        #expect(
            try NameResolution.resolve(host: "127.0.0.1", port: 2196).map(\.description)
                == ["127.0.0.1:2196"])
        #expect(
            try NameResolution.resolve(host: "[::1]", port: 443).map(\.description)
                == ["[::1]:443"])
    }
}

@Suite("Checking the server")
struct ServerCheckTests {
    @Test("a server's certificate that does not fit is refused, and named")
    func refused() throws {
        let (authority, other) = (try Authority(), try Authority("Theirs"))
        var (expired, early) = (CertificateRequest.server(), CertificateRequest.server())
        (expired.notBefore, expired.notAfter) = (-7200, -3600)
        (early.notBefore, early.notAfter) = (3600, 7200)
        func time(_ seconds: Int64) -> String {
            Date(timeIntervalSince1970: Double(seconds)).ISO8601Format()
        }
        let cases: [(CertificateRequest, TransportFailure.Code, (TLSIdentity) -> String)] = [
            (
                .server(
                    commonName: "elsewhere.example", dnsNames: ["elsewhere.example"], addresses: []),
                .hostNameMismatch, { _ in "CN=elsewhere.example" }
            ),
            // A client's certificate does not serve a server.
            (
                CertificateRequest(
                    commonName: "localhost", dnsNames: ["localhost"], usage: .client),
                .certificateUntrusted, { _ in "is not trusted" }
            ),
            (expired, .certificateExpired, { "it expired at \(time($0.notAfter));" }),
            (early, .certificateNotYetValid, { "valid only from \(time($0.notBefore));" }),
        ]
        for (request, code, words) in cases {
            let identity = try authority.identity(request)
            let server = try TLSServerContext(identity: identity, clients: .notAsked)
            let failure = try Loopback(server).failure(authority.client())
            #expect(failure?.code == code)
            #expect(failure?.description.contains(words(identity)) == true, "\(failure as Any)")
        }
        let foreign = try Loopback(other.server())
        #expect(foreign.failure(try authority.client())?.code == .certificateUntrusted)
        #expect(
            foreign.failure(try TLSClientContext(trust: .system))?.code == .certificateUntrusted)
    }

    @Test("a trust file that is missing or holds no certificate is an error of the settings")
    func trustFile() throws {
        let workshop = try Workshop()
        for path in [workshop.file("none.pem"), try workshop.write([1, 2, 3], to: "bad.pem")] {
            let failure = #expect(throws: TransportFailure.self) {
                try TLSClientContext(trust: .file(path))
            }
            #expect(failure?.code == .trustUnusable)
            #expect(failure?.description.contains(path) == true)
        }
    }
}

@Suite("Our certificate")
struct ClientCertificateTests {
    static let versions: [TLSServerContext.Version] = [.tls12, .tls13]

    @Test(
        "a server that requires a certificate accepts one of its authority, and both sides refuse others",
        arguments: versions)
    func required(version: TLSServerContext.Version) throws {
        let (authority, foreign) = (try Authority(), try Authority("Foreign"))
        var expired = CertificateRequest.client()
        (expired.notBefore, expired.notAfter) = (-7200, -3600)
        let cases: [(TLSIdentity?, TransportFailure.Code?, String)] = [
            (try authority.identity(.client()), nil, ""),
            (nil, .clientCertificateRefused, "none is given"),
            (
                try foreign.identity(.client()), .certificateUntrusted,
                "Apple Push Services: com.example.chat"
            ),
            (try authority.identity(expired), .certificateExpired, "expired"),
        ]
        for (identity, code, words) in cases {
            let loopback = try Loopback(
                authority.server(
                    clients: .required(authorities: authority.file), versions: version...version))
            let failure = loopback.failure(try authority.client(identity))
            #expect(failure?.code == code.map { _ in .clientCertificateRefused })
            #expect(failure?.description.contains(words) ?? (code == nil))
            let served = loopback.finish().compactMap { ($0 as? TransportFailure)?.code }
            #expect(served == code.map { [$0] } ?? [])
        }
        let refusing = try Loopback(
            authority.server(
                clients: .refused(authorities: authority.file), versions: version...version))
        let failure = refusing.failure(try authority.client(authority.identity(.client())))
        #expect(failure?.code == .clientCertificateRefused)
    }

    @Test("under TLS 1.3 the refusal comes with the first read, and with each later one")
    func firstRead() throws {
        let authority = try Authority()
        let loopback = try Loopback(
            authority.server(
                clients: .refused(authorities: authority.file), versions: .tls13 ... .tls13))
        let connection = try loopback.connect(authority.client(authority.identity(.client())))
        for _ in 1...2 {
            let failure = #expect(throws: TransportFailure.self) { try connection.read(1) }
            #expect(failure?.code == .clientCertificateRefused)
        }
    }
}

@Suite("Peers that do not speak TLS well")
struct StrangePeerTests {
    @Test("a peer that does not speak TLS well is told apart from the others")
    func strange() throws {
        let authority = try Authority()
        let tuple: [UInt8] = [0x65, 0x53, 0xf1, 0, 0, 32] + [UInt8](0..<32)
        for plaintext in [Array("220 mail.example ESMTP ready\r\n".utf8), tuple] {
            let loopback = try Loopback { client in
                _ = client.sendPlaintext(plaintext)
                _ = client.staySilent(deadline: .in(patience))
            }
            #expect(loopback.failure(try authority.client())?.code == .notTLS)
        }
        let old = try Loopback(authority.server(versions: .tls11 ... .tls11))
        #expect(old.failure(try authority.client())?.code == .protocolVersion)
        let closing = try Loopback { $0.close() }
        #expect(closing.failure(try authority.client())?.code == .closedEarly)
        let resetting = try Loopback { $0.reset() }
        #expect(resetting.failure(try authority.client())?.code == .reset)
        let silent = try Loopback { _ = $0.staySilent(deadline: .in(patience)) }
        let failure = silent.failure(
            try authority.client(), handshakeTimeout: .milliseconds(50))
        #expect(failure?.code == .timedOut)
        #expect(failure?.description.hasPrefix("TLS handshake with localhost:") == true)
    }
}
