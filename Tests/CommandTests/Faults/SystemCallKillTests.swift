// kill -9 in place of every call to the kernel that reads, writes, syncs, locks, names or removes
// something, by name and occurrence. Between two such calls nothing happens that another process
// could see, so these are all the moments there are; strace counts for each thread by itself, and a
// thread with fewer calls than the busiest one of that name is killed at its own calls only
// sometimes.
//
// The tests take a spread of them; PUSHSWEEP_TEST_CALLS=all takes all, which lasts long, and
// PUSHSWEEP_TEST_CALLS=pwrite64,unlink all of some.

import APNsSimulator
import Foundation
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
        }.kill(most: Series.isLong && engine == .sqlite ? 2 : 1)
    }

    @Test("a list that a killed sweep had read and not made durable is applied by the next sweep")
    func readAndNotDurable() throws {
        var met = 0
        for number in 1... {
            let stage = try SweepStage(.sqlite, dead: 20)
            let tracer = Strace.killing(at: "fdatasync", number)
            guard try stage.start(["sweep"], under: tracer).wait().exit == 137 else { break }
            if stage.arrivedBytes > 0 { met += 1 }
            #expect(try stage.sweep().exit == 0)
            let marked = try stage.database.count(
                "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL")
            #expect(marked == 20, "killed at sync \(number)")
        }
        #expect(met > 0)
    }

    @Test(
        "a killed sender loses no row and no answer, and the next one sends no row twice",
        arguments: TestEngine.available)
    func send(_ engine: TestEngine) throws {
        try FaultInjection(name: "a sender on \(engine)") { _, _ in
            try MixedSend(engine, count: 100)
        }.kill(most: Series.isLong && engine == .sqlite ? 2 : 1)
    }

    @Test(
        "the 410 of a killed sender is written by the next run, and its row is not sent again",
        arguments: ["send", "sweep"])
    func keptAnswer(_ next: String) throws {
        var script = ProviderScript()
        script.tokens[.numbered(0)] = .reply(
            ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        let stage = try SendStage(script: script)
        stage.lines = "send: {resend-unknown: true}"
        try stage.database.register(0..<1, at: 1_690_000_000_000)
        // The first run makes the log of answers.
        #expect(try stage.send().exit == 0)
        let folder = stage.folder.file("state/send/1")
        let log = try #require(
            FileManager.default.contentsOfDirectory(atPath: folder)
                .first { $0.hasPrefix("answers-") })
        try stage.queue(0..<1)
        // The log has the answer, and the database does not.
        let tracer = Strace.killing(at: "fsync", 1, at: ["\(folder)/\(log)"])
        #expect(try stage.start(["send"], under: tracer).wait().exit == 137)
        #expect(try stage.states() == ["pending": 1])
        for command in ["check", "audit", "sweep --dry-run", "preflight --read-only --app chat"] {
            let told = try stage.start(command.split(separator: " ").map(String.init)).wait()
            let said = told.output + told.error
            #expect(
                said.contains("1 answer") || said.contains("1 report waits"), "\(command): \(told)")
        }
        #expect(try stage.states() == ["pending": 1])
        // A sweep that cannot see the queue leaves it to a sender, and does the rest of its work.
        try stage.database.execute("ALTER TABLE push_queue RENAME TO hidden_queue")
        let blind = try stage.start(["sweep"]).wait()
        #expect(blind.exit == 75 && blind.error.contains("next pushsweep send"), "\(blind)")
        try stage.database.execute("ALTER TABLE hidden_queue RENAME TO push_queue")
        let run = try stage.start([next]).wait()
        #expect(run.exit == 0, "\(run.error)")
        let rows = try stage.database.texts(
            "SELECT q.state, q.reason, u.invalid_reason FROM push_queue q JOIN active_users u "
                + "ON u.device_token = q.device_token")
        #expect(rows == [["gone", "Unregistered", "Unregistered"]])
        #expect(stage.gateway.log.records.count == 1)
    }
}
