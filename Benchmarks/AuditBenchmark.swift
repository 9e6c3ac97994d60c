// The cost of `audit`, as a whole process: it counts a table of 5 million rows in MariaDB, of which a
// tenth has a mark and a ninth of these registered again.
//
// Beside it runs the one statement that a person would write for the same figures: rows by app,
// environment, state, age, reason and length of the token. An audit does the same in ranges of the
// key, so that no statement is long, and reads the history besides. `--deep` is compared with one
// sorted pass of the engine: the tokens that several rows have.

import Database
import Foundation

/// The figures `audit` and `audit-deep`.
struct AuditBenchmark {
    private let context: BenchmarkContext
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
    }

    /// The state of a row and the range of an age, as the aggregate of a person has them.
    private static let aggregate: String = {
        func age(_ time: String) -> String {
            let ranges = [1, 7, 30, 90, 365, 730].map {
                "WHEN \(time) > UTC_TIMESTAMP() - INTERVAL \($0) DAY THEN \($0)"
            }
            return "CASE WHEN \(time) IS NULL THEN -1 \(ranges.joined(separator: " ")) ELSE 0 END"
        }
        let isStale = "invalidated_at IS NOT NULL AND registered_at <= invalidated_at"
        return "SELECT app_id, environment, \(isStale) AS stale, "
            + "invalidated_at IS NULL AS unmarked, "
            + "IF(\(isStale), \(age("invalidated_at")), \(age("registered_at"))) AS age, "
            + "invalid_reason, LENGTH(device_token) AS bytes, COUNT(*) FROM active_users "
            + "GROUP BY app_id, environment, stale, unmarked, age, invalid_reason, bytes"
    }()

    private static let sorted =
        "SELECT COUNT(*) FROM (SELECT device_token FROM active_users GROUP BY device_token "
        + "HAVING COUNT(*) > 1) AS shared"

    /// Seconds of an audit, compared with the aggregate.
    func run() throws -> Figure {
        try compare(
            "audit", ["audit"], with: Self.aggregate, most: 1.3,
            target: "at most 1.3 times the aggregate of the same figures, under 64 MiB")
    }

    /// Seconds of an audit with `--deep`, compared with one sorted pass and the aggregate.
    func deep() throws -> Figure {
        try compare(
            "audit-deep", ["audit", "--deep"], with: Self.sorted, most: nil,
            target: nil)
    }

    private func compare(
        _ name: String, _ words: [String], with statement: String, most: Double?, target: String?
    ) throws -> Figure {
        let table = try LargeTable(rows: context.scaled(5_000_000), context)
        try table.sql.run(
            "UPDATE active_users SET invalidated_at = '2024-06-01', invalid_reason = 'Unregistered' "
                + "WHERE id % 10 = 0")
        try table.settle()
        let arguments = words + ["--format", "json", "--config", try table.settingsFile(in: place)]
        var (ours, theirs, plain): ([Double], [Double], [Double]) = ([], [], [])
        var peak = 0.0
        for run in 1...context.runs {
            theirs.append(try seconds { _ = try table.sql.query(statement) }.0)
            let (time, process) = try seconds { try FinishedProcess("pushsweep", arguments) }
            guard process.exit == 0 else {
                throw BenchmarkFailure(description: "the audit ended with \(process.exit)")
            }
            ours.append(time)
            peak = max(peak, process.peakMiB)
            plain.append(
                try seconds {
                    _ = try table.sql.query(
                        "SELECT app_id, environment, invalidated_at IS NULL AS living, COUNT(*) "
                            + "FROM active_users GROUP BY app_id, environment, living")
                }.0)
            context.note("run \(run): ours \(time) s, the statement \(theirs[run - 1]) s")
        }
        let ratio = median(zip(ours, theirs).map { $0 / $1 })
        var figure = Figure(
            name: name, value: median(ours), unit: "s", reference: median(theirs), ratio: ratio,
            target: target, met: most.map { ratio <= $0 && peak < 64 })
        figure.extra = ["peakMiB": peak, "marksAlone": median(plain)]
        return figure
    }
}
