import Database
import Foundation

// Marking in a table that Spider spreads over three shards, compared with the same table on one shard.
// Spider sends a statement to one shard after the other. Where the table is cut by ranges of the token,
// a chunk of a feed, which is a range of tokens too, meets one shard, and two connections meet two. Where
// it is cut by a hash, each statement meets all three. All servers share the processors of this machine,
// so three shards gain nothing by themselves here; on machines of their own they do.

/// Measures the application of evidence on a Spider node.
struct SpiderBenchmark {
    let context: BenchmarkContext

    func run() throws -> Figure {
        let rows = context.scaled(1_000_000)
        let apply = ApplyBenchmark(action: .mark, context: context)
        let tables: [(name: String, table: LargeTable)] = try [
            ("one", "key", 1), ("range", "range", 3), ("hash", "key", 3),
        ].map { name, partitioning, shards in
            let table = try LargeTable(rows: rows, name: "_\(name)", context)
            try table.spread(by: partitioning, shards: shards)
            return (name, table)
        }
        var times: [String: [Double]] = [:]
        for run in 1...context.runs {
            var marks: Set<String> = []
            for (name, table) in tables {
                try table.restore(removed: false)
                times[name, default: []].append(try apply.apply(table, connections: 2).total)
                marks.insert(try table.marks())
            }
            guard marks.count == 1 else {
                throw BenchmarkFailure(description: "the tables have different marks: \(marks)")
            }
            context.note("run \(run), seconds: \(times.mapValues { $0[run - 1] })")
        }
        let perToken = 1e6 / Double(tables[0].table.evidence.count)
        let one = times["one"] ?? []
        func ratio(_ name: String) -> Double { median(zip(times[name] ?? [], one).map { $0 / $1 }) }
        var figure = Figure(
            name: "apply-spider", value: median(times["range"] ?? []) * perToken,
            unit: "us/token", reference: median(one) * perToken, ratio: ratio("range"),
            target: "at most 1", met: ratio("range") <= 1)
        figure.extra = [
            "by-hash-ratio": ratio("hash"), "tokens": Double(tables[0].table.evidence.count),
        ]
        return figure
    }
}
