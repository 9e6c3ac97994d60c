import COpenSSL
import Encodings

// Our side of mutual TLS: a certificate, its chain and its private key.
//
// Apple hands out a certificate, the Keychain exports it with its key as PKCS#12, and most senders
// convert that to PEM, in one file or two. So the form is found from the content, not the name:
// bytes with a PEM boundary are PEM, all else is tried as PKCS#12.
//
// Files that hold a secret must be private to this user or root, as GuardedFile says; a certificate alone is
// public. The check is made on the descriptor that is then read.

/// A certificate with its private key, ready for a context.
package struct TLSIdentity: Sendable {
    /// Where an identity is stored.
    package enum Source: Sendable {
        /// PEM (RFC 7468): the certificate with its chain in any order, the key in the same file
        /// when `key` is nil.
        case pem(certificate: String, key: String?, passphrase: String?)
        /// PKCS#12 (RFC 7292), as Apple's Keychain exports it.
        case pkcs12(String, passphrase: String?)
    }

    /// What the certificate says.
    package let facts: CertificateFacts
    /// The objects behind it.
    package let material: IdentityMaterial

    /// An identity of objects that were loaded or made elsewhere.
    package init(_ material: IdentityMaterial) {
        self.material = material
        facts = CertificateFacts(material.certificate)
    }

    /// Loads from a known form. Throws every code but `expired` and `notYetValid`.
    package init(_ source: Source) throws(IdentityFailure) {
        switch source {
        case .pem(let certificate, let key, let passphrase):
            let file = try CredentialFile.read(certificate)
            let keyFile: CredentialFile? =
                if let key { try CredentialFile.read(key) } else { nil }
            self = try PEMIdentity(certificate: file, key: keyFile, passphrase: passphrase).load()
        case .pkcs12(let path, let passphrase):
            let file = try CredentialFile.read(path)
            self = try PKCS12Identity(file: file, passphrase: passphrase).load()
        }
    }

    /// Loads what the settings name, finding the form from the content.
    ///
    /// `key` is the PEM key's file when it is not in `file`; `passphraseFile` holds the passphrase
    /// in its first line and must be private too. Throws every code but `expired` and
    /// `notYetValid`.
    package static func load(
        file: String, key: String? = nil, passphraseFile: String? = nil
    ) throws(IdentityFailure) -> TLSIdentity {
        var passphrase: String?
        if let passphraseFile {
            let secret = try CredentialFile.read(passphraseFile)
            try secret.requirePrivate()
            passphrase = secret.firstLine
        }
        let content = try CredentialFile.read(file)
        if content.contains("-----BEGIN ") {
            let keyFile: CredentialFile? =
                if let key { try CredentialFile.read(key) } else { nil }
            return try PEMIdentity(certificate: content, key: keyFile, passphrase: passphrase)
                .load()
        }
        guard key == nil else {
            throw IdentityFailure(
                .malformed,
                "reading \(file): no PEM certificate in it; a separate key goes with PEM only, "
                    + "a .p12 brings its own")
        }
        return try PKCS12Identity(file: content, passphrase: passphrase).load()
    }

    /// The whole subject (RFC 2253).
    package var subject: String { facts.subject }
    /// The common name, for Apple `Apple Push Services: ` and the bundle id.
    package var commonName: String? { facts.commonName }
    /// The issuer (RFC 2253).
    package var issuer: String { facts.issuer }
    /// Start of validity, Unix seconds.
    package var notBefore: Int64 { facts.notBefore }
    /// End of validity, Unix seconds.
    package var notAfter: Int64 { facts.notAfter }
    /// SHA-256 of the certificate, 64 lower-case hex digits.
    package var fingerprint: String { facts.fingerprint }

    /// Checks the certificate's time against `time` in Unix seconds; a peer would refuse it less
    /// clearly. Throws `expired` or `notYetValid`.
    package func checkValidity(at time: Int64) throws(IdentityFailure) {
        if time > notAfter {
            throw IdentityFailure(
                .expired,
                "checking our certificate \(subject): it expired at \(RFC3339.text(notAfter)); "
                    + "renew it")
        }
        if time < notBefore {
            throw IdentityFailure(
                .notYetValid,
                "checking our certificate \(subject): it is valid only from "
                    + "\(RFC3339.text(notBefore)); check this host's clock")
        }
    }
}

/// OpenSSL's objects of an identity, freed with the last user.
package final class IdentityMaterial: Sendable {
    // Unsafe only to the compiler: X509 and EVP_PKEY are not changed after this init, and OpenSSL
    // counts their references atomically (X509_up_ref(3), EVP_PKEY_up_ref(3)).
    /// The certificate, an X509.
    package nonisolated(unsafe) let certificate: OpaquePointer
    /// Its private key, an EVP_PKEY.
    package nonisolated(unsafe) let key: OpaquePointer
    nonisolated(unsafe) let chain: [OpaquePointer]

    /// Takes over one reference of each.
    package init(certificate: OpaquePointer, key: OpaquePointer, chain: [OpaquePointer]) {
        self.certificate = certificate
        self.key = key
        self.chain = chain
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
        chain.forEach(X509_free)
    }

    /// Makes a context present this identity. False with the reasons on the error queue.
    func install(in context: OpaquePointer) -> Bool {
        guard SSL_CTX_use_certificate(context, certificate) == 1,
            SSL_CTX_use_PrivateKey(context, key) == 1
        else {
            return false
        }
        return chain.allSatisfy { pushsweep_ctx_add_chain_certificate(context, $0) == 1 }
    }
}
