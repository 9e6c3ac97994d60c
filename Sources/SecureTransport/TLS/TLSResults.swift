import COpenSSL
import Encodings
import Glibc

/// The end of the receiving side of a connection.
package enum ConnectionEnd: Sendable, Equatable {
    /// The peer sent close_notify: no bytes are missing (RFC 8446 section 6.1).
    case closeNotify
    /// The stream ended without close_notify: bytes may be missing.
    case cut
    /// The connection was reset: bytes may be missing.
    case reset

    /// The code of a failure because of this end.
    fileprivate var code: TransportFailure.Code { self == .reset ? .reset : .closedEarly }
}

/// The result of a read.
package enum ReadOutcome: Sendable, Equatable {
    /// The number of bytes, at least one, at the start of the caller's buffer.
    case bytes(Int)
    /// No more bytes follow; every later read returns the same.
    case end(ConnectionEnd)
    /// No byte arrived by the deadline. The connection stays usable.
    case timedOut
    /// The interrupt was tripped while waiting. The connection stays usable.
    case interrupted
}

/// The result of one call of OpenSSL.
enum TLSAttempt {
    /// It succeeded.
    case done
    /// The same call has to be repeated when the socket is ready for this.
    case wait(Poll.Direction)
    /// The peer sends no more bytes.
    case ended(ConnectionEnd)
    /// The connection is broken.
    case failed(Fault)

    /// The reason of a failed call: OpenSSL's reasons, or an errno.
    struct Fault {
        let reasons: OpenSSLFault
        let systemError: Int32
    }

    /// Makes one call. The error queue and errno are per thread and belong to the last call
    /// (SSL_get_error(3)), so they are cleared before it and read directly after it.
    init(_ ssl: OpaquePointer, _ call: (OpaquePointer) -> Int32) {
        ERR_clear_error()
        errno = 0
        let result = call(ssl)
        let systemError = errno
        self =
            result > 0
            ? .done : Self.unfinished(SSL_get_error(ssl, result), systemError: systemError)
    }

    private static func unfinished(_ kind: Int32, systemError: Int32) -> TLSAttempt {
        switch kind {
        case SSL_ERROR_WANT_READ: return .wait(.reading)
        case SSL_ERROR_WANT_WRITE: return .wait(.writing)
        case SSL_ERROR_ZERO_RETURN: return .ended(.closeNotify)
        case SSL_ERROR_SYSCALL where systemError == ECONNRESET || systemError == EPIPE:
            return .ended(.reset)
        case SSL_ERROR_SYSCALL where systemError == 0: return .ended(.cut)
        default:
            let reasons = OpenSSLFault.drain()
            if reasons.reason == SSL_R_UNEXPECTED_EOF_WHILE_READING { return .ended(.cut) }
            return .failed(Fault(reasons: reasons, systemError: systemError))
        }
    }
}

// The one place that turns OpenSSL's reasons into a code and a sentence. Reasons are libssl's
// SSL_R_... numbers. A peer's alert is such a number too: 1000 plus the alert (RFC 8446 section
// 6.2).

extension TLSConnection {
    /// The failure of a call after `close`.
    var closedByUs: TransportFailure {
        TransportFailure(.io, "using the connection to \(peer): it was closed on this side")
    }

    func handshakeEnded(_ end: ConnectionEnd) -> TransportFailure {
        let event = end == .reset ? "reset" : "closed"
        return TransportFailure(
            end.code,
            "TLS handshake with \(peer): the peer \(event) the connection; check the port and "
                + "whether the peer admits this host")
    }

    func writeEnded(_ end: ConnectionEnd) -> TransportFailure {
        let event = end == .reset ? "closed or reset" : "closed"
        return TransportFailure(
            end.code, "writing to \(peer): the peer has \(event) the connection; connect again")
    }

    func handshakeFailure(_ fault: TLSAttempt.Fault) -> TransportFailure {
        let action = "TLS handshake with \(peer)"
        if let rejection = notes.rejection { return rejected(rejection) }
        if let missed = notes.missed { return wrongProtocol(action, missed) }
        if let alert = fault.reasons.alert { return alerted(alert, fault, action) }
        switch fault.reasons.reason {
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
            return TransportFailure(
                .clientCertificateRefused, "\(action): the client sent no certificate")
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_WRONG_SSL_VERSION,
            SSL_R_NO_PROTOCOLS_AVAILABLE:
            return versionFailure(action)
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST,
            SSL_R_PACKET_LENGTH_TOO_LONG, SSL_R_BAD_RECORD_TYPE, SSL_R_RECORD_LENGTH_MISMATCH,
            SSL_R_ENCRYPTED_LENGTH_TOO_LONG, SSL_R_DATA_LENGTH_TOO_LONG:
            return TransportFailure(
                .notTLS,
                "\(action): the peer does not speak TLS; check the port, and that no proxy "
                    + "answers in its place")
        default:
            return other(action, fault)
        }
    }

