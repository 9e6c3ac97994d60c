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
            if code == 0 { return OpenSSLFault(entries: entries) }
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
    var reason: Int32? { entries.first { $0.library == ERR_LIB_SSL }?.reason }

    /// The peer's alert (RFC 8446 section 6), if that is the cause.
    var alert: Int32? {
        guard let reason, reason >= SSL_AD_REASON_OFFSET, reason < SSL_AD_REASON_OFFSET + 256
        else { return nil }
        return reason - SSL_AD_REASON_OFFSET
    }

    /// Whether an algorithm is missing, like those of old PKCS#12 files without the legacy
    /// provider.
    var isUnsupportedAlgorithm: Bool { entries.contains { $0.text.contains("unsupported") } }

    /// OpenSSL's text of the first reason, in quotes; names of alerts keep their protocol prefix.
    package var text: String { "\"\(entries.first?.text ?? "no reason given")\"" }

    /// Removes all errors from the queue, for calls whose errors are not needed.
    package static func discard() { ERR_clear_error() }
}

extension TransportFailure {
    /// A failure with OpenSSL's reasons, which are removed from its queue.
    package static func openSSL(
        _ action: String, _ code: Code = .credentialsUnusable, advice: String = ""
    ) -> TransportFailure {
        TransportFailure(code, "\(action): \(OpenSSLFault.drain().text)\(advice)")
    }
}

