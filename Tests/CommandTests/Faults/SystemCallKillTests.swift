// kill -9 in place of every call to the kernel that reads, writes, syncs, locks, names or removes
// something, by name and occurrence. Between two such calls nothing happens that another process
// could see, so these are all the moments there are; strace counts for each thread by itself, and a
// thread with fewer calls than the busiest one of that name is killed at its own calls only
// sometimes.
//
// The tests take a spread of them; PUSHSWEEP_TEST_CALLS=all takes all, which lasts long, and
// PUSHSWEEP_TEST_CALLS=pwrite64,unlink all of some.

import TestSupport
import Testing

@Suite(
    "A run killed in place of a system call", .serialized,
    .enabled(if: Strace.isUsable, Comment(rawValue: Strace.absence)))
struct SystemCallKillTests {
    @Test(
        "the sweep after a killed one applies every durable tuple once",
        arguments: TestEngine.available)
    func sweep(_ engine: TestEngine) throws {
        try FaultInjection(name: "a sweep on \(engine)") { number, random in
            try MixedSweep.inTwoPieces(engine, deleting: number % 2 == 0, random: &random)
        }.kill(most: engine == .sqlite ? 2 : 1)
    }

    @Test(
        "a killed sender loses no row and no answer, and the next one sends no row twice",
        arguments: TestEngine.available)
    func send(_ engine: TestEngine) throws {
        try FaultInjection(name: "a sender on \(engine)") { _, _ in
            try MixedSend(engine, count: 100)
        }.kill(most: engine == .sqlite ? 2 : 1)
    }
}
