import APNsProtocol
import Database
import TestSupport
import Testing
import TokenHygiene

@Suite("Storage of tokens")
struct SpellingTests {
    private static let token = DeviceToken.numbered(0xABCDEF)

    /// A token column, what is stored in it for `token`, and whether a lookup finds it.
    struct Variant: Sendable, CustomTestStringConvertible {
        let type: String
        let stored: SQLValue
        let isFound: Bool
        var encoding: TokenEncoding?

        var testDescription: String { "\(type) holding \(stored.testText.prefix(70))" }
    }

    private static func variants(_ types: [String], _ stored: SQLValue, _ isFound: Bool)
        -> [Variant]
    {
        types.map { Variant(type: $0, stored: stored, isFound: isFound) }
    }

    static let serverVariants: [Variant] = {
        let lower = token.hex
        let upper = lower.uppercased()
        let mixed = String(lower.prefix(60)) + upper.suffix(4)
        let texts = [
            "VARCHAR(255) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
            "VARCHAR(64) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
            "CHAR(64) CHARACTER SET ascii", "TEXT",
        ]
        let binaries = [
            "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "CHAR(80) CHARACTER SET latin1 COLLATE latin1_bin",
            "VARCHAR(255) CHARACTER SET latin1 COLLATE latin1_general_cs",
        ]
        return variants(texts, .text(lower), true) + variants(texts, .text(upper), true)
            + variants(texts, .text(mixed), true) + variants(binaries, .text(lower), true)
            + variants(binaries, .text(upper), true) + variants(binaries, .text(mixed), false)
            + variants(texts.dropLast(), .text(lower + "  "), true)
            + variants(["VARBINARY(100)", "BINARY(32)", "BLOB"], .bytes(token.bytes), true)
            + [
                Variant(
                    type: "VARBINARY(200)", stored: .bytes(Array(upper.utf8)), isFound: true,
                    encoding: .hex)
            ]
    }()

    @Test(
        "a token is found in the spelling that its column can hold, and not guessed",
        .enabled(
            if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence)),
        arguments: serverVariants)
    func findsSpellings(_ variant: Variant) throws {
        let database = try TokenDatabase(.mariaDB)
        try database.createSideTables()
        try database.execute("SET SESSION sql_mode = ''")
        try database.execute(
            "CREATE TABLE devices (udid VARCHAR(40) PRIMARY KEY, device_token \(variant.type))")
        let near = DeviceToken.numbered(0xABCDEE)
        try database.execute("INSERT INTO devices VALUES ('row', ?)", [variant.stored])
        for (number, placeholder) in ["0", "", " ", near.hex, "0abc"].enumerated() {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?)",
                [.text("p\(number)"), .text(placeholder)])
        }
        try database.execute("INSERT INTO devices VALUES ('null', NULL)")
        let store = try database.store {
            $0.table = "devices"
            $0.encoding = variant.encoding
        }
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        let progress = try store.apply(
            [TokenEvidence(token: Self.token, time: EpochMilliseconds(start))], policy: policy)
        #expect(
            progress.counts
                == (variant.isFound ? OutcomeCounts(applied: 1) : OutcomeCounts(unknown: 1)))
        #expect(
            try database.count("SELECT COUNT(*) FROM devices WHERE udid = 'row'")
                == (variant.isFound ? 0 : 1))
        #expect(try database.count("SELECT COUNT(*) FROM devices WHERE udid <> 'row'") == 6)
    }

    @Test("SQLite text and blobs are found in either case", arguments: [true, false])
    func findsInSQLite(_ isUpper: Bool) throws {
        let database = try TokenDatabase(.sqlite)
        try database.createSideTables()
        try database.execute("CREATE TABLE devices (udid TEXT PRIMARY KEY, device_token TEXT)")
        let hex = isUpper ? Self.token.hex.uppercased() : Self.token.hex
        try database.execute(
            "INSERT INTO devices VALUES ('row', ?), ('zero', '0'), ('none', ''), ('null', NULL)",
            [.text(hex)])
        let store = try database.store { $0.table = "devices" }
        let progress = try store.apply(
            [TokenEvidence(token: Self.token, time: EpochMilliseconds(start))],
            policy: RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true))
        #expect(progress.counts == OutcomeCounts(applied: 1))
        #expect(
            try database.texts("SELECT udid FROM devices ORDER BY udid") == [
                ["none"], ["null"], ["zero"],
            ])
    }

    @Test(
        "tokens of any length are applied", arguments: TestEngine.available, [1, 31, 54, 80, 100])
    func anyLength(_ engine: TestEngine, _ length: Int) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        let token = DeviceToken.numbered(length, count: length)
        try database.register(token, at: start)
        let progress = try database.store().apply(
            [TokenEvidence(token: token, time: EpochMilliseconds(start + 9_000))])
        #expect(progress.counts == OutcomeCounts(applied: 1))
        #expect(progress.position == token)
    }

    @Test("a token of 108 digits is found in a column of 255 characters")
    func longHex() throws {
        for engine in TestEngine.available {
            let database = try TokenDatabase(engine)
            try database.createSideTables()
            try database.execute(
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255))")
            let token = DeviceToken.numbered(7, count: 54)
            try database.execute(
                "INSERT INTO devices VALUES (1, ?)", [.text(token.hex.uppercased())])
            let progress = try database.store { $0.table = "devices" }.apply(
                [TokenEvidence(token: token, time: EpochMilliseconds(start))])
            #expect(progress.counts == OutcomeCounts(applied: 1))
        }
    }

    @Test(
        "a token longer than any column counts as unknown and does not stop the feed",
        arguments: TestEngine.available)
    func overlong(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        let token = DeviceToken.numbered(7, count: 60_000)
        let evidence = TokenEvidence(token: token, time: EpochMilliseconds(start))
        let store = try database.store()
        let progress = try store.apply([evidence], feed: "f")
        #expect(progress.counts == OutcomeCounts(unknown: 1))
        #expect(try store.progress(of: "f")?.position == token)
    }
}
