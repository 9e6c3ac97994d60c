// The figures that an alert or a dashboard needs: the end and the result of the last run of each
// kind, its counts, the feeds that wait for the next run or for a person, and the ends of
// certificates. They come from the journals, which have the reports of all runs. So every file has
// the last run of every kind, whichever run has written it.
//
// No label has an unbounded set of values. Apps and environments come from the settings and from
// feeds, reasons are Apple's and ours, and any other reason of a peer is "other". No label has a
// token, a path or a host.

import APNsProtocol
import Database
import EvidenceJournal
import Foundation
import TokenHygiene

/// The facts behind the metrics, as pure values.
struct MetricsFacts: Sendable {
    /// The last run of a kind in one journal.
    struct Run: Sendable {
        /// The kind, such as `sweep` or `send`.
        let kind: String
        /// The number of the sender's folder; nil for runs of the state folder itself.
        let sender: Int?
        let started: EpochMilliseconds
        /// The time at which it ended; nil until then.
        let ended: EpochMilliseconds?
        /// Its exit code; nil until it has ended.
        let exit: Int32?
        /// The end of the last run of this kind that ended with 0; nil when none is known.
        let succeeded: EpochMilliseconds?
        /// Its report, one JSON object.
        let summary: String
    }

    /// The feeds of one partition that wait in the journals.
    struct Waiting: Hashable, Sendable {
        /// The feeds that the next run applies: their number and their bytes.
        var pending = 0, pendingBytes = 0
        /// The feeds that wait for a person's decision: their number and their bytes.
        var held = 0, heldBytes = 0
        /// Number of holds.
        var holds = 0
    }

    var runs: [Run] = []
    /// The waiting feeds by partition, with at least one entry for each app of the settings.
    var waiting: [Partition: Waiting] = [:]
    /// Number of feeds with quarantined bytes that no person has looked at yet.
    var quarantinedFeeds = 0
    /// Number of journals in the state folders that were set aside as damaged.
    var damagedJournals = 0
    /// Number of journals that could not be read for the metrics.
    var unreadableJournals = 0
    /// The ends of our own certificates.
    var certificates: [Partition: EpochMilliseconds] = [:]
}

extension MetricsFacts {
    /// The page of metrics.
    var text: String { MetricsText.page(families) }

    /// All metrics, with and without samples.
    var families: [MetricFamily] {
        runFamilies + reportFamilies + waitingFamilies + stateFamilies
    }

    private var runFamilies: [MetricFamily] {
        var started = MetricFamily(
            "last_run_start_timestamp_seconds", "When the last run of a kind began.")
        var ended = MetricFamily(
            "last_run_end_timestamp_seconds",
            "When the last run of a kind ended; absent while it runs.")
        var duration = MetricFamily(
            "last_run_duration_seconds", "How long the last run of a kind took.")
        var exit = MetricFamily(
            "last_run_exit_code",
            "Exit code of the last run of a kind; 0 is success, 3 waits for a person.")
        var success = MetricFamily(
            "last_success_timestamp_seconds",
            "When the last successful run of a kind ended.")
        for run in runs {
            let labels = run.labels
            started.add(run.started.seconds, labels)
            if let end = run.ended {
                ended.add(end.seconds, labels)
                duration.add(
                    max(0, Double(end.rawValue) - Double(run.started.rawValue)) / 1_000, labels)
            }
            if let code = run.exit { exit.add(Int(code), labels) }
            if let time = run.succeeded { success.add(time.seconds, labels) }
        }
        return [started, ended, duration, exit, success]
    }

