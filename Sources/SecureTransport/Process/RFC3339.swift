import Glibc

/// Times as text, the way every message and report here spells them: RFC 3339 in UTC.
///
/// The C library makes them. Foundation's styles and formatters load calendars and time zones for it,
/// which an hourly job without news would pay for at each start.
package enum RFC3339 {
    /// A time in seconds since 1970-01-01T00:00:00Z, such as `2023-11-14T22:13:20Z`.
    package static func text(_ seconds: Int64) -> String { text(seconds, fraction: "") }

    /// A time in milliseconds since 1970-01-01T00:00:00Z, such as `2023-11-14T22:13:20.042Z`.
    package static func text(milliseconds: Int64) -> String {
        var (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        if rest < 0 { (seconds, rest) = (seconds - 1, rest + 1000) }
        return text(seconds, fraction: "." + String(1000 + rest).dropFirst())
    }

    private static func text(_ seconds: Int64, fraction: String) -> String {
        var time = time_t(seconds)
        var parts = tm()
        // A year that `tm` has no room for.
        guard gmtime_r(&time, &parts) != nil else { return "\(seconds)\(fraction) s" }
        var characters = [UInt8](repeating: 0, count: 64)
        let length = characters.withUnsafeMutableBytes { bytes in
            strftime(bytes.baseAddress, bytes.count, "%Y-%m-%dT%H:%M:%S", &parts)
        }
        return String(decoding: characters[..<length], as: UTF8.self) + fraction + "Z"
    }
}
