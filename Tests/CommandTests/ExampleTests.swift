import Operations
import Settings
import TestSupport
import Testing

@Suite("check --example")
struct ExampleTests {
    @Test("check --example prints the sample file and reads no settings, however wrong they are")
    func prints() throws {
        let result = try Tool.pushsweep(
            "check", "--example", "--config", "/nowhere.yaml",
            environment: ["PUSHSWEEP_STORE_URL": "nonsense"])
        #expect(result.exit == 0)
        #expect(result.output == SettingsTable.sampleFile())
        #expect(result.error.isEmpty)
    }
}
