import APNsProtocol
import Database
import Foundation
import Operations
import TestSupport
import Testing

private let registered: Int64 = 1_600_000_000_000

/// A sweep's stage on which tokens are explained.
extension SweepStage {
    /// Explains a numbered token; the run must end with 0.
    fileprivate func explain(
        _ number: Int, environment: [String: String] = [:]
    ) throws -> (report: ExplainReport, result: ToolResult) {
        try explain([DeviceToken.numbered(number).hex], environment: environment)
    }

    fileprivate func explain(
        _ words: [String], environment: [String: String] = [:]
    ) throws -> (report: ExplainReport, result: ToolResult) {
        let result = try start(
            ["explain", "--format", "json"] + words, environment: environment
        ).wait()
        #expect(result.exit == 0 && result.error == "", "\(result.error)")
        return (
            try JSONDecoder().decode(ExplainReport.self, from: Data(result.output.utf8)), result
        )
    }

    /// All rows of the tables, and all files of the state folder with their content.
    fileprivate func everything() throws -> [String] {
        var found: [String] = []
        for table in [
            "active_users", "pushsweep_run", "pushsweep_feed", "pushsweep_change",
            "pushsweep_commit", "pushsweep_invalid", "pushsweep_lease", "pushsweep_evidence",
            "push_queue", "pushsweep_claim",
        ] {
            found += try database.texts("SELECT * FROM \(table)").map { "\(table) \($0)" }.sorted()
        }
        let files = FileManager.default.enumerator(atPath: state)?.compactMap { $0 as? String }
        for file in (files ?? []).sorted() {
            let bytes = FileManager.default.contents(atPath: "\(state)/\(file)") ?? Data()
            found.append("\(file) \(bytes.hashValue)")
        }
        return found
    }

    /// Makes every change so far some days older, as the database has its time.
    fileprivate func age(days: Int) throws {
        for (table, column) in [
            ("change", "changed_at"), ("feed", "changed_at"), ("commit", "committed_at"),
        ] {
            let earlier =
                database.engine == .mariaDB
                ? "\(column) - INTERVAL \(days) DAY"
                : "strftime('%Y-%m-%d %H:%M:%f', \(column), '-\(days) days')"
            try database.execute("UPDATE pushsweep_\(table) SET \(column) = \(earlier)")
        }
    }

    /// Sets the registration of a numbered token.
    fileprivate func registerAgain(_ number: Int, at milliseconds: Int64) throws {
        try database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [database.time(milliseconds), .bytes(DeviceToken.numbered(number).bytes)])
    }

    /// Puts a row into the queue, as a sender leaves it.
    fileprivate func queue(_ number: Int, _ state: String, _ reason: String?, at: Int64) throws {
        try database.execute(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at, state, "
                + "attempts, reason, answered_at) VALUES ('chat', 'production', ?, ?, ?, ?, 1, ?, ?)",
            [
                .bytes(DeviceToken.numbered(number).bytes), .bytes(Array("{}".utf8)),
                database.time(at), .text(state), reason.map(SQLValue.text) ?? .null,
                database.time(at + 1_000),
            ])
    }
}

@Suite("pushsweep explain")
struct ExplainTests {
    @Test(
        "a token that lived through everything is told in order, and nothing is changed",
        arguments: TestEngine.available)
    func life(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [
                .tuples([.dead(0, at: 1_700_000_000)]), .tuples([.dead(0, at: 1_720_000_000)]),
                .tuples((0..<30).map { .dead($0, at: 1_760_000_000) }), .tuples([]),
            ])
        try stage.database.register(0..<30, at: registered)
        let first = try #require(try stage.sweep().json["run"] as? String)
        #expect(try stage.run("undo", first).exit == 0)
        try stage.registerAgain(0, at: 1_750_000_000_000)
        #expect(try stage.sweep().exit == 0)
        stage.lines.limits = "guard: {floor: 7}"
        #expect(try stage.sweep().exit == 3)
        try stage.queue(0, "skipped", "stale", at: 1_700_000_100_000)
        try stage.queue(0, "gone", "Unregistered", at: 1_760_000_100_000)

        let held = try stage.explain(0).report
        let state = try #require(held.tokens[0].apps.first)
        #expect(state.sends && state.state == "living" && state.hold != nil)
        #expect(state.next.contains("waits for a decision, which has evidence about the token"))
        #expect(held.tokens[0].events.contains { $0.rule == .held && $0.reason != nil })

