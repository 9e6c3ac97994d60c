import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing

@testable import Operations

@Suite("The formats of preflight")
struct PreflightFormatTests {
    private static let hostile =
        "a</failure>|`b` *c* \"d\" & <script>alert(1)</script> [x](http://example.org)\n### e\u{1B}[2J\u{202E}\u{FFFE}"

    /// A report with a finding of each rule, each with hostile texts, of which one is ignored.
    private var report: PreflightReport {
        var report = PreflightReport(
            app: "chat", environment: "production", subject: "tokens", readOnly: false,
            started: "2026-11-20T12:00:00.000Z", failOn: "high")
        for (index, rule) in PreflightRules.all.enumerated() {
            report.findings.append(
                Finding(
                    Severity.allCases[index % 4 + 1], Self.hostile, Self.hostile,
                    cure: Self.hostile, rule: rule.name))
        }
        report.findings[3].ignored = .init(reason: Self.hostile, until: "2026-12-31")
        report.tokens = TokenCounts()
        report.gate = "shut"
        report.exit = 2
        return report
    }

    /// What a program in Python prints about a text on its standard input.
    private func python(_ program: String, _ text: String) throws -> ToolResult {
        let folder = try TemporaryFolder()
        let path = try folder.write("document", text)
        return try ForeignProgram.python.run(["-c", program, path])
    }

    @Test("text has no control character, and shows what is ignored")
    func text() {
        let lines = report.lines.map(\.printable)
        #expect(lines[0].contains("the gate is shut"))
        #expect(
            lines.allSatisfy {
                !$0.contains("\n") && !$0.contains("\u{1B}") && !$0.contains("\u{202E}")
            })
        #expect(lines.contains { $0.contains("ignored until 2026-12-31") })
    }

    @Test("every rule has a name of lower-case words, a summary, and a row in the document")
    func rules() throws {
        let page = try String(
            contentsOf: ReliabilityDocumentTests.root.appending(path: "docs/json.md"),
            encoding: .utf8)
        for rule in PreflightRules.all {
            #expect(rule.name.wholeMatch(of: /[a-z]+(-[a-z]+)+/) != nil)
            #expect(rule.summary.hasSuffix("."))
            #expect(page.contains("\n| `\(rule.name)` |"), "\(rule.name) has no row")
        }
    }

    @Test("SARIF has the structure of version 2.1.0, and hostile texts stay texts")
    func sarif() throws {
        let text = report.sarif(program: "1.2.3", file: "/etc/push sweep.yaml").printableJSON
        #expect(!text.contains("\u{1B}") && !text.contains("\u{202E}"))
        let object = try #require(
            JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        #expect(object["version"] as? String == "2.1.0")
        #expect((object["$schema"] as? String)?.contains("sarif-2.1.0") == true)
        let run = try #require((object["runs"] as? [[String: Any]])?.first)
        let driver = try #require((run["tool"] as? [String: Any])?["driver"] as? [String: Any])
        #expect(driver["name"] as? String == "pushsweep preflight")
        let rules = try #require(driver["rules"] as? [[String: Any]])
        let results = try #require(run["results"] as? [[String: Any]])
        #expect(results.count == PreflightRules.all.count)
        for (index, result) in results.enumerated() {
            let place = try #require(result["ruleIndex"] as? Int)
            #expect(rules[place]["id"] as? String == result["ruleId"] as? String)
            let level = try #require(result["level"] as? String)
            #expect(level == ["note", "note", "warning", "error"][index % 4])
            #expect((result["message"] as? [String: Any])?["text"] is String)
            let suppressions = try #require(result["suppressions"] as? [[String: Any]])
            #expect(suppressions.count == (index == 3 ? 1 : 0))
            #expect(suppressions.allSatisfy { $0["kind"] as? String == "external" })
            let location = try #require((result["locations"] as? [[String: Any]])?.first)
            let physical = location["physicalLocation"] as? [String: Any]
            let artifact = physical?["artifactLocation"] as? [String: Any]
            #expect(artifact?["uri"] as? String == "file:///etc/push%20sweep.yaml")
        }
    }

    @Test(
        "JUnit is XML with one test for each rule, and hostile texts stay texts",
        .enabled(if: ForeignProgram.python.isInstalled))
    func junit() throws {
        let result = try python(
            """
            import sys, xml.etree.ElementTree as tree
            root = tree.parse(sys.argv[1]).getroot()
            suite = root.find('testsuite')
            cases = suite.findall('testcase')
            print(root.tag, len(cases), suite.get('tests'), suite.get('failures'), suite.get('skipped'),
                len(root.findall('.//failure')), len(root.findall('.//skipped')),
                len(root.findall('.//script')))
            print(cases[7].find('failure').text)
            """, report.junit)
        #expect(result.exit == 0, "\(result.error)")
        let count = PreflightRules.all.count
        // High are the findings 3, 7, 11 and so on, and 3 is ignored.
        let failures = count / 4 - 1
        let lines = result.output.split(separator: "\n")
        #expect(lines[0] == "testsuites \(count) \(count) \(failures) 1 \(failures) 1 0")
        #expect(lines[1].contains("<script>alert(1)</script>"))
        #expect(!result.output.contains("\u{1B}"))
    }

    @Test("Markdown keeps one row for each finding, and hostile texts stay texts")
    func markdown() {
        let text = report.markdown
        let rows = text.split(separator: "\n").filter {
            $0.hasPrefix("| ") && $0.contains("a&lt;/failure")
        }
        #expect(rows.count == PreflightRules.all.count)
        #expect(rows.allSatisfy { $0.count { $0 == "|" } == 6 })
        #expect(!text.contains("<script>") && !text.contains("[x](") && !text.contains("\u{1B}"))
        #expect(text.split(separator: "\n").count { $0.hasPrefix("#") } == 1)
    }

    @Test("JSON has the names of rules and severities, and the decision")
    func json() throws {
        let object = try #require(
            JSONSerialization.jsonObject(with: Data(report.jsonLine.utf8)) as? [String: Any])
        #expect(object["gate"] as? String == "shut" && object["exit"] as? Int == 2)
        let findings = try #require(object["findings"] as? [[String: Any]])
        #expect(findings.map { $0["rule"] as? String } == PreflightRules.all.map(\.name))
        #expect((findings[3]["ignored"] as? [String: String])?["until"] == "2026-12-31")
    }
}
