import APNsProtocol
import Operations
import TokenHygiene
import TokenTable

/// What is known of rows under the wrong environment, and what was asked: one JSON object for scripts. Fields may be
/// added, never renamed.
package struct EnvironmentsReport: RunReport, Codable, Hashable {
    /// The run's name, a UUID; empty where nobody was asked.
    package var run = ""
    package var kind = "environments"
    /// Whether the run was a dry run, which asks nobody.
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

    package var closingCounts: ClosingCounts { ClosingCounts() }
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
        /// Whether nine of ten answers from the other environment know the token, so that the values of the settings or the
        /// gateways may be exchanged; absent where they are not.
        package var exchanged: Bool?
        /// The statements that were written for the proven rows; absent where none were wanted or no row is proven.
        package var sql: Statements?
        /// What to do next, in one clause; absent where there is nothing to do.
        package var next: String?
        /// Why the rows were not counted; absent where they were.
        package var gap: String?

        init(_ partition: Partition) {
            (app, environment) = (partition.app, partition.environment)
            elsewhere = partition.elsewhere?.environment ?? ""
        }

        var partition: Partition { Partition(app: app, environment: environment) }

        /// Whether a row is proven to be under the wrong environment.
        var isProven: Bool { accepted + dead > 0 }

        /// How many of the suspects are known in the other environment.
        func share(of pair: EnvironmentPair) -> MisplacedShare {
            MisplacedShare(pair.stored, elsewhere: accepted + dead, neither: neither)
        }

        /// Counts a token.
        mutating func count(_ token: MisplacedToken) {
            bad += 1
            if token.isElsewhereToo { elsewhereToo += 1 }
            switch token.standing {
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

    /// The statements of `--sql` for one app and environment.
    package struct Statements: Codable, Hashable, Sendable {
        /// Rows with a statement, in each of the two files.
        package var rows = 0
        /// Rows left out, because a row of the other environment has their token.
        package var taken = 0
        /// Rows left out, because a value of them stands in no statement; absent for none.
        package var unspellable: Int?
        /// Why there is none for any row; absent where there are some.
        package var refused: String?

        init(refused: String? = nil) { self.refused = refused }
    }

    /// The answers of the other environment.
    package struct Probe: Codable, Hashable, Sendable {
        /// Tokens asked about there: the sum of the next four. In a dry run, those that would be.
        package var asked = 0
        package var accepted = 0
        package var dead = 0
        package var bad = 0
        /// Requests without an answer about the token that is kept.
        package var unanswered = 0
        /// Tokens that were asked about here, to compare the two; absent in a dry run.
        package var controls: Int?
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
        let proven = apps.filter { $0.exchanged != true }.reduce(0) { $0 + $1.accepted + $1.dead }
        let asked = apps.compactMap(\.probe).reduce(0) { $0 + $1.asked }
        let found =
            apps.contains { $0.gap != nil }
            ? "not all was counted"
            : "\(proven.counting("token")) \(proven == 1 ? "is" : "are") proven to be under the wrong one"
        return "environments: " + found
            + (asked > 0
                ? ", \(asked.counting("token")) \(dryRun ? "would be " : "")asked about" : "")
    }
}

extension EnvironmentsReport.App {
    fileprivate func lines(dryRun: Bool) -> [String] {
        let work =
            (probe?.lines(elsewhere, dryRun: dryRun) ?? []) + (sql?.lines(elsewhere) ?? [])
        if let gap { return ["\(partition): not counted: \(gap)"] + work }
        guard bad > 0 || probe != nil else {
            return ["\(partition): APNs calls no token of a living row bad"]
        }
        var lines = [
            "\(partition): APNs calls \(bad.counting("token")) of living rows bad",
            "  accepted in the \(elsewhere): \(accepted), dead there: \(dead)"
                + (exchanged == true ? "" : "; these belong there"),
            "  bad in both: \(neither), not asked there: \(notAsked), known here too: \(knownHere), of another topic: "
                + "\(otherTopic), registered since: \(registeredSince)",
        ]
        if elsewhereToo > 0 {
            lines.append(
                "  \(elsewhereToo.counting("token")) in a row of the \(elsewhere) too, so the row here cannot move"
            )
        }
        return lines + work + (next.map { ["  next: \($0)"] } ?? [])
    }
}

extension EnvironmentsReport.Statements {
    fileprivate func lines(_ elsewhere: String) -> [String] {
        if let refused { return ["  no statement: \(refused)"] }
        let left = [
            taken > 0 ? "\(taken) left out, whose token a row there has" : nil,
            unspellable.map { "\($0) left out, of which a value stands in no statement" },
        ].compactMap { $0 }
        return ["  statements for \(rows.counting("row"))" + left.map { ", \($0)" }.joined()]
    }
}

extension EnvironmentsReport.Probe {
    fileprivate func lines(_ elsewhere: String, dryRun: Bool) -> [String] {
        let what =
            dryRun
            ? "  the \(elsewhere) would be asked about \(asked.counting("token"))"
            : "  the \(elsewhere) was asked about \(asked.counting("token")): accepted \(accepted), dead \(dead), bad "
                + "\(bad), without an answer \(unanswered)"
                + (controls.map { "; \($0) here" } ?? "")
        return [what] + (stopped.map { ["  stopped: \($0)"] } ?? [])
    }
}
