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
    private static let storages: [TimeColumn.Storage] = [
        .wallClock(fraction: 0, offset: 0), .wallClock(fraction: 6, offset: 14 * 3_600),
        .wallClock(fraction: 9, offset: -14 * 3_600), .text(offset: 0), .text(offset: -14 * 3_600),
        .epochSeconds, .epochMilliseconds,
    ]

    @Test("in a column that the settings name as one of times")
    func columns() {
        for storage in Self.storages {
            let column = TimeColumn(name: "t", storage: storage)
            for value in ExtremeValues.values {
                _ = column.isUnreadable(value)
                for time in [column.mark(value), column.registration(value)].compactMap({ $0 }) {
                    _ = column.value(column.floor(time))
                    _ = RFC3339.text(milliseconds: time.rawValue)
                    _ = time.distance(from: EpochMilliseconds(.min))
                }
            }
            for number in ExtremeValues.integers {
                let time = column.floor(EpochMilliseconds(number))
                _ = column.value(time)
                _ = WallClock(milliseconds: number).text(fraction: 6)
            }
            for now in ExtremeValues.integers.map({ EpochMilliseconds($0) }) {
                for value in ExtremeValues.values {
                    let sample = RegistrationSample(column, [value, value], now: now)
                    _ = sample.findings(of: TableName(name: "t"))
                }
                _ = RegistrationSample(column, ExtremeValues.values, now: now)
                    .findings(of: TableName(name: "t"))
            }
        }
    }

    @Test("at the ends of a key")
    func keys() {
        var random = SeededGenerator("keys")
        for count in 1...20 {
            for least in ExtremeValues.values {
                for greatest in ExtremeValues.values + [ExtremeValues.values.one(&random)] {
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
        for value in ExtremeValues.values {
            _ = (value.text, value.count, value.integer)
            _ = TokenSample([value])
            let key = RowImage.key([value])
            _ = LedgerKey(key, of: nil).text(wholeTokens: false)
            _ = LedgerKey(key, of: DeviceToken.numbered(1)).textInWords
        }
        for number in ExtremeValues.integers {
            for other in ExtremeValues.integers {
                let time = EpochMilliseconds(number)
                #expect(
                    (time.distance(from: EpochMilliseconds(other)) > 0) == (number > other))
                _ = time.advanced(by: other)
            }
        }
    }
}
