import COpenSSL
import SecureTransport

/// The public half of a `SigningKey`.
package final class VerificationKey: Sendable {
    // Safe for the same reason as in SigningKey.
    nonisolated(unsafe) private let key: OpaquePointer

    /// Takes ownership of one reference.
    private init(adopting key: OpaquePointer) {
        self.key = key
    }

    /// The public half of a key.
    fileprivate convenience init(sharing key: SigningKey) {
        EVP_PKEY_up_ref(key.key)
        self.init(adopting: key.key)
    }

    /// Loads a public key (SubjectPublicKeyInfo in PEM, RFC 7468 section 13) or the public half of
    /// a private one. Throws `missing`, `unreadable`, `malformed`, and for a private key what
    /// `SigningKey` throws.
    package convenience init(file path: String) throws(IdentityFailure) {
        let file = try CredentialFile.read(path)
        if file.contains(PEMPrivateKey.boundary) {
            try self.init(sharing: SigningKey(file: path))
            return
        }
        guard let stream = MemoryStream(file.bytes),
            let key = PEM_read_bio_PUBKEY(stream.bio, nil, nil, nil)
        else {
            throw IdentityFailure(
                .malformed,
                "reading \(path): no public key in it: \(OpenSSLFault.drain().text)")
        }
        self.init(adopting: key)
        guard EllipticKey.isOnP256(key) else {
            throw IdentityFailure(
                .malformed, "reading \(path): the key in it is not one of the curve P-256")
        }
    }

    deinit {
        EVP_PKEY_free(key)
    }

    /// Whether the 64 bytes are a signature of the message by this key. False for any other number
    /// of bytes.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard let encoded = EllipticSignature.encoded(signature), let context = EVP_MD_CTX_new()
        else {
            return false
        }
        defer {
            EVP_MD_CTX_free(context)
            OpenSSLFault.discard()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, encoded, encoded.count, message, message.count) == 1
    }
}

extension SigningKey {
    /// Makes a new key, without a file. Throws `MintFailure`.
    package convenience init() throws(MintFailure) {
        guard let made = pushsweep_generate_p256_key() else {
            throw MintFailure.openSSL("making a signing key")
        }
        self.init(adopting: made)
    }

    /// The public key, to check signatures of this key.
    package var verificationKey: VerificationKey { VerificationKey(sharing: self) }

    /// The key in the form of a `.p8` file (PKCS#8 in PEM, not encrypted). Throws `MintFailure`.
    package func pem() throws(MintFailure) -> [UInt8] {
        guard let stream = MemoryStream(),
            PEM_write_bio_PKCS8PrivateKey(stream.bio, key, nil, nil, 0, nil, nil) == 1
        else {
            throw MintFailure.openSSL("writing a signing key")
        }
        return stream.contents
    }
}
