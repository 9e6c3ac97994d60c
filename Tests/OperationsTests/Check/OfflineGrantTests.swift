import Foundation
import Looks
import Settings
import TestSupport
import Testing

@Suite("Grants without a connection")
struct OfflineGrantTests {
    /// The grants by settings of a server that does not answer.
    private static func report(_ text: String, _ user: String? = nil) throws -> GrantReport {
        let folder = try TemporaryFolder()
        try folder.write("db-password", "x")
        let settings = try folder.write("pushsweep.yaml", text)
        return try GrantReport(
            Settings.load(
                configFile: settings, environment: ["PUSHSWEEP_STORE_PASSWORD": "x"]), user: user)
    }

    @Test("they take the columns of the settings, and name the account")
    func columns() throws {
        let report = try Self.report(
            """
            store:
              url: mysql://app@127.0.0.1:1/push
              active-users:
                table: users.devices
                key: [udid]
                token: {column: push_token, encoding: hex}
                registered-at: {column: seen, type: epoch-seconds}
                reason: none
            """, "o'neil@10.%")
        #expect(report.reason?.contains("127.0.0.1:1") == true)
        let names = report.jobs.map { $0.job.prefix { $0 != "," && $0 != " " } }
        #expect(
            names == ["an", "sweep", "preflight", "undo", "purge", "schema"],
            "no queue is wanted")
        let statements = Dictionary(
            report.jobs.map { ($0.job, $0.statements) }, uniquingKeysWith: +)
        #expect(
            statements["an account"] == [
                "CREATE USER IF NOT EXISTS 'o''neil'@'10.%' IDENTIFIED BY 'PASSWORD'"
            ])
        let sweep = statements.filter { $0.key.hasPrefix("sweep") }.flatMap(\.value)
        #expect(
            sweep.contains(
                "GRANT SELECT (`udid`, `push_token`, `app_id`, `environment`, `seen`, "
                    + "`invalidated_at`) ON `users`.`devices` TO 'o''neil'@'10.%'"), "\(sweep)")
        #expect(sweep.contains { $0.contains("ON `push`.`pushsweep_change`") })
        #expect(statements.first { $0.key.hasPrefix("schema") }?.value.count == 2)
    }

    @Test(
        "they name each column that the settings of a recipe name",
        arguments: SettingsExample.allCases)
    func recipes(_ example: SettingsExample) throws {
        let report = try Self.report(
            example.text.replacing(/mysql:[^\n]*/) { _ in "mysql://app@127.0.0.1:1/push" })
        let text = example.text.replacing(/\s*#[^\n]*/, with: "")
        let sweep = report.jobs.filter { $0.job.hasPrefix("sweep") }.flatMap(\.statements)
        let read = try #require(sweep.first)
        // With `policy: {action: delete}` all columns are read.
        if read.hasPrefix("GRANT SELECT (") {
            let named = text.matches(
                of: /(?:token|column|registered-at|app): \{?(?:column: )?([a-zA-Z_]{4,})/)
            for name in named.map(\.1) where !["longest", "none"].contains(name) {
                #expect(read.contains("`\(name)`"), "\(name): \(read)")
            }
        }
        let sends = text.contains("provider:") || text.contains("binary:")
        #expect(report.jobs.contains { $0.job.hasPrefix("send") } == sends)
    }

    @Test("they follow the policy, and go to the user of the address where none is named")
    func policy() throws {
        let statements = try Self.report(
            "store: {url: mysql://app@127.0.0.1:1/push}\npolicy: {action: delete}\n"
        ).jobs.flatMap(\.statements)
        for right in [
            "REFERENCES ON *.*", "DELETE ON `push`.`active_users`",
            "INSERT ON `push`.`active_users`",
        ] {
            #expect(statements.contains("GRANT \(right) TO 'app'@'%'"), "\(statements)")
        }
        #expect(try Self.report("store: {url: \"sqlite:///nowhere\"}").jobs.isEmpty)
    }
}
