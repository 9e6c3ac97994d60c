import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Looks
import Operations
import TestSupport
import Testing
import TokenTable

private let after: Int64 = 1_800_000_000_000

/// A list about numbered tokens with times of their own.
func feed(_ numbers: some Sequence<Int>) -> ListSource {
    .tuples(numbers.map { .dead($0, at: 1_700_000_000 + UInt32($0)) })
}

extension SweepStage {
    /// When the rows of these tests registered.
    private static let before: Int64 = 1_600_000_000_000

    /// A stage with living rows, whose sweeps read these lists.
    convenience init(_ engine: TestEngine, living rows: Int, feeds: [ListSource]) throws {
        try self.init(engine, feeds: feeds)
        try register(0..<rows)
    }

    /// Registers tokens long before any list.
    func register(_ numbers: Range<Int>, app: String = "chat") throws {
        try database.sql.begin()
        for number in numbers {
            try database.register(.numbered(number), at: Self.before, app: app)
        }
        try database.sql.commit()
    }

    /// Adds a second app, whose gateway has a list about all of its tokens.
    func addTalk(_ numbers: Range<Int>) throws -> FeedbackGateway {
        let other = try FeedbackGateway(
            certificates: Self.certificates.get(), feeds: [feed(numbers)])
        lines.apps = """
              - name: talk
                topic: com.example.talk
                environment: production
                \(lines.certificate)
                feedback: {host: 127.0.0.1, port: \(other.port), ca: \(lines.ca)}
            """
        try register(numbers, app: "talk")
        return other
    }
}

/// A stage with a thousand living rows.
private func stage(
    _ engine: TestEngine = .sqlite, rows: Int = 1_000, _ feeds: ListSource...
) throws -> SweepStage {
    try SweepStage(engine, living: rows, feeds: feeds)
}

@Suite("A removal that is too large", .serialized)
struct HoldsTests {
    private func marks(_ stage: SweepStage, app: String = "chat") throws -> Int {
        try stage.database.rows(
            of: "active_users", "invalidated_at IS NOT NULL AND app_id = '\(app)'")
    }

    private func release(
        _ stage: SweepStage, _ shown: [String: Any], stopping phrase: String? = nil
    ) throws -> ToolResult {
        try stage.released(shown["digest"] as? String ?? "", stopping: phrase)
    }

