import Database
import Encodings
import TokenTable

// A column of times that may be none has something else than NULL where it is none: a zero date, the first
// day of a clock, its last day, a zero, a word. These stand for no time where a few of them fill many rows.

/// The values of a column that stand for no time.
struct TimePlaceholders {
    /// The most values of the kind that one column has; more are times.
    private static let most = 3

    /// Those beside NULL and blank values.
    private let others: Set<SQLValue>

    init(_ values: some Sequence<SQLValue>) {
        var others: Set<SQLValue> = []
        for value in values where !TokenSample.isBlank(value) && Self.isOfKind(value) {
            others.insert(value)
            if others.count > Self.most {
                others = []
                break
            }
        }
        self.others = others
    }

    /// Whether a value stands for no time.
    func contains(_ value: SQLValue) -> Bool {
        TokenSample.isBlank(value) || value == .integer(0) || others.contains(value)
    }

    /// Whether a run reads a value that stands for no time as none, too, and not as a time or as damage.
    func isReadAsNone(_ value: SQLValue, in column: CatalogColumn, _ dialect: SQLDialect) -> Bool {
        switch value {
        case .null: true
        case .integer(let number): number <= 0 && column.isInteger
        case .text(let text):
            dialect.engine == .sqlite
                ? text.utf8.allSatisfy { $0 == UInt8(ascii: " ") }
                : ["datetime", "timestamp"].contains(column.type)
                    && text.utf8.starts(with: "0000-00-00".utf8)
        default: false
        }
    }

    // MARK: Kinds

    private static let words: Set = [
        "null", "(null)", "<null>", "nil", "none", "n/a", "na", "undefined", "never", "nan",
        "false", "-", "--", "invalid date",
    ]
    /// Marks are younger than notifications, and not of the next century.
    private static let years = 2_000..<2_100
    private static let first: Int64 = 946_684_800_000_000
    private static let end: Int64 = 4_102_444_800_000_000
    /// The last day of clocks that count seconds in 31 bits.
    private static let lastDay = "2038-01-19"
    private static let lastSecond: Int64 = 2_147_483_647

    private static func isOfKind(_ value: SQLValue) -> Bool {
        switch value {
        case .integer(let number): isOfKind(number)
        case .unsigned(let number): Int64(exactly: number).map(isOfKind) ?? true
        case .real(let number): Int64(exactly: number.rounded()).map(isOfKind) ?? false
        case .wallClock(let clock):
            clock.microseconds < first || clock.microseconds >= end
                || clock.text(fraction: 0).utf8.starts(with: lastDay.utf8)
        case .text(let text): isOfKind(Array(text.utf8))
        default: false
        }
    }

    /// Whether a number is no time in seconds, milliseconds or microseconds since 1970.
    private static func isOfKind(_ number: Int64) -> Bool {
        if number <= 0 || number == lastSecond { return true }
        let units: [ClosedRange<Double>] = [1.2e9...3e9, 1.2e12...3e12, 1.2e15...3e15]
        return number > lastSecond && !units.contains { $0.contains(Double(number)) }
    }

    private static func isOfKind(_ text: [UInt8]) -> Bool {
        let word = String(decoding: text, as: UTF8.self)
        if words.contains(word.lowercased()) { return true }
        if let number = Int64(word) { return isOfKind(number) }
        guard text.count >= 8, text.prefix(4).allSatisfy(DecimalDigits.isDigit),
            [UInt8(ascii: "-"), UInt8(ascii: "/"), UInt8(ascii: ".")].contains(text[4]),
            let year = Int(word.utf8.prefix(4).map { String(UnicodeScalar($0)) }.joined())
        else { return false }
        return !years.contains(year) || text.starts(with: lastDay.utf8)
    }
}
