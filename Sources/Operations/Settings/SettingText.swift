/// Why a value was refused, as the end of a sentence that begins with the setting.
struct SettingRefusal: Error, Equatable {
    /// `must be ...`, with what to write instead.
    let reason: String

    init(_ reason: String) { self.reason = reason }
}

/// What short texts may consist of.
enum SettingText {
    /// Longest text of any setting but a path, in characters.
    static let longest = 255

    /// Control characters have no place in a setting and disturb logs, C strings and terminals.
    static func hasControlCharacter(_ text: some StringProtocol) -> Bool {
        text.unicodeScalars.contains { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: true
            default: false
            }
        }
    }

    /// Whether a text can be a host name, an IPv4 or an IPv6 address.
    static func isHost(_ text: some StringProtocol) -> Bool {
        guard (1...255).contains(text.utf8.count) else { return false }
        let colons = text.utf8.count { $0 == UInt8(ascii: ":") }
        if colons >= 2 {
            return text.utf8.allSatisfy { isHex($0) || $0 == UInt8(ascii: ":") || isDot($0) }
        }
        let startsWell = text.utf8.first.map { isAlphanumeric($0) || $0 == UInt8(ascii: "_") }
        return startsWell == true
            && text.utf8.allSatisfy {
                isAlphanumeric($0) || isDot($0) || $0 == UInt8(ascii: "-")
                    || $0 == UInt8(ascii: "_")
            }
    }

    /// Whether a text can be a name: see `SettingKind.name`.
    static func isName(_ text: some StringProtocol) -> Bool {
        (1...longest).contains(text.utf8.count)
            && text.utf8.contains(where: isAlphanumeric)
            && text.utf8.allSatisfy {
                isAlphanumeric($0) || isDot($0) || $0 == UInt8(ascii: "-")
                    || $0 == UInt8(ascii: "_")
            }
    }

    /// Whether a text can be an identifier of Apple's for a key or a team.
    static func isAppleIdentifier(_ text: some StringProtocol) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                isAlphanumeric($0) && !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
            }
    }

    /// A web address without its path and query, by which ping services know who pings.
    static func origin(_ address: String) -> String {
        guard let scheme = address.firstRange(of: "://") else { return "..." }
        let authority = address[scheme.upperBound...].prefix { !"/?#".contains($0) }
        let shown = address[..<authority.endIndex]
        return shown.endIndex == address.endIndex ? address : "\(shown)/..."
    }

    /// Quotes bad input so that one line stays one line of bounded length.
    static func quoted(_ text: some StringProtocol) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(40) {
            shown +=
                hasControlCharacter(String(scalar)) ? scalar.escaped(asASCII: true) : "\(scalar)"
        }
        return text.unicodeScalars.dropFirst(40).isEmpty ? "'\(shown)'" : "'\(shown)...'"
    }

    private static func isDot(_ byte: UInt8) -> Bool { byte == UInt8(ascii: ".") }

    private static func isHex(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: false
        }
    }
}

/// Makes a path absolute without looking at the disk, so that a folder that does not exist yet can
/// be named.
func absolutePath(_ path: String, folder: String) throws(SettingRefusal) -> String {
    guard path.utf8.count < 4096 else { throw SettingRefusal("must be shorter than 4096 bytes") }
    if path == "~" || path.hasPrefix("~/") {
        throw SettingRefusal("must be a whole path: ~ means something to a shell only")
    }
    if path.hasPrefix("/") { return path }
    return folder.hasSuffix("/") ? folder + path : "\(folder)/\(path)"
}
