import Database

/// What a setting may hold: its words in the documentation, and how its text becomes the value of a
/// field. File, environment and options are read by the same kind, so a value has one meaning.
struct SettingKind<Value: Sendable>: Sendable {
    /// A value, and the text of it that `pushsweep check` shows.
    typealias Reading = (value: Value, shown: String)
    typealias Reader =
        @Sendable (RawSetting.Content, _ folder: String) throws(SettingRefusal) -> Reading

    let facts: SettingFacts
    /// Reads a text. Relative paths start at the folder, an absolute path. The error's sentence starts
    /// after the name of the setting.
    let read: Reader

    fileprivate init(_ facts: SettingFacts, _ read: @escaping Reader) {
        self.facts = facts
        self.read = read
    }

    /// A kind of which every value is one text. `hidden` stands for a text that no message may show.
    fileprivate init(
        _ words: String, hidden: String? = nil,
        _ read: @escaping @Sendable (String, String) throws(SettingRefusal) -> Reading
    ) {
        self.init(SettingFacts(words: words)) { content, folder throws(SettingRefusal) in
            guard case .text(let text, _) = content else {
                throw SettingRefusal("has no value; give one or remove the key")
            }
            guard !text.isEmpty else { throw SettingRefusal("is empty") }
            guard !PlainText.hasControlCharacter(text) else {
                throw SettingRefusal(
                    "has an unprintable character in \(hidden ?? SettingText.quoted(text))")
            }
            return try read(text, folder)
        }
    }

    /// A kind whose values may be written as a list, or as a text with commas.
    fileprivate init(
        list words: String,
        _ read: @escaping @Sendable ([String], String) throws(SettingRefusal) -> Reading
    ) {
        let one = SettingKind<[String]>(words) { text, _ in
            (text.split(separator: ",", omittingEmptySubsequences: false).map(String.init), text)
        }
        self.init(SettingFacts(words: words, isList: true)) {
            content, folder throws(SettingRefusal) in
            guard case .list(let texts) = content else {
                return try read(one.read(content, folder).value, folder)
            }
            return try read(texts, folder)
        }
    }
}

/// What is known of a kind without the type of its values.
struct SettingFacts: Sendable {
    /// Type and range in words, for the documentation.
    let words: String
    var isList = false
    /// Whether the value comes from the environment only and is never shown.
    var isSecret = false
    /// Whether the value is a column that the table may lack.
    var isOptionalColumn = false

    /// Type and range in words without the marks of the documentation.
    var plainWords: String { words.filter { $0 != "`" } }
}

private func refusal(_ rule: String, _ text: some StringProtocol) -> SettingRefusal {
    SettingRefusal("\(rule), found \(SettingText.quoted(text))")
}

extension SettingKind where Value == String {
    /// Any one line of text, at most 255 characters.
    static var text: Self { word("text") }
    /// One line of text that our own tables store.
    static var shortText: Self {
        word("text of at most \(SettingText.longestShort) characters", SettingText.longestShort)
    }
    static var name: Self { name("word of letters, digits, `.`, `-`, `_`", SettingText.longest) }
    static var shortName: Self {
        name(
            "word of at most \(SettingText.longestShort) letters, digits, `.`, `-`, `_`",
            SettingText.longestShort)
    }
    /// As Apple numbers keys and teams.
    static var appleIdentifier: Self {
        word(
            "10 capital letters and digits",
            must: "must be 10 capital letters and digits, such as ABC123DEFG",
            SettingText.isAppleIdentifier)
    }
    static var host: Self {
        word(
            "host name or address",
            must: "must be a host name or an address without scheme and port",
            { PlainText.isHost($0) })
    }
    /// A command for the shell. It may hold an address that is secret, so it is never shown.
    static var command: Self {
        let longest = SettingText.longestCommand
        return Self(
            "shell command of at most \(longest) characters",
            hidden: "the command; put several lines into a file and name that"
        ) { text, _ throws(SettingRefusal) in
            try check(text, longest)
            guard !text.allSatisfy({ $0 == " " }) else { throw SettingRefusal("is empty") }
            return (text, "(set)")
        }
    }
    static var path: Self {
        Self("path") { text, folder throws(SettingRefusal) in
            let path = try PlainText.absolutePath(text, folder: folder)
            return (path, path)
        }
    }
    /// A table, which may be written `database.table`.
    static var table: Self {
        Self("table") { text, _ throws(SettingRefusal) in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count <= 2 else {
                throw refusal("must be a table or a database and a table", text)
            }
            for part in parts { try SettingText.checkIdentifier(part) }
            return (text, text)
        }
    }
    /// A column that must exist.
    static var column: Self {
        Self("column") { text, _ throws(SettingRefusal) in
            // `none` is not a column name: for other columns it means that there is none.
            guard text != "none" else {
                throw refusal(
                    "must be the name of a column, for the table cannot do without it", text)
            }
            try SettingText.checkIdentifier(text)
            return (text, text)
        }
    }