        let hold = try #require(state.hold)
        let shown = try stage.run("holds", "show", hold, "--format", "json")
        let digest = try #require(shown.json["digest"] as? String)
        #expect(try stage.run("holds", "release", digest).exit == 0)
        stage.lines.limits = SweepStage.anyNumber
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        let kept = try stage.explain(0).report.tokens[0]
        #expect(kept.apps[0].next.contains("and delete it then"), "\(kept.next)")
        let story = kept.events.map(\.kind).filter {
            [.change, .undo, .hold, .decision].contains($0)
        }
        #expect(story.filter { $0 != .decision } == [.change, .undo, .hold, .change])
        #expect(story.count { $0 == .decision } == 1)
        try stage.age(days: 8)
        let due = try stage.explain(0).report
        #expect(due.tokens[0].apps[0].next.contains("whose period of policy.delete-after is over"))
        #expect(due.tokens[0].apps[0].state == "stale")
        #expect(try stage.sweep().exit == 0)
        #expect(try stage.database.count("SELECT COUNT(*) FROM active_users") == 0)

        let before = try stage.everything()
        let (report, result) = try stage.explain(0)
        let text = try stage.run("explain", DeviceToken.numbered(0).hex)
        #expect(text.exit == 0, "\(text.error)")
        #expect(try stage.everything() == before)
        for output in [result.output, text.output] {
            #expect(!output.contains(DeviceToken.numbered(0).hex))
        }
        let token = try #require(report.tokens.first)
        #expect(token.known && report.gaps == [], "\(report.gaps)")
        #expect(token.events.compactMap(\.time) == token.events.compactMap(\.time).sorted())
        #expect(token.events.allSatisfy { $0.time != nil })
        let kinds = token.events.map(\.kind)
        #expect(
            kinds.filter { $0 == .evidence || $0 == .notification } == [
                .evidence, .notification, .evidence, .evidence, .notification,
            ])
        #expect(
            kinds.filter { [.change, .undo, .expiry].contains($0) } == [
                .change, .undo, .change, .expiry,
            ])
        let evidence = token.events.filter { $0.kind == .evidence }
        // The row is gone, so only the ledger still knows a rule.
        #expect(evidence.map(\.rule) == [.marked, .unknown, .marked])
        #expect(evidence.map(\.basis) == ["ledger", "present", "ledger"])
        let change = try #require(token.events.first { $0.kind == .change })
        #expect(change.before == "without a mark" && change.run == first)
        #expect(change.after?.hasPrefix("marked since 2023-11-14T22:13:20.000Z") == true)
        #expect(change.operator != nil && change.host != nil && change.runKind == "sweep")
        let undo = try #require(token.events.first { $0.kind == .undo })
        #expect(undo.after == "without a mark" && undo.before == change.after)
        let expiry = try #require(token.events.first { $0.kind == .expiry })
        #expect(expiry.after == "absent" && expiry.before?.contains("registered at 2025") == true)
        let decision = try #require(token.events.first { $0.kind == .decision })
        #expect(decision.action == "released" && decision.operator != nil)
        #expect(
            token.events.filter { $0.kind == .notification }.map(\.reason) == [
                "stale", "Unregistered",
            ])
        #expect(token.now.contains("would not send to it for chat/production"))
        #expect(text.output.contains("  now: a sender would not send to it"))
        #expect(text.output.contains("a5a5a5a5…, 32 bytes"))
    }

    @Test(
        "evidence is judged by the rows of today where the ledger is silent",
        arguments: TestEngine.available)
    func rules(_ engine: TestEngine) throws {
        let seconds: UInt32 = 1_700_000_000
        let dead = Int64(seconds) * 1_000
        let stage = try SweepStage(
            engine, feeds: [.tuples((0..<6).map { .dead($0, at: seconds) })])
        let database = stage.database
        try database.register(.numbered(0), at: dead + 86_400_000)
        try database.register(.numbered(1), at: dead)
        try database.register(.numbered(2), at: registered, mark: dead + 1_000)
        try database.register(.numbered(3), at: registered, environment: "sandbox")
        try database.register(.numbered(4), at: registered, mark: dead - 86_400_000)
        #expect(try stage.sweep().exit == 0)
        let wanted: [(ExplainedEvent.Rule, String, Bool)] = [
            (.newer, "registered at 2023-11-15T22:13:20.000Z, after", true),
            (.undecided, "see the change", false),
            (.already, "is invalid already", false), (.otherApp, "an app that the settings", false),
            (.moved, "see the change", false), (.unknown, "no row of active_users", false),
        ]
        for (number, (rule, words, sends)) in wanted.enumerated() {
            let token = try stage.explain(number).report.tokens[0]
            let evidence = try #require(token.events.first { $0.kind == .evidence })
            #expect(evidence.rule == rule, "\(number): \(evidence)")
            #expect(evidence.text.contains(words), "\(evidence.text)")
            #expect(token.apps.map(\.sends) == [sends], "\(token.apps)")
            #expect(token.now.contains(sends ? "would send" : "would not send"))
            #expect(token.apps[0].next.hasPrefix("change nothing"), "\(token.next)")
        }
    }

    @Test("an account with SELECT alone gets it all, and one with less is told what is missing")
    func selectOnly() throws {
        guard MariaDBServer.fromEnvironment != nil else { return }
        let stage = try SweepStage(.mariaDB, dead: 3)
        _ = try stage.sweep()
        let account = try #require(try ReadingAccount(of: stage.database))
        try account.grantSelect(on: "active_users")
        let (little, _) = try stage.explain(1, environment: account.environment)
        // Marks are in the row, so nothing is missing in the table beside it.
        for table in ["pushsweep_change", "pushsweep_run"] {
            #expect(
                little.gaps.contains { $0.hasPrefix("\(table): the account may not read it") },
                "\(little.gaps)")
        }
        #expect(little.tokens[0].events.map(\.kind) == [.registered, .mark, .evidence])
        #expect(!little.tokens[0].apps[0].sends)
        try account.grantSelect()
        let (whole, _) = try stage.explain(1, environment: account.environment)
        #expect(whole.gaps == [], "\(whole.gaps)")
        #expect(
            whole.tokens[0].events.map(\.kind) == [.registered, .mark, .evidence, .change])
    }

    @Test("a token that nothing knows is said to be unknown, and ends with 0")
    func unknown() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        _ = try stage.sweep()
        let (report, _) = try stage.explain(77)
        #expect(!report.tokens[0].known && report.tokens[0].events == [])
        #expect(report.tokens[0].apps.map(\.state) == ["unknown"])
        let text = try stage.run("explain", DeviceToken.numbered(77).hex)
        #expect(text.exit == 0)
        #expect(text.output.contains("no table, ledger entry, journal or queue"))
    }

    @Test("a token is read in every accepted spelling, from a file and from standard input")
    func spellings() throws {
        let stage = try SweepStage(.sqlite, dead: 1)
        let hex = DeviceToken.numbered(0).hex
        let groups = stride(from: 0, to: 64, by: 8).map { hex.dropFirst($0).prefix(8) }
            .joined(separator: " ")
        for spelling in [hex, hex.uppercased(), "<\(groups)>", groups] {
            #expect(try stage.explain([spelling]).report.tokens[0].known, "\(spelling)")
        }
        let file = try stage.folder.write("token", "\n  \(hex)\n\n")
        #expect(try stage.explain(["--token-file", file]).report.tokens[0].known)
        for words in [["-"], ["--token-file", "-"]] {
            let result = try stage.start(
                ["explain", "--whole-tokens"] + words,
                under: ["/bin/sh", "-c", "printf '%s\\n' \(hex) | \"$@\"", "sh"]
            ).wait()
            #expect(result.exit == 0, "\(result.error)")
            #expect(result.output.contains("token \(hex), 32 bytes"))
        }
    }

    @Test("what is no token is refused with 64 and a cure, and is not repeated")
    func refused() throws {
        let stage = try SweepStage(.sqlite, dead: 1)
        let two = try stage.folder.write("two", "abcd\nef01\n")
        for (words, message) in [
            (["a5a5a"], "an odd number of hex digits"), (["secretsecret"], "not hexadecimal text"),
            (["{length = 32, bytes = 0xc9d4 ... 15de }"], "middle bytes are lost"),
            (["--token-file", two], "has 2 lines with text instead of one"),
            (["--token-file", "/nowhere/token"], "check the path"),
            (["--token-file", "/dev/zero"], "which is the limit"),
            ([], "name one of: a token"), (["a5", "--user", "u"], "name one of: a token"),
            (["--user", ""], "--user is empty"),
        ] {
            let result = try stage.start(["explain"] + words).wait()
            #expect(result.exit == 64 && result.output == "", "\(words): \(result.error)")
            #expect(result.error.contains(message), "\(words): \(result.error)")
            #expect(!result.error.contains("secret"))
        }
    }

    @Test(
        "rows of several apps and environments, and tokens that begin alike, are kept apart",
        arguments: TestEngine.available)
    func several(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        stage.lines.apps = """
              - name: chat
                topic: com.example.chat
                environment: sandbox
            """
        let token = DeviceToken.numbered(1)
        let longer = try #require(DeviceToken(token.bytes + [1]))
        try stage.database.register(token, at: registered)
        try stage.database.register(token, at: registered, environment: "sandbox")
        try stage.database.register(longer, at: registered)
        #expect(try stage.sweep("--app", "chat").exit == 0)
        let (report, _) = try stage.explain(1)
        let apps = report.tokens[0].apps
        #expect(apps.map(\.environment) == ["production", "sandbox"])
        #expect(apps.map(\.sends) == [false, true] && apps.map(\.rows) == [1, 1])
        let (other, _) = try stage.explain([longer.hex])
        #expect(other.tokens[0].events.map(\.kind) == [.registered])
        #expect(other.tokens[0].bytes == 33 && other.tokens[0].apps.map(\.sends) == [true])
    }

    @Test(
        "the date of a removal goes by the changes of the row itself, as the next sweep does",
        arguments: TestEngine.available)
    func dates(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [.tuples([.dead(1, at: 1_700_000_000)])]
                + Array(repeating: .tuples([]), count: 3))
        stage.lines.apps = """
              - name: chat
                topic: com.example.chat
                environment: sandbox
            """
        stage.lines.limits = SweepStage.anyNumber
        let token = DeviceToken.numbered(1)
        let dead: Int64 = 1_700_000_000_000
        try stage.database.register(token, at: registered)
        try stage.database.register(token, at: registered, environment: "sandbox", mark: dead)
        #expect(try stage.sweep().exit == 0)
        stage.lines.policy = "policy: {action: delete, delete-after: 20d}"
        let apps = try stage.explain(1).report.tokens[0].apps
        #expect(apps.map(\.environment) == ["production", "sandbox"])
        #expect(apps[0].next.contains("and delete it then"), "\(apps[0].next)")
        #expect(apps[1].next.contains("whose period of policy.delete-after is over"), "\(apps)")
        #expect(apps[1].due == "2023-12-04T22:13:20.000Z")
        #expect(try stage.sweep().exit == 0)
        #expect(
            try stage.database.texts("SELECT environment FROM active_users") == [["production"]])
    }

    @Test("the rule of a change goes by the registration of its own row")
    func rowOfRule() throws {
        for registrations in [[registered, 1_700_000_000_000], [1_700_000_000_000, registered]] {
            let stage = try SweepStage(.sqlite, feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
            try stage.database.sql.run("DROP INDEX active_users_device")
            try stage.database.execute("CREATE INDEX by_token ON active_users (device_token)")
            for time in registrations { try stage.database.register(.numbered(1), at: time) }
            #expect(try stage.sweep().exit == 0)
            let events = try stage.explain(1).report.tokens[0].events
            let change = try #require(events.last { $0.kind == .change })
            let row = try #require(events.first { $0.kind == .registered && $0.key == change.key })
            let isUndecided = row.time == "2023-11-14T22:13:20.000Z"
            #expect(
                events.first { $0.kind == .evidence }?.rule == (isUndecided ? .undecided : .marked))
        }
    }

    @Test("a missing state folder is a gap, and another host's journal is pointed to")
    func hosts() throws {
        let stage = try SweepStage(.sqlite, dead: 2)
        try stage.database.execute(
            "INSERT INTO pushsweep_run (id, kind, started, host) "
                + "VALUES ('r', 'sweep', '2026-01-01 00:00:00.000', 'other.example')")
        let (fresh, _) = try stage.explain(0)
        #expect(fresh.gaps.contains { $0.contains("no state folder") }, "\(fresh.gaps)")
        #expect(!FileManager.default.fileExists(atPath: stage.state))
        _ = try stage.sweep()
        let (report, _) = try stage.explain(0)
        #expect(report.gaps == [])
        #expect(report.notes.contains { $0.contains("(other.example)") }, "\(report.notes)")
        let (elsewhere, _) = try stage.explain(0, environment: stage.host("b"))
        #expect(elsewhere.tokens[0].events.map(\.kind) == [.registered, .mark, .change])
    }
}
