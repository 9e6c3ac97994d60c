// A text from outside (a database, a file, a peer, an argument) is printed inside of another language: a
// statement, a command, a setting, a path of JSON. All of it is quoted by the functions here, and by those of
// SQLDialect, which are made of them. They read scalars, because so do the readers: a quote with an accent
// behind it is one Character of Swift, which is no quote, and ends the text for a server and for a shell.
//
// What is printed is also copied, from a terminal that shows each control character by its number. So such a
// character is written by its number, in the form of the language.

extension Unicode.Scalar {
    /// Whether a terminal obeys it, or it changes how others look, or it cannot be seen.
    package var isUnprintable: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }

    /// Whether it is a letter or a digit of ASCII, or one of some others.
    fileprivate func isPlain(or others: String) -> Bool {
        switch self {
        case "0"..."9", "a"..."z", "A"..."Z": true
        default: others.unicodeScalars.contains(self)
        }
    }
}

extension String {
    /// The text with some characters written in another way; nil leaves a character as it is.
    package func replacing(_ form: (Unicode.Scalar) -> String?) -> String {
        var shown = ""
        shown.unicodeScalars.reserveCapacity(utf8.count)
        for scalar in unicodeScalars {
            if let text = form(scalar) {
                shown.unicodeScalars += text.unicodeScalars
            } else {
                shown.unicodeScalars.append(scalar)
            }
        }
        return shown
    }

    /// The text in quotes of one character, which is doubled inside: text and names of SQL, a field of CSV.
    package func doubling(_ quote: Unicode.Scalar) -> String {
        let inside = replacing { $0 == quote ? "\(quote)\(quote)" : nil }
        return "\(quote)" + inside + "\(quote)"
    }

    /// The text as one word of a shell. One with unprintable characters is in the form `$'…'`, which bash, zsh
    /// and POSIX of 2024 read. An older sh takes it for `$` and a text in quotes. So no quote is in it: that sh
    /// reads another word, but one word, and runs nothing.
    package var shellWord: String {
        let scalars = unicodeScalars
        // A shell may take a word that begins with the sign for a command's path.
        if !isEmpty, scalars.first != "=", scalars.allSatisfy({ $0.isPlain(or: "/._-+:@=") }) {
            return self
        }
        guard scalars.contains(where: \.isUnprintable) else {
            return "'" + replacing { $0 == "'" ? #"'\''"# : nil } + "'"
        }
        return "$'"
            + replacing { scalar in
                if scalar == "\\" { return #"\\"# }
                if scalar == "'" { return #"\047"# }
                guard scalar.isUnprintable else { return nil }
                // Three digits always, so that a digit behind is not read as one of them.
                return UTF8.encode(scalar)?.map { "\\" + Self.octal($0) }.joined()
            } + "'"
    }

    /// An option of a command line with this text as its value, as words of a shell.
    package func asValue(of option: String) -> String {
        // What begins like an option is taken for one, where it is a word of its own.
        utf8.first == UInt8(ascii: "-")
            ? "\(option)=\(self)".shellWord : "\(option) \(shellWord)"
    }

    private static func octal(_ byte: UInt8) -> String {
        String(String(Int(byte) + 0o1000, radix: 8).dropFirst())
    }

    /// The text as a scalar of YAML that reads as this text: plain where it can be, else in double quotes.
    package var yamlScalar: String {
        let first = unicodeScalars.first
        let isPlain =
            first?.isPlain(or: "") == true
            && unicodeScalars.allSatisfy { $0.isPlain(or: ".-_") }
            && !Self.yamlWords.contains(lowercased()) && !looksLikeNumber
        if isPlain { return self }
        return "\""
            + replacing { scalar in
                switch scalar {
                case "\"", "\\": "\\\(scalar)"
                case _ where scalar.value < 0x100 && scalar.isUnprintable:
                    "\\x" + Hex.text([UInt8(scalar.value)])
                case _
                where scalar.isUnprintable || scalar.value == 0xFFFE || scalar.value == 0xFFFF:
                    "\\U" + String(String(UInt64(scalar.value) + 1 << 32, radix: 16).dropFirst())
                default: nil
                }
            } + "\""
    }

    /// Whether some reader of YAML takes the text for another number than its digits: `01`, `0x1F`, `1_000`, `1e3`.
    private var looksLikeNumber: Bool {
        let bytes = Array(utf8)
        guard let first = bytes.first, DecimalDigits.isDigit(first) else { return false }
        let isWhole = bytes.allSatisfy(DecimalDigits.isDigit)
        return !isWhole || bytes.count > 1 && first == UInt8(ascii: "0")
    }

    /// Words that YAML reads as something else than text.
    private static let yamlWords: Set = [
        "true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "~",
    ]

    /// The members of a list in a declaration such as `enum('a','it''s')`, as both servers print it: a quote
    /// doubled, and escapes of a backslash, of line ends and of NUL.
    package var quotedMembers: [String] {
        var members: [String] = []
        var member: String.UnicodeScalarView?
        var rest = unicodeScalars[...]
        while let scalar = rest.popFirst() {
            guard member != nil else {
                if scalar == "'" { member = .init() }
                continue
            }
            switch (scalar, rest.first) {
            case ("'", "'"?):
                rest.removeFirst()
                member?.append("'")
            case ("'", _):
                if let member { members.append(String(member)) }
                member = nil
            case ("\\", let next?) where Self.escapes[next] != nil:
                rest.removeFirst()
                member?.append(Self.escapes[next] ?? next)
            default: member?.append(scalar)
            }
        }
        return members
    }

    private static let escapes: [Unicode.Scalar: Unicode.Scalar] = [
        "\\": "\\", "n": "\n", "r": "\r", "0": "\0",
    ]

    /// The text with every occurrence of a part replaced that has the same bytes, upper and lower case of
    /// ASCII apart or not.
    package func replacing(
        exactly part: String, with other: String, ignoringCase: Bool = false
    ) -> String {
        func folded(_ byte: UInt8) -> UInt8 {
            ignoringCase && (0x41...0x5A).contains(byte) ? byte | 0x20 : byte
        }
        let (bytes, wanted) = (Array(utf8), part.utf8.map(folded))
        guard !wanted.isEmpty, bytes.count >= wanted.count else { return self }
        var result: [UInt8] = []
        var place = 0
        while place < bytes.count {
            if bytes.count - place >= wanted.count, folded(bytes[place]) == wanted[0],
                bytes[place..<place + wanted.count].lazy.map(folded).elementsEqual(wanted)
            {
                result += other.utf8
                place += wanted.count
            } else {
                result.append(bytes[place])
                place += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}

/// Places in JSON documents.
package enum JSONPath {
    /// The path to the value under some keys, one in the other, as both engines read it.
    package static func text(_ keys: [String]) -> String {
        "$" + keys.map { "." + member($0) }.joined()
    }

    private static func member(_ key: String) -> String {
        if !key.isEmpty, key.unicodeScalars.allSatisfy({ $0.isPlain(or: "_") }),
            key.unicodeScalars.first.map({ !("0"..."9").contains($0) }) == true
        {
            return key
        }
        var quoted: [UInt8] = []
        JSONText.append(key, to: &quoted)
        return String(decoding: quoted, as: UTF8.self)
    }
}
