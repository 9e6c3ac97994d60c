import COpenSSL
import Encodings

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
