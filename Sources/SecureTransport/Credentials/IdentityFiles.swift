import COpenSSL
import Glibc

/// Reads an identity from PEM files (RFC 7468; PEM_read_bio_PrivateKey(3)).
struct PEMIdentity {
    let certificate: CredentialFile
    /// Nil: the key is in the certificate's file.
    let key: CredentialFile?
    let passphrase: String?

    func load() throws(IdentityFailure) -> TLSIdentity {
        let keyFile = key ?? certificate
        // A certificate by itself is no secret.
        for file in [certificate, key].compactMap({ $0 })
        where file.contains(PEMPrivateKey.boundary) || key != nil && file.path == keyFile.path {
            try file.requirePrivate()
        }
        let privateKey = try PEMPrivateKey(file: keyFile, passphrase: passphrase).load()
        let certificates: [OpaquePointer]
        do {
            certificates = try readCertificates()
        } catch {
            EVP_PKEY_free(privateKey)
            throw error
        }
        // Files have leaf and chain in any order; the leaf is the certificate of the key.
        let leaf = certificates.firstIndex { X509_check_private_key($0, privateKey) == 1 }
        OpenSSLFault.discard()
        guard let leaf else {
            EVP_PKEY_free(privateKey)
            certificates.forEach(X509_free)
            throw IdentityFailure(
                "reading \(keyFile.path): the key belongs to none of the certificates in "
                    + "\(certificate.path); use the pair that was issued together")
        }
        var chain = certificates
        let own = chain.remove(at: leaf)
        return TLSIdentity(IdentityMaterial(certificate: own, key: privateKey, chain: chain))
    }

    private func readCertificates() throws(IdentityFailure) -> [OpaquePointer] {
        guard let stream = MemoryStream(certificate.bytes) else {
            throw IdentityFailure("reading \(certificate.path): out of memory")
        }
        var found: [OpaquePointer] = []
        while let next = PEM_read_bio_X509(stream.bio, nil, nil, nil) { found.append(next) }
        let fault = OpenSSLFault.drain()
        // OpenSSL reports the end of the file as a missing start line.
        let cleanEnd = fault.entries.allSatisfy {
            $0.library == ERR_LIB_PEM && $0.reason == PEM_R_NO_START_LINE
        }
        guard cleanEnd, !found.isEmpty else {
            found.forEach(X509_free)
            let problem =
                cleanEnd ? "no certificate in it" : "a certificate in it is broken: \(fault.text)"
            throw IdentityFailure(
                "reading \(certificate.path): \(problem); export it again")
        }
        return found
    }
}

/// Reads a private key from a PEM file (RFC 7468; PEM_read_bio_PrivateKey(3)). The caller checks
/// whether the file is private.
package struct PEMPrivateKey {
    let file: CredentialFile
    let passphrase: String?

    /// The text in the first line of each kind of PEM private key.
    package static let boundary = "PRIVATE KEY-----"

    /// The argument and the result of the passphrase callback.
    private struct Question {
        let passphrase: [UInt8]?
        var wasAsked = false
    }

    /// Loads the key; the caller frees it.
    func load() throws(IdentityFailure) -> OpaquePointer {
        guard file.contains(Self.boundary) else {
            throw IdentityFailure(
                "reading \(file.path): no private key in it; name the key's file in the settings"
            )
        }
        var (key, question, fault) = attempt()
        if key == nil, fault.isUnsupportedAlgorithm, LegacyProvider.isLoaded {
            (key, question, fault) = attempt()
        }
        if let key { return key }
        guard question.wasAsked else {
            throw IdentityFailure(
                "reading \(file.path): the private key in it is broken: \(fault.text); export it "
                    + "again")
        }
        throw .locked(file.path, with: passphrase)
    }

    private func attempt() -> (OpaquePointer?, Question, OpenSSLFault) {
        var question = Question(passphrase: passphrase.map { Array($0.utf8) })
        guard let stream = MemoryStream(file.bytes) else {
            return (nil, question, OpenSSLFault.drain())
        }
        OpenSSLFault.discard()
        let key = withUnsafeMutablePointer(to: &question) { pointer in
            PEM_read_bio_PrivateKey(
                stream.bio, nil,
                { buffer, size, _, argument in
                    guard let buffer, let argument else { return -1 }
                    let question = argument.assumingMemoryBound(to: Question.self)
                    question.pointee.wasAsked = true
                    guard let secret = question.pointee.passphrase, secret.count <= size
                    else { return -1 }
                    memcpy(buffer, secret, secret.count)
                    return Int32(secret.count)
                }, pointer)
        }
        return (key, question, OpenSSLFault.drain())
    }
}

