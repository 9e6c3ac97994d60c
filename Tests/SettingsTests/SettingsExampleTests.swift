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
        "a recipe's page has the printed file word for word; PUSHSWEEP_TEST_WRITE_DOCS=1 writes it",
        arguments: recipes)
    func pages(_ example: SettingsExample) throws {
        let place = Self.page(try #require(example.page))
        var text = try String(contentsOf: place, encoding: .utf8)
        let sentence = try #require(text.range(of: example.sentence)).upperBound
        let start = try #require(
            text.range(of: "\n\n```yaml\n", range: sentence..<text.endIndex)
        ).upperBound
        let end = try #require(text.range(of: "```\n", range: start..<text.endIndex)).lowerBound
        if ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_WRITE_DOCS"] == "1" {
            text.replaceSubrange(start..<end, with: example.text)
            try text.write(to: place, atomically: true, encoding: .utf8)
        }
        #expect(
            try String(contentsOf: place, encoding: .utf8).contains(
                "\(example.sentence)\n\n```yaml\n\(example.text)```\n"))
        let variants = Self.recipes.filter { $0.page == example.page }
        #expect(text.ranges(of: "```yaml").count == variants.count, "one file for each variant")
    }

    @Test("the index of the recipes links each page, and there is no page without an example")
    func index() throws {
        let index = try String(contentsOf: Self.page("README.md"), encoding: .utf8)
        for example in Self.recipes {
            #expect(index.contains("(\(try #require(example.page)))"), "\(example)")
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.page("").path)
        #expect(Set(files) == Set(Self.recipes.compactMap(\.page) + ["README.md", "tables"]))
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
