import APNsProtocol
import EvidenceJournal
import FoundationEssentials
import TokenHygiene
import TokenTable

/// The result of a sweep or a replay, batch by batch: one JSON object for scripts. Fields may be added,
/// never renamed.
package struct SweepReport: RunReport, Codable, Hashable {
    /// The run's name, a random UUID.
    package var run: String
    /// `sweep`, `replay`, `import` or `release`.
    package var kind: String
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// The start of the run, RFC 3339 in UTC.
    package var started: String
    /// The end of the run, RFC 3339 in UTC.
    package var ended = ""
    /// One entry per batch.
    package var apps: [BatchReport] = []
    /// Tuples of batches that wait for the next sweep and are not among `apps`, of a run about single batches: after
    /// a release those outside of its digest; absent where there are none.
    package var waiting: Int?
    /// The reason for a release, in the words of the person who decided; absent without one.
    package var reason: String?
    /// The reports of other senders that the run took; absent where there were none.
    package var intake: IntakeReport?
    /// The failures of the run, in order.
    package var problems: [RunProblem] = []
    package var exit: Int32 = 0

    /// What a dry run did not see, because its account may not; absent where it saw all, and for other runs.
    package var gaps: [String]?
    /// True in a dry run that would remove rows, or mark rows of a table that may refuse it: whether the table
    /// takes each change, and each removed row back, was not tried; absent otherwise.
    package var untried: Bool?

    /// Makes the report of a run that begins.
    package init(run: String, kind: String, dryRun: Bool, started: EpochMilliseconds) {
        self.run = run
        self.kind = kind
        self.dryRun = dryRun
        self.started = started.rfc3339
    }

    /// Adds more reports of other senders.
    mutating func add(_ reports: IntakeReport) {
        guard var sum = intake else { return intake = reports }
        sum += reports
        intake = sum
    }

    /// The guard's result for the run's record: `passed`, `held` with the partitions and gates, or
    /// `released`; at most 255 characters.
    var guardResult: String {
        if kind == "release" { return "released" }
        let held = apps.compactMap { batch in
            batch.gate.map { "\(batch.partition) \($0)" }
        }
        return GuardLog.summary(Set(held).sorted())
    }

    package var hasReadNothing: Bool { apps.isEmpty && intake == nil }
    package var closingCounts: ClosingCounts {
        apps.reduce(into: ClosingCounts(pending: waiting ?? 0)) { counts, batch in
            if batch.state == ListState.pending.rawValue { counts.pending += batch.tuples }
            if !dryRun { counts.applied += batch.applied }
            counts.held += batch.held
        }
    }
}

extension SweepReport {
    /// The report for people: one block per batch, and one closing sentence.
    package var lines: [String] {
        var lines = apps.flatMap { $0.lines(dryRun: dryRun) }
        if let intake {
            lines.append(
                intake.known == true ? intake.knownWords : intake.line)
            if intake.known != true, intake.quarantined > 0, !dryRun {
                lines.append("why they cannot be used: pushsweep quarantine list")
            }
        }
        lines += (gaps ?? []).map { "not seen: \($0)" }
        lines.append(closing)
        return lines
    }

    private var closing: String {
        let reports = apps.filter { $0.grace == nil }
        let sum = reports.reduce(into: Counts()) { $0 += $1.counts }
        let gone = apps.filter { $0.grace == true && $0.cause == nil }.reduce(0) { $0 + $1.applied }
        if apps.isEmpty {
            return "\(kind): " + (problems.isEmpty ? "no new evidence" : "no evidence was applied")
        }
        let verb = dryRun ? "would become invalid" : "became invalid"
        let noun = reports.allSatisfy { $0.bytes == 0 } ? "report" : "tuple"
        let spared = reports.reduce(0) { $0 + ($1.spared ?? 0) }
        let stopped = reports.filter(\.wouldBeHeld).reduce(0) {
            $0 + $1.applied
        }
        return "\(kind): \(sum.tuples.counting(noun)), \(sum.applied - stopped) \(verb), "
            + (stopped > 0 ? "\(stopped) would be held, " : "")
            + "\(sum.newer - spared) kept because they registered again"
            + (spared > 0 ? ", \(spared) because a person undid or discarded them" : "")
            + (gone > 0 ? ", \(gone) \(dryRun ? "would go" : "gone") after the grace period" : "")
            + (dryRun ? "; no row was changed" : "")
            + (untried == true
                ? ", and it was not tried whether the table takes each change, and each removed row back"
                : "")
    }
}

extension BatchReport {
    /// Whether its end says something: reports that no gateway sent have none.
    private var isRead: Bool {
        asked && (bytes > 0 || tuples == 0 || end != ListEnd.clean.rawValue)
    }

    /// Whether the guard would stop it, in a dry run.
    fileprivate var wouldBeHeld: Bool { cause != nil }

    fileprivate func lines(dryRun: Bool) -> [String] {
        let parts = [
            isRead ? end : asked ? nil : "not asked", resumed ? "left by an earlier run" : nil,
            state,
        ].compactMap { $0 }
        if grace == true { return graceLines(dryRun) }
        var lines = [
            "\(partition) from \(source)"
                + (parts.isEmpty ? "" : ": " + parts.joined(separator: ", "))
        ]
        if tuples > 0 || bytes > 0 {
            let read = bytes > 0 ? "\(bytes.counting("byte")), \(tuples.counting("tuple"))" : nil
            lines.append(
                "  \(read ?? tuples.counting("report")): "
                    + "\(applied) \(dryRun ? "would be " : "")applied"
                    + (wouldBeHeld && applied > 0 ? " if a person released it, " : ", ")
                    + "\(already) already invalid, \(newer - (spared ?? 0)) registered again, "
                    + (spared.map { "\($0) refused by a person, " } ?? "")
                    + "\(unknown) unknown, \(held) held, "
                    + "\(quarantined) quarantined"
                    + (refused > 0 ? ", \(refused) refused" : ""))
        } else {
            lines.append("  0 tuples")
        }
        if quarantinedBytes > 0 {
            lines.append(
                "  quarantined after the last whole tuple: \(quarantinedBytes.counting("byte"))"
            )
        }
        if let detail { lines.append("  \(detail)") }
        return lines + holdLines
    }

    /// The lines of rows whose grace period has ended.
    private func graceLines(_ dryRun: Bool) -> [String] {
        [
            "\(partition), marked for long enough" + (state.map { ": \($0)" } ?? ""),
            "  \(tuples.counting("token")): \(applied) \(dryRun ? "would be removed" : "removed")"
                + (wouldBeHeld && applied > 0 ? " if a person released it" : "")
                + ", \(newer) left, \(held) held"
                + (refused > 0 ? ", \(refused) refused" : ""),
        ] + holdLines
    }

    /// Why it is held, or would be, and what to do.
    private var holdLines: [String] {
        var lines: [String] = []
        if let cause {
            let isHeld = state == ListState.held.rawValue
            lines.append("  \(isHeld ? "held" : "would be held"): \(cause)")
            if isHeld, let batch {
                lines.append("  look at it with: pushsweep holds show \(batch)")
                if firstLook == true {
                    lines.append(
                        "  where it is right, apply it with the digest that show prints: "
                            + "pushsweep holds release DIGEST")
                }
            }
        }
        return lines
    }
}
