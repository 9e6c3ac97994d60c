// kill -9 at random moments of reading, journaling and applying. What the journal held durably at
// the moment of the kill is the truth that the next run has to live up to: all of it applied,
// nothing else touched, and counted once. (That nothing read lingers outside the journal is tested
// beside the reader, where it can be seen without a race.)
//
// Moments drawn from the length of a run hit short phases by luck only, so every other kill waits
// until a phase is seen.

import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000

@Suite("A killed sweep", .serialized)
struct KillTests {
    /// Kills per engine; the printed seed and this number repeat a run.
    private static let kills = Int(Environment.number("PUSHSWEEP_TEST_KILLS") ?? 200) / 2

    @Test("loses no durable tuple, touches no fresh token and counts exactly")
    func randomKills() throws {
        for engine in TestEngine.available {
            var random = SeededGenerator("kills on \(engine)")
            let whole = try KillStage(engine, deleting: false, random: &random)
            let clock = ContinuousClock.now
            #expect(try whole.stage.sweep().exit == 0)
            let length = ContinuousClock.now - clock
            var moments: [Phase: Int] = [:]
            for round in 0..<Self.kills {
                let stage = try KillStage(
                    engine, deleting: round % 2 == 1, random: &random)
                // Rounds alternate between mark and delete, so moments alternate between pairs.
                let moment: Moment =
                    round / 2 % 2 == 0
                    ? .after(length * Double.random(in: 0...1.1, using: &random))
                    : .seen(Phase.aimedAt[round / 4 % Phase.aimedAt.count])
                let phase = try stage.kill(moment)
                moments[phase, default: 0] += 1
                let problem = try stage.recover()
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
                    moments[phase, default: 0] >= 3,
                    "\(engine), seed \(random.seed): too few kills \(phase.rawValue): \(moments)")
            }
        }
    }
}

/// How far a sweep had come when it was killed.
private enum Phase: String, Comparable {
    case early = "before the first byte"
    case journaled = "with bytes in the journal"
    case applying = "while applying"
    case committed = "after the last commit"
    case ended = "after the end"

    /// What every long run of this test must have hit.
    static let aimedAt: [Phase] = [.early, .journaled, .applying]

    static func < (one: Phase, other: Phase) -> Bool { one.rawValue < other.rawValue }
}

/// When to kill.
private enum Moment {
    case after(Duration)
    /// As soon as the phase is seen to have begun.
    case seen(Phase)
}

/// One database, one gateway and one feed for a kill.
private struct KillStage {
    let stage: SweepStage
    private let feed: [FeedbackTuple]
    private let isDeleting: Bool
    private let count: Int

    /// What the table knows of a token before the sweep.
    private enum Kind: Int, CaseIterable {
        case stale, fresh, unknown, marked
        init(_ number: Int) { self = [.stale, .stale, .fresh, .unknown, .marked][number % 5] }
    }

    init(_ engine: TestEngine, deleting: Bool, random: inout SeededGenerator) throws {
        isDeleting = deleting
        // Large enough on the server to be shared between two connections.
        count = engine == .mariaDB ? 6_000 : 3_000
        feed = (0..<count).map { .dead($0, at: start + UInt32($0 % 50)) }
            .shuffled(using: &random)
        var behaviour = FeedbackBehaviour()
        behaviour.writeSize = Int.random(in: 500...20_000, using: &random)
        behaviour.delay = .milliseconds(Int.random(in: 0...1, using: &random))
        stage = try SweepStage(engine, feeds: [.tuples(feed)], behaviour: behaviour)
        stage.lines.policy = "policy: {action: \(deleting ? "delete" : "mark")}"
        stage.lines.limits = SweepStage.anyNumber
        try fill()
    }

