import APNsProtocol
import Database
import Findings
import Foundation
import Settings
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("The book of rules")
struct RuleBookTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    @Test("docs/rules.md is the text of the rules; PUSHSWEEP_TEST_WRITE_DOCS=1 writes it anew")
    func page() throws {
        let page = Self.root.appending(path: "docs/rules.md")
        if ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_WRITE_DOCS"] == "1" {
            try RuleBook.page.write(to: page, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: page, encoding: .utf8) == RuleBook.page)
    }

    @Test("each name is that of one rule, and each rule says what, why, how to look and what to do")
    func whole() {
        #expect(Set(RuleBook.all.map(\.name)).count == RuleBook.all.count)
        #expect(RuleBook.rule("no-such-rule") == nil)
        for rule in RuleBook.all {
            #expect(rule.name.wholeMatch(of: /[a-z]+(-[a-z]+)*/) != nil, "\(rule.name)")
            for text in [rule.text.seen, rule.text.why, rule.text.look, rule.text.next] {
                #expect(text.count > 20 && text.count < 400, "\(rule.name): \(text)")
                #expect([".", ";"].contains { text.hasSuffix($0) }, "\(rule.name): \(text)")
            }
            #expect(!rule.looks.isEmpty && !rule.text.severity.isEmpty, "\(rule.name)")
        }
        #expect(RuleArea.allCases.allSatisfy { area in RuleBook.all.contains { $0.area == area } })
    }

    @Test("each rule has one text and each text a rule, in the same order")
    func texts() {
        let (rules, texts) = (RuleBook.all.map(\.name), RuleText.entries.map(\.name))
        #expect(Set(rules).subtracting(texts) == [], "no file of Texts has these rules")
        #expect(Set(texts).subtracting(rules) == [], "no list has a rule for these texts")
        #expect(rules.count == texts.count, "a name stands twice")
        let moved = zip(rules, texts).first { $0 != $1 }
        #expect(moved?.0 == moved?.1, "the first text that stands at another place than its rule")
    }

    @Test("a paragraph goes on in indented lines, and one that is missing is empty")
    func paragraphs() {
        let lines = ["Severity: low", "Seen: one", "  two: three", "    Why: four", "Next: five"]
        let text = RuleText(lines.map { $0[...] })
        #expect(text.seen == "one two: three Why: four")
        #expect((text.severity, text.next) == ("low", "five"))
        #expect(text.why.isEmpty && text.look.isEmpty)
    }

    @Test("each name that an examination gives a finding is in the book, for check, and none else")
    func examined() throws {
        let sources = Self.root.appending(path: "Sources")
        let files = try #require(
            FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        var (names, examined): (Set<String>, Set<String>) = ([], [])
        for case let file as URL in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(
                of: /(?:\.warning\(|report\.note\(|report\.fail\(|rule:)\s*"([a-z-]+)"/)
            {
                names.insert(String(match.1))
            }
            for match in text.matches(of: /\.examined\(\s*"([a-z-]+)"/) {
                examined.insert(String(match.1))
            }
        }
        #expect(names.count > 25, "\(names)")
        for name in names {
            let rule = RuleBook.all.first { $0.name == name }
            #expect(rule?.looks.contains(.check) == true, "\(name)")
        }
        // The rules about the ignore file find its entries themselves.
        let told = names.union(StoreFailure.Code.allCases.map(\.rule))
        let entries = RuleBook.ignoring.map(\.name)
        #expect(examined.subtracting(told) == Set(entries).subtracting(told))
        for code in StoreFailure.Code.allCases {
            #expect(RuleBook.all.contains { $0.name == code.rule }, "\(code)")
        }
        for rule in PulseFinding.rules {
            #expect(RuleBook.all.contains { $0.name == rule }, "\(rule)")
        }
    }

    @Test("an entry of an ignore file has no effect on a failure, and says so")
    func failures() throws {
        let list = try IgnoreList(
            text: "- {rule: missing-right, reason: a test, until: 2099-12-31}", name: "i.yaml",
            rules: RuleBook.ignorable)
        var failure = Finding(.high, "database", "a right is missing", rule: "missing-right")
        failure.exit = 77
        let decided = list.applied(to: [failure], of: .check, at: .current)
        #expect(decided.map(\.rule) == ["missing-right", "ignore-unused"])
        #expect(decided[0].ignored == nil && decided[1].sentence.contains("is a failure"))
    }

    @Test("a rule says nothing where its part of the facts was not looked at")
    func blind() {
        for look in Look.allCases {
            let found = RuleBook.findings(Facts(look, now: EpochMilliseconds(0)))
            #expect(found.isEmpty, "\(look): \(found)")
        }
    }

    @Test(
        "an entry ignores nothing that is well, names one hold, and is silent where a command has no such rule"
    )
    func entries() throws {
        func applied(_ text: String, _ findings: [Finding], _ look: Look) throws -> [Finding] {
            try IgnoreList(
                text: "- {\(text), reason: a test, until: 2099-12-31}", name: "i.yaml",
                rules: RuleBook.ignorable
            ).applied(to: findings, of: look, at: .current)
        }
        let well = Finding(.ok, "holds", "nothing waits for a decision", rule: "open-hold")
        let quiet = try applied("rule: open-hold", [well], .audit)
        #expect(quiet[0].ignored == nil && quiet[1].rule == "ignore-unused")
        var hold = Finding(.high, "chat/production", "a removal waits", rule: "open-hold")
        hold.names = ["hold abcd"]
        #expect(try applied("rule: open-hold, object: chat/*", [hold], .audit)[0].ignored == nil)
        #expect(try applied("rule: open-hold, object: hold abc*", [hold], .audit)[0].ignored != nil)
        #expect(try applied("rule: open-hold", [hold], .audit)[0].ignored != nil)
        #expect(try applied("rule: no-index", [], .audit).isEmpty)
        #expect(try applied("rule: no-index", [], .check).map(\.rule) == ["ignore-unused"])
    }

    @Test("what an examination finds under a name that no rule has is told all the same")
    func unnamed() {
        var facts = Facts(.check, now: EpochMilliseconds(0))
        facts.examined = [Finding(.medium, "database", "something odd", rule: "of-no-book")]
        #expect(RuleBook.findings(facts) == facts.examined)
    }
}
