import COpenSSL

// ES256: ECDSA on P-256 over SHA-256, as provider tokens are signed (RFC 7518 section 3.4).
//
// libcrypto speaks DER, a sequence of two integers of varying length; a JWT carries the same two
// integers as 32 bytes each, big-endian, r before s. The difference is small enough to be
// overlooked and large enough that APNs refuses every token, so the conversion is made here, in
// both directions, and nowhere else.

/// Why something could not be signed: libcrypto refused, which it does only when memory or random
/// numbers run out.
package struct SigningFailure: Error, Sendable, CustomStringConvertible {
    /// One line: what was done, what happened.
    package let description: String
}

/// A private key on the curve P-256, as Apple hands it out in a `.p8` file (PKCS#8 in PEM).
package final class SigningKey: Sendable {
    /// Bytes of a signature: r and s, 32 each.
    package static let signatureLength = 64

    // Unsafe only to the compiler: an EVP_PKEY is not changed after this init, and each use has a
    // context of its own (openssl-threads(7)).
    /// The key as libcrypto's functions take it, valid as long as this object.
    package nonisolated(unsafe) let key: OpaquePointer

    /// Loads the key of a file that nobody but its owner may read. Throws `missing`, `unreadable`,
    /// `readableByOthers`, `malformed` (also for a key of another kind), `passphraseNeeded`.
    package init(file path: String) throws(IdentityFailure) {
        let file = try CredentialFile.read(path)
        try file.requirePrivate()
        key = try PEMPrivateKey(file: file, passphrase: nil).load()
        guard EllipticKey.isOnP256(key) else {
            // The deinit frees the key: every property is set.
            throw IdentityFailure(
                .malformed,
                "reading \(path): the key in it is not one of the curve P-256; use the .p8 file "
                    + "that Apple gave for this key id")
        }
    }

    /// Takes over one reference to an EVP_PKEY on P-256.
    package init(adopting key: OpaquePointer) { self.key = key }

    deinit {
        EVP_PKEY_free(key)
    }

    /// The signature of a message: 64 bytes, r then s (RFC 7518 section 3.4).
    package func signature(of message: [UInt8]) throws(SigningFailure) -> [UInt8] {
        OpenSSLFault.discard()
        guard let context = EVP_MD_CTX_new() else {
            throw Self.failure()
        }
        defer { EVP_MD_CTX_free(context) }
        // Debian's libcrypto makes at most 72 bytes of DER for P-256.
        var encoded = [UInt8](repeating: 0, count: 128)
        var length = encoded.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &encoded, &length, message, message.count) == 1,
            let signature = EllipticSignature.raw(encoded[..<length])
        else {
            throw Self.failure()
        }
        return signature
    }

    private static func failure() -> SigningFailure {
        SigningFailure(
            description: "signing with the provider token's key: \(OpenSSLFault.drain().text)")
    }
}
