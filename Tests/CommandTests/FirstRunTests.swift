import Foundation
import TestSupport
import Testing

/// A fenced block of the README: the word after its fence and its text.
private struct ReadmeBlock {
    let language: String
    let text: String

    static func all() throws -> [ReadmeBlock] {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../README.md").standardizedFileURL
        let parts = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "```")
        return stride(from: 1, to: parts.count, by: 2).map { index in
            let lines = parts[index].components(separatedBy: "\n")
            return ReadmeBlock(
                language: lines[0], text: lines.dropFirst().joined(separator: "\n"))
        }
    }

    static func first(_ language: String, with start: String = "") throws -> String {
        try #require(
            try all().first { $0.language == language && $0.text.hasPrefix(start) }
        ).text
    }

    /// The commands of a block without their comments.
    static func commands(with start: String) throws -> [[String]] {
        try first("", with: start).split(separator: "\n").map { line in
            (line.split(separator: "#").first ?? "").split(separator: " ").map(String.init)
        }
    }
}

@Suite("The README's first run")
struct FirstRunTests {
    private static let token = "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"

    /// The folder of /etc/pushsweep with the README's settings and the files that they name, and a
    /// table of the app.
    private struct Stage {
        let folder: TemporaryFolder
        let database: TokenDatabase
        let environment: [String: String]

        init(_ engine: TestEngine) throws {
            folder = try TemporaryFolder()
            database = try TokenDatabase(engine)
            try folder.write("pushsweep.yaml", try ReadmeBlock.first("yaml"))
            try folder.write("db-password", database.settings.password ?? "x", mode: 0o600)
            try folder.write(
                "db-ca.pem",
                try MariaDBServer.fromEnvironment.map {
                    try String(contentsOfFile: $0.ca, encoding: .utf8)
                } ?? "")
            let url = try database.settingsLines(in: try TemporaryFolder())
                .split(separator: "\n")[0].dropFirst("url: ".count)
            environment = [
                "PUSHSWEEP_STORE_URL": String(url), "PUSHSWEEP_STATE": folder.file("state"),
            ]
            let time = engine == .mariaDB ? "DATETIME" : "TEXT"
            try database.sql.run(
                "CREATE TABLE active_users (user_id INTEGER PRIMARY KEY, "
                    + "device_token VARCHAR(200) NOT NULL UNIQUE, registered_at \(time) NOT NULL)")
            try database.sql.run(
                "INSERT INTO active_users VALUES (1, '\(FirstRunTests.token)', '2023-01-01 00:00:00')"
            )
        }

        func run(_ words: [String], more: String...) throws -> ToolResult {
            #expect(words.first == "pushsweep")
            return try RunningTool(
                "pushsweep",
                words.dropFirst() + more + ["--config", folder.file("pushsweep.yaml")],
                environment: environment
            ).wait()
        }
    }

    @Test(
        "the README's ten lines, commands and INSERT lead to its report",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let settings = try ReadmeBlock.first("yaml")
        #expect(settings.split(separator: "\n").count == 10)
        let commands = try ReadmeBlock.commands(with: "pushsweep check")
        #expect(
            commands.map { $0.dropFirst().joined(separator: " ") } == [
                "check", "schema apply", "check", "sweep --dry-run", "sweep",
            ])
        let stage = try Stage(engine)
        var results: [ToolResult] = []
        for command in commands { results.append(try stage.run(command)) }
        #expect(results.map(\.exit) == [78, 0, 0, 0, 0], "\(results.map(\.error))")
        #expect(results[0].output.contains("pushsweep_run"))
        if engine == .mariaDB { #expect(results[0].output.contains("  GRANT SELECT (")) }

        let insert = try ReadmeBlock.first("sql", with: "INSERT INTO pushsweep_evidence")
        try stage.database.sql.run(insert.replacing(";\n", with: ""))
        let dry = try stage.run(commands[3], more: "--verbose")
        #expect(dry.exit == 0 && dry.output.contains("1 would be applied"), "\(dry.output)")
        let sweep = try stage.run(commands[4], more: "--verbose")
        #expect(sweep.exit == 0, "\(sweep.error)")
        #expect(
            sweep.output == (try ReadmeBlock.first("", with: "chat/production from pushsweep_")))
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_invalid") == 1)
    }

    @Test("a mistyped table of the README's settings is not made", arguments: TestEngine.available)
    func mistyped(_ engine: TestEngine) throws {
        let stage = try Stage(engine)
        let text = try ReadmeBlock.first("yaml").replacing(
            "table: active_users", with: "table: activ_users")
        try stage.folder.write("pushsweep.yaml", text)
        let result = try stage.run(["pushsweep", "schema", "apply"])
        #expect(result.exit == 78)
        #expect(result.error.contains("activ_users"), "\(result.error)")
        #expect(throws: (any Error).self) {
            try stage.database.count("SELECT COUNT(*) FROM pushsweep_run")
        }
    }

    @Test("the README's first screen stays short")
    func length() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../README.md").standardizedFileURL
        let text = try String(contentsOf: file, encoding: .utf8)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 250)
        let order = ["| you have |", "## Install", "## Settings", "## First run", "## Demo"]
        let places = order.compactMap { text.range(of: $0)?.lowerBound }
        #expect(places.count == order.count && places == places.sorted())
    }
}

@Suite("The completion scripts")
struct CompletionTests {
    @Test(
        "each shell gets a script, and the shell accepts it where it is installed",
        arguments: ["bash", "zsh", "fish"])
    func scripts(_ shell: String) throws {
        let document = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../docs/operating.md").standardizedFileURL, encoding: .utf8)
        #expect(document.contains("pushsweep --generate-completion-script \(shell) > "))
        let result = try Tool.pushsweep("--generate-completion-script", shell)
        #expect(result.exit == 0 && result.output.contains("sweep"), "\(result.error)")
        guard
            let program = ["/usr/bin/", "/bin/"].map({ $0 + shell }).first(where: {
                FileManager.default.isExecutableFile(atPath: $0)
            })
        else {
            #expect(shell != "bash")
            return
        }
        let file = try TemporaryFolder()
        let check = try RunningTool(
            program: URL(filePath: program),
            [shell == "fish" ? "--no-execute" : "-n", try file.write("script", result.output)]
        ).wait()
        #expect(check.exit == 0, "\(check.error)")
    }
}
