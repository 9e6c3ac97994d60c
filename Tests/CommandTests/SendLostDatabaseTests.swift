// The database goes away while a sender is at work, or the sender is killed. What the gateway answered is
// known to the sender alone then. No such answer may be lost: its row would be of unknown outcome, or be
// sent a second time.

import APNsProtocol
import APNsSimulator
import Database
import EvidenceJournal
import Foundation
import Glibc
import PushQueue
import SecureTransport
import TestSupport
import Testing

@testable import Operations

private let registered: Int64 = 1_690_000_000_000

@Suite("A sender that loses its database", .serialized, .needsServer)
struct SendLostDatabaseTests {
    private static let rows = 3_000
    /// Losses of each kind; the printed seed and this number repeat a run.
    private static let rounds =
        Series.length("PUSHSWEEP_TEST_LOST_DATABASES", short: 1, long: 3)

    /// A queue behind a relay that can be cut. Some tokens are called gone or bad.
    private struct Behind {
        let stage: SendStage
        let relay: TCPRelay

        init(resends: Bool) throws {
            guard let server = MariaDBServer.fromEnvironment else {
                throw TestFailure(MariaDBServer.absence)
            }
            var script = ProviderScript()
            for number in stride(from: 5, to: rows, by: 50) {
                script.tokens[.numbered(number)] = .reply(
                    ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
            }
            for number in stride(from: 9, to: rows, by: 100) {
                script.tokens[.numbered(number)] = .reply(ScriptedReply(.badDeviceToken))
            }
            stage = try SendStage(.mariaDB, script: script)
            relay = try TCPRelay(to: server.port)
            stage.store = stage.store.replacing(":\(server.port)/", with: ":\(relay.port)/")
            stage.lines = "send: {resend-unknown: \(resends)}"
            try stage.database.register(0..<rows, at: registered)
            try stage.queue(0..<rows)
        }

        /// Waits until the gateway has had a number of requests.
        func await(requests: Int) {
            let deadline = Deadline.in(.seconds(30))
            while stage.gateway.log.totals.requests < requests && !deadline.hasPassed {
                usleep(300)
            }
        }

        /// The results that the sender of this stage has kept in its folder, the last one of each row.
        func kept() throws -> [Int64: DeliveryOutcome] {
            let folder = try StateFolder(stage.folder.file("state/send/1"))
            let space = try stage.database.count("SELECT apns_space FROM pushsweep_queue LIMIT 1")
            // No sender has come so far as to name the queue.
            guard space >= 0 else { return [:] }
            let log = try AnswerLog(in: folder, queue: UInt64(space))
            var outcomes: [Int64: DeliveryOutcome] = [:]
            for kept in try log.leftAnswers().answers {
                for result in kept.results {
                    outcomes[result.key] = DeliveryOutcome(result.outcome)
                }
            }
            return outcomes
        }

        /// Ends the lease of every claim.
        func endLeases() throws {
            try stage.database.execute(
                "UPDATE pushsweep_claim SET expires_at = ?", [stage.database.time(registered)])
        }

        /// The first thing that is wrong after all rows were sent.
        func problem() throws -> String? {
            let states = try stage.states()
            let expected = ["sent": rows - 90, "gone": 60, "failed": 30]
            if states != expected { return "states \(states)" }
            let twice = stage.gateway.log.acceptedTwice.count
            return twice > 0 ? "\(twice) accepted twice" : nil
        }
    }

    @Test("a database that stays away ends the sender, and the next one writes all it has kept")
    func staysAway() throws {
        for round in 0..<Self.rounds {
            var random = SeededGenerator("databases that stay away")
            let behind = try Behind(resends: true)
            let sender = try behind.stage.start(["send"])
            behind.await(requests: Int.random(in: 1..<Self.rows, using: &random))
            behind.relay.cut()
            let lost = sender.wait()
            let note: Comment = "seed \(random.seed), round \(round): \(lost.error)"
            #expect([0, 69, 75].contains(lost.exit), note)
            behind.relay.mend()
            // A claim whose commit had no answer has rows that nobody knows of until its lease ends.
            try behind.endLeases()
            let next = try behind.stage.send().ends(0, for: "\(note)")
            let problem = try behind.problem()
            #expect(problem == nil, "\(note): \(problem ?? "") \(next.error)")
            #expect(try behind.kept().isEmpty)
        }
    }

