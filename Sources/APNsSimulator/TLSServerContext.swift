import COpenSSL
import SecureTransport

/// The TLS settings of all connections of one server, for the simulator and tests. It can offer
/// versions and certificates that a client must refuse.
package final class TLSServerContext: Sendable {
    /// Protocol versions by their usual names, oldest first.
    package enum Version: String, Sendable, Comparable, CaseIterable {
        /// Deprecated by RFC 8996; offered only to test its refusal.
        case tls11 = "1.1"
        /// RFC 5246.
        case tls12 = "1.2"
        /// RFC 8446.
        case tls13 = "1.3"

        /// OpenSSL's number.
        fileprivate var number: Int32 {
            switch self {
            case .tls11: 0x0302
            case .tls12: 0x0303
            case .tls13: 0x0304
            }
        }

        /// Whether one version is older.
        package static func < (left: Version, right: Version) -> Bool {
            left.number < right.number
        }
    }

    /// The treatment of client certificates.
    package enum ClientCertificates: Sendable {
        /// The server requests none.
        case notAsked
        /// The server requires one of an authority in this PEM file.
        case required(authorities: String)
        /// The server requires one and refuses each with an alert: before the end of the handshake
        /// under TLS 1.2, on the client's first read under TLS 1.3.
        case refused(authorities: String)
    }

    // Safe: an SSL_CTX does not change after this init, and SSL_new counts references atomically
    // (openssl-threads(7)).
    nonisolated(unsafe) let pointer: OpaquePointer
    let verifying: PeerVerification
    private let protocols: ProtocolChoice

    /// Makes the context of a server with `identity`. `alpn` lists protocols in order of the
    /// server's preference; a connection with a client that offers none of them has no protocol.
    /// Throws `credentialsUnusable`.
    package init(
        identity: TLSIdentity, clients: ClientCertificates,
        versions: ClosedRange<Version> = .tls12 ... .tls13, alpn: [String] = []
    ) throws(TransportFailure) {
        ignoreBrokenPipes()
        verifying =
            switch clients {
            case .notAsked: .notRequested
            case .required: .required
            case .refused: .refused
            }
        protocols = ProtocolChoice(ALPN.wireForm(alpn))
        pointer = try TLSContext.make(TLS_server_method())
        // From here on a throw runs deinit, which frees the context.
        if versions.lowerBound < .tls12 {
            // TLS 1.1 signs with SHA-1, which needs the lowest level
            // (SSL_CTX_set_security_level(3)).
            SSL_CTX_set_security_level(pointer, 0)
        }
        guard
            pushsweep_ctx_set_min_version(pointer, versions.lowerBound.number) == 1,
            pushsweep_ctx_set_max_version(pointer, versions.upperBound.number) == 1
        else {
            throw TransportFailure.openSSL("choosing TLS versions")
        }
        try TLSContext.install(identity, in: pointer)
        switch clients {
        case .notAsked:
            break
        case .required(let path), .refused(let path):
            guard SSL_CTX_load_verify_file(pointer, path) == 1,
                let names = SSL_load_client_CA_file(path)
            else {
                throw TransportFailure.openSSL(
                    "loading certificate authorities from \(path)",
                    advice: "; check that the file exists and holds PEM certificates")
            }
            // Sent to clients, which may select their certificate by it.
            SSL_CTX_set_client_CA_list(pointer, names)
        }
        if !alpn.isEmpty {
            SSL_CTX_set_alpn_select_cb(
                pointer, chooseProtocol, Unmanaged.passUnretained(protocols).toOpaque())
        }
    }

    deinit {
        SSL_CTX_free(pointer)
    }

}

/// The server's list for ALPN, at a fixed address for OpenSSL's callback.
private final class ProtocolChoice: Sendable {
    let count: Int
    // Safe: written once, in this init, before any other access.
    nonisolated(unsafe) let bytes: UnsafeMutablePointer<UInt8>

    init(_ wireForm: [UInt8]) {
        count = wireForm.count
        bytes = .allocate(capacity: max(count, 1))
        bytes.initialize(from: wireForm, count: count)
    }

    deinit {
        bytes.deallocate()
    }
}

private func chooseProtocol(
    _: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenLength: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?,
    _ offeredLength: UInt32, _ opaque: UnsafeMutableRawPointer?
) -> Int32 {
    guard let opaque else {
        return SSL_TLSEXT_ERR_NOACK
    }
    let choice = Unmanaged<ProtocolChoice>.fromOpaque(opaque).takeUnretainedValue()
    var name: UnsafeMutablePointer<UInt8>?
    let result = SSL_select_next_proto(
        &name, chosenLength, choice.bytes, UInt32(choice.count), offered, offeredLength)
    guard result == OPENSSL_NPN_NEGOTIATED else {
        return SSL_TLSEXT_ERR_NOACK
    }
    chosen?.pointee = UnsafePointer(name)
    return SSL_TLSEXT_ERR_OK
}