/// Reads an identity from PKCS#12 (RFC 7292; PKCS12_parse(3)).
///
/// Keychain exports are often encrypted with RC2-40 and Triple DES, which OpenSSL 3 keeps in its
/// legacy provider. It is loaded only when a file needs it.
struct PKCS12Identity {
    let file: CredentialFile
    let passphrase: String?

    func load() throws(IdentityFailure) -> TLSIdentity {
        try file.requirePrivate()
        guard let stream = MemoryStream(file.bytes),
            let store = d2i_PKCS12_bio(stream.bio, nil)
        else {
            OpenSSLFault.discard()
            throw IdentityFailure(
                "reading \(file.path): neither PEM nor PKCS#12; convert it to one of them")
        }
        defer { PKCS12_free(store) }
        try checkPassphrase(store)
        var outcome = parse(store)
        if case .failed(let fault) = outcome, fault.isUnsupportedAlgorithm {
            guard LegacyProvider.isLoaded else {
                throw IdentityFailure(
                    "reading \(file.path): its old encryption needs OpenSSL's legacy provider "
                        + "(legacy.so), which is not installed; install it or convert the file to "
                        + "PEM")
            }
            outcome = parse(store)
        }
        switch outcome {
        case .loaded(let identity): return identity
        case .incomplete:
            throw IdentityFailure(
                "reading \(file.path): it lacks a certificate with its private key; export both "
                    + "together")
        case .failed(let fault):
            throw IdentityFailure(
                "reading \(file.path): \(fault.text); export it again")
        }
    }

    /// The MAC distinguishes a wrong passphrase from a broken file before decryption.
    private func checkPassphrase(_ store: OpaquePointer) throws(IdentityFailure) {
        if PKCS12_mac_present(store) != 1 || verifyMAC(store) { return }
        let fault = OpenSSLFault.drain()
        if fault.isUnsupportedAlgorithm, LegacyProvider.isLoaded, verifyMAC(store) { return }
        OpenSSLFault.discard()
        throw .locked(file.path, with: passphrase)
    }

    private func verifyMAC(_ store: OpaquePointer) -> Bool {
        // Without a passphrase, programs use either no password or an empty one.
        guard let passphrase else {
            return PKCS12_verify_mac(store, nil, 0) == 1 || PKCS12_verify_mac(store, "", 0) == 1
        }
        return PKCS12_verify_mac(store, passphrase, -1) == 1
    }

    private enum Outcome {
        case loaded(TLSIdentity)
        case incomplete
        case failed(OpenSSLFault)
    }

    private func parse(_ store: OpaquePointer) -> Outcome {
        OpenSSLFault.discard()
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        var others: OpaquePointer?
        let parsed = PKCS12_parse(store, passphrase, &key, &certificate, &others)
        let fault = OpenSSLFault.drain()
        defer { pushsweep_chain_free(others) }
        guard parsed == 1 else { return .failed(fault) }
        guard let key, let certificate else {
            EVP_PKEY_free(key)
            X509_free(certificate)
            return .incomplete
        }
        var chain: [OpaquePointer] = []
        for index in 0..<pushsweep_chain_count(others) {
            if let link = pushsweep_chain_at(others, index), X509_up_ref(link) == 1 {
                chain.append(link)
            }
        }
        return .loaded(
            TLSIdentity(IdentityMaterial(certificate: certificate, key: key, chain: chain)))
    }
}

/// OpenSSL's provider of RC2, single DES and similar algorithms (OSSL_PROVIDER-legacy(7)).
package enum LegacyProvider {
    /// Whether it is loaded. The first access loads it beside the default provider, for the rest of
    /// the process. It adds algorithms for reading files; TLS does not negotiate any of them.
    package static let isLoaded = OSSL_PROVIDER_try_load(nil, "legacy", 1) != nil
}
