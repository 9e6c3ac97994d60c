// How users of this host and words of a shell are spelled in messages. A file of another user is often
// met by root, who runs a command by hand: then the message has the command that runs it as that user.

import Glibc

/// The names of users in messages.
package enum UserName {
    /// The login name, or the number of a user that has none; chown(1) accepts both.
    package static func of(_ number: uid_t) -> String {
        guard let entry = getpwuid(number), let name = entry.pointee.pw_name else {
            return "\(number)"
        }
        return String(cString: name)
    }

    /// What to do where something belongs to another user: for root the command that runs this command
    /// line as that user, for others that, or what root may run.
    package static func cure(by owner: uid_t, else command: String) -> String {
        guard geteuid() == 0 else { return "run as \(of(owner)), or as root run: \(command)" }
        // su(1) takes no number.
        return getpwuid(owner) == nil
            ? "run as user \(owner)" : "run it as that user: \(asUser(owner))"
    }

    /// The command that runs this command line as a user. Words that may hold a token are left out.
    private static func asUser(_ owner: uid_t) -> String {
        let words = CommandLine.arguments.dropFirst().map { word in
            word.replacing(" ", with: "").contains(/[0-9A-Fa-f]{16}/) ? "…" : word
        }
        let line = (["pushsweep"] + words).map(\.shellWord).joined(separator: " ")
        return "su -s /bin/sh \(of(owner)) -c \(line.shellWord)"
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
