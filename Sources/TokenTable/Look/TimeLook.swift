import APNsProtocol
import Database

/// How times are stored in a column.
enum TimeForm: Hashable {
    /// Times that the settings can name; whole numbers with their unit.
    case usable(TimeColumnType?)
    /// A date without a time.
    case date
    /// Text on a server; the format of `STR_TO_DATE`, empty for ISO 8601.
    case text(format: String)
    /// Numbers of seconds (1), milliseconds (1,000) or microseconds (1,000,000) since 1970 that the
    /// settings cannot name; exact for whole numbers.
    case number(unit: Int, isExact: Bool)
}

/// A column of times, as its values show it.
struct TimeLook {
    let column: CatalogColumn
    let form: TimeForm
    /// The time in each row; nil where it has none.
    let times: [EpochMilliseconds?]

    var known: [EpochMilliseconds] { times.compactMap { $0 } }

    /// The type that settings name, inner nil for one that is detected; nil where settings cannot name the
    /// form.
    var mapped: TimeColumnType?? {
        guard case .usable(let type) = form else { return nil }
        return .some(type)
    }

    /// The column of a table as times; nil where its values are no times.
    init?(_ column: CatalogColumn, of table: LookedTable) {
        let values = table.values(column.name)
        self.column = column
        if let (form, times) = Self.clock(column, values, table.dialect) {
            (self.form, self.times) = (form, times)
        } else if let (form, times) = Self.numbers(column, values, table.dialect) {
            (self.form, self.times) = (form, times)
        } else {
            return nil
        }
        guard !known.isEmpty else { return nil }
    }

    /// Whether it is later than another time of the same sample in many of some rows, and hardly ever
    /// earlier; nil: of all rows.
    func isLater(than other: TimeLook, in rows: [Int]? = nil) -> Bool {
        guard column.name != other.column.name else { return false }
        let pairs = (rows ?? Array(times.indices)).compactMap { row in
            times[row].flatMap { mine in other.times[row].map { (mine, $0) } }
        }
        let later = pairs.count { $0.0 > $0.1.advanced(by: 1_000) }
        let earlier = pairs.count { $0.1 > $0.0.advanced(by: 1_000) }
        return later * 5 >= pairs.count && later > 0 && earlier * 50 <= pairs.count
    }

    private static func clock(
        _ column: CatalogColumn, _ values: [SQLValue], _ dialect: SQLDialect
    ) -> (TimeForm, [EpochMilliseconds?])? {
        let isServer = dialect.engine == .mariaDB
        if isServer, ["datetime", "timestamp"].contains(column.type) {
            let time = TimeColumn(name: column.name, storage: .wallClock(fraction: 0, offset: 0))
            return (.usable(nil), values.map(time.mark))
        }
        // A date is read as text, or as a reading of the clock at midnight.
        let isText = column.isText || ["date", "datetime", "timestamp", ""].contains(column.type)
        guard isText else { return nil }
        let filled = values.filter { !TokenSample.isBlank($0) }
        let texts = filled.compactMap(\.text)
        let isClock = filled.contains { if case .wallClock = $0 { true } else { false } }
        guard isClock || !texts.isEmpty, isClock || texts.count == filled.count else { return nil }
        let dates = values.map { value -> EpochMilliseconds? in
            if case .wallClock(let clock) = value {
                return EpochMilliseconds(clock.microseconds.flooredDivision(by: 1_000))
            }
            return value.text.flatMap { EpochMilliseconds(iso8601: $0) }
        }
        let read = dates.count { $0 != nil }
        if read > 0, read * 20 >= filled.count * 19 {
            let isDate = column.type == "date" || !isClock && texts.allSatisfy { $0.count == 10 }
            // A text with a zone other than UTC loses it in the statements of a server.
            let hasZone =
                isServer && texts.contains { $0.dropFirst(16).contains { "+-".contains($0) } }
            if hasZone { return nil }
            if isDate { return (.date, dates) }
            return (isServer ? .text(format: "") : .usable(nil), dates)
        }
        // MediaWiki's form: 20261126193000.
        let compact = values.map { $0.text.flatMap(Self.compact) }
        guard isServer, compact.count(where: { $0 != nil }) * 20 >= filled.count * 19 else {
            return nil
        }
        return (.text(format: "%Y%m%d%H%i%s"), compact)
    }

    private static func compact(_ text: String) -> EpochMilliseconds? {
        let digits = Array(text)
        guard digits.count == 14, digits.allSatisfy(\.isNumber) else { return nil }
        func part(_ range: Range<Int>) -> String { String(digits[range]) }
        return EpochMilliseconds(
            iso8601: "\(part(0..<4))-\(part(4..<6))-\(part(6..<8)) "
                + "\(part(8..<10)):\(part(10..<12)):\(part(12..<14))")
    }

    private static func numbers(
        _ column: CatalogColumn, _ values: [SQLValue], _ dialect: SQLDialect
    ) -> (TimeForm, [EpochMilliseconds?])? {
        guard !["tinyint", "smallint", "mediumint", "bit"].contains(column.type) else { return nil }
        let numbers = values.map { value -> Double? in
            switch value {
            case .integer(let number): Double(number)
            case .real(let number): number
            case .text(let text): Double(text.string)
            default: nil
            }
        }
        let filled = numbers.compactMap { $0 }.filter { $0 > 0 }.sorted()
        guard !filled.isEmpty, values.allSatisfy({ $0 == .null || Self.isNumber($0) }) else {
            return nil
        }
        let middle = filled[filled.count / 2]
        // From 2008, when push notifications began, to 2065.
        guard
            let unit = [1, 1_000, 1_000_000].first(where: {
                (1.2e9...3e9).contains(middle / Double($0))
            })
        else { return nil }
        let times = numbers.map { number -> EpochMilliseconds? in
            guard let number, number > 0 else { return nil }
            // What is no time, such as a user's number among old ones, may be as large as a Double.
            let milliseconds = (number / Double(unit) * 1_000).rounded(.down)
            return Int64(exactly: milliseconds).map { EpochMilliseconds($0) }
        }
        let isWhole = column.isInteger || values.allSatisfy { $0 == .null || $0.integer != nil }
        if isWhole, unit < 1_000_000, dialect.engine == .sqlite || column.isInteger {
            return (.usable(unit == 1 ? .epochSeconds : .epochMilliseconds), times)
        }
        return (.number(unit: unit, isExact: isWhole), times)
    }

    private static func isNumber(_ value: SQLValue) -> Bool {
        switch value {
        case .integer, .real: true
        case .text(let text): text.isEmpty || Double(text.string) != nil
        default: false
        }
    }
}
