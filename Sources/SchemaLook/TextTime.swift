// Times that an application keeps as text on a server. No statement compares them, so a generated column
// makes a DATETIME of them. Whatever the look accepts that column reads too, by the rules of this file: once
// in Swift for the sample, once as SQL for the column.
//
//   nothing         NULL, blanks, 0, 0000-00-00...: the row has no time
//   a moment        2026-11-27T10:00:00.5+01:00: T or a blank, seconds and fraction may be missing, a zone
//                   may follow; 20261127100000
//   a day           2026-11-27: its end, so that a device that registered at noon is not older than a
//                   report of that morning
//   anything else   later than any time: a row that cannot be judged keeps its device
//
// In strict mode a server refuses the application's own row where a function cannot read its argument. So
// a pattern that knows the lengths of months looks at the text before any function does.

import Database
import Encodings
import TokenTable

/// One text as a time of a server's column.
enum TextTime: Hashable {
    case none
    /// A reading of a clock that is some seconds ahead of UTC; nil: of a clock that the text does not name.
    case moment(WallClock, zone: Int?)
    /// The last millisecond of a day.
    case day(WallClock)
    case unreadable

    /// Reads a text.
    init(_ text: some Sequence<UInt8>) {
        let text = Array(text)
        // Patterns of servers call more than this a space, and not the same on both.
        let isNothing = text.allSatisfy { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "0") }
        if isNothing, text.count(where: { $0 == UInt8(ascii: "0") }) <= 1 {
            self = .none
        } else if text.starts(with: "0000-00-00".utf8) {
            self = .none
        } else {
            self = Self.time(text) ?? .unreadable
        }
    }

    private static func time(_ text: [UInt8]) -> TextTime? {
        guard [0x31, 0x32].contains(text.first) else { return nil }
        if text.count == 14, text.allSatisfy(DecimalDigits.isDigit) {
            let parts = [0..<4, 4..<6, 6..<8, 8..<10, 10..<12, 12..<14].map {
                String(decoding: text[$0], as: UTF8.self)
            }
            return WallClock(
                text: "\(parts[0])-\(parts[1])-\(parts[2]) \(parts[3]):\(parts[4]):\(parts[5])"
            ).flatMap { inRange($0) }.map { .moment($0, zone: nil) }
        }
        let word = String(decoding: text, as: UTF8.self)
        if text.count == 10 {
            return WallClock(text: word + " 23:59:59.999").flatMap { inRange($0) }.map { .day($0) }
        }
        var rest = text[...]
        var zone: Int?
        if rest.last == UInt8(ascii: "Z") || rest.last == UInt8(ascii: "z") {
            rest.removeLast()
            zone = 0
        } else if let sign = rest.dropFirst(16).lastIndex(where: { "+-".utf8.contains($0) }) {
            var digits = Array(rest[(sign + 1)...])
            if digits.count == 4 { digits.insert(UInt8(ascii: ":"), at: 2) }
            let name = String(decoding: rest[sign...sign] + digits, as: UTF8.self)
            guard digits.count == 5, let named = ZoneOffset(name) else { return nil }
            zone = named.seconds
            rest = rest[..<sign]
        }
        if rest.count > 10, rest[10] == UInt8(ascii: "t") { rest[10] = UInt8(ascii: "T") }
        return WallClock(text: String(decoding: rest, as: UTF8.self)).flatMap { inRange($0) }.map {
            .moment($0, zone: zone)
        }
    }

    /// The years that the pattern knows.
    private static func inRange(_ clock: WallClock) -> WallClock? {
        (1900...2199).contains(clock.fields.year) ? clock : nil
    }

    /// The reading of a clock in UTC, or in the zone that the settings name; nil without a time, and for
    /// text that is none.
    var clock: WallClock? {
        switch self {
        case .none, .unreadable: nil
        case .moment(let clock, let zone):
            WallClock(microseconds: clock.microseconds - Int64(zone ?? 0) * 1_000_000)
        case .day(let clock): clock
        }
    }

    // MARK: The same as SQL

    /// A DATETIME(6) of a text, as SQL of a server; NULL without a time.
    static func expression(_ text: String) -> String {
        // Up to the sign of the zone: the third minus, a plus or a Z.
        let clock =
            "SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(UPPER(\(text)), 'Z', 1), '+', 1), '-', 3)"
        let zone = "REPLACE(SUBSTR(\(text), CHAR_LENGTH(\(clock)) + 1), ':', '')"
        let ahead =
            "CONCAT('0', SUBSTR(\(zone), 2, 2)) * 60 + CONCAT('0', SUBSTR(\(zone), 4, 2))"
        let sign = "CASE WHEN \(zone) LIKE '+%' THEN -1 ELSE 1 END"
        let parts = [("", 1), ("-", 5), ("-", 7), (" ", 9), (":", 11), (":", 13)].map {
            sign, place in
            let digits = "SUBSTR(\(text), \(place), \(place == 1 ? 4 : 2))"
            return sign.isEmpty ? digits : "'\(sign)', \(digits)"
        }
        return
            "CASE WHEN \(text) NOT REGEXP '[^ 0]|0.*0' OR \(text) LIKE '0000-00-00%' THEN NULL "
            // A dollar stands before a line end too.
            + "WHEN \(text) REGEXP '[^-0-9TZtz:.+ ]' THEN \(later) "
            + "WHEN \(text) REGEXP '^(\(days("-")))[Tt ]\(minutes(":"))(:[0-5][0-9]([.][0-9]+)?)?"
            + "([Zz]|[+-](0[0-9]|1[0-3]):?[0-5][0-9]|[+-]14:?00)?$' "
            + "THEN TIMESTAMPADD(MINUTE, (\(sign)) * (\(ahead)), CAST(LEFT(\(clock), 26) AS DATETIME(6))) "
            + "WHEN \(text) REGEXP '^(\(days("-")))$' "
            + "THEN CAST(CONCAT(\(text), ' 23:59:59.999') AS DATETIME(6)) "
            + "WHEN \(text) REGEXP '^(\(days("")))\(minutes(""))[0-5][0-9]$' "
            + "THEN CAST(CONCAT(\(parts.joined(separator: ", "))) AS DATETIME(6)) "
            + "WHEN \(text) IS NOT NULL THEN \(later) END"
    }

    /// A time that no report is later than.
    static let later = "TIMESTAMP'9999-12-31 00:00:00'"

    /// A pattern of the days of the years 1900 to 2199, with a sign between year, month and day.
    private static func days(_ sign: String) -> String {
        let leap = "(19|20|21)(0[48]|[2468][048]|[13579][26])|2000"
        return "(19|20|21)[0-9]{2}\(sign)((0[13578]|1[02])\(sign)(0[1-9]|[12][0-9]|3[01])"
            + "|(0[469]|11)\(sign)(0[1-9]|[12][0-9]|30)|02\(sign)(0[1-9]|1[0-9]|2[0-8]))"
            + "|(\(leap))\(sign)02\(sign)29"
    }

    /// A pattern of hours and minutes with a sign between them.
    private static func minutes(_ sign: String) -> String {
        "([01][0-9]|2[0-3])\(sign)[0-5][0-9]"
    }
}
