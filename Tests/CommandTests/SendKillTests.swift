// Two senders on one queue, both killed with -9 at random moments, and a third that finishes what
// they left. The gateway's book is the truth: it knows every notification that was ever accepted.

import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing
import TokenStore

private let registered: Int64 = 1_690_000_000_000
private let gone: Int64 = 1_700_000_000_123

@Suite("Two killed senders", .serialized)
struct SendKillTests {
    /// Kills per engine, two in a round; the printed seed and this number repeat a run.
    private static let rounds = Int(Environment.number("PUSHSWEEP_TEST_SENDER_KILLS") ?? 20) / 2

    @Test("lose no row, send none twice, and leave every row in exactly one state")
    func randomKills() throws {
        for engine in TestEngine.available {
            var random = SeededGenerator("killed senders on \(engine)")
            var unknown = 0
            for round in 0..<Self.rounds {
                let stage = try KillStage(engine)
                let length = Duration.milliseconds(round % 3 == 0 ? 1_500 : 500)
                try stage.kill(
                    after: (0..<2).map { _ in
                        length * Double.random(in: 0...1, using: &random)
                    })
                let problem = try stage.finish()
                #expect(
                    problem == nil,
                    "\(engine), seed \(random.seed), round \(round): \(problem ?? "")")
                if problem != nil { return }
                unknown += try stage.stage.states()["unknown"] ?? 0
            }
            print("killed senders on \(engine): \(Self.rounds * 2) kills, \(unknown) unknown")
        }
    }
}

/// A queue for two senders.
private struct KillStage {
    static let count = 1_500

    /// What the gateway or the table says about a token.
    enum Kind: Int {
        case living, stale, gone, returned
        init(_ number: Int) {
            self =
                number % 20 == 3
                ? .stale : number % 50 == 7 ? .gone : number % 100 == 9 ? .returned : .living
        }
    }

    let stage: SendStage

    init(_ engine: TestEngine) throws {
        var script = ProviderScript()
        for number in 0..<Self.count where [.gone, .returned].contains(Kind(number)) {
            script.tokens[.numbered(number)] = .reply(
                ScriptedReply(.unregistered, timestamp: gone))
        }
        stage = try SendStage(engine, script: script)
        try stage.database.register(0..<Self.count, at: registered)
        for number in 0..<Self.count {
            let token = stage.database.sqlToken(number)
            switch Kind(number) {
            case .stale:
                try stage.database.execute(
                    "UPDATE active_users SET invalidated_at = ? WHERE device_token = ?",
                    [stage.database.time(registered + 60_000), token])
            case .returned:
                try stage.database.execute(
                    "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
                    [stage.database.time(gone + 60_000), token])
            case .living, .gone: break
            }
        }
        try stage.queue(0..<Self.count)
    }

    /// Starts two senders and kills each after its time.
    func kill(after moments: [Duration]) throws {
        let started = ContinuousClock.now
        var running = try moments.map { (try stage.start(["send"]), $0) }
        running.sort { $0.1 < $1.1 }
        for (sender, moment) in running {
            let left = moment - (ContinuousClock.now - started)
            if left > .zero { usleep(UInt32(left / .microseconds(1))) }
            sender.signal(SIGKILL)
            _ = sender.wait()
        }
    }

    /// Ends their leases and lets a third sender finish; then what is wrong, if anything is.
    func finish() throws -> String? {
        try stage.database.execute(
            "UPDATE pushsweep_claim SET expires_at = ?", [stage.database.time(registered)])
        let result = try stage.send()
        guard result.exit == 0 else {
            return "the last run ended with \(result.exit): \(result.error)"
        }
        let states = try stage.database.texts(
            "SELECT device_token, state FROM push_queue ORDER BY id")
        guard states.count == Self.count else { return "\(states.count) rows are left" }
        let records = stage.gateway.book.records
        guard stage.gateway.book.acceptedTwice.isEmpty else { return "accepted twice" }
        let accepted = Set(records.filter(\.isAccepted).compactMap { $0.token?.hex })
        let wired = Set(records.compactMap { $0.token?.hex })
        let marked = Set(
            try stage.database.texts(
                "SELECT device_token FROM active_users WHERE invalid_reason = 'Unregistered'"
            ).map { $0[0] })
        for (number, row) in states.enumerated() {
            if let problem = problem(
                Kind(number), hex: row[0], state: row[1], accepted: accepted.contains(row[0]),
                wired: wired.contains(row[0]), marked: marked.contains(row[0]))
            {
                return "row \(number), \(Kind(number)): \(problem)"
            }
        }
        return nil
    }

    private func problem(
        _ kind: Kind, hex: String, state: String, accepted: Bool, wired: Bool, marked: Bool
    ) -> String? {
        switch (kind, state) {
        case (.stale, "skipped"): return wired ? "a stale token was on the wire" : nil
        case (.living, "sent"): return accepted ? nil : "called sent, but never accepted"
        case (.living, "unknown"): return nil
        case (.gone, "gone"): return marked ? nil : "gone, but its evidence was lost"
        case (.returned, "gone"): return marked ? "marked, though registered since" : nil
        case (.gone, "unknown"), (.returned, "unknown"): return nil
        default: return "state \(state)"
        }
    }
}

extension TokenDatabase {
    /// A numbered token as our own schema stores it.
    fileprivate func sqlToken(_ number: Int) -> SQLValue {
        .bytes(DeviceToken.numbered(number).bytes)
    }
}
