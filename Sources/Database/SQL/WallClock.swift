// DATETIME has no zone: "2024-03-31 02:30:00" is the reading of the writer's clock. So it is a type
// separate from instants: a WallClock becomes an instant only through the zone in the settings
// (TimeColumn). The calendar is the proleptic Gregorian one, computed with integers after Howard
// Hinnant, "chrono-Compatible Low-Level Date Algorithms". So no locale, no time zone database and
// no Foundation affects whether a row is stale.

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
            (1...Self.days(inMonth: month, of: year)).contains(day),
            (0...23).contains(hour), (0...59).contains(minute), (0...59).contains(second),
            (0...999_999).contains(microsecond)
        else { return nil }
        let seconds = Self.days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
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
        let (year, month, dayOfMonth) = Self.date(day)
        let seconds = rest / 1_000_000
        return Fields(
            year: year, month: month, day: dayOfMonth, hour: seconds / 3_600,
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

    private static func days(inMonth month: Int, of year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func date(_ days: Int) -> (Int, Int, Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * month + 2) / 5 + 1
        let calendarMonth = month < 10 ? month + 3 : month - 9
        return (yearOfEra + era * 400 + (calendarMonth <= 2 ? 1 : 0), calendarMonth, day)
    }
}

extension Int64 {
    /// Division that rounds towards minus infinity, so that times before 1970 are rounded down like
    /// others.
    func flooredDivision(by divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
