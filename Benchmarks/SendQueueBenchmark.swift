// The speed of a notification from a MariaDB queue over HTTP/2 to a gateway, with its result written
// back into the queue; database and gateway are on the same machine. The reference is the database's
// share: the same rows are claimed, handed over and given the same results, but not sent.

import APNsProtocol
import APNsSimulator
import Database
import Foundation
import PushQueue
import TokenHygiene
import TokenTable

/// The figure `send-queue`.
struct SendQueueBenchmark {
    private static let partition = Partition(app: "chat", environment: "production")
    private let context: BenchmarkContext
    private let rows: Int
    private let place: BenchmarkFolder
    private let certificates: SimulatorCertificates

    init(_ context: BenchmarkContext) throws {
        self.context = context
        rows = context.scaled(200_000)
        place = try BenchmarkFolder()
        certificates = try SimulatorCertificates(directory: place.file("certificates"))
    }

    /// Notifications per second, with the share of each stage.
    func run() throws -> Figure {
        let queue = try QueueTable(rows: rows, context)
        var sent: [Double] = []
        var bare: [Double] = []
        var peaks: [Double] = []
        var shares: [String: Double] = [:]
        for round in 1...context.runs {
            context.note("send-queue: round \(round) of \(context.runs)")
            try queue.refill()
            bare.append(Double(rows) / (try claimsAlone(queue.settings)))
            try queue.refill()
            let result = try send(queue)
            sent.append(Double(rows) / result.seconds)
            peaks.append(result.peakMiB)
            shares = result.shares
        }
        let (value, reference) = (median(sent), median(bare))
        let peak = median(peaks)
        return Figure(
            name: "send-queue", value: value, unit: "notifications/s", reference: reference,
            ratio: value / reference,
            target: "at least 20000/s, half of claims and results alone, under 64 MiB",
            met: value >= 20_000 && value / reference >= 0.5 && peak < 64,
            extra: shares.merging(["peakMiB": peak]) { $1 })
    }

    /// Seconds for claiming all rows and writing their results.
    private func claimsAlone(_ settings: StoreSettings) throws -> Double {
        try seconds {
            let queue = try PushQueue(
                TokenTable(settings), QueueLease(run: "bench", host: "bench"),
                newName: { APNsID.random().description })
            var cursor = QueueCursor()
            while var claim = try queue.claim(Self.partition, limit: 1_000, from: &cursor) {
                guard try queue.handOver(claim, rows: .max) != nil else { continue }
                let results = claim.notifications.enumerated().map { index, row in
                    DeliveryResult(
                        key: row.row, index % 100 == 0 ? .gone(reason: "Unregistered") : .sent)
                }
                let heard = zip(claim.notifications, results)
                    .filter { $1.outcome.state == .gone }.map { row, _ in
                        HeardReport(
                            row: row.row, token: row.token, source: .unregistered,
                            time: EpochMilliseconds(1_700_000_000_000))
                    }
                _ = try queue.record(
                    results, of: &claim, heard: heard,
                    from: ReportOrigin(Self.partition, gateway: "bench:443"))
            }
            _ = try queue.closeBatches()
        }.0
    }

    private struct Sending {
        let seconds: Double
        let peakMiB: Double
        let shares: [String: Double]
    }

    private func send(_ queue: QueueTable) throws -> Sending {
        let gateway = try GatewayProcess(
            certificates, command: "provider",
            ["--client-certificate", "--share", "1=Unregistered@1700000000123"])
        let settings = place.file("pushsweep.yaml")
        try? FileManager.default.removeItem(atPath: place.file("state"))
        try """
        state: \(place.file("state"))
        store: {url: "\(queue.address)", password-file: "\(try password())", tls: {mode: "off"}}
        guard: {floor: 1000000000}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            certificate: {file: \(certificates.certificate(.client)), \
        key: \(certificates.key(.client))}
            provider: {host: 127.0.0.1, port: \(gateway.port), ca: \(certificates.authority), \
        connections: 1}

        """.write(toFile: settings, atomically: true, encoding: .utf8)
        let output = place.file("result.json")
        let (time, finished) = try seconds {
            try FinishedProcess(
                path: BuiltProgram.url("pushsweep").path,
                ["send", "--config", settings, "--format", "json"], output: output)
        }
        guard finished.exit == 0 else {
            throw BenchmarkFailure(description: "the sender ended with \(finished.exit)")
        }
        return Sending(
            seconds: time, peakMiB: finished.peakMiB, shares: try Self.shares(output, of: time))
    }

    private func password() throws -> String {
        let path = place.file("password")
        guard let text = ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_MARIADB_PASSWORD"]
        else { throw BenchmarkFailure(description: "no MariaDB in the environment") }
        _ = FileManager.default.createFile(
            atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        return path
    }

    /// Percent of the run's time that the queue's thread spent in each stage.
    private static func shares(_ output: String, of time: Double) throws -> [String: Double] {
        let data = try Data(contentsOf: URL(fileURLWithPath: output))
        let object = try JSONSerialization.jsonObject(with: data) as? [String: Any]
        let app = (object?["apps"] as? [[String: Any]])?.first
        let stages = app?["seconds"] as? [String: Double] ?? [:]
        return Dictionary(
            uniqueKeysWithValues: stages.map { ("\($0.key)-percent", $0.value / time * 100) })
    }
}

/// A database with one device for each waiting notification.
final class QueueTable {
    let settings: StoreSettings
    /// The address of the database in the form of a settings file.
    let address: String
    private let sql: any SQLConnection
    /// Name of the database.
    let database: String
    private let rows: Int

    init(rows: Int, _ context: BenchmarkContext) throws {
        self.rows = rows
        database = "ps_bench_queue_\(getpid())"
        let admin = try BenchmarkServer.settings(database: "mysql")
        try LargeTable.connection(admin.settings).run("CREATE DATABASE \(database)")
        let own = try BenchmarkServer.settings(database: database)
        (settings, address) = (own.settings, own.address)
        sql = try LargeTable.connection(settings)
        for statement in SchemaScript.whole(for: settings.location).statements {
            try sql.run(statement)
        }
        context.note("filling a queue of \(rows) rows")
        try sql.run(
            "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) "
                + "SELECT seq, 'chat', 'production', UNHEX(SHA2(seq, 256)), '2023-01-01' "
                + "FROM \(numbers(to: rows, sql))")
    }

    deinit { try? sql.run("DROP DATABASE \(database)") }

    /// The number of rows that have no final state.
    func unsent() throws -> Int {
        try sql.query(
            "SELECT COUNT(*) FROM push_queue WHERE answered_at IS NULL", []
        ).scalar?.count ?? -1
    }

    /// Restores the queue and the marks for the next run.
    func refill() throws {
        for table in ["push_queue", "pushsweep_claim", "pushsweep_delivery"] {
            try sql.run("TRUNCATE \(table)")
        }
        try sql.run("UPDATE active_users SET invalidated_at = NULL, invalid_reason = NULL")
        try sql.run(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at) "
                + "SELECT 'chat', 'production', device_token, "
                + "CONCAT('{\"aps\":{\"alert\":\"', REPEAT('x', 180), '\"}}'), UTC_TIMESTAMP(3) "
                + "FROM active_users")
        try sql.run("ANALYZE TABLE push_queue, active_users")
    }
}
