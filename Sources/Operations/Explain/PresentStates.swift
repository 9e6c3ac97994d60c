// What is true now: whether a sender would send to the token, and what the next sweep would do. The
// sender's rule is that of `TokenStatusLookup`: a token in several rows may be sent to if one of them
// is living.

import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// A row of `pushsweep_evidence` that waits, as the next sweep will read it.
struct WaitingReport {
    var rule: ExplainedEvent.Rule
    var words: String
    /// Since when it calls the token dead; nil for a report that is no evidence.
    var time: EpochMilliseconds?
    /// When the row was inserted.
    var arrived: EpochMilliseconds?
    /// APNs' reason, as the sender reported it.
    var reason: String?
    /// Whether it would change a row.
    var changes = false

    init(_ row: EvidenceRow, _ facts: TokenFacts) {
        guard facts.apps.contains(where: { $0.name == row.partition }) else {
            rule = .noApp
            words =
                "the settings name no app \(ReportIntake.short(row.partition.app)) in environment "
                + "\(ReportIntake.short(row.partition.environment)), so it will be quarantined"
            arrived = (try? row.report.get())?.receivedAt
            return
        }
        do throws(UnusableReport) {
            let report = try row.report.get()
            (arrived, reason) = (report.receivedAt, report.reason)
            switch try facts.reader.read(report) {
            case .nothing: (rule, words) = (.nothing, "its answer says nothing about the token")
            case .suspect:
                (rule, words) = (.suspect, "it calls the token bad, which never removes a row")
            case .evidence(_, _, let time):
                let judgement = facts.judgement(dead: time, row.partition)
                self.time = time
                (rule, changes) = (judgement.rule, judgement.changes)
                words = "judged now: \(judgement.words)"
            }
        } catch {
            (rule, words) = (.quarantined, "it will be quarantined: \(error)")
        }
    }
}

/// Makes the present states of one token.
struct PresentStates {
    let facts: TokenFacts

    /// The states of the apps that have to do with the token; of all where none has.
    func states() -> [PresentState] {
        let concerned = facts.apps.filter(isConcerned)
        return (concerned.isEmpty ? facts.apps : concerned).map { state(of: $0) }
    }

    private func isConcerned(_ app: ExplainedApp) -> Bool {
        facts.rows.contains { $0.partition == app.stored }
            || facts.marks.contains { $0.partition == app.stored }
            || facts.changes.contains { $0.origin?.partition == app.stored }
            || facts.queue.contains { $0.partition == app.stored }
            || facts.evidence.contains { $0.feed.partition == app.name }
            || facts.waiting.contains { $0.partition == app.name }
    }

    private func state(of app: ExplainedApp) -> PresentState {
        let rows = facts.rows(of: app.name)
        let living = rows.first { !$0.judged.isStale }
        let because: String
        if let living {
            because = why(living: living)
        } else if let stale = rows.first {
            because = why(stale: stale) + (rows.count > 1 ? ", as are its other rows" : "")
        } else {
            let others = facts.otherApps(than: app.name)
            because =
                "no row of \(facts.table) has it for this app and environment"
                + (others.map { ", only for \($0)" } ?? "")
        }
        return PresentState(
            app: app.name.app, environment: app.name.environment,
            state: rows.isEmpty ? "unknown" : living == nil ? "stale" : "living",
            rows: rows.count, sends: living != nil, because: because,
            next: next(app, rows).words, due: next(app, rows).due?.rfc3339,
            hold: facts.holds[app.name])
    }

    private func name(_ row: TokenRow) -> String {
        "row \(row.key.text(wholeTokens: facts.wholeTokens))"
    }

    private func why(living row: TokenRow) -> String {
        if row.isDead == false { return "the column of \(name(row)) says that it is living" }
        guard let mark = row.judged.invalidatedAt else { return "\(name(row)) has no mark" }
        if row.hasUnreadableRegistration {
            return "the registration of \(name(row)) is no time and counts as later than its mark"
        }
        let registered = row.registeredAt.map { " at \($0.rfc3339)" } ?? ""
        return "\(name(row)) registered\(registered), after its mark of \(mark.rfc3339)"
    }

    private func why(stale row: TokenRow) -> String {
        let mark = row.judged.invalidatedAt.map { " since \($0.rfc3339)" } ?? ""
        if row.isDead == true { return "the column of \(name(row)) says that it is dead\(mark)" }
        guard let registered = row.registeredAt else {
            return "\(name(row)) is marked\(mark), and has no registration time"
        }
        return "\(name(row)) is marked\(mark), and registered no later (\(registered.rfc3339))"
    }

    // MARK: The next sweep

