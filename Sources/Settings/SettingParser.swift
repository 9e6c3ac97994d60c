import Database

/// Turns the text of one setting into its value. File and environment use the same parser, so a
/// value has one meaning.
struct SettingParser {
    /// Where relative paths start: an absolute path.
    let folder: String

    /// The value of a text. The error's sentence starts after the name of the setting.
    func value(_ text: String, _ kind: SettingKind) throws(SettingRefusal) -> SettingValue {
        guard !text.isEmpty else { throw SettingRefusal("is empty") }
        if PlainText.hasControlCharacter(text), !kind.isSecret {
            throw SettingRefusal("has an unprintable character in \(shown(text, kind))")
        }
        switch kind {
        case .secret:
            guard !text.utf8.contains(0) else { throw SettingRefusal("has a zero byte") }
            return .secret(Settings.Secret(text))
        case .path: return .text(try PlainText.absolutePath(text, folder: folder))
        case .storeAddress: return .store(try StoreLocation(text, relativeTo: folder))
        case .servers:
            return try servers(text.split(separator: ",", omittingEmptySubsequences: false))
        case .load: return .load(try LoadLimits(text))
        case .integer, .percent, .size, .duration: return try quantity(text, kind)
        case .zone: return .zone(try zone(text))
        case .boolean: return .flag(try flag(text))
        default: return try word(text, kind)
        }
    }

    private func word(_ text: String, _ kind: SettingKind) throws(SettingRefusal) -> SettingValue {
        let isShort = kind == .shortText || kind == .shortName
        let longest =
            isShort
            ? SettingText.longestShort
            : kind == .command ? SettingText.longestCommand : SettingText.longest
        guard text.unicodeScalars.count <= longest else {
            throw SettingRefusal("must be at most \(longest) characters long")
        }
        switch kind {
        case .name where !SettingText.isName(text), .shortName where !SettingText.isName(text):
            throw refusal("must consist of letters, digits, dots, hyphens and underscores", text)
        case .appleIdentifier where !SettingText.isAppleIdentifier(text):
            throw refusal("must be 10 capital letters and digits, such as ABC123DEFG", text)
        case .host where !PlainText.isHost(text):
            throw refusal("must be a host name or an address without scheme and port", text)
        case .command where text.allSatisfy { $0 == " " }:
            throw SettingRefusal("is empty")
        case .choice(let words) where !words.contains(text):
            throw refusal("must be \(words.joined(separator: " or "))", text)
        case .table:
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count <= 2 else {
                throw refusal("must be a table or a database and a table", text)
            }
            for part in parts { try checkIdentifier(part) }
        case .column:
            // `none` is not a column name: for other columns it means that there is none.
            guard text != "none" else {
                throw refusal(
                    "must be the name of a column, for the table cannot do without it", text)
            }
            try checkIdentifier(text)
        case .optionalColumn:
            try checkIdentifier(text)
            return .column(.named(text))
        case .columns:
            return try columns(text.split(separator: ",", omittingEmptySubsequences: false))
        default: break
        }
        return .text(text)
    }

    /// The value of a list of texts.
    func list(_ texts: [String], _ kind: SettingKind) throws(SettingRefusal) -> SettingValue {
        kind == .servers ? try servers(texts) : try columns(texts)
    }

    private func servers(_ texts: [some StringProtocol]) throws(SettingRefusal) -> SettingValue {
        var servers: [StoreLocation] = []
        for text in texts {
            let location = try StoreLocation(
                String(text.drop { $0 == " " }), relativeTo: folder)
            guard case .server(let server) = location else {
                throw SettingRefusal("must name servers, such as mysql://monitor@replica:3306/push")
            }
            guard server.addresses.count == 1 else {
                throw SettingRefusal("must name each server by an address of its own")
            }
            servers.append(location)
        }
        guard !servers.isEmpty else { throw SettingRefusal("must name at least one server") }
        return .servers(servers)
    }

