import APNsProtocol
import Encodings
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

// A value of a database may be any that its column holds, and no sum, product or range made of it may end the
// process. The tests are calls: a trap ends the run of all tests.

@Suite("Extreme values from a database")
struct ExtremeValueTests {
    private static let integers: [Int64] = [
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

    private static let values: [SQLValue] =
        integers.map(SQLValue.integer) + reals.map(SQLValue.real) + texts.map(SQLValue.text)
        + integers.map { .unsigned(UInt64(bitPattern: $0)) } + [.null, .unsigned(.max)]
        + [[], [0], [0xFF], Array(repeating: 0xFF, count: 8), Array(repeating: 0x80, count: 9)]
        .flatMap {
            [SQLValue.bytes($0), .rawText($0)]
        }
        + integers.map { .wallClock(WallClock(milliseconds: $0)) }

    private static func column(_ name: String, _ type: String) -> CatalogColumn {
        CatalogColumn(
            name: name, type: type, length: nil, collation: nil, fraction: 3, isNullable: true,
            isPrimary: false, isGenerated: false, movesItself: false)
    }

    @Test(
        "in a column that is looked at as one of times", arguments: [SQLDialect.mariaDB, .sqlite])
    func looks(_ dialect: SQLDialect) {
        var random = SeededGenerator("extreme values")
        let nows = [EpochMilliseconds(1_700_000_000_000), .init(.min), .init(.max)]
        let usual: [[SQLValue]] = [
            (0..<20).map { .integer(1_500_000_000 + 7_919 * $0) },
            (0..<20).map { .integer(1_500_000_000_000 + 7_919 * $0) },
            (0..<20).map { .integer(1_500_000_000_000_000 + 7_919 * $0) },
            (0..<20).map { .real(1.5e9 + 7_919.5 * Double($0)) },
            (0..<20).map { .text("15000000\(10 + $0)") },
            (0..<20).map { .text("2024-01-01 00:00:\(10 + $0 % 50)") },
            (0..<20).map { .text("202401010000\(10 + $0 % 50)") },
        ]
        for (round, rows) in usual.enumerated() {
            for type in ["bigint", "double", "varchar", "text", "datetime", "date", "", "decimal"] {
                // Each alone, and some together.
                for value in Self.values.map({ [$0] })
                    + (0..<20).map({ _ in
                        (0..<5).map { _ in Self.values.one(&random) }
                    })
                {
                    let column = Self.column("seen_at", type)
                    let all = (rows + value).map { [$0, .integer(1)][...] }
                    let table = LookedTable(
                        catalog: CatalogTable(
                            name: TableName(name: "t"), canonicalName: "t", columns: [column],
                            indexes: []),
                        columns: [column], rows: all, now: nows.one(&random), dialect: dialect)
                    guard let look = TimeLook(column, of: table) else { continue }
                    #expect(look.times.count == all.count, "round \(round)")
                    _ = look.isLater(than: look)
                }
            }
        }
    }

    private static let storages: [TimeColumn.Storage] = [
        .wallClock(fraction: 0, offset: 0), .wallClock(fraction: 6, offset: 14 * 3_600),
        .wallClock(fraction: 9, offset: -14 * 3_600), .text(offset: 0), .text(offset: -14 * 3_600),
        .epochSeconds, .epochMilliseconds,
    ]

    @Test("in a column that the settings name as one of times")
    func columns() {
        for storage in Self.storages {
            let column = TimeColumn(name: "t", storage: storage)
            for value in Self.values {
                _ = column.isUnreadable(value)
                for time in [column.mark(value), column.registration(value)].compactMap({ $0 }) {
                    _ = column.value(column.floor(time))
                    _ = RFC3339.text(milliseconds: time.rawValue)
                    _ = time.distance(from: EpochMilliseconds(.min))
                }
            }
            for number in Self.integers {
                let time = column.floor(EpochMilliseconds(number))
                _ = column.value(time)
                _ = WallClock(milliseconds: number).text(fraction: 6)
            }
            for now in Self.integers.map({ EpochMilliseconds($0) }) {
                for value in Self.values {
                    let sample = RegistrationSample(column, [value, value], now: now)
                    _ = sample.findings(of: TableName(name: "t"))
                }
                _ = RegistrationSample(column, Self.values, now: now)
                    .findings(of: TableName(name: "t"))
            }
        }
    }

    @Test("at the ends of a key")
    func keys() {
        var random = SeededGenerator("keys")
        for count in 1...20 {
            for least in Self.values {
                for greatest in Self.values + [Self.values.one(&random)] {
                    let steps = RowSampling.steps(least, greatest, count)
                    #expect(steps.count <= count)
                }
            }
        }
        #expect(RowSampling.steps(.integer(.min), .integer(.max), 1) == [.integer(.min)])
        #expect(RowSampling.steps(.integer(2), .integer(1), 5).isEmpty)
    }

    @Test("as words, figures and images")
    func others() {
        for value in Self.values {
            _ = (value.text, value.count, value.integer)
            for type in ["bit", "int", "text", ""] {
                _ = LookedTable.word(value, of: Self.column("c", type))
                _ = TokenForm(value, of: Self.column("c", type))
            }
            _ = TokenSample([value])
            let key = RowImage.key([value])
            _ = LedgerKey(key, of: nil).text(wholeTokens: false)
            _ = LedgerKey(key, of: DeviceToken.numbered(1)).textInWords
        }
        for number in Self.integers {
            for other in Self.integers {
                let time = EpochMilliseconds(number)
                #expect(
                    (time.distance(from: EpochMilliseconds(other)) > 0) == (number > other))
                _ = time.advanced(by: other)
            }
        }
    }
}
