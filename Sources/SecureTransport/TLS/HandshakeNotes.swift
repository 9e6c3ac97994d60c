import COpenSSL

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
