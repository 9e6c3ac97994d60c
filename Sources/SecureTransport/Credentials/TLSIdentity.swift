import COpenSSL
import Encodings
import Glibc

// The client side of mutual TLS: a certificate, its chain and its private key.
//
// Apple issues a certificate, the Keychain exports it with its key as PKCS#12, and most senders
// convert that to PEM, in one file or two. The content decides the form, not the name: bytes with a
// PEM boundary are PEM, all others are read as PKCS#12.
//
// Files with a secret must be private to this user or root, as `GuardedFile` checks. A certificate
// alone is public.

/// A certificate with its private key, ready for a context.
package struct TLSIdentity: Sendable {
    /// The file or files of an identity.
    package enum Source: Sendable {
        /// PEM (RFC 7468): the certificate with its chain in any order, the key in the same file
        /// when `key` is nil.
        case pem(certificate: String, key: String?, passphrase: String?)
        /// PKCS#12 (RFC 7292), as Apple's Keychain exports it.
        case pkcs12(String, passphrase: String?)
    }

    /// The content of the certificate.
    package let facts: CertificateFacts
    /// OpenSSL's objects.
    package let material: IdentityMaterial

    /// Makes an identity from objects that were loaded or made before.
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

    /// Loads the files that the settings name. The content decides the form.
    ///
    /// `key` is the file of the PEM key when it is not in `file`. `passphraseFile` has the
    /// passphrase in its first line and must be private too. Throws every code but `expired` and
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
    /// The APNs topics that the certificate may send to; empty where it names none.
    package var topics: [String] { facts.topics }
    /// The environments of APNs that the certificate is for; empty where it names none.
    package var environments: Set<CertificateEnvironment> { facts.environments }
    /// SHA-256 of the certificate, 64 lower-case hex digits.
    package var fingerprint: String { facts.fingerprint }

    /// Checks that the certificate is valid at `time`, in Unix seconds. The refusal of a peer would
    /// be less clear. Throws `expired` or `notYetValid`.
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

/// OpenSSL's objects of an identity. The deinit frees them.
package final class IdentityMaterial: Sendable {
    // Safe: X509 and EVP_PKEY do not change after this init, and OpenSSL counts their references
    // atomically (X509_up_ref(3), EVP_PKEY_up_ref(3)).
    /// The certificate, an X509.
    package nonisolated(unsafe) let certificate: OpaquePointer
    /// Its private key, an EVP_PKEY.
    package nonisolated(unsafe) let key: OpaquePointer
    nonisolated(unsafe) let chain: [OpaquePointer]

    /// Takes ownership of one reference of each.
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

    /// Makes a context use this identity. False on failure, with the reasons on the error queue.
    func install(in context: OpaquePointer) -> Bool {
        guard SSL_CTX_use_certificate(context, certificate) == 1,
            SSL_CTX_use_PrivateKey(context, key) == 1
        else {
            return false
        }
        return chain.allSatisfy { pushsweep_ctx_add_chain_certificate(context, $0) == 1 }
    }
}

/// The content of a certificate, as values.
package struct CertificateFacts: Sendable, Equatable {
    /// The whole subject as RFC 2253 prints it, control characters escaped.
    package let subject: String
    /// The subject's last common name, if it has one.
    package let commonName: String?
    /// The issuer as RFC 2253 prints it.
    package let issuer: String
    /// Start of validity, seconds since 1970-01-01T00:00:00Z.
    package let notBefore: Int64
    /// End of validity, seconds since 1970-01-01T00:00:00Z.
    package let notAfter: Int64
    /// SHA-256 of the DER form, 64 lower-case hex digits.
    package let fingerprint: String
    /// The APNs topics that the certificate may send to; empty where it names none.
    package let topics: [String]
    /// The environments of APNs that the certificate is for; empty where it names none.
    package let environments: Set<CertificateEnvironment>

    init(_ certificate: OpaquePointer) {
        topics = CertificateTopics.read(certificate)
        subject = Self.printed(X509_get_subject_name(certificate))
        let commonName = Self.commonName(X509_get_subject_name(certificate))
        self.commonName = commonName
        environments = CertificateEnvironment.named(in: certificate, commonName: commonName)
        issuer = Self.printed(X509_get_issuer_name(certificate))
        notBefore = Self.seconds(X509_get0_notBefore(certificate))
        notAfter = Self.seconds(X509_get0_notAfter(certificate))
        fingerprint = Self.fingerprint(certificate)
    }

    private static func printed(_ name: OpaquePointer?) -> String {
        guard let name, let stream = MemoryStream(), pushsweep_name_print(stream.bio, name) >= 0
        else {
            return ""
        }
        return String(decoding: stream.contents, as: UTF8.self)
    }

    private static func commonName(_ name: OpaquePointer?) -> String? {
        var index: Int32 = -1
        while true {
            let next = X509_NAME_get_index_by_NID(name, NID_commonName, index)
            if next < 0 {
                break
            }
            index = next
        }
        guard index >= 0, let entry = X509_NAME_get_entry(name, index) else {
            return nil
        }
        var text: UnsafeMutablePointer<UInt8>?
        let length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry))
        guard length >= 0, let text else {
            return nil
        }
        defer { CRYPTO_free(text, #file, #line) }
        return String(
            decoding: UnsafeBufferPointer(start: text, count: Int(length)), as: UTF8.self)
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else {
            return 0
        }
        return Int64(timegm(&parts))
    }

    private static func fingerprint(_ certificate: OpaquePointer) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        guard X509_digest(certificate, EVP_sha256(), &digest, &length) == 1 else {
            return ""
        }
        return Hex.text(digest)
    }
}

/// The reason why the local certificate or key cannot be used. It is in files or settings, never in
/// the network, so it is found before connecting.
package struct IdentityFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kinds of failure.
    package enum Code: Sendable, Equatable {
        /// No such file.
        case missing
        /// The file cannot be opened or read, or is no regular file.
        case unreadable
        /// A file with a secret may be read or changed by others; `mode` is its permission bits.
        case readableByOthers(mode: UInt32)
        /// A file with a secret belongs to neither this user nor root; `owner` is the user's
        /// number.
        case foreign(owner: UInt32)
        /// The passphrase does not open the key.
        case wrongPassphrase
        /// The key is encrypted and no passphrase was given.
        case passphraseNeeded
        /// The content has the wrong form.
        case malformed
        /// The key belongs to another certificate.
        case keyMismatch
        /// The certificate has expired.
        case expired
        /// The certificate is not valid yet.
        case notYetValid
        /// An old PKCS#12 file needs OpenSSL's legacy provider, which is not installed.
        case legacyProviderMissing
    }

    /// The kind of failure.
    package let code: Code
    /// One line with the file, the problem and the next action. Never a secret.
    package let description: String

    /// Makes a failure.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
