import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing

@Suite(
    "A mistake about the account",
    .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
struct AccountMistakeTests {
    /// A separate account for one test, named in the settings of a stage.
    private final class Account {
        let name = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
        let admin: any SQLConnection

        init(_ grants: [String]) throws {
            admin = try #require(MariaDBServer.fromEnvironment).connection()
            try admin.run("CREATE USER '\(name)'@'%' IDENTIFIED BY 'p'")
            for grant in grants { try admin.run("\(grant) TO '\(name)'@'%'") }
        }

        deinit { try? admin.run("DROP USER '\(name)'@'%'") }

        /// The lines below `store:` with this account and a password.
        func lines(
            _ lines: String, in folder: TemporaryFolder, password: String = "p"
        ) throws -> String {
            try folder.write("db-password", password)
            return lines.replacing(/mysql:\/\/[^@]*@/) { _ in "mysql://\(self.name)@" }
        }
    }

    @Test("check and sweep answer a wrong password with the settings of user and password")
    func password() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let account = try Account([])
        stage.lines.store = try account.lines(
            stage.lines.store, in: stage.folder, password: "wrong")
        for command in ["check", "sweep"] {
            let result = try stage.run(command)
            #expect(result.exit == 77)
            #expect(
                result.error.contains(
                    "(1045); check the user in store.url and the password (store.password-file)\n"),
                "\(result.error)")
            #expect(!(result.output + result.error).contains("pushsweep check"))
        }
    }

    @Test("a wrong database name, existing or not, leads to its name and the rights on it")
    func database() throws {
        let stage = try SweepStage(.mariaDB, feeds: [])
        let good = stage.lines.store
        let advice = "correct the database name in store.url, or give the account rights on it\n"
        let account = try Account([])
        stage.lines.store = try account.lines(good, in: stage.folder)
        let foreign = try stage.run("check")
        #expect(foreign.exit == 77)
        #expect(foreign.error.contains("(1044); " + advice), "\(foreign.error)")
        try stage.folder.write("db-password", stage.database.settings.password?.reveal() ?? "")
        stage.lines.store = good.replacing(stage.database.name, with: "ps_nowhere")
        let absent = try stage.run("check")
        #expect(absent.exit == 78)
        #expect(absent.error.contains("(1049); " + advice), "\(absent.error)")
    }

    @Test("an account that may not add rows to the queue gets the exact GRANT, which suffices")
    func insert() throws {
        let stage = try SendStage(.mariaDB)
        let account = try Account([
            "GRANT SELECT ON \(stage.database.name).push_queue"
        ])
        stage.store = try account.lines(stage.store, in: stage.folder)
        let words = ["enqueue", "--alert", "x", "--token", DeviceToken.numbered(1).hex]
        let refused = try stage.start(words).wait()
        #expect(refused.exit == 77)
        #expect(refused.error.contains("queueing 1 notification in push_queue: "))
        let grant = try #require(
            refused.error.firstMatch(of: /GRANT INSERT \(.*\) ON .* TO .*@.*/)?.output,
            "\(refused.error)")
        #expect(!refused.error.contains("pushsweep check"))
        try account.admin.run(String(grant))
        let queued = try stage.start(words).wait()
        #expect(queued.exit == 0, "\(queued.error)")
    }
}