    func readFailure(_ fault: TLSAttempt.Fault) -> TransportFailure {
        let action = "talking to \(peer)"
        if let alert = fault.reasons.alert { return alerted(alert, fault, action) }
        return other(action, fault)
    }

    private func other(_ action: String, _ fault: TLSAttempt.Fault) -> TransportFailure {
        if fault.reasons.entries.isEmpty, fault.systemError != 0 {
            return .system(action, fault.systemError)
        }
        return TransportFailure(
            .protocolError,
            "\(action): broken TLS: \(fault.reasons.text); ask the owner of the peer")
    }

    private func versionFailure(_ action: String) -> TransportFailure {
        TransportFailure(
            .protocolVersion,
            "\(action): no common TLS version, and below 1.2 is refused; the peer must be updated")
    }

    /// The peer speaks TLS, but not the protocol that this side needs.
    private func wrongProtocol(_ action: String, _ name: String) -> TransportFailure {
        let chosen = notes.chosen.map { "chose \($0.debugDescription)" } ?? "did not agree on it"
        return TransportFailure(
            .wrongProtocol,
            "\(action): \(name) was offered and the server \(chosen), so it does not speak "
                + "\(name); check the host and the port, and that no proxy answers in its place")
    }

    private func alerted(
        _ alert: Int32, _ fault: TLSAttempt.Fault, _ action: String
    ) -> TransportFailure {
        switch alert {
        case SSL_AD_PROTOCOL_VERSION:
            return versionFailure(action)
        case SSL_AD_NO_APPLICATION_PROTOCOL:
            if case .exactly(let name) = notes.demand { return wrongProtocol(action, name) }
            return TransportFailure(
                .wrongProtocol,
                "\(action): the server speaks none of the protocols offered; check the port")
        case SSL_AD_BAD_CERTIFICATE, SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
            SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_UNKNOWN_CA,
            SSL_AD_ACCESS_DENIED, SSL_AD_CERTIFICATE_REQUIRED:
            return certificateRefused(fault, action)
        // Under TLS 1.2 a server may say no more than this when it misses or dislikes one.
        case SSL_AD_HANDSHAKE_FAILURE where notes.certificateWasRequested && isClient:
            return certificateRefused(fault, action)
        default:
            return TransportFailure(
                .protocolError,
                "\(action): the peer sent the alert \(fault.reasons.text); ask its owner")
        }
    }

    private func certificateRefused(
        _ fault: TLSAttempt.Fault, _ action: String
    ) -> TransportFailure {
        guard isClient else {
            return TransportFailure(
                .certificateUntrusted,
                "\(action): the client refused our certificate with \(fault.reasons.text)")
        }
        guard let identityName else {
            return TransportFailure(
                .clientCertificateRefused,
                "\(action): the peer asks for a client certificate and none is given "
                    + "(\(fault.reasons.text)); name one in the settings")
        }
        return TransportFailure(
            .clientCertificateRefused,
            "\(action): the peer refused our certificate \(identityName) with "
                + "\(fault.reasons.text); check that it is for this app and environment, and "
                + "neither expired nor revoked")
    }

    private func rejected(_ rejection: HandshakeNotes.Rejection) -> TransportFailure {
        let action = "checking the certificate of \(peer)"
        let which =
            rejection.depth == 0 ? "it" : "its authority \(rejection.facts?.subject ?? "")"
        switch rejection.reason {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            let time = RFC3339.text(rejection.facts?.notAfter ?? 0)
            return TransportFailure(
                .certificateExpired,
                "\(action): \(which) expired at \(time); its owner must renew it, unless this "
                    + "host's clock is wrong")
        case X509_V_ERR_CERT_NOT_YET_VALID:
            let time = RFC3339.text(rejection.facts?.notBefore ?? 0)
            return TransportFailure(
                .certificateNotYetValid,
                "\(action): \(which) is valid only from \(time); check this host's clock")
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return TransportFailure(
                .hostNameMismatch,
                "\(action): it is for \(rejection.facts?.subject ?? "another host"), not for this "
                    + "host; check the host name in the settings")
        default:
            return TransportFailure(
                .certificateUntrusted,
                "\(action): \(which) is not trusted (\(rejection.text)); check the authorities "
                    + "file in the settings")
        }
    }
}
