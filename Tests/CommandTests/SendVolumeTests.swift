import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000
private let gone: Int64 = 1_700_000_000_123

@Suite("A long queue", .serialized)
struct SendVolumeTests {
    /// Notifications.
    private static let count = Series.length("PUSHSWEEP_TEST_QUEUE", short: 5_000, long: 20_000)

    @Test("with stale tokens, 410s and many GOAWAYs each row ends in one state, once")
    func storm() throws {
        let engine = TestEngine.available[0]
        let scenario = ProviderScenario([
            .init(goAway: .init(atRequest: 1_000, unprocessed: 5, unanswered: 1))
        ])
        var script = ProviderScript()
        script.shares = [
            .init(
                millionths: 10_000, action: .reply(ScriptedReply(.unregistered, timestamp: gone)))
        ]
        let stage = try SendStage(engine, script: script, scenario: scenario)
        stage.lines = SweepStage.anyNumber
        try stage.database.register(0..<Self.count, at: registered)
        let id = engine == .mariaDB ? "id" : "rowid"
        // Every twentieth is stale, and every tenth registers after the 410 that it may meet.
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = ? WHERE \(id) % 20 = 3",
            [stage.database.time(registered + 60_000)])
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE \(id) % 10 = 5",
            [stage.database.time(gone + 60_000)])
        try stage.queue(0..<Self.count)

        let result = try stage.send().ends(0)
        let book = stage.gateway.log
        let states = try stage.states()
        let stale = Self.count / 20
        #expect(states["skipped"] == stale)
        #expect(states.values.reduce(0, +) == Self.count)
        #expect(Set(states.keys).isSubset(of: ["sent", "gone", "skipped", "unknown"]))
        // A lost connection can lose an answer too, or a request that the gateway never saw.
        // Each answer is a result, or one of the unknown outcomes.
        let unknown = states["unknown", default: 0]
        #expect(unknown >= book.totals.unanswered)
        let answered = book.totals.answered.values.reduce(0, +)
        let lost = unknown - book.totals.unanswered
        let results = states["sent", default: 0] + states["gone", default: 0]
        #expect(answered >= results && answered <= results + lost)
        #expect(book.totals.unprocessed > 0)
        #expect(book.acceptedTwice.isEmpty)
        let wired = Set(book.records.compactMap { $0.token })
        #expect(wired.count == Self.count - stale, "a stale token was on the wire, or one was not")

        let marked = try stage.database.rows(of: "active_users", "invalid_reason = 'Unregistered'")
        let wrongly = try stage.database.rows(
            of: "active_users", "invalid_reason = 'Unregistered' AND registered_at > invalidated_at"
        )
        #expect(wrongly == 0)
        let evidence = result.app()["evidence"] as? [String: Int] ?? [:]
        #expect(evidence["applied"] == marked)
        #expect(evidence["tuples"] == states["gone"])
        #expect(evidence["newer", default: 0] + marked == states["gone"])
        #expect(marked > 0 && evidence["newer", default: 0] > 0)
        print("a queue of \(Self.count): \(states), \(book.totals.unprocessed) sent again")
    }
}
