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
        #expect(failure?.code == .timedOut(.connect))
    }

    @Test(
        "a name that does not exist is not found", arguments: ["no-such-host.invalid", "", "a\0b"])
    func nameNotFound(name: String) throws {
        let failure = #expect(throws: TransportFailure.self) {
            try NameResolution.resolve(host: name, port: 2196)
        }
        #expect(failure?.code == .nameNotFound)
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
    @Test("a certificate of another authority is untrusted")
    func wrongAuthority() throws {
        let (ours, theirs) = (try Authority("Ours"), try Authority("Theirs"))
        let failure = try Loopback(theirs.server()).failure(ours.client())
        #expect(failure?.code == .certificateUntrusted)
    }

    @Test("the system's authorities do not vouch for a test's server")
    func systemTrust() throws {
        let context = try TLSClientContext(trust: .system)
        let failure = try Loopback(Authority().server()).failure(context)
        #expect(failure?.code == .certificateUntrusted)
    }

    @Test("a certificate for another host is a mismatch that names the right hosts")
    func wrongHost() throws {
        let authority = try Authority()
        let elsewhere = CertificateRequest.server(
            commonName: "elsewhere.example", dnsNames: ["elsewhere.example"], addresses: [])
        let failure = try Loopback(authority.server(elsewhere)).failure(authority.client())
        #expect(failure?.code == .hostNameMismatch)
        #expect(failure?.description.contains("CN=elsewhere.example") == true)
    }

    @Test("a client's certificate does not serve a server")
    func wrongUsage() throws {
        let authority = try Authority()
        let client = CertificateRequest(
            commonName: "localhost", dnsNames: ["localhost"], usage: .client)
        let failure = try Loopback(authority.server(client)).failure(authority.client())
        #expect(failure?.code == .certificateUntrusted)
    }

    @Test("an expired certificate is named with the time of its end")
    func expired() throws {
        let authority = try Authority()
        var request = CertificateRequest.server()
        (request.notBefore, request.notAfter) = (-7200, -3600)
        let identity = try authority.identity(request)
        let server = try TLSServerContext(identity: identity, clients: .notAsked)
        let failure = try Loopback(server).failure(authority.client())
        #expect(failure?.code == .certificateExpired)
        let end = Date(timeIntervalSince1970: Double(identity.notAfter)).ISO8601Format()
        #expect(failure?.description.contains("it expired at \(end);") == true)
    }

    @Test("a certificate that is not valid yet is named with the time of its start")
    func notYetValid() throws {
        let authority = try Authority()
        var request = CertificateRequest.server()
        (request.notBefore, request.notAfter) = (3600, 7200)
        let identity = try authority.identity(request)
        let server = try TLSServerContext(identity: identity, clients: .notAsked)
        let failure = try Loopback(server).failure(authority.client())
        #expect(failure?.code == .certificateNotYetValid)
        let start = Date(timeIntervalSince1970: Double(identity.notBefore)).ISO8601Format()
        #expect(failure?.description.contains("valid only from \(start);") == true)
    }

    @Test("a trust file that is missing or holds no certificate is an error of the settings")
    func trustFile() throws {
        let workshop = try Workshop()
        for path in [workshop.file("none.pem"), try workshop.write([1, 2, 3], to: "bad.pem")] {
            let failure = #expect(throws: TransportFailure.self) {
                try TLSClientContext(trust: .file(path))
            }
            #expect(failure?.code == .credentialsUnusable)
            #expect(failure?.description.contains(path) == true)
        }
    }
}

@Suite("Our certificate")
struct ClientCertificateTests {
    static let versions: [TLSServerContext.Version] = [.tls12, .tls13]

