import APNsProtocol
import TestSupport

/// The key of a random table.
struct RandomKey {
    let columns: [(name: String, column: RandomColumn)]

    static func random(_ engine: TestEngine, _ random: inout SeededGenerator) -> RandomKey {
        let kinds = engine == .sqlite ? sqlite : RandomColumn.known(server)
        let key = RandomKey(columns: [("id", kinds.one(&random))])
        if Int.random(in: 0...4, using: &random) == 0 {
            let second = RandomKey(columns: [("id2", kinds.one(&random))])
            return RandomKey(columns: key.columns + second.columns)
        }
        return key
    }

    /// Values for a row, different from those of other rows in most kinds.
    func literals(_ number: Int, _ random: inout SeededGenerator) -> [String] {
        columns.map { _, column in column.literals[number % column.literals.count] }
    }

    /// Whether one of a row's values is longer than the ledger has room for.
    static func isUnnameable(_ literals: [String]) -> Bool {
        literals.contains { $0.hasPrefix("REPEAT(") || $0.hasPrefix("printf(") }
    }

    /// Whether the ledger has no room for any key of such columns, or they do not compare as they
    /// read.
    var isUnfit: Bool {
        columns.contains { _, column in
            ["VARBINARY(1100)", "FLOAT", "DOUBLE", "DECIMAL", "ENUM"].contains {
                column.type.hasPrefix($0)
            }
        }
    }

    private static let sqlite = [
        "INTEGER", "TEXT", "TEXT COLLATE NOCASE", "BLOB", "", "REAL", "VARCHAR(10)",
    ].map { type in
        RandomColumn(
            type: type,
            literals: type == "INTEGER"
                ? (0..<16).map { ["\($0)", "-\($0)", "\(Int64.max - Int64($0))"][$0 % 3] }
                : [
                    "'ada'", "CAST(x'6164610078' AS TEXT)", "printf('%.*c', 2100, 'k')",
                    "CAST(x'616461ff' AS TEXT)",
                    "CAST(x'616461fe' AS TEXT)", "CAST(x'616461efbfbd' AS TEXT)", "''", "x'616461'",
                    "x''", "'ben'", "7", "7.5", "'7 '", "-1", "'\u{1F600}'", "1e300",
                ], print: RandomColumn.stored)
    }

    private static func numbers(_ type: String, _ literals: [String]) -> RandomColumn {
        RandomColumn(type: type, literals: literals)
    }

    private static let server: [RandomColumn] =
        [
            numbers("INT", (0..<16).map { "\($0 * 7 - 20)" }),
            numbers(
                "BIGINT UNSIGNED",
                (0..<16).map { $0 % 2 == 0 ? "\($0)" : "\(UInt64.max - UInt64($0))" }),
            numbers("BIGINT", (0..<16).map { $0 % 2 == 0 ? "\($0)" : "\(Int64.min + Int64($0))" }),
            numbers("DECIMAL(20,5)", (0..<16).map { "\($0).\($0)" }),
            RandomColumn(
                type: "FLOAT", literals: (0..<16).map { "\($0).1" },
                print: { RandomColumn.bytes("CAST(\($0) AS DOUBLE)") }),
            numbers("DOUBLE", (0..<16).map { "\($0).1" }),
            numbers("DATE", (10..<26).map { "'2024-01-\($0)'" }),
            numbers("DATETIME(3)", (10..<26).map { "'2024-01-\($0) 11:22:33.456'" }),
            numbers(
                "VARBINARY(20)", (0..<16).map { $0 % 2 == 0 ? "x'00\(10 + $0)'" : "x'\(10 + $0)'" }),
            numbers("VARBINARY(1100)", (10..<26).map { "x'\($0)'" }),
            RandomColumn(
                type: "VARCHAR(700) CHARACTER SET utf8mb4",
                literals: (0..<16).map { $0 % 4 == 3 ? "REPEAT(CHAR(\($0)), 600)" : "'k\($0)'" }),
            numbers("BINARY(4)", (0..<16).map { "x'\(10 + $0)'" }),
            numbers("INET6", (10..<26).map { "'::\($0)'" }),
            numbers("UUID", (10..<26).map { "'123e4567-e89b-12d3-a456-4266554400\($0)'" }),
            RandomColumn(
                type: "ENUM('a','b','c')", literals: ["'a'", "'b'", "'c'", "'zz'"],
                print: { "\($0) + 0" }),
        ]
        + [
            "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            RandomColumn.unpadded.replacing("200", with: "30"),
            "VARCHAR(30) CHARACTER SET latin1", "VARCHAR(30) CHARACTER SET ucs2",
            "CHAR(10) CHARACTER SET utf8mb4",
        ].map { type in
            RandomColumn(
                type: type,
                literals: [
                    "'ada'", "_binary 'ada\\0x'", "'Ada'", "'ada  '", "''", "'\u{E4}da'",
                    "'a\\\\b'",
                    "'it''s'", "'\u{1F600}'", "'?'", "'ben'", "'\u{20AC}'", "_binary '\\0'",
                    "'cho'",
                ])
        }
}

/// The tokens of a random table.
struct RandomTokens {
    enum Spelling { case bytes, lower, upper, either }

    let type: String
    let spelling: Spelling
    let isIndexed: Bool

    static func random(_ engine: TestEngine, _ random: inout SeededGenerator) -> RandomTokens {
        let kinds: [(String, Spelling)] =
            engine == .sqlite
            ? [
                ("BLOB", .bytes), ("TEXT", .lower), ("VARCHAR(64)", .upper),
                ("TEXT COLLATE NOCASE", .either), ("TEXT COLLATE RTRIM", .lower),
            ]
            : [
                ("VARBINARY(100)", .bytes), ("BINARY(32)", .bytes), ("BLOB", .bytes),
                ("VARCHAR(200)", .either), ("CHAR(64) CHARACTER SET ascii", .either),
                ("TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", .lower),
                ("VARCHAR(64) CHARACTER SET latin1 COLLATE latin1_bin", .upper),
                ("VARCHAR(64) CHARACTER SET ucs2", .either), (RandomColumn.unpadded, .lower),
                (
                    RandomColumn.isMySQL
                        ? "VARCHAR(200) COLLATE utf8mb4_0900_ai_ci"
                        : "VARCHAR(200) COLLATE utf8mb4_general_nopad_ci", .either
                ),
            ]
        let (type, spelling) = kinds.one(&random)
        return RandomTokens(
            type: type, spelling: spelling,
            isIndexed: Bool.random(using: &random) && !type.hasPrefix("BLOB")
                && !type.hasPrefix("TEXT"))
    }

    /// A value, and the token that it stands for. Few tokens, so that several rows have one.
    func value(_ number: Int, _ random: inout SeededGenerator) -> (String, DeviceToken?) {
        let token = DeviceToken.numbered(Int.random(in: 0..<10, using: &random))
        switch Int.random(in: 0...11, using: &random) {
        case 0: return ("NULL", nil)
        case 1: return spelling == .bytes ? ("NULL", nil) : ("'0'", nil)
        default: break
        }
        switch spelling {
        case .bytes: return ("x'\(token.hex)'", token)
        case .lower: return ("'\(token.hex)'", token)
        case .upper: return ("'\(token.hex.uppercased())'", token)
        case .either:
            return ("'\(Bool.random(using: &random) ? token.hex : token.hex.uppercased())'", token)
        }
    }
}
