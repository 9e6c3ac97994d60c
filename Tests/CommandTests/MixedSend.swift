// The checker behind every fault that ends a sender early. The gateway's book is the reference: it
// has every notification that was ever accepted.

import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport

private let registered: Int64 = 1_690_000_000_000
private let gone: Int64 = 1_700_000_000_123

/// One queue of notifications to tokens that live, are marked, are gone, or came back since.
struct MixedSend: InterruptedRun {
    /// The state of a token in the gateway or the table.
    private enum Kind: Int {
        case living, stale, gone, returned
        init(_ number: Int) {
            self =
                number % 20 == 3
                ? .stale : number % 50 == 7 ? .gone : number % 100 == 9 ? .returned : .living
        }
    }

    let stage: SendStage
    private let count: Int

    init(_ engine: TestEngine, count: Int) throws {
        self.count = count
        var script = ProviderScript()
        for number in 0..<count where [.gone, .returned].contains(Kind(number)) {
            script.tokens[.numbered(number)] = .reply(
                ScriptedReply(.unregistered, timestamp: gone))
        }
        stage = try SendStage(engine, script: script)
        try stage.database.register(0..<count, at: registered)
        for number in 0..<count {
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
        try stage.queue(0..<count)
    }

    var folder: TemporaryFolder { stage.folder }
    /// The state folder of the first sender of this host.
    var state: String { stage.folder.file("state/send/1") }

    func start(under command: [String] = []) throws -> RunningTool {
        try stage.start(["send"], under: command)
    }

    /// Ends the leases of senders that are dead and lets another finish. Rows without an answer at
    /// their end may be of unknown outcome.
    func recover() throws -> String? {
        try stage.database.execute(
            "UPDATE pushsweep_claim SET expires_at = ?", [stage.database.time(registered)])
        let result = try stage.send()
        guard result.exit == 0 else {
            return "the last run ended with \(result.exit): \(result.error)"
        }
        return try wrongRow(mayBeUnknown: true)
    }

    func wrongSuccess() throws -> String? { try wrongRow(mayBeUnknown: false) }

    private func wrongRow(mayBeUnknown: Bool) throws -> String? {
        let states = try stage.database.texts(
            "SELECT device_token, state FROM push_queue ORDER BY id")
        guard states.count == count else { return "\(states.count) rows are left" }
        let records = stage.gateway.log.records
        guard stage.gateway.log.acceptedTwice.isEmpty else { return "accepted twice" }
        let accepted = Set(records.filter(\.isAccepted).compactMap { $0.token?.hex })
        let wired = Set(records.compactMap { $0.token?.hex })
        let marked = Set(
            try stage.database.texts(
                "SELECT device_token FROM active_users WHERE invalid_reason = 'Unregistered'"
            ).map { $0[0] })
        for (number, row) in states.enumerated() {
            guard mayBeUnknown || row[1] != "unknown" else {
                return "row \(number) is unknown after success"
            }
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
