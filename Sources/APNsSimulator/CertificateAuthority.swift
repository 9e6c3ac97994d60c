import COpenSSL
import Encodings
import FoundationEssentials
import Glibc
import SecureTransport

// A certificate authority for one test, one demo or one directory of the simulator.
//
// With it, tests need no real certificate and no stored one that will expire: each run makes the
// certificates it needs, valid or not. Keys are EC P-256. The certificates are not for production.

/// The content of a certificate to be made.
package struct CertificateRequest: Sendable {
    /// The purpose of the certificate (RFC 5280 section 4.2.1.12).
    package enum Usage: String, Sendable {
        /// Certificate of a gateway.
        case server = "serverAuth"
        /// Certificate of a push sender.
        case client = "clientAuth"
    }

    /// Subject common name, at most 64 characters (RFC 5280 appendix A).
    package var commonName: String
    /// Subject user id; Apple puts the bundle id there.
    package var userID: String?
    /// Subject alternative DNS names.
    package var dnsNames: [String]
    /// Subject alternative IP addresses.
    package var addresses: [String]
    /// The topics in Apple's extension for certificates of several topics; empty for none.
    package var topics: [String] = []
    /// Start of validity in seconds from now, negative for the past.
    package var notBefore: Int
    /// End of validity in seconds from now.
    package var notAfter: Int
    /// Extended key usage.
    package var usage: Usage

    /// Makes a request; by default valid from one hour ago, for clocks that differ, to 90 days
    /// ahead.
    package init(
        commonName: String, userID: String? = nil, dnsNames: [String] = [],
        addresses: [String] = [], notBefore: Int = -3600, notAfter: Int = 90 * 86400,
        usage: Usage
    ) {
        self.commonName = commonName
        self.userID = userID
        self.dnsNames = dnsNames
        self.addresses = addresses
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.usage = usage
    }

    /// A gateway's certificate for loopback.
    package static func server(
        commonName: String = "localhost", dnsNames: [String] = ["localhost"],
        addresses: [String] = ["127.0.0.1", "::1"]
    ) -> CertificateRequest {
        CertificateRequest(
            commonName: commonName, dnsNames: dnsNames, addresses: addresses, usage: .server)
    }

    /// A push sender's certificate with the names of Apple's certificates, and where topics are
    /// given with Apple's extension for several.
    package static func client(
        bundleID: String = "com.example.chat", topics: [String] = []
    ) -> CertificateRequest {
        var request = CertificateRequest(
            commonName: "Apple Push Services: \(bundleID)", userID: bundleID, usage: .client)
        request.topics = topics
        return request
    }
}

/// A temporary authority that issues certificates.
package final class CertificateAuthority: Sendable {
    private let own: IdentityMaterial

    /// Makes a self-signed authority, valid for ten years.
    package init(commonName: String = "Pushsweep test authority") throws(Refusal) {
        own = try CertificateMint.mint(
            CertificateRequest(commonName: commonName, notAfter: 3650 * 86400, usage: .server),
            issuer: nil)
    }

    /// Issues a certificate with a new key. The chain has no authority, because peers have it.
    package func issue(_ request: CertificateRequest) throws(Refusal) -> MintedCertificate {
        MintedCertificate(
            identity: TLSIdentity(try CertificateMint.mint(request, issuer: own)))
    }

    /// The authority's certificate as PEM.
    package func pem() throws(Refusal) -> [UInt8] {
        try CertificateMint.pem(of: own.certificate)
    }

    /// Writes the authority's certificate as PEM, readable by all.
    package func writeCertificate(to path: String) throws(Refusal) {
        try CertificateMint.write(try pem(), to: path, mode: 0o644)
    }
}

