import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import TokenTable

private func token(_ hex: String) throws -> DeviceToken {
    try DeviceToken(spelling: hex + String(repeating: "0", count: 64 - hex.count))
}

@Suite("The beginning of a token")
struct TokenBeginningTests {
    @Test("a text is a beginning with an ellipsis, or with fewer digits than a token has")
    func texts() {
        for (text, digits) in [
            ("22e44cb6", "22e44cb6"), ("22E44CB6…", "22e44cb6"), (" 22e44cb6... ", "22e44cb6"),
            ("22e4c", "22e4c"), ("22…", "22"), (String(repeating: "ab", count: 32) + "…", nil),
            ("22", nil), ("…", nil), ("", nil), ("xyz1", nil), ("22e4 4cb6", nil),
            (String(repeating: "ab", count: 32), nil),
        ] as [(String, String?)] {
            let whole = text.hasSuffix("…") && text.count > 64 ? String(text.dropLast()) : digits
            #expect(TokenBeginning(text)?.digits == whole, "\(text)")
        }
    }

    @Test("the range of a beginning has all bytes that begin so, and no others")
    func ranges() throws {
        for (digits, from, to) in [
            ("22e4", [0x22, 0xE4], [0x22, 0xE5]),
            ("22e4c", [0x22, 0xE4, 0xC0], [0x22, 0xE4, 0xD0]),
            ("22ff", [0x22, 0xFF], [0x23]), ("22fff", [0x22, 0xFF, 0xF0], [0x23]),
            ("ffff", [0xFF, 0xFF], nil), ("fffff", [0xFF, 0xFF, 0xF0], nil),
        ] as [(String, [UInt8], [UInt8]?)] {
            let range = try #require(TokenBeginning(digits)).range
            #expect(range.from == from && range.to == to, "\(digits)")
        }
    }

