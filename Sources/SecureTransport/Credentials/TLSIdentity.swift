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
@dynamicMemberLookup
package struct TLSIdentity: Sendable {
    /// The content of the certificate.
    package let facts: CertificateFacts
    /// OpenSSL's objects.
    package let material: IdentityMaterial

    /// Makes an identity from objects that were loaded or made before.
    package init(_ material: IdentityMaterial) {
        self.material = material
        facts = CertificateFacts(material.certificate)
    }

    /// Loads the files that the settings name. The content decides the form.
    ///
    /// `key` is the file of the PEM key when it is not in `file`. `passphraseFile` has the
    /// passphrase in its first line and must be private too.
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
                "reading \(file): no PEM certificate in it; a separate key goes with PEM only, "
                    + "a .p12 brings its own")
        }
        return try PKCS12Identity(file: content, passphrase: passphrase).load()
    }

    /// The APNs topics that the certificate may send to; empty where it names none.
    package var topics: [String] { facts.topics }

    package subscript<Fact>(dynamicMember fact: KeyPath<CertificateFacts, Fact>) -> Fact {
        facts[keyPath: fact]
    }

    /// Checks that the certificate is valid at `time`, in Unix seconds. The refusal of a peer would
    /// be less clear.
    package func checkValidity(at time: Int64) throws(IdentityFailure) {
        let doing = "checking our certificate \(facts.subject)"
        if time > facts.notAfter {
            throw IdentityFailure(
                "\(doing): it expired at \(RFC3339.text(facts.notAfter)); renew it")
        }
        if time < facts.notBefore {
            throw IdentityFailure(
                "\(doing): it is valid only from \(RFC3339.text(facts.notBefore)); check this host's "
                    + "clock")
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
        (self.certificate, self.key, self.chain) = (certificate, key, chain)
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
        chain.forEach(X509_free)
    }

    /// Makes a context use this identity. False on failure, with the reasons on the error queue.
    func install(in context: OpaquePointer) -> Bool {
        SSL_CTX_use_certificate(context, certificate) == 1
            && SSL_CTX_use_PrivateKey(context, key) == 1
            && chain.allSatisfy { pushsweep_ctx_add_chain_certificate(context, $0) == 1 }
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
        let name = X509_get_subject_name(certificate)
        subject = Self.printed(name)
        commonName = Self.text(NID_commonName, in: name)
        environments = CertificateEnvironment.named(in: certificate, commonName: commonName)
        issuer = Self.printed(X509_get_issuer_name(certificate))
        notBefore = Self.seconds(X509_get0_notBefore(certificate))
        notAfter = Self.seconds(X509_get0_notAfter(certificate))
        fingerprint = Self.fingerprint(certificate)
    }

    private static func printed(_ name: OpaquePointer?) -> String {
        guard let name, let stream = MemoryStream(), pushsweep_name_print(stream.bio, name) >= 0
        else { return "" }
        return String(decoding: stream.contents, as: UTF8.self)
    }

    /// The last value of an attribute; nil without one.
    static func text(_ attribute: Int32, in name: OpaquePointer?) -> String? {
        var index: Int32 = -1
        while case let next = X509_NAME_get_index_by_NID(name, attribute, index), next >= 0 {
            index = next
        }
        guard index >= 0, let entry = X509_NAME_get_entry(name, index) else { return nil }
        var text: UnsafeMutablePointer<UInt8>?
        let length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry))
        guard length > 0, let text else { return nil }
        defer { CRYPTO_free(text, #file, #line) }
        return String(
            decoding: UnsafeBufferPointer(start: text, count: Int(length)), as: UTF8.self)
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return Int64(timegm(&parts))
    }

    private static func fingerprint(_ certificate: OpaquePointer) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        return X509_digest(certificate, EVP_sha256(), &digest, &length) == 1
            ? Hex.text(digest) : ""
    }
}

/// The reason why a file that settings name, such as a certificate or a key, cannot be used. It is in
/// files or settings, never in the network, so it is found before connecting.
package struct IdentityFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// What has to change.
    package enum Code: Sendable, Equatable {
        /// Owner or mode of a file.
        case access
        /// Owner or mode of a file that decides what is done, or of what is on the way to it: others may
        /// change it.
        case changeable
        /// What kind of file it is, or the error of the system at opening it.
        case kind
        /// The files themselves, or the settings that name them.
        case content
    }

    package let code: Code
    /// One line with the file, the problem and the next action. Never a secret.
    package let description: String

    package init(_ description: String, _ code: Code = .content) {
        (self.code, self.description) = (code, description)
    }

    /// The failure of a `GuardedFile` with its name.
    func opening(_ path: String) -> IdentityFailure {
        IdentityFailure("opening \(path): \(self)", code)
    }

    /// What is encrypted was not opened.
    static func locked(_ path: String, with passphrase: String?) -> IdentityFailure {
        IdentityFailure(
            passphrase == nil
                ? "reading \(path): it is encrypted; name a passphrase file in the settings"
                : "reading \(path): the passphrase does not open it; check the passphrase file")
    }
}