    private var reportFamilies: [MetricFamily] {
        var tuples = MetricFamily(
            "last_run_tuples", "Tuples of the last run of a kind, by result.")
        var removals = MetricFamily(
            "last_run_removed_rows", "Rows removed after the grace period by the last sweep.")
        var rows = MetricFamily(
            "last_run_queue_rows",
            "Queue rows of the last sender, by result and reason.")
        var changes = MetricFamily(
            "last_run_undone_changes", "Changes of the last undo, by result.")
        for run in runs {
            switch run.report {
            case .sweep(let report): report.enter(&tuples, &removals, run.labels)
            case .send(let report): report.enter(&tuples, &rows, run.labels)
            case .undo(let report):
                for (word, count) in [
                    ("restored", report.restored), ("already", report.already),
                    ("kept", report.kept.values.reduce(0, +)),
                ] {
                    changes.add(count, run.labels + [.init("outcome", word)])
                }
            case .other: break
            }
        }
        return [tuples, removals, rows, changes]
    }

    private var waitingFamilies: [MetricFamily] {
        var feeds = MetricFamily(
            "waiting_feeds", "Waiting feeds: pending for the next run, or held for a person.")
        var bytes = MetricFamily("waiting_bytes", "Bytes of the waiting feeds.")
        var holds = MetricFamily("holds_open", "Removals that wait for a person to decide.")
        for (partition, waiting) in waiting.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            for (state, count, size) in [
                ("pending", waiting.pending, waiting.pendingBytes),
                ("held", waiting.held, waiting.heldBytes),
            ] {
                let labels = partition.labels + [.init("state", state)]
                feeds.add(count, labels)
                bytes.add(size, labels)
            }
            holds.add(waiting.holds, partition.labels)
        }
        return [feeds, bytes, holds]
    }

    private var stateFamilies: [MetricFamily] {
        var quarantined = MetricFamily(
            "quarantined_feeds", "Feeds with quarantined bytes that were not discarded.")
        quarantined.add(quarantinedFeeds)
        var damaged = MetricFamily(
            "damaged_journals", "Damaged journals set aside in the state folder.")
        damaged.add(damagedJournals)
        var unreadable = MetricFamily(
            "unreadable_journals", "Journals of other runs that could not be read for this file.")
        unreadable.add(unreadableJournals)
        var expiry = MetricFamily(
            "certificate_expiry_timestamp_seconds", "When our certificate for an app ends.")
        for (partition, end) in certificates.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            expiry.add(end.seconds, partition.labels)
        }
        return [quarantined, damaged, unreadable, expiry]
    }
}

extension MetricsFacts.Run {
    /// The decoded report of a run, by the kind of the run.
    fileprivate enum Report {
        case sweep(SweepReport)
        case send(SendReport)
        case undo(UndoReport)
        /// A report without counts, or of another version.
        case other
    }

    fileprivate var labels: [MetricFamily.Label] {
        [.init("kind", kind)] + (sender.map { [.init("sender", "\($0)")] } ?? [])
    }

    fileprivate var report: Report {
        func read<T: Decodable>(_ type: T.Type) -> T? {
            try? JSONDecoder().decode(type, from: Data(summary.utf8))
        }
        switch kind {
        case "sweep", "replay", "import", "release":
            return read(SweepReport.self).map(Report.sweep) ?? .other
        case "send": return read(SendReport.self).map(Report.send) ?? .other
        case "undo": return read(UndoReport.self).map(Report.undo) ?? .other
        default: return .other
        }
    }
}

extension SweepReport {
    fileprivate func enter(
        _ tuples: inout MetricFamily, _ removals: inout MetricFamily,
        _ labels: [MetricFamily.Label]
    ) {
        var sums: [Partition: Counts] = [:]
        for feed in apps {
            let partition = Partition(app: feed.app, environment: feed.environment)
            sums[partition, default: Counts()] += feed.counts
        }
        for (partition, counts) in sums.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            counts.enter(&tuples, labels + partition.labels)
        }
        for removal in self.removals {
            let partition = Partition(app: removal.app, environment: removal.environment)
            removals.add(removal.removed, labels + partition.labels)
        }
    }
}