    private static func name(_ words: String, _ longest: Int) -> Self {
        word(
            words, longest, must: "must consist of letters, digits, dots, hyphens and underscores",
            { SettingText.isName($0) })
    }

    private static func word(
        _ words: String, _ longest: Int = SettingText.longest, must rule: String = "",
        _ holds: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> Self {
        Self(words) { text, _ throws(SettingRefusal) in
            try check(text, longest)
            guard holds(text) else { throw refusal(rule, text) }
            return (text, text)
        }
    }

    private static func check(_ text: String, _ longest: Int) throws(SettingRefusal) {
        guard text.unicodeScalars.count <= longest else {
            throw SettingRefusal("must be at most \(longest) characters long")
        }
    }
}

extension SettingKind {
    /// One of a few words.
    fileprivate static func oneOf(_ values: [(word: String, value: Value)]) -> Self {
        Self(values.map { "`\($0.word)`" }.joined(separator: " or ")) {
            text, _ throws(SettingRefusal) in
            guard let found = values.first(where: { $0.word == text }) else {
                let words = values.map(\.word).joined(separator: " or ")
                throw refusal("must be \(words)", text)
            }
            return (found.value, text)
        }
    }

    /// A whole number with or without a unit. `rule` begins a sentence about another text.
    private static func number(
        _ words: String, _ range: ClosedRange<Int>, must rule: String,
        read: @escaping @Sendable (String) -> Int?, shown: @escaping @Sendable (Int) -> String,
        _ value: @escaping @Sendable (Int) -> Value
    ) -> Self {
        Self(words) { text, _ throws(SettingRefusal) in
            guard let number = read(text), range.contains(number) else {
                throw refusal(rule, text)
            }
            return (value(number), shown(number))
        }
    }

    /// A time with its unit, in a range of milliseconds. `value` makes the field's value of
    /// milliseconds.
    fileprivate static func time(
        _ range: ClosedRange<Int>, _ value: @escaping @Sendable (Int) -> Value
    ) -> Self {
        let words = "\(SettingTime.text(range.lowerBound)) to \(SettingTime.text(range.upperBound))"
        return number(
            "time, \(words)", range,
            must: "must be a time from \(words) with its unit, such as 500ms, 30s or 5m",
            read: SettingTime.milliseconds, shown: SettingTime.text, value)
    }
}

extension SettingKind where Value == Int {
    static func integer(_ range: ClosedRange<Int>) -> Self {
        let words = "\(range.lowerBound) to \(range.upperBound)"
        return number(
            range == 1...65_535 ? "port, \(words)" : "whole number, \(words)", range,
            must: "must be a whole number from \(words)", read: { PlainText.wholeNumber($0) },
            shown: { String($0) }, { $0 })
    }