    @Test(
        "a hold changes no row, other apps are applied, and the digest releases exactly that set",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let stage = try stage(engine, rows: 2_000, feed(0..<1_900))
        let other = try stage.addTalk(5_000..<5_003)
        defer { other.stop() }
        try stage.swept().ends(
            3, "code=3 stage=done pending=0 applied=3 held=1900 next=holds",
            "1900 of 2000 living rows"
        ).app(has: [
            "state": "held", "held": 1_900, "applied": 0, "candidates": 1_900,
            "gate": "partition-percent",
        ]).app(1, has: ["applied": 3])
        #expect(try marks(stage) == 0 && marks(stage, app: "talk") == 3)
        let records = try stage.database.texts("SELECT kind, guard_result FROM pushsweep_run")
        #expect(records == [["sweep", "held: chat/production partition-percent"]])

        let shown = try stage.shown()
        #expect(
            ["candidates", "living", "tuples"].map { shown[$0] as? Int } == [1_900, 2_000, 1_900])
        #expect((shown["cause"] as? String ?? "").contains("more than 5 %"))
        let ages = shown["ages"] as? [[String: Any]] ?? []
        #expect(ages.compactMap { $0["tokens"] as? Int }.reduce(0, +) == 1_900)
        #expect((shown["sample"] as? [Any])?.count == 10)
        // The program's words; a digest that nothing has is a mistake of the person.
        try stage.run("holds", "show", shown["hold"] as? String ?? "").ends(
            0, "cause: ", "95.0 %", "a5a5a5a5…", "digest: \(shown["digest"] ?? "")"
        ).lacks("a5a5a5a5a5")
        try stage.run("holds", "release", String(repeating: "0", count: 64)).ends(
            64, "code=64 stage=state pending=0 applied=0 held=0 next=usage", "none has it")
        #expect(try marks(stage) == 0)
        // A device comes back between `holds show` and the release.
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [stage.database.time(after), .bytes(DeviceToken.numbered(7).bytes)])
        try release(stage, shown).ends(0).json(has: ["kind": "release"]).app(
            has: ["applied": 1_899, "newer": 1, "state": "applied"])
        #expect(try marks(stage) == 1_899)
        let kinds = try stage.database.texts(
            "SELECT guard_result, ended IS NOT NULL FROM pushsweep_run WHERE kind = 'release'")
        #expect(kinds == [["released", "1"]])
        try release(stage, shown).ends(64)
        #expect(try stage.holdList().isEmpty)
        try stage.swept().ends(0)
    }

    @Test("later feeds of the app are held too; a digest names only the set that was shown")
    func followers() throws {
        let stage = try stage(.sqlite, feed(0..<500), feed(500..<504), feed(504..<506))
        try stage.swept().ends(3)
        let first = try stage.shown()
        try stage.swept().ends(3, "held=504").app(has: ["resumed": true]).app(
            1, has: ["gate": "behind", "held": 4])
        // What is held has no part in a mistyped feed.
        try stage.replayed(feed: "0a0a0a0a").ends(64)
        #expect(try marks(stage) == 0)
        let both = try stage.shown()
        #expect((both["names"] as? [Any])?.count == 2 && both["tuples"] as? Int == 504)
        #expect(both["digest"] as? String != first["digest"] as? String)
        try release(stage, first).ends(
            75, "pending=4 applied=500 ", "4 reports outside this digest wait for the next sweep"
        ).json(has: ["waiting": 4])
        #expect(try marks(stage) == 500)
        try stage.swept().ends(0)
        #expect(try marks(stage) == 506)
    }

    @Test(
        "a release that is interrupted is continued by the next sweep, or by the same command, and asks no guard",
        arguments: [false, true])
    func interruptedRelease(isTypedAgain: Bool) throws {
        let stage = try stage(.sqlite, rows: 2_000, feed(0..<1_900))
        try stage.swept().ends(3)
        let shown = try stage.shown()
        try release(stage, shown, stopping: "applying ").ends(75)
        #expect((1..<1_900).contains(try marks(stage)))
        if isTypedAgain {
            try release(stage, shown).ends(
                0, "was released before, and 1 batch of it is not judged"
            )
            .app(has: ["applied": 1_900])
        } else {
            try stage.swept().ends(0).app(has: ["applied": 1_900, "resumed": true])
        }
        try release(stage, shown).ends(64)
        #expect(try marks(stage) == 1_900)
    }

    @Test("a dry run adds up the batches of its run, as the guard does in a real one")
    func dryRunAddsUp() throws {
        let stage = try stage(rows: 20_000)
        let lines = (0..<380).map { number in
            let reason = number < 190 ? "Unregistered" : "ExpiredToken"
            return "{\"device_token\":\"\(DeviceToken.numbered(number).hex)\",\"status\":410,"
                + "\"timestamp_ms\":1700000000000,\"reason\":\"\(reason)\"}\n"
        }
        let path = try stage.folder.write("dead.jsonl", lines.joined())
        for options in [["--dry-run"], []] {
            let words = ["import", path, "--from", "jsonl", "--app", "chat", "--format", "json"]
            let apps = try stage.run(words + options).ends(3).json["apps"] as? [[String: Any]]
            #expect(apps?.map { $0["gate"] as? String } == [nil, "volume"])
        }
    }

    @Test(
        "a hold says when its rows registered, whose they are, and which devices came back since",
        arguments: TestEngine.available)
    func registrations(_ engine: TestEngine) throws {
        let stage = try stage(engine, feed(0..<500))
        try stage.swept().ends(3)
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [stage.database.time(4_000_000_000_000), .bytes(DeviceToken.numbered(3).bytes)])
        let shown = try stage.shown()
        #expect(shown["registeredSince"] as? Int == 1 && shown["candidates"] as? Int == 499)
        let ranges = shown["registrations"] as? [[String: Any]] ?? []
        #expect(ranges.map { $0["rows"] as? Int ?? -1 } == [0, 0, 0, 0, 0, 499, 0], "\(ranges)")
        let sample = shown["sample"] as? [[String: Any]] ?? []
        #expect(
            sample.count == 10
                && sample.allSatisfy { $0["registered"] is String && $0["user"] is String })
        let words = try stage.run("holds", "show").output
        #expect(words.contains("1 row registered since it is held, so its device was alive"))
        #expect(
            words.contains("longer ago           499")
                && words.contains(": pushsweep explain a5a5a5a5"))
    }

    @Test("a discarded hold can be taken back by a replay, and the guard is asked again")
    func discard() throws {
        let stage = try stage(.sqlite, feed(0..<500))
        let id = try stage.swept().ends(3).app()["batch"] as? String ?? ""
        #expect(throws: RunFailure.self) { try stage.discarded("ffff") }
        #expect(try stage.discarded(String(id.prefix(8))).hold == id)
        try stage.swept().ends(0)
        #expect(try marks(stage) == 0)
        try stage.replayed(feed: id).ends(3)
        try release(stage, stage.shown()).ends(0)
        #expect(try marks(stage) == 500)
    }

    @Test("one of three feeds is discarded by name, and a new digest releases the rest")
    func discardOne() throws {
        let stage = try stage(.sqlite, feed(0..<500), feed(500..<540), feed(540..<545))
        for _ in 0..<3 { try stage.swept().ends(3) }
        let shown = try stage.shown()
        let feeds = try #require(shown["names"] as? [String])
        #expect(feeds.count == 3)
        let report = try stage.discarded(feeds[1])
        #expect(report.batches == [feeds[1]] && report.held == 2 && report.pending == 0)
        #expect(report.reports == 40 && report.files == nil)
        let rest = try stage.shown()
        #expect(rest["names"] as? [String] == [feeds[0], feeds[2]])
        try release(stage, shown).ends(64)
        try release(stage, rest).ends(0)
        #expect(try marks(stage) == 505)
    }

    @Test("when the feed that was stopped is discarded, the next sweep judges those behind it")
    func discardFirst() throws {
        let stage = try stage(.sqlite, feed(0..<500), feed(500..<520), feed(520..<525))
        for _ in 0..<3 { try stage.swept().ends(3) }
        let hold = try #require(try stage.shown()["hold"] as? String)
        try stage.run("holds", "discard", hold, "--reason", "wrong file").ends(
            0, "2 batches of the hold wait for the next sweep")
        try stage.swept().ends(0)
        #expect(try marks(stage) == 25)
    }

    @Test("--all discards every feed of the hold")
    func discardAll() throws {
        let stage = try stage(.sqlite, feed(0..<500), feed(500..<520))
        for _ in 0..<2 { try stage.swept().ends(3) }
        let feeds = try #require(try stage.shown()["names"] as? [String])
        #expect(try stage.discarded(feeds[1], whole: true).batches == feeds)
        try stage.swept().ends(0)
        #expect(try marks(stage) == 0)
    }

    @Test("a hold is judged again when a feed joins it, and when devices come back")
    func todaysNumbers() throws {
        let stage = try stage(.sqlite, feed(0..<500), feed(500..<600))
        try stage.swept().ends(3)
        func judgement() throws -> String? { try stage.holdList().first?["judgement"] as? String }
        #expect(try judgement()?.contains(": 500 of 1000 ") == true)
        try stage.swept().ends(3)
        let joined = try #require(try stage.holdList().first)
        #expect(joined["candidates"] as? Int == 600 && joined["tuples"] as? Int == 600)
        #expect((joined["judgement"] as? String)?.contains(": 600 of 1000 ") == true)
        #expect((joined["cause"] as? String)?.contains(": 500 of 1000 ") == true)
        try stage.run("holds", "list").ends(
            0, "600 of 1000 living rows (60.0 %) would become invalid")
        let audited = try Audit.run(stage.loaded(), AuditWish(), version: "1", .silent()).holds
        #expect(audited.first?.candidates == 600)
        #expect(audited.first?.judgement?.contains(": 600 of 1000 ") == true)
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ?", [stage.database.time(after)])
        #expect(try stage.holdList().first?["candidates"] as? Int == 0)
        #expect(try judgement() == nil)
    }

    @Test("the quarantine of a sender is listed, exported and discarded too")
    func senderQuarantine() throws {
        let stage = try SweepStage()
        let garbage = try stage.folder.write("feed", [UInt8](repeating: 0xFF, count: 100))
        try stage.replayed(garbage).ends(65)
        try stage.moveStateToSender()
        let list = try stage.json("quarantine", "list")
        let listed = try #require((list.json["batches"] as? [[String: Any]])?.first)
        let feed = try #require(listed["batch"] as? String)
        let heard = try Batches(stage.database.store()).batch(feed)?.opened.rfc3339
        #expect(heard != nil && listed["opened"] as? String == heard)
        let copy = stage.folder.file("copy")
        try stage.run("quarantine", "export", feed, copy).ends(0)
        #expect(FileManager.default.contents(atPath: copy)?.count == 100)
        try stage.run("quarantine", "discard", feed).ends(0)
        try stage.run("quarantine", "list").ends(0, "nothing is quarantined\n")
    }

    @Test(
        "a quarantine whose tables are missing or unreadable is not taken for an empty one",
        arguments: TestEngine.available)
    func unseenQuarantine(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, schema: false)
        func expectRefusal(
            _ exit: Operations.ExitStatus, _ cure: String, _ environment: [String: String] = [:]
        ) throws {
            let settings = try stage.loaded(stage.settingsText, environment)
            let failure = #expect(throws: RunFailure.self) { try QuarantineList(of: settings) }
            #expect(failure?.exit == exit, "\(failure as Any)")
            #expect("\(failure as Any)".contains(cure), "\(failure as Any)")
        }
        try expectRefusal(.configuration, "run `pushsweep schema apply`")
        guard engine == .mariaDB else { return }
        try stage.database.createOwnSchema()
        let account = try ServerAccount(of: stage.database)
        for table in ["active_users", "pushsweep_batch", "pushsweep_report"] {
            try account.grant(on: table)
        }
        try expectRefusal(.permission, "GRANT SELECT ON", account.environment)
    }

    @Test("a dry run announces a hold and holds nothing")
    func dryRun() throws {
        let stage = try stage(.sqlite, feed(0..<500))
        try stage.swept(dryRun: true).ends(3).app(
            has: ["gate": "partition-percent", "state": "pending", "applied": 500])
        #expect(try stage.holdList().isEmpty)
        for table in ["pushsweep_change", "pushsweep_batch", "pushsweep_run"] {
            #expect(try stage.database.rows(of: table) == 0)
        }
        let file = try stage.folder.write("feed.bin", try stage.journaledBytes())
        try stage.run("replay", file, "--dry-run").ends(
            3, "would be held: this is the first look", "30 days: 500 of 1000 living rows")
        stage.lines.limits = SweepStage.anyNumber
        try stage.replayed(file, dryRun: true).ends(0)
        #expect(try marks(stage) == 0)
    }

    @Test(
        "a rightful tenfold spike is held, shown, released and applied",
        arguments: TestEngine.available)
    func spike(_ engine: TestEngine) throws {
        let stage = try stage(engine, rows: 10_000, feed(0..<60), feed(100..<300), feed(300..<450))
        try stage.database.sql.begin()
        for hour in 25..<225 {
            let now = Date().timeIntervalSince1970 * 1_000
            try stage.database.execute(
                "INSERT INTO pushsweep_batch (name, run, app, environment, source, "
                    + "applied, invalidated, state, inlet, reports, changed_at) VALUES ('f-\(hour)', 'r', "
                    + "'chat', 'production', 'feedback', 20, 20, 'applied', 'gateway', 20, ?)",
                [stage.database.time(Int64(now) - Int64(hour) * 3_600_000)])
        }
        try stage.database.sql.commit()
        try stage.swept().ends(0)
        try stage.swept().ends(3).app(has: ["gate": "volume"])
        let shown = try stage.shown()
        #expect((shown["cause"] as? String ?? "").contains("the usual peak of 20"))
        try release(stage, shown).ends(0)
        #expect(try marks(stage) == 260)
        // What was released says nothing about what is usual.
        try stage.swept().app(has: ["gate": "volume"])
    }

    @Test("a removal that had begun before is finished, not held")
    func begun() throws {
        let stage = try stage(.sqlite, feed(0..<500))
        try stage.swept().ends(3)
        try stage.database.execute(
            "UPDATE pushsweep_batch SET state = 'applying'")
        try stage.swept().ends(0)
        #expect(try marks(stage) == 500)
    }

    @Test("the guard adds up the feeds of an hour, so that small ones do not pass unseen")
    func manySmallOnes() throws {
        let stage = try SweepStage(feeds: (0..<5).map { feed($0 * 40..<$0 * 40 + 40) })
        try stage.register(0..<1_000)
        // Should the clock's hour end in between, the day's limit of 100 rows stops the same feed.
        #expect(try (0..<5).map { _ in try stage.swept().exit } == [0, 0, 3, 3, 3])
        #expect(try marks(stage) == 80)
    }

    @Test("the digest covers the settings that decide what a release does")
    func settings() throws {
        let stage = try stage(.sqlite, feed(0..<500))
        try stage.register(0..<1_000, app: "talk")
        try stage.database.execute(
            "CREATE TABLE other_users (id INTEGER PRIMARY KEY, app_id TEXT, environment TEXT, "
                + "device_token BLOB, registered_at DATETIME, invalidated_at DATETIME, "
                + "invalid_reason TEXT)")
        try stage.database.execute(
            "INSERT INTO other_users SELECT id, app_id, environment, device_token, registered_at, "
                + "NULL, NULL FROM active_users")
        try stage.database.execute("ALTER TABLE active_users ADD COLUMN seen_at DATETIME")
        try stage.swept().ends(3)
        let seen = try #require(try stage.shown()["digest"] as? String)
        let unchanged = stage.lines
        let policies = [
            "{action: delete}", "{action: mark, delete-without-registration-time: true}",
            "{action: delete, delete-after: 7d}", "{action: delete, delete-after: 8d}",
            "{action: mark, clock-skew: 30s}",
        ]
        let mappings = [
            "table: other_users", "environment: none", "registered-at: {column: seen_at}",
            "registered-at: {column: registered_at, zone: \"+02:00\"}", "invalidated-at: none",
            "reason: none", "environment: {column: environment, values: {production: prod}}",
        ]
        var looks: Set = [seen]
        func expectOther(_ change: String) throws {
            try stage.released(seen).ends(64, "look again", for: change)
            let other = try stage.shown()["digest"] as? String ?? ""
            #expect(looks.insert(other).inserted, "\(change) is not part of the digest")
            stage.lines = unchanged
        }
        for policy in policies {
            stage.lines.policy = "policy: \(policy)"
            try expectOther(policy)
        }
        for mapping in mappings {
            stage.lines.activeUsers = "  active-users: {\(mapping)}"
            try expectOther(mapping)
        }
        // The value by which the table knows the app.
        stage.lines.certificate += "\n    value: talk"
        try expectOther("value: talk")
        #expect(try stage.database.rows(of: "pushsweep_change") == 0)
        // A setting without effect on the release needs no new look; a person is told what was done.
        stage.lines.limits = "guard: {floor: 7}"
        try stage.run("holds", "release", seen).ends(0, "500 tuples, 500 became invalid")
        #expect(try stage.database.rows(of: "pushsweep_change") == 500)
    }
}

