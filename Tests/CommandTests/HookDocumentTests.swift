import APNsProtocol
import Foundation
import TestSupport
import Testing

/// A web server that writes each request's method, path and body to stderr, a line each.
private final class Listener {
    private static let script = """
        import http.server, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                print(self.command, self.path, body.decode(), file=sys.stderr, flush=True)
                self.send_response(200)
                self.end_headers()
            do_GET = do_POST
            def log_message(self, *words): pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        print("port", server.server_port, "open", file=sys.stderr, flush=True)
        server.serve_forever()
        """
    private let tool: RunningTool
    let port: String

    init() throws {
        tool = try RunningTool(
            program: URL(fileURLWithPath: "/usr/bin/python3"), ["-c", Self.script])
        guard tool.awaitError("open\n") else { throw CocoaError(.fileReadUnknown) }
        port = String(tool.errorSoFar.split(separator: " ")[1])
    }

    /// The requests so far, once there are some; waits for them.
    func requests(_ text: String) -> [String] {
        guard tool.awaitError(text) else { return [] }
        return tool.errorSoFar.split(separator: "\n").dropFirst().map(String.init)
    }

    deinit {
        tool.signal(SIGKILL)
        _ = tool.wait()
    }
}

@Suite("The document about commands after a run")
struct HookDocumentTests {
    private static func block(_ name: String) throws -> String {
        try #require(try DocumentBlock.all(of: "docs/hooks.md").first { $0.name == name }).text
    }

    private static func example(_ name: String) throws -> String {
        try String(contentsOf: DocumentBlock.path("docs/examples/\(name).sh"), encoding: .utf8)
    }

    private static let environment = [
        "PATH": "\(RunningTool.folderOfTests.path):/usr/bin:/bin"
    ]

    @Test("the ping tells the exit code")
    func ping() throws {
        let listener = try Listener()
        let stage = try SweepStage(.sqlite, dead: 3)
        let line = try Self.block("ping").replacing(
            "https://ping.example.net", with: "http://127.0.0.1:\(listener.port)")
        stage.lines.limits = "\(SweepStage.anyNumber)\n\(line)"
        let result = try stage.run("sweep", environment: Self.environment).ends(0)
        #expect(result.error.isEmpty, "\(result.error)")
        #expect(listener.requests("/ID/") == ["GET /ID/0 "])
    }

    @Test("the chat hears of a run that needs a person, and of no other")
    func chat() throws {
        let listener = try Listener()
        let stage = try SweepStage(.sqlite, dead: 3)
        let address = try stage.folder.write(
            "chat.curl", "url = \"http://127.0.0.1:\(listener.port)/hooks/SECRET\"\n")
        let script = try stage.folder.write(
            "after-run",
            try Self.example("after-run").replacing("/etc/pushsweep/chat.curl", with: address))
        stage.lines.limits = "\(SweepStage.anyNumber)\nhooks: {after-run: sh \(script)}"
        let good = try stage.run("sweep", environment: Self.environment).ends(0)
        #expect(good.error.isEmpty, "\(good.error)")
        let feed = try stage.folder.write("feed", [UInt8](repeating: 0xFF, count: 100))
        try stage.run("replay", feed, environment: Self.environment).ends(65)
        let requests = listener.requests("/hooks/")
        #expect(requests.count == 1)
        let body = try #require(requests.first?.split(separator: " ", maxSplits: 2).last)
        let message = try JSONDecoder().decode([String: String].self, from: Data(body.utf8))
        #expect(
            message["text"]?.contains(/pushsweep replay on \S+ ended with 65 \(run \S{36}\)/)
                == true,
            "\(body)")
    }

    @Test("another store forgets each dead token, also after a failure, and none that lives again")
    func forget() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        // The table names the app otherwise.
        stage.lines.certificate += "\n    value: c.1"
        try stage.database.execute("UPDATE active_users SET app_id = 'c.1'")
        let forgotten = stage.folder.file("forgotten")
        let forget = try stage.folder.write(
            "forget-tokens",
            """
            [ -e \(forgotten).once ] || { touch \(forgotten).once; exit 1; }
            [ $# = 0 ] || exit 9
            cat >> \(forgotten)
            """)
        let script = try stage.folder.write(
            "after-run",
            try Self.example("forget-tokens")
                .replacing("/var/lib/pushsweep/forgotten", with: stage.folder.file("place"))
                .replacing("/usr/local/bin/forget-tokens", with: "sh \(forget)"))
        stage.lines.limits = "\(SweepStage.anyNumber)\nhooks: {after-run: sh \(script)}"
        var environment = Self.environment
        environment["PUSHSWEEP_CONFIG"] = try stage.settings()
        try stage.run("sweep", environment: environment).ends(0, "hooks.after-run")
        // Before the command gets through, one device registers again.
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [
                stage.database.time(1_800_000_000_000),
                .bytes(DeviceToken.numbered(1).bytes),
            ])
        for _ in 0..<2 {
            let next = try stage.run("sweep", environment: environment).ends(0)
            #expect(next.error.isEmpty, "\(next.error)")
        }
        let lines = try String(contentsOfFile: forgotten, encoding: .utf8).split(separator: "\n")
        #expect(Set(lines.map(String.init)) == Set([0, 2].map { DeviceToken.numbered($0).hex }))
        #expect(lines.count == 2)
        // The tokens of an app that the settings do not name any more are gone, and stop nothing.
        try stage.database.execute("UPDATE pushsweep_commit SET app = 'cx1' WHERE number > 0")
        try FileManager.default.removeItem(atPath: stage.folder.file("place"))
        let last = try stage.run("sweep", environment: environment).ends(0)
        #expect(last.error.isEmpty, "\(last.error)")
        let all = try String(contentsOfFile: forgotten, encoding: .utf8).split(separator: "\n")
        #expect(all.count == 5)
        #expect(FileManager.default.fileExists(atPath: stage.folder.file("place")))
        let left = try FileManager.default.contentsOfDirectory(atPath: stage.folder.path)
        #expect(!left.contains { $0.hasPrefix("place.") })
    }
}
