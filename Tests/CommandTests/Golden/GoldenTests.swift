import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000
private let after: Int64 = 1_800_000_000_000

/// The output that users read and scripts parse. A sentence that is rewritten on purpose changes
/// its copy in the same commit; `PUSHSWEEP_TEST_WRITE_GOLDEN=1 scripts/test --filter GoldenTests`
/// writes the copies anew.
@Suite("Golden copies of the output", .serialized)
struct GoldenTests {
    private func hidden(_ folder: TemporaryFolder, _ ports: [UInt16]) throws -> [(String, String)] {
        let certificates = try SweepStage.certificates.get()
        let authority = URL(filePath: certificates.authority).deletingLastPathComponent().path
        return [
            (folder.path, "<folder>"), (authority, "<certificates>"),
            (ProcessInfo.processInfo.hostName, "<host>"),
        ] + ports.map { (":\($0)", ":<port>") }
            + ports.flatMap { [(" \($0)", " <port>"), ("\"\($0)\"", "\"<port>\"")] }
    }

    @Test(
        "the schema matches the copy",
        arguments: ["mysql://u@db/push", "sqlite:///var/push.sqlite"])
    func schema(_ url: String) throws {
        let folder = try TemporaryFolder()
        let settings = try folder.write("pushsweep.yaml", "store: {url: \(url)}\n")
        let result = try Tool.pushsweep("schema", "print", "--config", settings).ends(0)
        let engine = url.hasPrefix("mysql") ? "mariadb" : "sqlite"
        let difference = try GoldenCopy(name: "schema-\(engine)").difference(from: result.output)
        #expect(difference == nil, "\(difference ?? "")")
    }

    @Test("sweeps, their undo, replay, purge and metrics match the copies")
    func sweeps() throws {
        var bytes = FeedbackTuple.bytes((0..<7).map { .dead($0, at: start + UInt32($0)) })
        bytes += FeedbackTuple.bytes([.dead(50, at: start)])
        bytes += [0x65, 0x53, 0xF1, 0x00, 0x00]
        let stage = try SweepStage(.sqlite, feeds: [.bytes(bytes)])
        stage.lines.limits = "report: {metrics-file: \(stage.folder.file("pushsweep.prom"))}"
        try stage.database.register(0..<5, at: before)
        try stage.database.register(.numbered(5), at: after)
        try stage.database.register(.numbered(6), at: before, mark: Int64(start) * 1_000 + 500_000)
        let feed = try stage.folder.write(
            "feed.bin", FeedbackTuple.bytes([.dead(4, at: start + 90)]))
        var transcript = Transcript(
            hiding: try hidden(stage.folder, [stage.gateway.port]))
        @discardableResult
        func run(_ words: String...) throws -> ToolResult {
            let result = try stage.run(words)
            transcript.add(words, result)
            return result
        }
        try run("check")
        try run("check", "--format", "json")
        try run("sweep", "--dry-run", "--format", "json")
        let swept = try run("sweep", "--format", "json")
        let name = try #require(swept.json["run"] as? String)
        try run("sweep", "--verbose")
        try run("sweep", "--format", "json")
        try run("quarantine", "list")
        try run("quarantine", "list", "--format", "json")
        try run("undo", "--list")
        try run("undo", "--list", "--format", "json")
        try run("undo", name, "--dry-run")
        try run("undo", name, "--format", "json")
        try run("undo", name)
        try run("replay", feed, "--app", "chat", "--format", "json")
        try run("replay", feed, "--app", "chat", "--verbose")
        try run("purge", "--dry-run")
        try run("purge", "--format", "json")
        try run("holds", "list")
        let page = try String(contentsOfFile: stage.folder.file("pushsweep.prom"), encoding: .utf8)
        transcript.add("metrics", page)
        let difference = try GoldenCopy(name: "sweeps").difference(from: transcript.text)
        #expect(difference == nil, "\(difference ?? "")")
    }

