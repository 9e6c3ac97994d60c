import Glibc

// Reads every file with a secret and every other file that settings name: password, passphrase,
// client key, token key, certificates, the settings themselves.
//
// A link to a file is followed, because Kubernetes, systemd and package managers provide secrets
// through links. All checks use the open descriptor, because the file could be replaced between a
// check by name and a read by name:
//
//   kind    a regular file: a read of a pipe would wait for a writer, a device may never end
//   size    at most the size of such a file
//   owner   for a secret, this user or root: the owner controls the content and the other readers
//   mode    for a secret, no access for group and others (mode & 077 = 0), as ssh(1) requires for keys
//
// A file that names commands or decisions needs the opposite check: who may change it may run a command
// as this user. `ChangeRights` looks at the file and at the folders on the way to it.

/// The content of a file, with the owner and mode of its open descriptor.
package struct GuardedFile: Sendable {
    /// The reason why a file cannot be used.
    package enum Refusal: Error, Equatable, Sendable {
        /// The file does not exist.
        case missing
        /// This user may not read it.
        case denied
        /// It is a folder, a pipe, a socket or a device.
        case notRegular
        /// It has more than this number of bytes.
        case tooLarge(Int)
        /// It has a secret, and others may read or change it; its permission bits.
        case openToOthers(mode: UInt32)
        /// It has a secret, and belongs to this user number.
        case foreign(owner: UInt32)
        /// It decides what is done, and others may change it: what is wrong, and the cure.
        case changeable(String)
        /// The errno of another error.
        case failed(Int32)
    }

    /// All of its bytes.
    package let bytes: [UInt8]
    private let mode: UInt32
    private let owner: UInt32

    /// Reads a file without a secret, of at most `limit` bytes.
    package static func read(_ path: String, limit: Int) throws(Refusal) -> GuardedFile {
        try read(path, limit: limit) { _, _ throws(Refusal) in }
    }

    /// Reads a file with a secret, of at most `limit` bytes.
    package static func readSecret(_ path: String, limit: Int) throws(Refusal) -> GuardedFile {
        try read(path, limit: limit) { file, _ throws(Refusal) in try file.requirePrivate() }
    }

    /// Reads a file that decides what is done, of at most `limit` bytes: only root and this user may
    /// change it, or put another in its place.
    package static func readDeciding(_ path: String, limit: Int) throws(Refusal) -> GuardedFile {
        try ensureRegular(path)
        // First the way, then the file: where nobody else may change the way, it leads to the same file.
        try ChangeRights.check(path)
        return try read(path, limit: limit) { file, descriptor throws(Refusal) in
            try ChangeRights.check(path, open: descriptor, owner: file.owner, mode: file.mode)
        }
    }

    /// Checks that a file which a library opens by its path is a regular one.
    package static func ensureRegular(_ path: String) throws(Refusal) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw refusal(errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
    }

    /// Refuses a file with a secret that belongs to another user, or that group or others can
    /// access.
    package func requirePrivate() throws(Refusal) {
        guard owner == geteuid() || owner == 0 else { throw .foreign(owner: owner) }
        guard mode & 0o077 == 0 else { throw .openToOthers(mode: mode & 0o7777) }
    }

    private static func read(
        _ path: String, limit: Int, _ check: (GuardedFile, Int32) throws(Refusal) -> Void
    ) throws(Refusal) -> GuardedFile {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw refusal(errno) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw refusal(errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        try check(
            GuardedFile(bytes: [], mode: facts.st_mode, owner: facts.st_uid), descriptor)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw refusal(errno) }
            if count == 0 { break }
            bytes += buffer[..<count]
            guard bytes.count <= limit else { throw .tooLarge(limit) }
        }
        return GuardedFile(bytes: bytes, mode: facts.st_mode, owner: facts.st_uid)
    }

    private static func refusal(_ error: Int32) -> Refusal {
        switch error {
        case ENOENT, ENOTDIR: .missing
        case EACCES, EPERM: .denied
        default: .failed(error)
        }
    }
}

extension GuardedFile.Refusal {
    /// The problem and the next action, to follow the name of the file. Nil where each caller has
    /// its own message: for a file that is missing, denied, too large, or open to others.
    package var sentence: String? {
        switch self {
        case .notRegular: "it is not a regular file; give the file itself"
        case .foreign(let owner):
            "it holds a secret and belongs to user \(owner); a secret must belong to the user of the run "
                + "or to root: run chown \(geteuid()) on it, or run as its owner"
        case .failed(let error): "\(TransportFailure.systemMessage(error)); check the path"
        case .changeable(let sentence): sentence
        case .missing, .denied, .tooLarge, .openToOthers: nil
        }
    }
}

/// The bytes of a certificate, key or passphrase file, read with the checks of `GuardedFile`.
package struct CredentialFile {
    let path: String
    private let file: GuardedFile
    /// All of its bytes.
    package var bytes: [UInt8] { file.bytes }

    /// The most bytes. Chains with several certificates have some ten kilobytes.
    private static let largest = 1 << 20

    /// Reads the file. Throws `missing`, `unreadable` or `malformed` (too large).
    package static func read(_ path: String) throws(IdentityFailure) -> CredentialFile {
        do {
            return CredentialFile(path: path, file: try GuardedFile.read(path, limit: largest))
        } catch {
            throw failure(path, error)
        }
    }

    /// Refuses a file with a secret that belongs to another user, or that group or others can
    /// access. Throws `readableByOthers` or `foreign`.
    func requirePrivate() throws(IdentityFailure) {
        do {
            try file.requirePrivate()
        } catch {
            throw Self.failure(path, error)
        }
    }

    /// The first line, which is the passphrase in a passphrase file; later lines are ignored, as by
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
        case .notRegular, .changeable:
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
