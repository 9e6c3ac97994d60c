// A column is one of times where nearly all of its values are. Each form here is one that settings can name,
// or one that a generated column makes of it (`ServingColumn`): what the look reads, a run reads later, to the
// same millisecond. Text and numbers that look like times in another form are said to be so, and no more.

import APNsProtocol
import Database
import Encodings
import TokenTable

/// How times are stored in a column.
enum TimeForm: Hashable {
    /// Times that the settings can name; whole numbers with their unit.
    case usable(TimeColumnType?)
    /// A date without a time, which counts as the end of its day.
    case date
    /// Text on a server, as `TextTime` reads it.
    case text
    /// Numbers of seconds (1), milliseconds (1,000) or microseconds (1,000,000) since 1970 that the
    /// settings cannot name.
    case number(unit: Int64)
    /// Times that nothing reads, with what they are.
    case unread(String)
}

/// A column of times, as its values show it.
struct TimeLook {
    let column: CatalogColumn
    let form: TimeForm
    /// The time in each row; nil where it has none that can be read.
    let times: [EpochMilliseconds?]
    /// Whether the values themselves say how far their clock is from UTC.
    let statesZone: Bool

    var known: [EpochMilliseconds] { times.compactMap { $0 } }

    /// The type that settings name, inner nil for one that is detected; nil where settings cannot name the
    /// form.
    var mapped: TimeColumnType?? {
        guard case .usable(let type) = form else { return nil }
        return .some(type)
    }

    /// Whether times that nothing reads are all that the column has.
    var isUnread: Bool { if case .unread = form { true } else { false } }

    /// Whether the values are readings of a clock whose zone nothing tells.
    var isClock: Bool {
        switch form {
        case .usable(nil), .text: !statesZone && column.type != "timestamp"
        case .usable, .date, .number, .unread: false
        }
    }

    /// The column of a table as times; nil where its values are no times. What stands for none counts as
    /// none.
    init?(
        _ column: CatalogColumn, of table: LookedTable, without none: TimePlaceholders? = nil
    ) {
        var values = table.values(column.name)
        if let none { values = values.map { none.contains($0) ? .null : $0 } }
        let isServer = table.dialect.engine == .mariaDB
        let found: (form: TimeForm, times: [EpochMilliseconds?], statesZone: Bool)?
        if isServer, ["datetime", "timestamp"].contains(column.type) {
            let time = TimeColumn(name: column.name, storage: .wallClock(fraction: 6, offset: 0))
            found = (.usable(nil), values.map(time.known), column.type == "timestamp")
        } else if isServer, column.type == "date" {
            found = (.date, values.map(Self.endOfDay), false)
        } else {
            found =
                (isServer ? Self.texts(column, values) : Self.clocks(column, values))
                ?? Self.numbers(column, values, table.dialect)
        }
        guard let found else { return nil }
        self.column = column
        (form, times, statesZone) = found
        guard !known.isEmpty || isUnread else { return nil }
    }

    /// Whether it is later than another time of the same sample in a fifth of some rows, and hardly ever
    /// earlier; nil: of all rows.
    func isLater(than other: TimeLook, in rows: [Int]? = nil) -> Bool {
        let pairs = rowsLater(than: other, in: rows)
        return pairs.later * 5 >= pairs.all && pairs.later > 0 && pairs.earlier * 50 <= pairs.all
    }

    /// The rows that have both times, and those of them in which this one is later, or earlier, by more than
    /// a second.
    func rowsLater(
        than other: TimeLook, in rows: [Int]? = nil
    ) -> (later: Int, earlier: Int, all: Int) {
        guard column.name != other.column.name else { return (0, 0, 0) }
        let pairs = (rows ?? Array(times.indices)).compactMap { row in
            times[row].flatMap { mine in other.times[row].map { (mine, $0) } }
        }
        return (
            pairs.count { $0.0 > $0.1.advanced(by: 1_000) },
            pairs.count { $0.1 > $0.0.advanced(by: 1_000) }, pairs.count
        )
    }

    /// Whether nearly all of some values are times.
    private static func isEnough(_ read: Int, of filled: Int) -> Bool {
        read > 0 && read * 20 >= filled * 19
    }

    // MARK: Clocks

    private static func endOfDay(_ value: SQLValue) -> EpochMilliseconds? {
        switch value {
        case .wallClock(let clock):
            EpochMilliseconds(
                WallClock(microseconds: clock.microseconds + 86_399_999_000).microseconds
                    .flooredDivision(by: 1_000))
        case .text(let text) where text.utf8.count == 10:
            WallClock(text: text.string + " 23:59:59.999").map {
                EpochMilliseconds($0.microseconds.flooredDivision(by: 1_000))
            }
        default: nil
        }
    }

