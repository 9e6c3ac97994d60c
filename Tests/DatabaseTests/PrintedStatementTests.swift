import Encodings
import Foundation
import TestSupport
import Testing

@testable import Database

/// Texts that break out of quotes where these are escaped by Characters, or by the rules of one session only.
private let oddTexts: [String] = {
    let signs = [
        "'", "\"", "`", "\\", ";", "%", "_", "\n", "\t", "\0", "--", "#", "/*", "\u{1A}", "é",
    ]
    let marks = ["", "\u{301}", "\u{200D}", "\u{20E3}", "\r", "\\", "'"]
    return signs.flatMap { sign in
        marks.flatMap { ["a\(sign)\($0)b", "\(sign)\($0)", "\(sign)\($0)\(sign)"] }
    } + ["", "iOS", "\u{1F4F1}", "'\u{301};DROP TABLE devices;-- "]
}()

@Suite("Statements for people, with texts from outside")
struct PrintedStatementTests {
    private static func read(
        _ texts: [String], _ connection: any SQLConnection, _ mode: String
    ) throws {
        let dialect = connection.dialect
        for text in texts {
            let literal = dialect.literal(text)
            #expect(
                literal.utf8.allSatisfy { (0x20...0x7E).contains($0) },
                "a terminal prints \(literal)")
            let answer = try connection.query("SELECT HEX(\(literal))").scalar?.text
            #expect(answer == Hex.text(Array(text.utf8)).uppercased(), "\(mode): \(literal)")
        }
    }

    @Test("a literal is the text in every mode and character set of a session", .needsServer)
    func server() throws {
        let database = try TokenDatabase(.mariaDB)
        let modes = ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"]
        for mode in modes {
            for set in ["utf8mb4", "latin1", "gbk", "big5"] {
                try database.sql.run("SET SESSION sql_mode = '\(mode)'")
                try database.sql.run("SET character_set_client = \(set)")
                try Self.read(oddTexts, database.sql, "\(mode) \(set)")
            }
        }
    }

    @Test("a literal is the text for SQLite")
    func sqlite() throws {
        try Self.read(oddTexts, TokenDatabase(.sqlite).sql, "")
    }

    @Test("a literal is compared with columns of every collation", .needsServer)
    func collations() throws {
        let database = try TokenDatabase(.mariaDB)
        for set in ["latin1", "ascii", "utf8mb4", "utf8mb4 COLLATE utf8mb4_bin", "binary"] {
            try database.sql.run("CREATE TABLE t (a VARCHAR(40) CHARACTER SET \(set))")
            for text in ["it's", "a\\b", "a;b"] {
                try database.execute("DELETE FROM t")
                try database.execute("INSERT INTO t VALUES (?)", [.text(text)])
                let literal = database.sql.dialect.literal(text)
                #expect(try database.count("SELECT COUNT(*) FROM t WHERE a = \(literal)") == 1)
            }
            if set != "ascii" {
                let literal = database.sql.dialect.literal("é'")
                #expect(try database.count("SELECT COUNT(*) FROM t WHERE a = \(literal)") == 0)
            }
            try database.sql.run("DROP TABLE t")
        }
    }

    @Test("a line that a person pastes into the client is one statement", .needsServer)
    func client() throws {
        let server = try #require(MariaDBServer.fromEnvironment)
        guard
            let program = ["mariadb", "mysql"].map({ "/usr/bin/\($0)" }).first(
                where: FileManager.default.isExecutableFile)
        else {
            Issue.record("no client of a server")
            return
        }
        let database = try TokenDatabase(.mariaDB)
        try database.sql.run("CREATE TABLE devices (id INT)")
        let folder = try TemporaryFolder()
        let dialect = database.sql.dialect
        let lines = oddTexts.map {
            "SELECT HEX(\(dialect.literal($0))) AS \(dialect.quoted("a'\u{301}`\u{301}b"));\n"
        }
        for (mode, set) in [
            ("", "utf8mb4"), ("NO_BACKSLASH_ESCAPES", "latin1"), ("ANSI_QUOTES", "gbk"),
        ] {
            try folder.write(
                "lines", "SET SESSION sql_mode = '\(mode)';\n" + lines.joined(), mode: 0o600)
            let result = try RunningTool(
                program: URL(fileURLWithPath: "/bin/sh"),
                [
                    "-c", "exec \"$0\" \"$@\" < \(folder.file("lines").shellWord)", program,
                    "--no-defaults", "--socket=\(server.socket)", "--user=\(server.user)",
                    "--default-character-set=\(set)", "-N", "-B", database.name,
                ], environment: ["MYSQL_PWD": server.password]
            ).wait()
            #expect(result.exit == 0 && result.error.isEmpty, "\(result.error)")
            let read = result.output.split(separator: "\n", omittingEmptySubsequences: false)
                .dropLast()
            #expect(read.map(String.init) == oddTexts.map { Hex.text(Array($0.utf8)).uppercased() })
        }
        #expect(try database.count("SELECT COUNT(*) FROM devices") == 0)
    }

    @Test("a name of an account is quoted in every mode of a session", .needsServer)
    func accounts() throws {
        let database = try TokenDatabase(.mariaDB)
        let names = ["a'b", "a'\u{301}b", "a\\b", "a`b", "a`\u{301}\\b", "a@b'", "a\\'b", "é"]
        for mode in ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"] {
            try database.sql.run("SET SESSION sql_mode = '\(mode)'")
            for name in names {
                let account = Privilege.account("\(name)@h'\u{301}ost")
                try database.sql.run("DROP USER IF EXISTS \(account)")
                try database.sql.run("CREATE USER \(account)")
                defer { try? database.sql.run("DROP USER \(account)") }
                let found = try database.count(
                    "SELECT COUNT(*) FROM mysql.user WHERE CAST(User AS BINARY) = CAST(? AS BINARY) "
                        + "AND CAST(Host AS BINARY) = CAST(? AS BINARY)",
                    [.text(name), .text("h'\u{301}ost")])
                #expect(found == 1, "\(mode) \(account)")
            }
        }
    }

    @Test("names and paths of JSON find what they name", arguments: TestEngine.available)
    func names(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        let dialect = database.sql.dialect
        for text in oddTexts where !text.isEmpty && !text.contains("\0") {
            // A server has no name that ends with a space.
            let isName =
                text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value < 0x10000 }
                && text.utf8.last != UInt8(ascii: " ")
            if isName {
                try database.sql.run("CREATE TABLE t (\(dialect.quoted(text)) INT)")
                let table = try #require(
                    try Catalog(connection: database.sql).table(TableName(name: "t")))
                #expect(table.columns.map(\.name).contains(exactly: text))
                try database.sql.run("DROP TABLE t")
            }
            var document: [UInt8] = [UInt8(ascii: "{")]
            JSONText.append(text, to: &document)
            document += Array(":\"found\"}".utf8)
            let path = dialect.literal(JSONPath.text([text]))
            let found = try database.sql.query(
                "SELECT JSON_EXTRACT(?, \(path))",
                [.text(String(decoding: document, as: UTF8.self))]
            ).scalar?.text
            // SQLite before 3.47 has no escape of a quote, and MariaDB reads no sign first.
            let isBeyond =
                engine == .sqlite
                ? text.unicodeScalars.contains("\"") : text.utf8.first == UInt8(ascii: "-")
            #expect(found?.contains("found") == true || isBeyond, "\(path)")
        }
    }

    @Test("the words of an ENUM are read as the server has them", .needsServer)
    func members() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.sql.run("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")
        let words = ["it's", "a','b", "a\\b", "a'\u{301}", "b", "a\"b", "Zo\u{E9}", "x y"]
        try database.sql.run(
            "CREATE TABLE t (a ENUM(\(words.map { $0.doubling("'") }.joined(separator: ","))) "
                + "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)")
        for mode in ["", "NO_BACKSLASH_ESCAPES"] {
            try database.sql.run("SET SESSION sql_mode = '\(mode)'")
            let table = try #require(
                try Catalog(connection: database.sql).table(TableName(name: "t")))
            let members = table.columns[0].declaration.quotedMembers
            #expect(
                members.count == words.count && zip(members, words).allSatisfy { $0.isExactly($1) })
        }
    }
}