    @Test("a server that requires a certificate accepts one of its authority", arguments: versions)
    func accepted(version: TLSServerContext.Version) throws {
        let authority = try Authority()
        let loopback = try Loopback(
            authority.server(
                clients: .required(authorities: authority.file), versions: version...version))
        #expect(
            loopback.failure(try authority.client(authority.identity(.client()))) == nil)
        #expect(loopback.finish().isEmpty)
    }

    @Test("both sides refuse a missing certificate where one is required", arguments: versions)
    func missing(version: TLSServerContext.Version) throws {
        let authority = try Authority()
        let loopback = try Loopback(
            authority.server(
                clients: .required(authorities: authority.file), versions: version...version))
        let failure = loopback.failure(try authority.client())
        #expect(failure?.code == .clientCertificateRefused)
        #expect(failure?.description.contains("none is given") == true)
        let served = loopback.finish().compactMap { ($0 as? TransportFailure)?.code }
        #expect(served == [.clientCertificateRefused])
    }

    @Test("a certificate of a foreign authority is refused", arguments: versions)
    func foreign(version: TLSServerContext.Version) throws {
        let authority = try Authority()
        let loopback = try Loopback(
            authority.server(
                clients: .required(authorities: authority.file), versions: version...version))
        let failure = loopback.failure(
            try authority.client(Authority("Foreign").identity(.client())))
        #expect(failure?.code == .clientCertificateRefused)
        #expect(failure?.description.contains("Apple Push Services: com.example.chat") == true)
        let served = loopback.finish().compactMap { ($0 as? TransportFailure)?.code }
        #expect(served == [.certificateUntrusted])
    }

    @Test("an expired certificate is refused", arguments: versions)
    func expired(version: TLSServerContext.Version) throws {
        let authority = try Authority()
        let loopback = try Loopback(
            authority.server(
                clients: .required(authorities: authority.file), versions: version...version))
        var request = CertificateRequest.client()
        (request.notBefore, request.notAfter) = (-7200, -3600)
        let failure = loopback.failure(try authority.client(authority.identity(request)))
        #expect(failure?.code == .clientCertificateRefused)
        #expect(failure?.description.contains("expired") == true)
        let served = loopback.finish().compactMap { ($0 as? TransportFailure)?.code }
        #expect(served == [.certificateExpired])
    }

    @Test("a server that refuses every client refuses a good certificate", arguments: versions)
    func refuseEveryone(version: TLSServerContext.Version) throws {
        let authority = try Authority()
        let loopback = try Loopback(
            authority.server(
                clients: .refused(authorities: authority.file), versions: version...version))
        let failure = loopback.failure(try authority.client(authority.identity(.client())))
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
    @Test("a peer that speaks plaintext is distinguished from a bad TLS peer")
    func plaintext() throws {
        let authority = try Authority()
        let loopback = try Loopback { client in
            _ = client.sendPlaintext(Array("220 mail.example ESMTP ready\r\n".utf8))
            _ = client.staySilent(deadline: .in(patience))
        }
        #expect(try loopback.failure(authority.client())?.code == .notTLS)
    }

    @Test("a peer that sends feedback tuples without TLS does not speak TLS")
    func plaintextTuples() throws {
        let authority = try Authority()
        let tuple: [UInt8] = [0x65, 0x53, 0xf1, 0, 0, 32] + [UInt8](0..<32)
        let loopback = try Loopback { client in
            _ = client.sendPlaintext(tuple)
            _ = client.staySilent(deadline: .in(patience))
        }
        #expect(try loopback.failure(authority.client())?.code == .notTLS)
    }

    @Test("a peer that offers at most TLS 1.1 is refused for its version")
    func oldVersion() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server(versions: .tls11 ... .tls11))
        #expect(try loopback.failure(authority.client())?.code == .protocolVersion)
    }

    @Test("a peer that stays silent costs the handshake's time limit")
    func silent() throws {
        let authority = try Authority()
        let loopback = try Loopback { _ = $0.staySilent(deadline: .in(patience)) }
        let failure = loopback.failure(
            try authority.client(), handshakeTimeout: .milliseconds(50))
        #expect(failure?.code == .timedOut(.handshake))
        #expect(failure?.description.hasPrefix("TLS handshake with localhost:") == true)
    }

    @Test("a peer that closes during the handshake is reported as an early close")
    func closes() throws {
        let authority = try Authority()
        let loopback = try Loopback { $0.close() }
        #expect(try loopback.failure(authority.client())?.code == .closedEarly)
    }

    @Test("a peer that resets during the handshake is reported as a reset")
    func resets() throws {
        let authority = try Authority()
        let loopback = try Loopback { $0.reset() }
        #expect(try loopback.failure(authority.client())?.code == .reset)
    }
}
