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

    /// Parses the same with an optional `Z`, `+HH:MM` or `-HH:MM` at the end, which overrides any
    /// declared zone. Returns the reading and the seconds by which the clock is ahead of UTC, nil
    /// for a text without a zone; nil for any other text.
    static func stated(in text: String) -> (clock: WallClock, offset: Int?)? {
        var rest = Array(text.utf8)[...]
        var offset: Int?
        if rest.last == UInt8(ascii: "Z") || rest.last == UInt8(ascii: "z") {
            rest.removeLast()
            offset = 0
        } else if rest.count > 16,
            let zone = ZoneOffset(String(decoding: rest.suffix(6), as: UTF8.self))
        {
            rest.removeLast(6)
            offset = zone.seconds
        }
        return WallClock(rest).map { ($0, offset) }
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
    /// Parses a time that a person or another program wrote: an ISO 8601 date, alone or with a time;
    /// in UTC where it names no zone. The start of the day where it has no time. Beside
    /// `2026-11-22T10:00:00.5Z` a comma may begin the fraction, and the zone may be `+02`, `+0200`,
    /// `+02:00` or `UTC`, also after a space. Nil for any other text.
    package init?(iso8601 text: String) {
        var time = text.replacing(",", with: ".", maxReplacements: 1)
        for zone in [" UTC", " GMT"] where time.hasSuffix(zone) {
            time = time.dropLast(zone.count) + "Z"
        }
        // A date alone, perhaps in UTC.
        if time.utf8.count == 10 { time += " 00:00" }
        if time.utf8.count == 11, time.hasSuffix("Z") { time = time.dropLast() + " 00:00Z" }
        // The hours of a zone follow a sign behind the date.
        if let sign = time.dropFirst(16).lastIndex(where: { $0 == "+" || $0 == "-" }) {
            let digits = time[time.index(after: sign)...]
            let isShort = digits.utf8.allSatisfy(DecimalDigits.isDigit)
            let head = time[..<sign]
            let clock = head.last == " " ? head.dropLast() : head
            switch digits.utf8.count {
            case 2 where isShort: time = "\(clock)\(time[sign])\(digits):00"
            case 4 where isShort:
                time = "\(clock)\(time[sign])\(digits.prefix(2)):\(digits.suffix(2))"
            default: time = "\(clock)\(time[sign...])"
            }
        }
        guard let (clock, offset) = WallClock.stated(in: time) else { return nil }
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
