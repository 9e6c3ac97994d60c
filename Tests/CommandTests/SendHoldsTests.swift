import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("A storm of 410 answers", .serialized)
struct SendHoldsTests {
    /// Notifications on SQLite and on a server.
    private static let lengths = Series.isLong ? [10_000, 1_000] : [2_000, 500]

    private func storm(_ engine: TestEngine, _ count: Int) throws -> SendStage {
        var script = ProviderScript()
        script.usual = .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        return try SendStage(engine, rows: count, script: script)
    }

    /// Releases the only hold and compares the table.
    private func releaseAll(_ stage: SendStage, _ count: Int) throws {
        let shown = try stage.shownHold()
        #expect(try shown["candidates"] as? Int == count - stage.marked)
        try stage.run("holds", "release", shown["digest"] as? String ?? "").ends(0)
        #expect(try stage.marked == count)
        #expect(try stage.holds().isEmpty)
    }

    @Test("a sender notes what a person began to discard before it judges its answers")
    func discarding() throws {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        var script = ProviderScript()
        script.tokens[.numbered(0)] = .reply(ScriptedReply(.unregistered, timestamp: now - 1_000))
        let stage = try SendStage(rows: 1, script: script)
        let later = stage.database.time(now + 3_600_000)
        // As a run leaves it that was killed behind its first statement.
        try stage.database.execute(
            "INSERT INTO pushsweep_batch (name, run, app, app_name, environment, source, state, inlet, "
                + "label, host, opened_at, ending, reports, changed_at, asked_at) VALUES ('left', 'r', 'chat', "
                + "'chat', 'production', 'Unregistered', 'discarding', 'table', 'l', 'h', ?, 'clean', 1, ?, ?)",
            [later, later, later])
        try stage.database.execute(
            "INSERT INTO pushsweep_report (batch, token, number, evidence_at, changed_at) VALUES (\(batchNumber("left")), ?, 0, ?, ?)",
            [.bytes(DeviceToken.numbered(0).bytes), later, later])
        _ = try stage.send()
        #expect(try stage.states() == ["gone": 1])
        #expect(
            try stage.database.texts("SELECT state FROM pushsweep_batch WHERE name = 'left'") == [
                ["discarded"]
            ])
        #expect(try stage.database.rows(of: "pushsweep_spared") == 1)
        #expect(try stage.database.marked == 0)
    }

    @Test("the answers are kept and held, and the sender sends the rest of the queue")
    func held() throws {
        for (engine, count) in zip(TestEngine.available.reversed(), Self.lengths) {
            let stage = try storm(engine, count)
            let result = try stage.send().ends(3, for: "\(engine)")
            #expect(try stage.states() == ["gone": count])
            let evidence = result.app()["evidence"] as? [String: Int] ?? [:]
            let marked = try stage.marked
            #expect(marked <= 100)
            #expect(evidence["tuples"] == count && evidence["applied"] == marked)
            #expect(evidence["held"] == count - marked)
            result.says("held=\(count - marked) next=holds")
            let records = try stage.database.texts("SELECT kind, guard_result FROM pushsweep_run")
            #expect(records == [["send", "held: chat/production partition-percent"]])
            try releaseAll(stage, count)
        }
    }

    @Test("the hold can be shown and released while its sender runs")
    func whileSending() throws {
        let count = 1_000
        let stage = try storm(.sqlite, count)
        let sender = try stage.start(["send", "--follow"])
        defer { sender.signal(SIGKILL) }
        try eventually { try stage.states() == ["gone": count] }
        try eventually {
            try !stage.holds().isEmpty
                && stage.shownHold()["candidates"] as? Int == count - stage.marked
        }
        try releaseAll(stage, count)
        sender.signal(SIGTERM)
        sender.wait().ends(3)
    }
}
