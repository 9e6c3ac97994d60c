import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000
private let after: Int64 = 1_800_000_000_000

/// Tuples about numbered tokens with times of their own.
private func tuples(_ numbers: some Sequence<Int>) -> [FeedbackTuple] {
    numbers.map { .dead($0, at: start + UInt32($0)) }
}

@Suite("A removal that is too large", .serialized)
struct HoldsTests {
    private func marks(_ stage: SweepStage, app: String = "chat") throws -> Int {
        try stage.database.count(
            "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL AND app_id = ?",
            [.text(app)])
    }

    /// The only hold, from `holds show`.
    private func look(_ stage: SweepStage) throws -> [String: Any] {
        let list = try stage.run("holds", "list", "--format", "json")
        #expect(list.exit == 0, "\(list.error)")
        let holds = list.json["holds"] as? [[String: Any]] ?? []
        #expect(holds.count == 1)
        let show = try stage.run(
            "holds", "show", holds.first?["hold"] as? String ?? "", "--format", "json")
        #expect(show.exit == 0, "\(show.error)")
        return show.json
    }

    private func release(_ stage: SweepStage, _ digest: Any?) throws -> ToolResult {
        try stage.run("holds", "release", digest as? String ?? "", "--format", "json")
    }

    @Test(
        "a hold changes no row, other apps are applied, and the digest releases exactly that set",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples(tuples(0..<1_900))])
        let other = try FeedbackGateway(
            certificates: SweepStage.certificates.get(), feeds: [.tuples(tuples(5_000..<5_003))])
        stage.lines.apps = """
              - name: talk
                topic: com.example.talk
                environment: production
                \(stage.lines.certificate)
                feedback: {host: 127.0.0.1, port: \(other.port), ca: \(stage.lines.ca)}
            """
        try stage.database.register(0..<2_000, at: before)
        for number in 5_000..<5_003 {
            try stage.database.register(.numbered(number), at: before, app: "talk")
        }
        let result = try stage.sweep()
        #expect(result.exit == 3, "\(result.error)")
        #expect(result.app()["state"] as? String == "held")
        #expect(result.app()["held"] as? Int == 1_900)
        #expect(result.app()["applied"] as? Int == 0)
        #expect(result.app()["candidates"] as? Int == 1_900)
        #expect(result.app()["gate"] as? String == "partition-percent")
        #expect(result.app(1)["applied"] as? Int == 3)
        #expect(result.closingLine == "code=3 stage=done pending=0 applied=3 held=1900 next=holds")
        #expect(result.error.contains("1900 of 2000 living rows"), "\(result.error)")
        #expect(try marks(stage) == 0)
        #expect(try marks(stage, app: "talk") == 3)
        let records = try stage.database.texts(
            "SELECT kind, guard_result FROM pushsweep_run")
        #expect(records == [["sweep", "held: chat/production partition-percent"]])

        let shown = try look(stage)
        #expect(shown["candidates"] as? Int == 1_900)
        #expect(shown["living"] as? Int == 2_000)
        #expect(shown["tuples"] as? Int == 1_900)
        #expect((shown["cause"] as? String ?? "").contains("more than 5 %"))
        let ages = shown["ages"] as? [[String: Any]] ?? []
        #expect(ages.compactMap { $0["tokens"] as? Int }.reduce(0, +) == 1_900)
        #expect((shown["sample"] as? [Any])?.count == 10)
        let text = try stage.run("holds", "show", shown["hold"] as? String ?? "")
        for part in ["cause: ", "95.0 %", "a5a5a5a5…", "digest: \(shown["digest"] ?? "")"] {
            #expect(text.output.contains(part), "\(part) in \(text.output)")
        }
        #expect(!text.output.contains("a5a5a5a5a5"), "a whole token is shown")

        let wrong = try release(stage, String(repeating: "0", count: 64))
        #expect(wrong.exit == 64, "what is held has no part in a mistyped digest")
        #expect(
            wrong.closingLine == "code=64 stage=state pending=0 applied=0 held=0 next=usage")
        #expect(wrong.error.contains("none has it"), "\(wrong.error)")
        #expect(try marks(stage) == 0)
        // A device comes back between `holds show` and the release.
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [stage.database.time(after), .bytes(DeviceToken.numbered(7).bytes)])
        let released = try release(stage, shown["digest"])
        #expect(released.exit == 0, "\(released.error)")
        #expect(released.json["kind"] as? String == "release")
        #expect(released.app()["applied"] as? Int == 1_899)
        #expect(released.app()["newer"] as? Int == 1)
        #expect(released.app()["state"] as? String == "applied")
        #expect(try marks(stage) == 1_899)
        let kinds = try stage.database.texts(
            "SELECT kind, guard_result, ended IS NOT NULL FROM pushsweep_run WHERE kind = 'release'"
        )
        #expect(kinds == [["release", "released", "1"]])
        #expect(try release(stage, shown["digest"]).exit == 64)
        #expect(try stage.run("holds", "list").output == "nothing is held\n")
        #expect(try stage.sweep().exit == 0)
    }

    @Test("later feeds of the app are held too; a digest names only the set that was shown")
    func followers() throws {
        let stage = try SweepStage(feeds: [
            .tuples(tuples(0..<500)), .tuples(tuples(500..<504)), .tuples(tuples(504..<506)),
        ])
        try stage.database.register(0..<1_000, at: before)
        #expect(try stage.sweep().exit == 3)
        let first = try look(stage)
        let second = try stage.sweep()
        #expect(second.exit == 3)
        let unknown = try stage.run("replay", "--feed", "0a0a0a0a")
        #expect(unknown.exit == 64, "what is held has no part in a mistyped feed")
        #expect(unknown.closingLine.hasSuffix("next=usage"))
        #expect(second.app()["resumed"] as? Bool == true)
        #expect(second.app(1)["gate"] as? String == "behind")
        #expect(second.app(1)["held"] as? Int == 4)
        #expect(second.closingLine.contains("held=504"))
        #expect(try marks(stage) == 0)
        let both = try look(stage)
        #expect((both["feeds"] as? [Any])?.count == 2)
        #expect(both["tuples"] as? Int == 504)
        #expect(both["digest"] as? String != first["digest"] as? String)

        let released = try release(stage, first["digest"])
        #expect(released.exit == 75, "\(released.error)")
        #expect(released.json["waiting"] as? Int == 4)
        #expect(released.closingLine.contains("pending=4 applied=500 "), "\(released.error)")
        #expect(released.error.contains("4 tuples outside this digest wait for the next sweep"))
        #expect(try marks(stage) == 500)
        let last = try stage.sweep()
        #expect(last.exit == 0, "\(last.error)")
        #expect(try marks(stage) == 506)
    }

    @Test(
        "a release that is interrupted leaves the rest held, and the same command continues it",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
    func interruptedRelease() throws {
        let stage = try SweepStage(.mariaDB, feeds: [.tuples(tuples(0..<1_900))])
        try stage.database.register(0..<2_000, at: before)
        #expect(try stage.sweep().exit == 3)
        let digest = try look(stage)["digest"]
        let last = try #require((0..<1_900).map { DeviceToken.numbered($0) }.max())
        let blocker = stage.database.driver()
        try blocker.connect()
        try blocker.begin()
        _ = try blocker.query(
            "SELECT id FROM active_users WHERE device_token = ? FOR UPDATE", [.bytes(last.bytes)])
        let running = try stage.start(["holds", "release", digest as? String ?? ""])
        let deadline = ContinuousClock.now + .seconds(20)
        while try marks(stage) == 0, ContinuousClock.now < deadline {}
        running.signal(SIGTERM)
        blocker.rollBack()
        let interrupted = running.wait()
        #expect(interrupted.exit == 3, "\(interrupted.error)")
        #expect(interrupted.error.contains("the same command continues it"))
        let done = try marks(stage)
        #expect((1..<1_900).contains(done))
        #expect(try stage.sweep().exit == 3)
        #expect(try marks(stage) == done, "a sweep continued a release")
        let released = try release(stage, digest)
        #expect(released.exit == 0, "\(released.error)")
        #expect(released.app()["applied"] as? Int == 1_900)
        #expect(try marks(stage) == 1_900)
    }

    @Test("a discarded hold keeps its reason and can be taken back")
    func discard() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500))])
        try stage.database.register(0..<1_000, at: before)
        let held = try stage.sweep()
        let id = held.app()["feed"] as? String ?? ""
        #expect(try stage.run("holds", "discard", id).exit == 64)
        #expect(try stage.run("holds", "discard", id, "--reason", " ").exit == 64)
        #expect(try stage.run("holds", "discard", "ffff", "--reason", "no").exit == 64)
        let discarded = try stage.run(
            "holds", "discard", String(id.prefix(8)), "--reason", "wrong clock", "--format", "json")
        #expect(discarded.exit == 0, "\(discarded.error)")
        #expect(discarded.json["hold"] as? String == id)
        #expect(try stage.sweep().exit == 0)
        #expect(try marks(stage) == 0)
        let back = try stage.run("replay", "--feed", id, "--format", "json")
        #expect(back.exit == 3, "the guard is asked again: \(back.error)")
        #expect(try release(stage, look(stage)["digest"]).exit == 0)
        #expect(try marks(stage) == 500)
    }

    @Test("one of three feeds is discarded by name, and a new digest releases the rest")
    func discardOne() throws {
        let stage = try SweepStage(feeds: [
            .tuples(tuples(0..<500)), .tuples(tuples(500..<540)), .tuples(tuples(540..<545)),
        ])
        try stage.database.register(0..<1_000, at: before)
        for _ in 0..<3 { #expect(try stage.sweep().exit == 3) }
        let shown = try look(stage)
        let feeds = try #require(shown["feeds"] as? [String])
        #expect(feeds.count == 3)
        let text = try stage.run("holds", "show", feeds[0]).output
        for feed in feeds { #expect(text.contains("\n  \(feed)\n"), "\(text)") }
        let discarded = try stage.run(
            "holds", "discard", feeds[1], "--reason", "mistaken", "--format", "json")
        #expect(discarded.exit == 0, "\(discarded.error)")
        #expect(discarded.json["feeds"] as? [String] == [feeds[1]])
        #expect(discarded.json["held"] as? Int == 2 && discarded.json["pending"] as? Int == 0)
        let rest = try look(stage)
        #expect(rest["feeds"] as? [String] == [feeds[0], feeds[2]])
        #expect(rest["digest"] as? String != shown["digest"] as? String)
        #expect(try release(stage, shown["digest"]).exit == 64)
        #expect(try release(stage, rest["digest"]).exit == 0)
        #expect(try marks(stage) == 505)
    }

    @Test("when the feed that was stopped is discarded, the next sweep judges those behind it")
    func discardFirst() throws {
        let stage = try SweepStage(feeds: [
            .tuples(tuples(0..<500)), .tuples(tuples(500..<520)), .tuples(tuples(520..<525)),
        ])
        try stage.database.register(0..<1_000, at: before)
        for _ in 0..<3 { #expect(try stage.sweep().exit == 3) }
        let hold = try #require(try look(stage)["hold"] as? String)
        let discarded = try stage.run("holds", "discard", hold, "--reason", "wrong file")
        #expect(discarded.output.contains("2 feeds of the hold wait for the next sweep"))
        #expect(try stage.sweep().exit == 0)
        #expect(try marks(stage) == 25)
    }

    @Test("--all discards every feed of the hold")
    func discardAll() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500)), .tuples(tuples(500..<520))])
        try stage.database.register(0..<1_000, at: before)
        for _ in 0..<2 { #expect(try stage.sweep().exit == 3) }
        let feeds = try #require(try look(stage)["feeds"] as? [String])
        let discarded = try stage.run(
            "holds", "discard", feeds[1], "--all", "--reason", "wrong file", "--format", "json")
        #expect(discarded.json["feeds"] as? [String] == feeds)
        #expect(try stage.sweep().exit == 0)
        #expect(try marks(stage) == 0)
    }

    @Test("list, show and audit judge a hold again when a feed joins, and when devices come back")
    func todaysNumbers() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500)), .tuples(tuples(500..<600))])
        try stage.database.register(0..<1_000, at: before)
        #expect(try stage.sweep().exit == 3)
        func list() throws -> [String: Any] {
            let list = try stage.run("holds", "list", "--format", "json")
            return try #require((list.json["holds"] as? [[String: Any]])?.first)
        }
        #expect((try list()["judgement"] as? String)?.hasPrefix("500 of 1000 ") == true)
        #expect(try stage.sweep().exit == 3)
        let joined = try list()
        #expect(joined["candidates"] as? Int == 600 && joined["tuples"] as? Int == 600)
        #expect((joined["judgement"] as? String)?.hasPrefix("600 of 1000 ") == true)
        #expect((joined["cause"] as? String)?.hasPrefix("500 of 1000 ") == true)
        let text = try stage.run("holds", "list").output
        #expect(text.contains("600 of 1000 living rows (60.0 %) would become invalid"), "\(text)")
        let audit = try stage.run("audit", "--format", "json").json
        let audited = try #require((audit["holds"] as? [[String: Any]])?.first)
        #expect(audited["candidates"] as? Int == 600)
        #expect((audited["judgement"] as? String)?.hasPrefix("600 of 1000 ") == true)
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ?", [stage.database.time(after)])
        #expect(try list()["candidates"] as? Int == 0)
        #expect(try list()["judgement"] == nil)
    }

    @Test("the quarantine of a sender is listed, exported and discarded too")
    func senderQuarantine() throws {
        let stage = try SweepStage(feeds: [])
        let garbage = try stage.folder.write("feed", [UInt8](repeating: 0xFF, count: 100))
        #expect(try stage.run("replay", garbage).exit == 65)
        let files = FileManager.default
        let aside = stage.folder.file("aside")
        try files.moveItem(atPath: stage.state, toPath: aside)
        for folder in [stage.state, stage.state + "/send"] {
            try files.createDirectory(
                atPath: folder, withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700])
        }
        try files.moveItem(atPath: aside, toPath: stage.state + "/send/1")
        let list = try stage.run("quarantine", "list", "--format", "json")
        let feed = try #require(
            (list.json["feeds"] as? [[String: Any]])?.first?["feed"] as? String)
        let copy = stage.folder.file("copy")
        #expect(try stage.run("quarantine", "export", feed, copy).exit == 0)
        #expect(files.contents(atPath: copy)?.count == 100)
        #expect(try stage.run("quarantine", "discard", feed).exit == 0)
        #expect(try stage.run("quarantine", "list").output == "nothing is quarantined\n")
    }

    @Test("a dry run announces a hold and holds nothing")
    func dryRun() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500))])
        try stage.database.register(0..<1_000, at: before)
        let dry = try stage.sweep("--dry-run")
        #expect(dry.exit == 3, "\(dry.error)")
        #expect(dry.app()["gate"] as? String == "partition-percent")
        #expect(dry.app()["state"] as? String == "pending")
        #expect(dry.app()["applied"] as? Int == 500)
        #expect(try stage.run("holds", "list").output == "nothing is held\n")
        for table in ["pushsweep_change", "pushsweep_feed", "pushsweep_run"] {
            #expect(try stage.database.count("SELECT COUNT(*) FROM \(table)") == 0)
        }
        let file = try stage.folder.write("feed.bin", FeedbackTuple.bytes(tuples(0..<500)))
        let trial = try stage.run("replay", file, "--dry-run")
        #expect(trial.exit == 3, "\(trial.error)")
        #expect(trial.output.contains("would be held: 500 of 1000 living rows"), "\(trial.output)")
        stage.lines.limits = SweepStage.anyNumber
        #expect(try stage.run("replay", file, "--dry-run").exit == 0)
        #expect(try marks(stage) == 0)
    }

    @Test(
        "a rightful tenfold spike is held, shown, released and applied",
        arguments: TestEngine.available)
    func spike(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine, feeds: [.tuples(tuples(0..<60)), .tuples(tuples(100..<300))])
        try stage.database.register(0..<10_000, at: before)
        for hour in 25..<225 {
            let now = Date().timeIntervalSince1970 * 1_000
            try stage.database.execute(
                "INSERT INTO pushsweep_feed (feed, run, app, environment, source, table_name, "
                    + "applied, invalidated, state, changed_at) VALUES ('f-\(hour)', 'r', 'chat', "
                    + "'production', 'feedback', 'active_users', 20, 20, 'applied', ?)",
                [stage.database.time(Int64(now) - Int64(hour) * 3_600_000)])
        }
        #expect(try stage.sweep().exit == 0)
        let held = try stage.sweep()
        #expect(held.exit == 3, "\(held.error)")
        #expect(held.app()["gate"] as? String == "volume")
        let shown = try look(stage)
        #expect((shown["cause"] as? String ?? "").contains("the usual peak of 20"))
        #expect(try release(stage, shown["digest"]).exit == 0)
        #expect(try marks(stage) == 260)
        // What was released says nothing about what is usual.
        stage.gateway.add(.tuples(tuples(300..<450)))
        #expect(try stage.sweep().app()["gate"] as? String == "volume")
    }

    @Test("a removal that had begun before is finished, not held")
    func begun() throws {
        let stage = try SweepStage(feeds: [.tuples(tuples(0..<500))])
        try stage.database.register(0..<1_000, at: before)
        let dry = try stage.sweep("--dry-run")
        let id = dry.app()["feed"] as? String ?? ""
        try stage.database.execute(
            "INSERT INTO pushsweep_feed (feed, run, app, environment, source, table_name, state) "
                + "VALUES (?, 'r', 'chat', 'production', 'feedback', 'active_users', 'applying')",
            [.text(id)])
        let result = try stage.sweep()
        #expect(result.exit == 0, "\(result.error)")
        #expect(try marks(stage) == 500)
    }

    @Test("the guard adds up the feeds of an hour, so that small ones do not pass unseen")
    func manySmallOnes() throws {
        let stage = try SweepStage(
            feeds: (0..<5).map { .tuples(tuples($0 * 40..<$0 * 40 + 40)) })
        try stage.database.register(0..<1_000, at: before)
        var exits: [Int32] = []
        for _ in 0..<5 { exits.append(try stage.sweep().exit) }
        // Should the clock's hour end in between, the day's limit of 100 rows stops the same feed.
        #expect(exits == [0, 0, 3, 3, 3])
        #expect(try marks(stage) == 80)
    }
}
