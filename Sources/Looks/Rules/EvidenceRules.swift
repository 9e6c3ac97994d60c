import APNsProtocol
import Findings
import Operations
import TokenHygiene
import TokenTable

extension RuleBook {
    /// Holds, sweeps, and what waits.
    static let evidence: [Rule] = [
        .each(
            "open-hold", .evidence, in: [.check, .audit, .preflight],
            needs: \.batches, judge: openHold),
        .one(
            "no-recent-sweep", .evidence, in: [.check, .audit, .preflight.atMost(.medium)],
            needs: \.sweeps, judge: noRecentSweep),
        .one(
            "stop-file", .evidence, in: [.check, .audit, .preflight],
            needs: \.stop, judge: stopFile),
        .one("first-look", .evidence, in: [.audit], needs: \.firstLook, judge: firstLook),
        .one(
            "no-recent-import", .evidence, in: [.check, .audit, .preflight],
            needs: \.runs, judge: noRecentImport),
        .one(
            "no-recent-send", .evidence, in: [.check, .audit, .preflight],
            needs: \.runs, judge: noRecentSend),
        .one("sweep-gap", .evidence, in: [.audit], needs: \.sweeps?.longestGap, judge: sweepGap),
        .each(
            "waiting-evidence", .evidence, in: [.check, .audit, .preflight],
            needs: \.host, judge: waitingEvidence),
        .app("sweep-would-hold", .evidence, in: [.audit], judge: sweepWouldHold),
        .app("removals-due", .evidence, in: [.audit], judge: removalsDue),
        .one(
            "quarantined-evidence", .evidence, in: [.check, .audit, .preflight.atMost(.low)],
            needs: \.batches, judge: quarantinedEvidence),
        .examined("stored-in-part", .evidence, in: [.check]),
        .each(
            "unbalanced-batch", .evidence, in: [.audit],
            needs: \.unbalanced, judge: unbalancedBatch),
        .each(
            "unreadable-state", .evidence, in: [.preflight],
            needs: \.host, judge: unreadableState),
        .each("not-examined", .evidence, in: [.audit], needs: \.gaps, judge: notExamined),
    ]

    private static func openHold(_ batches: BatchFacts, _ facts: Facts) -> [Finding] {
        if let unseen = batches.unseen {
            return [
                Finding(
                    .high, "holds", "whether a removal waits for a decision is not known",
                    cause: "\(unseen)",
                    cure: "give the account its rights: pushsweep check --grants")
            ]
        }
        let open = batches.holds.filter { hold in
            facts.look != .preflight || facts.apps.contains { $0.partition == hold.partition }
        }
        guard !open.isEmpty else { return [Finding(.ok, "holds", "nothing waits for a decision")] }
        return open.map { hold in
            let known = facts.report?.holds.first { $0.hold == hold.id }
            let effect = known?.candidates.map {
                ": \($0) of \(known?.living ?? 0) living rows would become invalid now"
            }
            var finding = Finding(
                .high, "\(hold.partition)",
                "a removal of \(hold.reports.counting("report")) waits for a decision since "
                    + hold.since.rfc3339 + (effect ?? ""),
                cause: known?.judgement ?? hold.cause,
                cure: "look at it with: pushsweep holds show \(hold.id); then release or "
                    + "discard it")
            // A decision to live with one hold is none about the next.
            finding.names = ["hold \(hold.id)"]
            finding.exit = ExitStatus.held.rawValue
            return finding
        }
    }

    private static func stopFile(
        _ stop: (file: String, since: EpochMilliseconds), _: Facts
    ) -> Finding? {
        Finding(
            .medium, stop.file,
            "it stops sweeps and whatever else changes rows, since \(stop.since.rfc3339)",
            cure: "remove it when the reason is over")
    }

    private static func firstLook(_ table: String, _ facts: Facts) -> Finding? {
        let tokens = facts.report?.apps.map(\.tokens) ?? []
        let living = tokens.reduce(0) { $0 + $1.living }
        let stale = tokens.reduce(0) { $0 + $1.stale }
        if stale > living {
            return Finding(
                .high, table,
                "\(stale) of \(living + stale) rows are dead by these settings: living and dead "
                    + "may be exchanged",
                cause: "a sweep would take the others for living, and send nothing to these",
                cure: "look at rows of devices that you know, then correct --mark")
        }
        return Finding(
            .low, table,
            "this is a first look at the table alone: how healthy it is shows once Pushsweep has "
                + "its tables and hears what APNs says",
            cure: "answer the questions in the settings that pushsweep init prints, and go on "
                + "with its commands")
    }

