/// Times as text, the way every message and report spells them: RFC 3339 section 5.6 in UTC.
///
/// Foundation's styles and formatters load calendars and time zones for it, which an hourly job without
/// news would pay for at each start.
package enum RFC3339 {
    /// A time in seconds since 1970-01-01T00:00:00Z, such as `2023-11-14T22:13:20Z`.
    package static func text(_ seconds: Int64) -> String { text(seconds, milliseconds: nil) }

    /// A time in milliseconds since 1970-01-01T00:00:00Z, such as `2023-11-14T22:13:20.042Z`.
    package static func text(milliseconds: Int64) -> String {
        let seconds = milliseconds.flooredDivision(by: 1_000)
        // Wrapping: the product is out of range for the earliest milliseconds, the difference never is.
        return text(seconds, milliseconds: Int(milliseconds &- seconds &* 1_000))
    }

    private static func text(_ seconds: Int64, milliseconds: Int?) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(24)
        let days = seconds.flooredDivision(by: 86_400)
        let date = CivilDate(daysSince1970: Int(days))
        // Years that only a mistake can mean; the number says more than they do.
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
