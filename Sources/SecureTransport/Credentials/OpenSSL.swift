import COpenSSL
import Encodings

/// The reasons that OpenSSL left on this thread's error queue, oldest first (ERR_get_error(3)).
package struct OpenSSLFault: Sendable {
    struct Entry: Sendable {
        let library: Int32
        let reason: Int32
        let text: String
    }

    let entries: [Entry]

    /// Empties the queue: what stays there would be taken for the reason of a later call.
    package static func drain() -> OpenSSLFault {
        var entries: [Entry] = []
        while true {
            let code = ERR_get_error()
            if code == 0 {
                return OpenSSLFault(entries: entries)
            }
            let (library, reason) = (ERR_GET_LIB(code), ERR_GET_REASON(code))
            // ERR_reason_error_string has no words for an errno.
            let text =
                library == ERR_LIB_SYS
                ? TransportFailure.systemMessage(reason)
                : ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
            entries.append(Entry(library: library, reason: reason, text: text))
        }
    }

    /// The first reason given by libssl, where the cause is; later entries only say who passed it
    /// on.
    var reason: Int32? {
        entries.first { $0.library == ERR_LIB_SSL }?.reason
    }

    /// The alert the peer sent (RFC 8446 section 6), if that is the cause.
    var alert: Int32? {
        guard let reason, reason >= SSL_AD_REASON_OFFSET, reason < SSL_AD_REASON_OFFSET + 256
        else {
            return nil
        }
        return reason - SSL_AD_REASON_OFFSET
    }

    /// Whether an algorithm was missing, as old PKCS#12 files' are without the legacy provider.
    var isUnsupportedAlgorithm: Bool {
        entries.contains { $0.text.contains("unsupported") }
    }

    /// OpenSSL's words for the first reason, in quotes; alert names keep their protocol prefix.
    package var text: String {
        "\"\(entries.first?.text ?? "no reason given")\""
    }
}

extension OpenSSLFault {
    /// Empties the queue of reasons that do not matter.
    package static func discard() {
        ERR_clear_error()
    }
}

/// A BIO in memory (BIO_s_mem(3)): what OpenSSL's PEM and PKCS#12 functions read and write.
package final class MemoryStream {
    /// The stream as OpenSSL's functions take it, valid as long as this object.
    package let bio: OpaquePointer

    /// Begins with bytes to be read; nil only when memory ran out.
    package init?(_ bytes: [UInt8] = []) {
        guard let bio = BIO_new(BIO_s_mem()) else {
            return nil
        }
        self.bio = bio
        if !bytes.isEmpty {
            guard BIO_write(bio, bytes, Int32(bytes.count)) == Int32(bytes.count) else {
                return nil
            }
        }
    }

    deinit {
        BIO_free(bio)
    }

    /// What was written and not yet read.
    package var contents: [UInt8] {
        var start: UnsafeMutablePointer<CChar>?
        let count = pushsweep_bio_contents(bio, &start)
        guard let start, count > 0 else {
            return []
        }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}

/// A SHA-256 digest (FIPS 180-4) that is taken piece by piece, by libcrypto.
package final class SHA256Digest {
    private let context: OpaquePointer

    /// Begins with nothing.
    ///
    /// - Throws: where libcrypto refuses, as under a policy without SHA-256.
    package init() throws(SigningFailure) {
        OpenSSLFault.discard()
        guard let context = EVP_MD_CTX_new() else { throw Self.failure() }
        self.context = context
        guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { throw Self.failure() }
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Takes the next bytes.
    package func update(_ bytes: [UInt8]) throws(SigningFailure) {
        guard EVP_DigestUpdate(context, bytes, bytes.count) == 1 else { throw Self.failure() }
    }

    /// The digest of all bytes so far, in lower-case hex: 64 digits. More may follow.
    package func hex() throws(SigningFailure) -> String {
        guard let copy = EVP_MD_CTX_new() else { throw Self.failure() }
        defer { EVP_MD_CTX_free(copy) }
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        guard EVP_MD_CTX_copy_ex(copy, context) == 1,
            EVP_DigestFinal_ex(copy, &digest, &length) == 1
        else { throw Self.failure() }
        return Hex.text(digest)
    }

    private static func failure() -> SigningFailure {
        SigningFailure(description: "taking a SHA-256 digest: \(OpenSSLFault.drain().text)")
    }
}