    // MARK: What waits

    private static func waitingEvidence(_ host: HostFacts, _ facts: Facts) -> [Finding] {
        let refused = facts.refusals.map {
            Finding(
                .medium, facts.subject, "what waits could not be applied", cause: "\($0)",
                cure: "wait for the other run or run again; --read-only looks without applying")
        }
        switch facts.look {
        // An examination names each batch, and an audit has judged them.
        case .check: return refused
        case .audit: return refused + (facts.report?.apps ?? []).compactMap(waitingReports)
        case .preflight: return refused + (facts.unapplied(host).map { [$0] } ?? [])
        }
    }

    private static func waitingReports(_ app: AuditedApp) -> Finding? {
        let reports = app.forecast.waiting
        guard app.tokens.rows > 0, reports > 0 else { return nil }
        return Finding(
            .medium, app.object,
            "\(reports.counting("report", "waits", "wait")) for the next sweep",
            cure: "run pushsweep sweep")
    }

    private static func sweepWouldHold(_ app: AuditedApp) -> Finding? {
        guard app.tokens.rows > 0, app.forecast.held else { return nil }
        return Finding(
            .medium, app.object, "the guard would hold what waits, or the removals that are due",
            cause: "it is more than the limits under guard permit",
            cure: "look at it after the next sweep with: pushsweep holds list")
    }

    private static func removalsDue(_ app: AuditedApp) -> Finding? {
        let rows = app.forecast.removals
        guard app.tokens.rows > 0, rows > 0 else { return nil }
        return Finding(
            .note, app.object,
            "\(rows.counting("row", "has", "have")) been stale for the time of "
                + "policy.delete-after; the next sweep removes \(rows == 1 ? "it" : "them")")
    }

    // MARK: What cannot be used

    private static func quarantinedEvidence(_ batches: BatchFacts, _ facts: Facts) -> Finding? {
        guard batches.unseen == nil else { return nil }
        guard !batches.quarantined.isEmpty else {
            return Finding(.ok, "quarantine", "nothing is quarantined")
        }
        let count = batches.quarantined.count.counting("batch", "has", "have")
        return Finding(
            .medium, "quarantine", "\(count) parts that could not be used",
            cause: facts.report?.quarantine.reasons.first?.name,
            cure: "look at them with: pushsweep quarantine list")
    }

    private static func unbalancedBatch(_ batches: [UnbalancedBatch], _: Facts) -> [Finding] {
        batches.map {
            Finding(
                .high, "batch \($0.batch)",
                "it has taken in \($0.said.counting("report")) that should be there, and "
                    + "\($0.found) \($0.found == 1 ? "is" : "are")",
                cause: "another program changed pushsweep_report, or a part of a backup was "
                    + "restored",
                cure:
                    "look who may write there; what is missing nobody judges any more, and what is too much goes with "
                    + "the next pushsweep purge")
        }
    }

    private static func unreadableState(_ host: HostFacts, _ facts: Facts) -> [Finding] {
        let unreadable = host.unreadable.map { (Severity.high, "\($0.failure)") }
        return (unreadable + host.damage.map { (.medium, $0) }).map {
            Finding(
                $0, facts.state, $1, cure: "run as the user who sweeps, or: pushsweep check")
        }
    }

    private static func notExamined(_ gaps: [String], _: Facts) -> [Finding] {
        gaps.map {
            Finding(
                .medium, "this audit", "a part could not be examined", cause: $0,
                cure: "pushsweep check names rights and tables that are missing")
        }
    }
}

extension Facts {
    /// What is not applied of the apps; nil where all is.
    fileprivate func unapplied(_ host: HostFacts) -> Finding? {
        let own = Set(apps.map(\.partition))
        let lists = host.journals.flatMap { $0.lists(in: .pending, .reading) }
            .count { own.contains($0.partition) }
        let waiting = own.reduce(0) { $0 + (batches?.waiting(of: $1).count ?? 0) }
        let left = own.reduce(0) { $0 + (host.leftReports[$1] ?? 0) }
        guard lists + waiting + waitingRows + left > 0 else { return nil }
        return Finding(
            .medium, subject,
            "not applied yet: \(lists.counting("list")) of the journals, "
                + "\(waiting.counting("batch")) of reports, "
                + "\(waitingRows.counting("row")) of pushsweep_evidence"
                + (left > 0 ? ", \(left.counting("answer")) that a sender left" : ""),
            cure: "run preflight without --read-only, or a sweep")
    }
}
