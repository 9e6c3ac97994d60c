// Whatever changes a row is a batch of reports, or an undo. So each statement of every command that writes the
// application's table stands in a transaction that also writes the ledger and moves the checkpoint of a batch or of an
// undo; or in one that is rolled back, as a trial of a removal.

import APNsProtocol
import Foundation
import TestSupport
import Testing

@testable import Operations

private let before: Int64 = 1_500_000_000_000

@Suite(
    "The two ways to a row",
    .enabled(if: TestEngine.available.contains(.mariaDB), "needs a MariaDB"))
struct TwoWritersTests {
    /// What a connection sent between the begin of a transaction and its end.
    private struct Transaction {
        var forms: [String] = []
        var isCommitted = false

        private static func isWrite(_ form: String) -> Bool {
            guard form.contains("active_users") else { return false }
            // The statements that ask for a right change nothing.
            guard !form.contains("1 = 0"), !form.contains("= NULL") else { return false }
            return ["INSERT", "UPDATE", "DELETE", "REPLACE"].contains { form.hasPrefix($0) }
        }

        /// The statements that write the application's table.
        var writes: [String] { forms.filter(Self.isWrite) }

        /// Whether it writes the ledger and moves a batch, or the record of an undo.
        var isAccounted: Bool {
            forms.contains { $0.hasPrefix("INSERT INTO pushsweep_change ") }
                && forms.contains {
                    $0.hasPrefix("UPDATE pushsweep_feed SET run")
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
    private static func takeAll(_ stage: SweepStage) throws {
        func report(_ numbers: Range<Int>, at time: Int64) throws {
            for number in numbers {
                try stage.database.report(DeviceToken.numbered(number).hex, time: time)
            }
        }
        for words in [
            ["check"], ["audit"], ["sweep", "--dry-run"], ["explain", DeviceToken.numbered(1).hex],
            ["preflight"], ["environments"], ["schema", "print"],
        ] {
            _ = try stage.run(words)
        }
        try report(0..<10, at: 1_700_000_000_000)
        let swept = try stage.json("sweep")
        _ = try stage.run("undo", swept.json["run"] as? String ?? "")
        _ = try stage.run("undo", "--token", DeviceToken.numbered(1).hex)
        let log = try stage.folder.write(
            "log.jsonl",
            (10..<20).map {
                #"{"device_token":"\#(DeviceToken.numbered($0).hex)","status":410,"timestamp_ms":1700000000000}"#
            }.joined(separator: "\n") + "\n")
        _ = try stage.run("import", log, "--from", "jsonl", "--app", "chat")
        _ = try stage.run("import", log, "--from", "jsonl", "--app", "chat", "--again")
        stage.lines.limits = "guard: {floor: 1, partition-percent: 1}"
        try report(20..<60, at: 1_700_000_000_000)
        _ = try stage.run("sweep")
        _ = try stage.run("holds", "list")
        if let digest = try? stage.shownHold()["digest"] as? String {
            _ = try stage.run("holds", "release", digest)
        }
        try report(60..<99, at: 1_700_000_000_000)
        _ = try stage.run("sweep")
        if let hold = try? stage.shownHold()["hold"] as? String {
            _ = try stage.run("holds", "discard", hold, "--all", "--reason", "wrong")
            _ = try stage.run("replay", "--feed", hold)
        }
        for words in [["changes", "--since", "n1"], ["quarantine", "list"], ["purge"], ["check"]] {
            _ = try stage.run(words)
        }
    }

    @Test(
        "no command writes a row but in a batch's transaction or an undo's",
        arguments: ["mark", "delete", "delete, delete-after: 1d"])
    func accounted(_ action: String) throws {
        let log = try StatementLog()
        let stage = try SweepStage(.mariaDB, on: log.address)
        stage.lines.policy = "policy: {action: \(action)}"
        try stage.database.register(0..<200, at: before)
        for number in 200..<205 {
            try stage.database.register(.numbered(number), at: before, mark: before + 86_400_000)
        }
        let written = Self.transactions(try log.record { try Self.takeAll(stage) })
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
