import Encodings
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
    /// All of its bytes.
    package let bytes: [UInt8]
    private let mode: UInt32
    private let owner: UInt32

    /// Reads a file without a secret, of at most `limit` bytes.
    package static func read(_ path: String, limit: Int) throws(IdentityFailure) -> GuardedFile {
        try read(path, limit: limit) { _, _ throws(IdentityFailure) in }
    }

    /// Reads a file with a secret, of at most `limit` bytes.
    package static func readSecret(_ path: String, limit: Int) throws(IdentityFailure)
        -> GuardedFile
    {
        try read(path, limit: limit) { file, _ throws(IdentityFailure) in try file.requirePrivate()
        }
    }

    /// Reads a file that decides what is done, of at most `limit` bytes: only root and this user may
    /// change it, or put another in its place.
    package static func readDeciding(_ path: String, limit: Int) throws(IdentityFailure)
        -> GuardedFile
    {
        try ensureRegular(path)
        // First the way, then the file: where nobody else may change the way, it leads to the same file.
        try ChangeRights.check(path)
        return try read(path, limit: limit) { file, descriptor throws(IdentityFailure) in
            try ChangeRights.check(path, open: descriptor, owner: file.owner, mode: file.mode)
        }
    }

    /// Checks that a file which a library opens by its path is a regular one.
    package static func ensureRegular(_ path: String) throws(IdentityFailure) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw .system(errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
    }

    /// Refuses a file with a secret that belongs to another user, or that group or others can
    /// access.
    package func requirePrivate() throws(IdentityFailure) {
        guard owner == geteuid() || owner == 0 else {
            throw IdentityFailure(
                "it holds a secret and belongs to user \(UserName.of(owner)); "
                    + "a secret must belong to the user of the run or to root: "
                    + UserName.cure(by: owner, else: "chown \(UserName.of(geteuid())) on it"),
                .access)
        }
        guard mode & 0o077 == 0 else {
            throw IdentityFailure(
                "it holds a secret, and others may read it (mode 0\(String(mode & 0o7777, radix: 8))); "
                    + "give it mode 0600 and, if the secret may have been seen, a new secret",
                .access)
        }
    }

    private static func read(
        _ path: String, limit: Int, _ check: (GuardedFile, Int32) throws(IdentityFailure) -> Void
    ) throws(IdentityFailure) -> GuardedFile {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw .system(errno) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw .system(errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        try check(
            GuardedFile(bytes: [], mode: facts.st_mode, owner: facts.st_uid), descriptor)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .system(errno) }
            if count == 0 { break }
            bytes += buffer[..<count]
            guard bytes.count <= limit else {
                throw IdentityFailure(
                    "it is larger than \(limit >> 10) KiB; check that this is the right file")
            }
        }
        return GuardedFile(bytes: bytes, mode: facts.st_mode, owner: facts.st_uid)
    }
}

/// The problem and the next action, to follow the name of the file.
extension IdentityFailure {
    fileprivate static let missing = IdentityFailure(
        "there is no such file; create it or correct the path")
    fileprivate static let notRegular = IdentityFailure(
        "it is not a regular file; give the file itself", .kind)

