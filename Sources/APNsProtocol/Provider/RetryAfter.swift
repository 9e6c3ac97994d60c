// `Retry-After` is either seconds or a date (RFC 9110 section 10.2.3), and a date has one of three
// forms (section 5.6.7). Apple's documents do not mention the header, but gateways in front of APNs
// send it, and a wait that is too short makes the overload worse.

/// Parses the value of a `Retry-After` header.
package enum RetryAfter {
    /// The seconds from `now`; 0 for a date that has passed, nil where the value has neither form.
    package static func seconds(_ value: [UInt8], now: EpochSeconds) -> UInt32? {
        guard value.count <= 64 else { return nil }
        let text = String(decoding: value, as: UTF8.self)
        if let first = value.first, HTTPDate.isDigit(first) {
            return value.allSatisfy(HTTPDate.isDigit) ? UInt32(text) ?? .max : nil
        }
        guard let time = HTTPDate.seconds(text, now: now) else { return nil }
        return UInt32(clamping: max(0, time - Int64(now.rawValue)))
    }
}

/// An HTTP date (RFC 9110 section 5.6.7).
package enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Parses a date to seconds since the Unix epoch; nil for any other text. `now` decides the
    /// century of two-digit years.
    package static func seconds(_ text: String, now: EpochSeconds) -> Int64? {
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
        _ short: Int64, _ parts: [Substring], _ clock: Substring, now: EpochSeconds
    ) -> Int64? {
        let fiftyYears: Int64 = 50 * 365 * 86_400 + 12 * 86_400
        for century in [Int64(2100), 2000] {
            guard
                let time = time(
                    day: parts[0], month: parts[1], year: century + short, clock: clock)
            else { continue }
            if time <= Int64(now.rawValue) + fiftyYears { return time }
        }
        return time(day: parts[0], month: parts[1], year: 1900 + short, clock: clock)
    }

    private static func number(_ text: some StringProtocol) -> Int64? {
        text.utf8.allSatisfy(isDigit) ? Int64(text) : nil
    }

    static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private static func year(_ text: Substring) -> Int64? {
        text.utf8.count == 4 ? number(text) : nil
    }

    private static func time(
        day: Substring, month: Substring, year: Int64?, clock: Substring
    ) -> Int64? {
        let parts = clock.split(separator: ":", omittingEmptySubsequences: false)
        guard let year, let month = months.firstIndex(of: String(month)), let day = number(day),
            parts.count == 3, parts.allSatisfy({ $0.utf8.count == 2 }),
            let hour = number(parts[0]), let minute = number(parts[1]),
            let second = number(parts[2]), (1...31).contains(day), hour < 24, minute < 60,
            // 60 is a leap second.
            second <= 60
        else { return nil }
        let days = days(year: year, month: Int64(month) + 1, day: day)
        return days * 86_400 + hour * 3_600 + minute * 60 + second
    }

    /// Days from 1970-01-01 in the Gregorian calendar. A year that begins in March has its leap day
    /// at the end, so every month's start follows from one division (H. Hinnant, "chrono-Compatible
    /// Low-Level Date Algorithms").
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}
