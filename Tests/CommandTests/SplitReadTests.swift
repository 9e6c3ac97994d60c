// A proxy that sends changes to the primary and plain SELECTs to a server with old rows. No statement fails
// there, so a run that trusted such a read would mark devices that have registered again.

import Database
import Foundation
import TestSupport
import Testing
import TokenTable

@Suite("A proxy that splits reads from changes", .serialized, .needsServer)
struct SplitReadTests {
    private static let tokens = 300
    private static let before: Int64 = 1_600_000_000_000
    private static let after: Int64 = 1_800_000_000_000

    /// A stage whose database is behind a splitting proxy. The second server has the tables of long
    /// ago: no registration since, no ledger, and a lease that another host seems to hold.
    private final class SplitStage {
        let stage: SweepStage
        let router: SQLRouter
        let old: any SQLConnection
        private let account: OpenAccount

        init() throws {
            let server = try #require(MariaDBServer.fromEnvironment)
            stage = try SweepStage(.mariaDB, dead: SplitReadTests.tokens)
            let stale = try SplitReadTests.stale.get()
            account = try OpenAccount(server)
            try OpenAccount.make(account.name, stale.server)
            let name = stage.database.name
            try stale.server.connection().run("CREATE DATABASE \(name) CHARACTER SET utf8mb4")
            old = try stale.server.connection(database: name)
            for statement in SchemaScript.whole(for: stage.database.settings.location).statements {
                try old.run(statement)
            }
            _ = try old.execute(
                "INSERT INTO pushsweep_lease (name, fence, owner, expires_at) VALUES "
                    + "('active_users', 7, 'sweep@elsewhere run=a home=b since=c', '2090-01-01')",
                [])
            // A third of the devices has registered again, after the evidence.
            try stage.database.execute(
                "UPDATE active_users SET registered_at = ? WHERE id % 3 = 0",
                [stage.database.time(SplitReadTests.after)])
            router = try SQLRouter(primary: server.port, reads: stale.server.port)
            accept(false)
        }

        func accept(_ accepts: Bool) {
            stage.lines.store = """
                url: mysql://\(account.name)@127.0.0.1:\(router.port)/\(stage.database.name)
                  tls: {mode: "off"}
                  accept-replica: \(accepts)
                """
        }

        var marks: Int {
            get throws {
                try stage.database.marked
            }
        }

        /// The SELECTs that went to the second server, but for those that ask who it is.
        var decidedElsewhere: [String] {
            router.split.filter { !$0.hasPrefix("SELECT @@") }
        }
    }

    // Only these tests use it, one after the other, each with a database of its own.
    nonisolated(unsafe) fileprivate static let stale = Result {
        try PrivateServer(["--server-id=2"])
    }

    @Test("is refused with 78 before a feed is opened, and by undo, purge and check")
    func refusal() throws {
        let split = try SplitStage()
        try split.stage.sweep().ends(
            78, "two servers answer on one connection", "store.accept-replica")
        #expect(split.stage.gateway.records(atLeast: 0).isEmpty)
        #expect(try split.marks == 0)
        for command in [["undo", "--since", "2020-01-01T00:00:00Z"], ["purge"]] {
            try split.stage.run(command).ends(78, for: "\(command)")
        }
        try split.stage.run("check").ends(78, "two servers answer")
    }

    @Test("once accepted, lets sweep and undo decide by the primary's rows alone")
    func decisions() throws {
        let split = try SplitStage()
        split.accept(true)
        let dry = try split.stage.sweep("--dry-run")
        // What it read waits for a run that applies it.
        dry.ends(75)
        let result = try split.stage.sweep().ends(0).app(has: ["applied": Self.tokens * 2 / 3])
        #expect(try split.marks == Self.tokens * 2 / 3)
        #expect(
            try split.stage.database.rows(
                of: "active_users", "invalidated_at IS NOT NULL AND id % 3 = 0")
                == 0)
        let run = try #require(result.json["run"] as? String)
        try split.stage.run("undo", run).ends(0)
        #expect(try split.marks == 0)
        #expect(split.decidedElsewhere == [])
        #expect(
            try split.old.query("SELECT fence FROM pushsweep_lease").scalar?.count == 7,
            "the second server was changed")
    }

    @Test("sends reports to the second server, so the proxy of these tests does split")
    func splits() throws {
        let split = try SplitStage()
        split.accept(true)
        let audit = try split.stage.run("explain", String(repeating: "ab", count: 32))
        #expect(audit.exit == 0 || audit.exit == 1, "\(audit.error)")
        #expect(!split.decidedElsewhere.isEmpty)
    }
}