    /// Text on a server.
    private static func texts(
        _ column: CatalogColumn, _ values: [SQLValue]
    ) -> (TimeForm, [EpochMilliseconds?], Bool)? {
        guard column.isText || column.isInteger else { return nil }
        let read = values.map { value -> TextTime in
            let text = column.isInteger ? value.integer.map { String($0) } : value.text
            return text.map { TextTime($0.utf8) } ?? .none
        }
        let filled = read.count { $0 != .none }
        let times = read.map { time in
            time.clock.map { EpochMilliseconds(-(-$0.microseconds).flooredDivision(by: 1_000)) }
        }
        guard isEnough(times.count { $0 != nil }, of: filled) else {
            return seemsTime(values) ? (.unread(otherText), times, false) : nil
        }
        func count(_ isStated: Bool) -> Int {
            read.count {
                if case .moment(_, let zone) = $0 { (zone != nil) == isStated } else { false }
            }
        }
        let (stated, silent) = (count(true), count(false))
        if stated > 0, silent > 0 {
            return (
                .unread("times of which \(stated) name a zone and \(silent) do not"), times, false
            )
        }
        return (.text, times, stated > 0)
    }

    /// Text in SQLite, which a run reads as it is; dates alone are no times.
    private static func clocks(
        _ column: CatalogColumn, _ values: [SQLValue]
    ) -> (TimeForm, [EpochMilliseconds?], Bool)? {
        let time = TimeColumn(name: column.name, storage: .text(offset: 0))
        let filled = values.filter { !TokenSample.isBlank($0) && $0 != .integer(0) }
        guard filled.contains(where: { $0.text != nil }) else { return nil }
        var (days, stated, silent) = (0, 0, 0)
        let times = values.map { value -> EpochMilliseconds? in
            guard case .text(let text) = value else { return nil }
            if let clock = WallClock.stated(in: text.string) {
                if clock.offset == nil { silent += 1 } else { stated += 1 }
                return time.known(value)
            }
            guard let end = endOfDay(value) else { return nil }
            days += 1
            return end
        }
        guard isEnough(stated + silent + days, of: filled.count) else {
            return seemsTime(values) ? (.unread(otherText), times, false) : nil
        }
        if days > 0 { return (.date, times, false) }
        guard !column.isInteger else {
            return (.unread("text in a column of numbers"), times, false)
        }
        return (.usable(nil), times, silent == 0)
    }

    private static let otherText = "text in a form that no statement compares"

    /// Whether most texts have a year of these decades and little else but digits and signs.
    private static func seemsTime(_ values: [SQLValue]) -> Bool {
        let filled = values.filter { !TokenSample.isBlank($0) }
        let found = filled.count { value in
            guard case .text(let exact) = value, case let text = exact.string,
                (8...40).contains(text.utf8.count)
            else {
                return false
            }
            let digits = text.utf8.split { !DecimalDigits.isDigit($0) }
            let hasYear = digits.contains { run in
                guard let year = Int(String(decoding: run.prefix(4), as: UTF8.self)) else {
                    return false
                }
                return [4, 8, 14].contains(run.count) && (2_000...2_100).contains(year)
            }
            return hasYear && digits.map(\.count).reduce(0, +) * 2 >= text.utf8.count - 8
                && (digits.count > 1 || text.utf8.count == 14)
        }
        return found * 2 > filled.count
    }

    // MARK: Numbers

    private static func numbers(
        _ column: CatalogColumn, _ values: [SQLValue], _ dialect: SQLDialect
    ) -> (TimeForm, [EpochMilliseconds?], Bool)? {
        guard !["tinyint", "smallint", "mediumint", "bit"].contains(column.type) else { return nil }
        let numbers = values.map(NumberTime.init)
        let filled = numbers.compactMap { $0?.value }.filter { $0 > 0 }.sorted()
        guard
            isEnough(
                numbers.count { $0 != nil },
                of: zip(values, numbers).count { !TokenSample.isBlank($0) || $1 != nil }),
            !filled.isEmpty
        else { return nil }
        // From 2008, when push notifications began, to 2065.
        let middle = filled[filled.count / 2]
        guard
            let unit = [1, 1_000, 1_000_000].first(where: {
                (1.2e9...3e9).contains(middle / Double($0))
            })
        else {
            return otherNumbers(filled).map { (.unread($0), values.map { _ in nil }, true) }
        }
        let times = numbers.map { number in
            number?.milliseconds(Int64(unit)).flatMap {
                // Smaller ones are read as no time in a column of milliseconds.
                $0 >= TimeColumn.leastMilliseconds ? EpochMilliseconds($0) : nil
            }
        }
        let isWhole = values.allSatisfy { $0 == .null || $0.integer != nil }
        if column.isInteger || dialect.engine == .sqlite && isWhole, unit < 1_000_000 {
            return (.usable(unit == 1 ? .epochSeconds : .epochMilliseconds), times, true)
        }
        if dialect.engine == .mariaDB, column.type == "float" {
            return (.unread("numbers of seven digits (FLOAT)"), times, true)
        }
        return (.number(unit: Int64(unit)), times, true)
    }
}

