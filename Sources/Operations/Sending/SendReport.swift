import APNsProtocol
import FoundationEssentials
import PushQueue
import TokenHygiene

/// The result of a run of the sender, app by app: one JSON object for scripts. Fields may be added,
/// never renamed.
package struct SendReport: RunReport, Codable, Hashable {
    package var kind: String { "send" }

    /// The result of one app.
    package struct App: Codable, Hashable, Sendable {
        /// The most reasons that are counted separately.
        static let mostReasons = 64

        /// The app's name in the settings.
        package var app: String
        /// `production` or `sandbox`.
        package var environment: String
        /// Rows taken from the queue and not given back: the sum of the six below.
        package var claimed = 0
        /// Rows that APNs accepted.
        package var sent = 0
        /// Rows that were not sent, by reason.
        package var skipped: [String: Int] = [:]
        /// Rows answered with 410.
        package var gone = 0
        /// Rows refused for good, by APNs' reason.
        package var rejected: [String: Int] = [:]
        /// Rows to be sent again later.
        package var retry = 0
        /// Rows on the wire without an answer, not to be sent again.
        package var unknown = 0
        /// Rows that were given back to the queue; not part of `claimed`.
        package var returned = 0
        /// Rows left by senders that are gone: waiting again, to be sent again, closed as unknown, or
        /// with the result of an answer that was kept.
        package var reclaimed = 0
        /// Rows that were deleted while their notification was under way.
        package var missing = 0
        /// Rows that counted as sent over the binary interface and that a late error packet proved
        /// dropped, at the least; part of `sent`.
        package var late = 0
        /// Answers of 410 with a time that cannot be true; the time of handing over counted.
        package var impossibleTimes = 0
        /// The evidence of 410 answers, by outcome.
        package var evidence = Counts()
        /// Seconds of the thread that serves the queue, by stage: claiming rows, handing them over,
        /// waiting for answers, storing evidence, writing results.
        package var seconds: [String: Double] = [:]
        /// Why sending stopped early, in one sentence.
        package var detail: String?

        package init(_ partition: Partition) {
            app = partition.app
            environment = partition.environment
        }

        /// Counts one row by its outcome.
        mutating func count(_ outcome: Outcome) {
            let reason = outcome.reason ?? ""
            switch outcome.state {
            case .sent: sent += 1
            case .gone: gone += 1
            case .failed:
                // A peer chooses unknown reasons, and a service runs for weeks, so their number is
                // limited.
                let isKnown = rejected[reason] != nil || rejected.count < Self.mostReasons
                rejected[isKnown ? reason : "other", default: 0] += 1
            case .retry: retry += 1
            case .unknown: unknown += 1
            case .skipped: skipped[reason, default: 0] += 1
            case .pending, .claimed:
                returned += 1
                return
            }
            claimed += 1
        }
    }

    /// The run's name, a random UUID.
    package let run: String
    /// Whether nothing was claimed. The counts are a forecast then.
    package let dryRun: Bool
    /// The start of the run, RFC 3339 in UTC.
    package let started: String
    /// The end of the run, RFC 3339 in UTC.
    package var ended = ""
    /// The apps, in the order of the settings.
    package var apps: [App] = []
    /// The failures of the run, in order.
    package var problems: [RunProblem] = []
    /// The exit code.
    package var exit: Int32 = 0

    package init(run: String, dryRun: Bool, started: EpochMilliseconds) {
        self.run = run
        self.dryRun = dryRun
        self.started = started.rfc3339
    }

    /// The report as text for people.
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
                ("of the sent ones dropped by the gateway", app.late),
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

    /// A sender is never done, because rows may become due at any time.
    package static var lastStage: String { "send" }

    /// Rows of the queue that wait, and tuples of 410 answers by outcome.
    package var hasReadNothing: Bool { apps.isEmpty }
    /// Notifications and their answers.
    package var closingCounts: ClosingCounts {
        apps.reduce(into: ClosingCounts()) { counts, app in
            counts.pending += app.retry + app.returned
            counts.applied += app.evidence.applied
            counts.held += app.evidence.held
        }
    }
}

extension SendReport.App {
    /// Number of rows that were to be sent and have a result.
    var decided: Int { sent + gone + retry + unknown + rejected.values.reduce(0, +) }
}

/// The sender's messages on stderr about rows that other senders have left.
enum SendWords {
    /// The warning about rows of senders that are gone, by their new state: those that were closed or are
    /// sent again; nil when there are none.
    static func warning(_ reclaimed: [DeliveryState: Int]) -> String? {
        if let unknown = reclaimed[.unknown] {
            return
                "\(unknown.counting("notification")) of senders that are gone are of unknown outcome: "
                + meaning
        }
        return reclaimed[.retry].map {
            "\($0.counting("notification")) of senders that are gone are of unknown outcome and are sent "
                + "again under their apns-id, as send.resend-unknown says: some may be delivered twice"
        }
    }

    static let meaning =
        "they were on the wire and no answer is known, so they may have been delivered; their rows "
        + "have the state unknown and are not sent again unless send.resend-unknown is true"
}
