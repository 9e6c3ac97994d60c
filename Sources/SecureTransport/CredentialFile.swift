import Glibc

/// The bytes of a certificate, key or passphrase file with its permissions, both taken from one
/// open descriptor: between a check by name and a read by name the file could be exchanged.
struct CredentialFile {
    let path: String
    let bytes: [UInt8]
    /// Permission bits.
    private let mode: UInt32

    /// Chains with several certificates take some ten kilobytes; a file past this is a mistake.
    private static let largest = 1 << 20

    /// Reads the file. Throws `missing`, `unreadable` or `malformed` (too large).
    static func read(_ path: String) throws(IdentityFailure) -> CredentialFile {
        // O_NONBLOCK: a named pipe must not hang the run.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else {
            let error = errno
            if error == ENOENT || error == ENOTDIR {
                throw IdentityFailure(
                    .missing, "opening \(path): no such file; check the path in the settings")
            }
            throw unreadable(path, error)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw unreadable(path, errno)
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw IdentityFailure(
                .unreadable, "opening \(path): it is not a regular file; give the file itself")
        }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16384)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 {
                break
            }
            guard count > 0 else {
                if errno == EINTR {
                    continue
                }
                throw unreadable(path, errno)
            }
            bytes += chunk[..<count]
            guard bytes.count <= largest else {
                throw IdentityFailure(
                    .malformed, "reading \(path): over 1 MiB, so not a certificate or key file")
            }
        }
        return CredentialFile(path: path, bytes: bytes, mode: status.st_mode & 0o7777)
    }

    /// Refuses a file with a secret that group or others can reach, as ssh(1) does with its keys.
    /// Throws `readableByOthers`.
    func requirePrivate() throws(IdentityFailure) {
        guard mode & 0o077 == 0 else {
            throw IdentityFailure(
                .readableByOthers(mode: mode),
                "reading \(path): it holds a secret and has mode 0\(String(mode, radix: 8)), open "
                    + "to other users; run chmod 600 on it")
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
    func contains(_ text: String) -> Bool {
        bytes.firstRange(of: Array(text.utf8)) != nil
    }

    private static func unreadable(_ path: String, _ error: Int32) -> IdentityFailure {
        IdentityFailure(
            .unreadable,
            "opening \(path): \(TransportFailure.systemMessage(error)); check its owner and mode")
    }
}
