import COpenSSL

// How a connection comes to be, and what its handshake agreed on.

extension TLSConnection {
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
            switch TLSAttempt(ssl, { SSL_do_handshake($0) }) {
            case .done:
                return
            case .wait(let direction):
                try wait(for: direction, deadline: deadline, during: .handshake)
            case .ended(let end):
                isBroken = true
                throw failures.handshakeEnded(end)
            case .failed(let fault):
                isBroken = true
                throw failures.handshakeFailure(fault)
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

/// How the peer's certificate is checked.
package enum PeerVerification: Sendable {
    /// A server that asks for no client certificate.
    case nobody
    /// The peer must have one, and its chain must be good.
    case peer
    /// A server that misbehaves: each client certificate is called bad.
    case refuseEveryone
}

/// What OpenSSL tells its callbacks during a handshake and forgets afterwards.
///
/// A failed handshake keeps no peer certificate, so the reason and the dates are noted while the
/// chain is being checked. The SSL object points to the notes; the connection owns both.
final class HandshakeNotes {
    /// The first failed check of the peer's chain.
    struct Rejection {
        /// X509_V_ERR_..., see X509_STORE_CTX_get_error(3).
        let reason: Int32
        /// The certificate that failed: the peer's own or one above it.
        let facts: CertificateFacts?
        /// 0 for the peer's own certificate.
        let depth: Int32

        /// OpenSSL's words for the reason.
        var text: String {
            X509_verify_cert_error_string(Int(reason)).map { String(cString: $0) }
                ?? "error \(reason)"
        }
    }

    fileprivate(set) var rejection: Rejection?
    /// Whether the server asked for a client certificate.
    fileprivate(set) var certificateWasRequested = false

    /// Makes an SSL object report to these notes and check its peer by `mode`.
    func attach(to ssl: OpaquePointer, verifying mode: PeerVerification) {
        let opaque = Unmanaged.passUnretained(self).toOpaque()
        _ = pushsweep_ssl_set_app_data(ssl, opaque)
        SSL_set_cert_cb(ssl, noteCertificateRequest, opaque)
        switch mode {
        case .nobody:
            SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
        case .peer:
            SSL_set_verify(
                ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, noteVerification)
        case .refuseEveryone:
            SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, refuse)
        }
    }

    fileprivate static func of(_ opaque: UnsafeMutableRawPointer?) -> HandshakeNotes? {
        opaque.map { Unmanaged<HandshakeNotes>.fromOpaque($0).takeUnretainedValue() }
    }

    fileprivate func note(_ store: OpaquePointer?) {
        guard rejection == nil else {
            return
        }
        rejection = Rejection(
            reason: X509_STORE_CTX_get_error(store),
            facts: X509_STORE_CTX_get_current_cert(store).map(CertificateFacts.init),
            depth: X509_STORE_CTX_get_error_depth(store))
    }
}

private func noteVerification(_ verified: Int32, _ store: OpaquePointer?) -> Int32 {
    if verified == 0 {
        HandshakeNotes.of(pushsweep_store_get_app_data(store))?.note(store)
    }
    return verified
}

private func refuse(_ verified: Int32, _ store: OpaquePointer?) -> Int32 {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED)
    return noteVerification(0, store)
}

private func noteCertificateRequest(
    _ ssl: OpaquePointer?, _ opaque: UnsafeMutableRawPointer?
) -> Int32 {
    HandshakeNotes.of(opaque)?.certificateWasRequested = true
    return 1
}
