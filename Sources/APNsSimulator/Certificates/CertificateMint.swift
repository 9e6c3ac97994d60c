import COpenSSL
import Glibc
import SecureTransport

/// Makes and signs certificates, and writes them to files.
package enum CertificateMint {
    /// Writes a file with exactly this mode, for any umask and any mode of an existing file.
    package static func write(
        _ bytes: [UInt8], to path: String, mode: UInt32
    ) throws(MintFailure) {
        func failure() -> MintFailure {
            MintFailure(
                description: "writing \(path): \(TransportFailure.systemMessage(errno)); check "
                    + "that the directory exists and is writable")
        }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw failure()
        }
        defer { close(descriptor) }
        guard fchmod(descriptor, mode) == 0 else {
            throw failure()
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else {
                throw failure()
            }
            rest = rest.dropFirst(count)
        }
    }

    static func pem(of certificate: OpaquePointer) throws(MintFailure) -> [UInt8] {
        guard let stream = MemoryStream(), PEM_write_bio_X509(stream.bio, certificate) == 1 else {
            throw MintFailure.openSSL("writing a certificate")
        }
        return stream.contents
    }

    /// Makes a certificate with a new key; without an issuer, a self-signed authority.
    static func mint(
        _ request: CertificateRequest, issuer: IdentityMaterial?
    ) throws(MintFailure) -> IdentityMaterial {
        OpenSSLFault.discard()
        guard let key = pushsweep_generate_p256_key() else {
            throw MintFailure.openSSL("making a key")
        }
        guard let certificate = X509_new() else {
            EVP_PKEY_free(key)
            throw MintFailure.openSSL("making a certificate")
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
            throw MintFailure.openSSL("making a certificate for \(request.commonName)")
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
