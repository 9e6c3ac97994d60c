import APNsProtocol
import Foundation
import PushQueue
import TokenHygiene

/// What a run of the sender did, app by app: one JSON object for scripts. Fields may be added, never
/// renamed.
package struct SendReport: RunReport, Codable, Hashable {
    /// One app.
    package struct App: Codable, Hashable, Sendable {
        /// Reasons that are counted apart.
        private static let mostReasons = 64

        /// The app's name in the settings.
        package var app: String
        /// `production` or `sandbox`.
        package var environment: String
        /// Rows taken from the queue and not given back: the sum of the six below.
        package var claimed = 0
        /// Accepted by APNs.
        package var sent = 0
        /// Not sent, by reason.
        package var skipped: [String: Int] = [:]
        /// Answered with 410.
        package var gone = 0
        /// Refused for good, by APNs' reason.
        package var rejected: [String: Int] = [:]
        /// To be sent again later.
        package var retry = 0
        /// On the wire without an answer, not to be sent again.
        package var unknown = 0
        /// Rows that were given back to the queue; not part of `claimed`.
        package var returned = 0
        /// Rows left by senders that are gone: waiting again, to be sent again, closed as unknown.
        package var reclaimed = 0
        /// Rows deleted by somebody while their notification was under way.
        package var missing = 0
        /// What the 410 answers did.
        package var evidence = EvidenceCounts()
        /// Seconds of the thread that serves the queue, by what it did: claiming rows, handing them
        /// over, waiting for answers, keeping evidence, writing results.
        package var seconds: [String: Double] = [:]
        /// Why it stopped early, in one sentence.
        package var detail: String?

        /// Opens the entry of an app.
        package init(_ partition: Partition) {
            app = partition.app
            environment = partition.environment
        }

        /// Counts one row.
        mutating func count(_ outcome: DeliveryResult.Outcome) {
            switch outcome {
            case .sent: sent += 1
            case .gone: gone += 1
            case .failed(let reason):
                // Unknown reasons are a peer's words, and a service runs for weeks.
                let isKnown = rejected[reason] != nil || rejected.count < Self.mostReasons
                rejected[isKnown ? reason : "other", default: 0] += 1
            case .retry: retry += 1
            case .unknown: unknown += 1
            case .skipped(let reason): return count(skipped: 1, reason)
            case .returned:
                returned += 1
                return
            }
            claimed += 1
        }

        /// Counts rows that were claimed and not to be sent.
        mutating func count(skipped rows: Int, _ reason: SkipReason) {
            skipped[reason.rawValue, default: 0] += rows
            claimed += rows
        }

        /// Counts what became of a feed of answers.
        mutating func count(_ feed: FeedReport) { evidence.add(feed.counts) }
    }

    /// The run.
    package let run: String
    /// Whether nothing was claimed: the counts say what would happen.
    package let dryRun: Bool
    /// When it began, RFC 3339.
    package let started: String
    /// When it ended.
    package var ended = ""
    /// App by app, in the order of the settings.
    package var apps: [App] = []
    /// What went wrong.
    package var problems: [RunProblem] = []
    /// The exit code.
    package var exit: Int32 = 0

    /// Opens the report.
    package init(run: String, dryRun: Bool, started: EpochMilliseconds) {
        self.run = run
        self.dryRun = dryRun
        self.started = started.rfc3339
    }

    /// For people.
    package var lines: [String] {
        var lines: [String] = []
        for app in apps {
            let would = dryRun ? "would send" : "sent"
            var parts = ["\(app.app)/\(app.environment): \(would) \(app.sent)"]
            parts += app.skipped.sorted { $0.key < $1.key }.map {
                "skipped \($0.value) (\($0.key))"
            }
            if app.gone > 0 { parts.append("gone \(app.gone)") }
            parts += app.rejected.sorted { $0.key < $1.key }
                .map { "rejected \($0.value) (\($0.key))" }
            for (word, count) in [
                ("to retry", app.retry), ("of unknown outcome", app.unknown),
                ("given back", app.returned), ("taken over", app.reclaimed),
            ] where count > 0 {
                parts.append("\(count) \(word)")
            }
            lines.append(parts.joined(separator: ", "))
            let evidence = app.evidence
            if evidence.tuples > 0 {
                lines.append(
                    "  of \(evidence.tuples.counting("token")) called dead: \(evidence.applied) invalidated, "
                        + "\(evidence.already) already, \(evidence.newer) registered since, "
                        + "\(evidence.unknown) unknown"
                        + (evidence.held > 0
                            ? ", \(evidence.held) held: pushsweep holds list" : ""))
            }
        }
        if lines.isEmpty { lines.append("nothing to send") }
        return lines
    }

    /// A sender is never done; rows may be due again at any time.
    package static var lastStage: String { "send" }

    /// Rows of the queue that wait, and what came of 410 answers.
    package var closingCounts: ClosingCounts {
        apps.reduce(into: ClosingCounts()) { counts, app in
            counts.pending += app.retry + app.returned
            counts.applied += app.evidence.applied
            counts.held += app.evidence.held
        }
    }
}
