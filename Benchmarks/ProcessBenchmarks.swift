// The cost of a whole process of `pushsweep sweep`: its peak memory, and its CPU time for an empty
// feed. Both come from the kernel's accounting of the finished process (wait4(2)).

import APNsSimulator
import Foundation
import Looks
import Settings

/// The figures `memory` and `start`.
struct ProcessBenchmarks {
    private let context: BenchmarkContext
    private let place: BenchmarkFolder
    private let certificates: SimulatorCertificates

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
        certificates = try SimulatorCertificates(directory: place.file("certificates"))
    }

    /// Peak resident size for ten million tuples, compared with ten thousand.
    func memory() throws -> Figure {
        let large = context.scaled(10_000_000)
        let small = try (0..<context.runs).map { _ in try sweep(10_000).peakMiB }
        let big = try (0..<max(1, context.runs / 2)).map { _ in
            context.note("memory: \(large) tuples")
            return try sweep(large).peakMiB
        }
        let (value, reference) = (median(big), median(small))
        return Figure(
            name: "memory", value: value, unit: "MiB", reference: reference,
            ratio: value / reference,
            target: "within 20 % of ten thousand tuples, under 64 MiB",
            met: value / reference <= 1.2 && value < 64)
    }

    /// CPU time and peak memory of an hourly run for a gateway with an empty list. The state folder
    /// and the table are those of the run before. The extra numbers are those of the very first run,
    /// which creates the journal.
    func start() throws -> Figure {
        let first = median(try (0..<context.runs).map { _ in try sweep(0).cpuMilliseconds })
        let runs = try (0..<context.runs).map { _ in try sweep(0, isFirst: false) }
        let cpu = median(runs.map(\.cpuMilliseconds))
        let peak = median(runs.map(\.peakMiB))
        let megabytes = try strippedMegabytes()
        return Figure(
            name: "start", value: cpu, unit: "ms of CPU", reference: 50, ratio: cpu / 50,
            target: "an empty feed costs under 50 ms of CPU and 28 MiB, by a program under 32 MB",
            met: cpu < 50 && peak < 28 && megabytes < 32,
            extra: [
                "peakMiB": peak, "firstRunMilliseconds": first, "strippedMB": megabytes,
            ])
    }

    /// The size of the program as it is installed, without symbols.
    private func strippedMegabytes() throws -> Double {
        let stripped = place.file("stripped")
        let strip = try FinishedProcess(
            path: "/usr/bin/strip", ["-o", stripped, BuiltProgram.url("pushsweep").path])
        guard strip.exit == 0 else {
            throw BenchmarkFailure(description: "strip ended with \(strip.exit)")
        }
        let size = try FileManager.default.attributesOfItem(atPath: stripped)[.size] as? Int ?? 0
        return Double(size) / 1_000_000
    }

    /// A sweep of a generated list. The default of `max-bytes` would hold a list of more than 28 million
    /// tuples.
    private func sweep(_ tuples: Int, isFirst: Bool = true) throws -> FinishedProcess {
        let state = place.file("state")
        if isFirst { try? FileManager.default.removeItem(atPath: state) }
        let gateway = try GatewayProcess(
            certificates, tuples == 0 ? ["--hex", ""] : ["--generate", "\(tuples)"])
        let settings = place.file("pushsweep.yaml")
        try """
        state: \(state)
        store: {url: "sqlite://tokens.sqlite"}
        guard: {floor: 1000000000}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            certificate: {file: \(certificates.certificate(.client)), \
        key: \(certificates.key(.client))}
            feedback: {host: 127.0.0.1, port: \(gateway.port), ca: \(certificates.authority), \
        max-bytes: 16GiB}

        """.write(toFile: settings, atomically: true, encoding: .utf8)
        _ = try SchemaWork.apply(
            Settings.load(configFile: settings, environment: [:]), creatingTokens: true)
        let finished = try FinishedProcess(
            "pushsweep", ["sweep", "--config", settings, "--format", "json"])
        guard finished.exit == 0 else {
            throw BenchmarkFailure(description: "the sweep ended with \(finished.exit)")
        }
        return finished
    }
}
