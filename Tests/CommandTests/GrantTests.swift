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

    /// Settings with a server that does not answer.
    private static func offline(_ store: String, _ words: String...) throws -> Grants {
        let folder = try TemporaryFolder()
        let settings = try folder.write(
            "pushsweep.yaml", "store:\n  url: mysql://app@127.0.0.1:1/push\n  \(store)\n")
        return Grants(
            result: try RunningTool(
                "pushsweep",
                ["check", "--grants", "--format", "json", "--config", settings] + words
            ).wait())
    }

    @Test("without a connection take the columns of the settings, and name the account")
    func withoutConnection() throws {
        let grants = try Self.offline(
            """
            active-users:
                table: users.devices
                key: [udid]
                token: {column: push_token, encoding: hex}
                registered-at: {column: seen, type: epoch-seconds}
                reason: none
            """, "o'neil@10.%")
        #expect(grants.result.exit == 0, "\(grants.result.error)")
        #expect((grants.result.json["reason"] as? String ?? "").contains("127.0.0.1:1"))
        #expect(
            grants.jobs.map { $0.job.prefix { $0 != "," && $0 != " " } }
                == ["an", "sweep", "sweep", "undo", "purge", "schema"], "no queue is wanted")
        #expect(
            grants.statements("an account") == [
                "CREATE USER IF NOT EXISTS 'o''neil'@'10.%' IDENTIFIED BY 'PASSWORD'"
            ])
        let sweep = grants.statements("sweep")
        #expect(
            sweep.first
                == "GRANT SELECT (`udid`, `push_token`, `app_id`, `environment`, `seen`, "
                + "`invalidated_at`) ON `users`.`devices` TO 'o''neil'@'10.%'", "\(sweep)")
        #expect(sweep.contains { $0.contains("ON `push`.`pushsweep_change`") })
        #expect(grants.statements("schema").count == 2)
    }

    @Test(
        "without a connection name each column that the settings of a recipe name",
        arguments: SettingsExample.allCases)
    func recipes(_ example: SettingsExample) throws {
        let folder = try TemporaryFolder()
        let settings = try folder.write(
            "pushsweep.yaml",
            example.text.replacing(/mysql:[^\n]*/) { _ in "mysql://app@127.0.0.1:1/push" })
        try folder.write("db-password", "x")
        let grants = Grants(
            result: try RunningTool(
                "pushsweep", ["check", "--grants", "--format", "json", "--config", settings],
                environment: ["PUSHSWEEP_STORE_PASSWORD": "x"]
            ).wait())
        #expect(grants.result.exit == 0, "\(grants.result.error)")
        let text = example.text.replacing(/\s*#[^\n]*/, with: "")
        let read = try #require(grants.statements("sweep").first)
        // With `policy: {action: delete}` all columns are read.
        if read.hasPrefix("GRANT SELECT (") {
            let named = text.matches(
                of: /(?:token|column|registered-at|app): \{?(?:column: )?([a-zA-Z_]{4,})/)
            for name in named.map(\.1) where !["longest", "none"].contains(name) {
                #expect(read.contains("`\(name)`"), "\(name): \(read)")
            }
        }
        let jobs = grants.jobs.map(\.job)
        let sends = text.contains("provider:") || text.contains("binary:")
        #expect(jobs.contains("enqueue") == sends, "\(jobs)")
    }

    @Test(
        "name the jobs of a queue where there is one, after all others, and as SQL stay executable",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
    func queue() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let jobs = Grants(result: try stage.run("check", "--grants", "x", "--format", "json")).jobs
        #expect(
            jobs.map(\.job).suffix(5).dropLast() == [
                "send, besides those of sweep", "enqueue", "deliveries",
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
    }

    @Test("follow the policy, and go to the user of the address where none is named")
    func policy() throws {
        let mark = try Self.offline("password-file: ~", "extra")
        #expect(mark.result.exit == 78)
        let folder = try TemporaryFolder()
        let settings = try folder.write(
            "pushsweep.yaml",
            "store: {url: mysql://app@127.0.0.1:1/push}\npolicy: {action: delete}\n")
        let text = try Tool.pushsweep("check", "--grants", "--config", settings).output
        #expect(text.contains("GRANT REFERENCES ON *.* TO 'app'@'%';"), "\(text)")
        #expect(text.contains("GRANT DELETE ON `push`.`active_users` TO 'app'@'%';"))
        #expect(text.contains("GRANT INSERT ON `push`.`active_users` TO 'app'@'%';"))
    }

    @Test("a SQLite file has none, and an account goes with --grants only")
    func others() throws {
        let stage = try SweepStage(feeds: [])
        let result = try stage.run("check", "--grants")
        #expect(result.exit == 0 && result.output.contains("SQLite has no accounts"))
        for words in [
            ["check", "somebody"], ["check", "--grants", ""], ["check", "--grants", "@h"],
            ["check", "--grants", "--example"],
        ] {
            #expect(try stage.start(words).wait().exit == 64, "\(words)")
        }
    }

    @Test(
        "suffice on a real server, for each job by an account that has no more",
        .enabled(
            if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence)),
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
            let grants = Grants(result: try stage.run("check", "--grants", "--format", "json"))
            #expect(grants.result.json["reason"] is String, "the account does not exist yet")
            for job in ["an account"] + jobs {
                for statement in grants.statements(job) { try admin.run(statement) }
            }
        }

        try become("schema")
        try stage.database.execute("DROP TABLE pushsweep_intake")
        let made = try stage.run("schema", "apply", "--upgrade")
        #expect(made.exit == 0 && made.output.contains("pushsweep_intake"), "\(made.error)")
        try become("sweep")
        // A sweep that marks reads only some columns.
        for words in [
            ["schema", "print", "--upgrade"], ["schema", "print", "--view"],
            ["schema", "apply", "--upgrade"],
        ] where action == "mark" {
            let refused = try stage.start(words).wait()
            #expect(refused.exit == 77, "\(words)")
            #expect(refused.error.contains("name an administrator in PUSHSWEEP_STORE_URL"))
        }
        let swept = try stage.sweep()
        #expect(swept.exit == 0, "\(swept.error)")
        let run = try #require(swept.json["run"] as? String)
        try become("undo")
        let undone = try stage.run("undo", run)
        #expect(undone.exit == 0, "\(undone.error)")
        let account = try #require(accounts.last)
        try admin.run("GRANT SELECT ON \(stage.database.name).pushsweep_day TO \(account)@'%'")
        let purge = try stage.run("purge")
        #expect(
            purge.exit == 77 && purge.error.components(separatedBy: "GRANT DELETE").count == 5,
            "\(purge.error)")
        try become("purge")
        let purged = try stage.run("purge")
        #expect(purged.exit == 0, "\(purged.error)")
        try become("enqueue")
        let queued = try stage.run(
            "enqueue", "--alert", "x", "--token", DeviceToken.numbered(1).hex)
        #expect(queued.exit == 0, "\(queued.error)")
        try become("deliveries")
        let listed = try stage.run("deliveries", "--since", "2023-01-01")
        #expect(listed.exit == 0 && listed.error == "", "\(listed.error)")
        #expect(listed.output.contains("user user"), "\(listed.output)")
    }
}
