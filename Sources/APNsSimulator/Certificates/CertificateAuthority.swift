import COpenSSL
import Glibc
import SecureTransport

// A certificate authority for one test, one demo or one directory of the simulator.
//
// With it, tests need no real certificate and no stored one that will expire: each run makes the
// certificates it needs, valid or not. Keys are EC P-256. The certificates are not for production.

/// A failure to make or write a certificate.
package struct MintFailure: Error, Sendable, CustomStringConvertible {
    /// One line with the action and the failure.
    package let description: String

    static func openSSL(_ action: String) -> MintFailure {
        MintFailure(description: "\(action): \(OpenSSLFault.drain().text)")
    }
}

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
    /// The authority's name.
    package let commonName: String

    /// Makes a self-signed authority, valid for ten years.
    package init(commonName: String = "Pushsweep test authority") throws(MintFailure) {
        self.commonName = commonName
        own = try CertificateMint.mint(
            CertificateRequest(commonName: commonName, notAfter: 3650 * 86400, usage: .server),
            issuer: nil)
    }

    /// Issues a certificate with a new key. The chain has no authority, because peers have it.
    package func issue(_ request: CertificateRequest) throws(MintFailure) -> MintedCertificate {
        MintedCertificate(
            identity: TLSIdentity(try CertificateMint.mint(request, issuer: own)))
    }

    /// The authority's certificate as PEM.
    package func pem() throws(MintFailure) -> [UInt8] {
        try CertificateMint.pem(of: own.certificate)
    }

    /// Writes the authority's certificate as PEM, readable by all.
    package func writeCertificate(to path: String) throws(MintFailure) {
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

    /// The certificate as PEM.
    package func certificatePEM() throws(MintFailure) -> [UInt8] {
        try CertificateMint.pem(of: identity.material.certificate)
    }

    /// The key as PEM (PKCS#8), encrypted with AES-256 when a passphrase is given.
    package func keyPEM(passphrase: String? = nil) throws(MintFailure) -> [UInt8] {
        guard let stream = MemoryStream() else {
            throw MintFailure.openSSL("writing a key")
        }
        let cipher = passphrase == nil ? nil : EVP_aes_256_cbc()
        let secret = passphrase.map { $0.utf8.map { CChar(bitPattern: $0) } } ?? []
        guard
            PEM_write_bio_PKCS8PrivateKey(
                stream.bio, identity.material.key, cipher, secret, Int32(secret.count), nil, nil)
                == 1
        else {
            throw MintFailure.openSSL("writing a key")
        }
        return stream.contents
    }

    /// Certificate and key as PKCS#12 (RFC 7292).
    package func pkcs12(
        passphrase: String, style: PKCS12Style = .modern
    ) throws(MintFailure) -> [UInt8] {
        let old = style == .legacy
        if old, !LegacyProvider.isLoaded {
            throw MintFailure(
                description: "writing PKCS#12: OpenSSL's legacy provider is not installed")
        }
        OpenSSLFault.discard()
        let store = PKCS12_create(
            passphrase, "push certificate", identity.material.key, identity.material.certificate,
            nil, old ? NID_pbe_WithSHA1And3_Key_TripleDES_CBC : 0,
            old ? NID_pbe_WithSHA1And40BitRC2_CBC : 0, 0, 0, 0)
        guard let store else {
            throw MintFailure.openSSL("writing PKCS#12")
        }
        defer { PKCS12_free(store) }
        guard let stream = MemoryStream(), i2d_PKCS12_bio(stream.bio, store) == 1 else {
            throw MintFailure.openSSL("writing PKCS#12")
        }
        return stream.contents
    }

    /// Writes the certificate (mode 0644) and the key (0600). With one path for both, one file of
    /// mode 0600.
    package func write(
        certificate: String, key: String, passphrase: String? = nil
    ) throws(MintFailure) {
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
    ) throws(MintFailure) {
        try CertificateMint.write(
            try pkcs12(passphrase: passphrase, style: style), to: path, mode: 0o600)
    }
}
