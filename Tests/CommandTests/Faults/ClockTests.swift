// The wall clock is set while a program runs: by an administrator, by a virtual machine that wakes
// up, by a late answer of a time server. Deadlines use the monotonic clock, so neither the result
// nor the duration of a run may change.

import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

/// A wall clock of a program's own that can be set while it runs, by libfaketime; the monotonic
/// clock is the true one.
struct WallClockOfItsOwn {
    /// Nil where it is not installed, or where the address sanitizer would wait for it forever
    /// while both are being loaded.
    static let library: String? = {
        guard Environment.text("PUSHSWEEP_TEST_SANITIZER") != "address" else { return nil }
        let folders = try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib")
        return folders?.map { "/usr/lib/\($0)/faketime/libfaketimeMT.so.1" }
            .first(where: FileManager.default.fileExists)
    }()

    /// The message of skipped tests.
    static let absence =
        "libfaketime is not installed, or the address sanitizer is at work: run scripts/bootstrap --tests"

    private let folder: TemporaryFolder

    /// A clock that is right until it is set.
    init() throws {
        folder = try TemporaryFolder()
        try set("+0")
    }

    /// Sets the clock ahead or back, such as by `+3h` or `-20d`.
    func set(_ offset: String) throws {
        try folder.write("next", offset)
        // In one step, so that no program reads half of it.
        guard rename(folder.file("next"), folder.file("clock")) == 0 else {
            throw TestFailure("the clock could not be set")
        }
    }

    /// Removes what a killed program leaves of its clock in shared memory.
    static func forget(_ pid: Int32) {
        for name in ["faketime_shm_\(pid)", "sem.faketime_sem_\(pid)"] {
            unlink("/dev/shm/" + name)
        }
    }

    /// The environment variables that give a program this clock.
    var environment: [String: String] {
        [
            "LD_PRELOAD": Self.library ?? "", "FAKETIME_TIMESTAMP_FILE": folder.file("clock"),
            "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        ]
    }
}

@Suite(
    "A wall clock that jumps",
    .enabled(if: WallClockOfItsOwn.library != nil, Comment(rawValue: WallClockOfItsOwn.absence)))
struct ClockTests {
    private static let jumps = ["+3h", "-20d"]

    @Test(
        "a jump of the clock during a sweep changes neither its deadline nor its result",
        arguments: jumps)
    func sweep(_ jump: String) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        var random = SeededGenerator("jump of \(jump)")
        for engine in TestEngine.available {
            let sweep = try MixedSweep(engine, count: 40, behaviour: behaviour, random: &random)
            sweep.stage.lines.feedbackOptions = "idle-timeout: 1s"
            let clock = try WallClockOfItsOwn()
            let run = try sweep.stage.start(
                ["sweep", "--format", "json"], environment: clock.environment)
            #expect(sweep.stage.awaitJournal())
            let monotonic = ContinuousClock.now
            try clock.set(jump)
            let result = run.wait()
            let length = ContinuousClock.now - monotonic
            result.ends(0)
            #expect(length > .milliseconds(500) && length < .seconds(15), "\(length)")
            try expectJump(in: result)
            #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
            sweep.stage.lines.feedbackOptions = "idle-timeout: 100ms"
            #expect(try sweep.recover() == nil)
        }
    }

    @Test(
        "a jump while sending changes neither a request's time limit nor any row's state",
        arguments: jumps)
    func send(_ jump: String) throws {
        for engine in TestEngine.available {
            var script = ProviderScript()
            script.tokens[.numbered(7)] = .stall
            script.tokens[.numbered(9)] = .reply(
                ScriptedReply(.unregistered, timestamp: 1_700_000_000_000))
            let stage = try SendStage(
                engine, rows: 40, script: script, lines: "send: {request-timeout: 1s}")
            let clock = try WallClockOfItsOwn()
            let run = try stage.start(["send", "--format", "json"], environment: clock.environment)
            let deadline = ContinuousClock.now + .seconds(20)
            while stage.gateway.log.records.count < 39, ContinuousClock.now < deadline {
                usleep(2_000)
            }
            let monotonic = ContinuousClock.now
            try clock.set(jump)
            let result = run.wait()
            let length = ContinuousClock.now - monotonic
            result.ends(0)
            #expect(length > .milliseconds(400) && length < .seconds(15), "\(length)")
            try expectJump(in: result)
            #expect(try stage.states() == ["sent": 38, "gone": 1, "unknown": 1])
            #expect(stage.gateway.log.acceptedTwice.isEmpty)
            #expect(
                try stage.database.texts(
                    "SELECT device_token FROM active_users WHERE invalidated_at IS NOT NULL")
                    == [[DeviceToken.numbered(9).hex]])
        }
    }

    /// The report's own times show that the program has seen the jump.
    private func expectJump(in result: ToolResult) throws {
        let times = try ["started", "ended"].map { name in
            try Date(
                result.json[name] as? String ?? "",
                strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        }
        #expect(abs(times[1].timeIntervalSince(times[0])) > 3_000, "\(times)")
    }
}
