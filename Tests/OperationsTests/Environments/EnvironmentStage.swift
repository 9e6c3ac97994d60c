import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport

/// A database whose rows say production for each token, and the gateways of both environments, each of which knows its
/// own tokens only.
final class EnvironmentStage: ToolStage {
    let folder: TemporaryFolder
    let database: TokenDatabase
    /// The gateway of production, and that of the sandbox.
    let production: ProviderGateway
    let sandbox: ProviderGateway
    /// Lines at the top level of the settings, and those below `store.active-users`.
    var lines = ""
    var activeUsers = ""
    /// Whether the settings name the app in the sandbox, and the line of its credential.
    var namesSandbox = true
    var credential: String
    /// The host of the sandbox and the value of its app in the settings.
    var sandboxHost = "127.0.0.1"
    var sandboxValue = "chat"
    /// Whether the settings name a provider of production.
    var namesProvider = true
    /// Whether they name a second app, `calls`, in both environments.
    var namesCalls = false
    /// The ports in the settings.
    var ports: (production: UInt16, sandbox: UInt16)

    /// All tokens that rows have.
    private let tokens: Set<DeviceToken>

    /// What the sandbox answers about single tokens.
    enum SpecialAnswer { case topicDisallowed, stall }

    /// A count of the statements in an entry.
    static func sql(_ entry: [String: Any], _ key: String) -> Int {
        (entry["sql"] as? [String: Any])?[key] as? Int ?? -1
    }

    /// When the numbered tokens registered, and when APNs called them bad.
    static let registered: Int64 = 1_600_000_000_000
    static let bad: Int64 = 1_700_000_000_000

    /// Registers tokens as of production. Those `misplaced` are known in the sandbox, those `dead` were known there, and
    /// those `unknown` nowhere. About those `silentHere` production gives no answer.
    init(
        _ engine: TestEngine, rows: Range<Int>, misplaced: Range<Int>, dead: Range<Int> = 0..<0,
        unknown: Range<Int> = 0..<0, special: [DeviceToken: SpecialAnswer] = [:],
        silentHere: Range<Int> = 0..<0, schema: Bool = true
    ) throws {
        folder = try TemporaryFolder()
        tokens = Set(
            rows.map { DeviceToken.numbered($0) } + misplaced.map { .numbered($0) }
                + unknown.map { .numbered($0) })
        let certificates = try SweepStage.certificates.get()
        func gateway(_ known: [Int], _ script: ProviderScript) throws -> ProviderGateway {
            var rules = ProviderRules(authentication: .certificate, script: script)
            rules.known = Set(known.map { DeviceToken.numbered($0) })
            return try ProviderGateway(
                certificates: certificates, rules: rules, scenario: ProviderScenario())
        }
        let elsewhere = [misplaced, dead, unknown]
        var script = ProviderScript()
        for number in silentHere { script.tokens[.numbered(number)] = .stall }
        production = try gateway(
            rows.filter { number in
                silentHere.contains(number) || !elsewhere.contains { $0.contains(number) }
            }, script)
        script = ProviderScript()
        for number in dead {
            script.tokens[.numbered(number)] = .reply(
                ScriptedReply(.unregistered, timestamp: Self.bad))
        }
        for (token, answer) in special {
            script.tokens[token] =
                switch answer {
                case .topicDisallowed: .reply(ScriptedReply(.topicDisallowed))
                case .stall: .stall
                }
        }
        sandbox = try gateway(Array(misplaced) + Array(dead), script)
        ports = (production.port, sandbox.port)
        credential =
            "certificate: {file: \(certificates.certificate(.client)), key: \(certificates.key(.client))}"
        database = try TokenDatabase(engine)
        if schema {
            try database.createOwnSchema()
            try database.register(rows, at: Self.registered)
        }
    }

    func settings() throws -> String {
        let authority = try SweepStage.certificates.get().authority
        func app(
            _ environment: String, _ host: String, _ port: UInt16, _ credential: String,
            _ value: String = "chat", name: String = "chat"
        ) -> String {
            """
              - name: \(name)
                topic: com.example.chat
                environment: \(environment)
                value: \(value)
                \(credential)
                \(namesProvider || environment != "production" ? "provider: {host: \(host), port: \(port), ca: \(authority)}" : "feedback: {host: \(host)}")

            """
        }
        let certificates = try SweepStage.certificates.get()
        let own =
            "certificate: {file: \(certificates.certificate(.client)), key: \(certificates.key(.client))}"
        return try folder.write(
            "pushsweep.yaml",
            """
            state: \(state)
            store:
              \(try database.settingsLines(in: folder))
            \(activeUsers)
            \(lines)
            apps:
            \(app("production", "127.0.0.1", ports.production, own))\(
                namesSandbox ? app("sandbox", sandboxHost, ports.sandbox, credential, sandboxValue) : "")\(
                namesCalls
                    ? app("production", "127.0.0.1", ports.production, own, "calls", name: "calls")
                        + app("sandbox", "127.0.0.1", ports.sandbox, own, "calls", name: "calls") : "")
            """)
    }

    /// Lets a sender report that production called numbered tokens bad, and takes the reports.
    func reportBad(
        _ numbers: Range<Int>, at time: Int64 = EnvironmentStage.bad, app: String = "chat"
    ) throws {
        try database.sql.begin()
        for number in numbers {
            try database.report(
                DeviceToken.numbered(number).hex, status: 400, reason: "BadDeviceToken", time: time,
                app: app)
        }
        try database.sql.commit()
        try run("sweep").ends(0)
    }

    /// Runs `environments` with JSON output and returns its entry about production.
    func environments(_ more: String..., exit: Int32 = 0) throws -> [String: Any] {
        let result = try run(["environments", "--format", "json"] + more)
        result.ends(exit)
        let object =
            try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [String: Any]
        let apps = object?["apps"] as? [[String: Any]] ?? []
        return apps.first { $0["environment"] as? String == "production" } ?? [:]
    }

    /// Writes the statements into files and returns the entry about production with the paths of both.
    func statements() throws -> (entry: [String: Any], move: String, back: String) {
        let path = folder.file("move.sql")
        return (try environments("--sql", path), path, path + ".back")
    }

    /// Runs a file of statements on a connection of its own, as the application does.
    func execute(file path: String, after first: [String] = []) throws {
        let connection = database.driver()
        try connection.connect()
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let lines = text.split(separator: "\n").filter { !$0.hasPrefix("--") }
        for statement in first + lines.joined(separator: "\n").components(separatedBy: ";\n") {
            let statement = statement.trimmingCharacters(in: ["\n", ";"])
            if !statement.isEmpty { try connection.run(statement) }
        }
    }

    /// How often the sandbox was asked about each token, without the made-up ones.
    var asked: [DeviceToken: Int] {
        sandbox.log.requestsByToken.filter { tokens.contains($0.key) }
    }

    /// Numbers of the tokens whose rows are of the sandbox.
    func moved() throws -> Int { try database.rows(where: "environment = 'sandbox'") }
}
