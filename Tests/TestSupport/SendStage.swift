import APNsProtocol
import APNsSimulator
import Foundation
import TokenTable

/// The environment of a sender for one test: a provider gateway, a separate database with both
/// tables, a state folder, settings, and the real program.
package final class SendStage: ToolStage {
    /// The test's folder.
    package let folder: TemporaryFolder
    /// The gateway that the settings name.
    package let gateway: ProviderGateway
    /// The database that the settings name.
    package let database: TokenDatabase
    /// The lines below `store:` in the settings file.
    package var store: String
    /// Further apps, as lines that stand before the app of the gateway.
    package var appsBefore = ""
    /// More lines at the top level of the settings file.
    package var lines = ""
    /// The gateway's port in the settings.
    package var port: UInt16
    /// The line of the app's credential in the settings file.
    package var credential: String
    /// The app's topic in the settings.
    package var topic = "com.example.chat"
    /// The line of a binary gateway in the settings, in place of the provider; nil for none.
    package var binary: String?
    /// The app's environment in the settings.
    package var environment = "production"

    /// Starts the gateway and makes the database, with our own schema or with none.
    package init(
        _ engine: TestEngine = .sqlite, script: ProviderScript = ProviderScript(),
        scenario: ProviderScenario = ProviderScenario(),
        schema: Bool = true, on server: MariaDBServer? = MariaDBServer.fromEnvironment
    ) throws {
        folder = try TemporaryFolder()
        gateway = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate, script: script),
            scenario: scenario)
        port = gateway.port
        let certificates = try SweepStage.certificates.get()
        credential =
            "certificate: {file: \(certificates.certificate(.client)), "
            + "key: \(certificates.key(.client))}"
        database = try TokenDatabase(engine, on: server)
        if schema { try database.createOwnSchema() }
        store = try database.settingsLines(in: folder)
    }

    /// Prepares a queue with one notification for each of the first `rows` numbered tokens, all of them
    /// registered in July 2023.
    package convenience init(
        _ engine: TestEngine = .sqlite, rows: Int, script: ProviderScript = ProviderScript(),
        scenario: ProviderScenario = ProviderScenario(), lines: String = ""
    ) throws {
        try self.init(engine, script: script, scenario: scenario)
        self.lines = lines
        try database.register(0..<rows, at: 1_690_000_000_000)
        try queue(0..<rows)
    }

    /// Writes the present settings and returns the path of the file.
    package func settings() throws -> String {
        let certificates = try SweepStage.certificates.get()
        return try folder.write(
            "pushsweep.yaml",
            """
            state: \(folder.file("state"))
            store:
              \(store)
            \(lines)
            apps:\(appsBefore.isEmpty ? "" : "\n" + appsBefore)
              - name: chat
                topic: \(topic)
                environment: \(environment)
                \(credential)
                \(binary ?? "provider: {host: 127.0.0.1, port: \(port), ca: \(certificates.authority)}")

            """)
    }

    /// Lets the app send through a binary gateway. `more` are further settings of it.
    package func use(_ gateway: BinaryGateway, _ more: String = "error-wait: 300ms") throws {
        let authority = try SweepStage.certificates.get().authority
        binary =
            "binary: {host: 127.0.0.1, port: \(gateway.port), ca: \(authority)"
            + (more.isEmpty ? "}" : ", \(more)}")
    }

    /// Runs `pushsweep send` with JSON output.
    package func send(_ more: String...) throws -> ToolResult {
        try run(["send", "--format", "json"] + more)
    }

    /// Queues a notification for each of the numbered tokens in our own schema.
    package func queue(_ numbers: some Collection<Int>) throws {
        let row = "('chat', 'production', ?, ?, ?)"
        for block in Array(numbers).chunks(of: 100) {
            try database.execute(
                "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at) VALUES "
                    + block.map { _ in row }.joined(separator: ", "),
                block.flatMap { number in
                    [
                        .bytes(DeviceToken.numbered(number).bytes),
                        .text(#"{"aps":{"alert":"\#(number)"}}"#), database.time(1_600_000_000_000),
                    ]
                })
        }
    }

    /// The number of queue rows by state.
    package func states() throws -> [String: Int] {
        let rows = try database.texts("SELECT state, COUNT(*) FROM push_queue GROUP BY state")
        return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], Int($0[1]) ?? -1) })
    }
}

extension Array {
    fileprivate func chunks(of size: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
    }
}

extension SendStage {
    /// The rows whose state differs from a binary gateway's book, one clause each.
    package func rowsAgainst(_ log: BinaryLog) throws -> [String] {
        let accepted = Dictionary(
            uniqueKeysWithValues: log.acceptedByToken.map { ($0.key.hex, $0.value) })
        return try database.texts(
            "SELECT device_token, state FROM push_queue ORDER BY id"
        ).compactMap { row in
            let times = accepted[row[0]] ?? 0
            let isRight: Bool =
                switch row[1] {
                case "sent": times == 1
                // A killed sender may leave a refusal that it had not judged yet: the row waits.
                case "failed", "skipped", "pending", "retry": times == 0
                case "unknown": times <= 1
                default: false
                }
            return isRight ? nil : "\(row[0].suffix(8)): \(row[1]), accepted \(times) times"
        }
    }
}
