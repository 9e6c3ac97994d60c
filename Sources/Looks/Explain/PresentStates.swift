// What is true now: whether a sender would send to the token, and what the next sweep would do. The
// sender's rule is that of `TokenStatusLookup`: a token in several rows may be sent to if one of them
// is living.

import APNsProtocol
import Database
import Operations
import Settings
import TokenHygiene
import TokenTable

extension TokenStory {
    /// The whole story, with the batches that are open.
    func told(_ facts: BatchFacts) -> ExplainedToken {
        let holds = Dictionary(
            facts.holds.filter { $0.gate != nil }.map { ($0.partition, $0.id) },
            uniquingKeysWith: { first, _ in first })
        let isBlind = facts.unseen != nil
        var told = ExplainedToken(
            token: frame.wholeTokens ? token.hex : token.redacted, bytes: token.count,
            events: events)
        let apps = frame.settings.apps
        let concerned = apps.filter { app in
            told.events.contains {
                $0.app == app.name && $0.environment == app.environment.rawValue
            }
        }
        told.apps = (concerned.isEmpty ? apps : concerned).map { state(of: $0, holds, isBlind) }
        told.known = !told.events.isEmpty
        guard told.known else {
            told.now =
                "no table, ledger entry, report or queue that could be read has this token; a sender "
                + "would not send to it"
            told.next = "nothing to do for it"
            return told
        }
        told.now =
            told.apps.isEmpty
            ? "the settings name no app, so nobody would send to it"
            : (frame.history.marksStandBeside
                ? "a sender that reads pushsweep_invalid " : "a sender ")
                + told.apps.map { app in
                    "would \(app.sends ? "" : "not ")send to it for \(app.app)/\(app.environment), "
                        + "because \(app.because)"
                }.joined(separator: "; and ")
        told.next = told.apps.map { "\($0.app)/\($0.environment): \($0.next)" }
            .joined(separator: "; and ")
        return told
    }

    private func state(
        of app: Settings.App, _ holds: [Partition: String], _ isBlind: Bool
    ) -> PresentState {
        let rows = rows(of: app.partition)
        let living = rows.first { !$0.judged.isStale }
        let because: String
        if let living {
            because = why(living: living)
        } else if let stale = rows.first {
            because = why(stale: stale) + (rows.count > 1 ? ", as are its other rows" : "")
        } else {
            because =
                "no row of \(frame.history.tableName) has it for this app and environment"
                + (otherApps(than: app.partition).map { ", only for \($0)" } ?? "")
        }
        let expiry = expiry(rows)
        return PresentState(
            app: app.name, environment: app.environment.rawValue,
            state: rows.isEmpty ? "unknown" : living != nil ? "living" : "stale",
            rows: rows.count, sends: living != nil, because: because,
            next: next(app.partition, holds[app.partition], expiry, isBlind),
            due: expiry?.due?.rfc3339, hold: holds[app.partition])
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
        _ app: Partition, _ hold: String?, _ expiry: RowExpiry?, _ isBlind: Bool
    ) -> String {
        let open = open.filter { $0.app == app }
        var parts = open.map(\.words)
        if let hold {
            let words =
                "change nothing by that evidence, because hold \(hold) of this app waits for a decision"
                + (heldApps.contains(app) ? ", which has evidence about the token" : "")
            parts = [words] + parts.map { "after the decision, \($0)" }
        }
        if let expiry { parts.append(expiry.words) }
        if isBlind {
            parts.append("what reports hold about it is not known")
        }
        guard !parts.isEmpty else {
            return "change nothing: no evidence about it waits"
        }
        let isDue = expiry?.due.map { $0 <= frame.now } ?? false
        let isGuarded = hold == nil && open.contains(where: \.changes) || isDue
        return parts.joined(separator: "; ") + (isGuarded ? ", unless the guard holds it" : "")
    }

    /// What `policy.delete-after` does to a row, and when; nil: never.
    private typealias RowExpiry = (words: String, due: EpochMilliseconds?)

    /// What `policy.delete-after` does to the rows. The period begins at the mark, and again at each
    /// change that this program made, an undo too (see `GracePeriod`).
    private func expiry(_ rows: [TokenRow]) -> RowExpiry? {
        let policy = frame.settings.policy
        guard policy.action == .delete, let period = policy.deletesAfter else { return nil }
        for row in rows where row.judgedByEvidence.isStale {
            guard let mark = row.judgedByEvidence.invalidatedAt else { continue }
            if let spared, spared.spares(mark, heard: .unknown) {
                return ("keep \(name(row)), because \(spared.words)", nil)
            }
            let due = end(of: period, mark, row)
            guard policy.isDue(row.judgedByEvidence, at: max(due, frame.now)) else {
                return (
                    "never delete \(name(row)), because it is not sure that it registered before its "
                        + "mark", nil
                )
            }
            return due <= frame.now
                ? ("delete \(name(row)), whose period of policy.delete-after is over", due)
                : ("keep \(name(row)) until \(due.rfc3339), and delete it then", due)
        }
        return nil
    }

    /// The end of the period for a row. As the sweep does, it looks for changes by the row's key
    /// alone, or, where the table has no marks, also for changes of the token's mark beside it,
    /// whatever their app. A change keeps the row from the time at which its evidence is as old as
    /// the period, because younger evidence keeps a row by its mark alone (see `RecentChanges`).
    private func end(
        of period: Int64, _ mark: EpochMilliseconds, _ row: TokenRow
    ) -> EpochMilliseconds {
        let keeping = changes.compactMap { change -> Range<EpochMilliseconds>? in
            guard change.refusal == nil, change.action != "delete",
                change.origin?.source != EvidenceSource.grace.rawValue,
                change.isBeside
                    ? row.mark == nil
                    : change.key == row.key || change.tellsMarkBeside && row.mark == nil
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
        let next = free(from: max(due, frame.now))
        return next > frame.now ? next : due
    }
}
