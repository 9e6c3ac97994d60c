import COpenSSL
import Glibc

// One TLS connection, used like a blocking socket but with a deadline on each call.
//
// The socket never blocks. OpenSSL says what it waits for (WANT_READ or WANT_WRITE, either of them
// from either direction: a write may first have to read a key update), poll waits for that, the
// deadline and the interrupt, and the same call is made again.
//
// A connection ends in one of four ways, which mean different things to a feed that has no
// terminator of its own:
//   close_notify   the peer says that this was all (RFC 8446 section 6.1)
//   cut            the stream ends without it: bytes may be missing, by fault or by attack
//   reset          the peer or the network gave up: bytes may be missing
//   failure        an alert or broken records: what came before is good, the end is not
// Bytes that arrived before the end are handed out first, whatever the end is.
//
// Everything is confined to one thread at a time. Not Sendable on purpose.

/// A TLS connection, confined to its thread. Closes itself, without close_notify, when dropped.
package final class TLSConnection {
    enum Role {
        case client
        case server
    }

    let ssl: OpaquePointer
    let socket: Socket
    let notes = HandshakeNotes()
    let role: Role
    /// The peer as messages name it: `host:port (address)`.
    package let peer: String
    /// Our certificate's name for messages.
    let identityName: String?
    /// Cuts short every wait.
    let interrupt: Interrupt?
    /// Set once the receiving side is over; each later read says the same.
    var ended: Result<ConnectionEnd, TransportFailure>?
    /// A fatal error of either direction: no close_notify may follow it (SSL_shutdown(3)).
    var isBroken = false
    /// Bytes handed to TLS so far, also by a write that failed halfway.
    package internal(set) var bytesWritten = 0

    init(
        _ socket: Socket, context: OpaquePointer, role: Role, peer: String,
        identityName: String?, interrupt: Interrupt?
    ) throws(TransportFailure) {
        OpenSSLFault.discard()
        guard let ssl = SSL_new(context) else {
            throw TLSContext.failure("preparing TLS with \(peer)")
        }
        guard SSL_set_fd(ssl, socket.descriptor) == 1 else {
            SSL_free(ssl)
            throw TLSContext.failure("preparing TLS with \(peer)")
        }
        self.ssl = ssl
        self.socket = socket
        self.role = role
        self.peer = peer
        self.identityName = identityName
        self.interrupt = interrupt
    }

    deinit {
        SSL_free(ssl)
    }

    /// Connects and completes the handshake.
    ///
    /// Checks the peer's chain, its validity and that it names `hostName` (RFC 9525; an IP literal
    /// is looked for among the certificate's IP addresses). `hostName` is sent as SNI unless it is
    /// an IP literal (RFC 6066). The handshake has `handshakeTimeout` from the moment TCP is
    /// connected. `interrupt` cuts short this and every later wait on the connection.
    package static func connect(
        to address: SocketAddress, hostName: String, context: TLSClientContext,
        connectDeadline: Deadline, handshakeTimeout: Duration, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        let host = HostName(hostName)
        let peer = PeerName.text(host: host.text, address: address)
        guard host.isUsable else {
            throw TransportFailure(
                .nameNotFound, "connecting to \(address): the host name is empty or unusable")
        }
        let socket = try Socket.connect(
            to: address, peer: peer, deadline: connectDeadline, interrupt: interrupt)
        let connection = try TLSConnection(
            socket, context: context.pointer, role: .client, peer: peer,
            identityName: context.identityName, interrupt: interrupt)
        connection.notes.attach(to: connection.ssl, verifying: .peer)
        try connection.expect(host)
        SSL_set_connect_state(connection.ssl)
        try connection.handshake(deadline: .in(handshakeTimeout))
        return connection
    }

    /// Completes a server's side of the handshake on a socket that a client has connected.
    ///
    /// `context` is an SSL_CTX for servers; `peer` names the client in messages. The handshake has
    /// `timeout`. `interrupt` cuts short this and every later wait on the connection. Throws
    /// `clientCertificateRefused` when the client sent none, the certificate codes when it sent a bad one
    /// or refused ours, `notTLS`, `protocolVersion`, `closedEarly`, `reset`, `timedOut(.handshake)` or
    /// `interrupted`.
    package static func accept(
        _ socket: sending Socket, context: OpaquePointer, verifying: PeerVerification, peer: String,
        timeout: Duration, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        let connection = try TLSConnection(
            socket, context: context, role: .server, peer: peer, identityName: nil,
            interrupt: interrupt)
        connection.notes.attach(to: connection.ssl, verifying: verifying)
        SSL_set_accept_state(connection.ssl)
        try connection.handshake(deadline: .in(timeout))
        return connection
    }

    /// Makes OpenSSL check the name, which it does not do by itself (SSL_set1_host(3)).
    private func expect(_ host: HostName) throws(TransportFailure) {
        let parameters = SSL_get0_param(ssl)
        if host.isLiteral {
            guard X509_VERIFY_PARAM_set1_ip_asc(parameters, host.text) == 1 else {
                throw TLSContext.failure("preparing to check the address of \(peer)")
            }
            return
        }
        X509_VERIFY_PARAM_set_hostflags(
            parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        guard X509_VERIFY_PARAM_set1_host(parameters, host.text, 0) == 1,
            pushsweep_ssl_set_server_name(ssl, host.text) == 1
        else {
            throw TLSContext.failure("preparing to check the host name of \(peer)")
        }
    }

    func handshake(deadline: Deadline) throws(TransportFailure) {
        while true {
            switch attempt({ SSL_do_handshake($0) }) {
            case .done:
                return
            case .wait(let direction):
                try wait(for: direction, deadline: deadline, during: .handshake)
            case .ended(let end):
                isBroken = true
                throw handshakeEnded(end)
            case .failed(let fault):
                isBroken = true
                throw handshakeFailure(fault)
            }
        }
    }

    /// The protocol agreed on by ALPN; nil when none was.
    package var negotiatedProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        guard let name, length > 0 else {
            return nil
        }
        return String(
            decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// The version agreed on, `TLSv1.2` or `TLSv1.3`.
    package var tlsVersion: String {
        SSL_get_version(ssl).map { String(cString: $0) } ?? ""
    }

    /// The cipher suite agreed on, in OpenSSL's spelling.
    package var cipher: String {
        SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)).map { String(cString: $0) } ?? ""
    }

    /// The subject of the peer's certificate (RFC 2253); nil when it sent none.
    package var peerSubject: String? {
        peerFacts?.subject
    }

    /// What the peer's certificate says; nil when it sent none.
    package var peerFacts: CertificateFacts? {
        SSL_get0_peer_certificate(ssl).map(CertificateFacts.init)
    }
}

/// How messages name a peer.
enum PeerName {
    /// `host:port (address)`, or only the address when the host is that address.
    static func text(host: String, address: SocketAddress) -> String {
        let number = address.description
        let name = host.contains(":") ? "[\(host)]:\(address.port)" : "\(host):\(address.port)"
        return name == number ? number : "\(name) (\(number))"
    }
}
