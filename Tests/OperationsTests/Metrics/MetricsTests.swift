import APNsProtocol
import Encodings
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("Metrics")
struct MetricsTests {
    private static let noon: Int64 = 1_700_000_000_500

    private static func sweep(_ apps: [(String, Int)]) -> MetricsFacts.Run {
        var report = SweepReport(
            run: "r", kind: "sweep", dryRun: false, started: EpochMilliseconds(noon))
        report.apps = apps.map { app, applied in
            var feed = BatchReport(
                Partition(app: app, environment: "production"), source: "g:2196", end: .clean)
            feed.tuples = applied + 2
            feed.applied = applied
            feed.newer = 2
            return feed
        }
        return MetricsFacts.Run(
            kind: "sweep", sender: nil, started: EpochMilliseconds(noon),
            ended: EpochMilliseconds(noon + 1_250), exit: 0,
            succeeded: EpochMilliseconds(noon + 1_250), summary: report.jsonLine)
    }

    @Test("the metrics report the last run of each kind, and add up feeds of one app")
    func runs() throws {
        var facts = MetricsFacts()
        facts.runs = [Self.sweep([("chat", 5), ("chat", 7), ("mail", 0)])]
        let page = try MetricsPage(facts.text)
        let sweep = ["kind": "sweep"]
        #expect(page["pushsweep_last_run_start_timestamp_seconds", sweep] == 1_700_000_000.5)
        #expect(page["pushsweep_last_run_end_timestamp_seconds", sweep] == 1_700_000_001.75)
        #expect(page["pushsweep_last_run_duration_seconds", sweep] == 1.25)
        #expect(page["pushsweep_last_run_exit_code", sweep] == 0)
        #expect(page["pushsweep_last_success_timestamp_seconds", sweep] == 1_700_000_001.75)
        func tuples(_ app: String, _ outcome: String) -> Double? {
            page[
                "pushsweep_last_run_tuples",
                [
                    "kind": "sweep", "app": app, "environment": "production",
                    "outcome": outcome,
                ]]
        }
        #expect(tuples("chat", "applied") == 12 && tuples("chat", "newer") == 4)
        #expect(tuples("mail", "applied") == 0 && tuples("mail", "held") == 0)
        #expect(page.types.values.allSatisfy { $0 == "gauge" })
    }

    @Test("a run that still works has no end, and an unreadable one has no counts")
    func unfinished() throws {
        var facts = MetricsFacts()
        facts.runs = [
            MetricsFacts.Run(
                kind: "send", sender: 3, started: EpochMilliseconds(Self.noon), ended: nil,
                exit: nil, succeeded: nil, summary: "{}")
        ]
        let page = try MetricsPage(facts.text)
        #expect(
            page.values.keys.filter { $0.labels["kind"] != nil }.map(\.labels) == [
                ["kind": "send", "sender": "3"]
            ])
    }

    @Test("queue rows are counted by a fixed set of reasons; a reason that a peer invents is other")
    func reasons() throws {
        var report = SendReport(run: "r", dryRun: false, started: EpochMilliseconds(Self.noon))
        var app = SendReport.App(Partition(app: "chat", environment: "sandbox"))
        app.sent = 10
        app.skipped = ["stale": 4]
        app.rejected = ["BadDeviceToken": 3, "evil\"\n": 2, "Worse": 1]
        app.evidence.applied = 6
        report.apps = [app]
        var facts = MetricsFacts()
        facts.runs = [
            MetricsFacts.Run(
                kind: "send", sender: 1, started: EpochMilliseconds(Self.noon), ended: nil,
                exit: nil, succeeded: nil, summary: report.jsonLine)
        ]
        let page = try MetricsPage(facts.text)
        func rows(_ outcome: String, _ reason: String = "") -> Double? {
            page[
                "pushsweep_last_run_queue_rows",
                [
                    "kind": "send", "sender": "1", "app": "chat", "environment": "sandbox",
                    "outcome": outcome, "reason": reason,
                ]]
        }
        #expect(rows("sent") == 10 && rows("skipped", "stale") == 4)
        #expect(rows("rejected", "BadDeviceToken") == 3 && rows("rejected", "other") == 3)
        #expect(!facts.text.contains("evil") && !facts.text.contains("Worse"))
    }

    @Test("a control character is replaced by its number, on one line")
    func controlCharacters() throws {
        var family = MetricFamily("test", "a\u{1B}b")
        family.add(1, [("name", "a\u{1B}]52;\u{9B}\u{202E}\u{2028}\r\nb")])
        let page = MetricsText.page([family])
        #expect(
            page == """
                # HELP pushsweep_test a\\\\u{1B}b
                # TYPE pushsweep_test gauge
                pushsweep_test{name="a\\\\u{1B}]52;\\\\u{009B}\\\\u{202E}\\\\u{2028}\\\\r\\nb"} 1

                """, "\(page)")
    }

    @Test("a reader of the metrics gets every name back unchanged")
    func escaping() throws {
        for name in ["a\"b", #"a\b"#, "a\nb", #"\n"#, "ü}{,=", ""] {
            var facts = MetricsFacts()
            facts.waiting[Partition(app: name, environment: "production")] = .init(
                pending: 1, pendingBytes: 38, held: 2, heldReports: 2, holds: 1)
            facts.certificates[Partition(app: name, environment: "production")] =
                EpochMilliseconds(Self.noon)
            let page = try MetricsPage(facts.text)
            let labels = ["app": name, "environment": "production"]
            #expect(page["pushsweep_holds_open", labels] == 1)
            #expect(page["pushsweep_certificate_expiry_timestamp_seconds", labels] != nil)
            let pending = labels.merging(["state": "pending"]) { $1 }
            #expect(page["pushsweep_waiting_bytes", pending] == 38)
        }
    }

    @Test("the documentation names every metric")
    func documented() throws {
        var facts = MetricsFacts()
        facts.runs = [Self.sweep([("chat", 1)])]
        let page = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../docs/json.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        for family in facts.families {
            #expect(text.contains("`\(MetricsText.prefix)\(family.name)`"), "\(family.name)")
        }
        #expect(text.ranges(of: "| `\(MetricsText.prefix)").count == facts.families.count)
    }

    @Test(
        "the file is replaced whole, readable by others, and no temporary file stays"
    )
    func file() throws {
        let folder = try TemporaryFolder()
        let file = ReplacedFile(folder.file("pushsweep.prom"), of: "metrics")
        let mask = umask(0o077)
        defer { umask(mask) }
        try file.replace(with: "one\n")
        try file.replace(with: "two\n")
        #expect(try String(contentsOfFile: file.path, encoding: .utf8) == "two\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 1)
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions]
        #expect(mode as? Int == 0o644)
    }

    @Test("a file that cannot be replaced stays as it is, and the error names the remedy")
    func unwritable() throws {
        let folder = try TemporaryFolder()
        try FileManager.default.createDirectory(
            atPath: folder.file("taken"), withIntermediateDirectories: false)
        try folder.write("no-folder", "")
        for path in ["taken", "missing/pushsweep.prom", "no-folder/pushsweep.prom"] {
            let failure = #expect(throws: RunFailure.self) {
                try ReplacedFile(folder.file(path), of: "metrics").replace(with: "x\n")
            }
            #expect(failure?.exit == .cannotCreate && failure?.stage == .report)
            #expect(failure?.description.contains("name another file") == true)
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
                == ["no-folder", "taken"])
    }
}
