import APNsProtocol
import Database
import Foundation
import Synchronization
import TokenHygiene
import TokenTable

// The cost of applying evidence, compared with a floor. The floor is the least time in which the
// engine can make the same changes and ledger rows: two set-based statements over a loaded staging
// table, in one transaction. It cannot run on a live table, because it blocks registrations for
// seconds. Our time includes everything: a classification pass, judging, changes, before-images, ledger, a row for each
// report with what became of it, checkpoint, and a commit for every chunk.

/// Measures the application of evidence to a large table.
struct ApplyBenchmark {
    let action: RemovalPolicy.Action
    let context: BenchmarkContext
    private let partition = Partition(app: "chat", environment: "production")
    private var policy: RemovalPolicy { RemovalPolicy(action: action) }

    init(action: RemovalPolicy.Action, context: BenchmarkContext) {
        self.action = action
        self.context = context
    }

    /// The measurements of one application by Pushsweep.
    struct Run {
        /// Seconds from the look at the rows to the last commit.
        var total = 0.0
        var classifying = 0.0
        /// Seconds of processor time in this process, without the server's.
        var client = 0.0
        /// Milliseconds of the longest transaction.
        var longest = 0.0
        /// The number of committed chunks.
        var chunks = 0
    }

    private func table() throws -> LargeTable {
        try LargeTable(rows: context.scaled(5_000_000), context)
    }

    func againstFloor() throws -> Figure {
        let table = try table()
        var ours: [Run] = []
        var floors: [Double] = []
        var fingerprints: Set<String> = []
        for run in 1...context.runs {
            try table.restore()
            floors.append(try seconds { try floor(table) }.0)
            fingerprints.insert(try table.fingerprint())
            try table.restore()
            ours.append(try apply(table))
            fingerprints.insert(try table.fingerprint())
            context.note(
                "run \(run): floor \(floors[run - 1]) s, ours \(ours[run - 1].total) s, of which "
                    + "classifying \(ours[run - 1].classifying) s")
        }
        guard fingerprints.count == 1 else {
            throw BenchmarkFailure(
                description: "floor and application left different rows: \(fingerprints)")
        }
        let latency = try registrations(table)
        let perToken = 1e6 / Double(table.evidence.count)
        let value = median(ours.map(\.total)) * perToken
        let reference = median(floors) * perToken
        // Each run is compared with the floor measured right before it: the speed of a machine
        // changes within minutes, and such a change affects both alike.
        let ratio = median(zip(ours, floors).map { $0.total / $1 })
        var figure = Figure(
            name: action == .mark ? "apply-mark" : "apply-delete", value: value,
            unit: "us/token", reference: reference, ratio: ratio,
            target: "at most 1.4")
        figure.extra = [
            "classifying": median(ours.map(\.classifying)) * perToken,
            "client-processor": median(ours.map(\.client)) * perToken,
            "longest-transaction-ms": median(ours.map(\.longest)),
            "registration-p50-ms": percentile(latency, 0.5),
            "registration-p99-ms": percentile(latency, 0.99),
            "tokens": Double(table.evidence.count),
        ]
        figure.met =
            ratio <= 1.4 && median(ours.map(\.longest)) <= 150
            && percentile(latency, 0.99) < 60
        return figure
    }

    /// Compares the tutorial's method with ours as a sweep works. A commit for every row costs the disk's time for a sync; everything else
    /// costs processor time. So this ratio depends on the machine. The engine's floor is measured
    /// too: its own lead over row by row is the best possible result on one connection.
    func againstRows() throws -> Figure {
        let table = try table()
        let perToken = 1e6 / Double(table.evidence.count)
        var times: [String: [Double]] = [:]
        func take(_ name: String, _ measure: () throws -> Double) throws {
            try table.restore()
            times[name, default: []].append(try measure())
        }
        for run in 1...context.runs {
            try take("rows") { try rowByRow(table) }
            try take("ours") { try apply(table).total * perToken }
            try take("floor") { try seconds { try floor(table) }.0 * perToken }
            context.note("run \(run), us per token: \(times.mapValues { $0[run - 1] })")
        }
        let rows = times["rows"] ?? []
        func lead(_ name: String) -> Double { median(zip(rows, times[name] ?? []).map { $0 / $1 }) }
        var figure = Figure(
            name: "apply-vs-rows", value: median(times["ours"] ?? []), unit: "us/token",
            reference: median(rows), ratio: lead("ours"),
            target: "at least 8 times faster", met: lead("ours") >= 8)
        figure.extra = [
            "floor": median(times["floor"] ?? []), "floor-vs-rows": lead("floor"),
        ]
        return figure
    }

