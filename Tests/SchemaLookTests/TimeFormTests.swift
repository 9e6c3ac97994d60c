import APNsProtocol
import Encodings
import Testing

@testable import Database
@testable import SchemaLook

@Suite("The forms of a time in a column")
struct TimeFormTests {
    @Test(
        "a text is no time, a moment with its zone or without, a day, or nothing that is read",
        arguments: [
            ("", "none"), ("  ", "none"), ("0", "none"), (" 0 ", "none"), ("00", "unreadable"),
            ("0000-00-00 00:00:00", "none"), ("2026-11-27", "2026-11-27 23:59:59.999 day"),
            ("20261127101500", "2026-11-27 10:15:00.000 silent"),
            ("2026-11-27 10:15:00", "2026-11-27 10:15:00.000 silent"),
            ("2026-11-27T10:15:00.5Z", "2026-11-27 10:15:00.500 0"),
            ("2026-11-27t10:15:00z", "2026-11-27 10:15:00.000 0"),
            ("2026-11-27T10:15:00+02:00", "2026-11-27 10:15:00.000 7200"),
            ("2026-11-27T10:15:00-0530", "2026-11-27 10:15:00.000 -19800"),
            ("2026-11-27T10:15+14:00", "2026-11-27 10:15:00.000 50400"),
            ("2026-11-27T10:15:00+2:00", "unreadable"), ("2026-11-27T10:15:00+14:01", "unreadable"),
            ("1899-12-31", "unreadable"), ("1900-01-01", "1900-01-01 23:59:59.999 day"),
            ("2199-12-31", "2199-12-31 23:59:59.999 day"), ("2200-01-01", "unreadable"),
            ("0999-01-01", "unreadable"), ("2026-02-30", "unreadable"), ("soon", "unreadable"),
            ("2026112710150", "unreadable"), ("20261327101500", "unreadable"),
        ])
    func texts(text: String, form: String) {
        let time = TextTime(text.utf8)
        let found =
            switch time {
            case .none: "none"
            case .unreadable: "unreadable"
            case .day(let clock): clock.text(fraction: 3) + " day"
            case .moment(let clock, let zone):
                clock.text(fraction: 3) + " " + (zone.map { "\($0)" } ?? "silent")
            }
        #expect(found == form)
        switch time {
        case .moment(let clock, let zone):
            let seconds = Int64(zone ?? 0) * 1_000_000
            #expect(time.clock?.microseconds == clock.microseconds - seconds)
        case .day(let clock): #expect(time.clock == clock)
        case .none, .unreadable: #expect(time.clock == nil)
        }
    }

    @Test(
        "a number counts seconds, milliseconds or microseconds, and a part of a millisecond counts whole",
        arguments: [
            (.integer(1_700_000_000), 1, 1_700_000_000_000), (.integer(1), 1_000, 1),
            (.integer(1_999), 1_000_000, 2), (.integer(2_000), 1_000_000, 2), (.integer(0), 1, nil),
            (.integer(-1), 1, nil), (.integer(99_999_999_999), 1, 99_999_999_999_000),
            (.integer(100_000_000_000), 1, nil), (.real(1.5), 1, 1_500), (.real(1.2341), 1, 1_235),
            (.real(7.2), 1_000, 8), (.real(1_001), 1_000_000, 2), (.text("1.5"), 1, 1_500),
            (.text("1.0001"), 1, 1_001), (.text("1.0010"), 1, 1_001), (.text("7.000"), 1_000, 7),
            (.text("7.001"), 1_000, 8), (.text("1999"), 1_000_000, 2),
            (.text("2000.1"), 1_000_000, 3),
            (.text("-1.5"), 1, nil), (.unsigned(7), 1, nil),
        ] as [(SQLValue, Int64, Int64?)])
    func numbers(value: SQLValue, unit: Int64, milliseconds: Int64?) throws {
        let number = try #require(NumberTime(value))
        #expect(number.milliseconds(unit) == milliseconds)
    }

    @Test(
        "a text that is no plain number of usual length is none",
        arguments: ["", "-", "1.", ".1", "1.2.3", "1e3", "+1", " 1", "1234567890123456789"])
    func noNumbers(text: String) {
        #expect(NumberTime(.text(ExactText(text))) == nil)
    }

    @Test(
        "a value of few that is no time of this century stands in place of none",
        arguments: [
            (.integer(-1), true), (.integer(0), true), (.integer(2_147_483_647), true),
            (.integer(2_147_483_648), false), (.integer(9_999_999_999), true), (.integer(7), false),
            (.integer(1_700_000_000_000), false), (.integer(9_999_999_999_999), true),
            (.unsigned(.max), true), (.unsigned(7), false), (.real(-1), true), (.real(7), false),
            (.text("never"), true), (.text("N/A"), true), (.text("-"), true),
            (.text("soon"), false),
            (.text("1970-01-01"), true), (.text("1999/12/31"), true), (.text("2000-01-01"), false),
            (.text("2099.12.31"), false), (.text("2100-01-01"), true),
            (.text("2038-01-19 03:14:07"), true), (.text("2038-01-18"), false),
            (.text("9999-12-31"), true), (.text("9999_12_31"), false), (.text("99-1-1"), false),
            (.text("-5"), true), (.text("7"), false), (.bytes([1]), false),
        ] as [(SQLValue, Bool)])
    func placeholders(value: SQLValue, isNone: Bool) {
        #expect(TimePlaceholders([value]).contains(value) == (isNone || value == .integer(0)))
    }

    @Test("up to three values stand in place of none, and more are times of their own")
    func most() {
        let values = (1...4).map { SQLValue.integer(-$0) }
        #expect(TimePlaceholders(values.prefix(3)).contains(values[2]))
        #expect(TimePlaceholders(values.prefix(3) + values.prefix(3)).contains(values[0]))
        #expect(!TimePlaceholders(values).contains(values[0]))
        #expect(
            TimePlaceholders(values).contains(.null) && TimePlaceholders([]).contains(.integer(0)))
        #expect(!TimePlaceholders([]).contains(values[0]))
    }
}
