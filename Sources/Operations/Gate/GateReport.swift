import Encodings
import Foundation

/// The tokens that a send would go to.
package struct GateTokens: Encodable, Hashable, Sendable {
    /// All values that were read. The sum of the next five.
    package var read = 0
    /// Tokens that a row without a mark, or with a later registration, has.
    package var living = 0
    /// Tokens whose rows are all dead.
    package var stale = 0
    /// Tokens that no row of the app has.
    package var unknown = 0
    /// Tokens that only rows of the app's other environment have.
    package var otherEnvironment = 0
    /// Values that are not tokens.
    package var malformed = 0
    /// Tokens that occurred before among the same tokens; each is in one of the counts above too.
    package var duplicate = 0

    /// The share of a count of all that was read, from 0 to 1.
    func share(_ count: Int) -> Double { read > 0 ? Double(count) / Double(read) : 0 }
}

/// The result of `preflight`: one JSON object for scripts. Fields may be added, never renamed.
package struct GateReport: PrintedLines, Encodable, Hashable, Sendable {
    /// What a probe's answer was and what it proves.
    package struct Probe: Encodable, Hashable, Sendable {
        /// The status of the answer; nil without one.
        package internal(set) var status: Int?
        /// The reason in the answer, or why there was none.
        package internal(set) var reason: String?
        /// What the answer proves: `credential`, `topic`. Never the environment.
        package internal(set) var proves: [String] = []
    }

    /// Evidence that was applied before the look.
    package struct Applied: Encodable, Hashable, Sendable {
        /// The run of the application, as in the journal.
        package let run: String
        /// Feeds, and blocks of other senders' reports, that were applied.
        package let feeds: Int
        /// Tuples that made a row invalid.
        package let applied: Int
    }

    /// The name of the app in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// `queue`, `query`, `tokens` or `none`.
    package let subject: String
    /// Whether nothing was applied before.
    package let readOnly: Bool
    /// When the look began, RFC 3339.
    package let started: String
    /// When it ended.
    package internal(set) var ended = ""
    /// The tokens; nil where the send's tokens are not known.
    package internal(set) var tokens: GateTokens?
    /// What was applied before; nil under `--read-only`, or where another run was at work.
    package internal(set) var applied: Applied?
    /// The end of the last sweep that succeeded, RFC 3339; nil where none is known.
    package internal(set) var lastSweep: String?
    /// Hours from then to now.
    package internal(set) var hoursSinceSweep: Double?
    /// Milliseconds by which the clock of the database is ahead of this host's.
    package internal(set) var clockDifference: Int64?
    /// The end of the certificate, RFC 3339; nil without one that can be read.
    package internal(set) var certificateExpires: String?
    /// The answer to a probe; nil without one.
    package internal(set) var probe: Probe?
    /// The findings, worst first.
    package internal(set) var findings: [GateFinding] = []
    /// The severity that shuts the gate; `never` where none does.
    package let failOn: String
    /// `open` or `shut`.
    package internal(set) var gate = "open"
    /// The exit code.
    package internal(set) var exit: Int32 = 0

    /// `app/environment`.
    var partition: String { "\(app)/\(environment)" }

    /// The findings of a severity that nobody decided to live with.
    func count(_ severity: GateSeverity) -> Int {
        findings.count { $0.severity == severity && $0.ignored == nil }
    }

    /// One line with the number of findings by severity.
    var tally: String {
        let counts = GateSeverity.allCases.reversed().map { "\(count($0)) \($0.rawValue)" }
        let ignored = findings.count { $0.ignored != nil }
        return counts.joined(separator: ", ") + (ignored > 0 ? ", \(ignored) ignored" : "")
    }

    /// The findings that shut the gate, worst first.
    var shutting: [GateFinding] {
        guard let least = GateSeverity(rawValue: failOn) else { return [] }
        return findings.filter { $0.ignored == nil && $0.severity >= least }
    }

    /// The decision, and the gravest finding that shuts the gate.
    var headline: String {
        let worst = shutting.max { $0.severity < $1.severity }
        let cause = worst.map { ": \($0.rule.rawValue): \($0.object): \($0.message)" } ?? ""
        return "\(partition): the gate is \(gate) (\(tally))\(cause)"
    }

    /// The report as text for people: the decision and its gravest cause first.
    package var lines: [String] {
        var lines = [headline]
        for finding in findings {
            let mark = finding.ignored.map { "ignored until \($0.until): \($0.reason)" }
            lines.append(
                "  \(finding.severity.rawValue): \(finding.rule.rawValue): \(finding.object): "
                    + finding.message)
            lines.append("    " + (mark ?? finding.cure))
        }
        lines += facts.map { "  \($0.name): \($0.value)" }
        return lines
    }

    /// What was looked at besides the findings, for people.
    var facts: [(name: String, value: String)] {
        var facts: [(String, String)] = []
        if let tokens {
            facts.append(
                (
                    subject == "tokens" ? "tokens of the list" : "tokens of the \(subject)",
                    "\(tokens.read) read, \(tokens.living) living"
                        + [
                            (tokens.stale, "stale"), (tokens.unknown, "unknown"),
                            (tokens.otherEnvironment, "of the other environment"),
                            (tokens.malformed, "malformed"), (tokens.duplicate, "duplicate"),
                        ].filter { $0.0 > 0 }.map { ", \($0.0) \($0.1)" }.joined()
                ))
        }
        if let applied {
            facts.append(
                (
                    "applied before",
                    "\(applied.feeds.counting("feed")), \(applied.applied.counting("token")) became invalid"
                ))
        }
        if let lastSweep { facts.append(("last good sweep", lastSweep)) }
        if let certificateExpires { facts.append(("certificate ends", certificateExpires)) }
        if let clockDifference {
            facts.append(("clock of the database ahead by", "\(clockDifference) ms"))
        }
        if let probe {
            let answer =
                [probe.status.map(String.init), probe.reason].compactMap { $0 }
                .joined(separator: " ")
            facts.append(
                (
                    "probe",
                    answer
                        + (probe.proves.isEmpty
                            ? ", proves nothing"
                            : ", proves \(probe.proves.joined(separator: " and "))")
                ))
        }
        return facts
    }
}
