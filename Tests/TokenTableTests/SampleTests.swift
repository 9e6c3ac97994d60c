import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

// What the sample does not reach no finding is about, and evidence for those rows is lost in silence.

@Suite("The sample of tokens")
struct SampleTests {
    /// Makes a table of some rows, each with the values of its key and its token.
    private static func database(
        _ engine: TestEngine, key: String, primary: String, _ count: Int = 3_000,
        _ row: (Int) -> (key: String, token: String)
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        let text = engine == .mariaDB ? " CHARACTER SET ascii" : ""
        try database.execute(
            "CREATE TABLE devices (\(key.replacing("TEXT", with: "VARCHAR(40)\(text)")), "
                + "device_token VARCHAR(200), PRIMARY KEY (\(primary)))")
        let rows = (0..<count).map { "(\(row($0).key), '\(row($0).token)')" }
        for part in stride(from: 0, to: rows.count, by: 500) {
            try database.execute(
                "INSERT INTO devices VALUES "
                    + rows[part..<min(part + 500, rows.count)].joined(separator: ", "))
        }
        database.settings.mapping.table = "devices"
        database.settings.mapping.encoding = .hex
        database.settings.mapping.key = primary.split(separator: ", ").map(String.init)
        return database
    }

    /// Plain hex at both ends of the key, groups in between.
    private static func token(_ number: Int, of count: Int = 3_000) -> String {
        let hex = DeviceToken.numbered(number).hex
        let isPlain = number < count / 20 || number >= count - count / 20
        return isPlain ? hex : "<\(hex.prefix(32)) \(hex.suffix(32))>"
    }

    enum Key: String, CaseIterable {
        case tenant, fewTenants, outlier, textInOrder

        var columns: (String, String) {
            switch self {
            case .tenant, .fewTenants: ("tenant INTEGER, id INTEGER", "tenant, id")
            case .outlier: ("id BIGINT", "id")
            case .textInOrder: ("id TEXT", "id")
            }
        }

        func value(_ number: Int) -> String {
            switch self {
            case .tenant: "1, \(number)"
            case .fewTenants: "\(number / 1_500), \(number)"
            case .outlier: number == 2_999 ? "9000000000000000000" : "\(number)"
            case .textInOrder: "'01HF\(String(format: "%08d", number))ZZ'"
            }
        }
    }

    @Test(
        "reaches the middle of every kind of key, so that a table is refused that loses evidence there",
        arguments: TestEngine.available, Key.allCases)
    func middle(_ engine: TestEngine, _ key: Key) throws {
        let database = try Self.database(engine, key: key.columns.0, primary: key.columns.1) {
            (key.value($0), Self.token($0))
        }
        let report = try database.store().examine(.read)
        #expect(report.sample?.total ?? 0 >= 500, "\(report.sample as Any)")
        #expect(report.sample?.count(.grouped) ?? 0 > 100, "\(report.sample as Any)")
        #expect(report.firstFailure?.sentence.contains("hex in groups") == true)
    }

    @Test("reaches the middle of a long table whose key begins with the same value everywhere")
    func longTenant() throws {
        let database = try Self.database(
            .sqlite, key: "tenant INTEGER, id INTEGER", primary: "tenant, id", 0
        ) { _ in ("", "") }
        // Hex at both ends, further than what is read from there, and Base64 between.
        try database.execute(
            """
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 500000)
            INSERT INTO devices SELECT 1, n, CASE WHEN n BETWEEN 140000 AND 360000
                THEN 'q83vq83vq83vq83vq83vq83vq83vq83vq83vq83vq80=' ELSE printf('%064x', n) END
            FROM numbers
            """)
        let sample = try #require(try database.store().examine(.read).sample)
        #expect(sample.total - sample.count(.lowerHex) > 200, "\(sample)")
    }

    /// Base64 of as many bytes as a token has.
    private static let base64 = "q83vq83vq83vq83vq83vq83vq83vq83vq83vq83vq80="

    @Test(
        "a few rows that stand together refuse nothing, wherever in a large table they are",
        arguments: TestEngine.inTurn([0, 9_000, 19_950]))
    func cluster(_ engine: TestEngine, _ first: Int) throws {
        let database = try Self.database(engine, key: "id INTEGER", primary: "id", 20_000) {
            number in
            let isOdd = (first..<first + 50).contains(number)
            return ("\(number)", isOdd ? Self.base64 : DeviceToken.numbered(number).hex)
        }
        let report = try database.store().examine(.read)
        #expect(report.firstFailure == nil, "\(report.findings)")
        if first != 9_000 {
            let warning = report.findings.first { $0.sentence.contains("Base64") }
            #expect(warning?.sentence.contains("stand together") == true)
        }
    }

    @Test(
        "rows behind a gap in the numbers are no more of the sample than of the table",
        arguments: TestEngine.inTurn([60, 300]))
    func gap(_ engine: TestEngine, _ odd: Int) throws {
        let database = try Self.database(engine, key: "id BIGINT", primary: "id", 20_000 + odd) {
            number in
            number < 20_000
                ? ("\(number)", DeviceToken.numbered(number).hex)
                : ("\(1_000_000_000 + number)", Self.base64)
        }
        let report = try database.store().examine(.read)
        #expect(report.sample?.count(.lowerHex) ?? 0 > 400, "\(report.sample as Any)")
        #expect(report.firstFailure == nil, "\(report.findings)")
    }

