import Glibc

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
    /// - Throws: `changeable` with the cure; `missing`, `denied` or `failed` where it cannot be looked at.
    ///   The folders before a name that is missing were checked.
    package static func check(_ path: String) throws(GuardedFile.Refusal) {
        let whole = path.hasPrefix("/") ? path : workingDirectory + "/" + path
        var names = Array(names(of: whole).reversed())
        var place = ""
        var links = 0
        try check("/", facts(of: "/"), isFolder: true)
        while let name = names.popLast() {
            if name == ".." {
                place = String(place[..<(place.lastIndex(of: "/") ?? place.startIndex)])
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
            guard links <= mostLinks else { throw .failed(ELOOP) }
            let target = try target(of: entry)
            if target.hasPrefix("/") { place = "" }
            names += Self.names(of: target).reversed()
        }
    }

    /// Refuses an open file that a user other than root and this one may change.
    package static func check(
        _ path: String, open descriptor: Int32, owner: UInt32, mode: UInt32
    ) throws(GuardedFile.Refusal) {
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
        path.split(separator: "/").map(String.init).filter { $0 != "." }
    }

    private static func facts(of place: String) throws(GuardedFile.Refusal) -> stat {
        var facts = stat()
        guard lstat(place, &facts) == 0 else {
            throw switch errno {
            case EACCES: .denied
            case ENOENT, ENOTDIR: .missing
            default: .failed(errno)
            }
        }
        return facts
    }

    private static func target(of link: String) throws(GuardedFile.Refusal) -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = readlink(link, &buffer, buffer.count)
        guard count >= 0 else { throw errno == EACCES ? .denied : .failed(errno) }
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
    ) throws(GuardedFile.Refusal) {
        let mode = try Self.facts(of: folder).st_mode
        guard mode & 0o022 != 0, !isReadOnly(folder), !isTrusted(facts.st_uid) else { return }
        throw .changeable(
            "the link \(link) on the way to it belongs to user \(facts.st_uid), who could have a command "
                + "run as user \(geteuid()); name the file itself, or as root run: chown -h root "
                + quoted(link))
    }

    private static func check(
        _ place: String, _ facts: stat, isFolder: Bool
    ) throws(GuardedFile.Refusal) {
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
    ) throws(GuardedFile.Refusal) {
        guard isTrusted(owner) else {
            throw .changeable(
                "\(what) belongs to user \(owner), who could have a command run as user "
                    + "\(geteuid()); run as that user, or as root run: chown root \(quoted(place))")
        }
        guard mode & 0o022 != 0 else { return }
        throw .changeable(
            "\(what) may be changed by other users (mode \(octal(mode))), who could have a "
                + "command run as user \(geteuid()); look whether it is as you wrote it, then run: "
                + "chmod go-w \(quoted(place))")
    }

    private static func quoted(_ path: String) -> String {
        "'\(path.replacing("'", with: #"'\''"#))'"
    }

    private static func octal(_ mode: mode_t) -> String {
        "0" + String(mode & 0o7777, radix: 8)
    }
}