/// A BIO in memory (BIO_s_mem(3)), for OpenSSL's PEM and PKCS#12 functions.
package final class MemoryStream {
    /// The BIO for OpenSSL's functions; valid as long as this object.
    package let bio: OpaquePointer

    /// Makes a stream with bytes to read; nil without memory.
    package init?(_ bytes: [UInt8] = []) {
        guard let bio = BIO_new(BIO_s_mem()) else { return nil }
        self.bio = bio
        let count = Int32(bytes.count)
        guard count == 0 || BIO_write(bio, bytes, count) == count else { return nil }
    }

    deinit { BIO_free(bio) }

    /// The bytes that were written and not read.
    package var contents: [UInt8] {
        var start: UnsafeMutablePointer<CChar>?
        let count = pushsweep_bio_contents(bio, &start)
        guard let start, count > 0 else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}

/// A SHA-256 digest (FIPS 180-4) of bytes in several pieces, computed by libcrypto.
package final class SHA256Digest {
    private let context: OpaquePointer

    /// Makes the digest of no bytes.
    ///
    /// - Throws: where libcrypto refuses, for example under a policy without SHA-256.
    package init() throws(TransportFailure) {
        OpenSSLFault.discard()
        guard let context = EVP_MD_CTX_new() else { throw Self.failure() }
        self.context = context
        guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { throw Self.failure() }
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds bytes.
    package func update(_ bytes: [UInt8]) throws(TransportFailure) {
        guard EVP_DigestUpdate(context, bytes, bytes.count) == 1 else { throw Self.failure() }
    }

    /// Adds the bytes of a buffer.
    package func update(_ bytes: UnsafeRawBufferPointer) throws(TransportFailure) {
        guard EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1 else {
            throw Self.failure()
        }
    }

    /// Another digest of the same bytes, to which others may be added.
    package func copy() throws(TransportFailure) -> SHA256Digest {
        let copy = try SHA256Digest()
        guard EVP_MD_CTX_copy_ex(copy.context, context) == 1 else { throw Self.failure() }
        return copy
    }

    /// The digest of all bytes so far, in lower-case hex: 64 digits. More bytes may be added.
    package func hex() throws(TransportFailure) -> String {
        let copy = try copy()
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        guard EVP_DigestFinal_ex(copy.context, &digest, &length) == 1 else {
            throw Self.failure()
        }
        return Hex.text(digest)
    }

    private static func failure() -> TransportFailure {
        TransportFailure.openSSL("taking a SHA-256 digest", .io)
    }
}

// ES256: ECDSA on P-256 over SHA-256, as provider tokens are signed (RFC 7518 section 3.4).
//
// libcrypto uses DER, a sequence of two integers of varying length. A JWT has the same two integers
// as 32 bytes each, big-endian, r before s. APNs refuses a token with the wrong form, so both
// conversions are here and in no other place.

/// A private key on the curve P-256, as in Apple's `.p8` files (PKCS#8 in PEM).
package final class SigningKey: Sendable {
    // Safe: an EVP_PKEY does not change after this init, and each use has its own context
    // (openssl-threads(7)).
    /// The key for libcrypto's functions; valid as long as this object.
    package nonisolated(unsafe) let key: OpaquePointer

    /// Loads the key from a file that only its owner can read.
    package init(file path: String) throws(IdentityFailure) {
        let file = try CredentialFile.read(path)
        try file.requirePrivate()
        key = try PEMPrivateKey(file: file, passphrase: nil).load()
        guard EllipticKey.isOnP256(key) else {
            // All properties are set, so the deinit frees the key.
            throw IdentityFailure(
                "reading \(path): the key in it is not one of the curve P-256; use the .p8 file "
                    + "that Apple gave for this key id")
        }
    }

    /// Takes ownership of one reference to an EVP_PKEY on P-256.
    package init(adopting key: OpaquePointer) { self.key = key }

    deinit { EVP_PKEY_free(key) }

    /// The signature of a message: 64 bytes, r then s (RFC 7518 section 3.4).
    package func signature(of message: [UInt8]) throws(TransportFailure) -> [UInt8] {
        OpenSSLFault.discard()
        guard let context = EVP_MD_CTX_new() else { throw Self.failure() }
        defer { EVP_MD_CTX_free(context) }
        // DER for P-256 has at most 72 bytes.
        var encoded = [UInt8](repeating: 0, count: 128)
        var length = encoded.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &encoded, &length, message, message.count) == 1,
            let signature = EllipticKey.raw(encoded[..<length])
        else { throw Self.failure() }
        return signature
    }

    private static func failure() -> TransportFailure {
        TransportFailure.openSSL("signing with the provider token's key", .io)
    }
}

/// Keys and signatures on the curve P-256.
package enum EllipticKey {
    /// Whether an EVP_PKEY is on the curve P-256.
    package static func isOnP256(_ key: OpaquePointer) -> Bool {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else {
            OpenSSLFault.discard()
            return false
        }
        let text = String(decoding: name.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
        // The names of this curve in X9.62 and in FIPS 186.
        return text == "prime256v1" || text == "P-256"
    }

    /// The number of bytes of r, and of s.
    private static let half = 32

    /// r and s from DER (RFC 3279 section 2.2.3); nil for other bytes.
    static func raw(_ encoded: ArraySlice<UInt8>) -> [UInt8]? {
        let parsed = encoded.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &position, bytes.count)
        }
        guard let parsed else { return nil }
        defer { ECDSA_SIG_free(parsed) }
        var raw = [UInt8](repeating: 0, count: 2 * half)
        let written = raw.withUnsafeMutableBufferPointer { bytes -> Bool in
            guard let start = bytes.baseAddress else { return false }
            let width = Int32(half)
            return BN_bn2binpad(ECDSA_SIG_get0_r(parsed), start, width) == width
                && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), start + half, width) == width
        }
        return written ? raw : nil
    }

    /// DER from r and s; nil for a number of bytes other than 64.
    package static func encoded(_ raw: [UInt8]) -> [UInt8]? {
        guard raw.count == 2 * half, let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let r = BN_bin2bn(raw, Int32(half), nil)
        let s = Array(raw[half...]).withUnsafeBufferPointer {
            BN_bin2bn($0.baseAddress, Int32(half), nil)
        }
        guard let r, let s, ECDSA_SIG_set0(signature, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        let length = i2d_ECDSA_SIG(signature, &bytes)
        guard length > 0, let bytes else { return nil }
        defer { CRYPTO_free(bytes, #file, #line) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(length)))
    }
}
