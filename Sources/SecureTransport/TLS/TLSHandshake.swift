import COpenSSL

// Connects, completes handshakes, and reads what a handshake negotiated.

extension TLSConnection {
    /// Connects and completes the handshake.
    ///
    /// Checks the peer's chain, its validity and that it names `hostName` (RFC 9525; an IP literal
    /// is looked for among the certificate's IP addresses). `hostName` is sent as SNI unless it is
    /// an IP literal (RFC 6066). The handshake has `handshakeTimeout` from the moment TCP is
    /// connected. `interrupt` ends this and every later wait on the connection. With `requiring`, a
    /// server that does not choose this protocol gets no complete handshake: `wrongProtocol`.
    package static func connect(
        to address: SocketAddress, hostName: String, context: TLSClientContext,
        connectDeadline: Deadline, handshakeTimeout: Duration, interrupt: Interrupt? = nil,
        requiring name: String? = nil
    ) throws(TransportFailure) -> TLSConnection {
        let connection = try open(address, hostName, context, connectDeadline, interrupt)
        connection.notes.demand = name.map { .exactly($0) } ?? .none
        try connection.handshake(deadline: .in(handshakeTimeout))
        return connection
    }

    /// Asks a server which of some protocols it chooses, and never completes a handshake. The server
    /// names its choice before the client's last message (RFC 7301 section 3.1), which is not sent:
    /// a feedback gateway has no client then and keeps its list. Nil without an answer.
    package static func protocolChosen(
        by address: SocketAddress, hostName: String, context: TLSClientContext,
        offering names: [String], connectDeadline: Deadline, handshakeTimeout: Duration,
        interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> String? {
        let connection = try open(address, hostName, context, connectDeadline, interrupt)
        let offer = ALPN.wireForm(names)
        guard SSL_set_alpn_protos(connection.ssl, offer, UInt32(offer.count)) == 0 else {
            throw TransportFailure.openSSL("offering application protocols")
        }
        connection.notes.demand = .answerOnly
        // It always fails: the check of the certificate ends it.
        do { try connection.handshake(deadline: .in(handshakeTimeout)) } catch {}
        return connection.notes.chosen
    }

    /// Connects and prepares a handshake that checks the peer and its name.
    private static func open(
        _ address: SocketAddress, _ hostName: String, _ context: TLSClientContext,
        _ connectDeadline: Deadline, _ interrupt: Interrupt?
    ) throws(TransportFailure) -> TLSConnection {
        let host = HostName(hostName)
        let peer = address.name(ofHost: host.text)
        guard host.isUsable else {
            throw TransportFailure(
                .nameNotFound, "connecting to \(address): the host name is empty or unusable")
        }
        let socket = try Socket.connect(
            to: address, peer: peer, deadline: connectDeadline, interrupt: interrupt)
        let connection = try TLSConnection(
            socket, context: context.pointer, isClient: true, peer: peer,
            identityName: context.identityName, interrupt: interrupt)
        connection.notes.attach(to: connection.ssl, verifying: .required)
        try connection.expect(host)
        SSL_set_connect_state(connection.ssl)
        return connection
    }

    /// Completes the server's side of the handshake on the socket of a client.
    ///
    /// `context` is an SSL_CTX for servers; `peer` is the client's name in messages. The handshake
    /// has `timeout`. `interrupt` ends this and every later wait on the connection. Throws
    /// `clientCertificateRefused` when the client sent no certificate, the certificate codes when
    /// it sent an invalid one or refused ours, `notTLS`, `protocolVersion`, `closedEarly`, `reset`,
    /// `timedOut` or `interrupted`.
    package static func accept(
        _ socket: sending Socket, context: OpaquePointer, verifying: PeerVerification, peer: String,
        timeout: Duration, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        let connection = try TLSConnection(
            socket, context: context, isClient: false, peer: peer, identityName: nil,
            interrupt: interrupt)
        connection.notes.attach(to: connection.ssl, verifying: verifying)
        SSL_set_accept_state(connection.ssl)
        try connection.handshake(deadline: .in(timeout))
        return connection
    }

    /// Makes OpenSSL check the name, which it does not do by default (SSL_set1_host(3)).
    private func expect(_ host: HostName) throws(TransportFailure) {
        let parameters = SSL_get0_param(ssl)
        if host.isLiteral {
            guard X509_VERIFY_PARAM_set1_ip_asc(parameters, host.text) == 1 else {
                throw TransportFailure.openSSL("preparing to check the address of \(peer)")
            }
            return
        }
        X509_VERIFY_PARAM_set_hostflags(
            parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        guard X509_VERIFY_PARAM_set1_host(parameters, host.text, 0) == 1,
            pushsweep_ssl_set_server_name(ssl, host.text) == 1
        else {
            throw TransportFailure.openSSL("preparing to check the host name of \(peer)")
        }
    }

    func handshake(deadline: Deadline) throws(TransportFailure) {
        while true {
            switch TLSAttempt(ssl, { SSL_do_handshake($0) }) {
            case .done: return
            case .wait(let direction):
                guard try isReady(for: direction, deadline: deadline) else {
                    throw TransportFailure(
                        .timedOut,
                        "TLS handshake with \(peer): no answer in time; check that a TLS server listens "
                            + "at that port")
                }
            case .ended(let end):
                isBroken = true
                throw handshakeEnded(end)
            case .failed(let fault):
                isBroken = true
                throw handshakeFailure(fault)
            }
        }
    }

    /// The protocol negotiated by ALPN; nil without one.
    package var negotiatedProtocol: String? { ALPN.chosen(in: ssl) }

    /// The negotiated version, `TLSv1.2` or `TLSv1.3`.
    package var tlsVersion: String {
        SSL_get_version(ssl).map { String(cString: $0) } ?? ""
    }

    /// The negotiated cipher suite, in OpenSSL's spelling.
    package var cipher: String {
        SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)).map { String(cString: $0) } ?? ""
    }

