import Database

/// What short texts may consist of.
package enum SettingText {
    /// Longest text of any setting but a path, in characters.
    static let longest = 255
    /// Longest name of an app, and longest value that its column holds, in characters: the tables of ours
    /// have room for so many.
    static let longestShort = 64

    /// Whether a text can be a name: see `SettingKind.name`.
    static func isName(_ text: some StringProtocol) -> Bool {
        (1...longest).contains(text.utf8.count)
            && text.utf8.contains(where: PlainText.isAlphanumeric)
            && text.utf8.allSatisfy(PlainText.isPartOfName)
    }

    /// Whether a text can be an identifier of Apple's for a key or a team.
    static func isAppleIdentifier(_ text: some StringProtocol) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                PlainText.isAlphanumeric($0)
                    && !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
            }
    }

    /// A web address without its path and query, by which ping services know who pings.
    static func origin(_ address: String) -> String {
        guard let scheme = address.firstRange(of: "://") else { return "..." }
        let authority = address[scheme.upperBound...].prefix { !"/?#".contains($0) }
        let shown = address[..<authority.endIndex]
        return shown.endIndex == address.endIndex ? address : "\(shown)/..."
    }

    /// Bad input in quotes for a message: one line of at most 45 characters, with control characters
    /// escaped.
    package static func quoted(_ text: some StringProtocol) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(40) {
            shown +=
                PlainText.hasControlCharacter(String(scalar))
                ? scalar.escaped(asASCII: true) : "\(scalar)"
        }
        return text.unicodeScalars.dropFirst(40).isEmpty ? "'\(shown)'" : "'\(shown)...'"
    }
}