    fileprivate static func system(_ error: Int32) -> IdentityFailure {
        switch error {
        case ENOENT, ENOTDIR: missing
        case EACCES, EPERM:
            IdentityFailure("this user may not read it; change its owner or mode", .access)
        default: IdentityFailure("\(TransportFailure.systemMessage(error)); check the path", .kind)
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

    /// Reads a file of at most 1 MiB; whether it is a secret shows its content.
    package static func read(_ path: String) throws(IdentityFailure) -> CredentialFile {
        do {
            return CredentialFile(path: path, file: try GuardedFile.read(path, limit: largest))
        } catch {
            throw error.opening(path)
        }
    }

    /// Refuses a file with a secret that belongs to another user, or that group or others can
    /// access.
    func requirePrivate() throws(IdentityFailure) {
        do {
            try file.requirePrivate()
        } catch {
            throw error.opening(path)
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
}

// Settings name a command that runs as the user of the run, often root. Who may change the settings, or
// exchange the file by changing names in a folder on the way to it, decides what this user does. So for
// such a file, and for each folder above it, the rule of sshd(8) for its own files holds:
//
//   owner   root or the user of the run
//   mode    not writable by group or others. A folder with the sticky bit may be, as /tmp is: there only
//           the owner of an entry may rename or remove it
//
// The path is walked name by name, as the kernel does: each folder on the way is checked, also between
// two links. In a folder with the sticky bit the owner of a link counts as well, who may exchange it.
//
// What is mounted read-only is taken as it is: nobody can change it here, and a volume of settings in a
// container has the modes of its host.

/// Who may change a file that decides what is done.
package enum ChangeRights {
    /// As the kernel, path_resolution(7).
    private static let mostLinks = 40

    /// Refuses a file that a user other than root and this one may change or exchange.
    ///
    /// The folders before a name that is missing were checked.
    package static func check(_ path: String) throws(IdentityFailure) {
        let whole = path.utf8.first == UInt8(ascii: "/") ? path : workingDirectory + "/" + path
        var names = Array(names(of: whole).reversed())
        var place = ""
        var links = 0
        try check("/", facts(of: "/"), isFolder: true)
        while let name = names.popLast() {
            if name.isExactly("..") {
                place = String(
                    place[..<(place.utf8.lastIndex(of: UInt8(ascii: "/")) ?? place.startIndex)])
                continue
            }
            let entry = place + "/" + name
            let facts = try facts(of: entry)
            guard facts.st_mode & S_IFMT == S_IFLNK else {
                let isFolder = facts.st_mode & S_IFMT == S_IFDIR
                guard isFolder || names.isEmpty else { throw .missing }
                try check(entry, facts, isFolder: isFolder && !names.isEmpty)
                place = entry
                continue
            }
            try check(link: entry, facts, in: place.isEmpty ? "/" : place)
            links += 1
            guard links <= mostLinks else { throw .system(ELOOP) }
            let target = try target(of: entry)
            if target.utf8.first == UInt8(ascii: "/") { place = "" }
            names += Self.names(of: target).reversed()
        }
    }

    /// Refuses an open file that a user other than root and this one may change.
    package static func check(
        _ path: String, open descriptor: Int32, owner: UInt32, mode: UInt32
    ) throws(IdentityFailure) {
        var system = statvfs()
        if fstatvfs(descriptor, &system) == 0, system.f_flag & UInt(ST_RDONLY) != 0 { return }
        try check("it", path, owner: owner, mode: mode)
    }

    private static var workingDirectory: String {
        guard let path = getcwd(nil, 0) else { return "" }
        defer { free(path) }
        return String(cString: path)
    }

    private static func names(of path: String) -> [String] {
        // As the kernel splits it: a slash with an accent behind it is one.
        path.utf8.split(separator: UInt8(ascii: "/")).map { String(Substring($0)) }.filter {
            !$0.isExactly(".")
        }
    }

    private static func facts(of place: String) throws(IdentityFailure) -> stat {
        var facts = stat()
        guard lstat(place, &facts) == 0 else { throw .system(errno) }
        return facts
    }

    private static func target(of link: String) throws(IdentityFailure) -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = readlink(link, &buffer, buffer.count)
        guard count >= 0 else { throw .system(errno) }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    private static func isReadOnly(_ place: String) -> Bool {
        var system = statvfs()
        return statvfs(place, &system) == 0 && system.f_flag & UInt(ST_RDONLY) != 0
    }

    /// In a folder with the sticky bit the owner of a link may exchange it; the folder's own rights were
    /// checked before.
    private static func check(
        link: String, _ facts: stat, in folder: String
    ) throws(IdentityFailure) {
        let mode = try Self.facts(of: folder).st_mode
        guard mode & 0o022 != 0, !isReadOnly(folder), !isTrusted(facts.st_uid) else { return }
        throw IdentityFailure(
            "the link \(link) on the way to it belongs to user \(facts.st_uid), who could have a command "
                + "run as user \(geteuid()); name the file itself, or as root run: chown -h root "
                + link.shellWord, .changeable)
    }

    private static func check(
        _ place: String, _ facts: stat, isFolder: Bool
    ) throws(IdentityFailure) {
        guard !isReadOnly(place) else { return }
        // In a folder with the sticky bit only the owner of an entry may exchange it.
        let isSticky = isFolder && facts.st_mode & S_ISVTX != 0
        try check(
            isFolder ? "the folder \(place) above it" : "it", place, owner: facts.st_uid,
            mode: isSticky ? facts.st_mode & ~0o022 : facts.st_mode)
    }

    private static func isTrusted(_ owner: UInt32) -> Bool { owner == 0 || owner == geteuid() }

    private static func check(
        _ what: String, _ place: String, owner: UInt32, mode: UInt32
    ) throws(IdentityFailure) {
        guard isTrusted(owner) else {
            throw IdentityFailure(
                "\(what) belongs to user \(owner), who could have a command run as user "
                    + "\(geteuid()); \(UserName.cure(by: owner, else: "chown root \(place.shellWord)"))"
                    + (geteuid() == 0 ? ", or run: chown root \(place.shellWord)" : ""), .changeable
            )
        }
        guard mode & 0o022 != 0 else { return }
        throw IdentityFailure(
            "\(what) may be changed by other users (mode 0\(String(mode & 0o7777, radix: 8))), who could have a "
                + "command run as user \(geteuid()); look whether it is as you wrote it, then run: "
                + "chmod go-w \(place.shellWord)", .changeable)
    }
}
