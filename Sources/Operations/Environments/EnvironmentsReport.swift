import APNsProtocol
import TokenHygiene
import TokenTable

/// What is known of rows under the wrong environment, and what was asked and moved: one JSON object for scripts. Fields
/// may be added, never renamed.
package struct EnvironmentsReport: RunReport, Codable, Hashable {
    /// The run's name, a UUID; empty where nothing was asked or moved.
    package var run = ""
    package var kind = "environments"
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// The start of the run, RFC 3339 in UTC.
    package var started: String
    /// The end of the run, RFC 3339 in UTC.
    package var ended = ""
    /// One entry per app and environment of the settings.
    package var apps: [App] = []
    /// Rows of `pushsweep_evidence` that no sweep has taken, of which nothing is known yet; absent for none.
    package var waiting: Int?
    /// The failures of the run, in order.
    package var problems: [RunProblem] = []
    package var exit: Int32 = 0

    package init(dryRun: Bool, started: EpochMilliseconds) {
        (self.dryRun, self.started) = (dryRun, started.rfc3339)
    }

    package var closingCounts: ClosingCounts {
        apps.reduce(into: ClosingCounts()) { counts, app in
            if !dryRun { counts.applied += (app.move?.applied ?? 0) + (app.deaths ?? 0) }
            counts.held += app.move?.held ?? 0
        }
    }
}

extension EnvironmentsReport {
    /// One app and environment.
    package struct App: Codable, Hashable, Sendable {
        /// The app's name in the settings.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// The other one.
        package let elsewhere: String
        /// Tokens of living rows that APNs calls bad: the sum of the next seven.
        package var bad = 0
        /// Those that APNs accepted in the other environment, and those that it called dead there: proofs.
        package var accepted = 0
        package var dead = 0
        /// Those that it calls bad in both.
        package var neither = 0
        /// Those of which nothing is known from there.
        package var notAsked = 0
        /// Those that it knew here too.
        package var knownHere = 0
        /// Those that it knows here, and not for the app's topic.
        package var otherTopic = 0
        /// Those whose devices registered since, so that the row may be right now.
        package var registeredSince = 0
        /// Those that a row of the other environment has too, in any of the seven.
        package var elsewhereToo = 0
        /// The answers to a probe; absent where none was made.
        package var probe: Probe?
        /// The move of the proven rows; absent where none was wanted or none is proven.
        package var move: FeedReport?
        /// Rows of the other environment that were marked or deleted for what a probe had heard, most of which had moved
        /// there; absent where there are none.
        package var deaths: Int?
        /// What to do next, in one clause; absent where there is nothing to do.
        package var next: String?
        /// Why the rows were not counted; absent where they were.
        package var gap: String?

        init(_ partition: Partition) {
            (app, environment) = (partition.app, partition.environment)
            elsewhere = partition.elsewhere?.environment ?? ""
        }

        var partition: Partition { Partition(app: app, environment: environment) }

        /// Counts a token.
        mutating func count(_ token: MisplacedToken) {
            bad += 1
            if token.isElsewhereToo { elsewhereToo += 1 }
            switch token.knowledge {
            case .accepted: accepted += 1
            case .dead: dead += 1
            case .neither: neither += 1
            case .notAsked: notAsked += 1
            case .knownHere: knownHere += 1
            case .otherTopic: otherTopic += 1
            case .registeredSince: registeredSince += 1
            }
        }
    }

    /// The answers of the other environment.
    package struct Probe: Codable, Hashable, Sendable {
        /// Tokens asked about: the sum of the next four. In a dry run, those that would be.
        package var asked = 0
        package var accepted = 0
        package var dead = 0
        package var bad = 0
        /// Requests without an answer about the token.
        package var unanswered = 0
        /// Why asking ended early, in one sentence; absent where it did not.
        package var stopped: String?
    }
}

