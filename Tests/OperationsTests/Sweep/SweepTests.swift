import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000
private let after: Int64 = 1_800_000_000_000

@Suite("A sweep")
struct SweepTests {
    private func stage(
        _ engine: TestEngine = .sqlite, behaviour: FeedbackBehaviour = FeedbackBehaviour()
    ) throws -> SweepStage {
        let stage = try SweepStage(
            engine, feeds: [.tuples((1...4).map { .dead($0, at: start) })], behaviour: behaviour)
        try stage.database.register(.numbered(1), at: before)
        try stage.database.register(.numbered(2), at: after)
        try stage.database.register(.numbered(3), at: before, mark: after)
        return stage
    }

    private func checksum(_ stage: SweepStage) throws -> [[String]] {
        try stage.database.texts("SELECT * FROM active_users ORDER BY id")
    }

    @Test("a dry run keeps the feed pending, and the next run applies it")
    func dryRun() throws {
        for engine in TestEngine.available {
            let stage = try stage(engine)
            let rows = try checksum(stage)
            try stage.swept(dryRun: true).ends(75).app(has: [
                "applied": 1, "newer": 1, "already": 1, "unknown": 1, "state": "pending",
            ])
            #expect(try checksum(stage) == rows)
            for table in ["pushsweep_change", "pushsweep_feed", "pushsweep_run"] {
                #expect(try stage.database.count("SELECT COUNT(*) FROM \(table)") == 0)
            }
            let real = try stage.swept().ends(0).app(has: [
                "resumed": true, "applied": 1, "newer": 1,
            ]).app(1, has: ["tuples": 0])
            let runs = try stage.database.texts(
                "SELECT id, kind, ended IS NOT NULL FROM pushsweep_run")
            #expect(runs == [[real.json["run"] as? String ?? "", "sweep", "1"]])
        }
    }

    @Test("a run with the action delete deletes stale rows, keeps their content, and no fresh one")
    func deleteMode() throws {
        for engine in TestEngine.available {
            let stage = try stage(engine)
            stage.lines.policy = "policy: {action: delete}"
            try stage.swept().ends(0).app(has: ["applied": 2])
            #expect(try stage.database.texts("SELECT device_token FROM active_users").count == 1)
            let images = try stage.database.texts(
                "SELECT action, before_image FROM pushsweep_change")
            #expect(images.map { $0[0] } == ["delete", "delete"])
            #expect(images.allSatisfy { $0[1].contains("user_id") })
        }
    }

    @Test("a run whose database refuses leaves an older feed pending and ends with 75")
    func pendingAndUnreachable() throws {
        let stage = try stage()
        try stage.swept(dryRun: true).ends(75)
        let good = stage.lines.store
        stage.lines.store =
            "url: mysql://nobody@127.0.0.1:1/push\n  tls: {mode: \"off\"}"
        try stage.swept().ends(75)
        #expect(stage.gateway.records.count == 1)
        stage.lines.store = good
        try stage.swept().ends(0)
    }
}
