import TestSupport
import Testing

@Suite("The command schema")
struct SchemaCommandTests {
    private func statements(_ result: ToolResult) -> [String] {
        result.json["statements"] as? [String] ?? []
    }

    @Test(
        "schema prints the same statements in JSON as in SQL, and those that it executed",
        arguments: TestEngine.available)
    func json(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        let script = try stage.run("schema", "print", "--side-tables")
        let printed = try stage.run("schema", "print", "--side-tables", "--format", "json")
        #expect(printed.exit == 0 && printed.json["executed"] as? Bool == false)
        #expect(!statements(printed).isEmpty)
        #expect(
            statements(printed).map { $0 + ";\n" }.joined(separator: "\n")
                == script.output.dropLast())
        try stage.database.execute("DROP TABLE pushsweep_change")
        let trial = try stage.run("schema", "apply", "--dry-run", "--format", "json")
        #expect(trial.json["executed"] as? Bool == false)
        let applied = try stage.run("schema", "apply", "--format", "json")
        #expect(applied.exit == 0 && applied.json["executed"] as? Bool == true)
        #expect(!statements(applied).isEmpty && statements(applied) == statements(trial))
        #expect(statements(applied).allSatisfy { $0.contains("pushsweep_change") })
        #expect(try stage.run("schema", "apply").output == "nothing is missing\n")
        let again = try stage.run("schema", "apply", "--format", "json").json["statements"]
        #expect((again as? [String]) == [])
    }
}
