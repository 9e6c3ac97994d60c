import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing

extension DocumentBlock {
    /// The hook for a sender's library, by the name of its file.
    static func hook(_ name: String) throws -> String {
        try String(contentsOf: path("docs/examples/hooks/\(name)"), encoding: .utf8)
    }
}

/// Each hook runs in its language, with a stub in place of its library.
@Suite("The hooks for senders of other projects")
struct SenderHookTests {
    private static let hex = "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"
    private static let long = String(repeating: "A long reason. ", count: 40)

    private static func stage() throws -> IntakeStage {
        let stage = try IntakeStage(.sqlite)
        let token = try #require(try? DeviceToken(spelling: hex))
        try stage.database.register(token, at: 1_600_000_000_000)
        return stage
    }

    /// The reports that wait: token, status, the length of the reason, and whether there is a time.
    private static func reports(_ stage: IntakeStage) throws -> [[String]] {
        try stage.database.texts(
            "SELECT device_token, status, LENGTH(COALESCE(reason, '')), "
                + "COALESCE(timestamp_ms, 0) > 0 FROM pushsweep_evidence WHERE app = 'chat' "
                + "ORDER BY device_token, status")
    }

    /// Inserts the rows that a stub printed, each a line of JSON: app, token, status, reason, time.
    private static func insert(_ output: String, into stage: IntakeStage) throws {
        for line in output.split(separator: "\n") {
            let row =
                try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [Any] ?? []
            try #require(row.count == 5, "\(line)")
            try stage.report(
                try #require(row[1] as? String), status: row[2] as? Int, reason: row[3] as? String,
                time: (row[4] as? Int).map { Int64($0) }, app: try #require(row[0] as? String))
        }
    }

    /// Sweeps, and expects the one row to be marked.
    private static func expectMark(_ stage: IntakeStage) throws {
        try stage.json("sweep").ends(0)
        #expect(try stage.marked == 1)
    }

    @Test(
        "Laravel: the listener reports what is said of a token, and nothing it meets is thrown",
        .enabled(if: ForeignProgram.php.isInstalled))
    func laravel() throws {
        let stage = try Self.stage()
        guard case .sqlite(let path) = stage.database.settings.location else { return }
        let stub = #"""

            namespace Illuminate\Notifications\Events;
            class NotificationFailed { public function __construct(public $data) {} }
            namespace Illuminate\Support\Facades;
            class DB {
                static function table($name) { return new self; }
                function insert($row) {
                    $db = new \PDO(getenv('PUSH_DSN'));
                    $names = implode(', ', array_keys($row));
                    $db->prepare("INSERT INTO pushsweep_evidence ($names) VALUES (?, ?, ?, ?, ?)")
                        ->execute(array_values($row));
                }
            }
            namespace App\Listeners;
            function rescue(callable $work) {
                try { $work(); } catch (\Throwable $fault) { echo get_class($fault), "\n"; }
            }
            foreach ([
                ['token' => '\#(Self.hex)', 'error' => 'Unregistered'],
                ['token' => '\#(hexToken(1))', 'error' => 'BadDeviceToken'],
                ['token' => '\#(hexToken(2))', 'error' => ''], ['token' => '\#(hexToken(2))', 'error' => null],
                ['token' => '\#(hexToken(2))', 'error' => ['x']], ['token' => '\#(hexToken(2))'], [], null,
                ['token' => '\#(hexToken(2))', 'error' => '\#(Self.long)'],
                ['error' => 'Unregistered'], ['token' => null, 'error' => 'Unregistered'],
            ] as $data) {
                (new ReportToPushsweep)->handle(
                    new \Illuminate\Notifications\Events\NotificationFailed($data));
            }

            """#
        let script = try stage.folder.write("laravel.php", DocumentBlock.hook("laravel.php") + stub)
        let result = try RunningTool(
            program: URL(fileURLWithPath: ForeignProgram.php.rawValue), [script],
            environment: ["PUSH_DSN": "sqlite:\(path)"]
        ).wait().ends(0)
        #expect(result.output.contains("PDOException"), "a row without a token: \(result.output)")
        #expect(
            try Self.reports(stage) == [
                [hexToken(1), "400", "14", "1"], [Self.hex, "410", "12", "1"],
            ])
        try Self.expectMark(stage)
    }

    @Test(
        "Django: the function reports each failure with its time, also where the database is gone",
        .enabled(if: ForeignProgram.python.isInstalled))
    func django() throws {
        let stage = try Self.stage()
        guard case .sqlite(let path) = stage.database.settings.location else { return }
        let library = """
            import sqlite3, sys, types

            class Cursor:
                def __enter__(self):
                    self.database = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
                    return self
                def __exit__(self, *rest):
                    self.database.close()
                def execute(self, sql, values):
                    assert sql.count("%s") == len(values)
                    self.database.execute(sql.replace("%s", "?"), values)

            class Connection:
                def cursor(self): return Cursor()
                def close(self): pass

            sys.modules["django"] = types.ModuleType("django")
            sys.modules["django.db"] = types.SimpleNamespace(connection=Connection())

            """
        let sending = """

            async def sending():
                for token, status, description, timestamp in [
                    ("\(Self.hex)", "410", "Unregistered", 1700000000123),
                    ("\(hexToken(1))", "400", "BadDeviceToken", None),
                    ("\(hexToken(2))", "500", None, None),
                    ("\(hexToken(3))", "502", ["<html>"], "x"),
                    ("\(hexToken(4))", "503", "\(Self.long)", 1.5),
                    ("\(hexToken(5))", "failed", "TimeoutError", None),
                    ("\(hexToken(6))", None, None, None),
                ]:
                    result = types.SimpleNamespace(
                        status=status, description=description, timestamp=timestamp)
                    await report(types.SimpleNamespace(device_token=token), result)
                await report(types.SimpleNamespace(device_token="\(hexToken(7))"), None)

            asyncio.run(sending())

            """
        let script = try stage.folder.write(
            "hook.py", library + DocumentBlock.hook("django.py") + sending)
        let result = try ForeignProgram.python.run([script, path]).ends(0)
        #expect(result.error.contains("an answer of APNs was not reported"), "\(result.error)")
        #expect(
            try Set(Self.reports(stage)) == [
                [Self.hex, "410", "12", "1"], [hexToken(1), "400", "14", "0"],
                [hexToken(2), "500", "0", "0"],
                [hexToken(3), "502", "0", "0"], [hexToken(4), "503", "64", "0"],
            ])
        try ForeignProgram.python.run([script, "/nowhere/push.db"]).ends(0)
        try Self.expectMark(stage)
    }

    @Test(
        "rpush: the reflection reports the answers to one app's devices, and no other failure",
        .enabled(if: ForeignProgram.ruby.isInstalled))
    func rpush() throws {
        let stage = try Self.stage()
        let library = """
            require "json"

            module ActiveRecord
              class Base
                def self.connection_pool = self
                def self.with_connection = yield(self)
                def self.sanitize_sql_array(list)
                  raise "marks" unless list[0].count("?") == list.length - 1
                  list.drop(1)
                end
                def self.execute(row)
                  raise "the database is gone" if row[1] == "gone"
                  puts JSON.generate(row)
                end
              end
            end

            module Rpush
              def self.reflect = yield(self)
              def self.notification_failed(&block)
                @block = block
              end
              def self.failed(notification) = @block.call(notification)
              def self.logger = self
              def self.error(error) = warn(error.message)
              module Client
                module ActiveRecord
                  module Apnsp8
                    App = Struct.new(:name, :environment)
                  end
                  module Fcm
                    App = Struct.new(:name, :environment)
                  end
                end
              end
            end

            """
        let failures = """

            Failed = Struct.new(:device_token, :error_code, :error_description, :app, :created_at)
            apns, fcm = Rpush::Client::ActiveRecord::Apnsp8::App, Rpush::Client::ActiveRecord::Fcm::App
            chat, made = apns.new("chat", "production"), Time.at(1_700_000_000, 123, :millisecond)
            [
              Failed.new("\(Self.hex)", 410, "Unregistered", chat, made),
              Failed.new("\(hexToken(1))", 400, "BadDeviceToken", chat, made),
              Failed.new("\(hexToken(2))", 413, nil, chat, made),
              Failed.new("\(hexToken(3))", 502, "\(Self.long)", chat, made),
              Failed.new("\(hexToken(4))", nil, "Notification failed to be delivered", chat, made),
              Failed.new("\(hexToken(4))", 8, "Invalid token", chat, made),
              Failed.new("\(hexToken(4))", 410, "Unregistered", apns.new("chat", "development"), made),
              Failed.new("\(hexToken(4))", 410, "Unregistered", apns.new("other", "production"), made),
              Failed.new("\(hexToken(4))", 410, "Gone", fcm.new("chat", "production"), made),
              Failed.new("\(hexToken(4))", 410, "Unregistered", nil, made),
              Failed.new("\(hexToken(4))", 410, "Unregistered", chat, nil),
              Failed.new("gone", 410, "Unregistered", chat, made),
              nil,
            ].each { |notification| Rpush.failed(notification) }

            """
        let script = try stage.folder.write(
            "hook.rb", library + DocumentBlock.hook("rpush.rb") + failures)
        let result = try ForeignProgram.ruby.run([script]).ends(0)
        #expect(result.error.contains("the database is gone"), "\(result.error)")
        #expect(result.output.contains("1700000000123"), "\(result.output)")
        try Self.insert(result.output, into: stage)
        #expect(
            try Set(Self.reports(stage)) == [
                [Self.hex, "410", "12", "1"], [hexToken(1), "400", "14", "1"],
                [hexToken(2), "413", "0", "1"],
                [hexToken(3), "502", "64", "1"],
            ])
        try Self.expectMark(stage)
    }

    @Test(
        "node-apn: the function reports what APNs answered, also where the database fails meanwhile",
        .enabled(if: ForeignProgram.node.isInstalled))
    func node() throws {
        let stage = try Self.stage()
        let stub = """

            const db = { execute: async (sql, values) => {
              if (sql.split('?').length - 1 !== values.length) throw new Error('marks');
              if (values[1] === 'gone') throw new Error('the database is gone');
              console.log(JSON.stringify(values));
            } };
            const dead = { reason: 'Unregistered', timestamp: 1700000000123 };
            const long = '\(Self.long)';
            const failures = [
              { device: 'gone', status: 410, response: dead },
              { device: '\(Self.hex)', status: '410', response: dead },
              { device: '\(hexToken(1))', error: new Error('connection') },
              { device: '\(hexToken(2))', status: 500, error: new Error('empty body') },
              { device: '\(hexToken(3))', status: 502, response: '<html>' },
              { device: '\(hexToken(4))', status: 503, response: { reason: ['x'], timestamp: 'x' } },
              { device: '\(hexToken(5))', status: 503, response: { reason: long, timestamp: 1.5 } },
              { device: '\(hexToken(6))', status: 503, response: null },
              new Error('unknown'), null, undefined,
            ];
            report(db, failures).then(() => report(db, undefined));

            """
        let script = try stage.folder.write("hook.js", DocumentBlock.hook("node-apn.js") + stub)
        let result = try ForeignProgram.node.run([script]).ends(0)
        #expect(result.error.contains("the database is gone"), "\(result.error)")
        try Self.insert(result.output, into: stage)
        #expect(
            try Set(Self.reports(stage)) == [
                [Self.hex, "410", "12", "1"], [hexToken(3), "502", "0", "0"],
                [hexToken(4), "503", "0", "0"],
                [hexToken(5), "503", "64", "0"],
            ])
        try Self.expectMark(stage)
    }

    @Test("apns2: the hook has the form of Go", .enabled(if: ForeignProgram.gofmt.isInstalled))
    func apns2Form() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("apns2.go", try DocumentBlock.hook("apns2.go"))
        let result = try ForeignProgram.gofmt.run(["-l", file]).ends(0)
        #expect(result.output.isEmpty, "\(result.error)")
    }

    private static let compiler = "/usr/bin/go"
    private static let hasCompiler = FileManager.default.isExecutableFile(atPath: compiler)

    @Test(
        "apns2: the function reports what Push returned, and no error of it or of the database",
        .enabled(if: hasCompiler))
    func apns2() throws {
        let stage = try Self.stage()
        let folder = try TemporaryFolder()
        let files = [
            ("go.mod", Self.module), ("main.go", Self.main),
            ("sender/apns2.go", try DocumentBlock.hook("apns2.go")),
            ("apns2/go.mod", "module github.com/sideshow/apns2\n"),
            ("apns2/apns2.go", Self.library),
        ]
        for name in ["sender", "apns2"] {
            try FileManager.default.createDirectory(
                atPath: folder.file(name), withIntermediateDirectories: true)
        }
        for (name, text) in files { try folder.write(name, text) }
        let result = try RunningTool(
            program: URL(fileURLWithPath: "/bin/sh"),
            ["-c", "cd '\(folder.path)' && \(Self.compiler) run ."],
            environment: ["GOFLAGS": "-mod=mod", "GOPROXY": "off"]
        ).wait().ends(0)
        #expect(result.error.contains("the database is gone"), "\(result.error)")
        try Self.insert(result.output, into: stage)
        #expect(
            try Set(Self.reports(stage)) == [
                [Self.hex, "410", "12", "1"], [hexToken(1), "502", "0", "0"],
                [hexToken(2), "503", "64", "0"],
            ])
        try Self.expectMark(stage)
    }

    private static let module = """
        module hooks

        go 1.19

        require github.com/sideshow/apns2 v0.25.0

        replace github.com/sideshow/apns2 => ./apns2

        """

    /// What the hook uses of the library.
    private static let library = """
        package apns2

        import "time"

        type Time struct{ time.Time }

        type Response struct {
        	StatusCode int
        	Reason     string
        	Timestamp  Time
        }

        func (c *Response) Sent() bool { return c.StatusCode == 200 }

        """

    /// A database that prints the values of each statement, and results of the library.
    private static let main = """
        package main

        import (
        	"database/sql"
        	"database/sql/driver"
        	"encoding/json"
        	"errors"
        	"fmt"
        	"time"

        	"github.com/sideshow/apns2"
        	"hooks/sender"
        )

        type stub struct{}

        func (stub) Open(string) (driver.Conn, error) { return stub{}, nil }
        func (stub) Prepare(string) (driver.Stmt, error) { return stub{}, nil }
        func (stub) Begin() (driver.Tx, error) { return nil, errors.New("no transaction") }
        func (stub) Close() error { return nil }
        func (stub) NumInput() int { return 5 }
        func (stub) Query([]driver.Value) (driver.Rows, error) { return nil, errors.New("no query") }
        func (stub) Exec(values []driver.Value) (driver.Result, error) {
        	if values[1] == "gone" {
        		return nil, errors.New("the database is gone")
        	}
        	line, _ := json.Marshal(values)
        	fmt.Println(string(line))
        	return driver.RowsAffected(1), nil
        }

        func main() {
        	sql.Register("stub", stub{})
        	db, _ := sql.Open("stub", "")
        	at := apns2.Time{Time: time.UnixMilli(1700000000000)}
        	dead := apns2.Response{StatusCode: 410, Reason: "Unregistered", Timestamp: at}
        	page := apns2.Response{StatusCode: 502}
        	long := apns2.Response{StatusCode: 503, Reason: "\(long)"}
        	sender.Report(db, "gone", &dead, nil)
        	sender.Report(db, "\(hex)", &dead, nil)
        	sender.Report(db, "\(hexToken(1))", &page, nil)
        	sender.Report(db, "\(hexToken(2))", &long, nil)
        	sender.Report(db, "\(hexToken(3))", &apns2.Response{StatusCode: 200}, nil)
        	sender.Report(db, "\(hexToken(3))", &apns2.Response{}, errors.New("a page"))
        	sender.Report(db, "\(hexToken(3))", nil, errors.New("no connection"))
        }

        """
}
