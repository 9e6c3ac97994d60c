import Glibc

/// The folders above a state folder: who owns one of them can put another folder in its place.
enum FolderWay {
    /// The path without links; nil where something on it is missing, with errno.
    static func resolved(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// Looks at every folder above one that need not be there yet.
    ///
    /// - Throws: `permission` where one belongs to somebody else than root and this user.
    static func check(toNew path: String) throws(JournalFailure) {
        var place = path
        while true {
            place = parent(of: place)
            guard let real = resolved(place) else {
                if place == "/" || place == "." { return }
                continue
            }
            return try check(to: path, real == "/" ? "/x" : real + "/x")
        }
    }

    /// Looks at every folder above a resolved path.
    ///
    /// - Throws: `permission` where one belongs to somebody else than root and this user.
    static func check(to path: String, _ real: String) throws(JournalFailure) {
        var place = real
        while place != "/" {
            place = parent(of: place)
            var facts = stat()
            // What cannot be looked at cannot be passed either, and opening says so.
            guard lstat(place, &facts) == 0 else { continue }
            guard facts.st_uid == 0 || facts.st_uid == geteuid() else {
                throw JournalFailure(
                    .permission,
                    "the state folder \(path) lies in \(place), which belongs to "
                        + "\(UserName.of(facts.st_uid)), who could put another in its place; nothing "
                        + "was read: run as \(UserName.of(facts.st_uid)), name a folder elsewhere in "
                        + "state:, or as root run: chown root \(place.shellWord)")
            }
        }
    }

    private static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

/// Users as messages name them.
package enum UserName {
    /// The login name, or the number of one that has none; chown(1) takes both.
    package static func of(_ number: uid_t) -> String {
        var buffer = [CChar](repeating: 0, count: 16_384)
        return buffer.withUnsafeMutableBufferPointer { buffer in
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            guard let start = buffer.baseAddress,
                getpwuid_r(number, &entry, start, buffer.count, &found) == 0, found != nil,
                let name = entry.pw_name
            else { return "\(number)" }
            return String(cString: name)
        }
    }
}

extension String {
    /// The text as a shell takes it for one word.
    package var shellWord: String {
        let isPlain =
            !isEmpty
            && utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
                    || (0x61...0x7A).contains(byte) || "/._-+:@".utf8.contains(byte)
            }
        return isPlain ? self : "'" + replacing("'", with: #"'\''"#) + "'"
    }
}
