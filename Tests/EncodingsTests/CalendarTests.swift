import Encodings
import Foundation
import TestSupport
import Testing

@Suite("The civil calendar")
struct CalendarTests {
    @Test("the calendar agrees with the C library on each tested day of the years 1 to 9999")
    func agreement() {
        for day in stride(from: -719_162, through: 2_932_896, by: 17) {
            var time = time_t(day * 86_400)
            var parts = tm()
            gmtime_r(&time, &parts)
            let date = CivilDate(daysSince1970: day)
            #expect(
                date.year == Int(parts.tm_year) + 1_900 && date.month == Int(parts.tm_mon) + 1
                    && date.day == Int(parts.tm_mday), "\(day)")
            #expect(date.daysSince1970 == day)
        }
    }

    @Test("the calendar continues before the year 0")
    func beforeTheYears() {
        #expect(CivilDate(year: 0, month: 1, day: 1).daysSince1970 == -719_528)
        for day in stride(from: -1_500_000, through: -719_000, by: 7) {
            #expect(CivilDate(daysSince1970: day).daysSince1970 == day)
        }
    }

    @Test("29 February exists in years divisible by 4, of centuries by 400 only")
    func leapYears() {
        for (year, days) in [(2023, 28), (2024, 29), (1900, 28), (2000, 29), (2100, 28)] {
            #expect(CivilDate.days(inMonth: 2, of: year) == days)
        }
        let lengths = (1...12).map { CivilDate.days(inMonth: $0, of: 2023) }
        #expect(lengths == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    }

    @Test("division by the length of a day floors")
    func flooring() {
        for (time, day) in [(0, 0), (86_399, 0), (86_400, 1), (-1, -1), (-86_400, -1)] {
            #expect(Int64(time).flooredDivision(by: 86_400) == Int64(day))
        }
        #expect(Int64.min.flooredDivision(by: 1_000) == Int64.min / 1_000 - 1)
    }
}

@Suite("A date as text")
struct DateTextTests {
    @Test(
        "a date and a second of its day have a place for each part, and a year of any size its digits",
        arguments: [
            (2023, 1, 2, 0, "2023-01-02 00:00:00"), (7, 12, 31, 86_399, "0007-12-31 23:59:59"),
            (-7, 10, 9, 3_661, "-0007-10-09 01:01:01"),
            (12_345, 6, 7, 3_599, "12345-06-07 00:59:59"),
            (0, 1, 1, 36_000, "0000-01-01 10:00:00"),
        ])
    func forms(year: Int, month: Int, day: Int, second: Int, text: String) {
        var bytes: [UInt8] = []
        CivilDate(year: year, month: month, day: day).append(
            secondOfDay: second, separator: " ", to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == text)
    }

    @Test(
        "a number has zeros in front up to a width, and all its digits beyond it",
        arguments: [
            (0, 1, "0"), (0, 3, "000"), (9, 1, "9"), (9, 2, "09"), (10, 2, "10"), (100, 2, "100"),
            (10, 1, "10"), (99, 3, "099"),
        ])
    func digits(number: Int, width: Int, text: String) {
        var bytes: [UInt8] = []
        DecimalDigits.append(number, width: width, to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == text)
    }

    @Test("a digit is one of the ten of ASCII")
    func isDigit() {
        #expect((UInt8.min...UInt8.max).filter(DecimalDigits.isDigit) == Array("0123456789".utf8))
        #expect((UInt8.min...UInt8.max).count { Hex.value(of: $0) != nil } == 22)
    }
}

@Suite("A date of HTTP")
struct HTTPDateTests {
    @Test(
        "a date is read in the form that senders write, and in no other",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Sunday, 06-Nov-94 08:49:37 GMT", nil), ("Sun Nov  6 08:49:37 1994", nil), ("", nil),
            ("now", nil), ("0", nil), ("Sun, 06 Nov 1994 08:49:37 CET", nil),
            ("1994-11-06T08:49:37Z", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 31 Dec 1970 23:59:60 GMT", 31_536_000),
            ("Sat, 31 Jan 1970 00:00:00 GMT", 2_592_000), ("Sun, 00 Feb 1970 00:00:00 GMT", nil),
            ("Sun, 32 Jan 1970 00:00:00 GMT", nil), ("Thu, 01 Jan 1970 24:00:00 GMT", nil),
            ("Thu, 01 Jan 1970 23:60:00 GMT", nil), ("Thu, 01 Jan 1970 23:00:61 GMT", nil),
            ("Thu, 01 Jan 1970 3:00:00 GMT", nil), ("Thu, 01 Jan 970 00:00:00 GMT", nil),
            ("Thu, 01 jan 1970 00:00:00 GMT", nil), ("Thu, +1 Jan 1970 00:00:00 GMT", nil),
            ("Thu, 01 Jan 1970 00:00:00:00 GMT", nil), ("Thu, 01 Jan 1970 00::00 GMT", nil),
        ] as [(String, Int64?)])
    func forms(text: String, seconds: Int64?) {
        #expect(HTTPDate.seconds(text) == seconds)
    }
}
