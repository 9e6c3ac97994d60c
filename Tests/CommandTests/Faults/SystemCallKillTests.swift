// kill -9 in place of every call to the kernel that reads, writes, syncs, locks, names or removes
// something, by name and occurrence. Between two such calls nothing happens that another process could
// see, so these are all the moments there are; strace counts for each thread by itself, and a thread
// with fewer calls than the busiest one of that name is killed at its own only now and then.
//
// The tests take a spread of them; PUSHSWEEP_TEST_CALLS=all takes all, which lasts long, and
// PUSHSWEEP_TEST_CALLS=pwrite64,unlink all of some calls.

import TestSupport
import Testing

@Suite(
    "A sweep killed in place of a system call", .serialized,
    .enabled(if: Strace.isUsable, Comment(rawValue: Strace.absence)))
struct SystemCallKillTests {
    /// What a sweep can leave half done, on disk or on a connection.
    private static let calls = [
        "close", "connect", "fchmod", "fcntl", "fdatasync", "flock", "fsync", "ftruncate", "mkdir",
        "mmap", "newfstatat", "openat", "pread64", "pwrite64", "read", "recvfrom", "rename",
        "sendto", "socket", "unlink", "write",
    ]

    @Test(
        "is completed by the next one, with every durable tuple applied once",
        arguments: TestEngine.available)
    func kills(_ engine: TestEngine) throws {
        var random = SeededGenerator("system calls on \(engine)")
        let counts = try countCalls(engine, &random)
        var kills = 0
        var misses = 0
        for (call, count) in counts.sorted(by: { $0.key < $1.key }) {
            let most = Sample.names.contains(call) ? count : engine == .sqlite ? 2 : 1
            for number in Sample.occurrences(of: count, most: most, &random) {
                let sweep = try MixedSweep.inTwoPieces(
                    engine, deleting: number % 2 == 0, random: &random)
                let exit = try sweep.stage.start(
                    ["sweep"], under: Strace.killing(at: call, number)
                ).wait().exit
                if exit == 137 { kills += 1 } else { misses += 1 }
                let problem = try sweep.recover()
                #expect(
                    problem == nil,
                    "\(engine), seed \(random.seed), \(call) \(number): \(problem ?? "")")
            }
        }
        print("kills at system calls on \(engine): \(kills), not reached: \(misses)")
        // How often a call is made differs a little from run to run.
        #expect(kills > misses * 4)
    }

    private func countCalls(
        _ engine: TestEngine, _ random: inout SeededGenerator
    ) throws -> [String: Int] {
        let sweep = try MixedSweep.inTwoPieces(engine, random: &random)
        let log = sweep.stage.folder.file("calls")
        let result = try sweep.stage.start(
            ["sweep"], under: Strace.recording(Self.calls, into: log)
        ).wait()
        #expect(result.exit == 0, "\(result.error)")
        return try Strace.counts(in: log)
    }
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