    /// Stores and applies the table's evidence as a sweep does.
    func apply(_ table: LargeTable) throws -> Run {
        let committed = Mutex((longest: 0.0, chunks: 0))
        var pacing = Pacing()
        pacing.transactionTook = { took in
            committed.withLock { $0 = (max($0.longest, took), $0.chunks + 1) }
        }
        let own = try TokenTable(table.settings, pacing: pacing)
        var run = Run()
        let application = BatchApplication(
            run: "run", batch: UUID().uuidString.lowercased(), partition: partition, policy: policy,
            source: .feedback, hearing: .unknown, storesReports: true)
        let batch = ReportBatch(
            id: application.batch, run: application.run, partition, .feedback, .gateway,
            label: "benchmark", host: "h", opened: EpochMilliseconds(0))
        let evidence = table.evidence
        let before = processorTime()
        try own.begin(batch)
        let known = ReadRows()
        run.total = try seconds {
            run.classifying = try seconds {
                var stream = OrderedEvidence(rest: evidence[...])
                _ = try own.classify(
                    &stream, in: partition, policy: policy, hearing: .unknown, keeping: known)
            }.0
            var stream = OrderedEvidence(rest: evidence[...])
            _ = try own.applyReports(&stream, application, known: known)
        }.0
        run.client = processorTime() - before
        (run.longest, run.chunks) = committed.withLock { $0 }
        return run
    }

    /// Applies the evidence by the engine's floor; the ledger gets the same text as ours.
    private func floor(_ table: LargeTable) throws {
        let join =
            "active_users a JOIN staging s ON a.device_token = s.token AND a.app_id = 'chat' "
            + "AND a.environment = 'production'"
        let stale = "WHERE a.registered_at <= s.dead"
        let image =
            action == .mark
            ? "NULL"
            : """
            CONCAT('{"id":', a.id, ',"user_id":"', a.user_id, '","app_id":"', a.app_id, \
            '","environment":"', a.environment, '","device_token":{"hex":"', \
            LOWER(HEX(a.device_token)), '"},"registered_at":"', a.registered_at, \
            '000","invalidated_at":null,"invalid_reason":null}')
            """
        try table.sql.begin()
        try table.sql.run(
            "INSERT INTO pushsweep_change SELECT 1, a.id, '\(action.rawValue)', a.id, "
                + "\(image), s.dead, 'feedback', UTC_TIMESTAMP(3), a.device_token, "
                + "'\(action == .mark ? "invalid" : "deleted")' FROM \(join) \(stale)")
        try table.sql.run(
            action == .mark
                ? "UPDATE \(join) SET a.invalidated_at = s.dead, a.invalid_reason = 'feedback' "
                    + stale
                : "DELETE a FROM \(join) \(stale)")
        try table.sql.commit()
    }

    /// Microseconds per token for a statement and a commit for every token of a sample, without a
    /// ledger.
    private func rowByRow(_ table: LargeTable) throws -> Double {
        let step = max(1, table.evidence.count / 10_000)
        let sample = stride(from: 0, to: table.evidence.count, by: step).map { table.evidence[$0] }
        let time = try seconds {
            for item in sample {
                let clock = SQLValue.wallClock(
                    WallClock(microseconds: item.time.rawValue * 1_000))
                _ = try table.sql.execute(
                    "UPDATE active_users SET invalidated_at = ?, invalid_reason = 'feedback' WHERE "
                        + "device_token = ? AND app_id = 'chat' AND environment = 'production' "
                        + "AND registered_at <= ?", [clock, .bytes(item.token.bytes), clock])
            }
        }.0
        return time * 1e6 / Double(sample.count)
    }

    /// Durations of registrations on another connection while evidence is applied, in milliseconds.
    private func registrations(_ table: LargeTable) throws -> [Double] {
        try table.restore()
        let isOver = Mutex(false)
        let latencies = Mutex<[Double]>([])
        let finished = DispatchSemaphore(value: 0)
        let (settings, rows) = (table.settings, table.rows)
        let thread = Thread {
            defer { finished.signal() }
            guard let sql = try? LargeTable.connection(settings) else { return }
            var id = 1
            while !isOver.withLock({ $0 }) {
                id = (id + 7_368_787) % rows
                let time = try? seconds {
                    _ = try sql.execute(
                        "UPDATE active_users SET registered_at = UTC_TIMESTAMP(3) WHERE "
                            + "device_token = UNHEX(SHA2(?, 256)) AND app_id = 'chat' AND "
                            + "environment = 'production'", [.integer(Int64(id))])
                }.0
                if let time { latencies.withLock { $0.append(time * 1_000) } }
                usleep(1_000)
            }
        }
        thread.start()
        _ = try apply(table)
        isOver.withLock { $0 = true }
        finished.wait()
        return latencies.withLock { $0 }
    }
}
