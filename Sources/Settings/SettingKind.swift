import Database

/// The type and range of a setting, for the table, the parser and the documentation.
enum SettingKind: Sendable, Equatable {
    /// Any one line of text, at most 255 characters.
    case text
    /// One line of text that our own tables store, at most 64 characters.
    case shortText
    /// A word of letters, digits, dots, hyphens and underscores, with at least one letter or digit.
    case name
    /// Such a word of at most 64 characters.
    case shortName
    /// Ten capital letters and digits, as Apple numbers keys and teams.
    case appleIdentifier
    /// A host name or address without scheme and port.
    case host
    /// A command for the shell, one line of at most 4096 characters. It may hold an address that is
    /// secret, so it is never shown.
    case command
    /// A path; relative ones start at the folder of the settings file.
    case path
    /// A whole number in a range.
    case integer(ClosedRange<Int>)
    /// A number of percent, above 0 and at most 100.
    case percent
    /// A number of bytes with an optional unit, in a range of bytes.
    case size(ClosedRange<Int>)
    /// A time with its unit, in a range of milliseconds.
    case duration(ClosedRange<Int>)
    /// `true` or `false`.
    case boolean
    /// One of a few words.
    case choice([String])
    /// UTC or a fixed offset from it.
    case zone
    /// A table, which may be written `database.table`.
    case table
    /// A column that must exist.
    case column
    /// An optional column: if nothing is written, it is used where the table has it.
    case optionalColumn
    /// One or more columns.
    case columns
    /// Where the token database is.
    case storeAddress
    /// Servers by address.
    case servers
    /// Limits on figures of a server's status.
    case load
    /// A password. Comes from the environment only and is never shown.
    case secret

    /// Type and range in words, for the documentation.
    var words: String {
        switch self {
        case .text: "text"
        case .shortText: "text of at most \(SettingText.longestShort) characters"
        case .name: "word of letters, digits, `.`, `-`, `_`"
        case .shortName:
            "word of at most \(SettingText.longestShort) letters, digits, `.`, `-`, `_`"
        case .appleIdentifier: "10 capital letters and digits"
        case .host: "host name or address"
        case .command: "shell command of at most \(SettingText.longestCommand) characters"
        case .path: "path"
        case .integer(1...65_535): "port, 1 to 65535"
        case .integer(let range): "whole number, \(range.lowerBound) to \(range.upperBound)"
        case .percent: "percent, above 0, at most 100"
        case .size(let range):
            "size, \(SettingSize.text(range.lowerBound)) to \(SettingSize.text(range.upperBound))"
        case .duration(let range):
            "time, \(SettingTime.text(range.lowerBound)) to \(SettingTime.text(range.upperBound))"
        case .boolean: "`true` or `false`"
        case .choice(let words): words.map { "`\($0)`" }.joined(separator: " or ")
        case .zone: "`UTC`, `Z` or an offset such as `+02:00`"
        case .table: "table"
        case .column: "column"
        case .optionalColumn: "column, or `none`"
        case .columns: "list of columns"
        case .storeAddress: "`mysql://`, `mysql+unix://` or `sqlite://` address"
        case .servers: "list of `mysql://` or `mysql+unix://` addresses"
        case .load: "number of running threads, or `figure=number`, several with commas"
        case .secret: "password"
        }
    }

    /// Type and range in words without the marks of the documentation.
    var plainWords: String { words.filter { $0 != "`" } }

    /// Whether the value may be written as a list.
    var isList: Bool { self == .columns || self == .servers }

    /// Whether the value must never be shown.
    var isSecret: Bool { self == .secret }
}

/// The value of a setting, read and checked.
enum SettingValue: Sendable, Equatable {
    /// Text, a name, a path, a host or a choice.
    case text(String)
    /// A whole number; of bytes for a size.
    case number(Int)
    /// Percent.
    case percent(Double)
    /// Milliseconds.
    case milliseconds(Int)
    /// A switch.
    case flag(Bool)
    /// A fixed offset from UTC.
    case zone(ZoneOffset)
    /// An optional column.
    case column(OptionalColumn)
    /// Columns in order.
    case columns([String])
    /// Where the token database is.
    case store(StoreLocation)
    /// Servers in order.
    case servers([StoreLocation])
    /// Limits on a server's load.
    case load(LoadLimits)
    /// A password.
    case secret(Settings.Secret)

