/// The bytes of a certificate, key or passphrase file, read as GuardedFile reads.
package struct CredentialFile {
    let path: String
    private let file: GuardedFile
    /// All of its bytes.
    package var bytes: [UInt8] { file.bytes }

    /// Chains with several certificates take some ten kilobytes; a file past this is a mistake.
    private static let largest = 1 << 20

    /// Reads the file. Throws `missing`, `unreadable` or `malformed` (too large).
    package static func read(_ path: String) throws(IdentityFailure) -> CredentialFile {
        do {
            return CredentialFile(path: path, file: try GuardedFile.read(path, limit: largest))
        } catch {
            throw failure(path, error)
        }
    }

    /// Refuses a file with a secret that is somebody else's, or that group or others can reach.
    /// Throws `readableByOthers` or `foreign`.
    func requirePrivate() throws(IdentityFailure) {
        do {
            try file.requirePrivate()
        } catch {
            throw Self.failure(path, error)
        }
    }

    /// The first line, which is what a passphrase file holds; later lines are ignored, as by
    /// openssl's `file:` source (openssl-passphrase-options(1)).
    var firstLine: String {
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
        let end = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
        return String(decoding: end, as: UTF8.self)
    }

    /// Whether the bytes contain an ASCII text.
    package func contains(_ text: String) -> Bool {
        bytes.firstRange(of: Array(text.utf8)) != nil
    }

    private static func failure(_ path: String, _ refusal: GuardedFile.Refusal) -> IdentityFailure {
        switch refusal {
        case .missing:
            return IdentityFailure(
                .missing, "opening \(path): no such file; check the path in the settings")
        case .tooLarge:
            return IdentityFailure(
                .malformed, "reading \(path): over 1 MiB, so not a certificate or key file")
        case .openToOthers(let mode):
            return IdentityFailure(
                .readableByOthers(mode: mode),
                "reading \(path): it holds a secret and has mode 0\(String(mode, radix: 8)), open "
                    + "to other users; run chmod 600 on it")
        case .foreign(let owner):
            return IdentityFailure(
                .foreign(owner: owner), "reading \(path): \(refusal.sentence ?? "")")
        case .notRegular:
            return IdentityFailure(.unreadable, "opening \(path): \(refusal.sentence ?? "")")
        case .denied:
            return IdentityFailure(
                .unreadable, "opening \(path): permission denied; check its owner and mode")
        case .failed(let error):
            return IdentityFailure(
                .unreadable,
                "opening \(path): \(TransportFailure.systemMessage(error)); check its owner and mode"
            )
        }
    }
}
