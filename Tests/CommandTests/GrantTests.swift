import APNsProtocol
import Database
import Foundation
import Settings
import TestSupport
import Testing

@Suite("The printed grants")
struct GrantTests {
    private struct Grants {
        let result: ToolResult
        var jobs: [(job: String, statements: [String])] {
            (result.json["jobs"] as? [[String: Any]] ?? []).map {
                ($0["job"] as? String ?? "", $0["statements"] as? [String] ?? [])
            }
        }

        func statements(_ jobs: String...) -> [String] {
            self.jobs.filter { job in jobs.contains { job.job.hasPrefix($0) } }
                .flatMap(\.statements)
        }
    }

    @Test(
        "name the jobs of a queue where there is one, after the others, and as SQL stay executable",
        .needsServer)
    func queue() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let jobs = Grants(result: try stage.json("check", "--grants", "x")).jobs
        #expect(
            jobs.map(\.job).suffix(4).dropLast() == [
                "send, besides those of sweep",
                "explain, and a dry run of send, for rows of the queue",
                "knowing a stopped replica, on MySQL any, optional",
            ])
        try stage.database.execute("DROP TABLE push_queue")
        let text = try stage.run("check", "--grants", "x").output
        #expect(
            text.hasPrefix(
                "-- For an administrator of the database, after `pushsweep schema apply`"))
        #expect(!text.contains("push_queue"), "\(text)")
        #expect(
            text.split(separator: "\n").filter { $0.contains("CREATE, ALTER") }
                .allSatisfy { $0.hasPrefix("-- GRANT") })
        #expect(text.contains("-- GRANT SELECT, INSERT, CREATE, ALTER, INDEX"))
        #expect(
            text.contains("-- GRANT REPLICA MONITOR ON *.* TO ")
                || text.contains("-- GRANT REPLICATION CLIENT ON *.* TO "))
        // An administrator lacks none.
        #expect(!(try stage.run("check").output.contains("\n  GRANT ")))
        let whole = try #require(try stage.json("check").json["grants"] as? [String])
        #expect(!whole.isEmpty && Set(whole).count == whole.count)
    }

    @Test(
        "suffice on a real server, for each job by an account that has no more",
        .needsServer,
        arguments: ["mark", "delete"])
    func suffice(_ action: String) throws {
        let stage = try SweepStage(
            .mariaDB, feeds: [.tuples((0..<3).map { .dead($0, at: 1_700_000_000) })])
        stage.lines.policy = "policy: {action: \(action)}"
        stage.lines.limits = SweepStage.anyNumber
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        let admin = try #require(MariaDBServer.fromEnvironment).connection()
        var accounts: [String] = []
        defer { for account in accounts { try? admin.run("DROP USER \(account)@'%'") } }
        let owner = stage.lines.store + "\n  push-queue: {table: push_queue}"

        /// Makes an account that has the rights of some jobs only, before it can read anything.
        func become(_ jobs: String...) throws {
            stage.lines.store = owner
            let name = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
            accounts.append("'\(name)'")
            try stage.folder.write("db-password", "PASSWORD")
            stage.lines.store = owner.replacing(/mysql:\/\/[^@]*@/) { _ in "mysql://\(name)@" }
            let grants = Grants(result: try stage.json("check", "--grants"))
            #expect(grants.result.json["reason"] is String, "the account does not exist yet")
            for job in ["an account"] + jobs {
                for statement in grants.statements(job) { try admin.run(statement) }
            }
        }

        try become("schema")
        try stage.database.execute("DROP TABLE pushsweep_intake")
        try stage.run("schema", "apply", "--upgrade").ends(0, "pushsweep_intake")
        try become("sweep")
        let swept0 = try stage.run("check").output
        // On MySQL a right that is optional is told: whether the server is a replica.
        let lacks = swept0.split(separator: "\n").filter { $0.hasPrefix("  GRANT ") }
        #expect(lacks.allSatisfy { $0.contains("REPLICATION CLIENT ON") }, "\(swept0)")
        // A sweep that marks reads only some columns.
        for words in [
            ["schema", "print", "--upgrade"], ["schema", "print", "--view"],
            ["schema", "apply", "--upgrade"],
        ] where action == "mark" {
            try stage.run(words).ends(
                77, "name an administrator in PUSHSWEEP_STORE_URL", for: "\(words)")
        }
        // As a killed import leaves them: its batch, a report and a line that cannot be used.
        for (table, columns, values) in [
            (
                "batch",
                "name, run, app, environment, source, state, inlet, label, host, opened_at, "
                    + "ending, reports, quarantined, changed_at",
                "'draft', 'r', 'chat', 'production', 'Unregistered', 'filling', 'file', 'f', 'h', "
                    + "NOW(3), 'clean', 1, 1, NOW(3)"
            ),
            (
                "report", "batch, token, number, evidence_at, changed_at",
                "\(batchNumber("draft")), 'token', 0, NOW(3), NOW(3)"
            ),
            (
                "quarantine", "batch, place, length, reason, bytes",
                "\(batchNumber("draft")), 1, 1, 'r', 'x'"
            ),
        ] {
            try stage.database.execute(
                "INSERT INTO pushsweep_\(table) (\(columns)) VALUES (\(values))")
        }
        let swept = try stage.sweep().ends(0)
        let left = "(SELECT COUNT(*) FROM pushsweep_report WHERE batch = \(batchNumber("draft")))"
        #expect(try stage.database.count("SELECT \(left)") == 0)
        let run = try #require(swept.json["run"] as? String)
        try become("undo")
        try stage.run("undo", run).ends(0)
        let account = try #require(accounts.last)
        for table in ["day", "report", "quarantine"] {
            try admin.run(
                "GRANT SELECT ON \(stage.database.name).pushsweep_\(table) TO \(account)@'%'")
        }
        let lacking = try stage.run("check").output.split(separator: "\n")
        let first = try #require(lacking.firstIndex { $0.hasPrefix("  GRANT ") }, "\(lacking)")
        #expect(lacking[first - 1].hasPrefix("grants the account "))
        let grants = lacking[first...].prefix { $0.hasPrefix("  GRANT ") }
        #expect(Set(grants).count == grants.count && grants.allSatisfy { $0.hasSuffix(";") })
        let purge = try stage.run("purge").ends(77)
        #expect(purge.error.components(separatedBy: "GRANT DELETE").count == 8, "\(purge.error)")
        try become("purge")
        try stage.run("purge").ends(0)
        try become("sweep", "explain")
        try stage.database.execute(
            "INSERT INTO push_queue (app_id, device_token, payload, queued_at) "
                + "VALUES ('chat', ?, '{}', '2026-11-20 10:00:00')",
            [.bytes(DeviceToken.numbered(0).bytes)])
        let told = try stage.json("explain", DeviceToken.numbered(0).hex).ends(
            0, "2026-11-20T10:00:00.000Z")
        let gaps = try #require(told.json["gaps"] as? [String])
        #expect(!gaps.contains { $0.contains("queue") || $0.contains("claim") }, "\(gaps)")
    }
}
