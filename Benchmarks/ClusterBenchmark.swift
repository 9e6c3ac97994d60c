import Database
import Foundation
import Synchronization

// Marking on a node of a Galera cluster, compared with a server by itself on the same machine. Every
// commit of a chunk is certified by all nodes, and the other nodes apply it. Writers on other nodes
// change rows of the same tokens: who commits last is refused and has to repeat its chunk. All nodes
// share the processors of this machine, so the ratio is higher than on machines of their own.

/// Measures the application of evidence on a Galera node.
struct ClusterBenchmark {
    let context: BenchmarkContext
    /// Number of writers on the other nodes.
    let writers: Int

    func run() throws -> Figure {
        let rows = context.scaled(1_000_000)
        let apply = ApplyBenchmark(action: .mark, context: context)
        let plain = try LargeTable(rows: rows, on: .plain, context)
        let node = try LargeTable(rows: rows, on: .main, context)
        var ours: [Double] = []
        var references: [Double] = []
        var conflicts: [Double] = []
        for run in 1...context.runs {
            try plain.restore()
            references.append(try apply.apply(plain).total)
            try node.restore()
            let before = try refusals(node)
            let load = try RowWriters(writers, on: node, round: run)
            defer { load.stop() }
            let result = try apply.apply(node)
            ours.append(result.total)
            load.stop()
            conflicts.append(Double(try refusals(node) - before))
            guard try plain.marks() == node.marks() else {
                throw BenchmarkFailure(description: "node and plain server have different marks")
            }
            context.note(
                "run \(run): plain \(references[run - 1]) s, node \(ours[run - 1]) s, "
                    + "\(conflicts[run - 1]) commits refused, \(result.chunks) chunks, "
                    + "\(load.changes) changes by writers")
        }
        let perToken = 1e6 / Double(node.evidence.count)
        let limit = writers == 0 ? 2.0 : 3.5
        // Pairs, as for the other figures: the speed of a machine changes within minutes.
        let ratio = median(zip(ours, references).map { $0 / $1 })
        var figure = Figure(
            name: writers == 0 ? "apply-galera" : "apply-galera-writers",
            value: median(ours) * perToken, unit: "us/token",
            reference: median(references) * perToken, ratio: ratio, target: "at most \(limit)",
            met: ratio <= limit)
        figure.extra = [
            "commits-refused": median(conflicts), "tokens": Double(node.evidence.count),
        ]
        return figure
    }

    /// How many transactions of this node lost against another node's since it started.
    private func refusals(_ table: LargeTable) throws -> Int {
        let rows = try table.sql.query(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_bf_aborts', "
                + "'wsrep_local_cert_failures')")
        return (0..<rows.count).reduce(0) { $0 + (rows[$1, 1].count ?? 0) }
    }
}

/// Threads that change rows of the evidence on the other nodes of a cluster, one row a commit, until
/// they are stopped.
private final class RowWriters: Sendable {
    private let isOver = Mutex(false)
    private let count = Mutex(0)
    private let group = DispatchGroup()

    /// `round` makes the values of each run differ, because a row that has the value already is not changed.
    init(_ writers: Int, on table: LargeTable, round: Int) throws {
        let names = BenchmarkServer.nodes.dropFirst()
        guard writers == 0 || !names.isEmpty else {
            throw BenchmarkFailure(description: "the cluster has no other node")
        }
        for (number, name) in zip(0..<writers, (0..<writers).flatMap { _ in names }) {
            let settings = try BenchmarkServer.settings(
                database: table.database, on: .node(name)
            ).settings
            let rows = table.rows
            group.enter()
            Thread.detachNewThread { [self] in
                defer { group.leave() }
                write(settings, rows: rows, seed: number, round: round)
            }
        }
    }

    private func write(_ settings: StoreSettings, rows: Int, seed: Int, round: Int) {
        guard let sql = try? LargeTable.connection(settings) else { return }
        var id = seed + 1
        while !isOver.withLock({ $0 }) {
            // Tenths of the rows have evidence.
            id = (id + 7_368_787) % (rows / 10)
            // A change that loses against a chunk of ours is not repeated.
            let changed = try? sql.execute(
                "UPDATE active_users SET user_id = CONCAT('user-', ?, '-', ?) WHERE id = ?",
                [
                    .integer(Int64(id + seed)), .integer(Int64(round)), .integer(Int64(id * 10)),
                ])
            if changed != nil { count.withLock { $0 += 1 } }
        }
    }

    /// Number of changes so far.
    var changes: Int { count.withLock { $0 } }

    /// Ends the threads and waits for them.
    func stop() {
        isOver.withLock { $0 = true }
        group.wait()
    }
}
