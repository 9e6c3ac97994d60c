import APNsProtocol
import APNsSimulator
import Foundation
import Settings
import TestSupport
import Testing

@Suite("The recipes, each run from its page")
struct RecipeTests {
    private static let hex = RecipeStage.hex

    @Test(
        "each page makes tables, then grants, and then its check and sweep need no other account",
        arguments: SettingsExample.allCases.filter { $0 != .short })
    func order(_ example: SettingsExample) throws {
        let blocks = try RecipeStage.blocks(of: example)
        let commands = blocks.filter { $0.language == "sh" }.flatMap(\.commands).map(\.words)
            .filter { ["pushsweep", "mysql"].contains($0.first) }
        #expect(
            commands.prefix(4).map { $0.filter { !$0.hasPrefix("--") }.joined(separator: " ") } == [
                "pushsweep schema apply", "pushsweep check pushsweep > grants.sql",
                "mysql push < grants.sql", "pushsweep check",
            ])
        let dry = try #require(commands.firstIndex(of: ["pushsweep", "sweep", "--dry-run"]))
        #expect(commands[dry + 1] == ["pushsweep", "sweep"])
    }

    @Test(
        "each page gives the files with secrets that its settings name to the user of the run",
        arguments: SettingsExample.allCases.filter { $0 != .short })
    func owners(_ example: SettingsExample) throws {
        let path = DocumentBlock.path("docs/recipes/\(try #require(example.page))")
        let page = try String(contentsOf: path, encoding: .utf8)
        let given = page.split(separator: "\n").filter { $0.hasPrefix("chown pushsweep ") }
        let names = (page + example.text).matches(
            of: /(?:file|key): ([A-Za-z0-9_-]+\.(?:p8|p12|pem|key))|passphrase-file: ([a-z-]+)/
        )
        .compactMap { $0.1 ?? $0.2 }
        for name in Set(names) where !["chat.pem", "chat.key"].contains(name) {
            #expect(given.contains { $0.contains(name) }, "\(name)")
        }
    }

    @Test(
        "django: active says who is dead, and a row that Django sets active again stays so",
        arguments: TestEngine.available)
    func django(_ engine: TestEngine) throws {
        let stage = try RecipeStage("django", engine)
        let rows = [
            ("old", Self.hex, "2020-01-01 00:00:00", 1),
            ("other", hexToken(1), "2020-01-01 00:00:00", 1),
            ("inactive", hexToken(2), "2020-01-01 00:00:00", 0),
        ]
        for (name, token, created, active) in rows {
            try stage.database.execute(
                "INSERT INTO push_notifications_apnsdevice (name, registration_id, date_created, active) "
                    + "VALUES (?, ?, ?, ?)",
                [.text(name), .text(token), .text(created), .integer(Int64(active))])
        }
        let living = "SELECT name FROM push_notifications_apnsdevice WHERE active = 1 ORDER BY name"
        try stage.follow("First run")
        try stage.follow("Evidence")
        #expect(try stage.database.texts(living) == [["other"]])
        #expect(try stage.marked == 1)

        try stage.database.execute(
            "UPDATE push_notifications_apnsdevice SET active = 1 WHERE name = 'old'")
        try stage.follow("Evidence")
        #expect(try stage.database.texts(living) == [["old"], ["other"]], "no later evidence")
    }

    @Test(
        "laravel: the listener's row deletes the token of a device that did not come back",
        .enabled(if: ForeignProgram.php.isInstalled), arguments: TestEngine.available)
    func laravel(_ engine: TestEngine) throws {
        let stage = try RecipeStage("laravel", engine)
        for (token, platform, updated) in [
            (Self.hex, "ios", "2020-01-01 00:00:00"), (hexToken(1), "ios", "2020-01-01 00:00:00"),
            (hexToken(2), "android", "2020-01-01 00:00:00"),
            (hexToken(3), "ios", "2037-01-01 00:00:00"),
        ] {
            try stage.database.execute(
                "INSERT INTO device_tokens (user_id, token, platform, updated_at) VALUES (1, ?, ?, ?)",
                [.text(token), .text(platform), .text(updated)])
        }
        try stage.follow("First run")

        let listener = try DocumentBlock.hook("laravel.php")
        let stub = """

            namespace Illuminate\\Notifications\\Events;
            class NotificationFailed { public function __construct(public array $data) {} }
            namespace Illuminate\\Support\\Facades;
            class DB {
                static function table($name) { return new self; }
                function insert($row) { echo json_encode($row), "\\n"; }
            }
            namespace App\\Listeners;
            function rescue(callable $work) { $work(); }
            foreach ([['\(Self.hex)', 'Unregistered'], ['\(hexToken(1))', 'BadDeviceToken'],
                      ['\(hexToken(2))', 'Unregistered'], ['\(hexToken(3))', 'ExpiredToken']] as [$token, $reason]) {
                (new ReportToPushsweep)->handle(
                    new \\Illuminate\\Notifications\\Events\\NotificationFailed(
                        ['id' => 'x', 'token' => $token, 'error' => $reason]));
            }

            """
        let script = try stage.folder.write("listener.php", listener + stub)
        let result = try ForeignProgram.php.run([script]).ends(0)
        let lines = result.output.split(separator: "\n")
        #expect(lines.count == 4)
        for line in lines {
            let row = try #require(
                try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            try stage.insert(
                ["app", "device_token", "status", "reason", "timestamp_ms"].map { row[$0] })
        }
        try stage.follow("Sweep")
        #expect(
            try stage.database.texts("SELECT token FROM device_tokens ORDER BY id").map { $0[0] }
                == [hexToken(1), hexToken(2), hexToken(3)])
        try stage.run("undo", "--since", "2000-01-01T00:00:00Z").ends(0)
        #expect(try stage.database.rows(of: "device_tokens") == 4)
    }

    @Test(
        "node: failures of node-apn mark the installation, and the sender's query leaves it out",
        .enabled(if: ForeignProgram.node.isInstalled), arguments: TestEngine.available)
    func node(_ engine: TestEngine) throws {
        let stage = try RecipeStage("node", engine)
        for (id, token, type, app) in [
            ("a", Self.hex, "ios", "com.example.chat"),
            ("b", hexToken(1), "ios", "com.example.chat"),
            ("c", Self.hex, "ios", "com.example.other"),
            ("d", Self.hex, "android", "com.example.chat"),
            ("e", nil, "ios", "com.example.chat"),
        ] {
            try stage.database.execute(
                "INSERT INTO installations (objectId, installationId, deviceToken, deviceType, "
                    + "appIdentifier, createdAt, updatedAt) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    .text(id), .text(id), token.map { .text($0) } ?? .null, .text(type), .text(app),
                    .text("2020-01-01 00:00:00.000"), .text("2020-01-01 00:00:00.000"),
                ])
        }
        try stage.follow("First run")
        let sender = try DocumentBlock.hook("node-apn.js")
        let stub = """

            report({ execute: async (sql, values) => console.log(JSON.stringify(values)) }, [
              { device: '\(Self.hex)', status: '410', response: { reason: 'Unregistered', timestamp: 1700000000123 } },
              { device: '\(hexToken(1))', status: 400, response: { reason: 'BadDeviceToken' } },
              { device: '\(hexToken(1))', error: new Error('connection') },
            ]);

            """
        let script = try stage.folder.write("sender.js", sender + stub)
        let result = try ForeignProgram.node.run([script]).ends(0)
        let lines = result.output.split(separator: "\n")
        #expect(lines.count == 2)
        for line in lines {
            try stage.insert(
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [Any]))
        }
        try stage.follow("Sweep")
        #expect(try stage.marked == 1)
        #expect(
            try stage.database.texts("SELECT app FROM pushsweep_invalid")
                == [["com.example.chat"]])
        let expected = [hexToken(1), Self.hex].sorted()
        try stage.follow("What the sender leaves out")
        let view = try stage.json("schema", "print", "--view")
        for statement in try #require(view.json["statements"] as? [String]) {
            try stage.database.sql.run(statement)
        }
        let sendable = "SELECT deviceToken FROM pushsweep_sendable"
        #expect(try stage.database.texts(sendable).map { $0[0] }.sorted() == expected)
        if engine == .mariaDB {
            let query = try #require(stage.blocks.first { $0.name == "sender" }?.statements.first)
            #expect(
                try stage.database.texts(query).map { $0[0] }.sorted() == expected,
                "the token of the other app is sent to")
        }
        // As JavaScript writes a time. This device came back.
        if engine == .sqlite {
            try stage.database.execute(
                "UPDATE installations SET updatedAt = '2023-11-14T22:13:20.124Z' WHERE objectId = 'a'"
            )
            #expect(try stage.database.texts(sendable).count == 3)
        }
    }

    @Test(
        "private-gateway: a new table, and the list of the gateway by a PKCS#12 certificate",
        arguments: TestEngine.available)
    func privateGateway(_ engine: TestEngine) throws {
        let stage = try RecipeStage("private-gateway", engine)
        let gateway = try stage.feedback("chat", [FeedbackTuple.dead(1, at: 1_700_000_000)])
        defer { gateway.stop() }
        try stage.follow("First run")
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        try stage.follow("Dead tokens")
        #expect(try stage.database.marked == 1)
    }
}