// Apple says in a certificate for which environment of APNs it is, by extensions without content of
// interest, and in the common name of older ones (Apple, "Certificate Policy for Worldwide Developer
// Relations", marker extensions of push certificates).
//
//   1.2.840.113635.100.6.3.1   development, which APNs calls sandbox
//   1.2.840.113635.100.6.3.2   production
//
//   Apple Development IOS Push Services: com.example.chat    sandbox
//   Apple Production IOS Push Services: com.example.chat     production
//   Apple Push Services: com.example.chat                    both

/// The environments of APNs that a certificate is for.
package enum CertificateEnvironment: String, Sendable, CaseIterable {
    /// Apps from the store.
    case production
    /// Apps in development.
    case sandbox

    /// Apple's extension that marks a certificate for this environment.
    private var marker: String {
        switch self {
        case .sandbox: "1.2.840.113635.100.6.3.1"
        case .production: "1.2.840.113635.100.6.3.2"
        }
    }

    /// The environments that a certificate names; empty where it names none, as one of a private
    /// gateway does.
    static func named(
        in certificate: OpaquePointer, commonName: String?
    ) -> Set<CertificateEnvironment> {
        let marked = Set(
            allCases.filter { CertificateTopics.place(of: $0.marker, in: certificate) >= 0 })
        guard marked.isEmpty, let commonName, commonName.contains("Push Services: ") else {
            return marked
        }
        if commonName.hasPrefix("Apple Development ") { return [.sandbox] }
        if commonName.hasPrefix("Apple Production ") { return [.production] }
        return commonName.hasPrefix("Apple Push Services: ") ? Set(allCases) : []
    }
}

// Apple names the topics of a certificate in one of two places (Apple, "Establishing a certificate-based
// connection to APNs"): a certificate for several topics lists them in an extension of Apple's, one for
// a single topic has it as the user id of its subject.
//
//   1.2.840.113635.100.6.3.6   SEQUENCE { topic UTF8String, SEQUENCE { kind UTF8String }, ... }

/// The APNs topics of a certificate.
enum CertificateTopics {
    /// Apple's extension with the topics.
    static let topicsExtension = "1.2.840.113635.100.6.3.6"

    /// The topics that a certificate names; empty where it names none, or the extension cannot be
    /// read.
    static func read(_ certificate: OpaquePointer) -> [String] {
        let index = place(of: topicsExtension, in: certificate)
        guard index >= 0, let entry = X509_get_ext(certificate, index),
            let data = X509_EXTENSION_get_data(entry), let start = ASN1_STRING_get0_data(data)
        else {
            return CertificateFacts.text(NID_userId, in: X509_get_subject_name(certificate))
                .map { [$0] } ?? []
        }
        return topics(
            der: Array(UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(data)))))
    }

    /// The place of an extension in a certificate, by its number; negative where it has none.
    static func place(of name: String, in certificate: OpaquePointer) -> Int32 {
        guard let object = OBJ_txt2obj(name, 1) else { return -1 }
        defer { ASN1_OBJECT_free(object) }
        return X509_get_ext_by_OBJ(certificate, object, -1)
    }

    /// The strings directly inside the outer sequence; those of the sequences in it are kinds.
    static func topics(der: [UInt8]) -> [String] {
        der.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress,
                let outer = element(at: start, before: start + bytes.count),
                outer.tag == V_ASN1_SEQUENCE
            else { return [] }
            var topics: [String] = []
            var place = outer.content.startIndex
            while place < outer.content.endIndex, let base = outer.content.baseAddress,
                let next = element(at: base + place, before: base + outer.content.count)
            {
                if next.tag == V_ASN1_UTF8STRING {
                    topics.append(String(decoding: next.content, as: UTF8.self))
                }
                place += next.length
            }
            return topics
        }
    }

    /// One element of DER: its tag, its content, and the number of bytes of both with the header.
    private struct Element {
        let tag: Int32
        let content: UnsafeBufferPointer<UInt8>
        let length: Int
    }

    private static func element(
        at start: UnsafePointer<UInt8>, before end: UnsafePointer<UInt8>
    ) -> Element? {
        var place: UnsafePointer<UInt8>? = start
        var (length, tag, kind) = (0, Int32(0), Int32(0))
        let flags = ASN1_get_object(&place, &length, &tag, &kind, end - start)
        // 0x80 is an error, 1 an indefinite length, which DER has not.
        guard flags & 0x81 == 0, let place, length >= 0, place + length <= end else {
            OpenSSLFault.discard()
            return nil
        }
        return Element(
            tag: tag, content: UnsafeBufferPointer(start: place, count: length),
            length: place - start + length)
    }
}
