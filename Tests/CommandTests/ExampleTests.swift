import Settings
import TestSupport
import Testing

@Suite("check --example")
struct ExampleTests {
    /// Runs a command that must print something and read no settings, however wrong they are.
    private func printed(_ words: String...) throws -> String {
        let result = try RunningTool(
            "pushsweep", ["check"] + words + ["--config", "/nowhere.yaml"],
            environment: ["PUSHSWEEP_STORE_URL": "nonsense"]
        ).wait()
        #expect(result.exit == 0 && result.error.isEmpty, "\(result.error)")
        return result.output
    }

    @Test("alone prints the short file, and with --all one with every setting")
    func prints() throws {
        #expect(try printed("--example") == SettingsExample.short.text)
        #expect(try printed("--example", "--all") == SettingsTable.sampleFile())
        #expect(try printed("--all", "--example") == SettingsTable.sampleFile())
    }

    @Test("prints the file of a recipe by its name", arguments: SettingsExample.allCases)
    func names(_ example: SettingsExample) throws {
        #expect(try printed("--example=\(example.rawValue)") == example.text)
        #expect(try printed("--example", example.rawValue) == example.text)
    }

    @Test(
        "an unknown name is refused with all names", arguments: ["chat", "Django", "../pushchat"])
    func unknown(_ name: String) throws {
        let result = try Tool.pushsweep("check", "--example=\(name)")
        #expect(result.exit == 64)
        #expect(result.output.isEmpty)
        for example in SettingsExample.allCases {
            #expect(result.error.contains(example.rawValue), "\(result.error)")
        }
    }

    @Test(
        "--all goes with the short file only",
        arguments: [["--all"], ["--example=django", "--all"], ["--grants", "--all"]])
    func contradiction(_ words: [String]) throws {
        let result = try RunningTool("pushsweep", ["check"] + words).wait()
        #expect(result.exit == 64)
        #expect(result.error.contains("--all goes with --example"), "\(result.error)")
    }
}
