import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing
import TokenHygiene

// Four faults of senders that fail nowhere. Each is heard of by one host, through each of the three ways in, and told
// by another host that shares the database alone.

/// A way in for what APNs says.
enum HeardBy: String, CaseIterable, Sendable {
    case insert, file, sender
}

private let day: Int64 = 86_400_000

/// A database, a host that hears, and one that looks.
private struct SharedStage {
    let stage: SendStage
    let now: Int64
    var looking: [String: String] { ["PUSHSWEEP_STATE": stage.folder.file("state-of-b")] }

    /// Devices that registered some months ago, and answers of the own sender's gateway about tokens.
    init(_ engine: TestEngine, _ devices: Int, answers: [Int: ProviderReason] = [:]) throws {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        var script = ProviderScript()
        for (number, reason) in answers {
            // A 410 says since when.
            script.tokens[.numbered(number)] = .reply(
                reason == .unregistered
                    ? ScriptedReply(reason, timestamp: now - 60_000)
                    : ScriptedReply(reason))
        }
        stage = try SendStage(engine, script: script)
        self.now = now
        try stage.database.register(0..<devices, at: now - 100 * day)
    }

    /// Lets one host hear these answers.
    func hear(
        _ answers: [Int: ProviderReason], by inlet: HeardBy, sending others: Range<Int> = 0..<0
    )
        throws
    {
        switch inlet {
        case .insert:
            for (number, reason) in answers {
                try stage.database.report(
                    DeviceToken.numbered(number).hex, status: reason.status,
                    reason: "\(reason)", time: now - 60_000)
            }
            try stage.run("sweep").ends(0)
        case .file:
            let lines = answers.map { number, reason in
                #"{"device_token":"\#(DeviceToken.numbered(number).hex)","#
                    + #""status":\#(reason.status ?? 0),"reason":"\#(reason)","#
                    + #""timestamp_ms":\#(now - 60_000)}"# + "\n"
            }
            let file = try stage.folder.write("log.jsonl", lines.joined())
            try stage.run("import", file, "--from", "jsonl", "--app", "chat").ends(0)
        case .sender:
            // A sender that hears of bad tokens alone stops.
            try stage.queue(Array(others) + answers.keys.sorted())
            try stage.send().ends(0)
        }
    }

    /// Lets the other host look.
    func looks(_ words: [String], finds sentences: String..., exit: Int32 = 0) throws {
        let result = try stage.run(words, environment: looking).ends(exit)
        let text = (result.output + result.error).split(whereSeparator: \.isWhitespace)
            .joined(separator: " ")
        for sentence in sentences {
            #expect(text.contains(sentence), "\(words): \(sentence): \(result.output)")
        }
    }
}

@Suite("Faults that fail nowhere are told on another host")
struct SilentFaultTests {
    @Test(
        "tokens that APNs calls bad are told by audit, explain and the gate, and marked by nobody",
        arguments: TestEngine.inTurn(HeardBy.allCases))
    func bad(_ engine: TestEngine, _ inlet: HeardBy) throws {
        let answers = Dictionary(
            uniqueKeysWithValues: (0..<36).map { ($0, ProviderReason.badDeviceToken) })
        let shared = try SharedStage(engine, 400, answers: answers)
        try shared.hear(answers, by: inlet, sending: 36..<400)
        try shared.looks(["audit"], finds: "36 of 400 living tokens bad")
        try shared.looks(
            ["explain", DeviceToken.numbered(3).hex],
            finds: "APNs called it bad, 1 time", "no answer is known that accepted it")
        let list = try shared.stage.folder.write(
            "send", (0..<80).map { DeviceToken.numbered($0).hex + "\n" }.joined())
        try shared.looks(
            ["preflight", "--read-only", "--tokens-from", list],
            finds:
                "high: suspect-tokens: chat/production: APNs called 36 of 80 living tokens of the send bad",
            exit: 2
        )
        #expect(try shared.stage.marked == 0)
    }

    @Test(
        "evidence that fits no row is told by audit, check and the gate",
        arguments: TestEngine.inTurn([HeardBy.insert, .file]))
    func noRow(_ engine: TestEngine, _ inlet: HeardBy) throws {
        // A sender of ours asks for no token without a row.
        let shared = try SharedStage(engine, 40)
        try shared.hear(
            Dictionary(uniqueKeysWithValues: (1_000..<1_030).map { ($0, .unregistered) }), by: inlet
        )
        let words = "30 of the 30 reports of the last 7 days name a token that no row has"
        try shared.looks(["audit"], finds: "Not healthy: chat/production: \(words)")
        try shared.looks(
            ["check"], finds: "warning: database: chat/production: \(words)",
            "[evidence-fits-no-row]")
        try shared.looks(
            ["preflight", "--read-only"],
            finds: "medium: evidence-fits-no-row: chat/production: \(words)")
    }

    @Test(
        "evidence that stopped two weeks ago is told by audit, check and the gate",
        arguments: TestEngine.inTurn(HeardBy.allCases))
    func stopped(_ engine: TestEngine, _ inlet: HeardBy) throws {
        let answers = Dictionary(
            uniqueKeysWithValues: (0..<16).map { ($0, ProviderReason.unregistered) })
        let shared = try SharedStage(engine, 400, answers: answers)
        for number in 0..<16 { try shared.hear([number: .unregistered], by: inlet) }
        try shared.looks(["audit"], finds: "Healthy")
        // One batch a day, the last of them 15 days ago.
        let batches = try shared.stage.database.texts(
            "SELECT name FROM pushsweep_batch WHERE source = 'Unregistered' ORDER BY opened_at")
        #expect(batches.count == 16)
        for (number, batch) in batches.enumerated() {
            let time = shared.stage.database.time(shared.now - Int64(30 - number) * day)
            try shared.stage.database.execute(
                "UPDATE pushsweep_batch SET changed_at = ?, opened_at = ? WHERE name = ?",
                [time, time, .text(batch[0])])
        }
        let words = "no evidence for 14 whole days, where it came each day"
        try shared.looks(["audit"], finds: "Not healthy: chat/production: \(words)")
        try shared.looks(["check"], finds: "chat/production: \(words)", "[evidence-stopped]")
        try shared.looks(
            ["preflight", "--read-only"],
            finds: "medium: evidence-stopped: chat/production: \(words)")
    }
}
