import APNsProtocol
import APNsSimulator
import Foundation
import Operations
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("A sweep")
struct SweepTests {
    @Test("a dry run keeps the feed pending, and the next run applies it")
    func dryRun() throws {
        for engine in TestEngine.available {
            let stage = try SweepStage.mixed(engine)
            let rows = try stage.database.contents
            try stage.swept(dryRun: true).ends(75).app(has: [
                "applied": 1, "newer": 1, "already": 1, "unknown": 1, "state": "pending",
            ])
            #expect(try stage.database.contents == rows)
            for table in ["pushsweep_change", "pushsweep_batch", "pushsweep_run"] {
                #expect(try stage.database.rows(of: table) == 0)
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
            let stage = try SweepStage.mixed(engine)
            stage.lines.policy = "policy: {action: delete}"
            try stage.swept().ends(0).app(has: ["applied": 2])
            #expect(try stage.database.texts("SELECT device_token FROM active_users").count == 1)
            let images = try stage.database.texts(
                "SELECT action, before_image FROM pushsweep_change")
            #expect(images.map { $0[0] } == ["delete", "delete"])
            #expect(images.allSatisfy { $0[1].contains("user_id") })
        }
    }

    @Test(
        "a stop between two chunks leaves the batch pending with its numbers, and the next run ends it"
    )
    func stopped() throws {
        let stage = try SweepStage(.sqlite, dead: 1_000)
        try stage.swept(stopping: "applying ").ends(
            75, "code=75", "stopped after 900 of 1000 reports"
        ).app(has: ["state": "pending", "applied": 900])
        #expect(try stage.database.marked == 900)
        try stage.swept().ends(0).app(has: ["state": "applied", "resumed": true, "applied": 1_000])
        #expect(try stage.database.marked == 1_000)
    }

    @Test(
        "the database's clock says when a batch was heard, also where that of the host is an hour off",
        arguments: [-3_600_000, 3_600_000])
    func wrongClock(_ clockAhead: Int64) throws {
        let stage = try SweepStage(.sqlite, dead: 1)
        let swept = try stage.swept(clockAhead: clockAhead).ends(0)
        let name = try #require(swept.app()["batch"] as? String)
        let batch = try #require(try Batches(stage.database.store()).batch(name))
        let age = EpochMilliseconds.current.rawValue - batch.opened.rawValue
        #expect(age.magnitude < 600_000, "\(age) ms")
    }

    @Test("a run whose database refuses leaves an older feed pending and ends with 75")
    func pendingAndUnreachable() throws {
        let stage = try SweepStage.mixed()
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
