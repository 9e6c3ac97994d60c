import COpenSSL

/// Reads an identity from PEM files (RFC 7468; PEM_read_bio_PrivateKey(3)).
struct PEMIdentity {
    let certificate: CredentialFile
    /// Nil: the key is in the certificate's file.
    let key: CredentialFile?
    let passphrase: String?

    func load() throws(IdentityFailure) -> TLSIdentity {
        let keyFile = key ?? certificate
        try keyFile.requirePrivate()
        if certificate.contains(PEMPrivateKey.boundary) {
            try certificate.requirePrivate()
        }
        let privateKey = try PEMPrivateKey(file: keyFile, passphrase: passphrase).load()
        let certificates: [OpaquePointer]
        do {
            certificates = try readCertificates()
        } catch {
            EVP_PKEY_free(privateKey)
            throw error
        }
        // Files list leaf and chain in any order; the leaf is the one the key belongs to.
        let leaf = certificates.firstIndex { X509_check_private_key($0, privateKey) == 1 }
        OpenSSLFault.discard()
        guard let leaf else {
            EVP_PKEY_free(privateKey)
            certificates.forEach(X509_free)
            throw IdentityFailure(
                .keyMismatch,
                "reading \(keyFile.path): the key belongs to none of the certificates in "
                    + "\(certificate.path); use the pair that was issued together")
        }
        var chain = certificates
        let own = chain.remove(at: leaf)
        return TLSIdentity(IdentityMaterial(certificate: own, key: privateKey, chain: chain))
    }

    private func readCertificates() throws(IdentityFailure) -> [OpaquePointer] {
        guard let stream = MemoryStream(certificate.bytes) else {
            throw IdentityFailure(.unreadable, "reading \(certificate.path): out of memory")
        }
        var found: [OpaquePointer] = []
        while let next = PEM_read_bio_X509(stream.bio, nil, nil, nil) {
            found.append(next)
        }
        let fault = OpenSSLFault.drain()
        // The end of the file shows as a missing start line.
        let cleanEnd = fault.entries.allSatisfy {
            $0.library == ERR_LIB_PEM && $0.reason == PEM_R_NO_START_LINE
        }
        guard cleanEnd, !found.isEmpty else {
            found.forEach(X509_free)
            let problem =
                cleanEnd ? "no certificate in it" : "a certificate in it is broken: \(fault.text)"
            throw IdentityFailure(
                .malformed, "reading \(certificate.path): \(problem); export it again")
        }
        return found
    }
}
