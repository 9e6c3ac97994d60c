import COpenSSL
import Encodings

/// The errors of OpenSSL's error queue of this thread, oldest first (ERR_get_error(3)).
package struct OpenSSLFault: Sendable {
    struct Entry: Sendable {
        let library: Int32
        let reason: Int32
        let text: String
    }

    let entries: [Entry]

    /// Removes all errors from the queue; remaining ones would appear as errors of a later call.
    package static func drain() -> OpenSSLFault {
        var entries: [Entry] = []
        while true {
            let code = ERR_get_error()
            if code == 0 {
                return OpenSSLFault(entries: entries)
            }
            let (library, reason) = (ERR_GET_LIB(code), ERR_GET_REASON(code))
            // ERR_reason_error_string has no message for an errno.
            let text =
                library == ERR_LIB_SYS
                ? TransportFailure.systemMessage(reason)
                : ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
            entries.append(Entry(library: library, reason: reason, text: text))
        }
    }

    /// The first reason of libssl, which is the cause; later entries are callers.
    var reason: Int32? {
        entries.first { $0.library == ERR_LIB_SSL }?.reason
    }

    /// The peer's alert (RFC 8446 section 6), if that is the cause.
    var alert: Int32? {
        guard let reason, reason >= SSL_AD_REASON_OFFSET, reason < SSL_AD_REASON_OFFSET + 256
        else {
            return nil
        }
        return reason - SSL_AD_REASON_OFFSET
    }

    /// Whether an algorithm is missing, like those of old PKCS#12 files without the legacy
    /// provider.
    var isUnsupportedAlgorithm: Bool {
        entries.contains { $0.text.contains("unsupported") }
    }

    /// OpenSSL's text of the first reason, in quotes; names of alerts keep their protocol prefix.
    package var text: String {
        "\"\(entries.first?.text ?? "no reason given")\""
    }
}

extension OpenSSLFault {
    /// Removes all errors from the queue, for calls whose errors are not needed.
    package static func discard() {
        ERR_clear_error()
    }
}

/// A BIO in memory (BIO_s_mem(3)), for OpenSSL's PEM and PKCS#12 functions.
package final class MemoryStream {
    /// The BIO for OpenSSL's functions; valid as long as this object.
    package let bio: OpaquePointer

    /// Makes a stream with bytes to read; nil without memory.
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

    /// The bytes that were written and not read.
    package var contents: [UInt8] {
        var start: UnsafeMutablePointer<CChar>?
        let count = pushsweep_bio_contents(bio, &start)
        guard let start, count > 0 else {
            return []
        }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}

/// A SHA-256 digest (FIPS 180-4) of bytes in several pieces, computed by libcrypto.
package final class SHA256Digest {
    private let context: OpaquePointer

    /// Makes the digest of no bytes.
    ///
    /// - Throws: where libcrypto refuses, for example under a policy without SHA-256.
    package init() throws(SigningFailure) {
        OpenSSLFault.discard()
        guard let context = EVP_MD_CTX_new() else { throw Self.failure() }
        self.context = context
        guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { throw Self.failure() }
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds bytes.
    package func update(_ bytes: [UInt8]) throws(SigningFailure) {
        guard EVP_DigestUpdate(context, bytes, bytes.count) == 1 else { throw Self.failure() }
    }

    /// Adds the bytes of a buffer.
    package func update(_ bytes: UnsafeRawBufferPointer) throws(SigningFailure) {
        guard EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1 else {
            throw Self.failure()
        }
    }

    /// The digest of all bytes so far, in lower-case hex: 64 digits. More bytes may be added.
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
