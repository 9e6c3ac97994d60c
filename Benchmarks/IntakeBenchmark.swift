// The cost of evidence from other senders, as whole processes.
//
// `import` reads a log of JSON lines, journals the 410 answers, sorts and compares them. Beside it on
// the same file: `jq -c .`, which parses and prints the lines, and `wc -l`, which counts them.
//
// `evidence-intake` takes rows out of pushsweep_evidence and marks their tokens. Beside it: the engine's floor for all that
// this writes, one transaction of statements over a staging table: the batch, its decided reports, its part of the run,
// ledger and marks, and one that empties the table of reports.

import Database
import Encodings
import Foundation
import Looks
import Settings
import TokenHygiene

/// The figures `import` and `evidence-intake`.
struct IntakeBenchmark {
    private let context: BenchmarkContext
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
    }

    // MARK: Files

    /// Seconds for a million lines, compared with jq.
    func importing() throws -> Figure {
        let lines = context.scaled(1_000_000)
        let log = place.file("push.log")
        try SenderLog.write(lines, to: log)
        let settings = place.file("pushsweep.yaml")
        try """
        state: \(place.file("state"))
        store: {url: "sqlite://tokens.sqlite"}
        guard: {floor: 1000000000}
        apps:
          - {name: chat, topic: com.example.chat, environment: production}

        """.write(toFile: settings, atomically: true, encoding: .utf8)
        let loaded = try Settings.load(configFile: settings, environment: [:])
        _ = try SchemaWork.apply(loaded, creatingTokens: true)
        var ours: [Double] = []
        var jq: [Double] = []
        var wc: [Double] = []
        var peak = 0.0
        for run in 1...context.runs {
            jq.append(try time("/usr/bin/jq", ["-c", ".", log]))
            wc.append(try time("/usr/bin/wc", ["-l", log]))
            let (seconds, process) = try seconds {
                try FinishedProcess(
                    "pushsweep",
                    [
                        "import", log, "--from", "jsonl", "--again", "--config", settings,
                        "--map", SenderLog.map,
                    ])
            }
            guard process.exit == 0 else {
                throw BenchmarkFailure(description: "the import ended with \(process.exit)")
            }
            ours.append(seconds)
            peak = max(peak, process.peakMiB)
            context.note("run \(run): ours \(ours[run - 1]) s, jq \(jq[run - 1]) s")
        }
        let perSecond = { (seconds: Double) in Double(lines) / seconds / 1_000 }
        let ratio = median(zip(jq, ours).map { $0 / $1 })
        var figure = Figure(
            name: "import", value: perSecond(median(ours)), unit: "thousand lines/s",
            reference: perSecond(median(jq)), ratio: ratio,
            target: "at least 4 times as fast as jq -c", met: ratio >= 4)
        figure.extra = ["wc": perSecond(median(wc)), "peakMiB": peak]
        return figure
    }

    private func time(_ program: String, _ arguments: [String]) throws -> Double {
        let (seconds, process) = try seconds {
            try FinishedProcess(path: program, arguments)
        }
        guard process.exit == 0 else {
            throw BenchmarkFailure(description: "\(program) ended with \(process.exit)")
        }
        return seconds
    }

    // MARK: Rows

    /// Microseconds per row of a sweep, compared with the engine's floor.
    func rows() throws -> Figure {
        let table = try LargeTable(rows: context.scaled(1_000_000), context)
        let password = place.file("password")
        try (table.settings.password?.reveal() ?? "").write(
            toFile: password, atomically: true, encoding: .utf8)
        chmod(password, 0o600)
        let settings = place.file("pushsweep.yaml")
        guard case .server(let server) = table.settings.location else {
            throw BenchmarkFailure(description: "the benchmark needs a server")
        }
        let address = try BenchmarkServer.settings(database: server.database).address
        try """
        state: \(place.file("state"))
        store:
          url: \(address)
          password-file: \(password)
        guard: {floor: 1000000000}
        apps:
          - {name: chat, topic: com.example.chat, environment: production}

        """.write(toFile: settings, atomically: true, encoding: .utf8)
        var ours: [Double] = []
        var floors: [Double] = []
        for run in 1...context.runs {
            try table.restore()
            try report(table)
            floors.append(try seconds { try floor(table) }.0)
            let written = try written(table)
            try table.restore()
            try report(table)
            let (seconds, process) = try seconds {
                try FinishedProcess("pushsweep", ["sweep", "--config", settings])
            }
            guard process.exit == 0 else {
                throw BenchmarkFailure(description: "the sweep ended with \(process.exit)")
            }
            guard try self.written(table) == written else {
                throw BenchmarkFailure(description: "floor and sweep left different rows")
            }
            ours.append(seconds)
            context.note("run \(run): floor \(floors[run - 1]) s, ours \(ours[run - 1]) s")
        }
        let perRow = 1e6 / Double(table.evidence.count)
        let ratio = median(zip(ours, floors).map { $0 / $1 })
        var figure = Figure(
            name: "evidence-intake", value: median(ours) * perRow, unit: "us/row",
            reference: median(floors) * perRow, ratio: ratio)
        figure.extra = [
            "rows": Double(table.evidence.count),
            "rows-per-second": Double(table.evidence.count) / median(ours),
        ]
        return figure
    }

    /// Reports come in the order of the answers, which has nothing to do with that of the tokens.
    private func report(_ table: LargeTable) throws {
        try table.sql.run("DELETE FROM pushsweep_evidence")
        try table.sql.run(
            "INSERT INTO pushsweep_evidence (app, device_token, timestamp_ms) "
                + "SELECT 'chat', LOWER(HEX(token)), "
                + "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', dead) DIV 1000 FROM staging ORDER BY REVERSE(token)"
        )
    }

    /// The marks, and how many reports had each outcome.
    private func written(_ table: LargeTable) throws -> [String] {
        let states = try table.sql.query(
            "SELECT state, COUNT(*) FROM pushsweep_report GROUP BY state ORDER BY state")
        return [try table.marks()] + (0..<states.count).map { "\(states.row($0))" }
    }

    private func floor(_ table: LargeTable) throws {
        let join =
            "active_users a JOIN staging s ON a.device_token = s.token AND a.app_id = 'chat' "
            + "AND a.environment = 'production'"
        let stale = "WHERE a.registered_at <= s.dead"
        let batch = "(SELECT MAX(number) FROM pushsweep_batch)"
        try table.sql.begin()
        for statement in [
            "INSERT INTO pushsweep_batch (name, run, app, app_name, environment, source, state, inlet, reports, "
                + "changed_at) SELECT UUID(), UUID(), 'chat', 'chat', 'production', 'Unregistered', 'decided', "
                + "'table', COUNT(*), UTC_TIMESTAMP(3) FROM staging",
            // 1 is applied, 3 newer, 4 unknown.
            "INSERT INTO pushsweep_report SELECT \(batch), s.token, 0, s.dead, "
                + "CASE WHEN a.id IS NULL THEN 4 WHEN a.registered_at <= s.dead THEN 1 ELSE 3 END, NULL, "
                + "UTC_TIMESTAMP(3) FROM staging s LEFT JOIN active_users a ON a.device_token = s.token "
                + "AND a.app_id = 'chat' AND a.environment = 'production'",
            "INSERT INTO pushsweep_part (run, batch, app, environment, source, table_name, key_columns) "
                + "SELECT run, number, app, environment, source, 'active_users', 'id' FROM pushsweep_batch",
            "INSERT INTO pushsweep_change SELECT (SELECT MAX(number) FROM pushsweep_part), a.id, 'mark', a.id, "
                + "NULL, s.dead, 'Unregistered', UTC_TIMESTAMP(3), a.device_token, 'invalid' FROM \(join) \(stale)",
            "UPDATE \(join) SET a.invalidated_at = s.dead, a.invalid_reason = 'Unregistered' \(stale)",
        ] {
            try table.sql.run(statement)
        }
        try table.sql.run("DELETE FROM pushsweep_evidence")
        try table.sql.commit()
    }
}