    @Test("tokens of a list are shortened so that neighbours differ, at most to sixteen digits")
    func distinguished() throws {
        let close = [try token("22e44cb6aa11"), try token("22e44cb6aa12")]
        let far = try token("ff")
        #expect(
            DeviceToken.distinguished(close + [far])
                == ["22e44cb6aa110…", "22e44cb6aa120…", "ff000000…"])
        #expect(DeviceToken.distinguished([]) == [])
        let last = [
            try token(""), try DeviceToken(spelling: String(repeating: "0", count: 63) + "1"),
        ]
        #expect(DeviceToken.distinguished(last).allSatisfy { $0.count == 17 })
        #expect(DeviceToken.distinguished([try DeviceToken(spelling: "22e44cb6")]) == ["22e4…"])
    }

    @Test(
        "tokens are found by their first digits in the table, in the marks and in the ledger",
        arguments: TestEngine.available, ["BLOB", "lower", "UPPER"])
    func found(_ engine: TestEngine, _ kind: String) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        let tokens = try ["22e44cb6", "22e44cb7", "22e5", "21ff", "ff44cb6a"].map(token)
        if kind != "BLOB" {
            let type = engine == .sqlite ? "TEXT" : "VARCHAR(200)"
            try database.execute(
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token \(type) NOT NULL, "
                    + "registered_at \(engine == .sqlite ? "TEXT" : "DATETIME(3)"))")
            try database.execute("CREATE UNIQUE INDEX tokens ON devices (device_token)")
            for (number, token) in tokens.enumerated() {
                let hex = kind == "UPPER" ? token.hex.uppercased() : token.hex
                try database.execute(
                    "INSERT INTO devices VALUES (?, ?, NULL)",
                    [.integer(Int64(number)), .text(hex)])
            }
        } else {
            for token in tokens { try database.register(token, at: 1) }
        }
        let store = try database.store {
            if kind != "BLOB" { $0.table = "devices" }
        }
        func found(_ text: String, limit: Int = 9) throws -> [String] {
            try store.tokens(beginning: #require(TokenBeginning(text)), limit: limit)
                .map { String($0.hex.prefix(8)) }
        }
        #expect(try found("22e44cb6") == ["22e44cb6"])
        #expect(try found("22e44cb6…") == ["22e44cb6"])
        #expect(try found("22e44cb") == ["22e44cb6", "22e44cb7"])
        #expect(try found("22E4", limit: 1) == ["22e44cb6"])
        #expect(try found("ff44") == ["ff44cb6a"])
        #expect(try found("ffff") == [] && found("0000") == [])
        // A row that is gone is known to the ledger, a mark beside the table to pushsweep_invalid.
        try database.execute(
            "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) VALUES "
                + "(?, 'a', 'b', '2026-01-01 00:00:00.000')", [.bytes(try token("0a0b0c").bytes)])
        #expect(try found("0a0b") == ["0a0b0c00"])
    }

    @Test(
        "names of other devices that begin so hide no token, and rows of other platforms are left out",
        arguments: TestEngine.available)
    func mixed(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        let (type, time) =
            engine == .sqlite ? ("TEXT", "TEXT") : ("VARCHAR(200)", "DATETIME(3)")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, platform \(type) NOT NULL, device_token "
                + "\(type) NOT NULL UNIQUE, registered_at \(time))")
        let others = (0..<2_100).map { "(\($0), 'android', '22e44cb6-\(10_000 + $0)')" }
        try database.execute(
            "INSERT INTO devices (id, platform, device_token) VALUES "
                + others.joined(separator: ", "))
        let (own, foreign) = (try token("22e44cb6"), try token("22e44cb7"))
        for (id, platform, token) in [(3_000, "ios", own), (3_001, "android", foreign)] {
            try database.execute(
                "INSERT INTO devices (id, platform, device_token) VALUES (\(id), ?, ?)",
                [.text(platform), .text(token.hex)])
        }
        let beginning = try #require(TokenBeginning("22e44cb"))
        let all = try database.store { $0.table = "devices" }
        #expect(try all.tokens(beginning: beginning, limit: 21) == [own, foreign])
        let apple = try database.store {
            $0.table = "devices"
            $0.platform = PlatformMapping(column: "platform", value: "ios")
        }
        #expect(try apple.tokens(beginning: beginning, limit: 21) == [own])
    }

    @Test("each search reads a range of an index", arguments: TestEngine.available, [true, false])
    func indexed(_ engine: TestEngine, _ isText: Bool) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        try database.register(0..<2_000, at: 1)
        let time = "'2026-01-01 00:00:00.000'"
        try database.execute(
            "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) "
                + "SELECT device_token, 'chat', 'production', \(time) FROM active_users")
        try database.execute(
            "INSERT INTO pushsweep_change (part, seq, action, row_key, evidence_at, "
                + "source, changed_at, token) SELECT 1, id, 'mark', '1', \(time), 'x', "
                + "\(time), device_token FROM active_users")
        if engine == .mariaDB {
            _ = try database.texts("ANALYZE TABLE pushsweep_invalid, pushsweep_change")
        }
        if isText {
            let type = engine == .sqlite ? "TEXT" : "VARCHAR(200)"
            try database.execute("DROP TABLE active_users")
            try database.execute(
                "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token \(type) NOT NULL UNIQUE, "
                    + "registered_at \(engine == .sqlite ? "TEXT" : "DATETIME(3)"))")
            for number in 0..<300 {
                try database.execute(
                    "INSERT INTO active_users VALUES (?, ?, NULL)",
                    [.integer(Int64(number)), .text(DeviceToken.numbered(number * 7_919).hex)])
            }
        }
        let store = try database.store()
        let searches = try store.searches(#require(TokenBeginning("22e44cb6")))
        #expect(searches.count >= 3)
        // The first page, and one after it.
        let statements = searches.flatMap { search in
            let last = search.isOurs || !isText ? SQLValue.bytes([0x22]) : .text("22")
            return [search.statement(after: nil), search.statement(after: last)]
        }
        for (sql, values) in statements {
            let plan = try database.texts(
                (engine == .sqlite ? "EXPLAIN QUERY PLAN " : "EXPLAIN FORMAT=JSON ") + sql, values
            ).joined().joined(separator: " ")
            let isRange =
                engine == .sqlite
                ? plan.contains("SEARCH") && !plan.contains("SCAN")
                : plan.contains("range") || plan.contains("Impossible")
                    || plan.contains("no matching")
            #expect(isRange, "\(sql): \(plan)")
        }
    }
}