    @Test("connections that are killed again and again cost no answer")
    func killedConnections() throws {
        for round in 0..<Self.rounds {
            var random = SeededGenerator("killed connections")
            let behind = try Behind(resends: true)
            let sender = try behind.stage.start(["send"])
            for _ in 0..<3 {
                behind.await(requests: Int.random(in: 1..<Self.rows, using: &random))
                behind.relay.cut()
                usleep(UInt32.random(in: 0..<200_000, using: &random))
                behind.relay.mend()
            }
            let result = sender.wait()
            let note: Comment = "seed \(random.seed), round \(round): \(result.error)"
            result.ends(0, for: "\(note)")
            let problem = try behind.problem()
            #expect(problem == nil, "\(note): \(problem ?? "")")
        }
    }

    @Test("a sweep that judges the answers of a killed sender says that an earlier run left them")
    func judgedLater() throws {
        var behind = try Behind(resends: false)
        // A sender may have written all its answers before the kill; five of them never have.
        for _ in 0..<5 {
            let sender = try behind.stage.start(["send"])
            behind.await(requests: 200)
            behind.relay.cut()
            behind.await(requests: 400)
            sender.signal(SIGKILL)
            _ = sender.wait()
            behind.relay.mend()
            if try behind.kept().values.contains(.gone) { break }
            behind = try Behind(resends: false)
        }
        #expect(try behind.kept().values.contains(.gone))
        try behind.endLeases()
        try behind.stage.start(["sweep", "--format", "json"]).wait().ends(0)
            .app(has: ["resumed": true])
    }

    @Test("no answer that a killed sender has kept becomes unknown, with its database or without")
    func killedSender() throws {
        var kept = 0
        for round in 0..<Self.rounds * 2 {
            var random = SeededGenerator("killed senders that keep answers")
            let behind = try Behind(resends: false)
            let sender = try behind.stage.start(["send"])
            behind.await(requests: Int.random(in: 1..<Self.rows, using: &random))
            if round % 2 == 1 {
                behind.relay.cut()
                usleep(UInt32.random(in: 0..<300_000, using: &random))
            }
            sender.signal(SIGKILL)
            _ = sender.wait()
            behind.relay.mend()
            let outcomes = try behind.kept()
            kept += outcomes.count
            try behind.endLeases()
            let next = try behind.stage.send()
            let note: Comment = "seed \(random.seed), round \(round): \(next.error)"
            #expect([0, 75].contains(next.exit), note)
            var wrong: [String] = []
            for row in try behind.stage.database.texts("SELECT id, state FROM push_queue") {
                guard let key = Int64(row[0]), let outcome = outcomes[key] else { continue }
                if !outcome.allows(row[1]) { wrong.append("\(key) \(outcome) \(row[1])") }
            }
            #expect(wrong.isEmpty, "\(note): \(wrong.prefix(5))")
            #expect(behind.stage.gateway.log.acceptedTwice.isEmpty, note)
        }
        print("killed senders that keep answers: \(kept) answers kept")
    }
}

/// What a kept result says about its row.
private enum DeliveryOutcome {
    case sent, gone, failed, open

    init(_ outcome: Outcome) {
        self =
            switch outcome.state {
            case .sent: .sent
            case .gone: .gone
            case .failed: .failed
            case .retry, .unknown, .skipped, .pending, .claimed: .open
            }
    }

    /// Whether the row may have a state in the end.
    func allows(_ state: String) -> Bool {
        switch self {
        case .sent: state == "sent"
        case .gone: state == "gone"
        case .failed: state == "failed"
        case .open: state != "unknown"
        }
    }
}
