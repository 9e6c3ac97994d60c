// DATETIME carries no zone: "2024-03-31 02:30:00" is whatever the writer's clock showed. So it is
// kept apart from instants: a WallClock becomes one only through the zone the settings declare
// (TimeColumn).

import APNsProtocol
import Encodings

/// A calendar date and time of day without a zone, with microseconds.
package struct WallClock: Hashable, Sendable {
    /// Microseconds between 1970-01-01 00:00:00 on the same clock and this reading.
    package let microseconds: Int64

    /// The range of databases: the years 1 to 9999.
    private static let range: ClosedRange<Int64> = -62_135_596_800_000_000...253_402_300_799_999_999

    /// Makes a reading from microseconds since 1970-01-01 00:00:00 on the same clock, limited to
    /// the range of databases.
    package init(microseconds: Int64) {
        self.microseconds = min(max(microseconds, Self.range.lowerBound), Self.range.upperBound)
    }

    /// Makes a reading from milliseconds since 1970-01-01 00:00:00, limited in the same way.
    package init(milliseconds: Int64) {
        let (product, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000)
        self.init(microseconds: overflow ? (milliseconds > 0 ? .max : .min) : product)
    }

    /// Whether databases can hold this time, in milliseconds since 1970.
    package static func has(milliseconds: Int64) -> Bool {
        let product = milliseconds.multipliedReportingOverflow(by: 1_000)
        return !product.overflow && range.contains(product.partialValue)
    }

    /// Makes a reading from calendar fields; nil for a date that does not exist, such as the
    /// all-zero date of MySQL.
    package init?(
        year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int, microsecond: Int
    ) {
        guard (1...9999).contains(year), (1...12).contains(month),
            (1...CivilDate.days(inMonth: month, of: year)).contains(day),
            (0...23).contains(hour), (0...59).contains(minute), (0...59).contains(second),
            (0...999_999).contains(microsecond)
        else { return nil }
        let days = CivilDate(year: year, month: month, day: day).daysSince1970
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
        microseconds = Int64(seconds) * 1_000_000 + Int64(microsecond)
    }

    /// The fields of the calendar.
    package var fields: Fields {
        let day = Int(microseconds.flooredDivision(by: 86_400_000_000))
        let rest = Int(microseconds - Int64(day) * 86_400_000_000)
        let date = CivilDate(daysSince1970: day)
        let seconds = rest / 1_000_000
        return Fields(
            year: date.year, month: date.month, day: date.day, hour: seconds / 3_600,
            minute: seconds / 60 % 60, second: seconds % 60, microsecond: rest % 1_000_000)
    }

    /// The calendar fields of a reading.
    package struct Fields: Hashable, Sendable {
        /// Year 1 to 9999.
        package let year: Int
        /// Month 1 to 12.
        package let month: Int
        /// Day 1 to 31.
        package let day: Int
        /// Hour 0 to 23.
        package let hour: Int
        /// Minute 0 to 59.
        package let minute: Int
        /// Second 0 to 59.
        package let second: Int
        /// Microsecond 0 to 999,999.
        package let microsecond: Int
    }
}