    @Test("a removal that is held, released and discarded matches the copy")
    func holds() throws {
        let stage = try SweepStage(
            .sqlite,
            feeds: [
                .tuples((0..<200).map { .dead($0, at: start) }),
                .tuples((200..<399).map { .dead($0, at: start) }),
            ])
        try stage.database.register(0..<400, at: before)
        var transcript = Transcript(
            hiding: try hidden(stage.folder, [stage.gateway.port]))
        @discardableResult
        func run(_ words: String...) throws -> ToolResult {
            let result = try stage.run(words)
            transcript.add(words, result)
            return result
        }
        func hold() throws -> String {
            let list = try run("holds", "list", "--format", "json").json["holds"]
            return try #require((list as? [[String: Any]])?.first?["hold"] as? String)
        }
        try run("sweep", "--format", "json")
        try run("holds", "list")
        let first = try hold()
        try run("holds", "show", first)
        let shown = try run("holds", "show", first, "--format", "json")
        try run("sweep")
        try run("holds", "release", "0123456789abcdef")
        try run(
            "holds", "release", try #require(shown.json["digest"] as? String), "--format", "json")
        try run("sweep", "--format", "json")
        try run("holds", "list")
        let difference = try GoldenCopy(name: "holds").difference(from: transcript.text)
        #expect(difference == nil, "\(difference ?? "")")
    }

    @Test("the queue and its sender match the copy")
    func sending() throws {
        var script = ProviderScript()
        script.tokens[.numbered(1)] = .reply(
            ScriptedReply(.unregistered, timestamp: Int64(start) * 1_000))
        script.tokens[.numbered(2)] = .reply(ScriptedReply(.badDeviceToken))
        let stage = try SendStage(script: script)
        try stage.database.register(0..<20, at: before)
        try stage.database.register(.numbered(20), at: before, mark: Int64(start) * 1_000)
        try stage.queue(0..<22)
        var transcript = Transcript(hiding: try hidden(stage.folder, [stage.port]))
        func run(_ words: String...) throws {
            transcript.add(words, try stage.run(words))
        }
        try run("check", "--format", "json")
        try run("send", "--dry-run", "--format", "json")
        try run("send", "--limit", "22", "--format", "json")
        try run("send", "--verbose")
        try run("undo", "--list", "--format", "json")
        let difference = try GoldenCopy(name: "sending").difference(from: transcript.text)
        #expect(difference == nil, "\(difference ?? "")")
    }

    @Test("error messages and their exit codes match the copy")
    func mistakes() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let good = try stage.settings()
        let text = try String(contentsOfFile: good, encoding: .utf8)
        var transcript = Transcript(hiding: try hidden(stage.folder, [stage.gateway.port]))
        func run(_ words: String..., settings: String? = nil) throws {
            let file = try settings.map { try stage.folder.write("other.yaml", $0) } ?? good
            let result = try RunningTool("pushsweep", words + ["--config", file]).wait()
            transcript.add(words, result)
        }
        try run("sweep", "--bogus")
        try run("undo")
        try run("undo", "abcd")
        try run("replay", "/nowhere/feed.bin", "--app", "chat")
        try run("replay", "--batch", "abcd1234", "--app", "chat")
        try run("holds", "show", "abcd1234")
        try run("quarantine", "export", "abcd1234", "/nowhere/file")
        try run("explain")
        try run("sweep", "--app", "nobody")
        let changes = [
            ("state:", "stat:"), ("action: mark", "action: mrak"),
            ("environment: production", "environment: x"),
            ("sqlite://", "oracle://"), ("sqlite://", "sqlite:///nowhere"),
            ("topic: com.example.chat", "topic: ''"),
            ("host: 127.0.0.1", "host: host.invalid"), ("client.pem", "nothing.pem"),
            ("apps:", "apps: []\nother:"),
        ]
        for (old, new) in changes {
            transcript.add("with \(new) in place of \(old)", "")
            try run("check", settings: text.replacing(old, with: new))
            try run("sweep", settings: text.replacing(old, with: new))
        }
        // The usual state folder may be there on a machine where somebody has run the program.
        try run("check", settings: "state: \(stage.folder.file("absent"))\n")
        try run("check", settings: "- just a list\n")
        let difference = try GoldenCopy(name: "mistakes").difference(from: transcript.text)
        #expect(difference == nil, "\(difference ?? "")")
    }
}
