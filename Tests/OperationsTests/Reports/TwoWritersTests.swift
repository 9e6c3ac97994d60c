// Whatever changes a row is a batch of reports, or an undo. So each statement of every command that writes the
// application's table stands in a transaction that also writes the ledger and moves the checkpoint of a batch or of an
// undo; or in one that is rolled back, as a trial of a removal.

import APNsProtocol
import Foundation
import TestSupport
import Testing

@testable import Operations

private let before: Int64 = 1_500_000_000_000

@Suite("The two ways to a row")
struct TwoWritersTests {
    /// What a connection sent between the begin of a transaction and its end.
    private struct Transaction {
        var forms: [String] = []
        var isCommitted = false

        static func isWrite(_ form: String) -> Bool {
            guard form.contains("active_users"), !isQuestion(form) else { return false }
            return ["INSERT", "UPDATE", "DELETE", "REPLACE"].contains { form.hasPrefix($0) }
        }

        /// Whether it asks for a right, or how it would be done, and changes nothing.
        static func isQuestion(_ form: String) -> Bool {
            guard !form.hasPrefix("EXPLAIN") else { return true }
            guard let condition = form.range(of: " WHERE ") else { return false }
            return ["1 = 0", "= NULL"].contains { form[condition.upperBound...].contains($0) }
        }

        /// The statements that write the application's table.
        var writes: [String] { forms.filter(Self.isWrite) }

        /// Whether it writes the ledger and moves a batch, or the record of an undo.
        var isAccounted: Bool {
            forms.contains { $0.hasPrefix("INSERT INTO pushsweep_change ") }
                && forms.contains {
                    $0.hasPrefix("UPDATE pushsweep_batch SET run")
                        || $0.hasPrefix("UPDATE pushsweep_run SET counts")
                }
        }
    }

    private static func transactions(_ entries: [StatementLog.Entry]) -> [Transaction] {
        var (open, ended) = ([Int: Transaction](), [Transaction]())
        for entry in entries {
            var current = open[entry.thread] ?? Transaction()
            current.forms.append(entry.form)
            open[entry.thread] = current
            let isEnd = entry.form == "COMMIT" || entry.form == "ROLLBACK"
            guard isEnd || entry.form.hasPrefix("START TRANSACTION") || entry.form == "BEGIN" else {
                continue
            }
            current.isCommitted = entry.form == "COMMIT"
            ended.append(current)
            open[entry.thread] = nil
        }
        return ended + open.values
    }

    /// Takes every command over a table under a policy, in an order that changes and brings back rows.
    private static func takeAll(_ stage: SweepStage, _ environment: [String: String] = [:]) throws {
        func run(_ words: String...) throws -> ToolResult {
            try stage.run(words + ["--format", "json"], environment: environment)
        }
        func report(_ numbers: Range<Int>, at time: Int64) throws {
            for number in numbers {
                try stage.database.report(DeviceToken.numbered(number).hex, time: time)
            }
        }
        func hold() throws -> [String: Any] {
            let holds = try run("holds", "list").json["holds"] as? [[String: Any]]
            let name = try #require(holds?.first?["hold"] as? String)
            return try run("holds", "show", name).json
        }
        for words in [
            ["check"], ["audit"], ["sweep", "--dry-run"], ["explain", DeviceToken.numbered(1).hex],
            ["preflight"], ["environments"], ["schema", "print"],
        ] {
            _ = try stage.run(words, environment: environment)
        }
        try report(0..<10, at: 1_700_000_000_000)
        let swept = try run("sweep")
        try run("undo", swept.json["run"] as? String ?? "").ends(0)
        try run("undo", "--token", DeviceToken.numbered(1).hex).ends(0)
        let log = try stage.folder.write(
            "log.jsonl",
            (10..<20).map {
                #"{"device_token":"\#(DeviceToken.numbered($0).hex)","status":410,"timestamp_ms":1700000000000}"#
            }.joined(separator: "\n") + "\n")
        try run("import", log, "--from", "jsonl", "--app", "chat").ends(0)
        _ = try run("import", log, "--from", "jsonl", "--app", "chat", "--again")
        stage.lines.limits = "guard: {floor: 1, partition-percent: 1}"
        try report(20..<60, at: 1_700_000_000_000)
        _ = try run("sweep")
        try run("holds", "release", hold()["digest"] as? String ?? "").ends(0)
        try report(60..<99, at: 1_700_000_000_000)
        _ = try run("sweep")
        let name = try hold()["hold"] as? String ?? ""
        try run("holds", "discard", name, "--all", "--reason", "wrong").ends(0)
        try run("replay", "--batch", name).ends(3)
        for words in [
            ["changes", "--since", "n1"], ["quarantine", "list"], ["purge"], ["check"],
        ] {
            _ = try stage.run(words, environment: environment)
        }
    }

    /// What the commands send to the database of an engine.
    private static func statements(
        _ engine: TestEngine, _ action: String
    ) throws -> [StatementLog.Entry] {
        let server = engine == .mariaDB ? try StatementLog() : nil
        let file = engine == .sqlite ? try SQLiteStatementLog(writing: "active_users") : nil
        let stage = try SweepStage(engine, on: server?.address)
        stage.lines.policy = "policy: {action: \(action)}"
        try stage.database.register(0..<200, at: before)
        for number in 200..<205 {
            try stage.database.register(.numbered(number), at: before, mark: before + 86_400_000)
        }
        guard let file else {
            return try server?.record { try takeAll(stage) } ?? []
        }
        try takeAll(stage, file.environment)
        // SQLite itself says which statements write the table.
        let writing = try file.writing()
        #expect(writing.count > 1)
        for form in writing where !Transaction.isWrite(form) && !Transaction.isQuestion(form) {
            Issue.record("writes the table in another form: \(form)")
        }
        return try file.run()
    }

    @Test(
        "no command writes a row but in a batch's transaction or an undo's",
        arguments: TestEngine.inTurn(["mark", "delete", "delete, delete-after: 1d"]))
    func accounted(_ engine: TestEngine, _ action: String) throws {
        guard engine == .mariaDB || SQLiteStatementLog.library != nil else {
            return print(PreloadedLibrary.absence)
        }
        let written = Self.transactions(try Self.statements(engine, action))
            .filter { !$0.writes.isEmpty }
        #expect(written.count > 3, "\(written.count)")
        for transaction in written where transaction.isCommitted && !transaction.isAccounted {
            Issue.record("\(transaction.forms.joined(separator: "\n"))")
        }
        if action != "mark" {
            #expect(written.contains { $0.writes.contains { $0.hasPrefix("DELETE") } })
        }
    }
}