    /// The value alone, in the type that a field has; a choice as its word.
    fileprivate var plain: any Sendable {
        switch self {
        case .text(let text): text
        case .number(let number): number
        case .percent(let percent): percent
        case .milliseconds(let milliseconds): Duration.milliseconds(milliseconds)
        case .flag(let flag): flag
        case .zone(let zone): zone
        case .column(let column): column
        case .columns(let names): names
        case .store(let location): location
        case .servers(let servers): servers
        case .load(let limits): limits
        case .secret(let secret): secret
        }
    }

    /// The value as `pushsweep check` prints it and as a file may hold it.
    func shown(_ kind: SettingKind) -> String {
        switch self {
        case .text(let text): kind == .command ? "(set)" : text
        case .number(let number):
            if case .size = kind { SettingSize.text(number) } else { String(number) }
        case .percent(let percent):
            percent == percent.rounded() ? String(Int(percent)) : String(percent)
        case .milliseconds(let milliseconds): SettingTime.text(milliseconds)
        case .flag(let flag): flag ? "true" : "false"
        case .zone(let zone): zone.description
        case .column(.detect(let name)): "\(name), if the table has it"
        case .column(.absent): "none"
        case .column(.named(let name)): name
        case .columns(let names): "[\(names.joined(separator: ", "))]"
        case .store(let location): location.description
        case .servers(let servers): "[\(servers.map(\.description).joined(separator: ", "))]"
        case .load(let limits): limits.description
        case .secret: "(set)"
        }
    }
}

/// A kind together with the Swift type of its values, so that the compiler refuses a row of the
/// table that names a field of another type.
struct SettingType<Value: Sendable>: Sendable {
    let kind: SettingKind
    /// The value as a field holds it; nil for a value of another kind.
    let field: @Sendable (SettingValue) -> Value?

    fileprivate init(
        _ kind: SettingKind,
        field: @escaping @Sendable (SettingValue) -> Value? = {
            $0.plain as? Value
        }
    ) {
        self.kind = kind
        self.field = field
    }
}

extension SettingType where Value == String {
    static var text: Self { Self(.text) }
    static var shortText: Self { Self(.shortText) }
    static var name: Self { Self(.name) }
    static var shortName: Self { Self(.shortName) }
    static var appleIdentifier: Self { Self(.appleIdentifier) }
    static var host: Self { Self(.host) }
    static var command: Self { Self(.command) }
    static var path: Self { Self(.path) }
    static var table: Self { Self(.table) }
    static var column: Self { Self(.column) }
}

extension SettingType
where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    /// One of the words that are the cases of an enumeration.
    static var choice: Self {
        Self(.choice(Value.allCases.map(\.rawValue))) {
            ($0.plain as? String).flatMap(Value.init(rawValue:))
        }
    }
}

extension SettingType where Value == Int {
    static func integer(_ range: ClosedRange<Int>) -> Self { Self(.integer(range)) }
    static func size(_ range: ClosedRange<Int>) -> Self { Self(.size(range)) }
}

extension SettingType where Value == Duration {
    static func duration(_ milliseconds: ClosedRange<Int>) -> Self { Self(.duration(milliseconds)) }
}

extension SettingType where Value == Double { static var percent: Self { Self(.percent) } }
extension SettingType where Value == Bool { static var boolean: Self { Self(.boolean) } }
extension SettingType where Value == ZoneOffset { static var zone: Self { Self(.zone) } }
extension SettingType where Value == OptionalColumn {
    static var optionalColumn: Self { Self(.optionalColumn) }
}
extension SettingType where Value == [String] { static var columns: Self { Self(.columns) } }
extension SettingType where Value == StoreLocation {
    static var storeAddress: Self { Self(.storeAddress) }
}
extension SettingType where Value == [StoreLocation] {
    static var servers: Self { Self(.servers) }
}
extension SettingType where Value == LoadLimits { static var load: Self { Self(.load) } }
extension SettingType where Value == Settings.Secret { static var secret: Self { Self(.secret) } }
