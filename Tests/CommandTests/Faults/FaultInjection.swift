// Faults at system calls, for any run of the program that has a checker: what calls a run makes is
// recorded once; then a run is set up anew for each chosen occurrence, meets its fault there, and is
// checked together with the run after it.

import TestSupport
import Testing

/// A run of the real program that a fault ends early, and the checker of what it leaves.
protocol InterruptedRun {
    /// The folder of its test.
    var folder: TemporaryFolder { get }
    /// Starts it, as the last words of a tracer's command.
    func start(under command: [String]) throws -> RunningTool
    /// Runs again and compares everything; nil when all is as it must be.
    func recover() throws -> String?
    /// What is not as it must be after a run that ended with success; nil when all is.
    func wrongSuccess() throws -> String?
}

/// A system call and how it fails.
struct Fault: CustomStringConvertible, Sendable {
    let call: String
    let error: String
    /// Whether a run that meets it each time can still do all its work.
    let mayPass: Bool
    /// Whether the call fails in one place alone: what swallows such a failure can still end well.
    let once: Bool
    var description: String { "\(error)\(once ? " once" : "") from \(call)" }

    init(_ call: String, _ error: String, mayPass: Bool = false, once: Bool = false) {
        (self.call, self.error, self.mayPass, self.once) = (call, error, mayPass, once)
    }
}

/// Brings faults about in runs that are set up anew for each.
struct FaultInjection<Run: InterruptedRun> {
    /// What a run can leave half done, on disk or on a connection.
    private static var visible: [String] {
        [
            "close", "connect", "fchmod", "fcntl", "fdatasync", "flock", "fsync", "ftruncate",
            "mkdir", "mkdirat", "mmap", "newfstatat", "openat", "pread64", "pwrite64", "read",
            "recvfrom", "rename", "renameat", "sendto", "socket", "unlink", "unlinkat", "write",
        ]
    }

    /// What is interrupted, for messages.
    let name: String
    /// How a run that leaves something for the next one says so.
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
        // How often a call is made differs a little from run to run.
        #expect(kills > misses * 4)
    }

    /// Lets calls fail from each of some occurrences on to the end of the run, or once, at the paths alone
    /// if there are any. The first occurrence is among them, so that a fault that nobody notices is one
    /// too.
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
            #expect(fault.mayPass || ends.keys.contains { $0 != 0 }, "\(fault) was not noticed")
            let list = ends.sorted { $0.key < $1.key }.map { "\($0.value) with \($0.key)" }
            print("\(name), \(fault): of \(count) calls ended \(list.joined(separator: ", "))")
        }
    }

    /// Success means that all is done; anything else is said, in the words for scripts.
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

/// What the dynamic loader ends a program with, before its first own word.
enum ExitOfLoader {
    /// It cannot open a library.
    static let missingLibrary: Int32 = 127
}

/// Which of many moments a test takes.
enum Sample {
    /// The system calls of which the caller wants each occurrence.
    static let names = Set(
        (Environment.text("PUSHSWEEP_TEST_CALLS") ?? "").split(separator: ",").map(String.init))
    /// Whether the caller wants each of all.
    static let isWhole = names.contains("all")

    /// Some of the numbers from 1 to a count, spread over all of it; of several, one of the last, which
    /// is where the durable steps are.
    static func occurrences(
        of count: Int, most: Int, _ random: inout SeededGenerator
    ) -> [Int] {
        guard !isWhole, count > most else { return Array(1...max(count, 1)) }
        let width = Double(count) / Double(most)
        return (0..<most).map { part in
            let isLast = part == most - 1 && most > 1
            let place = isLast ? 0.99 : Double.random(in: 0..<1, using: &random)
            return 1 + Int((Double(part) + place) * width)
        }
    }
}