extension SendReport {
    fileprivate func enter(
        _ tuples: inout MetricFamily, _ rows: inout MetricFamily, _ labels: [MetricFamily.Label]
    ) {
        for app in apps {
            let labels =
                labels + Partition(app: app.app, environment: app.environment).labels
            app.evidence.enter(&tuples, labels)
            func add(_ count: Int, _ outcome: String, _ reason: String = "") {
                rows.add(count, labels + [.init("outcome", outcome), .init("reason", reason)])
            }
            add(app.sent, "sent")
            add(app.gone, "gone")
            add(app.retry, "retry")
            add(app.unknown, "unknown")
            add(app.returned, "returned")
            for (reason, count) in app.skipped.sorted(by: { $0.key < $1.key }) {
                add(count, "skipped", reason)
            }
            // A reason that is not on Apple's list is an unbounded text of the peer.
            let rejected = Dictionary(
                app.rejected.map { reason, count in
                    if ProviderReason(reason).status == nil { return ("other", count) }
                    return (reason, count)
                }, uniquingKeysWith: +)
            for (reason, count) in rejected.sorted(by: { $0.key < $1.key }) {
                add(count, "rejected", reason)
            }
        }
    }
}

extension Counts {
    fileprivate func enter(_ family: inout MetricFamily, _ labels: [MetricFamily.Label]) {
        for (word, count) in [
            ("applied", applied), ("already", already), ("newer", newer), ("unknown", unknown),
            ("refused", refused), ("held", held),
            ("quarantined", quarantined),
        ] {
            family.add(count, labels + [.init("outcome", word)])
        }
    }
}

extension Partition {
    fileprivate var labels: [MetricFamily.Label] {
        [.init("app", app), .init("environment", environment)]
    }
}

extension EpochMilliseconds {
    fileprivate var seconds: Double { Double(rawValue) / 1_000 }
}

// The text format that Prometheus reads (Prometheus documentation, "Exposition formats", text-based
// format 0.0.4), as far as gauges need it. The code is pure: RunMetrics decides the content of a
// page, and ReplacedFile writes it to disk.

/// One metric with its samples.
struct MetricFamily: Hashable, Sendable {
    /// One value with its labels.
    struct Sample: Hashable, Sendable {
        /// Names and values of the labels, in printing order.
        let labels: [Label]
        let value: Double
    }

    /// A label.
    struct Label: Hashable, Sendable {
        let name: String
        let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The name without the prefix.
    let name: String
    /// One sentence for the HELP line.
    let help: String
    private(set) var samples: [Sample] = []

    init(_ name: String, _ help: String) {
        self.name = name
        self.help = help
    }

    /// Adds a sample.
    mutating func add(_ value: Double, _ labels: [Label] = []) {
        samples.append(Sample(labels: labels, value: value))
    }

    /// Adds a count.
    mutating func add(_ count: Int, _ labels: [Label] = []) { add(Double(count), labels) }
}

/// A page of metrics.
enum MetricsText {
    /// The prefix of every name.
    static let prefix = "pushsweep_"

    /// The families as a page; families without a sample are left out.
    static func page(_ families: [MetricFamily]) -> String {
        families.filter { !$0.samples.isEmpty }.map(text).joined()
    }

    private static func text(_ family: MetricFamily) -> String {
        let name = prefix + family.name
        let lines = [
            "# HELP \(name) \(escaped(family.help, quotes: false))", "# TYPE \(name) gauge",
        ]
        let samples = family.samples.map { sample in
            let labels = sample.labels.map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
            let list = labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
            return "\(name)\(list) \(number(sample.value))"
        }
        return (lines + samples).map { $0 + "\n" }.joined()
    }

    /// Whole numbers without a fraction, since Swift's own "1e+16" and "5.0" are harder to read.
    private static func number(_ value: Double) -> String {
        Int64(exactly: value).map(String.init) ?? "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        text.replacing { scalar in
            switch scalar {
            case "\\": #"\\"#
            case "\n": #"\n"#
            case "\"" where quotes: #"\""#
            // The format has no escape for other characters. They are written as in our own output,
            // with the backslash escaped.
            case _ where PlainText.hasControlCharacter(String(scalar)):
                #"\"# + scalar.escaped(asASCII: true)
            default: nil
            }
        }
    }
}
