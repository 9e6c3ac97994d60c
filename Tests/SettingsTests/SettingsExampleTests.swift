import Foundation
import Testing

@testable import Settings

@Suite("Settings files of recipes")
struct SettingsExampleTests {
    private static let recipes = SettingsExample.allCases.filter { $0.page != nil }

    private static func page(_ name: String) -> URL {
        URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../docs/recipes/\(name)").standardizedFileURL
    }

    @Test(
        "a recipe's page leads to the printed file; PUSHSWEEP_TEST_WRITE_DOCS=1 writes it",
        arguments: recipes)
    func pages(_ example: SettingsExample) throws {
        let file = Self.page("settings/\(example.rawValue).yaml")
        if ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_WRITE_DOCS"] == "1" {
            try example.text.write(to: file, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: file, encoding: .utf8) == example.text)
        let page = Self.page(try #require(example.page))
        let text = try String(contentsOf: page, encoding: .utf8)
        #expect(text.contains("](settings/\(example.rawValue).yaml)"))
        #expect(text.contains("`pushsweep check --example="))
    }

    @Test("the index of the recipes links each page, and there is no page without an example")
    func index() throws {
        let index = try String(contentsOf: Self.page("README.md"), encoding: .utf8)
        for example in Self.recipes {
            #expect(index.contains("(\(try #require(example.page)))"), "\(example)")
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.page("").path)
        #expect(
            Set(files)
                == Set(
                    Self.recipes.compactMap(\.page) + [
                        "README.md", "mirror.md", "settings", "tables",
                    ]))
    }

    @Test("each example is a valid file as it is", arguments: SettingsExample.allCases)
    func valid(_ example: SettingsExample) throws {
        let fixture = try SettingsFixture()
        try fixture.write("hunter2\n", to: "db-password")
        #expect(try !fixture.load(example.text).apps.isEmpty)
        #expect(example.text.hasSuffix("\n") && !example.text.hasSuffix("\n\n"))
        #expect(example.text.split(separator: "\n").allSatisfy { $0.count <= 100 })
    }

    @Test("the short example has the few lines of a first settings file")
    func short() {
        let lines = SettingsExample.short.text.split(separator: "\n")
        #expect(lines.count { !$0.drop { $0 == " " }.hasPrefix("#") } <= 10)
        #expect(lines.count <= 15)
    }
}
