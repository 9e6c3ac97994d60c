import Database
import Findings
import TestSupport
import Testing

@testable import AuditFormats
@testable import Looks
@testable import Operations

@Suite("What the findings of an audit come to")
struct VerdictTests {
    private func report(_ severities: [Severity]) -> AuditReport {
        var report = AuditReport()
        report.findings = severities.enumerated().map { index, severity in
            Finding("rule", severity, "chat/production", "Finding \(index).")
        }
        return report
    }

    @Test("a finding of severity high is not healthy, whatever the report says")
    func high() {
        var contradiction = report([.low, .high])
        contradiction.healthy = true
        let verdict = AuditHeadline(contradiction)
        #expect(!verdict.healthy && verdict.word == "Not healthy")
        #expect(verdict.sentence == "Finding 1.")
        #expect(verdict.counts == ["1 high", "1 low"])
    }

    @Test("without one it is as healthy as the report says")
    func lesser() {
        var report = report([.ok, .note, .low, .medium])
        #expect(AuditHeadline(report).healthy)
        #expect(AuditHeadline(report).problems.map(\.severity) == [.medium, .low])
        report.healthy = false
        #expect(!AuditHeadline(report).healthy)
        #expect(AuditHeadline(AuditReport()).sentence == "Nothing needs attention.")
    }

    @Test("the sentence of the report comes first")
    func headline() {
        var report = report([.high])
        report.headline = "All is lost."
        #expect(AuditHeadline(report).sentence == "All is lost.")
    }

    @Test("findings that say the same of several objects are one")
    func groups() {
        let findings = ["a", "b", "c"].map {
            Finding("rule", .high, $0, $0 == "b" ? "Other." : "Same.")
        }
        let groups = AuditHeadline.groups(findings)
        #expect(groups.map(\.objects) == [["a", "c"], ["b"]])
        #expect(groups[0].objects(1, cut: 10) == "a and 1 more")
    }

    @Test("evidence keeps its sum in any number of spans")
    func spans() {
        var generator = SeededGenerator("evidence in spans")
        for _ in 0..<200 {
            let entries = (0..<Int.random(in: 0...60, using: &generator)).map { _ in
                var entry = EvidenceDay(
                    day: SampleReport.day(Int.random(in: 20_000...21_000, using: &generator)),
                    source: "source \(Int.random(in: 0...12, using: &generator))")
                if Bool.random(using: &generator) { entry.day += "x" }
                entry.day = Int.random(in: 0...9, using: &generator) == 0 ? "today" : entry.day
                entry.applied = Int.random(in: 0...9, using: &generator)
                entry.refused = Int.random(in: 0...9, using: &generator)
                return entry
            }
            let limit = Int.random(in: 1...62, using: &generator)
            let spans = EvidenceSpans(entries, since: "", until: "", limit: limit)
            #expect(
                spans.spans.map(\.total).reduce(0, +)
                    == entries.map { $0.applied + $0.refused }.reduce(0, +))
            // One more holds what has no date.
            #expect(spans.spans.count <= limit + 1)
            #expect(spans.sources.count <= 7)
        }
    }

    @Test("a short period is shown whole, a long one by weeks")
    func periods() {
        var entry = EvidenceDay(day: "2026-11-20", source: "feedback")
        entry.applied = 1
        let week = EvidenceSpans(
            [entry], since: "2026-11-17T10:00:00Z", until: "2026-11-23T10:00:00Z", limit: 62)
        #expect(week.spans.map(\.name).first == "2026-11-17")
        #expect(week.spans.map(\.total) == [0, 0, 0, 1, 0, 0, 0])
        var early = entry
        early.day = "2025-11-20"
        let year = EvidenceSpans([entry, early], since: "", until: "", limit: 62)
        #expect(year.title == "Evidence per week by source")
        #expect(year.spans.count == 53)
    }

    @Test("counts of several apps are added by name and keep their order")
    func totals() {
        let sums = Totals.sum([
            [NamedCount("young", 1), NamedCount("old", 2)],
            [NamedCount("young", 3), NamedCount("middle", 4), NamedCount("old", 5)],
        ])
        #expect(sums == [NamedCount("young", 4), NamedCount("middle", 4), NamedCount("old", 7)])
    }

    @Test("numbers, shares and times are written for people")
    func spelling() {
        #expect([0, 999, 1_000, -1_234_567].map(\.grouped) == ["0", "999", "1,000", "-1,234,567"])
        #expect([0, 950, 1_234, 100_000_000].map(\.short) == ["0", "950", "1.2k", "100M"])
        #expect(999.share(of: 1_000) == "99.9%" && 1.share(of: 1_000_000) == "under 0.1%")
        #expect(5.share(of: 5) == "100%" && 0.share(of: 0) == "-")
        #expect("2026-11-23T10:05:12Z".moment == "2026-11-23 10:05 UTC")
        #expect("yesterday".moment == "yesterday")
        #expect(0.4.span == "0.4 h" && 74.8.span == "3.1 days")
        #expect(123_456.7.span == "5,144 days")
        #expect("a\u{202E}b".cut(to: 80) == "a\\u{202E}b")
        #expect(String(repeating: "x", count: 99).cut(to: 3) == "xxx…")
    }
}
