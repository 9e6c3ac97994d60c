import APNsProtocol
import APNsSimulator
import Database
import Foundation
import SecureTransport
import Settings
import TestSupport
import Testing

/// A recipe as a reader follows it: its tables in a database of its own, its settings file word for
/// word, and the commands of its page, with the first run of the index where the page has none. From the
/// printed grants on an account runs them that has these and no other rights. Addresses, ports, passwords
/// and authorities come from variables; the files that the settings name lie beside them.
final class RecipeStage {
    /// The token of the pages' examples.
    static let hex = "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"

    let database: TokenDatabase
    let folder: TemporaryFolder
    /// The blocks of the page, behind those of the first run.
    let blocks: [DocumentBlock]
    /// The results of the commands that ran, oldest first.
    private(set) var results: [ToolResult] = []
    /// More variables for each command.
    var environment: [String: String] {
        get { shell.environment }
        set { shell.environment = newValue }
    }
    /// The settings file.
    var settings: String
    /// The gateways that serve as long as the stage lives.
    var gateways: [AnyObject] = []
    private let shell: DocumentShell
    /// Whether the recipe is for a table that Pushsweep makes.
    private let hasNewTable: Bool

    /// Makes the recipe's tables and its settings file.
    init(_ recipe: String, _ engine: TestEngine) throws {
        let example = try #require(SettingsExample(rawValue: recipe))
        blocks = try Self.blocks(of: example)
        settings = example.text
        database = try TokenDatabase(engine)
        folder = try TemporaryFolder()
        let kind = engine == .mariaDB ? "mysql" : "sqlite"
        let name = example == .pushchatGateway ? SettingsExample.pushchat.rawValue : recipe
        hasNewTable = [.topics, .privateGateway].contains(example)
        if !hasNewTable {
            let tables = try String(
                contentsOf: DocumentBlock.path("docs/recipes/tables/\(name).\(kind).sql"),
                encoding: .utf8)
            for statement in DocumentBlock(language: "sql", name: "", section: "", text: tables)
                .statements
            {
                try database.sql.run(statement)
            }
        }
        shell = try DocumentShell(database, folder)
    }

    /// The blocks of a recipe's page, behind the first run that the recipes share where the page has
    /// none of its own.
    static func blocks(of example: SettingsExample) throws -> [DocumentBlock] {
        let own = try DocumentBlock.all(of: "docs/recipes/\(try #require(example.page))")
        guard !own.contains(where: { $0.section == "First run" }) else { return own }
        let shared = try DocumentBlock.all(of: "docs/recipes/README.md")
        return shared.filter { $0.section == "First run" } + own
    }

    /// Runs a command of `pushsweep` with the page's settings.
    @discardableResult
    func run(_ words: [String]) throws -> ToolResult {
        try folder.write("pushsweep.yaml", settings)
        return try shell.run(words)
    }

    /// Runs a command of `pushsweep` with the page's settings.
    @discardableResult
    func run(_ words: String...) throws -> ToolResult { try run(words) }

    /// Runs a command with JSON output.
    func json(_ words: String...) throws -> ToolResult { try run(words + ["--format", "json"]) }

    /// Starts the command of a named block, such as a sender that follows the queue.
    func start(block name: String) throws -> RunningTool {
        let block = try #require(blocks.first { $0.language == "sh" && $0.name == name })
        let words = try #require(block.commands.first?.words)
        try #require(words.first == "pushsweep" && block.commands.count == 1)
        try folder.write("pushsweep.yaml", settings)
        return try shell.start(Array(words.dropFirst()))
    }

    /// Gives the account its rights again, after a change of the settings or of the table.
    func grantAgain() throws {
        try folder.write("pushsweep.yaml", settings)
        try shell.grantAgain()
    }

