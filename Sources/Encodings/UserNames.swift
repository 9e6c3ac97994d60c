// How users of this host are spelled in messages. A file of another user is often
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
            mayHoldToken(word) ? "…" : word
        }
        let line = (["pushsweep"] + words).map(\.shellWord).joined(separator: " ")
        return "su -s /bin/sh \(of(owner).shellWord) -c \(line.shellWord)"
    }

    /// Whether a word has 16 hex digits in a row, with spaces between them or not.
    private static func mayHoldToken(_ word: String) -> Bool {
        var digits = 0
        for byte in word.utf8 {
            let isDigit = Hex.value(of: byte) != nil
            digits = isDigit ? digits + 1 : byte == UInt8(ascii: " ") ? digits : 0
            if digits == 16 { return true }
        }
        return false
    }
}
