import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let before: Int64 = 1_600_000_000_000

/// Tuples about numbered tokens with times of their own.
private func tuples(_ numbers: some Sequence<Int>) -> [FeedbackTuple] {
    numbers.map { .dead($0, at: 1_700_000_000 + UInt32($0)) }
}

@Suite("The digest of a hold", .serialized)
struct HoldsSettingsTests {
    private func digest(_ stage: SweepStage) throws -> String {
        let list = try stage.run("holds", "list", "--format", "json").json["holds"]
        let hold = (list as? [[String: Any]])?.first?["hold"] as? String ?? ""
        let show = try stage.run("holds", "show", hold, "--format", "json")
        #expect(show.exit == 0, "\(show.error)")
        return show.json["digest"] as? String ?? ""
    }

    private func changes(_ stage: SweepStage) throws -> Int {
        try stage.database.count("SELECT COUNT(*) FROM pushsweep_change")
    }

    @Test("the digest covers the settings that decide what a release does")
    func settings() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500))])
        try stage.database.register(0..<1_000, at: before)
        try stage.database.execute(
            "CREATE TABLE other_users (id INTEGER PRIMARY KEY, app_id TEXT, environment TEXT, "
                + "device_token BLOB, registered_at DATETIME, invalidated_at DATETIME, "
                + "invalid_reason TEXT)")
        try stage.database.execute(
            "INSERT INTO other_users SELECT id, app_id, environment, device_token, registered_at, "
                + "NULL, NULL FROM active_users")
        try stage.database.execute("ALTER TABLE active_users ADD COLUMN seen_at DATETIME")
        #expect(try stage.sweep().exit == 3)
        let seen = try digest(stage)
        let unchanged = stage.lines
        let policies = [
            "{action: delete}", "{action: mark, delete-without-registration-time: true}",
            "{action: delete, delete-after: 7d}", "{action: delete, delete-after: 8d}",
            "{action: mark, clock-skew: 30s}",
        ]
        let mappings = [
            "table: other_users", "environment: none", "registered-at: {column: seen_at}",
            "registered-at: {column: registered_at, zone: \"+02:00\"}", "invalidated-at: none",
            "reason: none",
            "environment: {column: environment, values: {production: prod}}",
        ]
        var looks: Set = [seen]
        for change in policies.map({ ("policy", $0) }) + mappings.map({ ("mapping", $0) }) {
            stage.lines = unchanged
            if change.0 == "policy" {
                stage.lines.policy = "policy: \(change.1)"
            } else {
                stage.lines.activeUsers = "  active-users: {\(change.1)}"
            }
            let released = try stage.run("holds", "release", seen)
            #expect(released.exit == 64, "\(change.1): \(released.exit) \(released.error)")
            #expect(released.error.contains("look again"), "\(change.1): \(released.error)")
            #expect(try changes(stage) == 0, "\(change.1)")
            let other = try digest(stage)
            #expect(looks.insert(other).inserted, "\(change.1) is not part of the digest")
        }
        stage.lines = unchanged
        #expect(try digest(stage) == seen)
        // A setting without effect on the release needs no new look.
        stage.lines.limits = "guard: {floor: 7}"
        let released = try stage.run("holds", "release", seen)
        #expect(released.exit == 0)
        #expect(try changes(stage) == 500)
        // What a person does on purpose says what it did, without a terminal too.
        #expect(released.output.contains("500 tuples, 500 became invalid"), "\(released.output)")
    }

    @Test("the digest covers the value by which the table knows the app")
    func appValue() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500))])
        try stage.database.register(0..<1_000, at: before)
        for number in 0..<1_000 {
            try stage.database.register(.numbered(number), at: before, app: "talk")
        }
        #expect(try stage.sweep().exit == 3)
        let seen = try digest(stage)
        let file = try stage.settings()
        let text = try String(contentsOfFile: file, encoding: .utf8)
        let changed = try stage.folder.write(
            "other.yaml",
            Array(
                text.replacing("  - name: chat\n", with: "  - name: chat\n    value: talk\n").utf8))
        let released = try RunningTool(
            "pushsweep", ["holds", "release", seen, "--config", changed]
        ).wait()
        #expect(released.exit == 64 && released.error.contains("look again"), "\(released.error)")
        #expect(try changes(stage) == 0)
    }
}

