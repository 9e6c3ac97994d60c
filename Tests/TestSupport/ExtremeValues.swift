import APNsProtocol
import Database

/// Values of a database that any column may hold, and that end a process which calculates with them blindly.
package enum ExtremeValues {
    package static let integers: [Int64] = [
        .min, .min + 1, -1, 0, 1, 999_999_999, 9_999_999_999, 99_999_999_999,
        10_152_368_850_000_001,
        9_999_999_999_999_999, 99_999_999_999_999_999, 1_000_000_000_000_000_000, .max - 1, .max,
    ]
    private static let reals: [Double] = [
        .nan, .infinity, -.infinity, -0.0, 0.1, 1e9, 1e16, 1e17, 9.3e18, 1e19, 1e308, -1e19,
        .leastNonzeroMagnitude, .greatestFiniteMagnitude,
    ]
    private static let texts = [
        "", " ", "0", "-0", "1e16", "1e400", "nan", "inf", "-inf", "9223372036854775807",
        "9223372036854775808", "-9223372036854775808", "18446744073709551615",
        "0000-00-00 00:00:00",
        "9999-12-31 23:59:59.999999", "9999-12-31T23:59:59-14:00", "0001-01-01 00:00:00+14:00",
        "2024-13-45 99:99:99", "99999999999999", "20241301000000", "\u{660}\u{661}\u{662}",
        "é\u{301}",
        "2024-01-01 00:00:00\u{301}", "٢٠٢٤-٠١-٠١", "-", "+", "T", ":", "1,5",
        "2024-01-01 10:00:00 +",
    ]

    package static let values: [SQLValue] =
        integers.map(SQLValue.integer) + reals.map(SQLValue.real) + texts.map(SQLValue.text)
        + integers.map { .unsigned(UInt64(bitPattern: $0)) } + [.null, .unsigned(.max)]
        + [[], [0], [0xFF], Array(repeating: 0xFF, count: 8), Array(repeating: 0x80, count: 9)]
        .flatMap {
            [SQLValue.bytes($0), .rawText($0)]
        }
        + integers.map { .wallClock(WallClock(milliseconds: $0)) }
}
