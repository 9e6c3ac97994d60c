import Database
import Encodings

/// What a setting may hold: its words in the documentation, and how its text becomes the value of a
/// field. File, environment and options are read by the same kind, so a value has one meaning.
struct SettingKind<Value: Sendable>: Sendable {
    /// A value, and the text of it that `pushsweep check` shows.
    typealias Reading = (value: Value, shown: String)
    typealias Reader =
        @Sendable (RawSetting.Content, _ folder: String) throws(Refusal) -> Reading

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
        _ read: @escaping @Sendable (String, String) throws(Refusal) -> Reading
    ) {
        self.init(SettingFacts(words: words)) { content, folder throws(Refusal) in
            guard case .text(let text, _) = content else {
                throw Refusal("has no value; give one or remove the key")
            }
            guard !text.isEmpty else { throw Refusal("is empty") }
            guard !PlainText.hasControlCharacter(text) else {
                throw Refusal(
                    "has an unprintable character in \(hidden ?? SettingText.quoted(text))")
            }
            return try read(text, folder)
        }
    }

    /// A kind whose values may be written as a list, or as a text with commas.
    fileprivate init(
        list words: String,
        _ read: @escaping @Sendable ([String], String) throws(Refusal) -> Reading
    ) {
        let one = SettingKind<[String]>(words) { text, _ in
            (text.split(separator: ",", omittingEmptySubsequences: false).map(String.init), text)
        }
        self.init(SettingFacts(words: words, isList: true)) {
            content, folder throws(Refusal) in
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

private func refusal(_ rule: String, _ text: some StringProtocol) -> Refusal {
    Refusal("\(rule), found \(SettingText.quoted(text))")
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
        return checked(
            "shell command of at most \(longest) characters",
            hidden: "the command; put several lines into a file and name that"
        ) { text throws(Refusal) in
            try SettingText.checkLength(text, longest)
            guard !text.allSatisfy({ $0 == " " }) else { throw Refusal("is empty") }
        }
    }
    static var path: Self {
        Self("path") { text, folder throws(Refusal) in
            let path = try PlainText.absolutePath(text, folder: folder)
            return (path, path)
        }
    }
    /// A table, which may be written `database.table`.
    static var table: Self {
        checked("table") { text throws(Refusal) in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count <= 2 else {
                throw refusal("must be a table or a database and a table", text)
            }
            for part in parts { try SettingText.checkIdentifier(part) }
        }
    }
    /// A column that must exist.
    static var column: Self {
        checked("column") { text throws(Refusal) in
            // `none` is not a column name: for other columns it means that there is none.
            guard text != "none" else {
                throw refusal(
                    "must be the name of a column, for the table cannot do without it", text)
            }
            try SettingText.checkIdentifier(text)
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
        checked(words) { text throws(Refusal) in
            try SettingText.checkLength(text, longest)
            guard holds(text) else { throw refusal(rule, text) }
        }
    }

    /// A text that is the value as it is; a hidden one is only said to be set.
    fileprivate static func checked(
        _ words: String, hidden: String? = nil,
        _ check: @escaping @Sendable (String) throws(Refusal) -> Void
    ) -> Self {
        Self(words, hidden: hidden) { text, _ throws(Refusal) in
            try check(text)
            return (text, hidden == nil ? text : "(set)")
        }
    }
}

extension SettingKind {
    /// One of a few words.
    fileprivate static func oneOf(_ values: [(word: String, value: Value)]) -> Self {
        Self(values.map { "`\($0.word)`" }.joined(separator: " or ")) {
            text, _ throws(Refusal) in
            guard let found = values.first(where: { $0.word == text }) else {
                let words = values.map(\.word).joined(separator: " or ")
                throw refusal("must be \(words)", text)
            }
            return (found.value, text)
        }
    }

    /// A number in a range. `value` makes the field's value of it.
    fileprivate static func number(
        _ quantity: SettingQuantity, _ range: ClosedRange<Int>,
        _ value: @escaping @Sendable (Int) -> Value
    ) -> Self {
        let words = "\(quantity.text(range.lowerBound)) to \(quantity.text(range.upperBound))"
        return Self("\(quantity.name), \(words)") { text, _ throws(Refusal) in
            guard let number = quantity.number(text), range.contains(number) else {
                throw refusal("must be \(quantity.rule) from \(words)\(quantity.hint)", text)
            }
            return (value(number), quantity.text(number))
        }
    }
}

extension SettingKind where Value == Int {
    static func integer(_ range: ClosedRange<Int>) -> Self { number(.whole, range) { $0 } }
    static var port: Self { number(.port, 1...65_535) { $0 } }
    /// A number of bytes with an optional unit.
    static func size(_ range: ClosedRange<Int>) -> Self { number(.size, range) { $0 } }
    /// A time in a range of milliseconds, for a field of seconds; rounded up.
    static func wholeSeconds(_ milliseconds: ClosedRange<Int>) -> Self {
        number(.time, milliseconds) { ($0 + 999) / 1000 }
    }
}

// Times in a range of milliseconds.

extension SettingKind where Value == Int64 {
    static func milliseconds(_ range: ClosedRange<Int>) -> Self {
        number(.time, range) { Int64($0) }
    }
}

extension SettingKind where Value == Duration {
    static func duration(_ range: ClosedRange<Int>) -> Self {
        number(.time, range) { .milliseconds($0) }
    }
}

extension SettingKind where Value == Double {
    static func seconds(_ milliseconds: ClosedRange<Int>) -> Self {
        number(.time, milliseconds) { Double($0) / 1_000 }
    }

    static func milliseconds(_ range: ClosedRange<Int>) -> Self {
        number(.time, range) { Double($0) }
    }

    static var percent: Self {
        Self("percent, above 0, at most 100") { text, _ throws(Refusal) in
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
        Self("`UTC`, `Z` or an offset such as `+02:00`") { text, _ throws(Refusal) in
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
        let named = SettingKind<String>.checked("", SettingText.checkIdentifier)
        return Self(SettingFacts(words: "column, or `none`", isOptionalColumn: true)) {
            content, folder throws(Refusal) in
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
        Self(list: "list of columns") { names, _ throws(Refusal) in
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
            guard !result.isEmpty else { throw Refusal("must name at least one column") }
            return (result, "[\(result.joined(separator: ", "))]")
        }
    }
}

extension SettingKind where Value == [String] {
    /// Values of a column, each once.
    static var words: Self {
        Self(list: "list of texts") { words, _ throws(Refusal) in
            for word in words { try SettingText.checkLength(word, SettingText.longest) }
            guard !words.isEmpty else { throw Refusal("must have at least one value") }
            return (words, "[\(words.joined(separator: ", "))]")
        }
    }
}

extension SettingKind where Value == StoreLocation {
    static var storeAddress: Self {
        Self("`mysql://`, `mysql+unix://` or `sqlite://` address", hidden: "the address") {
            text, folder throws(Refusal) in
            let location = try StoreLocation(text, relativeTo: folder)
            return (location, location.description)
        }
    }
}

extension SettingKind where Value == [StoreLocation] {
    static var servers: Self {
        Self(list: "list of `mysql://` or `mysql+unix://` addresses") {
            texts, folder throws(Refusal) in
            var servers: [StoreLocation] = []
            for text in texts {
                let location = try StoreLocation(
                    String(text.drop { $0 == " " }), relativeTo: folder)
                guard case .server(let server) = location else {
                    throw Refusal(
                        "must name servers, such as mysql://monitor@replica:3306/push")
                }
                guard server.addresses.count == 1 else {
                    throw Refusal("must name each server by an address of its own")
                }
                servers.append(location)
            }
            guard !servers.isEmpty else { throw Refusal("must name at least one server") }
            return (servers, "[\(servers.map(\.description).joined(separator: ", "))]")
        }
    }
}

extension SettingKind where Value == LoadLimits {
    /// Limits on figures of a server's status.
    static var load: Self {
        Self("number of running threads, or `figure=number`, several with commas") {
            text, _ throws(Refusal) in
            let limits = try LoadLimits(text)
            return (limits, limits.description)
        }
    }
}

extension SettingKind where Value == Secret {
    /// A password.
    static var secret: Self {
        Self(SettingFacts(words: "password", isSecret: true)) { content, _ throws(Refusal) in
            guard case .text(let text, _) = content, !text.isEmpty else {
                throw Refusal("is empty")
            }
            guard !text.utf8.contains(0) else { throw Refusal("has a zero byte") }
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

    fileprivate static func checkIdentifier(_ text: some StringProtocol) throws(Refusal) {
        guard PlainText.isIdentifier(text)
        else { throw refusal("must be a name of 1 to 64 characters without outer spaces", text) }
    }

    fileprivate static func checkLength(
        _ text: String, _ longest: Int
    ) throws(Refusal) {
        guard text.unicodeScalars.count <= longest else {
            throw Refusal("must be at most \(longest) characters long")
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

/// Whole numbers with a unit, as settings write them.
struct SettingQuantity: Sendable {
    /// The word of the documentation.
    let name: String
    /// The beginning and the end of the sentence about a text that is none.
    let rule: String
    let hint: String
    /// The units from the largest; the value is a number of the smallest.
    private let units: [(name: String, factor: Int)]

    static let time = SettingQuantity(
        name: "time", rule: "a time", hint: " with its unit, such as 500ms, 30s or 5m",
        units: [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)])
    static let size = SettingQuantity(
        name: "size", rule: "a number of bytes", hint: ", such as 65536 or 64KiB",
        units: [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)])
    static let whole = SettingQuantity(
        name: "whole number", rule: "a whole number", hint: "", units: [("", 1)])
    static let port = SettingQuantity(
        name: "port", rule: whole.rule, hint: "", units: whole.units)

    /// The number that a text spells; nil for any other text.
    func number(_ text: String) -> Int? {
        let digits = text.prefix { $0 >= "0" && $0 <= "9" }
        let unit = text.dropFirst(digits.count)
        guard let factor = units.first(where: { $0.name == unit })?.factor,
            let number = PlainText.wholeNumber(digits)
        else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: factor)
        return overflow ? nil : product
    }

    /// A number in the largest unit that needs no fraction.
    func text(_ number: Int) -> String {
        if number == 0 { return units.contains { $0.name == "s" } ? "0s" : "0" }
        let unit = units.first { number.isMultiple(of: $0.factor) } ?? ("", 1)
        return "\(number / unit.factor)\(unit.name)"
    }
}
