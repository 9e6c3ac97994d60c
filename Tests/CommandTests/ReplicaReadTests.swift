// A replica has rows of some moments ago. Commands that only look answer there all the same, and say so where
// others act on the answer; commands that change rows refuse it.

import Database
import Foundation
import TestSupport
import Testing

@Suite("A replica that is read", .serialized, .needsServer)
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

    // Only these tests use it, one after the other, and none of them changes it.
    nonisolated(unsafe) private static let replica = Result { try Replica() }

    @Test("a dry run of a large feed forecasts there, and a run that changes rows reads no feed")
    func forecasts() throws {
        let replica = try Self.replica.get()
        // More tokens than one connection judges.
        let stage = try SweepStage(.mariaDB, dead: 6_000)
        stage.lines.store = replica.lines()
        try stage.sweep().ends(78)
        #expect(stage.gateway.records(atLeast: 0).isEmpty)
        let dry = try stage.sweep("--dry-run")
        // The list waits for a run that applies it.
        dry.ends(75).app(has: ["unknown": 6_000])
    }

    @Test("preflight and its filter answer there with --read-only, and say that rows may be old")
    func gates() throws {
        let replica = try Self.replica.get()
        let stage = try SendStage(.mariaDB)
        stage.store = replica.lines()
        try stage.run("preflight").ends(78)
        let report = try stage.json("preflight", "--read-only")
        let findings = try #require(report.json["findings"] as? [[String: Any]], "\(report.error)")
        let old = try #require(findings.first { $0["rule"] as? String == "old-rows" })
        #expect((old["happened"] as? String ?? "\(old)").contains("a replica answers"))
        let input = try stage.folder.write("input", String(repeating: "ab", count: 32) + "\n")
        let filtered = try stage.run(
            ["preflight", "--filter", "--read-only"],
            under: ["/bin/sh", "-c", "exec \"$0\" \"$@\" < '\(input)'"]
        ).ends(0, "a replica answers, so tokens are filtered by rows")
        #expect(filtered.output == String(repeating: "ab", count: 32) + "\n")
        try stage.send("--dry-run").ends(0)
    }

    @Test("check examines it where the other hosts are down")
    func checked() throws {
        let replica = try Self.replica.get()
        let stage = try SweepStage(.mariaDB, dead: 10)
        stage.lines.store = replica.lines("127.0.0.1:1,")
        let check = try stage.run("check")
        // 69 for the hosts, and 78, which is worse, for what it is.
        check.ends(
            78, "none of 2 hosts can be used", "answers to this check",
            "127.0.0.1:1 cannot be used", "is a replica of")
    }
}