    /// A number of bytes with an optional unit, in a range of bytes.
    static func size(_ range: ClosedRange<Int>) -> Self {
        let words = "\(SettingSize.text(range.lowerBound)) to \(SettingSize.text(range.upperBound))"
        return number(
            "size, \(words)", range,
            must: "must be a number of bytes from \(words), such as 65536 or 64KiB",
            read: SettingSize.bytes, shown: SettingSize.text, { $0 })
    }

    /// A time in a range of milliseconds, for a field of seconds; rounded up.
    static func wholeSeconds(_ milliseconds: ClosedRange<Int>) -> Self {
        time(milliseconds) { ($0 + 999) / 1000 }
    }
}

extension SettingKind where Value == Int64 {
    /// A time in a range of milliseconds, for a field of milliseconds.
    static func milliseconds(_ range: ClosedRange<Int>) -> Self { time(range) { Int64($0) } }
}

extension SettingKind where Value == Duration {
    /// A time in a range of milliseconds.
    static func duration(_ range: ClosedRange<Int>) -> Self { time(range) { .milliseconds($0) } }
}

extension SettingKind where Value == Double {
    /// A time in a range of milliseconds, for a field of seconds.
    static func seconds(_ milliseconds: ClosedRange<Int>) -> Self {
        time(milliseconds) { Double($0) / 1_000 }
    }

    /// A time in a range of milliseconds, for a field of milliseconds.
    static func milliseconds(_ range: ClosedRange<Int>) -> Self { time(range) { Double($0) } }

    static var percent: Self {
        Self("percent, above 0, at most 100") { text, _ throws(SettingRefusal) in
            // Swift also reads nan, inf, signs, exponents and hexadecimal fractions.
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count <= 2, parts.allSatisfy({ PlainText.wholeNumber($0) != nil }),
                let number = Double(text), number > 0, number <= 100
            else { throw refusal("must be a number above 0 and at most 100, such as 2.5", text) }
            return (number, number == number.rounded() ? String(Int(number)) : String(number))
        }
    }
}

extension SettingKind where Value == Bool {
    static var boolean: Self { oneOf([("true", true), ("false", false)]) }
    /// Two words for false and true.
    static func either(_ no: String, _ yes: String) -> Self { oneOf([(no, false), (yes, true)]) }
}

extension SettingKind where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    /// One of the words that are the cases of an enumeration.
    static var choice: Self { oneOf(Value.allCases.map { ($0.rawValue, $0) }) }
}

extension SettingKind where Value == ZoneOffset {
    /// UTC or a fixed offset from it.
    static var zone: Self {
        Self("`UTC`, `Z` or an offset such as `+02:00`") { text, _ throws(SettingRefusal) in
            if let zone = ZoneOffset(text) { return (zone, zone.description) }
            if text.contains(where: \.isLetter) {
                throw refusal(
                    "must be UTC or a fixed offset such as +02:00, because in a named zone an hour "
                        + "repeats each year and its times cannot be told apart; "
                        + "let the column hold UTC or a fixed offset", text)
            }
            throw refusal("must be UTC or an offset from -14:00 to +14:00, such as +02:00", text)
        }
    }
}

extension SettingKind where Value == OptionalColumn {
    /// A column that the table may lack: if nothing is written, it is used where the table has it.
    static var optionalColumn: Self {
        let named = SettingKind<String>("") { text, _ throws(SettingRefusal) in
            try SettingText.checkIdentifier(text)
            return (text, text)
        }
        return Self(SettingFacts(words: "column, or `none`", isOptionalColumn: true)) {
            content, folder throws(SettingRefusal) in
            switch content {
            case .null, .text("none", plain: true): return (.absent, "none")
            case .usual(let name): return (.detect(name), "\(name), if the table has it")
            default:
                let name = try named.read(content, folder).value
                return (.named(name), name)
            }
        }
    }
}

