import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenTable

extension DocumentBlock {
    /// The blocks of docs/evidence.md.
    fileprivate static func all() throws -> [DocumentBlock] { try all(of: "docs/evidence.md") }

    /// The function that reports an answer, in the language whose files end so.
    static func report(_ ending: String) throws -> String {
        try String(contentsOf: path("docs/examples/report.\(ending)"), encoding: .utf8)
    }
}

@Suite("The document about evidence from other senders")
struct EvidenceDocumentTests {
    private static let hex = "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"
    private static let body = #"{"reason":"Unregistered","timestamp":1700000000123}"#

    private static func stage(_ engine: TestEngine = .sqlite) throws -> IntakeStage {
        let stage = try IntakeStage(engine)
        let token = try #require(try? DeviceToken(spelling: hex))
        try stage.database.register(token, at: 1_600_000_000_000)
        return stage
    }

    /// Sweeps, and expects the one row to be marked at the time of the answer.
    private static func expectMark(_ stage: IntakeStage, _ note: Comment) throws {
        try stage.json("sweep").ends(0)
        #expect(try stage.marked == 1, note)
    }

    @Test("each import recipe marks the token of its sample")
    func recipes() throws {
        let blocks = try DocumentBlock.all()
        var tried = 0
        for (number, block) in blocks.enumerated() where !block.name.isEmpty {
            guard block.name != "rpush" else { continue }
            let stage = try Self.stage()
            let path = try stage.folder.write(block.name, block.text)
            let command = blocks[number + 1].text.replacingOccurrences(of: "\n", with: "")
            var words = DocumentBlock.words(command)
            #expect(words.removeFirst() == "pushsweep")
            words = words.map { $0 == block.name ? path : $0 }
            let result = try stage.run(words).ends(0, for: "\(block.name)")
            #expect(try stage.marked == 1, "\(block.name): \(result.output)")
            tried += 1
        }
        #expect(tried == 4)
    }

    @Test("the SQL example and that for rpush report a dead token", arguments: TestEngine.available)
    func sql(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        let insert = try #require(
            try DocumentBlock.all().first { $0.text.hasPrefix("INSERT INTO pushsweep_evidence") }
        ).text
        try stage.database.execute(insert.replacingOccurrences(of: ";\n", with: ""))
        try Self.expectMark(stage, "SQL on \(engine)")

        // Its expression is that of servers, where rpush keeps its table.
        guard engine == .mariaDB else { return }
        let rpush = try Self.stage(engine)
        try Self.makeRpushTables(rpush)
        let select = try #require(try DocumentBlock.all().first { $0.name == "rpush" })
        func report(_ stage: IntakeStage) throws {
            for statement in select.statements { try stage.database.execute(statement) }
        }
        try report(rpush)
        #expect(try rpush.waiting == 3, "failed notifications of this app to Apple's devices")
        let swept = try rpush.json("sweep").ends(0)
        #expect(try rpush.marked == 1)

        // What was undone is reported again before each sweep, and counts once it fails again.
        try rpush.run("undo", swept.json["run"] as? String ?? "").ends(0)
        try report(rpush)
        try rpush.json("sweep").ends(0)
        #expect(try rpush.marked == 0)
        try rpush.database.execute(
            "UPDATE rpush_notifications SET failed_at = UTC_TIMESTAMP() + INTERVAL 1 SECOND WHERE id = 1"
        )
        try report(rpush)
        try Self.expectMark(rpush, "rpush on \(engine)")

        // One that was made before fails after it: its lower number has to come too.
        let rest = try Self.stage(engine)
        try rest.database.register(0..<1, at: 1_600_000_000_000)
        try Self.makeRpushTables(rest)
        try rest.database.execute(
            "UPDATE rpush_notifications SET error_code = 410, error_description = 'Unregistered', "
                + "device_token = '\(DeviceToken.numbered(0).hex)' WHERE id = 2")
        for marked in [1, 2] {
            try report(rest)
            try rest.json("sweep").ends(0)
            #expect(try rest.marked == marked, "run \(marked)")
            try rest.database.execute("UPDATE rpush_notifications SET failed = 1 WHERE id = 2")
        }

