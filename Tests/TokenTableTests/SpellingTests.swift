import APNsProtocol
import Encodings
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database

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
        .needsServer,
        arguments: serverVariants)
    func findsSpellings(_ variant: Variant) throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
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
                == (variant.isFound ? Counts(applied: 1) : Counts(unknown: 1)))
        #expect(try database.rows(of: "devices", "udid = 'row'") == (variant.isFound ? 0 : 1))
        #expect(try database.rows(of: "devices", "udid <> 'row'") == 6)
    }

    @Test("SQLite text and blobs are found in either case", arguments: [true, false])
    func findsInSQLite(_ isUpper: Bool) throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute("CREATE TABLE devices (udid TEXT PRIMARY KEY, device_token TEXT)")
        let hex = isUpper ? Self.token.hex.uppercased() : Self.token.hex
        try database.execute(
            "INSERT INTO devices VALUES ('row', ?), ('zero', '0'), ('none', ''), ('null', NULL)",
            [.text(hex)])
        let store = try database.store { $0.table = "devices" }
        let progress = try store.apply(
            [TokenEvidence(token: Self.token, time: EpochMilliseconds(start))],
            policy: RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true))
        #expect(progress.counts == Counts(applied: 1))
        #expect(
            try database.texts("SELECT udid FROM devices ORDER BY udid") == [
                ["none"], ["null"], ["zero"],
            ])
    }

    @Test(
        "tokens of any length are applied", arguments: TestEngine.inTurn([1, 31, 54, 80, 100]))
    func anyLength(_ engine: TestEngine, _ length: Int) throws {
        let database = try TokenDatabase.own(engine)
        let token = DeviceToken.numbered(length, count: length)
        try database.register(token, at: start)
        let progress = try database.store().apply(
            [TokenEvidence(token: token, time: EpochMilliseconds(start + 9_000))])
        #expect(progress.counts == Counts(applied: 1))
        #expect(progress.position == token)
    }

    @Test(
        "a token longer than any column counts as unknown and does not stop the feed",
        arguments: TestEngine.available)
    func overlong(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let token = DeviceToken.numbered(7, count: ReportedAnswer.longestToken)
        let evidence = TokenEvidence(token: token, time: EpochMilliseconds(start))
        let store = try database.store()
        let progress = try store.apply([evidence], feed: "f")
        #expect(progress.counts == Counts(unknown: 1))
        #expect(try store.progress(of: "f")?.position == token)
    }

    /// Columns of hex by engine.
    static let hexColumns: [(TestEngine, String)] = TestEngine.available.flatMap { engine in
        switch engine {
        case .sqlite: ["TEXT", "VARCHAR(200)", ""].map { (engine, $0) }
        case .mariaDB:
            [
                "VARCHAR(200) COLLATE utf8mb4_general_ci", "VARCHAR(200) COLLATE utf8mb4_bin",
                "VARBINARY(200)",
            ].map { (engine, $0) }
        }
    }

    @Test(
        "check refuses tokens in groups and prints the statement after which all are found",
        arguments: hexColumns)
    func normalization(_ engine: TestEngine, _ type: String) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(type), platform VARCHAR(9))"
        )
        func grouped(_ hex: String) -> String {
            stride(from: 0, to: 64, by: 8).map {
                String(hex.dropFirst($0).prefix(8))
            }.joined(separator: " ")
        }
        let hex = (0..<6).map { DeviceToken.numbered(0xABCDE0 + $0).hex }
        let stored = [
            hex[0], hex[1].uppercased(), grouped(hex[2]), "<\(grouped(hex[3]).uppercased())>",
            String(hex[4].prefix(60)) + hex[4].suffix(4).uppercased(), grouped(hex[5]),
            "{length = 32, bytes = 0xc9d4c07c ... f715defc }", "0", "",
            DeviceToken.numbered(1).hex, DeviceToken.numbered(2).hex, DeviceToken.numbered(3).hex,
        ]
        for (id, text) in stored.enumerated() {
            let value: SQLValue = type == "VARBINARY(200)" ? .bytes(Array(text.utf8)) : .text(text)
            try database.execute(
                "INSERT INTO devices VALUES (\(id), ?, '\(id == 5 ? "web" : "it''s")')", [value])
        }
        try database.execute("INSERT INTO devices VALUES (90, NULL, 'it''s')")
        let store = try database.store {
            $0.table = "devices"
            $0.encoding = .hex
            $0.platform = PlatformMapping(column: "platform", value: "it's")
        }
        let evidence = (0..<6).map {
            TokenEvidence(token: .numbered(0xABCDE0 + $0), time: EpochMilliseconds(start))
        }
        let findsMixed = type.hasSuffix("_ci")
        #expect(try store.classify(evidence).counts.applied == (findsMixed ? 3 : 2))
        let report = try store.examine(.read)
        #expect(!report.passesCheck)
        let refusal = try #require(report.findings.first { $0.failure != nil })
        #expect(refusal.sentence.contains("\(findsMixed ? 2 : 3) of 12 rows read"))
        #expect(!refusal.sentence.contains(hex[2]))
        // A sweep ends with the same words before it takes anything; what looks no token up goes on.
        let refused = #expect(throws: StoreFailure.self) {
            try store.require(.apply(RemovalPolicy()))
        }
        #expect(refused?.code == .configuration && refused?.sentence == refusal.sentence)
        try store.require(.read, judgingRows: false)
        try store.require(.undo(actions: [], isDry: true))
        try database.runCure(of: refusal)
        #expect(try store.examine(.read).passesCheck)
        #expect(
            try store.classify(evidence).counts == Counts(applied: 5, unknown: 1))
        #expect(try database.rows(of: "devices", "device_token LIKE '{length = %'") == 1)
        #expect(try database.rows(of: "devices", "device_token LIKE '% %'") == 2)
    }

    /// A column of text whose comparisons count spaces at the end, and one of bytes.
    private static func strictColumns(_ engine: TestEngine) throws -> [String] {
        guard engine == .mariaDB else { return ["TEXT"] }
        let collation = try TokenDatabase(engine).sql.query(
            "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME IN "
                + "('utf8mb4_0900_ai_ci', 'utf8mb4_nopad_bin') ORDER BY COLLATION_NAME LIMIT 1")
        return ["VARCHAR(200) COLLATE \(collation.scalar?.text ?? "")", "VARBINARY(200)"]
    }

    @Test(
        "spaces and line ends around hex are named with their statement where no search finds them",
        arguments: TestEngine.available, [" ", "\r", "\n", "\r\n", "\t"])
    func ends(_ engine: TestEngine, _ end: String) throws {
        for type in try Self.strictColumns(engine) {
            let database = try TokenDatabase.withSideTables(engine)
            try database.execute(
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(type))")
            for id in 0..<20 {
                let text = DeviceToken.numbered(id).hex + (id < 3 ? end : "")
                try database.execute(
                    "INSERT INTO devices VALUES (\(id), ?)",
                    [type == "VARBINARY(200)" ? .bytes(Array(text.utf8)) : .text(text)])
            }
            let store = try database.store {
                $0.table = "devices"
                $0.encoding = .hex
            }
            let evidence = (0..<20).map {
                TokenEvidence(token: .numbered($0), time: EpochMilliseconds(start))
            }
            #expect(
                try store.classify(evidence).counts == Counts(applied: 17, unknown: 3),
                "\(type)")
            let refusals = try store.examine(.read).findings.filter { $0.failure != nil }
            let refusal = try #require(refusals.first, "\(type)")
            #expect(refusal.sentence.contains("3 of 20 rows read"), "\(refusal)")
            #expect(!refusal.sentence.contains(end) || end == " ", "\(refusal)")
            try database.runCure(of: refusal)
            #expect(try store.examine(.read).passesCheck)
            #expect(try store.classify(evidence).counts == Counts(applied: 20))
        }
    }

    @Test(
        "the sample is of the whole key, and an odd row only warns",
        arguments: TestEngine.available)
    func wholeRange(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(200), "
                + "kind VARCHAR(9), model VARCHAR(9))")
        try database.execute("CREATE INDEX covering ON devices (device_token, id)")
        // As after years with one platform: the others come last in the key, and sort after hex.
        let rows = (0..<5_000).map { id in
            let isApple = id < 3_000
            let token = isApple ? DeviceToken.numbered(id).hex : "z:APA91b_\(id)-x"
            let spelled = id == 0 ? "<\(token)>" : token
            return "(\(id), '\(spelled)', '\(isApple ? "ios" : "android")', 'm\(id % 3)')"
        }
        for part in stride(from: 0, to: rows.count, by: 1_000) {
            try database.execute(
                "INSERT INTO devices VALUES "
                    + rows[part..<part + 1_000].joined(separator: ", "))
        }
        let report = try database.store {
            $0.table = "devices"
            $0.encoding = .hex
        }.examine(.apply(RemovalPolicy()))
        #expect(report.firstFailure == nil, "\(report.firstFailure as Any)")
        #expect(report.sample?.total == 1_000)
        // Two in five of all rows, in no more than a few places of the key.
        #expect((350...450).contains(report.sample?.counts[.other] ?? 0))
        let sentences = report.findings.filter { $0.severity == .medium }.map(\.sentence)
        #expect(sentences.contains { $0.contains("1 of 1000 rows read have hex in groups") })
        let declared = try database.store {
            $0.table = "devices"
            $0.encoding = .hex
            $0.platform = PlatformMapping(column: "kind", value: "ios")
        }.examine(.apply(RemovalPolicy()))
        #expect(declared.sample?.counts[.other] == nil && declared.firstFailure == nil)
    }

    /// Spellings that no search finds, by name.
    static let odd: [(String, @Sendable (DeviceToken) -> String)] = [
        ("apns:", { "apns:" + $0.hex.uppercased() }),
        ("ios", { "ios" + $0.hex }),
        ("it's|", { "it's|" + $0.hex }),
        ("hex in groups", { "[" + $0.hex.prefix(32) + "-" + $0.hex.suffix(32) + "]" }),
        ("Base64", { Data($0.bytes).base64EncodedString() }),
        ("Base64", { Base64URL.text($0.bytes) }),
    ]

    @Test(
        "check refuses prefixes, brackets and Base64, and its statement rewrites them and nothing else",
        arguments: hexColumns, odd.indices)
    func oddSpellings(_ column: (TestEngine, String), _ spelling: Int) throws {
        let (engine, type) = column
        let (name, spell) = Self.odd[spelling]
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(type))")
        // Bytes that need every character of both alphabets.
        let token =
            DeviceToken((0..<32).map { UInt8(truncatingIfNeeded: $0 * 73 + 251) }) ?? Self.token
        let strangers = [
            "cX9-_a:APA91b" + String(repeating: "Ab1-", count: 35), "ExponentPushToken[abcdefghij]",
            String(repeating: "APA91bE_", count: 19), "apns:none", "",
            "c9d4c07c-fbbc-26d6-ef87-a44d53e16983", DeviceToken.numbered(1).hex,
            DeviceToken.numbered(2).hex, DeviceToken.numbered(3).hex, DeviceToken.numbered(4).hex,
            DeviceToken.numbered(5).hex, DeviceToken.numbered(6).hex, DeviceToken.numbered(7).hex,
        ]
        for (id, text) in ([spell(token)] + strangers).enumerated() {
            try database.execute(
                "INSERT INTO devices VALUES (\(id), ?)",
                [type == "VARBINARY(200)" ? .bytes(Array(text.utf8)) : .text(text)])
        }
        let store = try database.store {
            $0.table = "devices"
            $0.encoding = .hex
        }
        let evidence = [TokenEvidence(token: token, time: EpochMilliseconds(start))]
        #expect(try store.classify(evidence).counts == Counts(unknown: 1))
        let refusals = try store.examine(.read).findings.filter { $0.failure != nil }
        let refusal = try #require(refusals.first)
        #expect(refusals.count == 1 && refusal.sentence.contains("1 of 14 rows read"))
        #expect(refusal.sentence.contains(name), "\(refusal)")
        #expect(!refusal.sentence.contains(token.hex.prefix(12)))
        if engine == .sqlite, name == "Base64" {
            #expect(refusal.sentence.contains("SQLite has no function"))
            return
        }
        try database.runCure(of: refusal)
        #expect(try store.examine(.read).passesCheck)
        #expect(try store.classify(evidence).counts == Counts(applied: 1))
        for (id, text) in strangers.enumerated() {
            #expect(
                try database.count(
                    "SELECT COUNT(*) FROM devices WHERE id = \(id + 1) AND device_token = ?",
                    [type == "VARBINARY(200)" ? .bytes(Array(text.utf8)) : .text(text)]) == 1,
                "\(text)")
        }
    }

    @Test(
        "check names how Base64 in a column of bytes becomes bytes", arguments: TestEngine.available
    )
    func base64AsBytes(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token "
                + "\(engine == .mariaDB ? "VARBINARY(100)" : "BLOB"))")
        let text = Data(Self.token.bytes).base64EncodedString()
        try database.execute("INSERT INTO devices VALUES (1, ?)", [.bytes(Array(text.utf8))])
        let store = try database.store { $0.table = "devices" }
        let refusal = try #require(
            try store.examine(.read).findings.first { $0.failure != nil && $0.isAboutRows })
        guard engine == .mariaDB else {
            #expect(refusal.sentence.contains("SQLite has no function"))
            return
        }
        try database.runCure(of: refusal)
        #expect(
            try store.classify([TokenEvidence(token: Self.token, time: EpochMilliseconds(start))])
                .counts == Counts(applied: 1))
    }
}
