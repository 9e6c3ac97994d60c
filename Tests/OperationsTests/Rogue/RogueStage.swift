import APNsConnection
import APNsProtocol
import APNsSimulator
import Foundation
import Logging
import SecureTransport
import Settings
import Synchronization
import TestSupport
import TokenHygiene
import TokenTable

@testable import Operations

/// The messages of a sender in this process, which would go to stderr.
final class HeardWords: Sendable {
    private let words = Mutex<[String]>([])

    var all: String { words.withLock { $0.joined(separator: "\n") } }

    func add(_ text: String) { words.withLock { $0.append(text) } }

    struct Handler: LogHandler {
        let heard: HeardWords
        var metadata: Logger.Metadata = [:]
        // As under cron.
        var logLevel = Logger.Level.warning

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { heard.add("\(event.message)") }
    }
}

/// Stops a job after a number of its checks for a stop, or of those about one thing.
final class StopAfter: ProgressDisplay {
    private let left: Atomic<Int>
    private let phrase: String
    private let interrupt: Interrupt

    init(_ looks: Int, _ interrupt: Interrupt, doing phrase: String = "") {
        left = Atomic(looks)
        (self.phrase, self.interrupt) = (phrase, interrupt)
    }

    func show(_ phrase: String, _ count: Int, of total: Int?) {
        guard phrase.hasPrefix(self.phrase) else { return }
        if left.subtract(1, ordering: .relaxed).newValue == 0 { interrupt.trip() }
    }

    func clear() {}
}

/// A row of the queue after a run.
struct RogueRow {
    let number: Int
    let state: String
    let reason: String
}

/// The result of one run of the sender.
struct RogueRun {
    let exit: ExitStatus
    let app: SendReport.App
    let told: String
    let rows: [RogueRow]
    /// Claims that still exist.
    let claims: Int
    /// Tokens that are marked.
    let marked: Set<Int>
    let records: [ProviderRecord]
}

/// A database and a state folder in which many senders run, one after the other; on one thread.
final class RogueStage {
    private static let registered: Int64 = 1_690_000_000_000
    private static let mostRows = 60

    private let folder: TemporaryFolder
    let database: TokenDatabase
    private let settings: Settings
    private var isEvidenceLeft = false

    init(_ engine: TestEngine) throws {
        folder = try TemporaryFolder()
        database = try TokenDatabase(engine)
        try database.createOwnSchema()
        try database.register(0..<Self.mostRows, at: Self.registered)
        let certificates = try SweepStage.certificates.get()
        let file = try folder.write(
            "pushsweep.yaml",
            """
            state: \(folder.file("state"))
            store:
              \(try database.settingsLines(in: folder))
            guard: {floor: 1000000000}
            apps:
              - name: chat
                topic: com.example.chat
                environment: production
                certificate: {file: \(certificates.certificate(.client)), \
            key: \(certificates.key(.client))}
                provider: {host: 127.0.0.1, port: 1, ca: \(certificates.authority)}

            """)
        settings = try Settings.load(configFile: file, environment: [:])
    }

    /// Fills the queue anew with one row for each of the first tokens, and removes evidence of the
    /// last sender.
    func queue(_ rows: Int) throws {
        if isEvidenceLeft { try FileManager.default.removeItem(atPath: folder.file("state")) }
        isEvidenceLeft = false
        for table in ["push_queue", "pushsweep_claim"] {
            try database.execute("DELETE FROM \(table)")
        }
        try database.execute("UPDATE active_users SET invalidated_at = NULL, invalid_reason = NULL")
        let row = "('chat', 'production', ?, ?, ?)"
        try database.execute(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at) VALUES "
                + repeatElement(row, count: rows).joined(separator: ", "),
            (0..<rows).flatMap { number in
                [
                    .bytes(DeviceToken.numbered(number).bytes), .text(#"{"aps":{"alert":"x"}}"#),
                    database.time(1_600_000_000_000),
                ]
            })
    }

    /// Sends what waits to a gateway with a scenario, and stops the gateway.
    func send(
        _ scenario: ProviderScenario, connections: Int, isSlow: Bool, stopsAfter: Int? = nil,
        _ change: (inout SendPlan) -> Void = { _ in }, interrupt given: Interrupt? = nil
    ) throws -> RogueRun {
        let certificates = try SweepStage.certificates.get()
        let gateway = try ProviderGateway(
            certificates: certificates, rules: ProviderRules(authentication: .certificate),
            scenario: scenario)
        let heard = HeardWords()
        let interrupt = try given ?? Interrupt()
        let context = RunContext(
            interrupt: interrupt,
            log: Logger(label: "rogue") { _ in HeardWords.Handler(heard: heard) },
            progress: stopsAfter.map { StopAfter($0, interrupt) as any ProgressDisplay }
                ?? NoProgress(), host: "rogue")
        var plan = try plan(
            for: gateway, connections, isSlow: isSlow,
            isSilent: scenario.connections.contains { $0.opening == .silent }, context)
        change(&plan)
        let outcome = Send.run(plan, context)
        gateway.stop()
        isEvidenceLeft = interrupt.isTripped
        // As the command prints them.
        for failure in outcome.failures { heard.add("\(failure)") }
        return try result(outcome, heard, gateway.log.records)
    }

    /// The plan for sending to a gateway, with deadlines of milliseconds where it leaves requests without an
    /// answer, or the first bytes of a connection.
    func plan(
        for gateway: ProviderGateway, _ connections: Int, isSlow: Bool, isSilent: Bool = false,
        _ context: RunContext
    ) throws -> SendPlan {
        let certificates = try SweepStage.certificates.get()
        var plan = try SendPlan(settings, apps: [], context)
        var limits = ProviderPlan.Limits()
        limits.pace = 0.02
        limits.request = isSlow ? .milliseconds(150) : .seconds(20)
        limits.handshake = isSilent ? .milliseconds(500) : .seconds(20)
        let now = EpochSeconds(1_750_000_000)
        let provider = ProviderPlan(
            .http2(nil, connections: connections), host: "127.0.0.1", port: gateway.port,
            topic: "com.example.chat",
            context: try TLSClientContext(
                trust: .file(certificates.authority),
                identity: try certificates.identity(.client), alpn: ["h2"]),
            limits: limits, now: { now })
        plan.apps = plan.apps.map {
            ProviderTarget(
                partition: $0.partition, stored: $0.stored, gateway: .success(provider))
        }
        return plan
    }

    private func result(
        _ outcome: RunOutcome<SendReport>, _ heard: HeardWords, _ records: [ProviderRecord]
    ) throws -> RogueRun {
        let rows = try database.texts(
            "SELECT device_token, state, COALESCE(reason, '') FROM push_queue ORDER BY id")
        let marked = try database.texts(
            "SELECT device_token FROM active_users WHERE invalidated_at IS NOT NULL")
        return RogueRun(
            exit: outcome.exit,
            app: outcome.report.apps.first ?? .init(Partition(app: "", environment: "")),
            told: heard.all,
            rows: rows.map { RogueRow(number: Self.number($0[0]), state: $0[1], reason: $0[2]) },
            claims: try database.rows(of: "pushsweep_claim", "state IN ('held', 'handed')"),
            marked: Set(marked.map { Self.number($0[0]) }), records: records)
    }

    /// The number in the last digits of a numbered token.
    private static func number(_ hex: String) -> Int { Int(hex.suffix(4), radix: 16) ?? -1 }
}

extension ProviderRecord {
    /// The row of the notification.
    var number: Int? {
        token.map { $0.bytes.suffix(2).reduce(0) { $0 << 8 | Int($1) } }
    }
}
