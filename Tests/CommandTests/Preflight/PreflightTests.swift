import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing
import YAML

private let registered: Int64 = 1_690_000_000_000

/// A sender whose deploys ask preflight, by the examples of docs/preflight.md.
private final class DeployStage {
    let sender: SendStage

    init(_ engine: TestEngine = .sqlite) throws {
        sender = try SendStage(engine)
        try sender.database.register(0..<50, at: registered)
        try sender.queue(0..<50)
        try sender.folder.write(
            "send-campaign", "#!/bin/sh\necho sent > \"$(dirname \"$0\")/sent\"\n", mode: 0o700)
    }

    /// Whether the program that sends was started.
    var hasSent: Bool { FileManager.default.fileExists(atPath: sender.folder.file("sent")) }

    /// An example of the document, by its name: a block of it, or a file beside it.
    static func example(_ name: String) throws -> String {
        for ending in ["sh", "yaml"] {
            let file = DocumentBlock.path("docs/examples/preflight-\(name).\(ending)")
            guard FileManager.default.fileExists(atPath: file.path) else { continue }
            return try String(contentsOf: file, encoding: .utf8)
        }
        let blocks = try DocumentBlock.all(of: "docs/preflight.md").filter { $0.name == name }
        try #require(blocks.count == 1, "docs/preflight.md has \(blocks.count) examples \(name)")
        return blocks[0].text
    }

    /// Runs a script as a deploy does: the programs on the path, the settings by their variable.
    func run(
        _ script: String, under shell: [String] = ["/bin/sh", "-eu"], _ more: [String: String] = [:]
    ) throws -> ToolResult {
        let path = try sender.folder.write(
            "script", "cd '\(sender.folder.path)'\n" + script, mode: 0o700)
        let programs = RunningTool.folderOfTests.path
        return try RunningTool(
            program: URL(fileURLWithPath: shell[0]), Array(shell.dropFirst()) + [path],
            environment: [
                "PUSHSWEEP_CONFIG": try sender.settings(), "PATH": "\(programs):/usr/bin:/bin",
            ].merging(more) { $1 }
        ).wait()
    }

    /// Runs the example of a deploy.
    func deploy() throws -> ToolResult { try run(Self.example("deploy")) }

    /// Runs a container of an example, with its words and variables, as the kubelet would.
    func run(_ container: YAMLNode, _ variables: [String: String]) throws -> ToolResult {
        let words = try ["command", "args"].flatMap { key in
            try container[key]?.items?.map { try #require($0.text) } ?? []
        }
        var environment: [String: String] = [:]
        for entry in container["env"]?.items ?? [] {
            let name = try #require(entry["name"]?.text)
            environment[name] = try variables[name] ?? #require(entry["value"]?.text)
        }
        #expect(Set(environment.keys) == Set(variables.keys), "the example names other variables")
        environment["PATH"] = "\(RunningTool.folderOfTests.path):/usr/bin:/bin"
        return try RunningTool(
            program: URL(fileURLWithPath: words[0]), Array(words.dropFirst()),
            environment: environment
        ).wait()
    }
}

@Suite("A deploy behind preflight")
struct PreflightTests {
    private static func rules(_ result: ToolResult) -> [String] {
        (result.json["findings"] as? [[String: Any]] ?? []).compactMap { $0["rule"] as? String }
    }

    /// The report of a look at the same stage.
    private func report(_ stage: DeployStage, _ more: String...) throws -> ToolResult {
        try stage.sender.run(["preflight", "--format", "json"] + more)
    }

    private func expectShut(_ stage: DeployStage, by rule: String, held: Int = 0) throws {
        try stage.deploy().ends(
            2, "  high: \(rule): ",
            "code=2 stage=preflight pending=0 applied=0 held=\(held) next=findings",
            "deploy: the gate is shut, nothing is sent")
        #expect(!stage.hasSent)
    }

    @Test("it goes on where everything is healthy", arguments: TestEngine.available)
    func healthy(_ engine: TestEngine) throws {
        let stage = try DeployStage(engine)
        try stage.sender.run("sweep").ends(0)
        try stage.deploy().ends(0, "chat/production: the gate is open (0 high, 0 medium")
        #expect(stage.hasSent)
        #expect(stage.sender.gateway.log.totals.requests == 0, "preflight sent something")
    }

    @Test(
        "it stops while a hold is open, and goes on once a person has decided",
        arguments: TestEngine.available)
    func hold(_ engine: TestEngine) throws {
        let stage = try DeployStage(engine)
        stage.sender.lines = "guard: {floor: 1}"
        try stage.sender.database.register(100..<150, at: registered)
        for number in 100..<150 {
            try stage.sender.database.report(DeviceToken.numbered(number).hex)
        }
        try expectShut(stage, by: "open-hold", held: 50)
        let hold = try #require(try stage.sender.holds().first?["hold"] as? String)
        try stage.sender.run("holds", "discard", hold, "--reason", "a test of the deploy").ends(0)
        try stage.deploy().ends(0)
        #expect(stage.hasSent)
    }

    @Test(
        "an account with SELECT alone can look and filter, and one that may not apply is told so",
        .needsServer
    )
    func selectOnly() throws {
        let stage = try DeployStage(.mariaDB)
        let account = try ServerAccount(of: stage.sender.database)
        try account.grant()
        stage.sender.database.settings = account.settings
        stage.sender.store = try stage.sender.database.settingsLines(in: stage.sender.folder)
        let look = try report(stage, "--read-only").ends(0)
        #expect((look.json["tokens"] as? [String: Int])?["living"] == 50)
        let apply = try report(stage).ends(77)
        #expect(apply.output.isEmpty)
    }

