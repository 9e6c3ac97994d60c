// The state folder holds what must not be lost (captured feeds) and what must not be seen (whole
// tokens), so it belongs to one user, mode 0700. The kernel lock on a file in it keeps two runs on
// one host apart: a gateway forgets its list once read, so two readers would each get half of it.
// A kernel lock vanishes with its process, however that ends; a pid file would stay behind.

import Foundation
import Glibc

/// The folder of the local state, held by this process alone unless it is a visitor's.
package final class StateFolder {
    /// Free bytes below which no feed is opened: what is read must fit.
    package static let roomNeeded: UInt64 = 64 << 20

    /// The absolute path of the folder.
    package let path: String
    private let lock: Int32?

    /// Creates the folder where it is missing and takes the lock of this host.
    ///
    /// - Throws: `locked` when another run holds it, `cannotCreate`, or `permission` when others
    ///   can look into the folder.
    package init(_ path: String) throws(JournalFailure) {
        self.path = path
        try Self.create(path)
        try Self.checkMode(of: path)
        lock = try Self.takeLock(in: path)
        // SQLite sorts large feeds in temporary files; tokens must not leave this folder.
        setenv("SQLITE_TMPDIR", path, 1)
    }

    /// Visits the folder of a sender that may be alive: for what is held in it, which its owner
    /// leaves alone. Whoever visits holds the lock of the folder above.
    ///
    /// - Throws: `permission` when others can look into the folder.
    init(visiting path: String) throws(JournalFailure) {
        self.path = path
        try Self.checkMode(of: path)
        lock = nil
    }

    /// Whether somebody else may be at work in it.
    package var isVisited: Bool { lock == nil }

    /// Whether there is a journal in it.
    package var hasJournal: Bool { access(file(Self.journalName), F_OK) == 0 }

    deinit {
        guard let lock else { return }
        // A child that another thread is just starting holds the file open until it runs another
        // program, so closing it here would not end the lock.
        flock(lock, LOCK_UN)
        close(lock)
    }

    /// The path of a file in the folder.
    package func file(_ name: String) -> String { path + "/" + name }

    /// Makes sure that the disk has room for a feed before one is opened.
    ///
    /// - Throws: `cannotCreate` when less than 64 MiB are free.
    package func ensureRoom() throws(JournalFailure) {
        var facts = statvfs()
        guard statvfs(path, &facts) == 0 else {
            throw JournalFailure(
                .inputOutput, "asking for the free space of \(path): \(Self.lastError())")
        }
        let free = UInt64(facts.f_bavail) * UInt64(facts.f_frsize)
        guard free >= Self.roomNeeded else {
            throw JournalFailure(
                .cannotCreate,
                "the state folder \(path) has \(free >> 20) MiB free and needs "
                    + "\(Self.roomNeeded >> 20) MiB before a feed is opened; free disk space")
        }
    }

    /// Makes a file that only its owner may read, before SQLite would make one that follows the
    /// umask; what SQLite lays beside it (a rollback journal) gets the same mode.
    ///
    /// - Returns: the first 100 bytes of the file, fewer where there are fewer.
    func makePrivate(_ name: String) throws(JournalFailure) -> [UInt8] {
        let path = file(name)
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw JournalFailure(
                .cannotCreate,
                "opening \(path): \(Self.lastError()); check owner, mode and mount of the folder")
        }
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else {
            throw JournalFailure(
                .permission,
                "setting the mode of \(path) to 600: \(Self.lastError()); it must belong to this "
                    + "user")
        }
        var header = [UInt8](repeating: 0, count: 100)
        let count = header.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count >= 0 else {
            throw JournalFailure(
                .inputOutput, "reading \(path): \(Self.lastError()); check the disk")
        }
        return Array(header[..<count])
    }

    /// Makes a folder for its owner alone, where there is none.
    static func create(_ path: String) throws(JournalFailure) {
        let parent = (path as NSString).deletingLastPathComponent
        if !parent.isEmpty, access(parent, F_OK) != 0 { try create(parent) }
        // Foundation makes a folder first and sets its mode then; another run that starts at this
        // moment would see it open to others.
        if mkdir(path, 0o700) == 0 { return try syncNames(in: parent.isEmpty ? "." : parent) }
        let cause = errno
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder),
            isFolder.boolValue
        else {
            errno = cause
            throw JournalFailure(
                .cannotCreate,
                "creating the state folder \(path): \(lastError()); name another in state: or "
                    + "create it for this user with mode 0700")
        }
        // Until it has a name of its own nobody knows whether the run that made it came to sync it.
        if access("\(path)/\(identityName)", F_OK) != 0 {
            try syncNames(in: parent.isEmpty ? "." : parent)
        }
    }

    /// Makes the names in a folder durable. A file that was synced is gone with the next power cut all
    /// the same unless its name was synced too, and so is a folder with all in it (fsync(2)).
    ///
    /// - Throws: `inputOutput`.
    static func syncNames(in folder: String) throws(JournalFailure) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        // One that may be passed through and not be read is somebody else's to keep.
        if descriptor < 0 && errno == EACCES { return }
        defer { if descriptor >= 0 { close(descriptor) } }
        // Some file systems have nothing to sync here and say so.
        guard descriptor >= 0, fsync(descriptor) == 0 || errno == EINVAL else {
            throw JournalFailure(
                .inputOutput, "syncing the folder \(folder): \(lastError()); check the disk")
        }
    }

    private static func checkMode(of path: String) throws(JournalFailure) {
        var facts = stat()
        guard stat(path, &facts) == 0 else {
            throw JournalFailure(.permission, "looking at the state folder \(path): \(lastError())")
        }
        guard facts.st_mode & 0o077 == 0 else {
            throw JournalFailure(
                .permission,
                "the state folder \(path) has mode \(String(facts.st_mode & 0o777, radix: 8)) and "
                    + "holds device tokens; run: chmod 700 \(path)")
        }
    }

    private static func takeLock(in path: String) throws(JournalFailure) -> Int32 {
        let file = path + "/lock"
        let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw JournalFailure(.cannotCreate, "opening the lock \(file): \(lastError())")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let cause = errno
            close(descriptor)
            guard cause == EWOULDBLOCK else {
                throw JournalFailure(
                    .inputOutput, "locking \(file): \(String(cString: strerror(cause)))")
            }
            throw JournalFailure(
                .locked,
                "another run holds \(file); wait for it, or look for a stuck one with: fuser "
                    + file)
        }
        return descriptor
    }

    private static func lastError() -> String { String(cString: strerror(errno)) }
}