    private func next(
        _ app: ExplainedApp, _ rows: [TokenRow]
    ) -> (words: String, due: EpochMilliseconds?) {
        var parts: [String] = []
        var wouldChange = false
        for item in facts.evidence
        where item.feed.partition == app.name && item.refusal == nil && item.isOpen {
            guard let time = item.time else { continue }
            let judgement = facts.judgement(dead: time, app.name)
            wouldChange = wouldChange || judgement.changes
            parts.append("apply the evidence of \(time.rfc3339): \(judgement.words)")
        }
        for row in facts.waiting where row.partition == app.name {
            let reading = WaitingReport(row, facts)
            wouldChange = wouldChange || reading.changes
            parts.append("take row \(row.id) of pushsweep_evidence: \(reading.words)")
        }
        let hold = facts.holds[app.name]
        if let hold {
            let held = facts.evidence.contains {
                $0.feed.partition == app.name && $0.feed.state == .held
            }
            let words =
                "change nothing by evidence, because hold \(hold) of this app waits for a decision"
                + (held ? ", which has evidence about the token" : "")
            parts = [words] + parts.map { "after the decision, \($0)" }
        }
        let (expiry, due, isDue) = expiry(rows)
        if let expiry { parts.append(expiry) }
        if facts.isBlind {
            parts.append("what the journals of this host hold about it is not known")
        }
        guard !parts.isEmpty else {
            return ("change nothing: no evidence about it waits on this host", due)
        }
        let guarded = (wouldChange && hold == nil || isDue) ? ", unless the guard holds it" : ""
        return (parts.joined(separator: "; ") + guarded, due)
    }

    /// What `policy.delete-after` does to the rows. The period begins at the mark, and again at each
    /// change that this program made, an undo too (see `Expiry`).
    private func expiry(
        _ rows: [TokenRow]
    ) -> (words: String?, due: EpochMilliseconds?, isDue: Bool) {
        guard facts.policy.action == .delete, let period = facts.policy.deletesAfter else {
            return (nil, nil, false)
        }
        for row in rows where row.judgedByEvidence.isStale {
            guard let mark = row.judgedByEvidence.invalidatedAt else { continue }
            let due = end(of: period, mark, row)
            guard facts.policy.isDue(row.judgedByEvidence, at: max(due, facts.now)) else {
                return (
                    "never delete \(name(row)), because it is not sure that it registered before its "
                        + "mark", nil, false
                )
            }
            return due <= facts.now
                ? ("delete \(name(row)), whose period of policy.delete-after is over", due, true)
                : ("keep \(name(row)) until \(due.rfc3339), and delete it then", due, false)
        }
        return (nil, nil, false)
    }

    /// The end of the period for a row. As the sweep does, it looks for changes by the row's key
    /// alone, or, where the table has no marks, also for changes of the token's mark beside it,
    /// whatever their app. A change keeps the row from the time at which its evidence is as old as
    /// the period, because younger evidence keeps a row by its mark alone (see `RecentChanges`).
    private func end(
        of period: Int64, _ mark: EpochMilliseconds, _ row: TokenRow
    ) -> EpochMilliseconds {
        let keeping = facts.changes.compactMap { change -> Range<EpochMilliseconds>? in
            guard change.refusal == nil, change.action != "delete",
                change.origin?.source != "delete-after",
                change.isBeside ? row.mark == nil : change.key == row.key
            else { return nil }
            let isGivenBack = ["insert", "restore", "side-restore"].contains(change.action)
            let end = change.changed.advanced(by: period)
            let start =
                isGivenBack ? EpochMilliseconds(.min) : change.evidence.advanced(by: period)
            return min(start, end)..<end
        }
        func free(from time: EpochMilliseconds) -> EpochMilliseconds {
            var time = time
            while let end = keeping.lazy.filter({ $0.contains(time) }).map(\.upperBound).max() {
                time = end
            }
            return time
        }
        let due = free(from: mark.advanced(by: period))
        let next = free(from: max(due, facts.now))
        return next > facts.now ? next : due
    }
}

extension JournalEvidence {
    /// Whether the next sweep judges it.
    fileprivate var isOpen: Bool { [.reading, .taking, .pending].contains(feed.state) }
}

extension ExplainedToken {
    /// What is said about a token.
    init(_ facts: TokenFacts) {
        let token = facts.token
        self.init(facts.wholeTokens ? token.hex : token.redacted, bytes: token.count)
        events = ExplainedEvents.events(facts)
        known = !events.isEmpty
        apps = PresentStates(facts: facts).states()
        guard known else {
            now =
                "no table, ledger entry, journal or queue that could be read has this token; a sender "
                + "would not send to it"
            next = "nothing to do for it"
            return
        }
        now =
            apps.isEmpty
            ? "the settings name no app, so nobody would send to it"
            : "a sender "
                + apps.map { app in
                    "would \(app.sends ? "" : "not ")send to it for \(app.app)/\(app.environment), "
                        + "because \(app.because)"
                }.joined(separator: "; and ")
        next = apps.map { "\($0.app)/\($0.environment): \($0.next)" }.joined(separator: "; and ")
    }
}
