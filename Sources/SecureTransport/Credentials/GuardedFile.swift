import Glibc

// Every file with a secret, and every other file that settings name, is read here: password, passphrase,
// client key, token key, certificates, the settings themselves.
//
// A link to a file is followed, since Kubernetes, systemd and package managers hand out secrets through
// links; what counts is the file that is opened in the end, and everything is asked of its open descriptor,
// because between a look by name and a read by name it could be exchanged:
//
//   kind    a regular file: a pipe would make the run wait for a writer, a device may never end
//   size    bounded by what such a file can be
//   owner   for a secret, this user or root: who owns a file decides what it says and who else reads it
//   mode    for a secret, nothing for group and others (mode & 077 = 0), as ssh(1) asks of its keys

/// A file as its open descriptor showed it.
package struct GuardedFile: Sendable {
    /// Why a file cannot be used.
    package enum Refusal: Error, Equatable, Sendable {
        /// There is none.
        case missing
        /// This user may not read it.
        case denied
        /// It is a folder, a pipe, a socket or a device.
        case notRegular
        /// It is larger than so many bytes.
        case tooLarge(Int)
        /// It holds a secret, and others may read or change it; its permission bits.
        case openToOthers(mode: UInt32)
        /// It holds a secret, and belongs to this user number.
        case foreign(owner: UInt32)
        /// The system's number of another error.
        case failed(Int32)
    }

    /// All that is in it.
    package let bytes: [UInt8]
    private let mode: UInt32
    private let owner: UInt32

    /// Reads a file that holds no secret, of at most so many bytes.
    package static func read(_ path: String, limit: Int) throws(Refusal) -> GuardedFile {
        try read(path, limit: limit) { _ throws(Refusal) in }
    }

    /// Reads a file that holds a secret.
    package static func readSecret(_ path: String, limit: Int) throws(Refusal) -> GuardedFile {
        try read(path, limit: limit) { file throws(Refusal) in try file.requirePrivate() }
    }

    /// Makes sure that a file which a library opens by its path is a regular one.
    package static func ensureRegular(_ path: String) throws(Refusal) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw refusal(errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
    }

    /// Refuses a file with a secret that is somebody else's, or that group or others can reach.
    package func requirePrivate() throws(Refusal) {
        guard owner == geteuid() || owner == 0 else { throw .foreign(owner: owner) }
        guard mode & 0o077 == 0 else { throw .openToOthers(mode: mode & 0o7777) }
    }

    private static func read(
        _ path: String, limit: Int, _ check: (GuardedFile) throws(Refusal) -> Void
    ) throws(Refusal) -> GuardedFile {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw refusal(errno) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw refusal(errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        try check(GuardedFile(bytes: [], mode: facts.st_mode, owner: facts.st_uid))
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
    /// What is wrong and what to do, after the words that name the file; nil for what each caller says in
    /// words of its own: that it is missing, may not be read, is too large, or is open to others.
    package var sentence: String? {
        switch self {
        case .notRegular: "it is not a regular file; give the file itself"
        case .foreign(let owner):
            "it holds a secret and belongs to user \(owner); a secret must belong to the user of the run "
                + "or to root: run chown \(geteuid()) on it, or run as its owner"
        case .failed(let error): "\(TransportFailure.systemMessage(error)); check the path"
        case .missing, .denied, .tooLarge, .openToOthers: nil
        }
    }
}

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
