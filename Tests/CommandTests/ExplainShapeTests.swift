import APNsProtocol
import Database
import Foundation
import Operations
import TestSupport
import Testing

private let registered: Int64 = 1_600_000_000_000

@Suite("pushsweep explain, tables and texts of all kinds")
struct ExplainShapeTests {
    private static func report(_ result: ToolResult) throws -> ExplainReport {
        #expect(result.exit == 0 && result.error == "", "\(result.error)")
        return try JSONDecoder().decode(ExplainReport.self, from: Data(result.output.utf8))
    }

    private static func token(
        _ stage: SweepStage, _ number: Int
    ) throws -> ExplainedToken {
        let result = try stage.run(
            "explain", DeviceToken.numbered(number).hex, "--format", "json")
        return try #require(try report(result).tokens.first)
    }

    /// Tables of other shapes: their columns, a row's values, and the settings.
    private static let kinds: [(name: String, columns: String, values: String, settings: String)] =
        [
            (
                "marks beside the table",
                "id INTEGER PRIMARY KEY, token VARCHAR(200), registered_at DATETIME",
                "'%', '2020-09-13 12:26:40'", ""
            ),
            (
                "no registration",
                "id INTEGER PRIMARY KEY, token VARCHAR(200), invalidated_at BIGINT",
                "'%', NULL",
                ", registered-at: {column: none}, invalidated-at: {column: invalidated_at, type: epoch-milliseconds}"
            ),
            (
                "epochs of seconds",
                "id INTEGER PRIMARY KEY, token VARCHAR(200), registered_at BIGINT, invalidated_at BIGINT",
                "'%', 1600000000, NULL",
                ", registered-at: {column: registered_at, type: epoch-seconds}, "
                    + "invalidated-at: {column: invalidated_at, type: epoch-seconds}"
            ),
            (
                "a column of two values",
                "id INTEGER PRIMARY KEY, token VARCHAR(200), registered_at BIGINT, active INTEGER",
                "'%', 1600000000, 1",
                ", registered-at: {column: registered_at, type: epoch-seconds}, "
                    + "living: {column: active, living: 1, dead: 0}"
            ),
            (
                "bytes as the key",
                "token VARBINARY(100) PRIMARY KEY, registered_at BIGINT, invalidated_at BIGINT",
                "x'%', 1600000000, NULL",
                ", key: [token], registered-at: {column: registered_at, type: epoch-seconds}, "
                    + "invalidated-at: {column: invalidated_at, type: epoch-seconds}"
            ),
        ]

