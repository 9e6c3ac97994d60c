import Glibc

/// Checks of the folders above a state folder. The owner of one of them can put another folder in its
/// place.
enum FolderWay {
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
            place = parent(of: place)
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
            place = parent(of: place)
            var facts = stat()
            // A folder that lstat cannot reach cannot be passed either; opening reports that.
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

/// The names of users in messages.
package enum UserName {
    /// The login name, or the number of a user that has none; chown(1) accepts both.
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
    /// The text quoted as one word of a shell.
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
