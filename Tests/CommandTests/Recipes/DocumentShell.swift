import Database
import Foundation
import TestSupport
import Testing

/// An account of the test server that has the rights of a printed file of grants and no others. It is
/// removed with the object.
final class GrantedAccount {
    /// The name, in place of `pushsweep` in the documents.
    let name = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
    /// The password, in place of `PASSWORD` in the file.
    let password = "granted"
    private let admin: any SQLConnection

    init() throws { admin = try #require(MariaDBServer.fromEnvironment).connection() }

    deinit { try? admin.run("DROP USER IF EXISTS '\(name)'@'%'") }

    /// Executes a file of grants as a database client does for an administrator: it stops at the first
    /// statement that fails.
    func run(_ file: String) throws {
        let script = try String(contentsOfFile: file, encoding: .utf8)
        let lines = script.split(separator: "\n").filter { !$0.hasPrefix("--") }
        for statement in lines.joined(separator: "\n").split(separator: ";") {
            let sql = statement.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !sql.isEmpty else { continue }
            try admin.run(sql.replacing("'PASSWORD'", with: "'\(password)'"))
        }
    }
}

/// The commands of a document in a folder with its settings file. On a server those of `schema`, and
/// those that print grants, run as the administrator, and all others as an account that the printed
/// grants make, once they have.
final class DocumentShell {
    let folder: TemporaryFolder
    /// More variables for each command.
    var environment: [String: String] = [:]
    private let account: GrantedAccount?
    private let administrator: [String: String]
    private let granted: [String: String]
    private var isGranted = false

    /// Runs the commands on a database, with the settings of `pushsweep.yaml` in a folder.
    init(_ database: TokenDatabase, _ folder: TemporaryFolder) throws {
        self.folder = folder
        environment["PUSHSWEEP_STATE"] = folder.file("state")
        switch database.settings.location {
        case .sqlite(let path):
            account = nil
            administrator = ["PUSHSWEEP_STORE_URL": "sqlite://\(path)"]
            granted = administrator
            try folder.write("db-password", "unused\n", mode: 0o600)
        case .server(let server):
            guard case .tcp(let host, let port) = server.address,
                let ca = MariaDBServer.fromEnvironment?.ca
            else { throw TestFailure("the test server is reached over TCP") }
            let account = try GrantedAccount()
            self.account = account
            let place = "\(host):\(port)/\(server.database)"
            administrator = [
                "PUSHSWEEP_STORE_URL": "mysql://\(server.user)@\(place)",
                "PUSHSWEEP_STORE_PASSWORD": database.settings.password?.reveal() ?? "",
            ]
            granted = ["PUSHSWEEP_STORE_URL": "mysql://\(account.name)@\(place)"]
            environment["PUSHSWEEP_STORE_TLS_CA"] = ca
            try folder.write("db-password", account.password + "\n", mode: 0o600)
        }
    }

    /// Runs a command of `pushsweep` to its end.
    func run(_ words: [String]) throws -> ToolResult { try start(words).wait() }

    /// Starts a command of `pushsweep`.
    func start(_ words: [String]) throws -> RunningTool {
        let needsAdministrator = words.first == "schema" || words.contains("--grants")
        let user = isGranted && !needsAdministrator ? granted : administrator
        return try RunningTool(
            "pushsweep", words + ["--config", folder.file("pushsweep.yaml")],
            environment: environment.merging(user) { $1 })
    }

    /// Runs a line of a document: `pushsweep`, also into a file, `mysql` from one, or a command of the
    /// shell in the folder. Nil for a line that starts no program: `export` and `unset` of the
    /// administrator's variables do nothing, because the command decides.
    func run(line words: [String]) throws -> ToolResult? {
        switch words.first {
        case "pushsweep":
            let place = words.firstIndex(of: ">")
            let own = words[1..<(place ?? words.endIndex)].map { word in
                words.contains("--grants") && word == "pushsweep" ? account?.name ?? word : word
            }
            let result = try run(Array(own))
            if let place { try folder.write(words[place + 1], result.output, mode: 0o600) }
            return result
        case "mysql":
            let place = try #require(words.firstIndex(of: "<"))
            try account?.run(folder.file(words[place + 1]))
            becomeAccount()
            return nil
        case "export", "unset": return nil
        default:
            // The reader is in the folder of the settings file.
            return try RunningTool(
                program: URL(fileURLWithPath: "/bin/sh"),
                ["-c", "cd '\(folder.path)' && \(words.joined(separator: " "))"]
            ).wait()
        }
    }

    /// Runs the commands from here on as the account, whatever rights it has.
    func becomeAccount() { isGranted = account != nil }

    /// Gives the account its rights again, after a change of the settings or of the table.
    func grantAgain() throws {
        guard account != nil else { return }
        _ = try run(line: ["pushsweep", "check", "--grants", "pushsweep", ">", "grants.sql"])
        _ = try run(line: ["mysql", "push", "<", "grants.sql"])
    }
}
