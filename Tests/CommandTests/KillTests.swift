// kill -9 at random moments of reading, journaling and applying. The durable bytes of the journal
// at the moment of the kill are the reference for the next run: it must apply all of them once,
// count them once and change nothing else. So must it with what came from the socket before the kill.
//
// Random moments of a run rarely meet its short phases, so every other kill waits until a phase is
// seen. On a busy machine even these come late; so more of them follow until each phase was met.

import APNsProtocol
import APNsSimulator
import Glibc
import TestSupport
import Testing

@Suite("A killed sweep", .serialized)
struct KillTests {
    /// Kills per engine; the printed seed and this number repeat a run.
    private static let kills = Series.length("PUSHSWEEP_TEST_KILLS", short: 16, long: 200) / 2

    /// Kills that each phase must have met.
    private static let leastMeetings = 3

    /// A phase that a long run of this test has not met often enough; nil for a short run.
    private static func unmet(_ moments: [Phase: Int]) -> Phase? {
        guard kills >= 100 else { return nil }
        return Phase.aimedAt.first { moments[$0, default: 0] < leastMeetings }
    }

    @Test("the sweep after a kill loses no durable tuple, touches no fresh token, counts exactly")
    func randomKills() throws {
        for engine in TestEngine.available {
            var random = SeededGenerator("kills on \(engine)")
            let whole = try KillStage(engine, deleting: false, random: &random)
            let clock = ContinuousClock.now
            #expect(try whole.stage.sweep().exit == 0)
            let length = ContinuousClock.now - clock
            var moments: [Phase: Int] = [:]
            var round = 0
            while round < Self.kills || round < Self.kills * 3 && Self.unmet(moments) != nil {
                defer { round += 1 }
                let stage = try KillStage(
                    engine, deleting: round % 2 == 1, random: &random)
                // Rounds alternate between mark and delete, so moments alternate between pairs.
                let isAimed = round / 2 % 2 == 1 || round >= Self.kills
                let aim =
                    round < Self.kills
                    ? Phase.aimedAt[round / 4 % Phase.aimedAt.count]
                    : Self.unmet(moments) ?? .early
                let moment: Moment =
                    isAimed
                    ? .seen(aim) : .after(length * Double.random(in: 0...1.1, using: &random))
                let phase = try stage.kill(moment)
                moments[phase, default: 0] += 1
                let problem = try stage.sweep.recover()
                #expect(
                    problem == nil,
                    "\(engine), seed \(random.seed), kill \(round) \(phase): \(problem ?? "")")
                if problem != nil { return }
            }
            print(
                "kills on \(engine): \(moments.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key.rawValue)" })"
            )
            guard Self.kills >= 100 else { continue }
            for phase in Phase.aimedAt {
                #expect(
                    moments[phase, default: 0] >= Self.leastMeetings,
                    "\(engine), seed \(random.seed): too few kills \(phase.rawValue): \(moments)")
            }
        }
    }
}

/// How far a sweep had come when it was killed.
private enum Phase: String, Comparable {
    case early = "before the first byte"
    case journaled = "with bytes in the journal"
    case applying = "after the checkpoint was made"
    case between = "between two chunks"
    case committed = "after the last commit"
    case ended = "after the end"

    /// The phases that every long run of this test must have met.
    static let aimedAt: [Phase] = [.early, .journaled, .applying, .between]

    static func < (one: Phase, other: Phase) -> Bool { one.rawValue < other.rawValue }
}

/// When to kill.
private enum Moment {
    case after(Duration)
    /// As soon as the phase is seen to have begun.
    case seen(Phase)
}

/// A sweep to kill.
private struct KillStage {
    let sweep: MixedSweep
    var stage: SweepStage { sweep.stage }

    init(_ engine: TestEngine, deleting: Bool, random: inout SeededGenerator) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.writeSize = Int.random(in: 500...20_000, using: &random)
        behaviour.delay = .milliseconds(Int.random(in: 0...1, using: &random))
        // Large enough on the server to be shared between two connections.
        sweep = try MixedSweep(
            engine, count: engine == .mariaDB ? 6_000 : 3_000, deleting: deleting,
            behaviour: behaviour, random: &random)
    }

    /// Starts a sweep, kills it, and says how far it had come.
    func kill(_ moment: Moment) throws -> Phase {
        let run = try stage.start(["sweep"])
        switch moment {
        case .after(let duration):
            let (seconds, attoseconds) = duration.components
            var pause = timespec(
                tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
            nanosleep(&pause, nil)
        case .seen(.early): break
        case .seen(.journaled): stage.awaitJournal()
        case .seen(.between): try awaitFeed("state = 'applying' AND last_token IS NOT NULL")
        case .seen: try awaitFeed("1 = 1")
        }
        run.signal(SIGKILL)
        let hasEnded = run.wait().exit != 137
        if hasEnded { return .ended }
        let states = try states()
        if states.contains(["applying"]) {
            return try hasFeed("state = 'applying' AND last_token IS NOT NULL")
                ? .between : .applying
        }
        if !states.isEmpty { return .committed }
        return sweep.keptBytes().count > 0 ? .journaled : .early
    }

    private func states() throws -> [[String]] {
        try stage.database.texts("SELECT state FROM pushsweep_batch")
    }

    private func hasFeed(_ condition: String) throws -> Bool {
        try stage.database.rows(of: "pushsweep_batch", condition) > 0
    }

    /// Waits until the database has a checkpoint of the feed that meets a condition, or the feed is
    /// applied; at most 20 seconds.
    private func awaitFeed(_ condition: String) throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while try !hasFeed("(\(condition)) OR state = 'applied'"), ContinuousClock.now < deadline {}
    }
}