/// A new certificate of an authority, with its key.
package struct MintedCertificate: Sendable {
    /// The identity for a context, without files.
    package let identity: TLSIdentity

    /// The encryption of a PKCS#12 file.
    package enum PKCS12Style: Sendable {
        /// AES-256, as in files of OpenSSL 3.
        case modern
        /// RC2-40 and Triple DES, as in files of old Keychains; needs OpenSSL's legacy provider.
        case legacy
    }

    /// The certificate alone, as PEM (RFC 7468).
    package func certificatePEM() throws(Refusal) -> [UInt8] {
        try CertificateMint.pem(of: identity.material.certificate)
    }

    /// The key as PEM (PKCS#8), encrypted with AES-256 when a passphrase is given.
    package func keyPEM(passphrase: String? = nil) throws(Refusal) -> [UInt8] {
        let cipher = passphrase == nil ? nil : EVP_aes_256_cbc()
        let secret = passphrase.map { $0.utf8.map { CChar(bitPattern: $0) } } ?? []
        return try CertificateMint.written("a key") {
            PEM_write_bio_PKCS8PrivateKey(
                $0, identity.material.key, cipher, secret, Int32(secret.count), nil, nil) == 1
        }
    }

    /// Certificate and key as PKCS#12 (RFC 7292).
    package func pkcs12(
        passphrase: String, style: PKCS12Style = .modern
    ) throws(Refusal) -> [UInt8] {
        let old = style == .legacy
        if old, !LegacyProvider.isLoaded {
            throw Refusal(
                "writing PKCS#12: OpenSSL's legacy provider is not installed")
        }
        OpenSSLFault.discard()
        let store = PKCS12_create(
            passphrase, "push certificate", identity.material.key, identity.material.certificate,
            nil, old ? NID_pbe_WithSHA1And3_Key_TripleDES_CBC : 0,
            old ? NID_pbe_WithSHA1And40BitRC2_CBC : 0, 0, 0, 0)
        guard let store else {
            throw Refusal.openSSL("writing PKCS#12")
        }
        defer { PKCS12_free(store) }
        return try CertificateMint.written("PKCS#12") { i2d_PKCS12_bio($0, store) == 1 }
    }

    /// Writes the certificate (mode 0644) and the key (0600). With one path for both, one file of
    /// mode 0600.
    package func write(
        certificate: String, key: String, passphrase: String? = nil
    ) throws(Refusal) {
        if certificate == key {
            try CertificateMint.write(
                try certificatePEM() + keyPEM(passphrase: passphrase), to: key, mode: 0o600)
            return
        }
        try CertificateMint.write(try certificatePEM(), to: certificate, mode: 0o644)
        try CertificateMint.write(try keyPEM(passphrase: passphrase), to: key, mode: 0o600)
    }

    /// Writes certificate and key as PKCS#12 (mode 0600).
    package func writePKCS12(
        to path: String, passphrase: String, style: PKCS12Style = .modern
    ) throws(Refusal) {
        try CertificateMint.write(
            try pkcs12(passphrase: passphrase, style: style), to: path, mode: 0o600)
    }
}

