import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000
private let after: Int64 = 1_800_000_000_000

@Suite("A run")
struct RunTests {
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
            let dry = try stage.sweep("--dry-run")
            #expect(dry.exit == 75, "\(dry.error)")
            #expect(dry.app()["applied"] as? Int == 1)
            #expect(dry.app()["newer"] as? Int == 1)
            #expect(dry.app()["already"] as? Int == 1)
            #expect(dry.app()["unknown"] as? Int == 1)
            #expect(dry.app()["state"] as? String == "pending")
            #expect(try checksum(stage) == rows)
            for table in ["pushsweep_change", "pushsweep_feed", "pushsweep_run"] {
                #expect(try stage.database.count("SELECT COUNT(*) FROM \(table)") == 0)
            }
            let real = try stage.sweep()
            #expect(real.exit == 0, "\(real.error)")
            #expect(real.app()["resumed"] as? Bool == true)
            #expect(real.app()["applied"] as? Int == 1)
            #expect(real.app()["newer"] as? Int == 1)
            #expect(real.app(1)["tuples"] as? Int == 0)
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
            let result = try stage.sweep()
            #expect(result.exit == 0, "\(result.error)")
            #expect(result.app()["applied"] as? Int == 2)
            #expect(
                try stage.database.texts("SELECT device_token FROM active_users").count == 1)
            let images = try stage.database.texts(
                "SELECT action, before_image FROM pushsweep_change")
            #expect(images.map { $0[0] } == ["delete", "delete"])
            #expect(images.allSatisfy { $0[1].contains("user_id") })
        }
    }

    @Test("a run is quiet on success under cron and prints one machine-readable line on failure")
    func quiet() throws {
        let stage = try stage()
        let result = try stage.run("sweep")
        #expect(result.exit == 0)
        #expect(result.output == "")
        #expect(result.error == "")
        stage.lines.store = "url: sqlite:///nowhere/at/all.sqlite"
        let failed = try stage.run("sweep")
        #expect(failed.exit != 0)
        #expect(
            failed.closingLine.wholeMatch(
                of: /code=\d+ stage=\w+ pending=\d+ applied=\d+ held=\d+ next=\w+/) != nil)
    }

    @Test("a second run ends with 4 before it connects to anything")
    func overlap() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let first = try stage.start(["sweep"])
        stage.awaitJournal()
        let second = try stage.sweep()
        #expect(second.exit == 4)
        #expect(second.error.contains("lock"))
        first.signal(SIGTERM)
        #expect(first.wait().exit == 75)
        #expect(stage.gateway.records(atLeast: 1).count == 1)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        let third = try stage.sweep()
        #expect(third.exit == 0, "\(third.error)")
        #expect(third.error.contains("told to stop"))
        #expect(third.app()["resumed"] as? Bool == true)
        #expect(third.app()["applied"] as? Int == 1)
    }

    @Test("a run stopped during silence ends with 75 and keeps the bytes that it read")
    func stopSignal() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let run = try stage.start(["sweep", "--format", "json"])
        stage.awaitJournal()
        let clock = ContinuousClock.now
        run.signal(SIGTERM)
        let result = run.wait()
        #expect(result.exit == 75, "\(result.error)")
        #expect(ContinuousClock.now - clock < .seconds(30), "the silence is over after 60")
    }

    @Test("replay applies a file like a feed, and again without any change")
    func replay() throws {
        let stage = try stage()
        let file = try stage.folder.write(
            "feed.bin", FeedbackTuple.bytes([.dead(1, at: start), .dead(2, at: start)]))
        let dry = try stage.run("replay", file, "--dry-run", "--format", "json")
        #expect(!FileManager.default.fileExists(atPath: stage.state + "/trial"))
        if FileManager.default.fileExists(atPath: stage.journal) {
            #expect(try stage.journaledBytes().isEmpty)
        }
        #expect(dry.exit == 0, "\(dry.error)")
        #expect(dry.app()["applied"] as? Int == 1)
        let first = try stage.run("replay", file, "--format", "json")
        #expect(first.exit == 0, "\(first.error)")
        #expect(first.app()["applied"] as? Int == 1)
        #expect(first.app()["newer"] as? Int == 1)
        let rows = try checksum(stage)
        let second = try stage.run("replay", file, "--format", "json")
        #expect(second.app()["already"] as? Int == 1)
        #expect(second.app()["rowsChanged"] as? Int == 0)
        #expect(try checksum(stage) == rows)
        #expect(stage.gateway.records.isEmpty)
        let wrong = try stage.run("replay")
        #expect(wrong.exit == 64)
        #expect(wrong.closingLine == "code=64 stage=usage pending=0 applied=0 held=0 next=usage")
        #expect(try stage.run("replay", "/no/such/file").exit == 64)
        let folder = try stage.run("replay", stage.folder.path)
        #expect(folder.exit == 64 && folder.error.contains("it is a directory; name a file"))
    }

    @Test("a run whose database refuses leaves an older feed pending and ends with 75")
    func pendingAndUnreachable() throws {
        let stage = try stage()
        #expect(try stage.sweep("--dry-run").exit == 75)
        let good = stage.lines.store
        stage.lines.store =
            "url: mysql://nobody@127.0.0.1:1/push\n  tls: {mode: \"off\"}"
        let result = try stage.sweep()
        #expect(result.exit == 75, "\(result.error)")
        #expect(stage.gateway.records.count == 1)
        stage.lines.store = good
        #expect(try stage.sweep().exit == 0)
    }

    @Test("a run prints neither a whole token nor a password, whatever fails")
    func canary() throws {
        let secret = "canary-password-7291"
        let stage = try stage()
        let token = FeedbackVector.tutorialHex
        let tuple = FeedbackTuple(
            time: EpochSeconds(start), token: DeviceToken(FeedbackVector.tutorial))
        stage.gateway.add(.bytes(FeedbackTuple.bytes([tuple]) + [1, 2, 3]))
        try stage.database.register(
            try #require(DeviceToken(FeedbackVector.tutorial)), at: before)
        var seen: [ToolResult] = []
        for arguments in [
            ["check"], ["sweep", "--verbose"], ["sweep", "--verbose"],
            ["sweep", "--format", "json"],
            ["quarantine", "list"], ["schema", "print"], ["schema", "apply"],
            ["replay", try stage.folder.write("canary.bin", FeedbackTuple.bytes([tuple]))],
            ["quarantine", "discard", "no-such-feed"],
        ] {
            seen.append(
                try stage.start(
                    arguments, environment: ["PUSHSWEEP_STORE_PASSWORD": secret]
                ).wait())
        }
        for result in seen {
            let text = (result.output + result.error).lowercased()
            #expect(!text.contains(secret))
            #expect(!text.contains(token))
            #expect(!text.contains(String(token.prefix(20))))
        }
        #expect(seen[0].output.contains("(set)"))
        #expect(try stage.database.marks().contains { $0.hasPrefix(token) })
    }
}