    @Test(
        "two in a hundred rows everywhere are a refusal, in a small table and in a large one",
        arguments: TestEngine.inTurn([500, 20_000]))
    func everywhere(_ engine: TestEngine, _ count: Int) throws {
        let database = try Self.database(engine, key: "id INTEGER", primary: "id", count) {
            number in
            ("\(number)", number % 50 == 7 ? Self.base64 : DeviceToken.numbered(number).hex)
        }
        let failure = try #require(try database.store().examine(.read).firstFailure)
        #expect(failure.sentence.contains("Base64"))
    }

    @Test(
        "long values are cut before they are read, and are no tokens",
        arguments: TestEngine.available)
    func longValues(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token "
                + "\(engine == .sqlite ? "" : "LONGTEXT"), seen \(engine == .sqlite ? "DATETIME" : "LONGTEXT"))"
        )
        for number in 0..<9 {
            let long = engine == .sqlite && number % 2 == 0 ? "CAST(?1 AS BLOB)" : "?1"
            let text = String(repeating: number == 3 ? "ab" : "<a b", count: 200_000)
            try database.execute(
                "INSERT INTO devices VALUES (\(number), \(engine == .sqlite ? long : "?"), "
                    + "\(engine == .sqlite ? "?1" : "''"))", [.text(text)])
        }
        let store = try database.store {
            $0.table = "devices"
            $0.token = "device_token"
            $0.encoding = .hex
        }
        let catalog = try store.catalogTable()
        let rows = try RowSampling(catalog, store.connection).rows(catalog.columns).all
        #expect(rows.count == 9)
        for value in rows.flatMap({ $0 }) {
            switch value {
            case .text(let text): #expect(text.utf8.count <= RowSampling.longestValue + 1)
            case .bytes(let bytes): #expect(bytes.count <= RowSampling.longestValue + 1)
            default: break
            }
        }
        #expect(TokenSample(rows.map { $0[$0.startIndex + 1] }).count(.other) == 9)
        #expect(rows.allSatisfy { $0.count == 3 })
    }

    @Test("steps between two values of a key are in order, from the first on")
    func steps() {
        let numbers = RowSampling.steps(.integer(.min), .integer(.max), 20).compactMap(\.integer)
        #expect(numbers.first == .min && numbers.count == 20 && numbers == numbers.sorted())
        let texts = RowSampling.steps(.text("01HFAAAA"), .text("01HFZZZZ"), 20).compactMap(\.text)
        #expect(texts.count == 20 && texts.allSatisfy { $0.hasPrefix("01HF") })
        #expect(
            texts.map { Array($0.utf8) }
                == texts.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) })
        #expect(RowSampling.steps(.bytes([1, 2]), .bytes([1, 2]), 20).isEmpty)
        #expect(RowSampling.steps(.null, .null, 20).isEmpty)
    }

    @Test(
        "spellings that no search finds count together", arguments: TestEngine.available)
    func together(_ engine: TestEngine) throws {
        let database = try Self.database(engine, key: "id INTEGER", primary: "id", 400) { number in
            let hex = DeviceToken.numbered(number).hex
            // Each prefix is in one row only.
            return ("\(number)", number % 10 == 0 ? "u\(number):\(hex)" : hex)
        }
        let failure = try #require(try database.store().examine(.read).firstFailure)
        #expect(failure.code == .configuration && failure.sentence.contains("1 of 400 rows"))
    }

    @Test("hex with something behind it is never taken for Base64, whose cure would destroy it")
    func suffix() {
        let hex = DeviceToken.numbered(1).hex
        let base64 = Data(DeviceToken.numbered(1).bytes).base64EncodedString()
        #expect(!UnfindableSpelling.isBase64(Array("\(hex)-ios".utf8)))
        #expect(!UnfindableSpelling.isBase64(Array("ios-\(hex)".utf8)))
        #expect(UnfindableSpelling.isBase64(Array(base64.utf8)))
    }

    @Test(
        "a platform whose rows come late in a long table is not called absent",
        arguments: TestEngine.available)
    func latePlatform(_ engine: TestEngine) throws {
        let database = try Self.database(
            engine, key: "id INTEGER, kind VARCHAR(9)", primary: "id", 25_000
        ) { number in
            (
                "\(number), '\(number < 24_000 ? "android" : "ios")'",
                DeviceToken.numbered(number).hex
            )
        }
        let report = try database.store {
            $0.platform = PlatformMapping(column: "kind", value: "ios")
        }.examine(.read)
        #expect(report.firstFailure == nil, "\(report.firstFailure as Any)")
        #expect(!report.findings.contains { $0.sentence.contains("no row has") })
    }

    @Test("the platform is looked for in a bounded number of rows where no index leads to it")
    func boundedPlatform() throws {
        let database = try Self.database(
            .sqlite, key: "id INTEGER, kind VARCHAR(9)", primary: "id"
        ) { number in ("\(number), 'android'", DeviceToken.numbered(number).hex) }
        database.settings.mapping.platform = PlatformMapping(column: "kind", value: "ios")
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        let report = try store.examine(.read)
        #expect(report.firstFailure?.sentence.contains("no row has `ios`") == true)
        let scans = connection.log.map(\.0).filter { $0.contains("AS looked") }
        #expect(!scans.isEmpty && scans.allSatisfy { $0.contains("LIMIT 200000)") }, "\(scans)")
    }
}
