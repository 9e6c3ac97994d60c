/// A date of the proleptic Gregorian calendar, without a time zone.
///
/// Computed with whole numbers: no locale, no time zone database and no Foundation takes part in the
/// decision whether a row is stale. Source: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms" (`days_from_civil`, `civil_from_days`).
package struct CivilDate: Hashable, Sendable {
    /// The year; 0 is the year before the year 1.
    package let year: Int
    /// Month 1 to 12.
    package let month: Int
    /// Day 1 to 31.
    package let day: Int

    /// States a date. A day beyond the end of its month counts on into the next month; `days(inMonth:of:)`
    /// tells whether it exists.
    package init(year: Int, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    // A year that begins in March has its leap day at the end, so every month's start follows from one
    // division. An era is 400 years, after which the calendar repeats.

    /// The date of a number of days from 1970-01-01, negative before it.
    package init(daysSince1970 days: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Days from 1970-01-01, negative before it.
    package var daysSince1970: Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    /// Appends `YYYY-MM-DD`, a separator and `HH:MM:SS`. A year before 0 has a sign, and a year beyond 9999
    /// its digits.
    package func append(
        secondOfDay: Int, separator: Unicode.Scalar, to text: inout [UInt8]
    ) {
        if year < 0 { text.append(UInt8(ascii: "-")) }
        DecimalDigits.append(abs(year), width: 4, to: &text)
        for (number, separator) in [
            (month, "-"), (day, "-"), (secondOfDay / 3_600, separator),
            (secondOfDay / 60 % 60, ":"), (secondOfDay % 60, ":"),
        ] as [(Int, Unicode.Scalar)] {
            text.append(UInt8(ascii: separator))
            DecimalDigits.append(number, width: 2, to: &text)
        }
    }

    /// How many days a month has.
    package static func days(inMonth month: Int, of year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    }
}

extension Int64 {
    /// Division that rounds towards minus infinity, so that times before 1970 floor like others.
    package func flooredDivision(by divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
