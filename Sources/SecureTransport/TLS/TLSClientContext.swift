import COpenSSL
import Glibc

/// The TLS settings of all connections of one client: trusted authorities, identity and protocols.
///
/// TLS 1.2 is the lowest version, because APNs requires it and RFC 8996 deprecates older ones. Peer
/// verification cannot be disabled.
package final class TLSClientContext: Sendable {
    /// The authorities that are trusted for gateways.
    package enum Trust: Sendable {
        /// Those of the system (Debian: /etc/ssl/certs; SSL_CTX_set_default_verify_paths(3)).
        case system
        /// Only the PEM certificates in this file, roots or not.
        case file(String)
    }

    /// The version of the loaded OpenSSL.
    package static var libraryVersion: String {
        OpenSSL_version(OPENSSL_VERSION_STRING).map { String(cString: $0) } ?? "unknown"
    }

    // Safe: an SSL_CTX does not change after this init, and SSL_new counts references atomically
    // (openssl-threads(7)).
    nonisolated(unsafe) let pointer: OpaquePointer
    /// The name of the client certificate in messages; nil without one.
    let identityName: String?

    /// Makes the context of a client. `alpn` lists protocols in order of preference (RFC 7301),
    /// none by default. Throws `credentialsUnusable` for a trust file or identity that OpenSSL
    /// refuses.
    package init(
        trust: Trust, identity: TLSIdentity? = nil, alpn: [String] = []
    ) throws(TransportFailure) {
        ignoreBrokenPipes()
        pointer = try TLSContext.make(TLS_client_method())
        identityName = identity.map { $0.commonName ?? $0.subject }
        // From here on a throw runs deinit, which frees the context.
        guard pushsweep_ctx_set_min_version(pointer, TLS1_2_VERSION) == 1 else {
            throw TLSContext.failure("allowing TLS 1.2 and later")
        }
        try install(trust)
        try TLSContext.install(identity, in: pointer)
        let protocols = try ALPN.wireForm(alpn)
        // This one function of OpenSSL returns 0 for success.
        if !protocols.isEmpty,
            SSL_CTX_set_alpn_protos(pointer, protocols, UInt32(protocols.count)) != 0
        {
            throw TLSContext.failure("offering application protocols")
        }
    }

    deinit {
        SSL_CTX_free(pointer)
    }

    private func install(_ trust: Trust) throws(TransportFailure) {
        switch trust {
        case .system:
            guard SSL_CTX_set_default_verify_paths(pointer) == 1 else {
                throw TLSContext.failure("finding the system's certificate authorities")
            }
        case .file(let path):
            // OpenSSL would wait for a writer of a pipe.
            if (try? GuardedFile.ensureRegular(path)) == nil, access(path, F_OK) == 0 {
                throw TransportFailure(
                    .credentialsUnusable,
                    "loading certificate authorities from \(path): it is not a regular file; give the "
                        + "file itself")
            }
            guard SSL_CTX_load_verify_file(pointer, path) == 1 else {
                throw TLSContext.failure(
                    "loading certificate authorities from \(path)",
                    advice: "; check that the file exists and holds PEM certificates")
            }
            // An intermediate authority in the file is trusted too.
            X509_VERIFY_PARAM_set_flags(
                SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
        }
    }
}

/// The common part of client and server contexts.
package enum TLSContext {
    /// The number of bytes of one read from the socket, several records at a time. Sizes from 16 to
    /// 512 KiB made no measurable difference for a feed.
    static let readBufferSize = 64 * 1024

    /// Makes a context for a method such as TLS_client_method, with the options of both sides.
    /// Throws `credentialsUnusable`.
    package static func make(_ method: OpaquePointer?) throws(TransportFailure) -> OpaquePointer {
        OpenSSLFault.discard()
        guard let context = SSL_CTX_new(method) else {
            throw failure("preparing TLS")
        }
        pushsweep_ctx_allow_partial_writes(context)
        pushsweep_ctx_read_ahead(context, readBufferSize)
        pushsweep_ctx_forget_sessions(context)
        pushsweep_ctx_refuse_renegotiation(context)
        return context
    }

    /// Makes a context use an identity, if there is one. Throws `credentialsUnusable`.
    package static func install(
        _ identity: TLSIdentity?, in context: OpaquePointer
    ) throws(TransportFailure) {
        if let identity, !identity.material.install(in: context) {
            throw failure(
                "using the certificate \(identity.subject)",
                advice: "; it may be too weak for this system's OpenSSL: issue a new one")
        }
    }

    /// A failure `credentialsUnusable` with OpenSSL's reasons, which are removed from its queue.
    package static func failure(_ action: String, advice: String = "") -> TransportFailure {
        TransportFailure(
            .credentialsUnusable, "\(action): \(OpenSSLFault.drain().text)\(advice)")
    }
}

/// Application-Layer Protocol Negotiation, RFC 7301.
package enum ALPN {
    /// The names, each after its length in one byte. Throws `credentialsUnusable` for a name of 0
    /// bytes or of more than 255.
    package static func wireForm(_ names: [String]) throws(TransportFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        for name in names {
            guard (1...255).contains(name.utf8.count) else {
                throw TransportFailure(
                    .credentialsUnusable,
                    "offering application protocols: a name must have 1 to 255 bytes")
            }
            bytes.append(UInt8(name.utf8.count))
            bytes += name.utf8
        }
        return bytes
    }

    /// The protocol that the server chose on a connection; nil without one.
    static func chosen(in ssl: OpaquePointer) -> String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        guard let name, length > 0 else { return nil }
        return String(
            decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }
}