    private func fill() throws {
        let database = stage.database
        for first in stride(from: 0, to: count, by: 500) {
            let numbers = (first..<first + 500).filter { Kind($0) != .unknown }
            let row = "('user', 'chat', 'production', ?, ?, ?)"
            try database.execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, "
                    + "registered_at, invalidated_at) VALUES "
                    + numbers.map { _ in row }.joined(separator: ","),
                numbers.flatMap { number in
                    let kind = Kind(number)
                    return [
                        .bytes(DeviceToken.numbered(number).bytes),
                        database.time(kind == .fresh ? 1_800_000_000_000 : 1_600_000_000_000),
                        kind == .marked ? database.time(1_750_000_000_000) : .null,
                    ]
                })
        }
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
        case .seen: try awaitStates()
        }
        run.signal(SIGKILL)
        let hasEnded = run.wait().exit != 137
        if hasEnded { return .ended }
        let states = try states()
        if states.contains(["applying"]) { return .applying }
        if !states.isEmpty { return .committed }
        return ((try? stage.journaledBytes().count) ?? 0) > 0 ? .journaled : .early
    }

    private func states() throws -> [[String]] {
        try stage.database.texts("SELECT state FROM pushsweep_feed")
    }

    /// Waits until the database knows the feed, at most 20 seconds.
    private func awaitStates() throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while try states().isEmpty, ContinuousClock.now < deadline {}
    }

    /// Runs again and compares everything; nil when all is as it must be.
    func recover() throws -> String? {
        let bytes = FeedbackTuple.bytes(feed)
        let durable = (try? stage.journaledBytes()) ?? []
        guard bytes.starts(with: durable) else { return "the journal is no prefix of the feed" }
        let result = try stage.sweep()
        guard let read = try? stage.journaledBytes() else {
            return "no journal after exit \(result.exit): \(result.error)"
        }
        guard read.starts(with: durable) else { return "durable bytes changed" }
        let isCut = read.count % 38 != 0
        guard result.exit == (isCut ? 65 : 0) else {
            return "exit \(result.exit) with \(read.count) bytes: \(result.error)"
        }
        let known = feed.prefix(read.count / 38)
        return try wrongRow(known) ?? wrongCount(known)
    }

    private func wrongRow(_ known: ArraySlice<FeedbackTuple>) throws -> String? {
        let dead = Set(known.compactMap(\.token))
        let rows = try stage.database.texts(
            "SELECT device_token, invalidated_at IS NOT NULL FROM active_users")
        let marks = Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0[1] == "1") })
        for number in 0..<count {
            let token = DeviceToken.numbered(number)
            let isDead = dead.contains(token)
            let expected: Bool? =
                switch Kind(number) {
                case .unknown: nil
                case .fresh: false
                case .marked: isDeleting && isDead ? nil : true
                case .stale: isDead ? (isDeleting ? nil : true) : false
                }
            if marks[token.hex] != expected {
                return "token \(number), a \(Kind(number)) one, \(isDead ? "dead" : "not named"), "
                    + "has mark \(String(describing: marks[token.hex]))"
            }
        }
        return nil
    }

    private func wrongCount(_ known: ArraySlice<FeedbackTuple>) throws -> String? {
        var expected: [Kind: Int] = [:]
        for tuple in known {
            guard let last = tuple.token?.bytes.suffix(2) else { continue }
            let number = last.reduce(0) { $0 << 8 | Int($1) }
            expected[Kind(number), default: 0] += 1
        }
        let counts =
            try stage.database.texts(
                "SELECT COALESCE(SUM(applied), 0), COALESCE(SUM(already), 0), COALESCE(SUM(newer), 0), "
                    + "COALESCE(SUM(unknown_tokens), 0) FROM pushsweep_feed"
            ).first ?? []
        let marked = expected[.marked] ?? 0
        let wanted = [
            (expected[.stale] ?? 0) + (isDeleting ? marked : 0), isDeleting ? 0 : marked,
            expected[.fresh] ?? 0, expected[.unknown] ?? 0,
        ].map(String.init)
        return counts == wanted ? nil : "counted \(counts), expected \(wanted)"
    }
}
