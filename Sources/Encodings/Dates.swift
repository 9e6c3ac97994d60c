/// A date of the proleptic Gregorian calendar, without a time zone.
///
/// It is computed with integers, so the decision whether a row is stale depends on no locale, no
/// time zone database and not on Foundation. Source: Howard Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms" (`days_from_civil`, `civil_from_days`).
package struct CivilDate: Hashable, Sendable {
    /// The year; 0 is the year before the year 1.
    package let year: Int
    /// Month 1 to 12.
    package let month: Int
    /// Day 1 to 31.
    package let day: Int

    /// Makes a date. A day beyond the end of its month belongs to the next month;
    /// `days(inMonth:of:)` shows whether it exists.
    package init(year: Int, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    // A year that begins in March has its leap day at the end, so every month's start follows from
    // one division. An era is 400 years, after which the calendar repeats.

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

    /// Appends `YYYY-MM-DD`, a separator and `HH:MM:SS`. A year before 0 has a sign, and a year
    /// beyond 9999 its digits.
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

    /// The number of days of a month.
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

/// Writes times as text for messages and reports: RFC 3339 section 5.6 in UTC.
///
/// Foundation's formatters load calendars and time zones, which would slow down every start of an
/// hourly job.
package enum RFC3339 {
    /// A time in seconds since 1970-01-01T00:00:00Z, such as `2023-11-14T22:13:20Z`.
    package static func text(_ seconds: Int64) -> String { text(seconds, milliseconds: nil) }

    /// A time in milliseconds since 1970-01-01T00:00:00Z, such as `2023-11-14T22:13:20.042Z`.
    package static func text(milliseconds: Int64) -> String {
        let seconds = milliseconds.flooredDivision(by: 1_000)
        // Wrapping: the product is out of range for the earliest milliseconds, the difference never
        // is.
        return text(seconds, milliseconds: Int(milliseconds &- seconds &* 1_000))
    }

    private static func text(_ seconds: Int64, milliseconds: Int?) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(24)
        let days = seconds.flooredDivision(by: 86_400)
        let date = CivilDate(daysSince1970: Int(days))
        // A year out of this range is a mistake; the number of seconds is more useful.
        let isYear = (-999_999_999...999_999_999).contains(date.year)
        if isYear {
            date.append(
                secondOfDay: Int(seconds - days * 86_400), separator: "T", to: &text)
        } else {
            text.append(contentsOf: String(seconds).utf8)
        }
        if let milliseconds {
            text.append(UInt8(ascii: "."))
            DecimalDigits.append(milliseconds, width: 3, to: &text)
        }
        text.append(contentsOf: (isYear ? "Z" : " s").utf8)
        return String(decoding: text, as: UTF8.self)
    }
}

/// A date of an HTTP header in the form that senders have to write (RFC 9110 section 5.6.7):
/// `Sun, 06 Nov 1994 08:49:37 GMT`.
package enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Seconds since the Unix epoch; nil for a text of another form.
    package static func seconds(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", words[3].utf8.count == 4,
            let month = months.firstIndex(of: String(words[2]))
        else { return nil }
        let clock = words[4].split(separator: ":", omittingEmptySubsequences: false)
        let numbers = ([words[1], words[3]] + clock).compactMap {
            $0.utf8.allSatisfy(DecimalDigits.isDigit) ? Int($0) : nil
        }
        guard numbers.count == 5, clock.allSatisfy({ $0.utf8.count == 2 }),
            // 60 is a leap second.
            (1...31).contains(numbers[0]), numbers[2] < 24, numbers[3] < 60, numbers[4] <= 60
        else { return nil }
        let date = CivilDate(year: numbers[1], month: month + 1, day: numbers[0])
        return Int64(
            date.daysSince1970 * 86_400 + numbers[2] * 3_600 + numbers[3] * 60 + numbers[4])
    }
}

/// Decimal digits of ASCII, as dates are made of.
package enum DecimalDigits {
    /// Whether a byte is a digit. Digits of other scripts are several bytes in UTF-8 and none of
    /// these.
    @inlinable
    package static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    /// Appends a number with zeros in front up to a width. Digits beyond the width are kept.
    ///
    /// - Precondition: the number is not negative.
    package static func append(_ number: Int, width: Int, to text: inout [UInt8]) {
        var (divisor, places) = (1, 1)
        while places < width || number / divisor >= 10 {
            divisor *= 10
            places += 1
        }
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }
}
