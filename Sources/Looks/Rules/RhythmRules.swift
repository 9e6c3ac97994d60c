import Findings
import TokenHygiene
import TokenTable

// What is not as usual: runs that do not come any more, and days whose evidence differs from those before.

extension RuleBook {
    /// Evidence that is not as usual, by app. A sender may go on without evidence, so no gate shuts for it.
    static let rhythm: [Rule] = [
        pulse("evidence-stopped"),
        pulse("evidence-fits-no-row"),
        pulse("evidence-of-returned"),
        pulse("evidence-surge"),
        pulse("bad-tokens-rise"),
        .each(
            "suspect-tokens", .evidence, in: [.audit, .preflight],
            needs: \.suspects, judge: suspectTokens),
        .each(
            "wrong-environment", .evidence, in: [.check, .audit, .preflight],
            needs: \.misplaced, judge: wrongEnvironment),
    ]

    /// A rule of `Pulse` about each app that is looked at.
    private static func pulse(_ name: String) -> Rule {
        .each(
            name, .evidence, in: [.check, .audit, .preflight.atMost(.medium)],
            needs: \.pulse, judge: { unusual(name, $0, $1) })
    }

    private static func unusual(_ rule: String, _ pulse: PulseLook, _ facts: Facts) -> [Finding] {
        pulse.found.filter { found in
            found.finding.rule == rule && facts.apps.contains { $0.partition == found.app }
        }.map {
            Finding(
                $0.finding.severity, "\($0.app)", $0.finding.sentence,
                cause: $0.finding.cause, cure: $0.finding.cure)
        }
    }

    private static func suspectTokens(_ suspects: [SuspectShare], _: Facts) -> [Finding] {
        suspects.compactMap(\.finding)
    }

    private static func wrongEnvironment(
        _ misplaced: [MisplacedShare], _ facts: Facts
    ) -> [Finding] {
        facts.apps.compactMap { app in
            misplaced.first { $0.partition == app.storedPartition }?
                .finding(of: "\(app.partition)")
        }
    }

    // MARK: Runs

    static func noRecentSweep(_ sweeps: SweepFacts, _ facts: Facts) -> Finding? {
        guard let last = sweeps.last, let hours = sweeps.hours else {
            return noKnownSweep(sweeps, facts)
        }
        guard hours > sweeps.mostHours else {
            return Finding(
                .ok, facts.subject, "the last good sweep was \(hours.spanOfHours) ago")
        }
        let isHeld = facts.batches?.holds.isEmpty == false
        return Finding(
            .high, facts.subject,
            "the last sweep that succeeded ended at \(last.rfc3339), \(hours.spanOfHours) ago",
            cause: isHeld
                ? "a removal waits for a decision, so each run ends with 3"
                : "the hourly job does not run, or each run fails",
            cure: isHeld
                ? "decide about it: pushsweep holds list"
                : "see the output of the cron job or service, and run pushsweep check")
    }

    private static func noKnownSweep(_ sweeps: SweepFacts, _ facts: Facts) -> Finding? {
        let future = sweeps.successes.max()
        // Before the first sweep a check has nothing to tell.
        if facts.look == .check, future == nil, !sweeps.isBegun { return nil }
        return Finding(
            .medium, facts.subject,
            future.map {
                "the only sweep known to have succeeded ended at \($0.rfc3339), which is in the "
                    + "future, so a clock was or is wrong and it counts as none"
            } ?? "neither this host nor the database knows a sweep that succeeded",
            cause: "dead tokens stay until a sweep applies what is known about them",
            cure: "run a sweep, or check that its timer runs")
    }

    static func sweepGap(_ gap: Double, _ facts: Facts) -> Finding? {
        guard facts.sweeps?.last != nil, gap > SweepFacts.usualHours else { return nil }
        return Finding(
            .low, "this host",
            "the longest time between two sweeps of the period was \(gap.spanOfHours)",
            cure: "see why the job paused: host down, timer off, another host's turn")
    }

    static func noRecentImport(_ runs: RunRhythm, _: Facts) -> Finding? { missing("import", runs) }

    static func noRecentSend(_ runs: RunRhythm, _: Facts) -> Finding? { missing("send", runs) }

    /// What is said of runs of a kind that this host makes no more.
    private static func missing(_ kind: String, _ runs: RunRhythm) -> Finding? {
        guard let missing = runs.missing[kind] else { return nil }
        let before =
            missing.usual > 0
            ? "it never paused longer than \(missing.usual.counting("day"))"
            : "there was one each day"
        return Finding(
            .medium, "this host",
            "no \(kind) for \(missing.days.counting("whole day")), where \(before)",
            cause: "a job that was dropped fails nowhere",
            cure: "start the job again, unless another host has it now")
    }
}

extension Facts {
    /// The app of a gate; for a look at all apps their sweeps.
    var subject: String {
        look == .preflight ? apps.map { "\($0.partition)" }.joined(separator: ", ") : "sweeps"
    }
}
