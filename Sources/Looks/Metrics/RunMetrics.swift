// The figures that an alert or a dashboard needs: the end and the result of the last run of each
// kind, its counts, the batches that wait for the next run or for a person, and the ends of
// certificates. They come from the journals, which have the reports of all runs. So every file has
// the last run of every kind, whichever run has written it.
//
// No label has an unbounded set of values. Apps and environments come from the settings and from
// batches, reasons are Apple's and ours, and any other reason of a peer is "other". No label has a
// token, a path or a host.

import APNsProtocol
import Database
import EvidenceJournal
import Operations
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

    /// What waits of one partition.
    struct Waiting: Hashable, Sendable {
        /// The lists and batches that the next run judges: their number, and the bytes of lists that are in a
        /// journal of this host only.
        var pending = 0, pendingBytes = 0
        /// Reports of the batches that the next run judges.
        var pendingReports = 0
        /// The batches that wait for a person's decision, and their reports.
        var held = 0, heldReports = 0
        /// Number of holds.
        var holds = 0
        /// Living tokens that APNs called bad in the last seven days, and those of them that it knew before.
        var suspects = 0, suspectsKnown = 0
        /// The rules by which its evidence is not as usual.
        var pulse: Set<String> = []
    }

    var runs: [Run] = []
    /// What waits by partition, with at least one entry for each app of the settings.
    var waiting: [Partition: Waiting] = [:]
    /// Whether the database could be asked for batches.
    var seesBatches = true
    /// Number of batches with quarantined parts that no person has discarded.
    var quarantinedBatches = 0
    /// Number of journals in the state folders that were set aside as damaged.
    var damagedJournals = 0
    /// Number of journals that could not be read for the metrics.
    var unreadableJournals = 0
    /// The ends of our own certificates.
    var certificates: [Partition: EpochMilliseconds] = [:]
}

extension MetricsFacts {
    var text: String { MetricsText.page(families) }

    /// All metrics, with and without samples.
    var families: [MetricFamily] {
        runFamilies + reportFamilies + waitingFamilies + stateFamilies
    }

    private var runFamilies: [MetricFamily] {
        func family(
            _ name: String, _ help: String, _ value: (Run) -> Double?
        ) -> MetricFamily {
            MetricFamily(
                name, help, runs.compactMap { run in value(run).map { (run.labels, $0) } })
        }
        return [
            family("last_run_start_timestamp_seconds", "When the last run of a kind began.") {
                $0.started.seconds
            },
            family(
                "last_run_end_timestamp_seconds",
                "When the last run of a kind ended; absent while it runs."
            ) { $0.ended?.seconds },
            family("last_run_duration_seconds", "How long the last run of a kind took.") { run in
                run.ended.map { max(0, $0.seconds - run.started.seconds) }
            },
            family(
                "last_run_exit_code",
                "Exit code of the last run of a kind; 0 is success, 3 waits for a person."
            ) { $0.exit.map(Double.init) },
            family(
                "last_success_timestamp_seconds", "When the last successful run of a kind ended."
            ) { $0.succeeded?.seconds },
        ]
    }

    private var reportFamilies: [MetricFamily] {
        var (tuples, removals, rows, changes) = (
            MetricFamily("last_run_tuples", "Tuples of the last run of a kind, by result."),
            MetricFamily(
                "last_run_removed_rows", "Rows removed after the grace period by the last sweep."),
            MetricFamily(
                "last_run_queue_rows", "Queue rows of the last sender, by result and reason."),
            MetricFamily("last_run_undone_changes", "Changes of the last undo, by result.")
        )
        for run in runs {
            switch run.kind {
            case "sweep", "replay", "import", "release":
                SweepReport(line: run.summary)?.enter(&tuples, &removals, run.labels)
            case "send": SendReport(line: run.summary)?.enter(&tuples, &rows, run.labels)
            case "undo":
                guard let report = UndoReport(line: run.summary) else { continue }
                changes.add(
                    [
                        ("restored", report.restored), ("already", report.already),
                        ("kept", report.kept.values.reduce(0, +)),
                    ], run.labels)
            default: break
            }
        }
        return [tuples, removals, rows, changes]
    }

