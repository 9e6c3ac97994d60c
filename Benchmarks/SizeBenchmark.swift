// Whether time and memory follow the size of the feed and not that of the table. The same 500,000
// statements of evidence, as bytes of a feed, are replayed into a table of 20 million rows and into one of
// 2 million. Where the server's memory does not hold the table, each token costs reads of its disk; give
// the server more by PUSHSWEEP_TEST_BENCH_POOL to measure without. Beside it what the run leaves: bytes of the journal, and of the ledger as the engine counts
// them.
//
// The guard's question, whether a removal is more than a share of the living rows, is the one step of a
// run that could grow with the table. It is measured alone, against a count of all living rows.

import APNsProtocol
import Database
import Foundation
import TokenHygiene
import TokenTable

/// The figures `size` and `guard`.
struct SizeBenchmark {
    private let context: BenchmarkContext
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
    }

    /// Seconds of a whole replay into a large table, compared with one into a tenth of it.
    func replay() throws -> Figure {
        let rows = context.scaled(20_000_000)
        let small = try LargeTable(
            rows: rows / 10, name: "_small", evidenceOf: context.scaled(500_000), context)
        let large = try LargeTable(
            rows: rows, name: "_large", evidenceOf: context.scaled(500_000), context)
        var ours: [Double] = []
        var references: [Double] = []
        var peaks: [Double] = []
        var left: [String: Double] = [:]
        for run in 1...context.runs {
            references.append(try replay(into: small).seconds)
            let result = try replay(into: large)
            ours.append(result.seconds)
            peaks.append(result.peakMiB)
            left = result.left
            context.note(
                "run \(run): \(rows / 10) rows \(references[run - 1]) s, \(rows) rows "
                    + "\(ours[run - 1]) s")
        }
        let ratio = median(zip(ours, references).map { $0 / $1 })
        let peak = median(peaks)
        var figure = Figure(
            name: "size", value: median(ours), unit: "s", reference: median(references),
            ratio: ratio, target: "at most 1.5, under 64 MiB", met: ratio <= 1.5 && peak < 64)
        figure.extra = left.merging(
            ["peakMiB": peak, "tuples": Double(large.evidence.count), "rows": Double(rows)]
        ) { $1 }
        return figure
    }

    private struct Replay {
        let seconds: Double
        let peakMiB: Double
        let left: [String: Double]
    }

    private func replay(into table: LargeTable) throws -> Replay {
        try table.restore()
        let state = place.file("state")
        try? FileManager.default.removeItem(atPath: state)
        let settings = try table.settingsFile(in: place)
        try (String(contentsOfFile: settings, encoding: .utf8) + "guard: {floor: 1000000000}\n")
            .write(toFile: settings, atomically: true, encoding: .utf8)
        let feed = place.file("feed")
        try FeedFile.write(table.evidence, to: feed)
        let (time, process) = try seconds {
            try FinishedProcess(
                "pushsweep", ["replay", feed, "--app", "chat", "--config", settings])
        }
        guard process.exit == 0 else {
            throw BenchmarkFailure(description: "the replay ended with \(process.exit)")
        }
        func mebibytes(_ name: String) throws -> Double {
            let size = try table.sql.query(
                "SELECT CAST(SUM(data_length + index_length) AS SIGNED) FROM "
                    + "information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
                [.text(name)])
            return Double(size.scalar?.count ?? 0) / 1_048_576
        }
        let entries = try table.sql.query("SELECT COUNT(*) FROM pushsweep_change", [])
        let journal = try FileManager.default.subpathsOfDirectory(atPath: state).reduce(0.0) {
            let path = state + "/" + $1
            let size = try FileManager.default.attributesOfItem(atPath: path)[.size]
            return $0 + ((size as? NSNumber)?.doubleValue ?? 0)
        }
        return Replay(
            seconds: time, peakMiB: process.peakMiB,
            left: [
                "journal-MiB": journal / 1_048_576,
                "ledger-MiB": try mebibytes("pushsweep_change"),
                "table-MiB": try mebibytes("active_users"),
                "ledger-entries": Double(entries.scalar?.count ?? 0),
            ])
    }

    /// Milliseconds until the guard knows that 10,000 removals are less than half a percent of 8 million
    /// living rows, compared with a count.
    func guardQuestion() throws -> Figure {
        let rows = context.scaled(8_000_000)
        let table = try LargeTable(rows: rows, name: "_guard", evidenceOf: 1_000, context)
        let partition = Partition(app: "chat", environment: "production")
        var ours: [Double] = []
        var references: [Double] = []
        for run in 1...context.runs {
            references.append(
                try seconds {
                    _ = try table.sql.query(
                        "SELECT COUNT(*) FROM active_users WHERE app_id = 'chat' AND "
                            + "environment = 'production' AND invalidated_at IS NULL", [])
                }.0)
            let store = try TokenTable(table.settings)
            ours.append(
                try seconds {
                    let living = store.livingRows(in: partition)
                    for needed in [rows / 8, rows / 4] {
                        guard try living.count(atMost: needed) == needed else {
                            throw BenchmarkFailure(description: "the guard found too few rows")
                        }
                    }
                }.0)
            context.note("run \(run): count \(references[run - 1]) s, ours \(ours[run - 1]) s")
        }
        let value = median(ours)
        return Figure(
            name: "guard", value: value * 1_000, unit: "ms", reference: median(references) * 1_000,
            ratio: median(zip(ours, references).map { $0 / $1 }),
            target: "at most 200 ms", met: value <= 0.2)
    }
}
