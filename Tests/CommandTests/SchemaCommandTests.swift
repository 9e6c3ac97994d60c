import Glibc
import TestSupport
import Testing

@Suite("The command schema")
struct SchemaCommandTests {
    private func statements(_ result: ToolResult) -> [String] {
        result.json["statements"] as? [String] ?? []
    }

    @Test("what an operator drops to leave is each of the program's own tables")
    func leaving() throws {
        let block = try #require(
            try DocumentBlock.all(of: "docs/operating.md").first { $0.name == "leave" })
        let stage = try SweepStage(.sqlite)
        let printed = try stage.run("schema", "print", "--side-tables").ends(0).output
        let own = Set(printed.matches(of: /CREATE TABLE IF NOT EXISTS .(pushsweep_\w+)/).map(\.1))
        let dropped = block.statements[0].matches(of: /pushsweep_\w+/).map(\.0)
        #expect(own.count > 10 && Set(dropped) == own)
    }

    @Test(
        "schema prints the same statements in JSON as in SQL, and those that it executed",
        arguments: TestEngine.available)
    func json(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        let script = try stage.run("schema", "print", "--side-tables")
        let printed = try stage.json("schema", "print", "--side-tables").ends(0).json(has: [
            "executed": false
        ])
        #expect(!statements(printed).isEmpty)
        #expect(
            statements(printed).map { $0 + ";\n" }.joined(separator: "\n")
                == script.output.dropLast())
        try stage.database.execute("DROP TABLE pushsweep_change")
        let trial = try stage.json("schema", "apply", "--dry-run").json(has: ["executed": false])
        let applied = try stage.json("schema", "apply").ends(0).json(has: ["executed": true])
        #expect(!statements(applied).isEmpty && statements(applied) == statements(trial))
        #expect(statements(applied).allSatisfy { $0.contains("pushsweep_change") })
        #expect(try stage.run("schema", "apply").output == "nothing is missing\n")
        let again = try stage.json("schema", "apply").json["statements"]
        #expect((again as? [String]) == [])
    }

    @Test(
        "schema apply makes a token table only if it is asked to",
        arguments: TestEngine.available)
    func tokenTable(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        let plain = stage.lines.store
        stage.lines.store += "\n  active-users: {table: activ_users}"
        for words in [["schema", "apply"], ["schema", "apply", "--dry-run"]] {
            let refused = try stage.run(words).ends(78)
            #expect(refused.output.isEmpty)
            for part in ["activ_users", "store.active-users.table", "--create-token-table"] {
                #expect(refused.error.contains(part), "\(refused.error)")
            }
        }
        try stage.run("check").ends(78)
        try stage.run("schema", "apply", "--create-token-table").ends(0, "activ_users")
        try stage.run("check").ends(0, "warning: database: activ_users has no rows")
        stage.lines.store = plain
        let again = try stage.run("schema", "apply", "--create-token-table")
        #expect(again.output == "nothing is missing\n")
    }

    @Test("schema apply makes no SQLite file unless it is asked to make a token table")
    func file() throws {
        let stage = try SweepStage(feeds: [])
        let path = stage.folder.file("new/tokens.sqlite")
        stage.lines.store = "url: sqlite://\(path)"
        try stage.run("schema", "apply").ends(78, "--create-token-table")
        #expect(access(stage.folder.file("new"), F_OK) != 0)
        try stage.run("schema", "apply", "--create-token-table").ends(0)
        #expect(access(path, F_OK) == 0)
    }

    @Test(
        "schema print prints an upgrade and a view that can be executed, and changes nothing",
        arguments: TestEngine.available)
    func printed(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 20)
        try stage.database.execute("DROP TABLE pushsweep_day")
        for (option, expected) in [("--upgrade", "CREATE TABLE"), ("--view", "CREATE")] {
            try stage.run("schema", "print", option).ends(0, "\n-- ")
            let printed = try stage.json("schema", "print", option)
            #expect(statements(printed).contains { $0.hasPrefix(expected) })
            let again = try stage.json("schema", "print", option)
            #expect(again.output == printed.output)
            for statement in statements(printed) { try stage.database.sql.run(statement) }
        }
        let rows = try stage.database.rows(of: "active_users")
        let living = "SELECT COUNT(*) FROM pushsweep_sendable"
        #expect(try stage.database.count(living) == rows)
        try stage.sweep().ends(0)
        let left = try stage.database.count(living)
        #expect(left < rows)
        let view = try stage.json("schema", "print", "--view")
        let condition = try #require(view.json["condition"] as? String)
        #expect(try stage.database.rows(of: "active_users", condition) == left)
        // The condition that docs/first-day.md gives for the default table.
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM active_users WHERE user_id <> '' AND "
                    + "(invalidated_at IS NULL OR registered_at > invalidated_at)") == left)
        let other = try stage.run("schema", "print", "--view", "--view-name", "may send")
        #expect(other.output.contains(engine == .mariaDB ? "`may send`" : "\"may send\""))
        for words in [["--view", "--upgrade"], ["--view-name", "other"]] {
            try stage.run(["schema", "print"] + words).ends(64)
        }
        try stage.run("schema", "print", "--view", "--view-name", "active_users").ends(
            78, "choose another")
    }
}
