// When root runs on a folder that another user can change, that user decides where root writes: a
// link `journal.sqlite` to /etc/shadow is enough. So nothing in a state folder is opened before the
// folder is known to belong to this user alone. Everything in it is opened through the descriptor of
// that same folder:
//
//   the way to it   links in the path are resolved once; every folder on the way belongs to root or to
//                   this user, so that no other user can put another folder in its place
//   the folder      belongs to this user, mode 0700
//   a file in it    a regular file of this user with exactly one name, never a link, never a pipe
//
// SQLite opens its files by their paths, after we have checked them. Between the two, a file could be
// exchanged only by a user who may change names in the folder: this user and root. The resolved path
// cannot lead to another folder either, since only these two may change names on the way. One gap
// remains: a folder on the way that all users may write to and that has no sticky bit (/tmp has it:
// 1777). There another user can move the whole state folder aside; operating.md says to choose
// another place.

import Encodings
import FoundationEssentials
import Glibc

/// An open folder that belongs to this user alone.
final class PrivateFolder: Sendable {
    /// The path as the settings give it, for messages.
    let path: String
    /// The path without links, for code that opens files by path.
    let realPath: String
    /// The descriptor of the open folder.
    let descriptor: Int32

    /// Opens a folder. The path may be a link; the checks apply to its target.
    ///
    /// - Throws: `permission` when another user can change the folder's content or the way to it;
    ///   `cannotCreate` when the folder does not exist.
    init(_ path: String) throws(JournalFailure) {
        self.path = path
        guard let real = ParentFolders.resolved(path) else { throw Self.failure(path, errno) }
        realPath = real
        try ParentFolders.check(to: path, real)
        descriptor = Glibc.open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(path, errno) }
        // A throw after this line runs deinit, which closes the folder.
        try checkOwner()
    }

    /// Opens a folder directly inside another; a link is refused.
    ///
    /// - Throws: the same as opening by path.
    init(_ name: String, in parent: PrivateFolder) throws(JournalFailure) {
        path = parent.path + "/" + name
        realPath = parent.realPath + "/" + name
        descriptor = openat(
            parent.descriptor, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(path, errno, inside: true) }
        try checkOwner()
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Whether the folder has an entry of this name; a link counts.
    func has(_ name: String) -> Bool {
        var facts = stat()
        return fstatat(descriptor, name, &facts, AT_SYMLINK_NOFOLLOW) == 0
    }

    /// Whether the folder has a file of this name with content.
    func hasContent(_ name: String) -> Bool {
        var facts = stat()
        return fstatat(descriptor, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && facts.st_size > 0
    }

    /// When a file was last modified, in milliseconds since 1970; nil where there is none.
    func modified(_ name: String) -> Int64? {
        var facts = stat()
        guard fstatat(descriptor, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        let (seconds, overflows) = Int64(facts.st_mtim.tv_sec).multipliedReportingOverflow(
            by: 1_000)
        return overflows ? .max : seconds + Int64(facts.st_mtim.tv_nsec / 1_000_000)
    }

    /// Checks that the disk keeps its reserve when `bytes` more are written.
    ///
    /// - Throws: `cannotCreate` when less than 64 MiB would be free.
    func ensureRoom(for bytes: Int = 0) throws(JournalFailure) {
        var facts = statvfs()
        guard fstatvfs(descriptor, &facts) == 0 else {
            throw JournalFailure(
                .inputOutput, "asking for the free space of \(path)", errno, nil)
        }
        let free = UInt64(facts.f_bavail) * UInt64(facts.f_frsize)
        guard free >= StateFolder.roomNeeded + UInt64(bytes) else {
            throw JournalFailure(
                .cannotCreate,
                "the state folder \(path) has \(free >> 20) MiB free and needs "
                    + "\(StateFolder.roomNeeded >> 20) MiB beside what is read; free disk space")
        }
    }

    /// Opens a file in the folder, with the usual flags of open(2) except O_TRUNC, which would empty
    /// the file before it is checked. A new file gets mode 0600. The caller closes it.
    ///
    /// - Throws: `permission` unless it is a regular file of this user with one name; `cannotCreate`.
    func open(_ name: String, _ flags: Int32) throws(JournalFailure) -> Int32 {
        precondition(flags & O_TRUNC == 0, "a file is looked at before it is emptied")
        // O_NONBLOCK: opening a pipe must not wait. For a regular file it has no effect.
        let file = openat(
            descriptor, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0o600)
        guard file >= 0 else {
            let cause = errno
            try check(name)
            throw JournalFailure(
                .cannotCreate, "opening \(path)/\(name)", cause,
                "check owner, mode and mount of the folder")
        }
        var facts = stat()
        guard fstat(file, &facts) == 0 else {
            let cause = errno
            close(file)
            throw JournalFailure(.inputOutput, "looking at \(path)/\(name)", cause, nil)
        }
        do {
            try check(name, facts)
        } catch {
            close(file)
            throw error
        }
        return file
    }

    /// Checks a file that other code will open by its path. A missing file passes.
    ///
    /// - Throws: `permission`, as opening it does.
    func check(_ name: String) throws(JournalFailure) {
        var facts = stat()
        guard fstatat(descriptor, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        try check(name, facts)
    }

    /// The names in the folder, sorted.
    var entries: [String] {
        get throws(JournalFailure) {
            do {
                return try FileManager.default.contentsOfDirectory(atPath: realPath).sorted()
            } catch {
                throw JournalFailure(
                    .inputOutput, "listing the state folder \(path)", errno, "check the disk")
            }
        }
    }

    /// Makes the names in the folder durable.
    ///
    /// - Throws: `inputOutput`.
    func sync() throws(JournalFailure) { try Self.sync(descriptor, path) }

    /// Makes the names in an open folder durable. Even a synced file is lost in a power cut unless its
    /// name was synced too; the same holds for a folder with all its content (fsync(2)).
    ///
    /// - Throws: `inputOutput`.
    static func sync(_ descriptor: Int32, _ path: String) throws(JournalFailure) {
        // Some file systems cannot sync a folder and report EINVAL.
        guard descriptor >= 0, fsync(descriptor) == 0 || errno == EINVAL else {
            throw JournalFailure(.inputOutput, "syncing the folder \(path)", errno)
        }
    }

    private func check(_ name: String, _ facts: stat) throws(JournalFailure) {
        let file = "\(path)/\(name)"
        func refusal(_ cause: String) -> JournalFailure {
            JournalFailure(
                .permission,
                "opening \(file): it \(cause); nothing was read or written, find out who put it there "
                    + "and move it away")
        }
        guard facts.st_mode & S_IFMT == S_IFREG else {
            throw refusal(
                facts.st_mode & S_IFMT == S_IFLNK ? "is a link" : "is no regular file")
        }
        guard facts.st_uid == geteuid() else {
            throw JournalFailure(
                .permission,
                "opening \(file): it belongs to \(UserName.of(facts.st_uid)), and this run belongs to "
                    + "\(UserName.of(geteuid())); nothing was read or written: \(handOver(file))")
        }
        guard facts.st_nlink == 1 else {
            throw refusal("has \(facts.st_nlink) names, of which others may stand elsewhere")
        }
    }

    private func checkOwner() throws(JournalFailure) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw Self.failure(path, errno) }
        let mode = facts.st_mode & 0o777
        guard facts.st_uid == geteuid() else {
            throw JournalFailure(.permission, Self.foreign(path, facts.st_uid, mode))
        }
        guard mode & 0o077 == 0 else {
            throw JournalFailure(
                .permission,
                "the state folder \(path) has mode \(String(mode, radix: 8)) and holds device "
                    + "tokens; run: chmod 700 \(path.shellWord)")
        }
    }

    /// What makes a file of another user in this user's folder usable. Root is never told to take a
    /// whole folder, since the runs of its user could not go on then.
    private func handOver(_ file: String) -> String {
        guard geteuid() != 0 else {
            return "find out who put it there, then run: chown root \(file.shellWord)"
        }
        return "run as the user who owns the folder, or as root run: chown -R "
            + "\(UserName.of(geteuid()).shellWord) \(path.shellWord)"
    }

    private static func foreign(_ path: String, _ owner: uid_t, _ mode: mode_t) -> String {
        let cure = UserName.cure(
            by: owner,
            else: "chown -R \(UserName.of(geteuid()).shellWord) \(path.shellWord) && chmod 700 "
                + path.shellWord)
        return "the state folder \(path) belongs to \(UserName.of(owner)) (mode "
            + "\(String(mode, radix: 8))), and this run belongs to \(UserName.of(geteuid())); nothing was "
            + "read: \(cure)"
    }

    /// The failure to open a folder. When it belongs to another user, the failure names that user.
    static func failure(
        _ path: String, _ cause: Int32, inside isInside: Bool = false
    ) -> JournalFailure {
        var facts = stat()
        switch cause {
        // For a link the system reports ENOTDIR, not ELOOP.
        case _ where isInside && lstat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFLNK:
            return JournalFailure(
                .permission,
                "opening the state folder \(path): it is a link, and inside a state folder none is "
                    + "followed; move it away")
        case EACCES where stat(path, &facts) == 0 && facts.st_uid != geteuid():
            return JournalFailure(
                .permission, foreign(path, facts.st_uid, facts.st_mode & 0o777))
        case EACCES, EPERM, ELOOP:
            return JournalFailure(
                .permission, "looking at the state folder \(path)", cause,
                "let this user (\(UserName.of(geteuid()))) pass the folders above it, or name another "
                    + "in state:")
        default:
            return JournalFailure(
                .cannotCreate, "opening the state folder \(path)", cause,
                "name another in state: or create it for this user with mode 0700")
        }
    }
}

/// Checks of the folders above a state folder. The owner of one of them can put another folder in its
/// place.
enum ParentFolders {
    /// The path without links; nil with errno when a part of it is missing.
    static func resolved(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// Checks every folder above one that may not exist yet.
    ///
    /// - Throws: `permission` when one belongs to a user other than root and this user.
    static func check(toNew path: String) throws(JournalFailure) {
        var place = path
        while true {
            place = place.parentPath
            guard let real = resolved(place) else {
                if place == "/" || place == "." { return }
                continue
            }
            return try check(to: path, real == "/" ? "/x" : real + "/x")
        }
    }

    /// Checks every folder above a resolved path.
    ///
    /// - Throws: `permission` when one belongs to a user other than root and this user.
    static func check(to path: String, _ real: String) throws(JournalFailure) {
        var place = real
        while place != "/" {
            place = place.parentPath
            var facts = stat()
            // A folder that lstat cannot reach cannot be passed either; opening reports that.
            guard lstat(place, &facts) == 0 else { continue }
            guard facts.st_uid == 0 || facts.st_uid == geteuid() else {
                throw JournalFailure(
                    .permission,
                    "the state folder \(path) lies in \(place), which belongs to "
                        + "\(UserName.of(facts.st_uid)), who could put another in its place; nothing "
                        + "was read: name a folder elsewhere in state:, or "
                        + UserName.cure(by: facts.st_uid, else: "chown root \(place.shellWord)"))
            }
        }
    }
}
