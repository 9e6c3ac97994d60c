// The cost of `preflight --filter`, as whole processes: it reads the tokens with a mark from a table of 5
// million rows, and passes a list of all its tokens. A tenth of the rows has a mark, and a ninth of these
// registered again, so that their tokens are looked up and passed.
//
// Beside it, on the same list: `grep -v -F -f`, which gets the stale tokens in a file that somebody else
// has made, and `cat`, which only reads and writes. All write to a file, because grep writes nothing to
// /dev/null.

import Database
import Foundation

/// The figure `preflight-filter`.
struct FilterBenchmark {
    private let context: BenchmarkContext
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
    }

    /// Thousands of lines per second, compared with grep.
    func run() throws -> Figure {
        let table = try LargeTable(rows: context.scaled(5_000_000), context)
        try table.sql.run(
            "UPDATE active_users SET invalidated_at = '2024-06-01', invalid_reason = 'Unregistered' "
                + "WHERE id % 10 = 0")
        let (lines, stale) = (place.file("tokens"), place.file("stale"))
        try write(table, "", to: lines)
        try write(table, "AND id % 10 = 0 AND id % 90 <> 0", to: stale)
        let words = [
            "preflight", "--filter", "--read-only", "--tokens-from", lines, "--config",
            try table.settingsFile(in: place),
        ]
        var ours: [Double] = []
        var grep: [Double] = []
        var cat: [Double] = []
        var peak = 0.0
        for run in 1...context.runs {
            cat.append(try time("/usr/bin/cat", [lines]).seconds)
            grep.append(try time("/usr/bin/grep", ["-v", "-F", "-f", stale, lines]).seconds)
            let expected = try size()
            let filter = try time(BuiltProgram.url("pushsweep").path, words)
            guard try size() == expected else {
                throw BenchmarkFailure(description: "the filter passed other lines than grep")
            }
            ours.append(filter.seconds)
            peak = max(peak, filter.process.peakMiB)
            context.note("run \(run): ours \(ours[run - 1]) s, grep \(grep[run - 1]) s")
        }
        let perSecond = { (seconds: Double) in Double(table.rows) / seconds / 1_000 }
        let ratio = median(zip(grep, ours).map { $0 / $1 })
        var figure = Figure(
            name: "preflight-filter", value: perSecond(median(ours)), unit: "thousand lines/s",
            reference: perSecond(median(grep)), ratio: ratio,
            target: "at least as fast as grep -v -F -f", met: ratio >= 1)
        figure.extra = ["cat": perSecond(median(cat)), "peakMiB": peak]
        return figure
    }

    private var output: String { place.file("output") }

    private func size() throws -> Int {
        try FileManager.default.attributesOfItem(atPath: output)[.size] as? Int ?? 0
    }

    private func time(
        _ program: String, _ arguments: [String]
    ) throws -> (seconds: Double, process: FinishedProcess) {
        let (seconds, process) = try seconds {
            try FinishedProcess(path: program, arguments, output: output)
        }
        guard process.exit == 0 else {
            throw BenchmarkFailure(description: "\(program) ended with \(process.exit)")
        }
        return (seconds, process)
    }

    /// Writes the tokens of some rows as hex, a line each.
    private func write(_ table: LargeTable, _ condition: String, to path: String) throws {
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let file = FileHandle(forWritingAtPath: path)
        else { throw BenchmarkFailure(description: "\(path) cannot be written") }
        defer { try? file.close() }
        let step = 50_000
        for first in stride(from: 1, through: table.rows, by: step) {
            let rows = try table.sql.query(
                "SELECT LOWER(HEX(device_token)) FROM active_users WHERE id BETWEEN \(first) AND "
                    + "\(first + step - 1) \(condition) ORDER BY id")
            let text = (0..<rows.count).map { (rows[$0, 0].text ?? "") + "\n" }.joined()
            try file.write(contentsOf: Data(text.utf8))
        }
    }
}
