import APNsProtocol
import Encodings
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("The figures of the metrics")
struct MetricsFigureTests {
    private static let noon: Int64 = 1_700_000_000_500

    @Test("what waits and how the state is stands on the page with each of its figures")
    func waiting() throws {
        var facts = MetricsFacts()
        facts.waiting[Partition(app: "b", environment: "sandbox")] = .init(
            pending: 1, pendingBytes: 2, pendingReports: 3, held: 4, heldReports: 5, holds: 6,
            suspects: 9, suspectsKnown: 2, pulse: ["evidence-surge"])
        facts.waiting[Partition(app: "a", environment: "production")] = .init()
        (facts.quarantinedBatches, facts.damagedJournals, facts.unreadableJournals) = (10, 11, 12)
        facts.certificates = [
            Partition(app: "b", environment: "sandbox"): EpochMilliseconds(13_500),
            Partition(app: "a", environment: "production"): EpochMilliseconds(14_000),
        ]
        let own = #"app="b",environment="sandbox""#
        let lines = facts.text.split(separator: "\n").filter { !$0.hasPrefix("#") }
            .map { $0.dropFirst("pushsweep_".count) }
        for line in [
            "waiting_batches{\(own),state=\"pending\"} 1",
            "waiting_batches{\(own),state=\"held\"} 4",
            "waiting_bytes{\(own),state=\"pending\"} 2",
            "waiting_reports{\(own),state=\"pending\"} 3",
            "waiting_reports{\(own),state=\"held\"} 5", "holds_open{\(own)} 6",
            "suspect_tokens{\(own),known=\"no\"} 7", "suspect_tokens{\(own),known=\"yes\"} 2",
            "unusual_evidence{\(own),rule=\"evidence-surge\"} 1",
            "unusual_evidence{\(own),rule=\"evidence-stopped\"} 0", "batches_unseen 0",
            "quarantined_batches 10", "damaged_journals 11", "unreadable_journals 12",
            "certificate_expiry_timestamp_seconds{\(own)} 13.5",
        ] {
            #expect(lines.contains { $0 == line }, "\(line)")
        }
        let apps = lines.compactMap {
            $0.contains("app=\"a\"") ? "a" : $0.contains(own) ? "b" : nil
        }
        #expect(apps.count == 28 && apps.prefix(4) == ["a", "a", "b", "b"])
        #expect(apps.suffix(2) == ["a", "b"])
    }

    @Test("where the database cannot be asked only what is in journals is told")
    func unseen() throws {
        var facts = MetricsFacts()
        facts.waiting[Partition(app: "a", environment: "sandbox")] = .init(
            pending: 1, pendingBytes: 2, pendingReports: 3, held: 4, holds: 6)
        facts.seesBatches = false
        let names = facts.text.split(separator: "\n").filter { !$0.hasPrefix("#") }
            .map { $0.prefix { $0 != "{" && $0 != " " }.dropFirst("pushsweep_".count) }
        #expect(
            names == [
                "waiting_batches", "waiting_bytes", "batches_unseen", "quarantined_batches",
                "damaged_journals", "unreadable_journals",
            ])
        #expect(facts.text.contains("pushsweep_batches_unseen 1\n"))
    }

    @Test("a sender's and an undo's last run has each of its figures on the page")
    func figures() throws {
        func run(_ kind: String, _ summary: String) -> MetricsFacts.Run {
            MetricsFacts.Run(
                kind: kind, sender: nil, started: EpochMilliseconds(9_000),
                ended: EpochMilliseconds(8_000), exit: 3, succeeded: EpochMilliseconds(7_000),
                summary: summary)
        }
        var report = SendReport(run: "r", dryRun: false, started: EpochMilliseconds(Self.noon))
        var app = SendReport.App(Partition(app: "chat", environment: "sandbox"))
        (app.sent, app.gone, app.retry, app.unknown, app.returned) = (1, 2, 3, 4, 5)
        app.evidence = Counts(applied: 6, already: 7, newer: 8, unknown: 9, refused: 10)
        (app.evidence.held, app.evidence.quarantined) = (11, 12)
        report.apps = [app]
        var undo = UndoReport(
            run: "u", dryRun: false, started: EpochMilliseconds(Self.noon).rfc3339)
        (undo.restored, undo.already, undo.kept) = (13, 14, ["newer": 15, "gone": 1])
        var facts = MetricsFacts()
        facts.runs = [run("send", report.jsonLine), run("undo", undo.jsonLine)]
        let page = try MetricsPage(facts.text)
        let place = ["kind": "send", "app": "chat", "environment": "sandbox"]
        for (outcome, count) in [
            ("sent", 1), ("gone", 2), ("retry", 3), ("unknown", 4), ("returned", 5),
        ] {
            let labels = place.merging(["outcome": outcome, "reason": ""]) { $1 }
            #expect(page["pushsweep_last_run_queue_rows", labels] == Double(count), "\(outcome)")
        }
        for (outcome, count) in [
            ("applied", 6), ("already", 7), ("newer", 8), ("unknown", 9), ("refused", 10),
            ("held", 11), ("quarantined", 12),
        ] {
            let labels = place.merging(["outcome": outcome]) { $1 }
            #expect(page["pushsweep_last_run_tuples", labels] == Double(count), "\(outcome)")
        }
        for (outcome, count) in [("restored", 13), ("already", 14), ("kept", 16)] {
            let labels = ["kind": "undo", "outcome": outcome]
            #expect(
                page["pushsweep_last_run_undone_changes", labels] == Double(count), "\(outcome)")
        }
        let undone = ["kind": "undo"]
        #expect(page["pushsweep_last_run_exit_code", undone] == 3)
        #expect(page["pushsweep_last_run_duration_seconds", undone] == 0)
        #expect(page["pushsweep_last_success_timestamp_seconds", undone] == 7)
    }
}