    private var waitingFamilies: [MetricFamily] {
        var batches = MetricFamily(
            "waiting_batches", "Waiting batches: pending for the next run, or held for a person.")
        var bytes = MetricFamily(
            "waiting_bytes", "Bytes of lists that are in a journal of this host only.")
        var reports = MetricFamily("waiting_reports", "Reports of the waiting batches.")
        var holds = MetricFamily("holds_open", "Removals that wait for a person to decide.")
        var pulse = MetricFamily(
            "unusual_evidence",
            "1 where the evidence of an app is not as usual by a rule of audit, else 0.")
        var suspects = MetricFamily(
            "suspect_tokens",
            "Living tokens that APNs called bad in the last seven days, by whether it had known them before."
        )
        for (partition, waiting) in waiting.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            let labels = partition.labels
            bytes.add([("pending", waiting.pendingBytes)], labels, "state")
            batches.add([("pending", waiting.pending)], labels, "state")
            guard seesBatches else { continue }
            batches.add([("held", waiting.held)], labels, "state")
            reports.add(
                [("pending", waiting.pendingReports), ("held", waiting.heldReports)], labels,
                "state")
            holds.add(waiting.holds, labels)
            let unknown = waiting.suspects - waiting.suspectsKnown
            suspects.add([("no", unknown), ("yes", waiting.suspectsKnown)], labels, "known")
            pulse.add(
                PulseFinding.rules.map { ($0, waiting.pulse.contains($0) ? 1 : 0) }, labels, "rule")
        }
        return [batches, bytes, reports, holds, suspects, pulse]
    }

    private var stateFamilies: [MetricFamily] {
        [
            MetricFamily(
                "batches_unseen", "1 where the database could not be asked for batches, else 0.",
                [([], seesBatches ? 0 : 1)]),
            MetricFamily(
                "quarantined_batches", "Batches with quarantined parts that were not discarded.",
                [([], Double(quarantinedBatches))]),
            MetricFamily(
                "damaged_journals", "Damaged journals set aside in the state folder.",
                [([], Double(damagedJournals))]),
            MetricFamily(
                "unreadable_journals",
                "Journals of other runs that could not be read for this file.",
                [([], Double(unreadableJournals))]),
            MetricFamily(
                "certificate_expiry_timestamp_seconds", "When our certificate for an app ends.",
                certificates.sorted { "\($0.key)" < "\($1.key)" }
                    .map { ($0.key.labels, $0.value.seconds) }),
        ]
    }
}

extension MetricsFacts.Run {
    fileprivate var labels: [MetricFamily.Label] {
        [("kind", kind)] + (sender.map { [("sender", "\($0)")] } ?? [])
    }
}

extension SweepReport {
    fileprivate func enter(
        _ tuples: inout MetricFamily, _ removals: inout MetricFamily,
        _ labels: [MetricFamily.Label]
    ) {
        var sums: [Partition: Counts] = [:]
        for batch in apps where batch.grace == nil {
            sums[batch.partition, default: Counts()] += batch.counts
        }
        for (partition, counts) in sums.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            tuples.add(counts, labels + partition.labels)
        }
        for entry in apps where entry.grace == true {
            removals.add(entry.applied, labels + entry.partition.labels)
        }
    }
}

extension SendReport {
    fileprivate func enter(
        _ tuples: inout MetricFamily, _ rows: inout MetricFamily, _ labels: [MetricFamily.Label]
    ) {
        for app in apps {
            let labels = labels + Partition(app: app.app, environment: app.environment).labels
            tuples.add(app.evidence, labels)
            // A reason that is not on Apple's list is an unbounded text of the peer.
            let rejected = Dictionary(
                app.rejected.map {
                    (ProviderReason($0.key).status == nil ? "other" : $0.key, $0.value)
                },
                uniquingKeysWith: +)
            func reasons(_ outcome: String, _ counts: [String: Int]) -> [(String, String, Int)] {
                counts.sorted { $0.key < $1.key }.map { (outcome, $0.key, $0.value) }
            }
            for (outcome, reason, count) in [
                ("sent", "", app.sent), ("gone", "", app.gone), ("retry", "", app.retry),
                ("unknown", "", app.unknown), ("returned", "", app.returned),
            ] + reasons("skipped", app.skipped) + reasons("rejected", rejected) {
                rows.add(count, labels + [("outcome", outcome), ("reason", reason)])
            }
        }
    }
}

extension Partition {
    fileprivate var labels: [MetricFamily.Label] {
        [("app", app), ("environment", environment)]
    }
}

extension EpochMilliseconds {
    fileprivate var seconds: Double { Double(rawValue) / 1_000 }
}

// The text format that Prometheus reads (Prometheus documentation, "Exposition formats", text-based
// format 0.0.4), as far as gauges need it. The code is pure: RunMetrics decides the content of a
// page, and ReplacedFile writes it to disk.

struct MetricFamily: Sendable {
    /// A name and a value.
    typealias Label = (name: String, value: String)
    /// One value with its labels, in printing order.
    typealias Sample = (labels: [Label], value: Double)

    /// The name without the prefix.
    let name: String
    /// One sentence for the HELP line.
    let help: String
    private(set) var samples: [Sample]

    init(_ name: String, _ help: String, _ samples: [Sample] = []) {
        (self.name, self.help, self.samples) = (name, help, samples)
    }

    mutating func add(_ count: Int, _ labels: [Label]) {
        samples.append((labels, Double(count)))
    }

    /// Adds a count for each value of one more label.
    mutating func add(_ counts: [(String, Int)], _ labels: [Label], _ name: String = "outcome") {
        for (value, count) in counts { add(count, labels + [(name, value)]) }
    }

    mutating func add(_ counts: Counts, _ labels: [Label]) {
        add(
            [
                ("applied", counts.applied), ("already", counts.already), ("newer", counts.newer),
                ("unknown", counts.unknown), ("refused", counts.refused), ("held", counts.held),
                ("quarantined", counts.quarantined),
            ], labels)
    }
}

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
