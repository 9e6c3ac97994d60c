/// The options of a benchmark.
struct BenchmarkContext {
    /// The size of the measured data: 1 for the promised figures, less for trials.
    let scale: Double
    /// The number of repetitions of each measurement.
    let runs: Int
    /// Reports progress to a person.
    let note: (String) -> Void

    /// A full-scale count, at this scale; at least 1000.
    func scaled(_ full: Int) -> Int { max(1_000, Int(Double(full) * scale)) }
}

/// A benchmark with its name.
struct Benchmark: Sendable {
    let name: String
    /// The measured figure, in one line.
    let summary: String
    /// Whether it needs the MariaDB server that the environment names.
    let needsMariaDB: Bool
    /// The kind of cluster that it needs, by `scripts/bench --on`; nil for none.
    var cluster: String?
    let run: @Sendable (BenchmarkContext) throws -> Figure

    /// All benchmarks, in the order in which they run.
    static let all: [Benchmark] =
        [
            Benchmark(
                name: "memory", summary: "peak memory for ten million tuples, against ten thousand",
                needsMariaDB: false, run: { try ProcessBenchmarks($0).memory() }),
            Benchmark(
                name: "start", summary: "CPU time and memory for an empty feed",
                needsMariaDB: false,
                run: { try ProcessBenchmarks($0).start() }),
            Benchmark(
                name: "explain",
                summary: "CPU time for explaining one token with a ledger of a million changes",
                needsMariaDB: false, run: { try ExplainBenchmark($0).run() }),
            Benchmark(
                name: "feed-read",
                summary:
                    "reading, journaling and decoding a million tuples over TLS, against a drain of the "
                    + "same bytes",
                needsMariaDB: false, run: { try FeedReadBenchmark($0).run() }),
            Benchmark(
                name: "apply-mark",
                summary:
                    "marking by 500,000 statements in a table of 5 million, per token, against two "
                    + "set-based statements over a staging table",
                needsMariaDB: true,
                run: { try ApplyBenchmark(action: .mark, context: $0).againstFloor() }),
            Benchmark(
                name: "apply-delete", summary: "the same for deleting", needsMariaDB: true,
                run: { try ApplyBenchmark(action: .delete, context: $0).againstFloor() }),
            Benchmark(
                name: "apply-vs-rows",
                summary:
                    "marking on one connection, per token, against one statement and commit per row",
                needsMariaDB: true,
                run: { try ApplyBenchmark(action: .mark, context: $0).againstRows() }),
            Benchmark(
                name: "apply-galera",
                summary: "marking on a Galera node, per token, against a server by itself",
                needsMariaDB: true, cluster: "galera",
                run: { try ClusterBenchmark(context: $0, writers: 0).run() }),
            Benchmark(
                name: "apply-galera-writers",
                summary:
                    "the same while four writers on other nodes change rows of the same tokens",
                needsMariaDB: true, cluster: "galera",
                run: { try ClusterBenchmark(context: $0, writers: 4).run() }),
            Benchmark(
                name: "senders-galera",
                summary: "three senders on three Galera nodes, against three on one node",
                needsMariaDB: true, cluster: "galera",
                run: { try ClusterSendersBenchmark($0).run() }),
            Benchmark(
                name: "failover-galera",
                summary: "seconds from the kill of the node at work to the end of the run with 0",
                needsMariaDB: true, cluster: "galera", run: { try FailoverBenchmark($0).run() }),
            Benchmark(
                name: "guard",
                summary:
                    "whether a removal is a small share of 8 million living rows, against a count of them",
                needsMariaDB: true, run: { try SizeBenchmark($0).guardQuestion() }),
            Benchmark(
                name: "size",
                summary:
                    "a whole replay of 500,000 tuples into a table of 20 million rows, against one of 2 million",
                needsMariaDB: true, run: { try SizeBenchmark($0).replay() }),
            Benchmark(
                name: "import",
                summary:
                    "importing a million JSON lines of another sender's log, against jq -c . and wc -l",
                needsMariaDB: false, run: { try IntakeBenchmark($0).importing() }),
            Benchmark(
                name: "evidence-intake",
                summary:
                    "taking 100,000 rows of pushsweep_evidence and marking, against the "
                    + "engine's floor for the same changes",
                needsMariaDB: true, run: { try IntakeBenchmark($0).rows() }),
            Benchmark(
                name: "pulse",
                summary: "false findings about an app's evidence in a thousand made-up years",
                needsMariaDB: false,
                run: { context in
                    var benchmark = PulseBenchmark(context)
                    return try benchmark.run()
                }),
            Benchmark(
                name: "preflight-filter",
                summary:
                    "filtering 5 million tokens of which 500,000 are stale, against grep -v -F -f and cat",
                needsMariaDB: true, run: { try FilterBenchmark($0).run() }),
            Benchmark(
                name: "audit",
                summary:
                    "auditing a table of 5 million rows, against the one aggregate of the same figures",
                needsMariaDB: true, run: { try AuditBenchmark($0).run() }),
            Benchmark(
                name: "audit-deep",
                summary:
                    "the same with --deep, against one sorted pass of the engine over the tokens",
                needsMariaDB: true, run: { try AuditBenchmark($0).deep() }),
            Benchmark(
                name: "send-session",
                summary:
                    "CPU seconds of our HTTP/2 client for 100,000 requests to nghttpd, against h2load",
                needsMariaDB: false, run: { try SendSessionBenchmark($0).run() }),
            Benchmark(
                name: "send-binary",
                summary:
                    "notifications per second over the binary interface, against a TLS write of the same "
                    + "bytes",
                needsMariaDB: false, run: { try SendBinaryBenchmark($0).run() }),
            Benchmark(
                name: "send-queue",
                summary:
                    "200,000 notifications from a MariaDB queue to a gateway and their results back, "
                    + "against claims and results alone",
                needsMariaDB: true, run: { try SendQueueBenchmark($0).run() }),
        ]
        + InstructionsBenchmark.Work.allCases.map { work in
            Benchmark(
                name: "instructions-\(work.rawValue)",
                summary: "instructions of \(work.summary), counted by valgrind",
                needsMariaDB: false,
                run: { try InstructionsBenchmark(work, $0).run() })
        }
}
