// Faults at system calls, for any run of the program that has a checker. The calls of a run are
// recorded once. Then for each chosen occurrence a new run gets its fault there, and is checked
// together with the run after it.

import TestSupport
import Testing

/// A run of the real program that a fault ends early, and the checker of its result.
protocol InterruptedRun {
    /// The folder of its test.
    var folder: TemporaryFolder { get }
    /// Starts it, as the last words of a tracer's command.
    func start(under command: [String]) throws -> RunningTool
    /// Runs again and compares everything; the first difference, or nil.
    func recover() throws -> String?
    /// The first difference after a run that ended with success; nil if there is none.
    func wrongSuccess() throws -> String?
}

/// A system call and how it fails.
struct Fault: CustomStringConvertible, Sendable {
    let call: String
    let error: String
    /// Whether the call fails only once; a run that ignores such a failure can still succeed.
    let once: Bool
    var description: String { "\(error)\(once ? " once" : "") from \(call)" }

    init(_ call: String, _ error: String, once: Bool = false) {
        (self.call, self.error, self.once) = (call, error, once)
    }
}

/// Injects faults, each into a new run.
struct FaultInjection<Run: InterruptedRun> {
    /// The calls that a run can leave half done, on disk or on a connection.
    private static var visible: [String] {
        [
            "close", "connect", "fallocate", "fchmod", "fcntl", "fdatasync", "flock", "fsync",
            "ftruncate",
            "mkdir", "mkdirat", "mmap", "newfstatat", "openat", "pread64", "pwrite64", "pwritev",
            "read",
            "recvfrom", "rename", "renameat", "sendto", "socket", "unlink", "unlinkat", "utimensat",
            "write",
        ]
    }

    /// The name of the interrupted run, for messages.
    let name: String
    /// The message of a run that leaves work for the next one.
    var wordsOfPending = ["error: "]
    /// Sets up a run; the number is that of the occurrence that will be chosen.
    let make: (_ number: Int, _ random: inout SeededGenerator) throws -> Run

    /// kill -9 in place of calls: at most so many occurrences of each.
    func kill(most: Int) throws {
        var random = SeededGenerator("system calls of \(name)")
        let counts = try counts(of: Self.visible, at: { _ in [] }, &random)
        var kills = 0
        var misses = 0
        for (call, count) in counts.sorted(by: { $0.key < $1.key }) {
            let most = Sample.names.contains(call) ? count : most
            for number in Sample.occurrences(of: count, most: most, &random) {
                let run = try make(number, &random)
                let exit = try run.start(under: Strace.killing(at: call, number)).wait().exit
                if exit == 137 { kills += 1 } else { misses += 1 }
                let problem = try run.recover()
                #expect(
                    problem == nil,
                    "\(name), seed \(random.seed), \(call) \(number): \(problem ?? "")")
            }
        }
        print("kills at system calls of \(name): \(kills), not reached: \(misses)")
        // The number of calls differs a little from run to run.
        #expect(kills > misses * 4)
    }

    /// Lets calls fail from each of some occurrences on to the end of the run, or once, at the
    /// paths alone if there are any. The first occurrence is among them, so that an unnoticed fault
    /// counts as one too.
    func fail(
        _ faults: [Fault], codes: Set<Int32>, most: Int = 2, at paths: (Run) -> [String]
    ) throws {
        var random = SeededGenerator("\(name): \(faults)")
        let counts = try counts(of: Set(faults.map(\.call)), at: paths, &random)
        for fault in faults {
            let count = counts[fault.call] ?? 0
            #expect(count > 0, "\(fault) cannot happen")
            var ends: [Int32: Int] = [:]
            let numbers = Sample.occurrences(of: count, most: most - 1, &random)
            for number in [1] + numbers.filter({ $0 > 1 }) {
                let run = try make(number, &random)
                let tracer = Strace.failing(
                    fault.call, with: fault.error, from: number, once: fault.once,
                    at: paths(run))
                let result = try run.start(under: tracer).wait()
                ends[result.exit, default: 0] += 1
                let problem = try wrongEnd(result, run, codes) ?? run.recover()
                #expect(
                    problem == nil,
                    "seed \(random.seed), \(fault) from \(number) of \(count): \(problem ?? "")")
            }
            #expect(ends.keys.contains { $0 != 0 }, "\(fault) was not noticed")
            let list = ends.sorted { $0.key < $1.key }.map { "\($0.value) with \($0.key)" }
            print("\(name), \(fault): of \(count) calls ended \(list.joined(separator: ", "))")
        }
    }

    /// Success means that all is done; any other end has a closing line for scripts.
    func wrongEnd(_ result: ToolResult, _ run: Run, _ codes: Set<Int32>) throws -> String? {
        if result.exit == 0 { return try run.wrongSuccess() }
        guard codes.contains(result.exit) else { return "exit \(result.exit): \(result.error)" }
        if result.exit == ExitOfLoader.missingLibrary { return nil }
        let closing = "code=\(result.exit) stage="
        let words = result.exit == 75 ? wordsOfPending : ["error: "]
        let isSaid =
            result.closingLine.hasPrefix(closing) && words.contains { result.error.contains($0) }
        return isSaid ? nil : "exit \(result.exit) without a word: \(result.error)"
    }

    private func counts(
        of calls: some Sequence<String>, at paths: (Run) -> [String],
        _ random: inout SeededGenerator
    ) throws -> [String: Int] {
        let run = try make(0, &random)
        let log = run.folder.file("calls")
        let result = try run.start(under: Strace.recording(calls, into: log, at: paths(run))).wait()
        #expect(result.exit == 0, "\(result.error)")
        return try Strace.counts(in: log)
    }
}

/// The exit codes of the dynamic loader, before the program starts.
enum ExitOfLoader {
    /// It cannot open a library.
    static let missingLibrary: Int32 = 127
}

/// The choice of moments in a test.
enum Sample {
    /// The system calls of which the caller wants each occurrence.
    static let names = Set(
        (Environment.text("PUSHSWEEP_TEST_CALLS") ?? "").split(separator: ",").map(String.init))
    /// Whether the caller wants each occurrence of all calls.
    static let isWhole = names.contains("all")

    /// Some of the numbers from 1 to a count, spread over all of it; of several, one of the last,
    /// which is where the durable steps are.
    static func occurrences(
        of count: Int, most: Int, _ random: inout SeededGenerator
    ) -> [Int] {
        guard !isWhole, count > most else { return Array(1...max(count, 1)) }
        let most = Series.isLong || most < 4 ? most : most / 4
        let width = Double(count) / Double(most)
        return (0..<most).map { part in
            let isLast = part == most - 1 && most > 1
            let place = isLast ? 0.99 : Double.random(in: 0..<1, using: &random)
            return 1 + Int((Double(part) + place) * width)
        }
    }
}
