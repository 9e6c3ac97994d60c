// A replica has rows of some moments ago. Commands that only look answer there all the same, and say so where
// others act on the answer; commands that change rows refuse it.

import Database
import Foundation
import TestSupport
import Testing

@Suite(
    "A replica that is read", .serialized,
    .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
struct ReplicaReadTests {
    /// A server with our schema that is the stopped replica of another, and an account of it.
    private final class Replica {
        let server: PrivateServer
        let account = "reader"

        init() throws {
            server = try PrivateServer(["--server-id=2"])
            let administrator = try server.server.connection()
            try administrator.run("CREATE DATABASE push CHARACTER SET utf8mb4")
            let settings = server.server.settings(database: "push")
            let sql = try server.server.connection(database: "push")
            for statement in SchemaScript.whole(for: settings.location).statements {
                try sql.run(statement)
            }
            try OpenAccount.make(account, server.server)
            try administrator.run(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'r'")
        }

        /// The lines below `store:`; `before` are hosts that are named before it.
        func lines(_ before: String = "") -> String {
            """
            url: mysql://\(account)@\(before)127.0.0.1:\(server.server.port)/push
              tls: {mode: "off"}
            """
        }
    }

    @Test("a dry run of a large feed forecasts there, and a run that changes rows reads no feed")
    func forecasts() throws {
        let replica = try Replica()
        // More tokens than one connection judges.
        let stage = try SweepStage(.mariaDB, dead: 6_000)
        stage.lines.store = replica.lines()
        let refused = try stage.sweep()
        #expect(refused.exit == 78, "\(refused.error)")
        #expect(stage.gateway.records(atLeast: 0).isEmpty)
        let dry = try stage.sweep("--dry-run")
        // The list waits for a run that applies it.
        #expect(dry.exit == 75, "\(dry.error)")
        #expect(dry.app()["unknown"] as? Int == 6_000, "\(dry.output) \(dry.error)")
    }

    @Test("preflight and its filter answer there with --read-only, and say that rows may be old")
    func gates() throws {
        let replica = try Replica()
        let stage = try SendStage(.mariaDB)
        stage.store = replica.lines()
        let refused = try stage.start(["preflight"]).wait()
        #expect(refused.exit == 78, "\(refused.output)")
        let report = try stage.start(["preflight", "--read-only", "--format", "json"]).wait()
        let findings = try #require(report.json["findings"] as? [[String: Any]], "\(report.error)")
        let old = try #require(findings.first { $0["rule"] as? String == "old-rows" })
        #expect((old["happened"] as? String ?? "\(old)").contains("a replica answers"))
        let input = try stage.folder.write("input", String(repeating: "ab", count: 32) + "\n")
        let filtered = try stage.start(
            ["preflight", "--filter", "--read-only"],
            under: ["/bin/sh", "-c", "exec \"$0\" \"$@\" < '\(input)'"]
        ).wait()
        #expect(filtered.exit == 0, "\(filtered.error)")
        #expect(filtered.error.contains("a replica answers, so tokens are filtered by rows"))
        #expect(filtered.output == String(repeating: "ab", count: 32) + "\n")
        let dry = try stage.send("--dry-run")
        #expect(dry.exit == 0, "\(dry.error)")
    }

    @Test("check examines it where the other hosts are down")
    func checked() throws {
        let replica = try Replica()
        let stage = try SweepStage(.mariaDB, dead: 10)
        stage.lines.store = replica.lines("127.0.0.1:1,")
        let check = try stage.run("check")
        // 69 for the hosts, and 78, which is worse, for what it is.
        #expect(check.exit == 78, "\(check.output)")
        #expect(check.output.contains("none of 2 hosts can be used"), "\(check.output)")
        #expect(check.output.contains("answers to this check"), "\(check.output)")
        #expect(check.output.contains("127.0.0.1:1 cannot be used"), "\(check.output)")
        #expect(check.output.contains("is a replica of"), "\(check.output)")
    }
}
