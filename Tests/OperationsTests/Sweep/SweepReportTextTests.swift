import APNsProtocol
import Foundation
import Testing
import TokenHygiene

@testable import Operations

@Suite("The text report of a sweep")
struct SweepReportTextTests {
    private static func report(dryRun: Bool) -> SweepReport {
        var report = SweepReport(
            run: "r", kind: "sweep", dryRun: dryRun, started: EpochMilliseconds(0))
        var feed = BatchReport(
            Partition(app: "chat", environment: "production"), source: "g:2196", end: .clean)
        (feed.bytes, feed.tuples, feed.applied, feed.newer) = (114, 3, 2, 1)
        var gone = BatchReport(feed.partition, source: "policy.delete-after", end: .clean)
        (gone.tuples, gone.applied, gone.grace) = (7, 7, true)
        report.apps = [feed, gone]
        return report
    }

    @Test("the report says what a sweep did, and what a dry run would do")
    func tense() {
        let done = Self.report(dryRun: false).lines.joined(separator: "\n")
        #expect(done.contains("3 tuples: 2 applied, 0 already invalid, 1 registered again"))
        #expect(
            done.contains("chat/production, marked for long enough\n  7 tokens: 7 removed, 0 left"))
        #expect(
            done.contains("2 became invalid, 1 kept because they registered again, 7 gone after"))
        let trial = Self.report(dryRun: true).lines.joined(separator: "\n")
        #expect(trial.contains("3 tuples: 2 would be applied, 0 already invalid"))
        #expect(
            trial.contains("7 tokens: 7 would be removed, 0 left")
                && trial.contains("7 would go after"))
        #expect(trial.contains("2 would become invalid") && trial.contains("no row was changed"))
        var stopped = Self.report(dryRun: true)
        (stopped.apps[0].cause, stopped.apps[0].asked) = ("too many", true)
        let held = stopped.lines.joined(separator: "\n")
        #expect(held.contains("2 would be applied if a person released it, 0 already invalid"))
        #expect(held.contains("0 would become invalid, 2 would be held"))
        stopped.apps[0].bytes = 0
        #expect(stopped.lines[0].hasSuffix(" from \(stopped.apps[0].source)"))
    }

    @Test("a report with what cannot be used says where its reason is, once it is kept")
    func unusable() {
        var report = Self.report(dryRun: false)
        report.intake = IntakeReport()
        #expect(!report.lines.contains { $0.contains("quarantine list") })
        var counts = ReportCounts()
        counts.quarantined = 1
        report.intake = IntakeReport(counts)
        #expect(report.lines.contains("why they cannot be used: pushsweep quarantine list"))
        var trial = Self.report(dryRun: true)
        trial.intake = report.intake
        #expect(!trial.lines.contains { $0.contains("quarantine list") })
    }

    @Test("the report uses the singular for one thing")
    func singular() {
        var report = Self.report(dryRun: false)
        (report.apps[0].bytes, report.apps[0].tuples, report.apps[0].quarantinedBytes) = (39, 1, 1)
        report.apps[1].tuples = 1
        let text = report.lines.joined(separator: "\n")
        #expect(text.contains("39 bytes, 1 tuple: 2 applied"))
        #expect(text.contains("quarantined after the last whole tuple: 1 byte\n"))
        #expect(text.contains("1 token: 7 removed") && text.contains("sweep: 1 tuple,"))
    }

    @Test("a content that was imported before is called discarded in part where some of it is not")
    func discardedInPart() throws {
        var intake = IntakeReport()
        intake.discarded = true
        #expect(intake.knownWords.contains("imported before and discarded; --again"))
        intake.discardedInPart = true
        #expect(intake.knownWords.contains("imported before and discarded in part; --again"))
        let read = try JSONDecoder().decode(IntakeReport.self, from: JSONEncoder().encode(intake))
        #expect(read == intake)
    }

    @Test("the report does not call a gateway refused that was never asked")
    func notAsked() {
        var report = Self.report(dryRun: false)
        report.apps[0] = BatchReport(
            Partition(app: "chat", environment: "production"), source: "g:2196", end: .refused)
        #expect(report.lines.joined(separator: "\n").contains("g:2196: refused"))
        report.apps[0].asked = false
        #expect(
            report.lines.joined(separator: "\n").contains("g:2196: not asked")
                && !report.lines.joined(separator: "\n").contains("refused"))
    }
}
