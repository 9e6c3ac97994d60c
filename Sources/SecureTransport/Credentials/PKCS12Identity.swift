import COpenSSL

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
                .malformed,
                "reading \(file.path): neither PEM nor PKCS#12; convert it to one of them")
        }
        defer { PKCS12_free(store) }
        try checkPassphrase(store)
        var outcome = parse(store)
        if case .failed(let fault) = outcome, fault.isUnsupportedAlgorithm {
            guard LegacyProvider.isLoaded else {
                throw IdentityFailure(
                    .legacyProviderMissing,
                    "reading \(file.path): its old encryption needs OpenSSL's legacy provider "
                        + "(legacy.so), which is not installed; install it or convert the file to "
                        + "PEM")
            }
            outcome = parse(store)
        }
        switch outcome {
        case .loaded(let identity):
            return identity
        case .incomplete:
            throw IdentityFailure(
                .malformed,
                "reading \(file.path): it lacks a certificate with its private key; export both "
                    + "together")
        case .failed(let fault):
            throw IdentityFailure(
                .malformed, "reading \(file.path): \(fault.text); export it again")
        }
    }

    /// The MAC distinguishes a wrong passphrase from a broken file before decryption.
    private func checkPassphrase(_ store: OpaquePointer) throws(IdentityFailure) {
        guard PKCS12_mac_present(store) == 1 else {
            return
        }
        if verifyMAC(store) {
            return
        }
        let fault = OpenSSLFault.drain()
        if fault.isUnsupportedAlgorithm, LegacyProvider.isLoaded, verifyMAC(store) {
            return
        }
        OpenSSLFault.discard()
        guard passphrase != nil else {
            throw IdentityFailure(
                .passphraseNeeded,
                "reading \(file.path): it is encrypted; name a passphrase file in the settings")
        }
        throw IdentityFailure(
            .wrongPassphrase,
            "reading \(file.path): the passphrase does not open it; check the passphrase file")
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
        guard parsed == 1 else {
            return .failed(fault)
        }
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
