import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000
private let gone: Int64 = 1_700_000_000_123

@Suite("A storm of 410 answers", .serialized)
struct SendHoldsTests {
    private static let count = 10_000

    private func storm(_ engine: TestEngine) throws -> SendStage {
        var script = ProviderScript()
        script.usual = .reply(ScriptedReply(.unregistered, timestamp: gone))
        let stage = try SendStage(engine, script: script)
        try stage.database.register(0..<Self.count, at: registered)
        try stage.queue(0..<Self.count)
        return stage
    }

    private func marks(_ stage: SendStage) throws -> Int {
        try stage.database.count(
            "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL")
    }

    private func holds(_ stage: SendStage) throws -> [[String: Any]] {
        let list = try stage.start(["holds", "list", "--format", "json"]).wait()
        #expect(list.exit == 0, "\(list.error)")
        return list.json["holds"] as? [[String: Any]] ?? []
    }

    /// Rows that the only hold would make invalid; 0 while there is none.
    private func candidates(_ stage: SendStage) throws -> Int {
        guard let hold = try holds(stage).first?["hold"] as? String else { return 0 }
        let show = try stage.start(["holds", "show", hold, "--format", "json"]).wait()
        return show.json["candidates"] as? Int ?? 0
    }

    /// Releases the only hold and compares the table.
    private func releaseAll(_ stage: SendStage) throws {
        let hold = try #require(try holds(stage).first?["hold"] as? String)
        let show = try stage.start(["holds", "show", hold, "--format", "json"]).wait()
        #expect(show.exit == 0, "\(show.error)")
        let marked = try marks(stage)
        #expect(show.json["candidates"] as? Int == Self.count - marked)
        let digest = try #require(show.json["digest"] as? String)
        let release = try stage.start(["holds", "release", digest]).wait()
        #expect(release.exit == 0, "\(release.error)")
        #expect(try marks(stage) == Self.count)
        #expect(try holds(stage).isEmpty)
    }

    @Test(
        "the answers are kept and held, and the sender sends the rest of the queue",
        arguments: TestEngine.available)
    func held(_ engine: TestEngine) throws {
        let stage = try storm(engine)
        let result = try stage.send()
        #expect(result.exit == 3, "\(result.error)")
        #expect(try stage.states() == ["gone": Self.count])
        let evidence = result.app()["evidence"] as? [String: Int] ?? [:]
        let marked = try marks(stage)
        #expect(marked <= 100)
        #expect(evidence["tuples"] == Self.count)
        #expect(evidence["held"] == Self.count - marked)
        #expect(evidence["applied"] == marked)
        #expect(result.closingLine.contains("held=\(Self.count - marked) next=holds"))
        let records = try stage.database.texts("SELECT kind, guard_result FROM pushsweep_run")
        #expect(records == [["send", "held: chat/production partition-percent"]])
        try releaseAll(stage)
    }

    @Test("the hold can be shown and released while its sender runs")
    func whileSending() throws {
        let stage = try storm(.sqlite)
        let sender = try stage.start(["send", "--follow"])
        defer { sender.signal(SIGKILL) }
        let deadline = Deadline.in(.seconds(60))
        while try stage.states() != ["gone": Self.count], !deadline.hasPassed {}
        while try candidates(stage) + marks(stage) != Self.count, !deadline.hasPassed {}
        try releaseAll(stage)
        sender.signal(SIGTERM)
        #expect(sender.wait().exit == 3)
    }
}
