import APNsProtocol
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook

// A value of a database may be any that its column holds, and no look at it may end the process. The tests are
// calls: a trap ends the run of all tests.

@Suite("Extreme values in a table that is looked at")
struct ExtremeColumnTests {
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
                for value in ExtremeValues.values.map({ [$0] })
                    + (0..<20).map({ _ in
                        (0..<5).map { _ in ExtremeValues.values.one(&random) }
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

    @Test("as words and as tokens")
    func words() {
        for value in ExtremeValues.values {
            for type in ["bit", "int", "text", ""] {
                _ = LookedTable.word(value, of: Self.column("c", type))
                _ = TokenForm(value, of: Self.column("c", type))
            }
        }
    }
}