extension TimeLook {
    /// What numbers are that may be times since 2008 in a form that nothing here reads; nil where they are none.
    /// `numbers` are sorted, and above zero.
    private static func otherNumbers(_ numbers: [Double]) -> String? {
        let forms: [(ClosedRange<Double>, String)] = [
            (1.2e18...3e18, "numbers of nanoseconds since 1970"),
            (6.335e17...6.52e17, "ticks of 100 nanoseconds since the year 1"),
            (1.285e17...1.5e17, "steps of 100 nanoseconds since 1601"),
            (
                2.008e13...2.1e13,
                "numbers such as 20261127101500, whose digits are a day and a time"
            ),
            (2.008e7...2.1e7, "numbers such as 20261127, whose digits are a day"),
            (2_454_466...2_480_000, "days of the Julian count"),
        ]
        return forms.first {
            $0.0.contains(numbers[0]) && $0.0.contains(numbers[numbers.count - 1])
        }?
        .1
    }
}

extension TimeColumn {
    /// The registration in a value; nil also for a value that is no time.
    fileprivate func known(_ value: SQLValue) -> EpochMilliseconds? {
        isUnreadable(value) ? nil : registration(value)
    }
}

/// A number of seconds, milliseconds or microseconds since 1970. No value of a database is too large for it.
struct NumberTime {
    /// Its size, rounded.
    let value: Double
    private let number: SQLValue

    /// The number in a value; nil where it is none. Text has digits, perhaps with a fraction.
    init?(_ number: SQLValue) {
        self.number = number
        switch number {
        case .integer(let whole): value = Double(whole)
        case .unsigned(let whole): value = Double(whole)
        case .real(let real): value = real
        case .text(let exact):
            let text = exact.string
            let digits =
                text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
            let parts = digits.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            guard (1...2).contains(parts.count), parts[0].count <= 18, digits.count <= 39,
                parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(DecimalDigits.isDigit) }),
                let read = Double(text)
            else { return nil }
            value = read
        default: return nil
        }
    }

    /// The most milliseconds that count as a time: the year 5138.
    static let limit: Int64 = 100_000_000_000_000

    /// The milliseconds, rounded up; nil where the row has no time or one that cannot be meant.
    func milliseconds(_ unit: Int64) -> Int64? {
        guard value > 0, value < Double(Self.limit) / 1_000 * Double(unit) else { return nil }
        switch number {
        case .integer(let whole): return Self.milliseconds(whole, [], unit)
        case .text(let text):
            let parts = text.string.utf8.split(separator: UInt8(ascii: "."))
            return Int64(String(decoding: parts[0], as: UTF8.self)).map {
                Self.milliseconds($0, parts.dropFirst().first.map(Array.init) ?? [], unit)
            }
        case .real(let real):
            let scaled = unit == 1 ? real * 1_000 : unit == 1_000 ? real : real / 1_000
            return Int64(exactly: scaled.rounded(.up))
        default: return nil
        }
    }

    /// A number below the limit with the digits of its fraction as milliseconds, rounded up.
    private static func milliseconds(_ whole: Int64, _ fraction: [UInt8], _ unit: Int64) -> Int64 {
        func isMore(_ digits: some Sequence<UInt8>) -> Bool {
            digits.contains { $0 != UInt8(ascii: "0") }
        }
        if unit == 1 {
            let thousandths = (0..<3).reduce(Int64(0)) { sum, place in
                sum * 10 + (place < fraction.count ? Int64(fraction[place] - UInt8(ascii: "0")) : 0)
            }
            return whole * 1_000 + thousandths + (isMore(fraction.dropFirst(3)) ? 1 : 0)
        }
        let rest = unit == 1_000 ? 0 : whole % 1_000
        return (unit == 1_000 ? whole : whole / 1_000) + (rest > 0 || isMore(fraction) ? 1 : 0)
    }
}
