import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Looks
import Operations
import TestSupport
import Testing
import TokenTable

private let registered: Int64 = 1_600_000_000_000
private let dead: Int64 = 1_700_000_000_000
private let seconds: UInt32 = 1_700_000_000

/// One dead token as a list.
private func list(_ number: Int, at seconds: UInt32 = seconds) -> ListSource {
    .tuples([.dead(number, at: seconds)])
}

extension SweepStage {
    /// Explains a numbered token.
    fileprivate func explain(
        _ number: Int, _ environment: [String: String] = [:]
    ) throws -> (report: ExplainReport, token: ExplainedToken) {
        let report = try explain(.token(.numbered(number)), environment)
        return (report, try #require(report.tokens.first))
    }

    fileprivate func explain(
        _ subject: TokenSubject, _ environment: [String: String] = [:]
    ) throws -> ExplainReport {
        try Explain.run(
            loaded(nil, environment), subject, wholeTokens: false, .silent())
    }

    /// All rows of the tables, and all files of the state folder with their content.
    fileprivate func everything() throws -> [String] {
        var found: [String] = []
        for table in [
            "active_users", "pushsweep_run", "pushsweep_batch", "pushsweep_change",
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

    /// Puts a row into the queue, as a sender leaves it.
    fileprivate func queue(_ number: Int, _ state: String, _ reason: SQLValue, at: Int64) throws {
        try database.execute(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at, state, "
                + "attempts, reason, answered_at) VALUES ('chat', 'production', ?, '{}', ?, ?, 1, ?, ?)",
            [
                .bytes(DeviceToken.numbered(number).bytes), database.time(at), .text(state), reason,
                database.time(at + 1_000),
            ])
    }

    /// Adds the sandbox of the app.
    fileprivate func addSandbox() {
        lines.apps = """
              - name: chat
                topic: com.example.chat
                environment: sandbox
            """
    }
}

@Suite("An explanation of a token")
struct ExplainTests {
    @Test(
        "a token that lived through everything is told in order, and nothing is changed",
        arguments: TestEngine.available)
    func life(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [
                list(0), list(0, at: 1_720_000_000),
                .tuples((0..<30).map { .dead($0, at: 1_760_000_000) }), .tuples([]),
            ])
        let database = stage.database
        try database.register(0..<30, at: registered)
        let first = try #require(try stage.swept().json["run"] as? String)
        try stage.undone(first).ends(0)
        try database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [database.time(1_750_000_000_000), .bytes(DeviceToken.numbered(0).bytes)])
        try stage.swept().ends(0)
        stage.lines.limits = "guard: {floor: 7}"
        try stage.swept().ends(3)
        try stage.queue(0, "skipped", .text("stale"), at: dead + 100_000)
        try stage.queue(0, "gone", .text("Unregistered"), at: 1_760_000_100_000)

        let held = try stage.explain(0).token
        let state = try #require(held.apps.first)
        #expect(state.sends && state.state == "living" && state.hold != nil)
        #expect(state.next.contains("waits for a decision, which has evidence about the token"))
        #expect(held.events.contains { $0.rule == .held && $0.reason != nil })
        try stage.released(stage.shown()["digest"] as? String ?? "").ends(0)
        stage.lines.limits = SweepStage.anyNumber
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        let kept = try stage.explain(0).token
        #expect(kept.apps[0].next.contains("and delete it then"), "\(kept.next)")
        // Every change so far becomes eight days older.
        for (table, column) in [
            ("change", "changed_at"), ("batch", "changed_at"), ("commit", "committed_at"),
        ] {
            let earlier =
                engine == .mariaDB
                ? "\(column) - INTERVAL 8 DAY"
                : "strftime('%Y-%m-%d %H:%M:%f', \(column), '-8 days')"
            try database.execute("UPDATE pushsweep_\(table) SET \(column) = \(earlier)")
        }
        let due = try stage.explain(0).token.apps[0]
        #expect(due.next.contains("whose period of policy.delete-after is over"))
        #expect(due.state == "stale")
        try stage.swept().ends(0)
        #expect(try database.rows(of: "active_users") == 0)

        let before = try stage.everything()
        let (report, token) = try stage.explain(0)
        let hex = DeviceToken.numbered(0).hex
        for format in ["text", "json"] {
            try stage.run("explain", hex, "--format", format).ends(
                0, "would not send to it for chat/production"
            ).lacks(hex)
        }
        #expect(try stage.everything() == before)
        #expect(token.known && report.gaps == [], "\(report.gaps)")
        let events = token.events
        #expect(events.compactMap(\.time) == events.compactMap(\.time).sorted())
        #expect(events.allSatisfy { $0.time != nil })
        #expect(
            events.map(\.kind).filter { [.evidence, .notification].contains($0) }
                == [.evidence, .notification, .evidence, .evidence, .notification])
        #expect(
            held.events.map(\.kind).filter { [.change, .undo, .hold].contains($0) }
                == [.change, .undo, .hold])
        #expect(events.count { $0.kind == .decision } == 1)
        #expect(
            events.map(\.kind).filter { [.change, .undo, .expiry].contains($0) }
                == [.change, .undo, .change, .expiry])
        // The row is gone, and what was decided is still known.
        let evidence = events.filter { $0.kind == .evidence }
        #expect(evidence.map(\.rule) == [.marked, .newer, .marked])
        #expect(evidence.map(\.basis) == ["ledger", "report", "ledger"])
        let change = try #require(events.first { $0.kind == .change })
        #expect(change.before == "without a mark" && change.run == first)
        #expect(change.after?.hasPrefix("marked since 2023-11-14T22:13:20.000Z") == true)
        #expect(change.operator != nil && change.host != nil && change.runKind == "sweep")
        let undo = try #require(events.first { $0.kind == .undo })
        #expect(undo.after == "without a mark" && undo.before == change.after)
        let expiry = try #require(events.first { $0.kind == .expiry })
        #expect(expiry.after == "absent" && expiry.before?.contains("registered at 2025") == true)
        let decision = try #require(events.first { $0.kind == .decision })
        #expect(decision.action == "released" && decision.operator != nil)
        #expect(
            events.filter { $0.kind == .notification }.map(\.reason) == ["stale", "Unregistered"])
    }

    @Test(
        "what was decided about evidence is told, whatever became of the rows since",
        arguments: TestEngine.available)
    func rules(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine, feeds: [.tuples((0..<6).map { .dead($0, at: seconds) })])
        let database = stage.database
        try database.register(.numbered(0), at: dead + 86_400_000)
        try database.register(.numbered(1), at: dead)
        try database.register(.numbered(2), at: registered, mark: dead + 1_000)
        try database.register(.numbered(3), at: registered, environment: "sandbox")
        try database.register(.numbered(4), at: registered, mark: dead - 86_400_000)
        try stage.swept().ends(0)
        let wanted: [(ExplainedEvent.Rule, String, Bool)] = [
            (.newer, "kept, because the device had registered after", true),
            (.undecided, "see the change", false),
            (.already, "was invalid already", false),
            (.otherApp, "an app that the settings", false),
            (.moved, "see the change", false), (.unknown, "no row of this app", false),
        ]
        for (number, (rule, words, sends)) in wanted.enumerated() {
            let token = try stage.explain(number).token
            let evidence = try #require(token.events.first { $0.kind == .evidence })
            #expect(evidence.rule == rule, "\(number): \(evidence)")
            #expect(evidence.text.contains(words), "\(evidence.text)")
            #expect(token.apps.map(\.sends) == [sends], "\(token.apps)")
            #expect(token.now.contains(sends ? "would send" : "would not send"))
            #expect(token.apps[0].next.hasPrefix("change nothing"), "\(token.next)")
        }
        let unknown = try stage.explain(77).token
        #expect(!unknown.known && unknown.events == [] && unknown.apps.map(\.state) == ["unknown"])
    }

    @Test(
        "an account with SELECT alone gets it all, and one with less is told what is missing",
        .needsServer)
    func selectOnly() throws {
        let stage = try SweepStage(.mariaDB, dead: 3)
        try stage.swept().ends(0)
        let account = try ServerAccount(of: stage.database)
        try account.grant(on: "active_users")
        let little = try stage.explain(1, account.environment)
        // Marks are in the row, so nothing is missing in the table beside it.
        for table in ["pushsweep_change", "pushsweep_run"] {
            #expect(
                little.report.gaps.contains {
                    $0.hasPrefix(
                        "\(table) may not be read, or is not there; grant the right: GRANT")
                },
                "\(little.report.gaps)")
        }
        #expect(little.token.events.map(\.kind) == [.registered, .mark])
        #expect(little.token.apps[0].next.contains("what reports hold about it is not known"))
        #expect(!little.token.apps[0].sends)
        try account.grant()
        let whole = try stage.explain(1, account.environment)
        #expect(whole.report.gaps == [], "\(whole.report.gaps)")
        #expect(whole.token.events.map(\.kind) == [.registered, .mark, .evidence, .change])
    }

    @Test(
        "rows of several apps and tokens that begin alike are kept apart, and each has its own date",
        arguments: TestEngine.available)
    func several(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine, feeds: [list(1)] + [ListSource](repeating: .tuples([]), count: 3))
        stage.addSandbox()
        stage.lines.limits = SweepStage.anyNumber
        let token = DeviceToken.numbered(1)
        let longer = try #require(DeviceToken(token.bytes + [1]))
        try stage.database.register(token, at: registered)
        try stage.database.register(token, at: registered, environment: "sandbox")
        try stage.database.register(longer, at: registered)
        try stage.swept("chat").ends(0)
        let apps = try stage.explain(1).token.apps
        #expect(apps.map(\.environment) == ["production", "sandbox"])
        #expect(apps.map(\.sends) == [false, true] && apps.map(\.rows) == [1, 1])
        let other = try #require(try stage.explain(.token(longer)).tokens.first)
        #expect(other.events.map(\.kind) == [.registered])
        #expect(other.bytes == 33 && other.apps.map(\.sends) == [true])

        // The date of a removal goes by the changes of the row itself.
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = ? WHERE environment = 'sandbox'",
            [stage.database.time(dead)])
        stage.lines.policy = "policy: {action: delete, delete-after: 20d}"
        let dated = try stage.explain(1).token.apps
        #expect(dated[0].next.contains("and delete it then"), "\(dated[0].next)")
        #expect(dated[1].next.contains("whose period of policy.delete-after is over"))
        #expect(dated[1].due == "2023-12-04T22:13:20.000Z")
        try stage.swept().ends(0)
        #expect(try stage.database.rows(of: "active_users", "environment = 'sandbox'") == 0)
    }

    @Test("a whole short token that no table has is explained by the reports about it")
    func short() throws {
        let stage = try SweepStage(.sqlite)
        let digits = "beefbeefbeefbeef"
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, timestamp_ms) "
                + "VALUES ('chat', ?, 410, 1700000000000)", [.text(digits)])
        let report = try stage.explain(.beginning(#require(TokenBeginning(digits))))
        #expect(report.tokens.map(\.token) == ["beefbeef…"])
        #expect(report.tokens.flatMap(\.events).map(\.kind) == [.evidence])
        #expect(report.notes.contains { $0.contains("taken for a whole token of 8 bytes") })
        // What is said to be cut, or too short for a token, is none.
        for text in [digits + "…", "beefbeef", "beefbeefbee"] {
            #expect(throws: RunFailure.self) {
                try stage.explain(.beginning(#require(TokenBeginning(text))))
            }
        }
    }

    @Test("the rule of a change goes by the registration of its own row")
    func rowOfRule() throws {
        for registrations in [[registered, dead], [dead, registered]] {
            let stage = try SweepStage(.sqlite, feeds: [list(1)])
            try stage.database.sql.run("DROP INDEX active_users_device")
            try stage.database.execute("CREATE INDEX by_token ON active_users (device_token)")
            for time in registrations { try stage.database.register(.numbered(1), at: time) }
            try stage.swept().ends(0)
            let events = try stage.explain(1).token.events
            let change = try #require(events.last { $0.kind == .change })
            let row = try #require(events.first { $0.kind == .registered && $0.key == change.key })
            let isUndecided = row.time == "2023-11-14T22:13:20.000Z"
            #expect(
                events.first { $0.kind == .evidence }?.rule == (isUndecided ? .undecided : .marked))
        }
    }

    @Test("a second host tells the same, and needs no state folder for it")
    func hosts() throws {
        let stage = try SweepStage(.sqlite, dead: 2)
        #expect(try stage.explain(0).report.gaps == [])
        #expect(!FileManager.default.fileExists(atPath: stage.state))
        try stage.swept().ends(0)
        let (report, token) = try stage.explain(0)
        #expect(report.gaps == [])
        let elsewhere = try stage.explain(0, stage.host("b")).token
        #expect(elsewhere.events == token.events && elsewhere.next == token.next)
        #expect(elsewhere.events.map(\.kind) == [.registered, .mark, .evidence, .change])
    }

    @Test("more rows than are looked at are told, and fewer are not")
    func manyRows() throws {
        let stage = try SweepStage(.sqlite, dead: 1)
        try stage.database.report(DeviceToken.numbered(0).hex, time: dead)
        func isTold() throws -> Bool {
            try stage.explain(0).report.notes.contains {
                $0.contains("more rows than were looked at")
            }
        }
        #expect(try !isTold())
        try stage.database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(EvidenceIntake.mostSearched)) "
                + "INSERT INTO pushsweep_evidence (app, device_token, timestamp_ms) SELECT 'chat', 'x', 1 FROM n"
        )
        #expect(try isTold())
    }

    @Test("a user's tokens are explained, no more than fifty, and a user without rows is named")
    func users() throws {
        let stage = try SweepStage(.sqlite, dead: 2)
        for number in 100..<160 {
            try stage.database.register(.numbered(number), at: registered, user: "ada")
        }
        try stage.database.register(.numbered(200), at: registered, user: "ben")
        try stage.database.register(.numbered(201), at: registered, app: "talk", user: "ben")
        let ada = try stage.explain(.user("ada"))
        #expect(ada.tokens.count == 50 && ada.notes.contains { $0.contains("more than 50 tokens") })
        let ben = try stage.explain(.user("ben"))
        #expect(ben.user == "ben" && ben.tokens.map { $0.apps.map(\.sends) } == [[true], [false]])
        #expect(try stage.explain(.user("nobody")).tokens == [])
        try stage.run("explain", "--user", "nobody").ends(0, "no row of the token table")
        let hex = DeviceToken.numbered(0).hex
        try stage.run(
            ["explain", "--whole-tokens", "-"],
            under: ["/bin/sh", "-c", "printf '%s\\n' '<\(hex.uppercased())>' | \"$@\"", "sh"]
        ).ends(0, "token \(hex), 32 bytes")
    }

    @Test("reports and tuples that wait or are quarantined are told as the next sweep judges them")
    func waiting() throws {
        let stage = try SweepStage(
            .sqlite, feeds: [.tuples([.dead(1, at: 0), .dead(1, at: seconds)])])
        try stage.database.register(0..<2, at: registered)
        let hex = DeviceToken.numbered(1).hex
        for (token, status, reason, time) in [
            ("<\(hex.uppercased())>", 410, "Unregistered", dead), (hex, 400, "BadDeviceToken", nil),
            (hex, 200, nil, nil), (hex, 410, "Unregistered", nil),
            (hex, 410, "Unregistered", 1_500_000_000_000),
        ] as [(String, Int, String?, Int64?)] {
            try stage.database.report(token, status: status, reason: reason, time: time)
        }
        let token = try stage.explain(1).token
        let waiting = token.events.filter { $0.source == "pushsweep_evidence" }
        #expect(
            Set(waiting.map(\.rule)) == [.marked, .suspect, .nothing, .quarantined, .newer],
            "\(waiting)")
        #expect(waiting.allSatisfy { $0.basis == "waiting" })
        #expect(token.apps[0].sends && token.apps[0].next.contains("unless the guard holds it"))
        try stage.swept().ends(65)
        let events = try stage.explain(1).token.events.filter { $0.rule == .quarantined }
        let gateway = "127.0.0.1:\(stage.gateway.port)"
        for (reason, label, words) in [
            ("time 0", gateway, "chat/production: the feedback list of \(gateway) calls it dead"),
            ("it has no time", "pushsweep_evidence", "a report from pushsweep_evidence names it"),
        ] {
            let event = try #require(
                events.first { $0.reason?.contains(reason) == true }, "\(events)")
            #expect(event.source == label && event.text.contains("\(words), read at "), "\(event)")
            #expect(event.arrived.map(event.text.contains) == true, "\(event)")
        }
    }

    @Test("a list that is held because it did not end holds no other evidence of its app back")
    func endless() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.isEndless = true
        let stage = try SweepStage(.sqlite, feeds: [list(1)], behaviour: behaviour)
        stage.lines.feedbackOptions = "max-bytes: 76000\n      handshake-timeout: 100ms"
        try stage.database.register(0..<2, at: registered)
        try stage.swept().ends(3)
        try stage.database.report(DeviceToken.numbered(0).hex, time: dead)
        let held = try stage.explain(1).token
        #expect(held.events.contains { $0.rule == .held })
        #expect(held.apps[0].hold == nil && held.next.contains("no evidence about it waits"))
        let next = try stage.explain(0).token.apps[0].next
        #expect(next.hasPrefix("take row 1 of pushsweep_evidence: "), "\(next)")
        try stage.swept().ends(3)
        #expect(try stage.database.marked == 1)
    }

    @Test("a row that refused its change is told with the cause", arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        try stage.database.hold("id", "2")
        try stage.swept().ends(65)
        let events = try stage.explain(1).token.events
        #expect(
            events.contains {
                $0.kind == .change && $0.reason == (engine == .sqlite ? "failure" : "trigger")
            }, "\(events)")
        #expect(events.contains { $0.kind == .evidence && $0.rule == .refused })
    }

    /// Tables of other shapes: their columns, a row's values, and the settings.
    private static let kinds: [(name: String, columns: String, values: String, settings: String)] =
        [
            (
                "marks beside the table", "registered_at DATETIME", "'2020-09-13 12:26:40'", ""
            ),
            (
                "no registration", "invalidated_at BIGINT", "NULL",
                ", registered-at: {column: none}, invalidated-at: {column: invalidated_at, type: epoch-milliseconds}"
            ),
            (
                "epochs of seconds", "registered_at BIGINT, invalidated_at BIGINT",
                "1600000000, NULL",
                ", registered-at: {column: registered_at, type: epoch-seconds}, "
                    + "invalidated-at: {column: invalidated_at, type: epoch-seconds}"
            ),
            (
                "a column of two values", "registered_at BIGINT, active INTEGER", "1600000000, 1",
                ", registered-at: {column: registered_at, type: epoch-seconds}, "
                    + "living: {column: active, living: 1, dead: 0}"
            ),
            (
                "bytes as the key", "registered_at BIGINT, invalidated_at BIGINT",
                "1600000000, NULL",
                ", key: [token], registered-at: {column: registered_at, type: epoch-seconds}, "
                    + "invalidated-at: {column: invalidated_at, type: epoch-seconds}"
            ),
        ]

    @Test(
        "a mark, its undo and the present state are told for tables of other shapes",
        arguments: TestEngine.available, kinds.indices)
    func shapes(_ engine: TestEngine, _ place: Int) throws {
        let shape = Self.kinds[place]
        let isBinary = place == 4
        let hex = DeviceToken.numbered(7).hex
        let stage = try SweepStage(engine, feeds: [list(7)], schema: false)
        try stage.database.createSideTables()
        stage.lines.limits = SweepStage.anyNumber
        let bytes = engine == .sqlite ? "BLOB" : "VARBINARY(100)"
        try stage.database.sql.run(
            "CREATE TABLE devices ("
                + (isBinary
                    ? "token \(bytes) PRIMARY KEY, "
                    : "id INTEGER PRIMARY KEY, token VARCHAR(200), ")
                + shape.columns + ")")
        try stage.database.sql.run(
            "INSERT INTO devices VALUES (" + (isBinary ? "x'\(hex)', " : "1, '\(hex)', ")
                + shape.values + ")")
        try stage.database.execute("CREATE INDEX by_token ON devices (token)")
        stage.lines.activeUsers =
            "  active-users: {table: devices, token: {column: token, encoding: "
            + "\(isBinary ? "binary" : "hex")}, app: {column: none}, environment: {column: none}"
            + "\(shape.settings)}"
        let run = try #require(try stage.swept().ends(0, for: shape.name).json["run"] as? String)
        let marked = try stage.explain(7).token
        #expect(marked.apps.map(\.state) == ["stale"], "\(shape.name): \(marked)")
        let evidence = try #require(marked.events.first { $0.kind == .evidence })
        #expect(evidence.basis == "ledger" && evidence.rule == (place == 1 ? .undated : .marked))
        let change = try #require(marked.events.first { $0.kind == .change })
        #expect(change.after != nil && change.before != nil, "\(shape.name): \(change)")
        #expect(marked.events.allSatisfy { $0.key?.contains(hex) != true })
        try stage.undone(run).ends(0)
        let undone = try stage.explain(7).token
        #expect(undone.apps.map(\.state) == ["living"], "\(shape.name): \(undone)")
        #expect(undone.events.contains { $0.kind == .undo }, "\(shape.name): \(undone)")
    }

    @Test(
        "texts of a database and of a person control nothing, and a token within one is shortened",
        arguments: TestEngine.available)
    func hostile(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine, feeds: [.tuples((0..<30).map { .dead($0, at: seconds) })])
        let database = stage.database
        try database.register(0..<30, at: registered)
        stage.lines.limits = "guard: {floor: 7}"
        let hold = try stage.swept().ends(3).app()["batch"] as? String ?? ""
        try stage.run("holds", "discard", hold, "--reason", "wrong \u{202E}list").ends(0)
        let token = DeviceToken.numbered(3)
        let evil = "x\u{1B}]52;c;AAAA\u{07}\ncode=0 Ab \(token.hex.uppercased()) \(token.hex)!"
        for (table, column) in [
            ("active_users", "invalid_reason"), ("pushsweep_invalid", "reason"),
            ("pushsweep_evidence", "reason"), ("push_queue", "reason"),
            ("active_users", "user_id"), ("pushsweep_invalid", "app"),
            ("pushsweep_evidence", "app"),
        ] {
            try database.execute("ALTER TABLE \(table) MODIFY \(column) VARCHAR(300)", on: .mariaDB)
        }
        let (bytes, time) = (SQLValue.bytes(token.bytes), database.time(dead))
        try database.execute(
            "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at, reason) "
                + "VALUES ('chat', 'production', ?, ?, ?)", [bytes, time, .text(evil)])
        try database.report(token.hex, reason: evil, app: evil)
        try stage.queue(3, "failed", .text(evil), at: dead)
        try database.execute(
            "UPDATE active_users SET user_id = ?, invalid_reason = ?, invalidated_at = ? "
                + "WHERE device_token = ?", [.text(evil), .text(evil), time, bytes])
        for words in [[token.hex], ["--user", evil]] {
            for format in ["text", "json"] {
                let result = try stage.run(["explain", "--format", format] + words).ends(0, "list")
                for scalar in result.printed.unicodeScalars {
                    #expect(
                        scalar == "\n"
                            || scalar.value >= 0x20 && scalar.value != 0x7F
                                && scalar.value != 0x202E
                    )
                }
                #expect(!result.output.split(separator: "\n").contains { $0.hasPrefix("code=") })
                #expect(!result.output.lowercased().contains(token.hex), "\(result.output)")
            }
        }
        try stage.run("explain", token.hex, "--whole-tokens").ends(0, token.hex.uppercased())
        let events = try stage.explain(3).token.events
        #expect(events.contains { $0.rule == .discarded && $0.reason == "wrong \u{202E}list" })
        #expect(events.contains { $0.kind == .decision && $0.action == "discarded" })
        #expect(events.contains { $0.rule == .noApp })
        #expect(
            events.compactMap(\.reason).count {
                $0.hasSuffix("Ab \(token.redacted) \(token.redacted)!")
            } >= 3, "\(events.compactMap(\.reason))")
    }
}
