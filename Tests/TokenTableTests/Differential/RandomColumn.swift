import TestSupport

/// A column of a random table: its type, and the values that it may hold as SQL writes them.
struct RandomColumn {
    /// The type with its character set and collation.
    let type: String
    /// Values as literals, usual and odd ones.
    let literals: [String]
    /// Prints a value as text in which any two different values differ, without help of the client.
    var print = RandomColumn.bytes
    /// Whether a value may cause the refusal of its row, because no client gets the whole value.
    var isOdd = false

    /// The bytes of the value as the server spells it.
    static func bytes(_ name: String) -> String { "HEX(CAST(\(name) AS BINARY))" }

    /// The bytes of a value of SQLite, with its type.
    static func stored(_ name: String) -> String {
        "typeof(\(name)) || CASE typeof(\(name)) WHEN 'real' THEN quote(\(name)) "
            + "ELSE hex(CAST(\(name) AS BLOB)) END"
    }

    /// Whether the server of the tests is a MySQL, which has other types and collations.
    static var isMySQL: Bool { !MariaDBServer.isMariaDB }

    /// Text of a server in a collation to which a space at the end is a character.
    static var unpadded: String {
        "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE \(isMySQL ? "utf8mb4_0900_bin" : "utf8mb4_nopad_bin")"
    }

    /// Those of some columns whose types the server has.
    static func known(_ columns: [RandomColumn]) -> [RandomColumn] {
        isMySQL ? columns.filter { !["INET6", "UUID"].contains($0.type) } : columns
    }

    static func random(_ engine: TestEngine, _ random: inout SeededGenerator) -> RandomColumn {
        switch engine {
        case .mariaDB: known(server + texts).one(&random)
        case .sqlite:
            RandomColumn(
                type: sqliteTypes.one(&random), literals: sqliteLiterals,
                print: stored)
        }
    }

    private static let sqliteTypes = [
        "", "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "DATETIME", "VARCHAR(10)",
        "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM",
    ]

    private static let sqliteLiterals = [
        "NULL", "0", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993",
        "0.1", "-0.0", "1e300", "9e999", "''", "'text'", "' 12 '", "'1e5'", "x''", "x'00ff'",
        "CAST(x'61006200' AS TEXT)", "CAST(x'61ff62' AS TEXT)", "CAST(x'ff' AS TEXT)",
        "CAST(x'efbfbd' AS TEXT)", "'\u{1F600}'", "CAST(x'00' AS TEXT)", "'2024-02-31 00:00:00'",
    ]

    private static let server = [
        RandomColumn(type: "TINYINT", literals: ["NULL", "-128", "127", "0"]),
        RandomColumn(type: "INT UNSIGNED ZEROFILL", literals: ["NULL", "0", "4294967295"]),
        RandomColumn(
            type: "BIGINT", literals: ["NULL", "-9223372036854775808", "9223372036854775807"]),
        RandomColumn(type: "BIGINT UNSIGNED", literals: ["NULL", "0", "18446744073709551615"]),
        RandomColumn(type: "DECIMAL(30,10)", literals: ["NULL", "0.1", "-12345678901234567890.5"]),
        RandomColumn(
            type: "FLOAT", literals: ["NULL", "0.1", "3.4e38", "-1.17549e-38", "16777217"],
            print: { bytes("CAST(\($0) AS DOUBLE)") }),
        RandomColumn(type: "DOUBLE", literals: ["NULL", "0.1", "-0.0", "1.7e308", "5e-324"]),
        RandomColumn(
            type: "BIT(13)", literals: ["NULL", "b'0'", "b'1010101010101'"], print: { "\($0) + 0" }),
        RandomColumn(
            type: "DATE",
            literals: ["NULL", "'2024-02-29'", "'0000-00-00'", "'2024-00-00'", "'2024-02-31'"]),
        RandomColumn(
            type: "TIME(6)",
            literals: ["NULL", "'-838:59:59.000000'", "'12:34:56.123456'", "'00:00:00'"]),
        RandomColumn(
            type: "DATETIME(6)",
            literals: [
                "NULL", "'9999-12-31 23:59:59.999999'", "'0000-00-00 00:00:00'",
                "'2024-00-00 11:22:33'", "'2024-02-31 11:22:33.5'", "'0001-01-01 00:00:00'",
            ]),
        RandomColumn(
            type: "TIMESTAMP(3) NULL DEFAULT NULL",
            literals: ["NULL", "'2038-01-19 03:14:07.999'", "'0000-00-00 00:00:00'"]),
        RandomColumn(type: "YEAR", literals: ["NULL", "2155", "0"]),
        RandomColumn(
            type: "BLOB", literals: ["NULL", "''", "x'00ff'", "REPEAT(x'fe', 70000)"],
            print: { "CONCAT(LENGTH(\($0)), SHA2(\($0), 256))" }),
        RandomColumn(type: "BINARY(4)", literals: ["NULL", "''", "x'00ff'", "x'ffffffff'"]),
        RandomColumn(
            type: "ENUM('a','b')", literals: ["NULL", "'a'", "'zz'"], print: { "\($0) + 0" }),
        RandomColumn(
            type: "ENUM('','a')", literals: ["NULL", "'a'", "''", "'zz'"], print: { "\($0) + 0" },
            isOdd: true),
        RandomColumn(
            type: "SET('x','y')", literals: ["NULL", "''", "'x,y'"], print: { "\($0) + 0" }),
        RandomColumn(type: "JSON", literals: ["NULL", "'{\"a\": 1.0}'", "'[]'"]),
        RandomColumn(type: "INET6", literals: ["NULL", "'::1'", "'::ffff:1.2.3.4'"]),
        RandomColumn(type: "UUID", literals: ["NULL", "'123e4567-e89b-12d3-a456-426655440000'"]),
        RandomColumn(type: "POINT", literals: ["NULL", "POINT(1, 2)"], print: { "HEX(\($0))" }),
    ]

    private static let texts: [RandomColumn] = [
        ("utf8mb4", false), ("latin1", false), ("utf8mb3", true), ("ascii", true), ("ucs2", true),
        ("utf16le", true), ("sjis", true), ("cp932", true), ("gbk", true), ("big5", true),
        ("cp1251", true), ("tis620", true), ("binary", false),
    ].flatMap { set, isOdd in
        ["CHAR(12)", "VARCHAR(40)", "MEDIUMTEXT"].map { type in
            RandomColumn(
                type: "\(type) CHARACTER SET \(set)",
                literals: [
                    "NULL", "''", "'text'", "'pad  '", "'it''s \\\\ \\\"'", "_binary 'a\\0b'",
                    "'\u{E4}\u{F6}\u{20AC}'", "'\u{65E5}\u{672C}\u{8A9E}'", "'\u{1F600}'",
                    "x'815C'",
                    "x'FC4B'", "x'61'", "x'ff'", "'\u{FFFD}'",
                ], isOdd: isOdd)
        }
    }
}