@Suite("A feed about another table or app", .serialized)
struct UnknownFeedTests {
    private func unknown(_ count: Int, known: Int = 0) -> FeedSource {
        .tuples(tuples((10_000..<10_000 + count - known)) + tuples(0..<known))
    }

    @Test(
        "a feed about another table is held, even if it would change nothing, and can be released",
        arguments: TestEngine.available)
    func held(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [unknown(100)])
        try stage.database.register(0..<300, at: before)
        let result = try stage.sweep()
        #expect(result.exit == 3, "\(result.error)")
        #expect(result.app()["state"] as? String == "held")
        #expect(result.app()["gate"] as? String == "unknown-tokens")
        #expect(result.app()["held"] as? Int == 100)
        for part in ["100 of 100", "active-users.table", "certificate"] {
            #expect(result.error.contains(part), "\(part): \(result.error)")
        }
        let list = try stage.run("holds", "list", "--format", "json").json["holds"]
        let hold = (list as? [[String: Any]])?.first?["hold"] as? String ?? ""
        let show = try stage.run("holds", "show", hold, "--format", "json")
        #expect(show.json["unknown"] as? Int == 100 && show.json["candidates"] as? Int == 0)
        // The table was mistyped: corrected, the same feed is another set.
        for number in 10_000..<10_050 { try stage.database.register(.numbered(number), at: before) }
        let released = try stage.run(
            "holds", "release", show.json["digest"] as? String ?? "", "--format", "json")
        #expect(released.exit == 0, "\(released.error)")
        #expect(released.app()["applied"] as? Int == 50)
        #expect(try stage.run("holds", "list").output == "nothing is held\n")
    }

    @Test("a feed that is not held is reported, below the floor or where the limits allow it")
    func below() throws {
        let stage = try SweepStage(feeds: [unknown(99), unknown(200), unknown(3)])
        try stage.database.register(0..<300, at: before)
        let small = try stage.sweep()
        #expect(small.exit == 0 && small.app()["unknown"] as? Int == 99, "\(small.error)")
        #expect(small.error.contains("99 of 99"), "\(small.error)")
        #expect(small.error.contains("active-users.table"), "\(small.error)")
        stage.lines.limits = SweepStage.anyNumber
        let large = try stage.sweep()
        #expect(large.exit == 0 && large.error.contains("200 of 200"), "\(large.error)")
        // A few unknown tokens need no warning.
        let few = try stage.sweep()
        #expect(few.exit == 0 && !few.error.contains("3 of 3"), "\(few.error)")
    }

    @Test(
        "a feed of APNs' answers is held too, in the sender that got them",
        arguments: TestEngine.available)
    func answers(_ engine: TestEngine) throws {
        var script = ProviderScript()
        script.usual = .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        let stage = try SendStage(engine, script: script)
        stage.lines = "guard: {floor: 1}"
        try stage.database.register(0..<300, at: before)
        try stage.queue(0..<300)
        // The rows go while the notifications are on the wire.
        try stage.database.sql.run(
            "CREATE TRIGGER emptying AFTER UPDATE ON pushsweep_claim "
                + (engine == .mariaDB ? "FOR EACH ROW " : "")
                + "BEGIN DELETE FROM active_users WHERE id > 0; END")
        let result = try stage.send()
        #expect(result.exit == 3, "\(result.error)")
        let evidence = result.app()["evidence"] as? [String: Int] ?? [:]
        let held = evidence["held"] ?? 0
        #expect(held > 0 && held == evidence["tuples"], "\(evidence)")
        #expect(result.error.contains("name a token that no row has"), "\(result.error)")
    }

    @Test("a feed is not suspected where the table knows some tokens, or we deleted them")
    func innocent() throws {
        let stage = try SweepStage(feeds: [
            .tuples(tuples(0..<90)), .tuples(tuples(0..<90) + tuples(10_000..<10_100)),
            .tuples(tuples(0..<90) + tuples(10_000..<10_020)),
        ])
        stage.lines.policy = "policy: {action: delete}"
        try stage.database.register(0..<3_000, at: before)
        #expect(try stage.sweep().exit == 0)
        #expect(try stage.database.count("SELECT COUNT(*) FROM active_users") == 2_910)
        let foreign = try stage.sweep("--dry-run")
        #expect(foreign.exit == 75, "\(foreign.error)")
        #expect(try stage.sweep().exit == 0)
        #expect(try stage.sweep().exit == 0)
    }
}
