import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import Operations

/// The result of `preflight`: one JSON object for scripts. Fields may be added, never renamed.
package struct PreflightReport: PrintedLines, Encodable, Hashable, Sendable {
    /// What a probe's answer was and what it proves.
    package struct Probe: Encodable, Hashable, Sendable {
        /// The status of the answer; nil without one.
        package var status: Int?
        /// The reason in the answer, or why there was none.
        package var reason: String?
        /// What the answer proves: `credential`, `topic`. Never the environment.
        package var proves: [String] = []
    }

    /// Evidence that was applied before the look.
    package struct Applied: Encodable, Hashable, Sendable {
        /// The run of the application, as in the journal.
        package let run: String
        /// Batches, and blocks of other senders' reports, that were applied.
        package let batches: Int
        /// Tuples that made a row invalid.
        package let applied: Int
    }

    /// The name of the app in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// `queue`, `tokens` or `none`.
    package let subject: String
    /// Whether nothing was applied before.
    package let readOnly: Bool
    /// When the look began, RFC 3339.
    package let started: String
    /// When it ended.
    package var ended = ""
    /// The tokens; nil where the send's tokens are not known.
    package var tokens: TokenCounts?
    /// What was applied before; nil under `--read-only`, or where another run was at work.
    package var applied: Applied?
    /// The end of the last sweep that succeeded, RFC 3339; nil where none is known.
    package var lastSweep: String?
    /// Hours from then to now.
    package var hoursSinceSweep: Double?
    /// Milliseconds by which the clock of the database is ahead of this host's.
    package var clockDifference: Int64?
    /// The end of the certificate, RFC 3339; nil without one that can be read.
    package var certificateExpires: String?
    /// The answer to a probe; nil without one.
    package var probe: Probe?
    /// The findings, worst first.
    package var findings: [Finding] = []
    /// The severity that shuts the gate; `never` where none does.
    package let failOn: String
    /// `open` or `shut`.
    package var gate = "open"
    package var exit: Int32 = 0

    /// The findings that shut the gate, worst first.
    var shutting: [Finding] {
        guard let least = Severity(rawValue: failOn) else { return [] }
        return findings.filter { $0.ignored == nil && $0.severity >= least }
    }

    /// The decision with the number of findings by severity, and the gravest that shuts the gate.
    var headline: String {
        let counts = Severity.allCases.dropFirst().reversed().map { severity in
            let count = findings.count { $0.severity == severity && $0.ignored == nil }
            return "\(count) \(severity.rawValue)"
        }
        let ignored = findings.count { $0.ignored != nil }
        let tally = counts.joined(separator: ", ") + (ignored > 0 ? ", \(ignored) ignored" : "")
        let worst = shutting.max { $0.severity < $1.severity }
        let cause = worst.map { ": \($0.rule): \($0.object): \($0.sentence)" } ?? ""
        return "\(app)/\(environment): the gate is \(gate) (\(tally))\(cause)"
    }

    /// The report as text for people: the decision and its gravest cause first.
    package var lines: [String] {
        [headline]
            + findings.flatMap { finding in
                [
                    "  \(finding.severity.rawValue): \(finding.rule): \(finding.object): "
                        + finding.sentence,
                    "    " + (finding.decision ?? finding.cure),
                ]
            } + facts.map { "  \($0.name): \($0.value)" } + [closing].compactMap { $0 }
    }

    /// The last line: the findings that no person has decided to live with; nil without any.
    private var closing: String? {
        findings.filter { $0.ignored == nil }.closing(
            { $0 == .ok ? nil : $0.rawValue }, spelled: { "\($0) \($1)" })
    }

    /// What was looked at besides the findings, for people.
    var facts: [(name: String, value: String)] {
        var facts: [(String, String?)] = []
        if let tokens {
            let parts = [
                (tokens.stale, "stale"), (tokens.unknown, "unknown"),
                (tokens.otherEnvironment, "of the other environment"),
                (tokens.malformed, "malformed"), (tokens.duplicate, "duplicate"),
                (tokens.suspect, "called bad"),
            ].filter { $0.0 > 0 }.map { ", \($0.0) \($0.1)" }.joined()
            facts.append(
                (
                    subject == "tokens" ? "tokens of the list" : "tokens of the \(subject)",
                    "\(tokens.read) read, \(tokens.living) living\(parts)"
                ))
        }
        facts += [
            (
                "applied before",
                applied.map {
                    "\($0.batches.counting("batch")), \($0.applied.counting("token")) became invalid"
                }
            ),
            ("last good sweep", lastSweep), ("certificate ends", certificateExpires),
            ("clock of the database ahead by", clockDifference.map { "\($0) ms" }),
            (
                "probe",
                probe.map { probe in
                    let answer = [probe.status.map(String.init), probe.reason].compactMap { $0 }
                    return answer.joined(separator: " ")
                        + (probe.proves.isEmpty
                            ? ", proves nothing"
                            : ", proves \(probe.proves.joined(separator: " and "))")
                }
            ),
        ]
        return facts.compactMap { name, value in value.map { (name, $0) } }
    }
}

extension PreflightReport {
    /// Judges the facts and decides. `applied` is the report of the run that applied what waited.
    init(
        _ plan: PreflightPlan, _ facts: Facts, _ applied: SweepReport?, started: EpochMilliseconds
    ) {
        self.init(
            app: plan.app.name, environment: plan.app.environment.rawValue,
            subject: plan.subject.word, readOnly: plan.readOnly, started: started.rfc3339,
            failOn: plan.failOn?.rawValue ?? "never")
        tokens = facts.send?.tokens
        self.applied = applied.map { report in
            Applied(
                run: report.run,
                batches: report.apps.count { $0.state == ListState.applied.rawValue },
                applied: report.apps.reduce(0) { $0 + $1.applied })
        }
        lastSweep = facts.sweeps?.last?.rfc3339
        hoursSinceSweep = facts.sweeps?.hours.map { ($0 * 100).rounded() / 100 }
        clockDifference = facts.clock?.ahead
        certificateExpires = facts.credentials.compactMap(\.identity).first?.ends.rfc3339
        probe = facts.gateways.compactMap(\.probe).first.map(Probe.init)
        // What is well has no line in a gate.
        let found = RuleBook.findings(facts, ignoring: plan.ignore).filter { $0.severity != .ok }
        findings = found.map(\.shown).sorted { one, two in
            if (one.ignored == nil) != (two.ignored == nil) { return one.ignored == nil }
            if one.severity != two.severity { return one.severity > two.severity }
            return (one.rule, one.object) < (two.rule, two.object)
        }
        gate = shutting.isEmpty ? "open" : "shut"
        exit = (shutting.isEmpty ? ExitStatus.done : .shut).rawValue
    }
}

extension PreflightReport.Probe {
    fileprivate init(_ answer: Result<ProviderAnswer, Refusal>) {
        switch answer {
        case .failure(let missing): reason = missing.description
        case .success(let answer):
            (status, reason) = (answer.status, answer.body.reason?.description)
            switch answer.meaning {
            case .suspectToken where answer.body.reason == .badDeviceToken:
                proves = ["credential", "topic"]
            case .suspectToken, .configurationFault: proves = ["credential"]
            default: break
            }
        }
    }
}

extension Finding {
    /// The decision to live with it, for people; nil where there is none.
    package var decision: String? { ignored.map { "ignored until \($0.until): \($0.reason)" } }
}