extension EnvironmentsReport {
    package var lines: [String] {
        guard !apps.isEmpty else { return ["environments: nothing was looked at"] }
        let left = waiting.map {
            "\($0.counting("report")) of other senders \($0 == 1 ? "waits" : "wait") for a sweep; until then nothing is known "
                + "of \($0 == 1 ? "it" : "them"): pushsweep sweep"
        }
        return apps.flatMap { $0.lines(dryRun: dryRun) } + [left].compactMap { $0 } + [closing]
    }

    private var closing: String {
        let proven = apps.reduce(0) { $0 + $1.accepted + $1.dead }
        let moved = apps.compactMap(\.move).filter { $0.cause == nil }.reduce(0) { $0 + $1.applied }
        let asked = apps.compactMap(\.probe).reduce(0) { $0 + $1.asked }
        let would = dryRun ? "would be " : ""
        let done = [
            asked > 0 ? "\(asked.counting("token")) \(would)asked about" : nil,
            apps.contains { $0.move != nil } ? "\(moved.counting("row")) \(would)moved" : nil,
        ].compactMap { $0 }
        let found =
            apps.contains { $0.gap != nil }
            ? "not all was counted"
            : "\(proven.counting("row")) \(proven == 1 ? "is" : "are") proven to be under the wrong one"
        return "environments: " + ([found] + done).joined(separator: ", ")
    }
}

extension EnvironmentsReport.App {
    fileprivate func lines(dryRun: Bool) -> [String] {
        if let gap {
            return ["\(partition): not counted: \(gap)"] + workLines(dryRun: dryRun)
        }
        guard bad > 0 || probe != nil || move != nil || deaths != nil else {
            return ["\(partition): APNs calls no token of a living row bad"]
        }
        var lines = [
            "\(partition): APNs calls the tokens of \(bad.counting("living row")) bad",
            "  accepted in the \(elsewhere): \(accepted), dead there: \(dead); these belong there",
            "  bad in both: \(neither), not asked there: \(notAsked), known here too: \(knownHere), of another topic: "
                + "\(otherTopic), registered since: \(registeredSince)",
        ]
        if elsewhereToo > 0 {
            lines.append(
                "  \(elsewhereToo.counting("token")) in a row of the \(elsewhere) too, so the row here cannot move"
            )
        }
        lines += workLines(dryRun: dryRun)
        if let next { lines.append("  next: \(next)") }
        return lines
    }

    /// What was asked and moved.
    private func workLines(dryRun: Bool) -> [String] {
        var lines = probe.map { $0.lines(elsewhere, dryRun: dryRun) } ?? []
        if let move { lines += move.moveLines(to: elsewhere, dryRun: dryRun) }
        if let deaths {
            lines.append(
                "  \(deaths.counting("row")) of the \(elsewhere) \(deaths == 1 ? "is" : "are") dead, as a probe heard"
            )
        }
        return lines
    }
}

extension EnvironmentsReport.Probe {
    fileprivate func lines(_ elsewhere: String, dryRun: Bool) -> [String] {
        let what =
            dryRun
            ? "  the \(elsewhere) would be asked about \(asked.counting("token"))"
            : "  the \(elsewhere) was asked about \(asked.counting("token")): accepted \(accepted), dead \(dead), bad "
                + "\(bad), without an answer \(unanswered)"
        return [what] + (stopped.map { ["  stopped: \($0)"] } ?? [])
    }
}

extension FeedReport {
    fileprivate func moveLines(to elsewhere: String, dryRun: Bool) -> [String] {
        var lines = [
            "  \(applied.counting("row")) \(dryRun ? "would move" : "moved") to the \(elsewhere); \(newer) registered "
                + "again and stay, \(already) dead here, \(unknown) gone, \(refused) refused, \(held) held"
        ]
        lines += (refusals ?? []).map { "    \($0)" }
        if let detail { lines.append("  \(detail)") }
        if let cause {
            lines.append("  \(dryRun ? "would be held" : "held"): \(cause)")
            if let feed, !dryRun {
                lines.append("  look at it with: pushsweep holds show \(feed)")
            }
        }
        return lines
    }
}