extension WallClock {
    /// `YYYY-MM-DD HH:MM:SS`, followed by `fraction` digits of the second (0 to 6).
    package func text(fraction: Int) -> String {
        let fields = fields
        var text: [UInt8] = []
        text.reserveCapacity(26)
        CivilDate(year: fields.year, month: fields.month, day: fields.day).append(
            secondOfDay: fields.hour * 3_600 + fields.minute * 60 + fields.second, separator: " ",
            to: &text)
        if fraction > 0 {
            text.append(UInt8(ascii: "."))
            var shortened = fields.microsecond
            for _ in fraction..<6 { shortened /= 10 }
            DecimalDigits.append(shortened, width: fraction, to: &text)
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Parses `YYYY-MM-DD HH:MM[:SS[.f…]]`, with `T` allowed for the space, as in SQLite's date
    /// functions and ISO 8601; nil for any other text, also for one with a zone.
    package init?(text: String) { self.init(Array(text.utf8)[...]) }

    /// Parses the same with a zone at the end, which overrides any declared one: `Z`, `+HH:MM`, `+HHMM` or
    /// `+HH`, also with a minus and after a space, ` UTC` or ` GMT`. A comma may begin the fraction. Returns
    /// the reading and the seconds by which the clock is ahead of UTC, nil for a text without a zone; nil for
    /// any other text, such as one with the name of a zone, which has two offsets a year.
    ///
    /// `InstantExpression` reads exactly these in SQL.
    package static func stated(in text: String) -> (clock: WallClock, offset: Int?)? {
        var rest = Array(text.utf8)[...]
        if let comma = rest.firstIndex(of: UInt8(ascii: ",")) { rest[comma] = UInt8(ascii: ".") }
        var offset: Int?
        if [" UTC", " GMT"].contains(where: { rest.suffix(4).elementsEqual($0.utf8) }) {
            rest.removeLast(4)
            return WallClock(rest).map { ($0, 0) }
        }
        if rest.last == UInt8(ascii: "Z") || rest.last == UInt8(ascii: "z") {
            rest.removeLast()
            offset = 0
        } else if let (zone, start) = hours(at: rest) {
            rest = rest[..<start]
            offset = zone.seconds
        }
        if offset != nil, rest.last == UInt8(ascii: " ") { rest.removeLast() }
        return WallClock(rest).map { ($0, offset) }
    }

    /// The hours from UTC at the end of a date and time, and where their sign is.
    private static func hours(at text: ArraySlice<UInt8>) -> (zone: ZoneOffset, start: Int)? {
        let signs = [UInt8(ascii: "+"), UInt8(ascii: "-")]
        guard let start = text.dropFirst(16).lastIndex(where: signs.contains) else { return nil }
        var zone = String(decoding: text[start...], as: UTF8.self)
        let digits = text[(start + 1)...]
        if digits.allSatisfy(DecimalDigits.isDigit) {
            switch digits.count {
            case 2: zone += ":00"
            case 4: zone = "\(zone.prefix(3)):\(zone.suffix(2))"
            default: return nil
            }
        }
        return ZoneOffset(zone).map { ($0, start) }
    }

    private init?(_ text: ArraySlice<UInt8>) {
        var rest = text
        func number(_ width: Int) -> Int? {
            guard rest.count >= width else { return nil }
            var value = 0
            for byte in rest.prefix(width) {
                guard DecimalDigits.isDigit(byte) else { return nil }
                value = value * 10 + Int(byte - UInt8(ascii: "0"))
            }
            rest.removeFirst(width)
            return value
        }
        func separator(_ allowed: String) -> Bool {
            guard let first = rest.first, allowed.utf8.contains(first) else { return false }
            rest.removeFirst()
            return true
        }
        guard let year = number(4), separator("-"), let month = number(2), separator("-"),
            let day = number(2), separator(" T"), let hour = number(2), separator(":"),
            let minute = number(2)
        else { return nil }
        var second = 0
        var microsecond = 0
        if separator(":") {
            guard let value = number(2) else { return nil }
            second = value
            if separator(".") {
                guard !rest.isEmpty else { return nil }
                var scale = 100_000
                while let digit = number(1) {
                    microsecond += digit * scale
                    scale /= 10
                }
            }
        }
        guard rest.isEmpty else { return nil }
        self.init(
            year: year, month: month, day: day, hour: hour, minute: minute, second: second,
            microsecond: microsecond)
    }
}

extension EpochMilliseconds {
    /// Parses a time that a person or another program wrote: an ISO 8601 date, alone or with a time, in
    /// the forms of `WallClock.stated`; in UTC where it names no zone. The start of the day where it has no
    /// time. Nil for any other text.
    package init?(iso8601 text: String) {
        let bytes = Array(text.utf8)
        // A date alone, perhaps in UTC.
        let isDay = ["", "Z", " UTC", " GMT"].contains {
            bytes.dropFirst(10).elementsEqual($0.utf8)
        }
        let day = String(decoding: bytes.prefix(10), as: UTF8.self)
        guard let (clock, offset) = WallClock.stated(in: isDay ? day + " 00:00" : text) else {
            return nil
        }
        self.init(
            clock.microseconds.flooredDivision(by: 1_000) - Int64(offset ?? 0) * 1_000)
    }
}

/// A fixed offset from UTC. Named zones are refused: where clocks are set back an hour repeats, and
/// a time in it is ambiguous.
package struct ZoneOffset: Hashable, Sendable, CustomStringConvertible {
    /// Seconds east of UTC, a multiple of 60 between -14 and +14 hours.
    package let seconds: Int

    /// UTC itself, an offset of 0 seconds.
    package static let utc = ZoneOffset(seconds: 0)

    /// Makes an offset without checking its range.
    package init(seconds: Int) { self.seconds = seconds }

    /// Parses `UTC`, `Z`, `+HH:MM` or `-HH:MM`; nil for any other text.
    package init?(_ text: String) {
        if text == "UTC" || text == "Z" {
            self = .utc
            return
        }
        let bytes = Array(text.utf8)
        guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"),
            bytes[0] == UInt8(ascii: "+") || bytes[0] == UInt8(ascii: "-"),
            let hours = PlainText.wholeNumber(text.dropFirst().prefix(2)),
            let minutes = PlainText.wholeNumber(text.suffix(2)), minutes < 60,
            hours * 60 + minutes <= 840
        else { return nil }
        let seconds = (hours * 60 + minutes) * 60
        self.seconds = bytes[0] == UInt8(ascii: "-") ? -seconds : seconds
    }

    /// `+HH:MM` or `-HH:MM`, as SQL writes it.
    package var description: String {
        let minutes = abs(seconds) / 60
        let pad = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(seconds < 0 ? "-" : "+")\(pad(minutes / 60)):\(pad(minutes % 60))"
    }
}
