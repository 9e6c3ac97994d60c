// What became worse. Benchmarks/kept.json has the figures of an earlier day; `regress` measures them again
// in the same size and compares. A figure that is worse by more than a tenth is named, and the exit code is
// 1. Counts of instructions are compared where times are too noisy for a tenth.

import ArgumentParser
import Encodings
import Foundation

/// The figures of an earlier day.
struct KeptFigures: Codable {
    /// How much worse a figure may be.
    static let most = 1.1

    /// Which numbers are the better ones.
    enum Direction: String, Codable { case lower, higher }

    /// One figure.
    struct Kept: Codable {
        let name: String
        /// The size at which it is measured.
        let scale: Double
        /// Which number of the figure: `value`, `ratio`, or the name of another one.
        let measure: String
        let better: Direction
        /// How much worse it may be, where a tenth is less than two runs differ.
        var most: Double?
        /// The number of the earlier day.
        var number: Double

        /// How many times worse a number is; below 1 where it is better.
        func decline(to now: Double) -> Double {
            better == .lower ? now / number : number / now
        }

        /// The number of a figure that was measured now.
        func number(of figure: Figure) throws -> Double {
            let found =
                switch measure {
                case "value": figure.value
                case "ratio": figure.ratio
                default: figure.extra[measure]
                }
            guard let found, found.isFinite, found > 0 else {
                throw BenchmarkFailure(description: "\(name) gave no \(measure)")
            }
            return found
        }
    }

    /// The day on which they were measured.
    var date: String
    /// What made and ran the program.
    var compiler: String
    var processor: String
    var figures: [Kept]

    init(file: String) throws {
        do {
            let data = try Data(contentsOf: URL(filePath: file))
            self = try JSONDecoder().decode(KeptFigures.self, from: data)
        } catch {
            throw BenchmarkFailure(
                description:
                    "\(file) cannot be read as kept figures: \(error); restore it from the "
                    + "repository")
        }
        for kept in figures where !Benchmark.all.contains(where: { $0.name == kept.name }) {
            throw BenchmarkFailure(description: "\(file) names the unknown figure \(kept.name)")
        }
        for kept in figures where !(kept.number > 0) {
            throw BenchmarkFailure(description: "\(file) keeps no number above 0 for \(kept.name)")
        }
    }

    /// Writes them with the figures of today.
    func write(to file: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(self) + Data("\n".utf8)).write(
            to: URL(filePath: file), options: .atomic)
    }

    /// The name of this machine's processor.
    static var processorHere: String {
        let text = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("model name") }
        return line?.split(separator: ":").last?.trimmingCharacters(in: .whitespaces) ?? "unknown"
    }

    /// The compiler of this program, as far as it tells.
    static var compilerHere: String {
        #if compiler(>=6.4)
            "Swift 6.4 or newer"
        #elseif compiler(>=6.3)
            "Swift 6.3"
        #else
            "Swift 6.2"
        #endif
    }
}

/// Compares figures with those of an earlier day.
struct RegressCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "regress", abstract: "Measure the kept figures and name what became worse.")

    @Argument(help: "Figures to compare; all that are kept without a name.")
    var names: [String] = []

    @Option(help: "How often each measurement is repeated.")
    var runs = 3

    @Option(help: ArgumentHelp("The kept figures.", valueName: "file"))
    var kept = "Benchmarks/kept.json"

    @Flag(help: "Keep the measured figures in place of the earlier ones.")
    var keep = false

    @Flag(help: "Print what the figures need besides this program, then end.")
    var needs = false

    func validate() throws {
        guard runs > 0 else { throw ValidationError("--runs is 1 or more") }
        guard !keep || names.isEmpty else {
            throw ValidationError(
                "--keep keeps all figures of one day and machine; leave the names out")
        }
    }

    func run() throws {
        var figures = try KeptFigures(file: kept)
        let chosen = figures.figures.indices.filter {
            names.isEmpty || names.contains(figures.figures[$0].name)
        }
        if let unknown = names.first(where: { name in
            !chosen.contains { figures.figures[$0].name == name }
        }) {
            throw ValidationError("\(kept) has no figure \(unknown)")
        }
        let benchmarks = chosen.compactMap { place in
            Benchmark.all.first { $0.name == figures.figures[place].name }
        }
        if needs {
            if benchmarks.contains(where: \.needsMariaDB) { print("mariadb") }
            return
        }
        let here = (compiler: KeptFigures.compilerHere, processor: KeptFigures.processorHere)
        if here.compiler != figures.compiler || here.processor != figures.processor {
            print(
                "kept with \(figures.compiler) on \(figures.processor), now \(here.compiler) on "
                    + "\(here.processor): counts of instructions may differ")
        }
        var worse: [String] = []
        for (place, benchmark) in zip(chosen, benchmarks) {
            let before = figures.figures[place]
            let context = BenchmarkContext(scale: before.scale, runs: runs) { note in
                FileHandle.standardError.write(Data("\(note)\n".utf8))
            }
            let figure = try benchmark.run(context)
            let now = try before.number(of: figure)
            let decline = before.decline(to: now)
            let isWorse = decline > before.most ?? KeptFigures.most
            if isWorse { worse.append(before.name) }
            let unit = before.measure == "value" ? figure.unit : before.measure
            let short = { (number: Double) in String(format: "%.2f", number) }
            print(
                "\(before.name): \(short(now)) \(unit), \(short(before.number)) on \(figures.date), "
                    + "\(short(decline)) times\(isWorse ? ": WORSE" : "")")
            fflush(nil)
            figures.figures[place].number = (now * 1_000).rounded() / 1_000
        }
        if keep {
            figures.date = String(Date.now.ISO8601Format().prefix(10))
            (figures.compiler, figures.processor) = here
            try figures.write(to: kept)
            return
        }
        guard worse.isEmpty else {
            print("worse than they may be: \(worse.joined(separator: ", "))")
            throw ExitCode(1)
        }
        print("none of \(chosen.count) figures is worse than it may be")
    }
}