extension SettingKind where Value == [String] {
    /// Columns of a key, in order, each once.
    static var columns: Self {
        Self(list: "list of columns") { names, _ throws(SettingRefusal) in
            var result: [String] = []
            for name in names {
                let column = String(
                    name.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
                guard !PlainText.hasControlCharacter(column) else {
                    throw refusal("has an unprintable character", column)
                }
                try SettingText.checkIdentifier(column)
                guard !result.contains(column) else {
                    throw refusal("names a column twice", column)
                }
                result.append(column)
            }
            guard !result.isEmpty else { throw SettingRefusal("must name at least one column") }
            return (result, "[\(result.joined(separator: ", "))]")
        }
    }
}

extension SettingKind where Value == StoreLocation {
    static var storeAddress: Self {
        Self("`mysql://`, `mysql+unix://` or `sqlite://` address", hidden: "the address") {
            text, folder throws(SettingRefusal) in
            let location = try StoreLocation(text, relativeTo: folder)
            return (location, location.description)
        }
    }
}

extension SettingKind where Value == [StoreLocation] {
    static var servers: Self {
        Self(list: "list of `mysql://` or `mysql+unix://` addresses") {
            texts, folder throws(SettingRefusal) in
            var servers: [StoreLocation] = []
            for text in texts {
                let location = try StoreLocation(
                    String(text.drop { $0 == " " }), relativeTo: folder)
                guard case .server(let server) = location else {
                    throw SettingRefusal(
                        "must name servers, such as mysql://monitor@replica:3306/push")
                }
                guard server.addresses.count == 1 else {
                    throw SettingRefusal("must name each server by an address of its own")
                }
                servers.append(location)
            }
            guard !servers.isEmpty else { throw SettingRefusal("must name at least one server") }
            return (servers, "[\(servers.map(\.description).joined(separator: ", "))]")
        }
    }
}

extension SettingKind where Value == LoadLimits {
    /// Limits on figures of a server's status.
    static var load: Self {
        Self("number of running threads, or `figure=number`, several with commas") {
            text, _ throws(SettingRefusal) in
            let limits = try LoadLimits(text)
            return (limits, limits.description)
        }
    }
}

extension SettingKind where Value == Secret {
    /// A password.
    static var secret: Self {
        Self(SettingFacts(words: "password", isSecret: true)) { content, _ throws(SettingRefusal) in
            guard case .text(let text, _) = content, !text.isEmpty else {
                throw SettingRefusal("is empty")
            }
            guard !text.utf8.contains(0) else { throw SettingRefusal("has a zero byte") }
            return (Secret(text), "(set)")
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

    /// Whether a text is a word of letters, digits, dots, hyphens and underscores, with at least one
    /// letter or digit.
    static func isName(_ text: some StringProtocol) -> Bool {
        (1...longest).contains(text.utf8.count)
            && text.utf8.contains(where: PlainText.isAlphanumeric)
            && text.utf8.allSatisfy(PlainText.isPartOfName)
    }

    fileprivate static func isAppleIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                PlainText.isAlphanumeric($0)
                    && !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
            }
    }

    fileprivate static func checkIdentifier(_ text: some StringProtocol) throws(SettingRefusal) {
        // 64 characters is the longest identifier of MySQL and MariaDB.
        guard (1...64).contains(text.unicodeScalars.count), text.first != " ", text.last != " "
        else { throw refusal("must be a name of 1 to 64 characters without outer spaces", text) }
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

/// Times as settings write them: a whole number and one of `ms`, `s`, `m`, `h`, `d`.
enum SettingTime {
    private static let units = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Milliseconds, or nil when the text is not a time.
    @Sendable static func milliseconds(_ text: String) -> Int? { scaled(text, units: units) }

    /// A number of milliseconds in the largest unit that needs no fraction.
    @Sendable static func text(_ milliseconds: Int) -> String {
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
    @Sendable static func bytes(_ text: String) -> Int? { scaled(text, units: units) }

    /// A number of bytes in the largest unit that needs no fraction.
    @Sendable static func text(_ bytes: Int) -> String {
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
