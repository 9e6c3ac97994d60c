// An account without the right to read one of our tables. A server answers as if the table were not there, so nobody
// knows what stands in it: what decides by it ends with 77, and what only looks names the gap.

import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing

@Suite("A table that the account may not read", .needsServer)
struct HiddenTableTests {
    private static let decisive = [
        "pushsweep_invalid", "pushsweep_suspect", "pushsweep_evidence", "pushsweep_spared",
        "pushsweep_batch", "pushsweep_report",
    ]

    private let stage: SweepStage
    private let tables: [String]
    private let tokens: String

    /// A table with marks beside it, suspects, notes, and rows of senders that wait.
    init() throws {
        stage = try SweepStage(.mariaDB, feeds: [])
        stage.lines.limits = SweepStage.anyNumber
        stage.lines.store +=
            "\n  active-users: {invalidated-at: {column: none}, reason: {column: none}}"
        let database = stage.database
        try database.register(0..<60, at: 1_600_000_000_000)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        for number in 0..<20 {
            try database.report(DeviceToken.numbered(number).hex, time: now - 3_600_000)
        }
        let run = try stage.sweep().ends(0).json["run"] as? String ?? ""
        try stage.run("undo", run).ends(0)
        for number in 3..<20 {
            try database.report(DeviceToken.numbered(number).hex, time: now - 1_000)
        }
        for number in 20..<40 {
            try database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "BadDeviceToken",
                time: now - 1_000)
        }
        try stage.sweep().ends(0)
        for number in 40..<50 {
            try database.report(DeviceToken.numbered(number).hex, time: now - 1_000)
        }
        tokens = try stage.folder.write(
            "tokens", (0..<60).map { DeviceToken.numbered($0).hex + "\n" }.joined())
        tables = try database.texts(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
        ).map(\.[0])
    }

    private var commands: [[String]] {
        [
            ["preflight", "--app", "chat", "--read-only", "--tokens-from", tokens],
            ["preflight", "--app", "chat", "--filter", "--read-only", "--tokens-from", tokens],
            ["audit", "--format", "json"], ["check", "--format", "json"],
            ["explain", DeviceToken.numbered(1).hex, "--format", "json"],
            ["sweep", "--dry-run", "--format", "json"], ["environments", "--format", "json"],
        ]
    }

    /// An account that may read all tables but one.
    private func account(without table: String?) throws -> ServerAccount {
        let account = try ServerAccount(of: stage.database)
        for name in tables where name != table { try account.grant(on: name) }
        return account
    }

    /// What a result says, without times, names of runs and the account.
    private func said(_ result: ToolResult, _ account: ServerAccount) -> String {
        var text = "\(result.exit) \(result.printed)".replacing(account.name, with: "account")
        for pattern in [
            #"[0-9a-f]{8}-[0-9a-f-]{27}"#, #"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?"#,
            #""?-?[0-9.]+( ms| s|e-?\d+)?"?"#,
        ] {
            text = text.replacingOccurrences(of: pattern, with: "#", options: .regularExpression)
        }
        return text
    }

    @Test("of each table a decision ends with 77, a look names it, or nothing is said otherwise")
    func each() throws {
        let whole = try account(without: nil)
        let all = try commands.map { try stage.run($0, environment: whole.environment) }
        #expect(all[0].exit == 2 && all[1].exit == 0, "\(all[0].printed)")
        #expect(all[1].output.split(separator: "\n").count == 43)
        let hidden = Series.isLong ? tables.filter { $0 != "active_users" } : Self.decisive
        for table in hidden {
            let account = try account(without: table)
            for (words, seen) in zip(commands, all) {
                let result = try stage.run(words, environment: account.environment)
                let isSame = said(result, account) == said(seen, whole)
                let isNamed = result.exit == 77 || result.printed.contains("may not")
                #expect(
                    isSame || isNamed && result.printed.contains(table),
                    "\(words[0]) without \(table): \(result.exit) \(result.printed)")
            }
        }
    }

    @Test(
        "a gate and a filter do not decide without the table",
        arguments: ["pushsweep_invalid", "pushsweep_suspect", "pushsweep_evidence"])
    func decisions(_ table: String) throws {
        let account = try account(without: table)
        try stage.run(commands[0], environment: account.environment).ends(
            77, "\(table) may not be read, or is not there", "GRANT SELECT", "schema apply")
        let filtered = try stage.run(commands[1], environment: account.environment)
        if table == "pushsweep_invalid" {
            filtered.ends(77, "\(table) may not be read, or is not there")
            #expect(filtered.output.isEmpty)
        } else {
            // Its answer does not need the table.
            filtered.ends(0)
        }
    }

    @Test("the printed grants of an account that only looks suffice")
    func suffice() throws {
        let account = try ServerAccount(of: stage.database)
        let jobs =
            try stage.json("check", "--grants", account.name).json["jobs"] as? [[String: Any]] ?? []
        let looks = jobs.first { ($0["job"] as? String)?.hasPrefix("preflight, audit") == true }
        let statements = try #require(looks?["statements"] as? [String])
        try account.run(statements.map { $0.replacing("'@'localhost'", with: "'@'%'") })
        for (words, exit) in zip(commands, [2, 0, 0, -1, 0, 0, 0] as [Int32]) where exit >= 0 {
            let result = try stage.run(words, environment: account.environment)
            result.ends(exit, for: "\(words)").lacks("may not be read")
        }
    }
}