    @Test(
        "a mark, its undo and the present state are told for tables of other shapes",
        arguments: TestEngine.available, kinds.indices)
    func shapes(_ engine: TestEngine, _ place: Int) throws {
        let shape = Self.kinds[place]
        let stage = try SweepStage(
            engine, feeds: [.tuples([.dead(7, at: 1_700_000_000)])], schema: false)
        try stage.database.createSideTables()
        stage.lines.limits = SweepStage.anyNumber
        let prefix = shape.columns.hasPrefix("id") ? "1, " : ""
        let columns =
            shape.columns
            .replacing("VARBINARY(100)", with: engine == .sqlite ? "BLOB" : "VARBINARY(100)")
        try stage.database.sql.run("CREATE TABLE devices (\(columns))")
        try stage.database.sql.run(
            "INSERT INTO devices VALUES (\(prefix)"
                + shape.values.replacing("%", with: DeviceToken.numbered(7).hex) + ")")
        try stage.database.execute("CREATE INDEX by_token ON devices (token)")
        stage.lines.activeUsers =
            "  active-users: {table: devices, token: {column: token, encoding: \(place == 4 ? "binary" : "hex")}, app: {column: none}, "
            + "environment: {column: none}\(shape.settings)}"
        let sweep = try stage.sweep()
        #expect(sweep.exit == 0, "\(shape.name): \(sweep.error)")
        let marked = try Self.token(stage, 7)
        #expect(marked.apps.map(\.state) == ["stale"], "\(shape.name): \(marked)")
        let evidence = try #require(marked.events.first { $0.kind == .evidence })
        #expect(evidence.basis == "ledger", "\(shape.name): \(evidence)")
        #expect(evidence.rule == (place == 1 ? .undated : .marked))
        let change = try #require(marked.events.first { $0.kind == .change })
        #expect(change.after != nil && change.before != nil, "\(shape.name): \(change)")
        #expect(
            marked.events.allSatisfy {
                $0.key.map { !$0.contains(DeviceToken.numbered(7).hex) } ?? true
            })
        let run = try #require(sweep.json["run"] as? String)
        #expect(try stage.run("undo", run).exit == 0)
        let undone = try Self.token(stage, 7)
        #expect(undone.apps.map(\.state) == ["living"], "\(shape.name): \(undone)")
        #expect(undone.events.contains { $0.kind == .undo }, "\(shape.name): \(undone)")
    }

    @Test(
        "control characters from a database and from a person never reach the output",
        arguments: TestEngine.available)
    func hostile(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine, feeds: [.tuples((0..<30).map { .dead($0, at: 1_700_000_000) })])
        try stage.database.register(0..<30, at: registered)
        stage.lines.limits = "guard: {floor: 7}"
        #expect(try stage.sweep().exit == 3)
        let list = try stage.run("holds", "list", "--format", "json")
        let hold = try #require((list.json["holds"] as? [[String: Any]])?.first?["hold"] as? String)
        #expect(try stage.run("holds", "discard", hold, "--reason", "wrong \u{202E}list").exit == 0)
        let evil = "x\u{1B}]52;c;AAAA\u{07}\ncode=0"
        try stage.database.execute(
            "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at, reason) "
                + "VALUES (?, 'production', ?, ?, ?)",
            [
                .text(evil), .bytes(DeviceToken.numbered(3).bytes),
                stage.database.time(1_700_000_000_000), .text(evil),
            ])
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) "
                + "VALUES (?, ?, 410, ?, 1700000000000)",
            [.text(evil), .text(DeviceToken.numbered(3).hex), .text(evil)])
        try stage.database.execute(
            "UPDATE active_users SET user_id = ?, invalid_reason = ?, invalidated_at = ? "
                + "WHERE device_token = ?",
            [
                .text(evil), .text(evil), stage.database.time(1_700_000_000_000),
                .bytes(DeviceToken.numbered(3).bytes),
            ])
        for words in [[DeviceToken.numbered(3).hex], ["--user", evil]] {
            for format in ["text", "json"] {
                let result = try stage.start(["explain", "--format", format] + words).wait()
                #expect(result.exit == 0, "\(result.error)")
                for scalar in (result.output + result.error).unicodeScalars {
                    #expect(
                        scalar == "\n"
                            || scalar.value >= 0x20 && scalar.value != 0x7F
                                && scalar.value != 0x202E
                    )
                }
                #expect(!result.output.split(separator: "\n").contains { $0.hasPrefix("code=") })
                #expect(result.output.contains("list"))
            }
        }
        let token = try Self.token(stage, 3)
        #expect(
            token.events.contains { $0.rule == .discarded && $0.reason == "wrong \u{202E}list" })
        #expect(token.events.contains { $0.kind == .decision && $0.action == "discarded" })
        #expect(token.events.contains { $0.rule == .noApp })
    }

    @Test("rows of pushsweep_evidence that wait are judged as the next sweep will")
    func waiting() throws {
        let stage = try SweepStage(.sqlite, dead: 2)
        func report(_ status: Int, _ reason: String?, _ time: Int64?, _ token: String) throws {
            try stage.database.execute(
                "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) "
                    + "VALUES ('chat', ?, ?, ?, ?)",
                [
                    .text(token), .integer(Int64(status)), reason.map(SQLValue.text) ?? .null,
                    time.map(SQLValue.integer) ?? .null,
                ])
        }
        let hex = DeviceToken.numbered(1).hex
        try report(410, "Unregistered", 1_700_000_000_000, "<\(hex.uppercased())>")
        try report(400, "BadDeviceToken", nil, hex)
        try report(200, nil, nil, hex)
        try report(410, "Unregistered", nil, hex)
        try report(410, "Unregistered", 1_500_000_000_000, hex)
        let token = try Self.token(stage, 1)
        let waiting = token.events.filter { $0.source == "pushsweep_evidence" }
        #expect(
            Set(waiting.map(\.rule)) == [.marked, .suspect, .nothing, .quarantined, .newer],
            "\(waiting)")
        #expect(waiting.allSatisfy { $0.basis == "waiting" })
        #expect(token.apps[0].sends && token.apps[0].next.contains("unless the guard holds it"))
    }

    @Test("quarantined tuples and reports are told with their reason")
    func quarantined() throws {
        let stage = try SweepStage(
            .sqlite, feeds: [.tuples([.dead(1, at: 0), .dead(1, at: 1_700_000_000)])])
        try stage.database.register(0..<2, at: registered)
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status) VALUES ('chat', ?, 410)",
            [.text(DeviceToken.numbered(1).hex.uppercased())])
        #expect(try stage.sweep().exit == 65)
        let events = try Self.token(stage, 1).events.filter { $0.rule == .quarantined }
        #expect(events.count == 2, "\(events)")
        #expect(events.contains { $0.reason?.contains("time 0") == true })
        #expect(events.contains { $0.reason?.contains("it has no time") == true })
    }

    @Test("a user's tokens are explained, no more than fifty, and a user without rows is named")
    func users() throws {
        let stage = try SweepStage(.sqlite, dead: 2)
        for number in 100..<160 {
            try stage.database.register(.numbered(number), at: registered, user: "ada")
        }
        try stage.database.register(.numbered(200), at: registered, user: "ben")
        try stage.database.register(.numbered(201), at: registered, app: "talk", user: "ben")
        func user(_ name: String) throws -> ExplainReport {
            try Self.report(try stage.run("explain", "--user", name, "--format", "json"))
        }
        let ada = try user("ada")
        #expect(ada.tokens.count == 50 && ada.notes.contains { $0.contains("more than 50 tokens") })
        let ben = try user("ben")
        #expect(ben.tokens.count == 2 && ben.user == "ben")
        #expect(ben.tokens.map { $0.apps.map(\.sends) } == [[true], [false]])
        #expect(try user("nobody").tokens == [])
        let text = try stage.run("explain", "--user", "nobody")
        #expect(text.exit == 0 && text.output.contains("no row of the token table"))
    }

    @Test(
        "a token within a free text is shortened in any case, unless whole tokens are wanted",
        arguments: TestEngine.available)
    func tokensInTexts(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        let token = DeviceToken.numbered(1)
        let text = SQLValue.text("Ab \(token.hex.uppercased()) \(token.hex)!")
        for table in ["active_users", "pushsweep_invalid", "pushsweep_evidence", "push_queue"] {
            let column = table == "active_users" ? "invalid_reason" : "reason"
            try stage.database.execute(
                "ALTER TABLE \(table) MODIFY \(column) VARCHAR(300)", on: .mariaDB)
        }
        let time = stage.database.time(1_700_000_000_000)
        let bytes = SQLValue.bytes(token.bytes)
        try stage.database.execute(
            "UPDATE active_users SET invalid_reason = ?, invalidated_at = ? "
                + "WHERE device_token = ?", [text, time, bytes])
        try stage.database.execute(
            "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at, reason) "
                + "VALUES ('chat', 'production', ?, ?, ?)", [bytes, time, text])
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) "
                + "VALUES ('chat', ?, 410, ?, 1700000000000)", [.text(token.hex), text])
        try stage.database.execute(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at, state, "
                + "attempts, reason) VALUES ('chat', 'production', ?, ?, ?, 'failed', 1, ?)",
            [bytes, .bytes(Array("{}".utf8)), time, text])
        for format in ["text", "json"] {
            let words = ["explain", "--format", format, token.hex]
            let short = try stage.start(words).wait()
            #expect(short.exit == 0, "\(short.error)")
            #expect(!short.output.lowercased().contains(token.hex), "\(short.output)")
            let whole = try stage.start(words + ["--whole-tokens"]).wait()
            #expect(whole.exit == 0, "\(whole.error)")
            #expect(whole.output.contains(token.hex.uppercased()))
        }
        let reasons = try Self.token(stage, 1).events.compactMap(\.reason)
        #expect(
            reasons.count { $0 == "Ab \(token.redacted) \(token.redacted)!" } >= 3, "\(reasons)")
    }

    @Test("a row that refused its change is told with the cause", arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        try stage.database.execute(
            "CREATE TRIGGER keep BEFORE UPDATE ON active_users FOR EACH ROW "
                + "BEGIN IF OLD.id = 2 THEN SIGNAL SQLSTATE '45000'; END IF; END", on: .mariaDB)
        try stage.database.execute(
            "CREATE TRIGGER keep BEFORE UPDATE ON active_users WHEN OLD.id = 2 "
                + "BEGIN SELECT RAISE(ABORT, 'kept'); END", on: .sqlite)
        #expect(try stage.sweep().exit == 65)
        let events = try Self.token(stage, 1).events
        #expect(events.contains { $0.kind == .change && $0.reason == "trigger" }, "\(events)")
        #expect(events.contains { $0.kind == .evidence && $0.rule == .refused })
    }
}