/// Makes and signs certificates, and writes them to files.
package enum CertificateMint {
    /// Writes a file with exactly this mode, for any umask and any mode of an existing file.
    package static func write(
        _ bytes: [UInt8], to path: String, mode: UInt32
    ) throws(Refusal) {
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(bytes), attributes: [.posixPermissions: Int(mode)])
        else {
            throw Refusal(
                "writing \(path): \(TransportFailure.systemMessage(errno)); check "
                    + "that the directory exists and is writable")
        }
    }

    static func pem(of certificate: OpaquePointer) throws(Refusal) -> [UInt8] {
        try written("a certificate") { PEM_write_bio_X509($0, certificate) == 1 }
    }

    /// The bytes that a function of OpenSSL writes.
    static func written(
        _ what: String, _ write: (OpaquePointer) -> Bool
    ) throws(Refusal) -> [UInt8] {
        guard let stream = MemoryStream(), write(stream.bio) else {
            throw Refusal.openSSL("writing \(what)")
        }
        return stream.contents
    }

    /// Makes a certificate with a new key; without an issuer, a self-signed authority.
    static func mint(
        _ request: CertificateRequest, issuer: IdentityMaterial?
    ) throws(Refusal) -> IdentityMaterial {
        OpenSSLFault.discard()
        guard let key = pushsweep_generate_p256_key() else {
            throw Refusal.openSSL("making a key")
        }
        guard let certificate = X509_new() else {
            EVP_PKEY_free(key)
            throw Refusal.openSSL("making a certificate")
        }
        // Owns both, so that a throw frees them.
        let made = IdentityMaterial(certificate: certificate, key: key, chain: [])
        guard X509_set_version(certificate, 2) == 1,
            setSerialNumber(certificate),
            X509_time_adj_ex(X509_getm_notBefore(certificate), 0, request.notBefore, nil) != nil,
            X509_time_adj_ex(X509_getm_notAfter(certificate), 0, request.notAfter, nil) != nil,
            setSubject(certificate, request),
            X509_set_issuer_name(
                certificate, X509_get_subject_name(issuer?.certificate ?? certificate)) == 1,
            X509_set_pubkey(certificate, key) == 1,
            addExtensions(certificate, request, issuer: issuer?.certificate),
            X509_sign(certificate, issuer?.key ?? key, EVP_sha256()) > 0
        else {
            throw Refusal.openSSL("making a certificate for \(request.commonName)")
        }
        return made
    }

    /// Sets 64 random bits, because two certificates of one authority must not have the same
    /// number.
    private static func setSerialNumber(_ certificate: OpaquePointer) -> Bool {
        ASN1_INTEGER_set_uint64(
            X509_get_serialNumber(certificate), UInt64.random(in: 1...UInt64.max)) == 1
    }

    private static func setSubject(
        _ certificate: OpaquePointer, _ request: CertificateRequest
    ) -> Bool {
        let name = X509_get_subject_name(certificate)
        func add(_ field: String, _ value: String) -> Bool {
            X509_NAME_add_entry_by_txt(
                name, field, MBSTRING_UTF8, Array(value.utf8), Int32(value.utf8.count), -1, 0) == 1
        }
        if let userID = request.userID, !add("UID", userID) {
            return false
        }
        return add("CN", request.commonName)
    }

    private static func addExtensions(
        _ certificate: OpaquePointer, _ request: CertificateRequest, issuer: OpaquePointer?
    ) -> Bool {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer ?? certificate, certificate, nil, nil, 0)
        func add(_ kind: Int32, _ value: String) -> Bool {
            guard let part = X509V3_EXT_conf_nid(nil, &context, kind, value) else {
                return false
            }
            defer { X509_EXTENSION_free(part) }
            return X509_add_ext(certificate, part, -1) == 1
        }
        guard issuer != nil else {
            return add(NID_basic_constraints, "critical,CA:TRUE")
                && add(NID_key_usage, "critical,keyCertSign,cRLSign")
                && add(NID_subject_key_identifier, "hash")
        }
        let names =
            request.dnsNames.map { "DNS:\($0)" } + request.addresses.map { "IP:\($0)" }
        return add(NID_basic_constraints, "critical,CA:FALSE")
            && add(NID_key_usage, "critical,digitalSignature")
            && add(NID_ext_key_usage, request.usage.rawValue)
            && add(NID_subject_key_identifier, "hash")
            && add(NID_authority_key_identifier, "keyid")
            && (names.isEmpty
                || add(NID_subject_alt_name, names.joined(separator: ",")))
            && (request.topics.isEmpty || TopicsExtension.add(request.topics, to: certificate))
    }
}

/// Apple's extension with the topics of a certificate for several (Apple, "Establishing a
/// certificate-based connection to APNs"): 1.2.840.113635.100.6.3.6, a SEQUENCE of each topic as
/// UTF8String and its kinds as SEQUENCE of UTF8String.
enum TopicsExtension {
    /// Adds the extension; false where OpenSSL refuses it.
    static func add(_ topics: [String], to certificate: OpaquePointer) -> Bool {
        // OpenSSL writes the DER of a structure in the form of its configuration files.
        var (sequence, kinds) = ("[topics]\n", "")
        for (number, topic) in topics.enumerated() {
            sequence += "topic\(number) = UTF8:\(topic)\nkind\(number) = SEQUENCE:kind\(number)\n"
            kinds += "[kind\(number)]\nname = UTF8:\(kind(topic))\n"
        }
        guard let stream = MemoryStream(Array((sequence + kinds).utf8)),
            let configuration = NCONF_new(nil)
        else { return false }
        defer { NCONF_free(configuration) }
        var context = X509V3_CTX()
        X509V3_set_nconf(&context, configuration)
        guard NCONF_load_bio(configuration, stream.bio, nil) == 1,
            let part = X509V3_EXT_nconf(
                configuration, &context, "1.2.840.113635.100.6.3.6", "ASN1:SEQUENCE:topics")
        else { return false }
        defer { X509_EXTENSION_free(part) }
        return X509_add_ext(certificate, part, -1) == 1
    }

    /// The kind that Apple writes beside a topic.
    private static func kind(_ topic: String) -> String {
        ["voip", "complication"].first { topic.hasSuffix(".\($0)") } ?? "app"
    }
}