/// The log of another sender, JSON lines.
enum SenderLog {
    /// Where its fields are.
    static let map = "token=.device,time=.timestamp,status=.status,reason=.reason"

    /// One line in two is a 410, each about a token of its own.
    static func write(_ lines: Int, to path: String) throws {
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let file = FileHandle(forWritingAtPath: path)
        else { throw BenchmarkFailure(description: "\(path) cannot be written") }
        defer { try? file.close() }
        var text: [UInt8] = []
        for line in 0..<lines {
            var token = [UInt8](repeating: 0x5A, count: 32)
            let mixed = UInt64(line) &* 0x9E37_79B9_7F4A_7C15
            for place in 0..<8 { token[place] = UInt8(truncatingIfNeeded: mixed >> (8 * place)) }
            let isGone = line % 2 == 0
            text += Array(
                """
                {"level":"error","device":"\(Hex.text(token))","status":\(isGone ? 410 : 200),\
                "reason":\(isGone ? "\"Unregistered\"" : "null"),\
                "timestamp":\(1_700_000_000_000 + line),"message":"push to a device"}

                """.utf8)
            if text.count > 1 << 20 {
                try file.write(contentsOf: Data(text))
                text.removeAll(keepingCapacity: true)
            }
        }
        try file.write(contentsOf: Data(text))
    }
}