    @Test("it stops with another code where preflight could not look")
    func blind() throws {
        let stage = try DeployStage()
        try stage.sender.database.execute("DROP TABLE push_queue")
        let result = try stage.deploy().ends(78)
        #expect(result.output.isEmpty)
        result.says("deploy: preflight could not look (78), nothing is sent")
        #expect(!stage.hasSent)
    }

    // MARK: The other examples

    @Test("the step of a CI writes its summary and takes the exit code", arguments: [true, false])
    func ci(_ isHealthy: Bool) throws {
        let stage = try DeployStage()
        if !isHealthy { stage.sender.topic = "com.example.other" }
        let steps = try #require(try YAMLNode.document(DeployStage.example("ci"))?.items)
        let step = try #require(steps.first?["run"]?.text)
        let summary = stage.sender.folder.file("summary.md")
        let result = try stage.run(
            step, under: ["/bin/bash", "-e"], ["GITHUB_STEP_SUMMARY": summary]
        ).ends((isHealthy ? 0 : 2))
        #expect(result.output.isEmpty)
        let page = try String(contentsOfFile: summary, encoding: .utf8)
        #expect(page.hasPrefix("### chat/production: the gate is \(isHealthy ? "open" : "shut") ("))
        #expect(page.contains("| high | certificate-topic |") == !isHealthy)
    }

    /// The folders that the volumes of the examples would be.
    private func volumes(_ stage: DeployStage) throws -> [String: String] {
        var variables = ["PUSHSWEEP_CONFIG": try stage.sender.settings()]
        for (name, folder) in [("SECRETS", "secrets"), ("PRIVATE", "private")] {
            let path = stage.sender.folder.file(folder)
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            variables[name] = path
        }
        try stage.sender.folder.write("secrets/db-password", "secret")
        return variables
    }

    @Test(
        "the init container ends with the gate's code, and leaves no state",
        arguments: [true, false])
    func initContainer(_ isHealthy: Bool) throws {
        let stage = try DeployStage()
        if !isHealthy { stage.sender.topic = "com.example.other" }
        let job = try #require(try YAMLNode.document(DeployStage.example("init-container")))
        #expect(job["kind"]?.text == "Job")
        let pod = try #require(job["spec"]?["template"]?["spec"])
        #expect(pod["restartPolicy"]?.text == "Never")
        let container = try #require(pod["initContainers"]?.items?.first)
        try stage.run(container, try volumes(stage)).ends((isHealthy ? 0 : 2))
        #expect(!FileManager.default.fileExists(atPath: stage.sender.folder.file("state")))
        #expect(
            FileManager.default.fileExists(atPath: stage.sender.folder.file("private/db-password")))
    }

    @Test("the CronJob filters its list, and leaves the old one where the gate is shut")
    func cronJob() throws {
        let stage = try DeployStage()
        let job = try #require(try YAMLNode.document(DeployStage.example("cron-job")))
        #expect(job["kind"]?.text == "CronJob")
        let pod = try #require(job["spec"]?["jobTemplate"]?["spec"]?["template"]?["spec"])
        let container = try #require(pod["containers"]?.items?.first)
        var variables = try volumes(stage)
        variables["LISTS"] = stage.sender.folder.path
        try stage.sender.database.register(.numbered(100), at: registered, mark: registered + 1)
        let tokens = (0..<30).map { DeviceToken.numbered($0).hex + "\n" }
        try stage.sender.folder.write(
            "tokens.txt", (tokens + [DeviceToken.numbered(100).hex + "\n"]).joined())
        try stage.run(container, variables).ends(0)
        let list = stage.sender.folder.file("sendable.txt")
        #expect(try String(contentsOfFile: list, encoding: .utf8) == tokens.joined())
        stage.sender.topic = "com.example.other"
        _ = try stage.sender.settings()
        try stage.sender.folder.write("tokens.txt", tokens[0])
        try stage.run(container, variables).ends(2)
        #expect(try String(contentsOfFile: list, encoding: .utf8) == tokens.joined())
    }

    @Test("the ignore file of the document is read and has its effect")
    func ignoreFile() throws {
        let stage = try DeployStage()
        let example = try DeployStage.example("ignore")
        let path = try stage.sender.folder.write(
            "ignore.yaml",
            example.replacing("certificate-ends", with: "certificate-topic")
                .replacing("2026", with: "2099").replacing("*chat.pem", with: "*client.pem"))
        stage.sender.topic = "com.example.other"
        let result = try report(stage, "--ignore", path).ends(0)
        #expect(Self.rules(result).contains("certificate-topic"))
        let wrong = try stage.sender.folder.write("wrong.yaml", "- {rule: certificate-topics}")
        try report(stage, "--ignore", wrong).ends(78, "did you mean certificate-topic?")
    }

    @Test("a feedback gateway keeps its list")
    func feedbackGateway() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        for more in [[], ["--probe"], ["--read-only"]] {
            try stage.run(["preflight"] + more).ends(0)
        }
        #expect(stage.gateway.records.isEmpty)
        try stage.sweep().app(has: ["applied": 3])
    }
}
