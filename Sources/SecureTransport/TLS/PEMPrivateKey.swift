import COpenSSL
import Glibc

/// Reads a private key from a PEM file (RFC 7468; PEM_read_bio_PrivateKey(3)). Whether the file is
/// private enough is for the caller to check.
package struct PEMPrivateKey {
    let file: CredentialFile
    let passphrase: String?

    /// What each kind of PEM private key has in its first line.
    package static let boundary = "PRIVATE KEY-----"

    /// What the passphrase callback is given and leaves behind.
    private struct Question {
        let passphrase: [UInt8]?
        var wasAsked = false
    }

    /// The key, which the caller frees.
    func load() throws(IdentityFailure) -> OpaquePointer {
        guard file.contains(Self.boundary) else {
            throw IdentityFailure(
                .malformed,
                "reading \(file.path): no private key in it; name the key's file in the settings"
            )
        }
        var (key, question, fault) = attempt()
        if key == nil, fault.isUnsupportedAlgorithm, LegacyProvider.isLoaded {
            (key, question, fault) = attempt()
        }
        if let key {
            return key
        }
        guard question.wasAsked else {
            throw IdentityFailure(
                .malformed,
                "reading \(file.path): the private key in it is broken: \(fault.text); export it "
                    + "again")
        }
        guard passphrase != nil else {
            throw IdentityFailure(
                .passphraseNeeded,
                "reading \(file.path): the key is encrypted; name a passphrase file in the settings"
            )
        }
        throw IdentityFailure(
            .wrongPassphrase,
            "reading \(file.path): the passphrase does not open the key; check the passphrase file")
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
                    guard let buffer, let argument else {
                        return -1
                    }
                    let question = argument.assumingMemoryBound(to: Question.self)
                    question.pointee.wasAsked = true
                    guard let secret = question.pointee.passphrase, secret.count <= size else {
                        return -1
                    }
                    memcpy(buffer, secret, secret.count)
                    return Int32(secret.count)
                }, pointer)
        }
        return (key, question, OpenSSLFault.drain())
    }
}
