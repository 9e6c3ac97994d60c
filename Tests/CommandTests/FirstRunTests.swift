import Foundation
import TestSupport
import Testing

@Suite("The first day")
struct FirstRunTests {
    private static let token = "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"

    /// The folder of /etc/pushsweep with the page's settings and the files that they name, and a
    /// table of the app.
    private struct Stage {
        let folder: TemporaryFolder
        let database: TokenDatabase
        let shell: DocumentShell
        let blocks: [DocumentBlock]

        init(_ engine: TestEngine) throws {
            blocks = try DocumentBlock.all(of: "docs/first-day.md")
            folder = try TemporaryFolder()
            database = try TokenDatabase(engine)
            shell = try DocumentShell(database, folder)
            try folder.write("pushsweep.yaml", try block("yaml").text)
            try folder.write(
                "db-ca.pem",
                try MariaDBServer.fromEnvironment.map {
                    try String(contentsOfFile: $0.ca, encoding: .utf8)
                } ?? "")
            let time = engine == .mariaDB ? "DATETIME" : "TEXT"
            try database.sql.run(
                "CREATE TABLE active_users (user_id INTEGER PRIMARY KEY, "
                    + "device_token VARCHAR(200) NOT NULL UNIQUE, registered_at \(time) NOT NULL)")
            try database.sql.run(
                "INSERT INTO active_users VALUES (1, '\(FirstRunTests.token)', '2023-01-01 00:00:00')"
            )
        }

        /// The first block of a language that starts with some words.
        func block(_ language: String, _ start: String = "") throws -> DocumentBlock {
            try #require(blocks.first { $0.language == language && $0.text.hasPrefix(start) })
        }
    }

    @Test(
        "the page's ten lines, grants, commands and INSERT lead to its report",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let stage = try Stage(engine)
        #expect(try stage.block("yaml").text.split(separator: "\n").count == 10)
        let commands = try stage.block("", "export PUSHSWEEP").commands
        #expect(
            commands.map { $0.words.prefix(3).joined(separator: " ") }.filter {
                $0.hasPrefix("pushsweep") || $0.hasPrefix("mysql")
            } == [
                "pushsweep schema apply", "pushsweep check", "pushsweep check --grants",
                "mysql -h db.example.net",
                "pushsweep check", "pushsweep sweep --dry-run", "pushsweep sweep",
            ])
        for (words, exit) in commands {
            let result = try stage.shell.run(line: words)
            #expect(result?.exit ?? 0 == exit, "\(words): \(result?.error ?? "")")
        }

        let insert = try stage.block("sql", "INSERT INTO pushsweep_evidence")
        try stage.database.sql.run(try #require(insert.statements.first))
        // Without a terminal.
        try stage.shell.run(["sweep", "--dry-run"]).ends(0, "1 would be applied")
        let sweep = try stage.shell.run(["sweep", "--verbose"]).ends(0)
        #expect(sweep.output == (try stage.block("", "chat/production from pushsweep_").text))
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 1)

        // The table has no column for the mark, so a sender takes the printed condition.
        let view = try stage.shell.run(["schema", "print", "--view", "--format", "json"])
        let condition = try #require(view.json["condition"] as? String, "\(view.error)")
        let sendable = "SELECT COUNT(*) FROM active_users WHERE \(condition)"
        #expect(try stage.database.count(sendable) == 0)
    }

    @Test("before its grants the page's account is refused with 77", .needsServer)
    func early() throws {
        let stage = try Stage(.mariaDB)
        try stage.shell.run(["schema", "apply"]).ends(0)
        stage.shell.becomeAccount()
        try stage.shell.run(["check"]).ends(77)
    }

    @Test("a mistyped table of the page's settings is not made", arguments: TestEngine.available)
    func mistyped(_ engine: TestEngine) throws {
        let stage = try Stage(engine)
        let text = try stage.block("yaml").text.replacing(
            "table: active_users", with: "table: activ_users")
        try stage.folder.write("pushsweep.yaml", text)
        try stage.shell.run(["schema", "apply"]).ends(78, "activ_users")
        #expect(throws: (any Error).self) {
            try stage.database.rows(of: "pushsweep_run")
        }
    }

    @Test("the README's first screen stays short")
    func length() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../README.md").standardizedFileURL
        let text = try String(contentsOf: file, encoding: .utf8)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 250)
        #expect(text.split(whereSeparator: \.isWhitespace).count <= 900)
        let order = [
            "| you have |", "## Try it", "`scripts/demo`", "## Your own table",
            "\npushsweep init mysql://", "\npushsweep check", "\npushsweep sweep --dry-run",
            "\npushsweep sweep ", "## Install", "## What it does not do",
        ]
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
        let result = try Tool.pushsweep("--generate-completion-script", shell).ends(0, "sweep")
        guard
            let program = ["/usr/bin/", "/bin/"].map({ $0 + shell }).first(where: {
                FileManager.default.isExecutableFile(atPath: $0)
            })
        else {
            #expect(shell != "bash")
            return
        }
        let file = try TemporaryFolder()
        let script = try file.write("script", result.output)
        try RunningTool(
            program: URL(filePath: program), [shell == "fish" ? "--no-execute" : "-n", script]
        ).wait().ends(0)
        guard shell == "bash" else { return }
        // Arguments and options that are files are completed as files.
        for words in ["import", "replay", "check --config", "audit --baseline"] {
            let typed = "pushsweep \(words) scr"
            try RunningTool(
                program: URL(filePath: program),
                [
                    "-c",
                    """
                    cd \(file.path); source ./script; COMP_LINE='\(typed)'; COMP_POINT=${#COMP_LINE}
                    read -ra COMP_WORDS <<< "$COMP_LINE"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
                    _pushsweep pushsweep scr "${COMP_WORDS[COMP_CWORD-1]}"; echo "offers ${COMPREPLY[*]}"
                    """,
                ]
            ).wait().ends(0, "offers script", for: words)
        }
    }
}
