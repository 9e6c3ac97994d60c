import Foundation
import Testing

@testable import Looks
@testable import Operations

/// The files in `docs/monitoring` are read by other programs, which show nothing for a metric that
/// does not exist.
@Suite("Alerts and dashboard")
struct MonitoringTests {
    private static func text(_ name: String) throws -> String {
        try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../../docs/monitoring/\(name)"), encoding: .utf8)
    }

    private static func metrics(_ text: String) -> Set<String> {
        Set(text.matches(of: /pushsweep_[a-z_]+/).map { String($0.output) })
    }

    private static var known: Set<String> {
        Set(MetricsFacts().families.map { MetricsText.prefix + $0.name })
    }

    @Test(
        "they name no metric that does not exist",
        arguments: ["alerts.yaml", "alerts-test.yaml", "dashboard.json"])
    func names(_ file: String) throws {
        let named = try Self.metrics(Self.text(file))
        #expect(named.count >= 9)
        #expect(named.subtracting(Self.known) == [])
    }

    @Test("the dashboard shows every metric")
    func complete() throws {
        #expect(try Self.known.subtracting(Self.metrics(Self.text("dashboard.json"))) == [])
    }

    @Test("each alert has a severity, a summary and a description, and a test of when it fires")
    func alerts() throws {
        let rules = try Self.text("alerts.yaml").split(separator: "- alert: ").dropFirst()
        let tests = try Self.text("alerts-test.yaml")
        #expect(rules.count >= 10)
        for rule in rules {
            let name = rule.prefix { !$0.isNewline }
            for part in ["labels: {severity: ", "summary: ", "description: "] {
                #expect(rule.contains(part), "\(name) has no \(part)")
            }
            let fires = tests.contains(
                try Regex("alertname: \(name)\n +eval_time: .*\n +exp_alerts:"))
            #expect(fires, "no test shows when \(name) fires")
        }
    }

    @Test("the dashboard is JSON, and its panels have titles, queries and numbers of their own")
    func dashboard() throws {
        let object = try JSONSerialization.jsonObject(with: Data(Self.text("dashboard.json").utf8))
        let panels = try #require((object as? [String: Any])?["panels"] as? [[String: Any]])
        #expect(Set(panels.compactMap { $0["id"] as? Int }).count == panels.count)
        for panel in panels {
            #expect((panel["title"] as? String)?.isEmpty == false)
            #expect((panel["targets"] as? [Any])?.isEmpty == false)
        }
    }
}