    /// Columns of a key, in order, each once.
    func columns(_ names: [some StringProtocol]) throws(SettingRefusal) -> SettingValue {
        var result: [String] = []
        for name in names {
            let column = String(name.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
            guard !PlainText.hasControlCharacter(column) else {
                throw refusal("has an unprintable character", column)
            }
            try checkIdentifier(column)
            guard !result.contains(column) else { throw refusal("names a column twice", column) }
            result.append(column)
        }
        guard !result.isEmpty else { throw SettingRefusal("must name at least one column") }
        return .columns(result)
    }

    private func quantity(
        _ text: String, _ kind: SettingKind
    ) throws(SettingRefusal) -> SettingValue {
        switch kind {
        case .integer(let range):
            guard let number = PlainText.wholeNumber(text), range.contains(number) else {
                throw refusal(
                    "must be a whole number from \(range.lowerBound) to \(range.upperBound)", text)
            }
            return .number(number)
        case .size(let range):
            guard let bytes = SettingSize.bytes(text), range.contains(bytes) else {
                let least = SettingSize.text(range.lowerBound)
                let most = SettingSize.text(range.upperBound)
                throw refusal(
                    "must be a number of bytes from \(least) to \(most), such as 65536 or 64KiB",
                    text)
            }
            return .number(bytes)
        case .duration(let range):
            guard let milliseconds = SettingTime.milliseconds(text), range.contains(milliseconds)
            else {
                let least = SettingTime.text(range.lowerBound)
                let most = SettingTime.text(range.upperBound)
                throw refusal(
                    "must be a time from \(least) to \(most) with its unit, such as 500ms, 30s or 5m",
                    text)
            }
            return .milliseconds(milliseconds)
        default:
            guard let percent = percent(text) else {
                throw refusal("must be a number above 0 and at most 100, such as 2.5", text)
            }
            return .percent(percent)
        }
    }

    private func percent(_ text: String) -> Double? {
        // Swift also reads nan, inf, signs, exponents and hexadecimal fractions.
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ PlainText.wholeNumber($0) != nil }),
            let number = Double(text), number > 0, number <= 100
        else { return nil }
        return number
    }

    private func flag(_ text: String) throws(SettingRefusal) -> Bool {
        switch text {
        case "true": return true
        case "false": return false
        default: throw refusal("must be true or false", text)
        }
    }

    private func zone(_ text: String) throws(SettingRefusal) -> ZoneOffset {
        if let zone = ZoneOffset(text) { return zone }
        if text.contains(where: \.isLetter) {
            throw refusal(
                "must be UTC or a fixed offset such as +02:00, because in a named zone an hour "
                    + "repeats each year and its times cannot be told apart; "
                    + "let the column hold UTC or a fixed offset", text)
        }
        throw refusal("must be UTC or an offset from -14:00 to +14:00, such as +02:00", text)
    }

    private func checkIdentifier(_ text: some StringProtocol) throws(SettingRefusal) {
        // 64 characters is the longest identifier of MySQL and MariaDB.
        guard (1...64).contains(text.unicodeScalars.count), text.first != " ", text.last != " "
        else { throw refusal("must be a name of 1 to 64 characters without outer spaces", text) }
    }

    private func refusal(_ rule: String, _ text: some StringProtocol) -> SettingRefusal {
        SettingRefusal("\(rule), found \(SettingText.quoted(text))")
    }

    private func shown(_ text: String, _ kind: SettingKind) -> String {
        switch kind {
        case .storeAddress: "the address"
        case .command: "the command; put several lines into a file and name that"
        default: SettingText.quoted(text)
        }
    }
}

/// The rules for short texts.
package enum SettingText {
    /// Longest text of any setting but a path, in characters.
    static let longest = 255
    /// Longest name of an app, and longest value of its column, in characters: the limit of our own
    /// tables.
    static let longestShort = 64
    /// Longest command for the shell, in characters.
    static let longestCommand = 4_096

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

    /// Bad input in quotes for a message: one line of at most 45 characters, with control
    /// characters escaped.
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

/// Times as settings write them: a whole number and one of `ms`, `s`, `m`, `h`,
/// `d`.
enum SettingTime {
    private static let units = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Milliseconds, or nil when the text is not a time.
    static func milliseconds(_ text: String) -> Int? { scaled(text, units: units) }

    /// A number of milliseconds in the largest unit that needs no fraction.
    static func text(_ milliseconds: Int) -> String {
        if milliseconds == 0 { return "0s" }
        return unscaled(milliseconds, units: units)
    }
}

/// Sizes as settings write them: bytes, or a whole number and one of `KiB`, `MiB`, `GiB`, `TiB`.
enum SettingSize {
    private static let units = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1),
    ]

    /// Bytes, or nil when the text is not a size.
    static func bytes(_ text: String) -> Int? { scaled(text, units: units) }

    /// A number of bytes in the largest unit that needs no fraction.
    static func text(_ bytes: Int) -> String {
        if bytes == 0 { return "0" }
        return unscaled(bytes, units: units)
    }
}

private func scaled(_ text: String, units: [(name: String, factor: Int)]) -> Int? {
    let digits = text.prefix { $0 >= "0" && $0 <= "9" }
    let unit = text.dropFirst(digits.count)
    guard let factor = units.first(where: { $0.name == unit })?.factor,
        let number = PlainText.wholeNumber(digits)
    else { return nil }
    let (product, overflow) = number.multipliedReportingOverflow(by: factor)
    return overflow ? nil : product
}

private func unscaled(_ number: Int, units: [(name: String, factor: Int)]) -> String {
    for unit in units where number.isMultiple(of: unit.factor) {
        return "\(number / unit.factor)\(unit.name)"
    }
    return String(number)
}
