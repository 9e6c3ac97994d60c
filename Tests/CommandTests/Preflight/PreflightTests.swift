import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing
import Yams

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

    /// An example of the document, by its name.
    static func example(_ name: String) throws -> String {
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
    func run(_ container: Node, _ variables: [String: String]) throws -> ToolResult {
        let words = try ["command", "args"].flatMap { key in
            try container[key]?.array().map { try #require($0.string) } ?? []
        }
        var environment: [String: String] = [:]
        for entry in container["env"]?.array() ?? [] {
            let name = try #require(entry["name"]?.string)
            environment[name] = try variables[name] ?? #require(entry["value"]?.string)
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
        try stage.sender.start(["preflight", "--format", "json"] + more).wait()
    }

    private func expectShut(_ stage: DeployStage, by rule: String, held: Int = 0) throws {
        let result = try stage.deploy()
        #expect(result.exit == 2, "\(result.output)\(result.error)")
        #expect(result.output.contains("  high: \(rule): "), "\(result.output)")
        #expect(
            result.error.contains(
                "code=2 stage=preflight pending=0 applied=0 held=\(held) next=findings"),
            "the counts are those of the run that applied what waited: \(result.error)")
        #expect(result.error.contains("deploy: the gate is shut, nothing is sent"))
        #expect(!stage.hasSent)
    }

    @Test("it goes on where everything is healthy", arguments: TestEngine.available)
    func healthy(_ engine: TestEngine) throws {
        let stage = try DeployStage(engine)
        #expect(try stage.sender.start(["sweep"]).wait().exit == 0)
        let result = try stage.deploy()
        #expect(result.exit == 0, "\(result.output)\(result.error)")
        #expect(result.output.contains("chat/production: the gate is open (0 high, 0 medium"))
        #expect(stage.hasSent)
        #expect(stage.sender.gateway.log.totals.requests == 0, "preflight sent something")
    }

    @Test("it stops where the tokens are of the other environment", arguments: TestEngine.available)
    func wrongEnvironment(_ engine: TestEngine) throws {
        let stage = try DeployStage(engine)
        try stage.sender.database.execute("UPDATE active_users SET environment = 'sandbox'")
        try expectShut(stage, by: "other-environment-tokens")
    }

    @Test("it stops where the certificate is of another environment")
    func wrongCertificateEnvironment() throws {
        let stage = try DeployStage()
        let folder = stage.sender.folder
        try CertificateAuthority().issue(
            CertificateRequest(
                commonName: "Apple Development IOS Push Services: com.example.chat", usage: .client)
        ).write(certificate: folder.file("own.pem"), key: folder.file("own.key"))
        stage.sender.credential =
            "certificate: {file: \(folder.file("own.pem")), key: \(folder.file("own.key"))}"
        try expectShut(stage, by: "certificate-environment")
    }

    @Test("it stops where the topic is that of another app")
    func wrongTopic() throws {
        let stage = try DeployStage()
        stage.sender.topic = "com.example.other"
        try expectShut(stage, by: "certificate-topic")
    }

    @Test("it stops where the certificate has expired")
    func expired() throws {
        let stage = try DeployStage()
        let certificates = try SweepStage.certificates.get()
        stage.sender.credential =
            "certificate: {file: \(certificates.certificate(.expiredClient)), "
            + "key: \(certificates.key(.expiredClient))}"
        try expectShut(stage, by: "certificate-expired")
    }

    @Test(
        "it stops while a hold is open, and goes on once a person has decided",
        arguments: TestEngine.available)
    func hold(_ engine: TestEngine) throws {
        let stage = try DeployStage(engine)
        stage.sender.lines = "guard: {floor: 1}"
        try stage.sender.database.register(100..<150, at: registered)
        for number in 100..<150 {
            try stage.sender.database.execute(
                "INSERT INTO pushsweep_evidence (app, device_token, status, timestamp_ms) "
                    + "VALUES ('chat', ?, 410, 1700000000000)",
                [.text(DeviceToken.numbered(number).hex)])
        }
        try expectShut(stage, by: "open-hold", held: 50)
        let list = try stage.sender.start(["holds", "list", "--format", "json"]).wait()
        let hold = try #require(
            (list.json["holds"] as? [[String: Any]])?.first?["hold"] as? String)
        let discard = try stage.sender.start(
            ["holds", "discard", hold, "--reason", "a test of the deploy"]
        ).wait()
        #expect(discard.exit == 0, "\(discard.error)")
        #expect(try stage.deploy().exit == 0)
        #expect(stage.hasSent)
    }

    @Test(
        "an account with SELECT alone can look and filter, and one that may not apply is told so",
        .enabled(if: MariaDBServer.fromEnvironment != nil, Comment(rawValue: MariaDBServer.absence))
    )
    func selectOnly() throws {
        let stage = try DeployStage(.mariaDB)
        let server = try #require(MariaDBServer.fromEnvironment)
        let name = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
        let admin = try server.connection()
        try admin.run("CREATE USER '\(name)'@'%' IDENTIFIED BY 'p'")
        defer { try? admin.run("DROP USER '\(name)'@'%'") }
        try admin.run("GRANT SELECT ON `\(stage.sender.database.name)`.* TO '\(name)'@'%'")
        stage.sender.database.settings = server.settings(
            database: stage.sender.database.name, user: String(name), password: "p")
        stage.sender.store = try stage.sender.database.settingsLines(in: stage.sender.folder)
        let look = try report(stage, "--read-only")
        #expect(look.exit == 0, "\(look.error)")
        #expect((look.json["tokens"] as? [String: Int])?["living"] == 50)
        let apply = try report(stage)
        #expect(apply.exit == 77, "\(apply.error)")
        #expect(apply.output.isEmpty)
    }

    @Test("it stops with another code where preflight could not look")
    func blind() throws {
        let stage = try DeployStage()
        try stage.sender.database.execute("DROP TABLE push_queue")
        let result = try stage.deploy()
        #expect(result.exit == 78, "\(result.error)")
        #expect(result.output.isEmpty)
        #expect(result.error.contains("deploy: preflight could not look (78), nothing is sent"))
        #expect(!stage.hasSent)
    }

    // MARK: The other examples

    @Test("the step of a CI writes its summary and takes the exit code", arguments: [true, false])
    func ci(_ isHealthy: Bool) throws {
        let stage = try DeployStage()
        if !isHealthy { stage.sender.topic = "com.example.other" }
        let steps = try #require(try Yams.compose(yaml: DeployStage.example("ci"))?.array())
        let step = try #require(steps.first?["run"]?.string)
        let summary = stage.sender.folder.file("summary.md")
        let result = try stage.run(
            step, under: ["/bin/bash", "-e"], ["GITHUB_STEP_SUMMARY": summary])
        #expect(result.exit == (isHealthy ? 0 : 2), "\(result.error)")
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
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true)
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
        let job = try #require(try Yams.compose(yaml: DeployStage.example("init-container")))
        #expect(job["kind"]?.string == "Job")
        let pod = try #require(job["spec"]?["template"]?["spec"])
        #expect(pod["restartPolicy"]?.string == "Never")
        let container = try #require(pod["initContainers"]?.array().first)
        let result = try stage.run(container, try volumes(stage))
        #expect(result.exit == (isHealthy ? 0 : 2), "\(result.error)")
        #expect(!FileManager.default.fileExists(atPath: stage.sender.folder.file("state")))
        #expect(
            FileManager.default.fileExists(atPath: stage.sender.folder.file("private/db-password")))
    }

    @Test("the CronJob filters its list, and leaves the old one where the gate is shut")
    func cronJob() throws {
        let stage = try DeployStage()
        let job = try #require(try Yams.compose(yaml: DeployStage.example("cron-job")))
        #expect(job["kind"]?.string == "CronJob")
        let pod = try #require(job["spec"]?["jobTemplate"]?["spec"]?["template"]?["spec"])
        let container = try #require(pod["containers"]?.array().first)
        var variables = try volumes(stage)
        variables["LISTS"] = stage.sender.folder.path
        try stage.sender.database.register(
            .numbered(100), at: registered, mark: registered + 1)
        let tokens = (0..<30).map { DeviceToken.numbered($0).hex + "\n" }
        try stage.sender.folder.write(
            "tokens.txt", (tokens + [DeviceToken.numbered(100).hex + "\n"]).joined())
        let result = try stage.run(container, variables)
        #expect(result.exit == 0, "\(result.error)")
        let list = stage.sender.folder.file("sendable.txt")
        #expect(try String(contentsOfFile: list, encoding: .utf8) == tokens.joined())
        stage.sender.topic = "com.example.other"
        _ = try stage.sender.settings()
        try stage.sender.folder.write("tokens.txt", tokens[0])
        #expect(try stage.run(container, variables).exit == 2)
        #expect(try String(contentsOfFile: list, encoding: .utf8) == tokens.joined())
    }

    @Test("the ignore file of the document is read and has its effect")
    func ignoreFile() throws {
        let stage = try DeployStage()
        let example = try DeployStage.example("ignore")
        let path = try stage.sender.folder.write(
            "ignore.yaml",
            example.replacing("certificate-ends-soon", with: "certificate-topic")
                .replacing("2026", with: "2099").replacing("*chat.pem", with: "*client.pem"))
        stage.sender.topic = "com.example.other"
        let result = try report(stage, "--ignore", path)
        #expect(result.exit == 0, "\(result.error)")
        #expect(Self.rules(result).contains("certificate-topic"))
        let wrong = try stage.sender.folder.write("wrong.yaml", "- {rule: certificate-topics}")
        let refused = try report(stage, "--ignore", wrong)
        #expect(refused.exit == 78)
        #expect(refused.error.contains("did you mean certificate-topic?"), "\(refused.error)")
    }

    // MARK: The command line

    @Test(
        "each form of the report goes to stdout alone",
        arguments: ["text", "json", "sarif", "junit", "markdown"])
    func formats(_ format: String) throws {
        let stage = try DeployStage()
        stage.sender.topic = "com.example.other"
        let result = try stage.sender.start(["preflight", "--format", format]).wait()
        #expect(result.exit == 2)
        #expect(result.output.contains("certificate-topic"))
        #expect(result.error == "code=2 stage=preflight pending=0 applied=0 held=0 next=findings\n")
    }

    @Test(
        "a mistake on the command line ends with 64 and its reason",
        arguments: [
            (["--query", "DELETE FROM active_users"], "give one SELECT"),
            (["--query", "SELECT 1; SELECT 2"], "several statements"),
            (["--query", "SELECT 1", "--tokens-from", "-"], "one of --query and --tokens-from"),
            (["--only-known"], "goes with --filter"), (["--filter", "--probe"], "without --probe"),
            (["--filter", "--format", "json"], "without --format"),
            (["--max-stale", "101%"], "0% to 100%"), (["--max-stale", "-1"], "max-stale"),
            (["--max-hours", "soon"], "hours"), (["--memory", "1.5"], "whole MiB"),
            (["--query-limit", "0"], "whole seconds"), (["--fail-on", "fatal"], "fail-on"),
            (["--tokens-from", "/nowhere/tokens"], "check the path"),
            (["--app", "other"], "no such app"),
        ])
    func mistakes(_ words: [String], _ reason: String) throws {
        let stage = try DeployStage()
        let result = try stage.sender.start(["preflight", "--read-only"] + words).wait()
        #expect(result.exit == 64, "\(result.error)")
        #expect(result.error.contains(reason), "\(result.error)")
        #expect(result.output.isEmpty)
        #expect(result.closingLine.contains("code=64"))
    }

    @Test("what preflight applies is told to the command after a run")
    func hook() throws {
        let stage = try DeployStage()
        let told = stage.sender.folder.file("told")
        stage.sender.lines = "hooks: {after-run: \"echo $PUSHSWEEP_KIND >> \(told)\"}"
        #expect(try report(stage).exit == 0)
        #expect(!FileManager.default.fileExists(atPath: told))
        try stage.sender.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, timestamp_ms) "
                + "VALUES ('chat', ?, 410, 1700000000000)", [.text(DeviceToken.numbered(3).hex)])
        let result = try report(stage)
        #expect(result.exit == 0, "\(result.error)")
        #expect((result.json["applied"] as? [String: Any])?["applied"] as? Int == 1)
        #expect(try String(contentsOfFile: told, encoding: .utf8) == "preflight\n")
    }

    @Test(
        "a feedback gateway keeps its list",
        arguments: [[], ["--probe"], ["--read-only"]] as [[String]])
    func feedbackGateway(_ more: [String]) throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let result = try stage.start(["preflight"] + more).wait()
        #expect(result.exit == 0, "\(result.error)")
        #expect(stage.gateway.records.isEmpty)
        let sweep = try stage.sweep()
        #expect(sweep.app()["applied"] as? Int == 3)
    }
}