    /// The subject of the peer's certificate (RFC 2253); nil when it sent none.
    package var peerSubject: String? {
        SSL_get0_peer_certificate(ssl).map { CertificateFacts($0).subject }
    }
}

extension SocketAddress {
    /// `host:port (address)`, or only the address when the host is that address.
    fileprivate func name(ofHost host: String) -> String {
        let number = description
        let name = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        return name == number ? number : "\(name) (\(number))"
    }
}

/// The check of the peer's certificate.
package enum PeerVerification: Sendable {
    /// The server requests no client certificate.
    case notRequested
    /// The peer must send one, and its chain must be valid.
    case required
    /// The server refuses every client certificate, for tests.
    case refused
}

/// Information that OpenSSL passes to its callbacks during a handshake and does not keep.
///
/// OpenSSL keeps no peer certificate after a failed handshake, so the callbacks store the reason
/// and the dates during the check of the chain. The SSL object points to the notes; the connection
/// owns both.
final class HandshakeNotes {
    /// The first failed check of the peer's chain.
    struct Rejection {
        /// X509_V_ERR_..., see X509_STORE_CTX_get_error(3).
        let reason: Int32
        /// The certificate that failed: that of the peer or of one of its authorities.
        let facts: CertificateFacts?
        /// The depth in the chain; 0 for the certificate of the peer.
        let depth: Int32

        /// OpenSSL's text of the reason.
        var text: String {
            X509_verify_cert_error_string(Int(reason)).map { String(cString: $0) }
                ?? "error \(reason)"
        }
    }

    /// What a client asks of the protocol that the server chooses by ALPN.
    enum ProtocolDemand {
        /// Any protocol, or none.
        case none
        /// Exactly this one; otherwise the handshake ends.
        case exactly(String)
        /// The handshake ends once the choice is known.
        case answerOnly
    }

    fileprivate(set) var rejection: Rejection?
    /// What is asked of the chosen protocol.
    var demand = ProtocolDemand.none
    /// The protocol that the server chose; nil before its answer, or where it chose none.
    fileprivate(set) var chosen: String?
    /// The protocol that the server should have chosen and did not.
    fileprivate(set) var missed: String?
    // Set while the SSL object is alive, which owns these notes' callbacks.
    private var ssl: OpaquePointer?
    /// Whether the server requested a client certificate.
    fileprivate(set) var certificateWasRequested = false

    /// Registers the callbacks of these notes at an SSL object, with the check of its peer.
    func attach(to ssl: OpaquePointer, verifying mode: PeerVerification) {
        let opaque = Unmanaged.passUnretained(self).toOpaque()
        _ = pushsweep_ssl_set_app_data(ssl, opaque)
        self.ssl = ssl
        SSL_set_cert_cb(ssl, noteCertificateRequest, opaque)
        switch mode {
        case .notRequested:
            SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
        case .required:
            SSL_set_verify(
                ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, noteVerification)
        case .refused:
            SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, refuse)
        }
    }

    fileprivate static func of(_ opaque: UnsafeMutableRawPointer?) -> HandshakeNotes? {
        opaque.map { Unmanaged<HandshakeNotes>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Whether the handshake may go on with the protocol that the server has chosen. The server's
    /// choice arrives before its certificate, under TLS 1.2 and 1.3.
    fileprivate func acceptsProtocol() -> Bool {
        guard let ssl else { return true }
        chosen = ALPN.chosen(in: ssl)
        switch demand {
        case .none: return true
        case .answerOnly: return false
        case .exactly(let name):
            if chosen != name { missed = name }
            return chosen == name
        }
    }

    fileprivate func note(_ store: OpaquePointer?) {
        guard rejection == nil else { return }
        rejection = Rejection(
            reason: X509_STORE_CTX_get_error(store),
            facts: X509_STORE_CTX_get_current_cert(store).map(CertificateFacts.init),
            depth: X509_STORE_CTX_get_error_depth(store))
    }
}

private func noteVerification(_ verified: Int32, _ store: OpaquePointer?) -> Int32 {
    guard let notes = HandshakeNotes.of(pushsweep_store_get_app_data(store)) else {
        return verified
    }
    if verified == 0 {
        notes.note(store)
        return verified
    }
    // Depth 0 is the peer's own certificate, the last one that is checked.
    if X509_STORE_CTX_get_error_depth(store) == 0, !notes.acceptsProtocol() {
        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION)
        return 0
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
