import Foundation
import Testing

@testable import Settings

@Suite("Documentation of settings")
struct SettingsDocumentationTests {
    let fixture: SettingsFixture

    init() throws { fixture = try SettingsFixture() }

    /// The example with every setting switched on.
    static let everything = SettingsTable.sampleFile().split(
        separator: "\n", omittingEmptySubsequences: false
    ).map { line -> String in
        let indent = line.prefix { $0 == " " }
        let rest = line.dropFirst(indent.count)
        guard rest.hasPrefix("#"), rest.dropFirst().first.map({ $0 != " " }) == true else {
            return String(line)
        }
        return String(indent + rest.dropFirst())
    }.joined(separator: "\n")

    /// The groups of which an app has one.
    static let rivals = ["provider", "binary"]

    /// The example with every setting switched on but those of a group.
    static func everything(without group: String) -> String {
        var lines: [Substring] = []
        var isInside = false
        for line in everything.split(separator: "\n", omittingEmptySubsequences: false) {
            if line == "    \(group):" {
                isInside = true
            } else if isInside, !line.hasPrefix("      ") {
                isInside = false
            }
            if !isInside { lines.append(line) }
        }
        return lines.joined(separator: "\n")
    }

    @Test("docs/settings.md matches the table; PUSHSWEEP_TEST_WRITE_DOCS=1 writes it anew")
    func reference() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../docs/settings.md").standardizedFileURL
        let expected = SettingsTable.reference()
        if ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_WRITE_DOCS"] == "1" {
            try FileManager.default.createDirectory(
                at: page.deletingLastPathComponent(), withIntermediateDirectories: true)
            try expected.write(to: page, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: page, encoding: .utf8) == expected)
    }

    @Test("every setting is in the reference exactly once, with its variable")
    func complete() {
        let text = SettingsTable.reference()
        for rule in SettingsTable.rules {
            #expect(text.ranges(of: "- `\(rule.key)`:").count == 1, "\(rule.key)")
            if let variable = rule.variable { #expect(text.contains("`\(variable)`")) }
        }
    }

    @Test("keys and variables are unique, and help sentences end with a full stop")
    func table() {
        let rules = SettingsTable.rules
        #expect(Set(rules.map(\.key)).count == rules.count)
        let variables = rules.compactMap(\.variable)
        #expect(Set(variables).count == variables.count)
        #expect(variables.count == rules.count - 1)
        for rule in rules { #expect(rule.summary.hasSuffix("."), "\(rule.key)") }
    }

    @Test("the example is a valid file as it is")
    func sample() throws {
        try fixture.write("hunter2\n", to: "db-password")
        let settings = try fixture.load(SettingsTable.sampleFile())
        #expect(settings.apps.map(\.name) == ["chat"])
        #expect(settings.apps[0].feedback?.port == 2196)
        #expect(settings.apps[0].provider == nil)
        #expect(settings.policy.action == .mark)
    }

    @Test(
        "the example with every setting uncommented sets every setting that a file may hold",
        arguments: rivals)
    func fullSample(without group: String) throws {
        try fixture.write("hunter2\n", to: "db-password")
        let settings = try fixture.load(Self.everything(without: group))
        let written = settings.origins.filter { origin in
            if case .file = origin.origin { true } else { false }
        }
        let keys = SettingsTable.rules.filter {
            !$0.isEnvironmentOnly && !$0.key.hasPrefix("apps[].\(group).")
        }.map { rule -> String in
            rule.key.replacing("apps[]", with: "apps[chat]")
        }
        #expect(written.map(\.key) == keys)
        #expect(settings.apps[0].tokenKey?.keyIdentifier == "ABC123DEFG")
        #expect(settings.store.mapping.invalidatedAt.type == .datetime)
    }

    @Test("a value that the example calls a default is the default")
    func sampleDefaults() throws {
        for rule in SettingsTable.rules {
            if case .text(let text) = rule.fallback, case .comment(let sample) = rule.sample {
                #expect(sample == text || sample == "[\(text)]", "\(rule.key)")
            }
        }
    }

    @Test("every mistyped key is refused with its place")
    func everyMistypedKeyIsRefused() throws {
        try fixture.write("hunter2\n", to: "db-password")
        let lines = Self.everything(without: "binary").split(
            separator: "\n", omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let word = line.drop { $0 == " " || $0 == "-" }.prefix { $0 != ":" }
            guard line.contains(":"), !word.hasPrefix("#"), !word.isEmpty else { continue }
            var changed = lines.map(String.init)
            changed[index] = String(line).replacing("\(word):", with: "\(word)x:")
            #expect(
                fixture.problems(changed.joined(separator: "\n")).contains {
                    $0.contains(":\(index + 1):") && $0.contains("unknown key '\(word)x'")
                }, "\(line)")
        }
    }
}
