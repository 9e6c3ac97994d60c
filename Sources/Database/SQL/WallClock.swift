// DATETIME carries no zone: "2024-03-31 02:30:00" is whatever the writer's clock showed. So it is
// kept apart from instants: a WallClock becomes one only through the zone the settings declare
// (TimeColumn).

import Encodings

/// A calendar date and time of day without a zone, with microseconds.
package struct WallClock: Hashable, Sendable, Comparable {
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

    /// Whether `left` is the earlier reading.
    package static func < (left: WallClock, right: WallClock) -> Bool {
        left.microseconds < right.microseconds
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