@Suite("A feed about another table or app", .serialized)
struct UnknownFeedTests {
    @Test(
        "a feed about another table is held, even if it would change nothing, and can be released",
        arguments: TestEngine.available)
    func held(_ engine: TestEngine) throws {
        let stage = try stage(engine, rows: 300, feed(10_000..<10_100))
        try stage.swept().ends(3, "100 of 100", "active-users.table", "certificate").app(
            has: ["state": "held", "gate": "unknown-tokens", "held": 100])
        let shown = try stage.shown()
        #expect(shown["unknown"] as? Int == 100 && shown["candidates"] as? Int == 0)
        // The table was mistyped: corrected, the same feed is another set.
        try stage.register(10_000..<10_050)
        try stage.released(shown["digest"] as? String ?? "").ends(0).app(has: ["applied": 50])
        #expect(try stage.holdList().isEmpty)
    }

    @Test("a feed that is not held is reported, below the floor or where the limits allow it")
    func below() throws {
        let stage = try stage(
            .sqlite, rows: 300, feed(10_000..<10_099), feed(10_000..<10_200), feed(10_000..<10_003))
        try stage.swept().ends(0, "99 of 99", "active-users.table").app(has: ["unknown": 99])
        stage.lines.limits = SweepStage.anyNumber
        try stage.swept().ends(0, "200 of 200")
        // A few unknown tokens need no warning.
        try stage.swept().ends(0).lacks("3 of 3")
    }

