import APNsProtocol
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

extension TokenDatabase {
    /// Runs the statements that a finding of `check` prints, in one session.
    func runCure(of finding: Finding) throws {
        let sentence = finding.sentence
        let start = try #require(sentence.firstRange(of: "then run"))
        let colon = try #require(sentence[start.upperBound...].firstRange(of: ": "))
        let statements = String(sentence[colon.upperBound...])
        // SQLite runs several at once; a trigger of a server is not among them.
        for statement in engine == .sqlite
            ? [statements] : statements.split(separator: "; ").map(String.init)
        {
            try sql.run(statement)
        }
    }
}

/// A table with hex in groups, and its application.
struct GroupedStage {
    let database: TokenDatabase
    private let mark: OptionalColumn

    init(_ engine: TestEngine, _ columns: String) throws {
        mark = columns.contains("invalidated_at") ? .named("invalidated_at") : .absent
        database = try TokenDatabase.withSideTables(engine)
        try database.execute("SET @pushsweep = NULL", on: .mariaDB)
        try database.execute(
            "CREATE TABLE devices (id INTEGER NOT NULL PRIMARY KEY, device_token \(columns))")
    }

    static func grouped(_ number: Int, _ separator: String = " ") -> String {
        let hex = DeviceToken.numbered(number).hex
        return stride(from: 0, to: 64, by: 8).map {
            String(hex.dropFirst($0).prefix(8))
        }.joined(separator: separator)
    }

    func store() throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.table = "devices"
            $0.encoding = .hex
            $0.invalidatedAt.column = mark
        }
    }

    func insert(_ id: Int, _ text: String) throws {
        try database.execute(
            "INSERT INTO devices (id, device_token) VALUES (\(id), ?)", [.text(text)])
    }

    func cure() throws {
        let refusals = try store().examine(.read).findings.filter { $0.failure != nil }
        try database.runCure(of: #require(refusals.first))
        #expect(try store().examine(.read).passesCheck)
    }

    func tokens() throws -> [String] {
        try database.texts("SELECT device_token FROM devices ORDER BY id").map { $0[0] }
    }
}

@Suite("The statements that rewrite odd spellings")
struct SpellingRewritingTests {
    @Test(
        "they revive no dead token where triggers write registrations, and the triggers stay",
        arguments: TestEngine.available)
    func triggers(_ engine: TestEngine) throws {
        let stage = try GroupedStage(
            engine, "VARCHAR(200), registered_at DATETIME NULL, invalidated_at DATETIME NULL")
        for statement in try RegistrationPage.triggers(
            engine, table: "devices", key: "id", without: ["nickname", "invalid_reason"])
        {
            try stage.database.sql.run(statement)
        }
        try stage.insert(1, DeviceToken.numbered(1).hex)
        try stage.insert(2, GroupedStage.grouped(2))
        try stage.database.execute("UPDATE devices SET registered_at = '2024-01-01 00:00:00'")
        try stage.store().sweep("one", [.dead(1, at: start + 60_000)])
        let times = "SELECT registered_at FROM devices ORDER BY id"
        let before = try stage.database.texts(times)
        try stage.cure()
        #expect(try stage.tokens()[1] == DeviceToken.numbered(2).hex)
        #expect(try stage.database.texts(times) == before)
        let statuses = try stage.store().tokenStatuses(in: chat)
        #expect(
            try statuses.statuses(of: [.numbered(1), .numbered(2)])
                == [.numbered(1): .stale, .numbered(2): .living])
        try stage.database.execute("UPDATE devices SET device_token = device_token WHERE id = 2")
        #expect(try stage.database.texts(times)[1] != before[1], "the triggers are gone")
    }

    @Test(
        "they pass where a unique column has the token in two spellings",
        arguments: TestEngine.available,
        [
            "VARCHAR(200) NOT NULL UNIQUE", "VARCHAR(200) NULL UNIQUE",
            "VARCHAR(200) NOT NULL, app INTEGER DEFAULT 7, UNIQUE (app, device_token)",
        ])
    func unique(_ engine: TestEngine, _ columns: String) throws {
        let stage = try GroupedStage(engine, columns)
        try stage.insert(1, GroupedStage.grouped(1))
        try stage.insert(2, DeviceToken.numbered(1).hex)
        try stage.insert(3, GroupedStage.grouped(3))
        try stage.insert(4, "<\(GroupedStage.grouped(3))>")
        try stage.insert(5, GroupedStage.grouped(5))
        try stage.insert(6, DeviceToken.numbered(6).hex.uppercased())
        try stage.cure()
        let empty = columns.contains("NOT NULL") ? [] : ["NULL"]
        let hex = [1, 3, 5].map { DeviceToken.numbered($0).hex }
        let left = try stage.tokens()
        #expect(
            left.dropLast()
                == empty + [hex[0], hex[1]] + empty + [hex[2]])
        #expect(left.last?.lowercased() == DeviceToken.numbered(6).hex)
    }

    @Test(
        "they leave short values alone, which check does not refuse",
        arguments: TestEngine.available)
    func short(_ engine: TestEngine) throws {
        let stage = try GroupedStage(
            engine, "VARCHAR(200) COLLATE \(engine == .mariaDB ? "utf8mb4_bin" : "BINARY")")
        let others = ["12 34", "DeadBeef", "<ab>"]
        for (id, text) in others.enumerated() { try stage.insert(id, text) }
        for id in 3..<9 { try stage.insert(id, DeviceToken.numbered(id).hex) }
        #expect(try stage.store().examine(.read).passesCheck)
        try stage.insert(9, GroupedStage.grouped(9))
        try stage.cure()
        #expect(try stage.tokens().prefix(3) == others[...])
        #expect(try stage.tokens().last == DeviceToken.numbered(9).hex)
    }

    @Test("they change no token that the column has no room for", .needsServer)
    func room() throws {
        let stage = try GroupedStage(.mariaDB, "VARCHAR(120) UNIQUE")
        let long = Data((0..<80).map { UInt8(251 &- $0) }).base64EncodedString()
        let usual = DeviceToken.numbered(0xABCDEF)
        try stage.insert(1, long)
        try stage.insert(2, Data(usual.bytes).base64EncodedString())
        for id in 3..<9 { try stage.insert(id, DeviceToken.numbered(id).hex) }
        try stage.database.sql.run("SET SESSION sql_mode = ''")
        let refusal = try #require(
            try stage.store().examine(.read).findings.first { $0.sentence.contains("then run") })
        #expect(refusal.sentence.contains("more than 120 digits"))
        try stage.database.runCure(of: refusal)
        #expect(try Array(stage.tokens().prefix(2)) == [long, usual.hex])
    }

    @Test(
        "no statement for other rows welds the tokens of a list together",
        arguments: TestEngine.available, [" ", ", ", "|", ":"])
    func unwelded(_ engine: TestEngine, _ separator: String) throws {
        let stage = try GroupedStage(engine, "VARCHAR(255)")
        let list = DeviceToken.numbered(1).hex + separator + DeviceToken.numbered(2).hex
        try stage.insert(1, list)
        let sign = separator == ", " ? " " : separator
        for number in 2..<40 { try stage.insert(number, GroupedStage.grouped(number, sign)) }
        let failures = try stage.store().examine(.read).findings.filter { $0.failure != nil }
        let cure = try #require(failures.first { $0.sentence.contains("UPDATE") })
        try stage.database.runCure(of: cure)
        let left = try stage.tokens()
        #expect(left[0] == list)
        #expect(left[1] == DeviceToken.numbered(2).hex)
    }
}
