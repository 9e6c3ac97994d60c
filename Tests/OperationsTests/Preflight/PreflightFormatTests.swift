import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import Testing

@testable import Looks
@testable import Operations

@Suite("The formats of preflight")
struct PreflightFormatTests {
    private static let hostile =
        "a</failure>|`b` *c* \"d\" & <script>alert(1)</script> [x](http://example.org)\n### e\u{1B}[2J\u{202E}\u{FFFE}"

    private static let rules = RuleBook.rules(of: .preflight)

    /// A report with a finding of each rule, each with hostile texts, of which one is ignored.
    private var report: PreflightReport {
        var report = PreflightReport(
            app: "chat", environment: "production", subject: "tokens", readOnly: false,
            started: "2026-11-20T12:00:00.000Z", failOn: "high")
        for (index, rule) in Self.rules.enumerated() {
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

    @Test("Markdown keeps one row for each finding, and hostile texts stay texts")
    func markdown() {
        let text = report.markdown
        let rows = text.split(separator: "\n").filter {
            $0.hasPrefix("| ") && $0.contains("a&lt;/failure")
        }
        #expect(rows.count == Self.rules.count)
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
        #expect(findings.map { $0["rule"] as? String } == Self.rules.map(\.name))
        #expect((findings[3]["ignored"] as? [String: String])?["until"] == "2026-12-31")
    }
}