    @Test(
        "a feed of APNs' answers is held too, in the sender that got them",
        arguments: TestEngine.available)
    func answers(_ engine: TestEngine) throws {
        var script = ProviderScript()
        script.usual = .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        let stage = try SendStage(engine, rows: 300, script: script, lines: "guard: {floor: 1}")
        // The rows go while the notifications are on the wire.
        try stage.database.sql.run(
            "CREATE TRIGGER emptying AFTER UPDATE ON pushsweep_claim "
                + (engine == .mariaDB ? "FOR EACH ROW " : "")
                + "BEGIN DELETE FROM active_users WHERE id > 0; END")
        let result = try stage.send().ends(3, "name a token that no row has")
        let evidence = result.app()["evidence"] as? [String: Int] ?? [:]
        let held = evidence["held"] ?? 0
        #expect(held > 0 && held == evidence["tuples"], "\(evidence)")
    }

    @Test("a feed is not suspected where the table knows some tokens, or we deleted them")
    func innocent() throws {
        let stage = try stage(
            .sqlite, rows: 3_000, feed(0..<90), feed(Array(0..<90) + Array(10_000..<10_100)),
            feed(Array(0..<90) + Array(10_000..<10_020)))
        stage.lines.policy = "policy: {action: delete}"
        try stage.swept().ends(0)
        #expect(try stage.database.rows(of: "active_users") == 2_910)
        try stage.swept(dryRun: true).ends(75)
        try stage.swept().ends(0)
        try stage.swept().ends(0)
    }
}