        // The export for another database has the columns of the preset.
        let export = try Self.stage(engine)
        try Self.makeRpushTables(export)
        let shell = try #require(
            try DocumentBlock.all().first { $0.text.contains("mysql --batch") })
        let query = try #require(shell.text.split(separator: "\"").dropFirst().first)
        let rows = try export.database.texts(String(query))
        #expect(rows.count == 3, "failed notifications of this app")
        let lines = [["device_token", "error_code", "error_description", "created_at"]] + rows
        let path = try export.folder.write(
            "rpush.tsv", lines.map { $0.joined(separator: "\t") + "\n" }.joined())
        try export.run("import", path, "--from", "rpush", "--app", "chat").ends(0)
        #expect(try export.marked == 1)
    }

    /// Makes rpush's tables: apps of two names, environments and platforms, and notifications of each.
    private static func makeRpushTables(_ stage: IntakeStage) throws {
        try stage.database.execute(
            "CREATE TABLE rpush_apps (id BIGINT PRIMARY KEY, name VARCHAR(255) NOT NULL, "
                + "environment VARCHAR(255), type VARCHAR(255) NOT NULL)")
        try stage.database.execute(
            """
            INSERT INTO rpush_apps VALUES
            (1, 'chat', 'production', 'Rpush::Client::ActiveRecord::Apnsp8::App'),
            (2, 'chat', 'development', 'Rpush::Client::ActiveRecord::Apnsp8::App'),
            (3, 'other', 'production', 'Rpush::Client::ActiveRecord::Apns2::App'),
            (4, 'chat', 'production', 'Rpush::Client::ActiveRecord::Fcm::App')
            """)
        try stage.database.execute(
            "CREATE TABLE rpush_notifications (id BIGINT PRIMARY KEY, device_token VARCHAR(255), "
                + "failed SMALLINT NOT NULL, error_code INT, error_description TEXT, "
                + "app_id INT NOT NULL, created_at DATETIME NOT NULL, failed_at DATETIME)")
        let long = String(repeating: "A long description. ", count: 40)
        let rows: [(token: String?, failed: Int64, code: Int64, description: String, app: Int64)] =
            [
                (hex, 1, 410, "Unregistered", 1), (hex, 0, 0, "", 1),
                (hexToken(3), 1, 400, "BadDeviceToken", 1), (hexToken(4), 1, 400, long, 1),
                (nil, 1, 410, "Unregistered", 1), ("", 1, 410, "Unregistered", 1),
                (hexToken(5), 1, 410, "Unregistered", 2), (hexToken(6), 1, 410, "Unregistered", 3),
                (nil, 1, 410, "Gone", 4), ("registration:id", 1, 410, "Gone", 4),
            ]
        for (number, row) in rows.enumerated() {
            try stage.database.execute(
                "INSERT INTO rpush_notifications VALUES (?, ?, ?, ?, ?, ?, '2023-11-14 22:13:20', "
                    + "'2023-11-14 22:13:21')",
                [
                    .integer(Int64(number + 1)), row.token.map { .text($0) } ?? .null,
                    .integer(row.failed), .integer(row.code), .text(row.description),
                    .integer(row.app),
                ])
        }
    }

    @Test(
        "the statements that take the numbers from an account leave it able to report",
        .needsServer)
    func revoked() throws {
        let stage = try Self.stage(.mariaDB)
        let account = try ServerAccount(of: stage.database)
        try account.grant("INSERT", on: "pushsweep_evidence")
        let blocks = try DocumentBlock.all()
        for word in ["REVOKE", "GRANT"] {
            let block = try #require(blocks.first { $0.text.hasPrefix(word) })
            let statement = try #require(block.statements.first)
            try account.admin.run(
                statement.replacing("push.", with: "\(account.database).")
                    .replacing("'sender'", with: "'\(account.name)'"))
        }
        let sender = try TokenTable(account.settings).connection
        let insert = "INSERT INTO pushsweep_evidence (app, device_token) VALUES ('chat', 'ab')"
        try sender.run(insert)
        #expect(throws: SQLFailure.self) {
            try sender.run(
                insert.replacing("(app,", with: "(id, app,").replacing("('", with: "(9, '"))
        }
    }

    @Test("the PHP example inserts through PDO", .enabled(if: ForeignProgram.php.isInstalled))
    func php() throws {
        let stage = try Self.stage()
        guard case .sqlite(let path) = stage.database.settings.location else { return }
        let call =
            "report($report, '\(Self.hex)', 410, '\(Self.body)');\n"
            + "report($report, '\(Self.hex)', 502, '<html>502</html>');\n"
            + "report($report, '\(Self.hex)', 502, '\"reason\"');\n"
        let script = try stage.folder.write("report.php", try DocumentBlock.report("php") + call)
        try RunningTool(
            program: URL(fileURLWithPath: ForeignProgram.php.rawValue), [script],
            environment: ["PUSH_DSN": "sqlite:\(path)"]
        ).wait().ends(0)
        try Self.expectMark(stage, "PHP")
    }

    @Test("the Python, Ruby and Node examples execute one INSERT where they are installed")
    func drivers() throws {
        for (language, values) in try Self.inserts(status: 410, body: Self.body) {
            let stage = try Self.stage()
            try stage.report(
                try #require(values[1] as? String), status: values[2] as? Int,
                reason: values[3] as? String, time: (values[4] as? Int).map { Int64($0) },
                app: try #require(values[0] as? String))
            try Self.expectMark(stage, "\(language)")
        }
    }

    @Test(
        "the examples outlast a body that is no answer of APNs, such as a proxy's page",
        arguments: [
            "<html>502 Bad Gateway</html>", "", "null", "[]", "17", "{",
            #"{"reason":["a"],"timestamp":"x"}"#,
        ])
    func otherBodies(_ body: String) throws {
        for (language, values) in try Self.inserts(status: 502, body: body) {
            #expect(values[2] as? Int == 502 && values[3] is NSNull, "\(language): \(values)")
            #expect(values[4] is NSNull, "\(language): \(values)")
        }
    }

    /// The values of the INSERT that each example executes whose language is installed.
    private static func inserts(
        status: Int, body: String
    ) throws -> [(language: String, values: [Any])] {
        let call = "\"\(hex)\", \(status), '\(body)'"
        var found: [(String, [Any])] = []
        let stubs: [(language: String, program: ForeignProgram, stub: String)] = [
            (
                "py", .python,
                """

                class Stub:
                    def cursor(self): return self
                    def __enter__(self): return self
                    def __exit__(self, *rest): return False
                    def execute(self, sql, values):
                        assert sql.count("%s") == len(values)
                        print(json.dumps(values))
                    def commit(self): pass

                report(Stub(), \(call))

                """
            ),
            (
                "rb", .ruby,
                """

                class Stub
                  def prepare(sql) = (@marks = sql.count("?"); self)
                  def execute(*values)
                    raise "marks" unless values.length == @marks
                    puts JSON.generate(values)
                  end
                end
                report(Stub.new, \(call))

                """
            ),
            (
                "js", .node,
                """

                report({ execute: async (sql, values) => {
                  if (sql.split('?').length - 1 !== values.length) throw new Error('marks');
                  console.log(JSON.stringify(values));
                } }, \(call));

                """
            ),
        ]
        for (language, program, stub) in stubs where program.isInstalled {
            let folder = try TemporaryFolder()
            let script = try folder.write(
                "report.\(language)", try DocumentBlock.report(language) + stub)
            let result = try program.run([script]).ends(0, for: language)
            let line = try #require(result.output.split(separator: "\n").last)
            let values = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [Any] ?? []
            try #require(values.count == 5)
            found.append((language, values))
        }
        return found
    }

    @Test("the Go example parses", .enabled(if: ForeignProgram.gofmt.isInstalled))
    func go() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("report.go", try DocumentBlock.report("go"))
        let result = try ForeignProgram.gofmt.run(["-l", file]).ends(0)
        #expect(result.output.isEmpty, "\(result.error)")
    }
}
