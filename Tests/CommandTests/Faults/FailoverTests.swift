// A host that dies in mid-run, at a random COMMIT, before or after the server executed it. The client cannot
// tell the two apart. The next host of the list continues, and the checkpoint decides what was committed.

import Database
import Foundation
import TestSupport
import Testing

@Suite("A host that dies in mid-run", .serialized, .needsServer)
struct FailoverTests {
    private static let tokens = Series.isLong ? 4_000 : 1_500
    /// Deaths; each has a sweep and an undo.
    private static let cases = Series.length("PUSHSWEEP_TEST_FAILOVERS", short: 2, long: 6)

    /// A stage whose settings name two hosts, both of them ways to the test server.
    private final class TwoHosts {
        let stage: SweepStage
        let account: OpenAccount
        let port: Int

        init() throws {
            let server = try #require(MariaDBServer.fromEnvironment)
            port = server.port
            stage = try SweepStage(.mariaDB, dead: FailoverTests.tokens)
            account = try OpenAccount(server)
        }

        /// Runs a command over new hosts, of which the first dies.
        func run(
            _ words: [String], _ death: SQLRouter.Death?
        ) throws -> (result: ToolResult, hosts: [SQLRouter]) {
            let hosts = [
                try SQLRouter(primary: port, dying: death), try SQLRouter(primary: port),
            ]
            let list = hosts.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
            stage.lines.store = """
                url: mysql://\(account.name)@\(list)/\(stage.database.name)
                  tls: {mode: "off"}
                """
            return (try stage.run(words + ["--verbose"]), hosts)
        }

        var marks: Int {
            get throws {
                try stage.database.marked
            }
        }
    }

    @Test("the run ends with 0 on the next host, each tuple counted once")
    func continues() throws {
        var random = SeededGenerator("failovers")
        for number in 0..<Self.cases {
            let hosts = try TwoHosts()
            let commit = Int.random(in: 1...Self.tokens / 60, using: &random)
            let death: SQLRouter.Death =
                Bool.random(using: &random) ? .commit(commit) : .unansweredCommit(commit)
            let swept = try hosts.run(["sweep"], death)
            let note: Comment =
                "seed \(random.seed), case \(number), \(death): \(swept.result.error)"
            #expect(swept.result.exit == 0, note)
            #expect(swept.hosts[0].isDead == (swept.hosts[1].connections > 0), note)
            if swept.hosts[0].isDead {
                #expect(
                    swept.result.error.contains("used at 127.0.0.1:\(swept.hosts[1].port), since"),
                    note)
            }
            #expect(try hosts.marks == Self.tokens, note)
            #expect(
                try hosts.stage.database.texts(
                    "SELECT SUM(applied), SUM(already) FROM pushsweep_batch")
                    == [["\(Self.tokens)", "0"]], note)
            #expect(
                try hosts.stage.database.changedOnce(Self.tokens), note)
            #expect(hosts.stage.gateway.records(atLeast: 1).count == 1, note)
            let undone = try hosts.run(["undo", "--since", "2020-01-01T00:00:00Z"], death)
            #expect(undone.result.exit == 0, "\(note) \(undone.result.error)")
            #expect(try hosts.marks == 0, note)
            #expect(try hosts.stage.database.rows(of: "pushsweep_change") == 2 * Self.tokens, note)
        }
    }
}
