import APNsSimulator
import Foundation

/// A folder of one benchmark, removed with the object.
final class BenchmarkFolder {
    let path: String

    init() throws {
        path =
            FileManager.default.temporaryDirectory.path
            + "/pushsweep-bench-" + UUID().uuidString.prefix(8).lowercased()
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { path + "/" + name }
}

/// The programs built beside the benchmarks.
enum BuiltProgram {
    static func url(_ name: String) -> URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent(name)
    }
}

/// A simulated gateway in a separate process, which ends with the object.
final class GatewayProcess {
    let port: UInt16
    private let process = Process()

    /// Starts a listener of the simulator: `feedback` or `provider`.
    init(
        _ certificates: SimulatorCertificates, command: String = "feedback", _ options: [String]
    ) throws {
        process.executableURL = BuiltProgram.url("apns-simulator")
        process.arguments =
            [command, "--port", "0", "--directory", certificates.directory] + options
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { break }
            line += more
        }
        let first = line.prefix { $0 != UInt8(ascii: "\n") }
        let object = try JSONSerialization.jsonObject(with: Data(first)) as? [String: Any]
        guard let address = object?["listening"] as? String,
            let number = address.split(separator: ":").last.flatMap({ UInt16($0) })
        else { throw BenchmarkFailure(description: "the simulator did not say where it listens") }
        port = number
    }

    deinit {
        process.terminate()
        process.waitUntilExit()
    }
}

/// A finished program, with the kernel's accounting of it.
struct FinishedProcess {
    let exit: Int32
    let cpuMilliseconds: Double
    let peakMiB: Double

    /// Runs a program built beside the benchmarks.
    init(_ name: String, _ arguments: [String]) throws {
        try self.init(path: BuiltProgram.url(name).path, arguments)
    }

    /// Runs any program. Its output is dropped, or goes to a file.
    init(path: String, _ arguments: [String], output: String = "/dev/null") throws {
        let words = [path] + arguments
        var pointers = words.map { strdup($0) }
        defer { pointers.forEach { free($0) } }
        pointers.append(nil)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(
            &actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        var pid = pid_t()
        guard posix_spawn(&pid, words[0], &actions, nil, pointers, environ) == 0 else {
            throw BenchmarkFailure(description: "\(path) could not be started")
        }
        var status: Int32 = 0
        var usage = rusage()
        var (peak, looks) = (0.0, 0)
        while wait4(pid, &status, WNOHANG, &usage) == 0 {
            peak = max(peak, Self.peakMiB(of: pid))
            looks += 1
            usleep(looks < 200 ? 1_000 : 20_000)
        }
        // A signal ends a program without a code; a shell tells it so.
        exit = status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
        let user = Double(usage.ru_utime.tv_sec) * 1e3 + Double(usage.ru_utime.tv_usec) / 1e3
        let system = Double(usage.ru_stime.tv_sec) * 1e3 + Double(usage.ru_stime.tv_usec) / 1e3
        cpuMilliseconds = user + system
        peakMiB = peak
    }

    /// The peak memory of a living process in MiB. It is not `ru_maxrss`, which for a spawned process
    /// begins with the peak of its parent (exec_mmap in the kernel's fs/exec.c). With `ru_maxrss`
    /// this program's own 30 to 80 MiB would hide those of the programs that it measures.
    private static func peakMiB(of pid: pid_t) -> Double {
        let status = (try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        let kibibytes = line?.split(whereSeparator: { !$0.isNumber }).first
        return kibibytes.flatMap { Double($0) }.map { $0 / 1024 } ?? 0
    }
}
