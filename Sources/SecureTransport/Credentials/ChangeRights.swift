import Glibc

// Settings name a command that runs as the user of the run, often root. Who may change the settings, or
// exchange the file by changing names in a folder on the way to it, decides what this user does. So for
// such a file, and for each folder above it, the rule of sshd(8) for its own files holds:
//
//   owner   root or the user of the run
//   mode    not writable by group or others. A folder with the sticky bit may be, as /tmp is: there only
//           the owner of an entry may rename or remove it
//
// What is mounted read-only is taken as it is: nobody can change it here, and a volume of settings in a
// container has the modes of its host. The path without links is checked, and where it has links, the
// path as given too, because a link can be exchanged as well.

/// Who may change a file that decides what is done.
package enum ChangeRights {
    /// Refuses a file that a user other than root and this one may change or exchange.
    ///
    /// - Throws: `changeable` with the cure; `missing`, `denied` or `failed` where it cannot be looked at.
    package static func check(_ path: String) throws(GuardedFile.Refusal) {
        guard let name = realpath(path, nil) else {
            throw errno == EACCES ? .denied : errno == ENOENT ? .missing : .failed(errno)
        }
        let real = String(cString: name)
        free(name)
        try check(real, isFolder: false)
        for place in folders(above: real) { try check(place, isFolder: true) }
        guard path.hasPrefix("/"), path != real else { return }
        for place in folders(above: path) { try check(place, isFolder: true) }
    }

    /// Every folder above an absolute path, the nearest first.
    private static func folders(above path: String) -> [String] {
        var folders: [String] = []
        var place = Substring(path)
        while let slash = place.lastIndex(of: "/") {
            place = place[..<slash]
            folders.append(place.isEmpty ? "/" : String(place))
        }
        return folders
    }

    private static func check(_ place: String, isFolder: Bool) throws(GuardedFile.Refusal) {
        var facts = stat()
        guard stat(place, &facts) == 0 else { throw errno == EACCES ? .denied : .failed(errno) }
        var system = statvfs()
        if statvfs(place, &system) == 0, system.f_flag & UInt(ST_RDONLY) != 0 { return }
        let what = isFolder ? "the folder \(place) above it" : "it"
        let object = "'\(place.replacing("'", with: #"'\''"#))'"
        guard facts.st_uid == 0 || facts.st_uid == geteuid() else {
            throw .changeable(
                "\(what) belongs to user \(facts.st_uid), who could have a command run as user "
                    + "\(geteuid()); run as that user, or as root run: chown root \(object)")
        }
        guard facts.st_mode & 0o022 != 0, !(isFolder && facts.st_mode & S_ISVTX != 0) else {
            return
        }
        throw .changeable(
            "\(what) may be changed by other users (mode \(octal(facts.st_mode))), who could have a "
                + "command run as user \(geteuid()); look whether it is as you wrote it, then run: "
                + "chmod go-w \(object)")
    }

    private static func octal(_ mode: mode_t) -> String {
        "0" + String(mode & 0o7777, radix: 8)
    }
}
