// The state folder holds data that must not be lost (captured lists) and data that must not be seen
// (whole tokens), so it belongs to one user, mode 0700. The kernel lock on a file in it keeps two
// runs on one host apart. A gateway forgets its list once read, so two readers would each get half of
// it. A kernel lock disappears with its process, however the process ends; a pid file would stay
// behind.

import FoundationEssentials
import Glibc

/// The folder of the local state. This process alone holds it, unless it is visited.
package final class StateFolder {
    /// Free bytes on the disk below which no list is opened, because the list must fit.
    package static let roomNeeded: UInt64 = 64 << 20

    /// The absolute path of the folder, as the settings give it.
    package var path: String { folder.path }
    /// The open folder. Everything in it is opened through this folder.
    let folder: PrivateFolder
    private let lock: Int32?

    /// Creates the folder if it is missing and takes the lock of this host.
    ///
    /// - Throws: `locked` when another run holds it, `cannotCreate`, or `permission` when other users
    ///   can read or change the folder's content.
    package convenience init(_ path: String) throws(JournalFailure) {
        try self.init(Self.made(path))
    }

    /// The same for a folder directly inside another.
    package convenience init(_ name: String, in parent: StateFolder) throws(JournalFailure) {
        try self.init(Self.made(name, in: parent.folder))
    }

    /// Takes the lock of an open folder.
    init(_ folder: PrivateFolder) throws(JournalFailure) {
        self.folder = folder
        lock = try Self.takeLock(in: folder)
        // SQLite sorts large lists in temporary files. Tokens must not leave this folder.
        setenv("SQLITE_TMPDIR", folder.realPath, 1)
        // SQLite takes the name of such a file away at once. A process killed right before that
        // leaves an empty file, which nothing else would ever remove. Neither would anything remove the tokens
        // that a killed run had sorted.
        for name in (try? folder.entries) ?? []
        where name.hasPrefix("etilqs_") || name.hasPrefix("scratch") {
            unlinkat(folder.descriptor, name, 0)
        }
    }

    /// Visits the folder of a sender that may be alive, to read the held lists in it, which its owner
    /// does not change. The visiting process holds the lock of the folder above.
    init(visiting folder: PrivateFolder) {
        self.folder = folder
        lock = nil
    }

    /// Checks a state folder as a run would, but takes no lock and creates nothing. For a folder that
    /// does not exist yet, it checks the existing part of the path.
    ///
    /// - Throws: `permission` when other users can read or change the folder's content, with the
    ///   command that fixes it; `cannotCreate` when the path is not a folder.
    package static func examine(_ path: String) throws(JournalFailure) {
        guard try exists(path) else { return try ParentFolders.check(toNew: path) }
        let folder = try PrivateFolder(path)
        let lists = try StateFolder(visiting: folder).listNames
        for name in ["lock", identityName, databaseName, journalName] + lists {
            try folder.check(name)
        }
    }

    /// Whether there is a state folder. It is absent only where this user could have seen it: one that a
    /// folder above hides may hold anything, such as an open hold.
    ///
    /// - Throws: `permission` where a folder above hides it; `cannotCreate` for a link that leads
    ///   nowhere, or when the system cannot tell.
    package static func exists(_ path: String) throws(JournalFailure) -> Bool {
        var facts = stat()
        if stat(path, &facts) == 0 { return true }
        let cause = errno
        // A link without a target may be the way to a volume that is not mounted.
        guard cause == ENOENT, lstat(path, &facts) != 0 else {
            throw PrivateFolder.failure(path, cause)
        }
        return false
    }

    /// Makes a state folder if there is none, and checks an existing one as a run would.
    ///
    /// - Throws: the same as taking the folder, but never `locked`.
    package static func make(_ path: String) throws(JournalFailure) { _ = try made(path) }

    /// Opens a file of a state folder that another run may hold, and creates the file if it is
    /// missing. The caller closes it.
    ///
    /// - Throws: `permission` as taking the folder does, and for a file that is a link or belongs to
    ///   another user; `cannotCreate`.
    package static func open(_ name: String, in path: String) throws(JournalFailure) -> Int32 {
        try PrivateFolder(path).open(name, O_RDWR | O_CREAT)
    }

    /// Whether this process has no lock on the folder, so that another process may use it.
    package var isVisited: Bool { lock == nil }

    /// Whether a run holds the lock of a visited folder now.
    package var isHeld: Bool {
        guard lock == nil, let file = try? folder.open("lock", O_RDONLY) else { return lock != nil }
        defer { close(file) }
        guard flock(file, LOCK_SH | LOCK_NB) == 0 else { return true }
        flock(file, LOCK_UN)
        return false
    }

    /// Whether the folder has a journal.
    package var hasJournal: Bool { folder.has(Self.journalName) }

    deinit {
        guard let lock else { return }
        // A child process that another thread is starting keeps the file open until it runs its
        // program. Closing the file here would not release the lock.
        flock(lock, LOCK_UN)
        close(lock)
    }

    /// The path of a file in the folder, for messages.
    package func file(_ name: String) -> String { path + "/" + name }

    /// The path of a file in the folder without links, for code that opens it by path.
    func realFile(_ name: String) -> String { folder.realPath + "/" + name }

    /// Checks that the disk has room for a list, before one is opened and while it is written.
    ///
    /// - Throws: `cannotCreate` when less than 64 MiB are free.
    package func ensureRoom() throws(JournalFailure) { try folder.ensureRoom() }

    /// Creates a file that only its owner may read, before SQLite would create one with the umask.
    /// SQLite gives the files beside it, such as the rollback journal, the same mode. Existing files
    /// beside it are checked too, since SQLite opens them as well.
    ///
    /// - Returns: at most the first 100 bytes of the file.
    /// - Throws: `permission` when the file, or one beside it, is a link or belongs to another user.
    func makePrivate(_ name: String) throws(JournalFailure) -> [UInt8] {
        let path = file(name)
        for ending in ["-journal", "-wal", "-shm"] { try folder.check(name + ending) }
        let descriptor = try folder.open(name, O_RDWR | O_CREAT)
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else {
            throw JournalFailure(
                .permission, "setting the mode of \(path) to 600", errno,
                "it must belong to this user")
        }
        var header = [UInt8](repeating: 0, count: 100)
        let count = header.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count >= 0 else {
            throw JournalFailure(.inputOutput, "reading \(path)", errno)
        }
        return Array(header[..<count])
    }

    /// Opens a folder; creates it for its owner alone if it is missing.
    static func made(_ path: String) throws(JournalFailure) -> PrivateFolder {
        if try !exists(path) { try ParentFolders.check(toNew: path) }
        try create(path)
        let folder = try PrivateFolder(path)
        // Until the folder has an identity file, the run that created the folder may have ended
        // before the sync.
        if !folder.has(identityName) { try syncNames(in: path.parentPath) }
        return folder
    }

    /// The same for a folder directly inside another.
    static func made(
        _ name: String, in parent: PrivateFolder
    ) throws(JournalFailure) -> PrivateFolder {
        if mkdirat(parent.descriptor, name, 0o700) != 0, errno != EEXIST {
            throw JournalFailure(
                .cannotCreate, "creating the folder \(parent.path)/\(name)", errno,
                "check owner, mode and mount of \(parent.path)")
        }
        let folder = try PrivateFolder(name, in: parent)
        if !folder.has(identityName) { try parent.sync() }
        return folder
    }

    private static func create(_ path: String) throws(JournalFailure) {
        let parent = path.parentPath
        if access(parent, F_OK) != 0 { try create(parent) }
        // Foundation creates a folder first and sets its mode afterwards. A run that starts in
        // between would see it open to others.
        if mkdir(path, 0o700) == 0 { return try syncNames(in: parent) }
        let cause = errno
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR else {
            throw JournalFailure(
                .cannotCreate, "creating the state folder \(path)", cause,
                "name another in state: or create it for this user with mode 0700")
        }
    }

    /// Makes the names in a folder durable, which need not be private.
    ///
    /// - Throws: `inputOutput`.
    static func syncNames(in folder: String) throws(JournalFailure) {
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        // A folder that this user may pass but not read belongs to another user, who must sync it.
        if descriptor < 0 && errno == EACCES { return }
        defer { if descriptor >= 0 { close(descriptor) } }
        try PrivateFolder.sync(descriptor, folder)
    }

    private static func takeLock(in folder: PrivateFolder) throws(JournalFailure) -> Int32 {
        let file = folder.path + "/lock"
        let descriptor = try folder.open("lock", O_RDWR | O_CREAT)
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let cause = errno
            close(descriptor)
            guard cause == EWOULDBLOCK else {
                throw JournalFailure(.inputOutput, "locking \(file)", cause, nil)
            }
            throw JournalFailure(
                .locked,
                "another run holds \(file); wait for it, or look for a stuck one with: fuser "
                    + file)
        }
        return descriptor
    }
}
