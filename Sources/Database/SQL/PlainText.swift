import Encodings

/// What the texts of settings are made of, wherever they are read.
package enum PlainText {
    /// Whether a text has control characters. They have no use in a setting and disturb logs, C
    /// strings and terminals.
    package static func hasControlCharacter(_ text: some StringProtocol) -> Bool {
        text.unicodeScalars.contains(where: \.isUnprintable)
    }

    /// Whether settings can have a text as the name of a table or of a column. 64 characters is the longest
    /// identifier of MySQL and MariaDB.
    package static func isIdentifier(_ text: some StringProtocol) -> Bool {
        let scalars = text.unicodeScalars
        return (1...64).contains(scalars.count) && scalars.first != " " && scalars.last != " "
            && !hasControlCharacter(text)
    }

    /// Whether a text can be a host name, an IPv4 or an IPv6 address.
    package static func isHost(_ text: some StringProtocol) -> Bool {
        guard (1...255).contains(text.utf8.count) else { return false }
        let colons = text.utf8.count { $0 == UInt8(ascii: ":") }
        if colons >= 2 {
            return text.utf8.allSatisfy {
                Hex.value(of: $0) != nil || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".")
            }
        }
        let startsWell = text.utf8.first.map { isAlphanumeric($0) || $0 == UInt8(ascii: "_") }
        return startsWell == true && text.utf8.allSatisfy(isPartOfName)
    }

    /// Whether a byte is a letter, digit, dot, hyphen or underscore.
    package static func isPartOfName(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: "_")
    }

    /// Whether a byte is a letter or a digit of ASCII.
    package static func isAlphanumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: false
        }
    }

    /// Reads digits only: Swift's own parser also takes signs, which no setting needs.
    package static func wholeNumber(_ text: some StringProtocol) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy(DecimalDigits.isDigit) else { return nil }
        return Int(text)
    }

    /// Makes a path absolute without reading the disk, so that a setting can name a folder that
    /// does not exist yet.
    package static func absolutePath(
        _ path: String, folder: String
    ) throws(Refusal) -> String {
        guard path.utf8.count < 4096 else {
            throw Refusal("must be shorter than 4096 bytes")
        }
        if path == "~" || path.utf8.starts(with: "~/".utf8) {
            throw Refusal("must be a whole path: ~ means something to a shell only")
        }
        if path.utf8.first == UInt8(ascii: "/") { return path }
        return folder.utf8.last == UInt8(ascii: "/") ? folder + path : "\(folder)/\(path)"
    }
}

extension StringProtocol where SubSequence == Substring {
    /// The text after a prefix; nil where it does not begin with the prefix.
    package func droppingPrefix(_ prefix: String) -> Substring? {
        // By bytes: behind an accent the last Character of the prefix is another one.
        guard utf8.starts(with: prefix.utf8) else { return nil }
        return self[utf8.index(startIndex, offsetBy: prefix.utf8.count)...]
    }
}
