import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import Synchronization
import TestSupport
import Testing

@testable import Operations

// The real sender, with its real connections, journal and database, against gateways drawn from a
// seed; after each run the rows are compared with the gateway's record.
// PUSHSWEEP_TEST_GATEWAYS=10000 takes that number on SQLite and a tenth on MariaDB. A gateway with
// a wrong result is printed with its seed, and PUSHSWEEP_TEST_GATEWAY=SEED runs that one alone.

@Suite("Sending to rogue gateways")
struct RogueGatewayTests {
    /// Seconds after which a sender counts as hung.
    private static let patience = 60.0

    @Test(
        "each row ends in the one state that the answers allow, and each unknown one is reported",
        arguments: TestEngine.available)
    func rogues(_ engine: TestEngine) throws {
        let wanted = Series.length("PUSHSWEEP_TEST_GATEWAYS", short: 80, long: 300)
        var random = SeededGenerator("of rogue gateways on \(engine)")
        let count = engine == .sqlite ? wanted : max(1, wanted / 10)
        let seeds =
            Environment.number("PUSHSWEEP_TEST_GATEWAY").map { [$0] }
            ?? (0..<count).map { _ in random.next() }
        let began = Date()
        let party = RogueParty(engine, seeds)
        party.run(threads: engine == .sqlite ? 12 : 6, patience: Self.patience)
        for finding in party.findings.prefix(20) { Issue.record("\(finding)") }
        print(
            "\(seeds.count) gateways on \(engine): \(party.findings.count) wrong, "
                + "\(party.summary), \(Int(Date().timeIntervalSince(began))) s")
    }
}

@Suite("Sending to a gateway that goes away again and again")
struct RogueGoAwayTests {
    /// What leaves the second and third row on five connections above the last stream.
    private static func scenes() -> [ProviderScenario.Connection] {
        let none = ProviderScenario.Connection(actions: [.goAway])
        return [none, none, .init(actions: [.serve, .goAway]), none, none]
    }

    @Test(
        "rows that the gateway never processes wait, and the run ends with 75",
        arguments: [3, 30])
    func neverProcesses(_ rows: Int) throws {
        let stage = try RogueStage(.sqlite)
        try stage.queue(rows)
        let run = try stage.send(
            ProviderScenario(Self.scenes() + [.init()]), connections: 1, isSlow: false)
        let waiting = run.rows.count { $0.state == "pending" }
        #expect(run.rows.count { $0.state == "sent" } == rows - waiting)
        #expect((run.exit == .pending) == (waiting > 0), "\(run.told)")
        #expect(run.told.contains("did not process") == (waiting > 0), "\(run.told)")
        let next = try stage.send(ProviderScenario(), connections: 1, isSlow: false)
        #expect(next.exit == .done && next.rows.allSatisfy { $0.state == "sent" }, "\(next.told)")
    }
}

/// Threads that run gateways until all are done.
final class RogueParty: Sendable {
    private struct State {
        var next = 0
        var findings: [String] = []
        var exits: [Int32: Int] = [:]
        var states: [String: Int] = [:]
        /// The gateway of each thread, and its start.
        var playing: [Int: (seed: UInt64, since: Date, interrupt: Interrupt)] = [:]
    }

    private let engine: TestEngine
    private let seeds: [UInt64]
    private let state = Mutex(State())

    init(_ engine: TestEngine, _ seeds: [UInt64]) { (self.engine, self.seeds) = (engine, seeds) }

    var findings: [String] { state.withLock { $0.findings } }

    /// The results of all gateways.
    var summary: String {
        state.withLock { state in
            let exits = state.exits.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
            let states = state.states.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
            return
                "exits [\(exits.joined(separator: ", "))], rows [\(states.joined(separator: ", "))]"
        }
    }

    func run(threads: Int, patience: Double) {
        let left = Atomic(0)
        withExtendedLifetime(left) {
            var workers: [WorkerThread] = []
            for number in 0..<min(threads, seeds.count) {
                guard let worker = try? WorkerThread({ self.work(number) }) else { continue }
                workers.append(worker)
            }
            while state.withLock({ $0.next < seeds.count || !$0.playing.isEmpty }) {
                usleep(20_000)
                watch(patience)
            }
            for worker in workers { worker.join() }
        }
    }

    /// Ends a sender that hangs; one that does not even end then ends the tests with its seed.
    private func watch(_ patience: Double) {
        let now = Date()
        state.withLock { state in
            for (_, game) in state.playing where now.timeIntervalSince(game.since) > patience {
                if !game.interrupt.isTripped {
                    state.findings.append("hung: PUSHSWEEP_TEST_GATEWAY=\(game.seed)")
                    game.interrupt.trip()
                }
                precondition(
                    now.timeIntervalSince(game.since) < 2 * patience,
                    "hung for good: PUSHSWEEP_TEST_GATEWAY=\(game.seed)")
            }
        }
    }

    private func work(_ number: Int) {
        do {
            let stage = try RogueStage(engine)
            while let seed = next(number) {
                try play(RogueCase(seed: seed), stage, number)
            }
        } catch {
            state.withLock { $0.findings.append("a thread ended: \(error)") }
        }
        state.withLock { $0.playing[number] = nil }
    }

    private func next(_ number: Int) -> UInt64? {
        guard let interrupt = try? Interrupt() else { return nil }
        return state.withLock { state in
            guard state.next < seeds.count else { return nil }
            defer { state.next += 1 }
            state.playing[number] = (seeds[state.next], Date(), interrupt)
            return seeds[state.next]
        }
    }

    private func play(_ drawn: RogueCase, _ stage: RogueStage, _ number: Int) throws {
        let interrupt = state.withLock { $0.playing[number]?.interrupt }
        try stage.queue(drawn.rows)
        let run = try stage.send(
            drawn.scenario, connections: drawn.connections, isSlow: drawn.isSlow,
            stopsAfter: drawn.stopsAfter, interrupt: interrupt)
        var wrong = RogueModel(drawn, run).wrong
        if drawn.isContinued {
            wrong += try follow(run, stage)
        }
        state.withLock { state in
            state.exits[run.exit.rawValue, default: 0] += 1
            for row in run.rows { state.states[row.state, default: 0] += 1 }
            guard !wrong.isEmpty else { return }
            state.findings.append(
                "PUSHSWEEP_TEST_GATEWAY=\(drawn.seed): \(wrong.joined(separator: "; "))\n  \(drawn)"
                    + "\n  ended with \(run.exit): \(run.told)")
        }
    }

    /// Lets another sender send the remaining rows to a gateway that accepts everything.
    private func follow(_ run: RogueRun, _ stage: RogueStage) throws -> [String] {
        let second = try stage.send(ProviderScenario(), connections: 1, isSlow: false)
        var wrong: [String] = []
        for (before, after) in zip(run.rows, second.rows) {
            let expected = before.state == "pending" ? "sent" : before.state
            if after.state != expected {
                wrong.append("row \(before.number): \(before.state), then \(after.state)")
            }
        }
        let first = Set(run.records.filter(\.isAccepted).compactMap(\.number))
        let twice = second.records.compactMap(\.number).filter { first.contains($0) }
        if !twice.isEmpty { wrong.append("sent again though accepted: \(twice)") }
        if second.exit != .done { wrong.append("then \(second.exit): \(second.told)") }
        return wrong
    }
}
