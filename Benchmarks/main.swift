import ArgumentParser
import Encodings
import Foundation

/// The figures of Pushsweep.
struct BenchmarkCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pushsweep-benchmarks",
        abstract: "Measures Pushsweep against what it promises.",
        subcommands: [MeasureCommand.self, RegressCommand.self],
        defaultSubcommand: MeasureCommand.self)
}

/// Measures figures by their names.
struct MeasureCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "measure", abstract: "Measure figures and print one line for each.")

    /// The output format of the figures.
    enum Format: String, ExpressibleByArgument { case text, json }

    @Argument(help: "Benchmarks to run; all without a name.")
    var names: [String] = []

    @Option(help: "text or json (one object per line).")
    var format = Format.text

    @Option(help: "Size of the data; 1 is what the promises are made for.")
    var scale = 1.0

    @Option(help: "How often each measurement is repeated.")
    var runs = 5

    @Flag(help: "Print names and what they measure.")
    var list = false

    @Flag(help: "Print what the benchmarks need besides this program, then end.")
    var needs = false

    func run() throws {
        for name in names { try Self.check(name) }
        // Benchmarks of whole processes run first, in the registry's order. The kernel counts the
        // memory of the parent as a new process's own peak, so this process must still be small then.
        let chosen = Benchmark.all.filter { benchmark in
            names.contains(benchmark.name)
                || names.isEmpty
                    && (list || benchmark.cluster.map { $0 == BenchmarkServer.cluster } ?? true)
        }
        if list {
            for benchmark in chosen { print("\(benchmark.name): \(benchmark.summary)") }
            return
        }
        if needs {
            if chosen.contains(where: \.needsMariaDB) { print("mariadb") }
            return
        }
        for benchmark in chosen {
            if let cluster = benchmark.cluster, cluster != BenchmarkServer.cluster {
                throw ValidationError(
                    "\(benchmark.name) needs a cluster; run scripts/bench --on \(cluster) "
                        + benchmark.name)
            }
        }
        let context = BenchmarkContext(scale: scale, runs: runs) { note in
            FileHandle.standardError.write(Data("\(note)\n".utf8))
        }
        for benchmark in chosen {
            var figure = try benchmark.run(context)
            figure.enterCode()
            switch format {
            case .text: print(figure.text)
            case .json: print(figure.jsonLine)
            }
            fflush(nil)
        }
    }

    private static func check(_ name: String) throws {
        guard !Benchmark.all.contains(where: { $0.name == name }) else { return }
        let names = Benchmark.all.map(\.name).joined(separator: ", ")
        throw ValidationError("unknown benchmark \(name); known: \(names)")
    }
}

BenchmarkCommand.main()
