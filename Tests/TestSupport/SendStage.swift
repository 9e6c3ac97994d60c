import APNsProtocol
import APNsSimulator
import Foundation
import TokenTable

/// Everything a sender meets, for one test: a provider gateway, a database of its own with both
/// tables, state, settings, and the real program to run.
package final class SendStage {
    /// The test's folder.
    package let folder: TemporaryFolder
    /// The gateway that the settings name.
    package let gateway: ProviderService
    /// The database that the settings name.
    package let database: TokenDatabase
    /// Lines below `store:`.
    package var store: String
    /// Lines of the file's top level.
    package var lines = ""
    /// The gateway's port in the settings.
    package var port: UInt16
    /// The app's line of its credential.
    package var credential: String

    /// Sets the stage with our own schema, or with none.
    package init(
        _ engine: TestEngine = .sqlite, script: ProviderScript = ProviderScript(),
        misbehaviour: ProviderMisbehaviour = ProviderMisbehaviour(), plot: ProviderPlot? = nil,
        schema: Bool = true
    ) throws {
        folder = try TemporaryFolder()
        gateway = try ProviderService(
            certificates: SweepStage.certificates.get(),
            gateway: ProviderGateway(authentication: .certificate, script: script),
            misbehaviour: misbehaviour, plot: plot)
        port = gateway.port
        let certificates = try SweepStage.certificates.get()
        credential =
            "certificate: {file: \(certificates.certificate(.client)), "
            + "key: \(certificates.key(.client))}"
        database = try TokenDatabase(engine)
        if schema { try database.createOwnSchema() }
        store = try database.settingsLines(in: folder)
    }

    /// Writes the settings as they stand and returns the file.
    package func settings() throws -> String {
        let certificates = try SweepStage.certificates.get()
        return try folder.write(
            "pushsweep.yaml",
            """
            state: \(folder.file("state"))
            store:
              \(store)
            \(lines)
            apps:
              - name: chat
                topic: com.example.chat
                environment: production
                \(credential)
                provider: {host: 127.0.0.1, port: \(port), ca: \(certificates.authority)}

            """)
    }

    /// Starts `pushsweep` with these settings, as the last words of another command where one is
    /// given: a tracer, a shell.
    package func start(
        _ arguments: [String], environment: [String: String] = [:], under command: [String] = []
    ) throws -> RunningTool {
        try RunningTool(
            "pushsweep", arguments + ["--config", try settings()], environment: environment,
            under: command)
    }

    /// Runs `pushsweep send` with JSON output.
    package func send(_ more: String...) throws -> ToolResult {
        try start(["send", "--format", "json"] + more).wait()
    }

    /// Queues a notification for each of some numbered tokens in our own schema.
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

    /// How many rows of the queue are in each state.
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