    /// Runs the commands and the statements of one section in their order, without blocks that have
    /// a name. Each command must end as its comment says. Returns what was printed.
    @discardableResult
    func follow(_ section: String) throws -> String {
        var printed = ""
        let own = blocks.filter {
            $0.section == section && ["sh", "sql"].contains($0.language) && $0.name.isEmpty
        }
        #expect(!own.isEmpty, "the page has no section \(section)")
        for block in own {
            if block.language == "sql" {
                for statement in block.statements { try database.sql.run(statement) }
                continue
            }
            for (words, exit) in block.commands {
                let isNew = hasNewTable && words.starts(with: ["pushsweep", "schema", "apply"])
                let words = isNew ? words + ["--create-token-table"] : words
                guard let result = try run(line: words) else { continue }
                results.append(result)
                printed += result.output + result.error
                result.ends(exit, for: "\(words.joined(separator: " "))")
            }
        }
        return printed
    }

    private func run(line words: [String]) throws -> ToolResult? {
        try folder.write("pushsweep.yaml", settings)
        return try shell.run(
            line: words.map { word in
                guard let block = blocks.first(where: { $0.name == word }) else { return word }
                return try folder.write(word, block.text)
            })
    }

    /// Starts a gateway for the apps of the settings, which answers 410 to some tokens. It lives as
    /// long as the stage.
    @discardableResult
    func provider(
        _ apps: [String], dead: [DeviceToken], certificate: Bool = false
    ) throws -> ProviderGateway {
        let certificates = try SweepStage.certificates.get()
        let key = try SigningKey()
        try folder.write("AuthKey_ABC123DEFG.p8", try key.pem())
        var script = ProviderScript()
        for token in dead {
            script.tokens[token] = .reply(
                ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        }
        let gateway = try ProviderGateway(
            certificates: certificates,
            rules: ProviderRules(
                authentication: certificate
                    ? .certificate
                    : .token([
                        "ABC123DEFG": .init(key: key.verificationKey, teamID: "DEF123GHIJ")
                    ]), script: script))
        gateways.append(gateway)
        for app in apps {
            let prefix =
                "PUSHSWEEP_APPS_" + app.uppercased().replacingOccurrences(of: "-", with: "_")
            environment[prefix + "_PROVIDER_HOST"] = "127.0.0.1"
            environment[prefix + "_PROVIDER_PORT"] = "\(gateway.port)"
            environment[prefix + "_PROVIDER_CA"] = certificates.authority
        }
        return gateway
    }

    /// Starts a feedback gateway for an app of the settings, and writes the files that the recipe of
    /// the private gateway names.
    func feedback(_ app: String, _ tuples: [FeedbackTuple]) throws -> FeedbackGateway {
        let certificates = try SweepStage.certificates.get()
        for (from, to) in [
            (certificates.clientPKCS12, "chat.p12"), (certificates.authority, "gateway-ca.pem"),
            (certificates.clientPassphraseFile, "chat-passphrase"),
        ] {
            try folder.write(to, try Data(contentsOf: URL(fileURLWithPath: from)))
        }
        let gateway = try FeedbackGateway(
            certificates: certificates, feeds: [.tuples(tuples)], behaviour: FeedbackBehaviour())
        environment["PUSHSWEEP_APPS_\(app.uppercased())_FEEDBACK_HOST"] = "127.0.0.1"
        environment["PUSHSWEEP_APPS_\(app.uppercased())_FEEDBACK_PORT"] = "\(gateway.port)"
        return gateway
    }

    /// Inserts the row that a stub of a page's sender printed: app, token, status, reason, time.
    func insert(_ row: [Any?]) throws {
        try database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) "
                + "VALUES (?, ?, ?, ?, ?)",
            row.map { value in
                if let number = value as? Int { return .integer(Int64(number)) }
                return (value as? String).map(SQLValue.text) ?? .null
            })
    }

    /// The number of rows with a mark in `pushsweep_invalid`.
    var marked: Int { get throws { try database.rows(of: "pushsweep_invalid") } }
}

/// Tokens as the tables of other projects hold them.
func hexToken(_ number: Int) -> String { DeviceToken.numbered(number).hex }
