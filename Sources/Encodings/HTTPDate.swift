/// A date of an HTTP header, in each of the three forms of RFC 9110 section 5.6.7.
package enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Seconds since the Unix epoch; nil for a text of no such form. `now`, in the same unit, decides the
    /// century of two-digit years.
    package static func seconds(_ text: String, now: Int64) -> Int64? {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        switch words.count {
        case 6 where words[5] == "GMT":
            // Sun, 06 Nov 1994 08:49:37 GMT
            return time(day: words[1], month: words[2], year: year(words[3]), clock: words[4])
        case 4 where words[3] == "GMT":
            // Sunday, 06-Nov-94 08:49:37 GMT
            let parts = words[1].split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 3, parts[2].utf8.count == 2, let short = number(parts[2]) else {
                return nil
            }
            return twoDigitTime(short, parts, words[2], now: now)
        case 5:
            // Sun Nov  6 08:49:37 1994
            return time(day: words[2], month: words[1], year: year(words[4]), clock: words[3])
        default:
            return nil
        }
    }

    /// A two-digit year that seems over 50 years ahead is the last past year with those digits.
    private static func twoDigitTime(
        _ short: Int, _ parts: [Substring], _ clock: Substring, now: Int64
    ) -> Int64? {
        let fiftyYears: Int64 = 50 * 365 * 86_400 + 12 * 86_400
        for century in [2100, 2000] {
            guard
                let time = time(
                    day: parts[0], month: parts[1], year: century + short, clock: clock)
            else { continue }
            if time <= now + fiftyYears { return time }
        }
        return time(day: parts[0], month: parts[1], year: 1900 + short, clock: clock)
    }

    private static func number(_ text: some StringProtocol) -> Int? {
        text.utf8.allSatisfy(DecimalDigits.isDigit) ? Int(text) : nil
    }

    private static func year(_ text: Substring) -> Int? {
        text.utf8.count == 4 ? number(text) : nil
    }

    private static func time(
        day: Substring, month: Substring, year: Int?, clock: Substring
    ) -> Int64? {
        let parts = clock.split(separator: ":", omittingEmptySubsequences: false)
        guard let year, let month = months.firstIndex(of: String(month)), let day = number(day),
            parts.count == 3, parts.allSatisfy({ $0.utf8.count == 2 }),
            let hour = number(parts[0]), let minute = number(parts[1]),
            let second = number(parts[2]), (1...31).contains(day), hour < 24, minute < 60,
            // 60 is a leap second.
            second <= 60
        else { return nil }
        let days = CivilDate(year: year, month: month + 1, day: day).daysSince1970
        return Int64(days * 86_400 + hour * 3_600 + minute * 60 + second)
    }
}
