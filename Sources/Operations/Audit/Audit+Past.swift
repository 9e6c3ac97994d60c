// An audit of a time in the past. It has the counts of the token table as they were, and the history
// up to then: evidence by day, runs, decisions about holds. Everything else is known of the present
// only, so it is left out, and a note says so: the queue, open holds, certificates and keys, the
// quarantine, what a sweep would do, what needs sorting.

import APNsProtocol
import Database
import TokenHygiene
import TokenTable

extension Audit {
    /// Refuses a time of which the past is not known.
    ///
    /// - Throws: exit 64 for a time in the future, or one before the ledger; failures of reading.
    func ensureKnown(
        _ time: EpochMilliseconds, _ now: EpochMilliseconds, _ store: TokenTable
    ) throws {
        let doing = "auditing as of \(time.rfc3339)"
        guard time <= now else {
            throw RunFailure(
                .usage, .settings,
                "\(doing): it is in the future, the database has \(now.rfc3339); name an earlier time"
            )
        }
        if let until = wish.until, until > time {
            throw RunFailure(
                .usage, .settings,
                "\(doing): the history would end later, at \(until.rfc3339); leave out --until, or "
                    + "name an earlier time in it")
        }
        try store.preflightFollowing()
        guard try EvidenceHistory(store).isReadable() else {
            throw RunFailure(
                .permission, .store,
                "\(doing): the account may not read pushsweep_feed and pushsweep_run; grant SELECT "
                    + "on them")
        }
        let reach = try store.ledgerReach(now: now)
        guard reach.includes(time) else {
            let earliest = reach.earliest?.rfc3339 ?? now.rfc3339
            throw RunFailure(
                .usage, .settings,
                "\(doing): changes of that time are no longer in the ledger, because a purge dropped "
                    + "them or an older version made them; the earliest time is \(earliest); "
                    + "policy.keep-ledger sets how long changes are kept")
        }
    }

    /// Counts the token table as it was at a time.
    mutating func countPast(
        _ store: TokenTable, _ stored: [Partition], at time: EpochMilliseconds
    ) throws {
        let audit = try PastAudit(store, stored, at: time)
        guard
            let past = try audit.tallies(
                shouldStop: { context.interrupt.isTripped },
                report: { context.progress.show("auditing the past (rows)", $0, of: nil) })
        else { throw stopped() }
        context.progress.clear()
        for (place, partition) in stored.enumerated() {
            let tally = past.tallies[partition] ?? RowTally()
            report.apps[place].enter(tally)
            report.apps[place].tokens.overwritten = tally.count(.overwritten)
            noteOverwritten(tally.count(.overwritten), place)
        }
        noteOthers(past.others)
        if !audit.knowsRegistrations { noteUnknownRegistrations() }
        note(past.doubts)
        report.findings.append(
            AuditFinding(
                "present-left-out", .note, "this audit",
                "the queue, open holds, credentials, quarantine and the forecast of a sweep are left out",
                cause: "they are known of the present only",
                cure: "run the audit without --as-of for them"))
    }

    private mutating func noteOverwritten(_ count: Int, _ place: Int) {
        guard count > 0 else { return }
        let app = report.apps[place]
        report.findings.append(
            AuditFinding(
                "overwritten-since", .note, "\(app.app)/\(app.environment)",
                "\(count.counting("row")) registered later or got a mark that no run made; what they "
                    + "were then is unknown, and no other figure counts them",
                cause:
                    "a registration overwrites what the row was; a row that was new cannot be told "
                    + "from one that registered again"))
    }

    private mutating func noteUnknownRegistrations() {
        report.findings.append(
            AuditFinding(
                "registrations-unknown", .note, report.table,
                "the table has no time of registration, so rows that were added or registered since "
                    + "count as what they are now",
                cure: "let the application write the time; see docs/tables.md"))
    }

    private mutating func note(_ doubts: PastDoubts) {
        if doubts.gone > 0 {
            report.findings.append(
                AuditFinding(
                    "gone-since", .note, report.table,
                    "\(doubts.gone.counting("row")) that a run changed later are no longer in the "
                        + "table; no figure counts them",
                    cause:
                        "the application removed them; rows that it removed and no run had changed "
                        + "leave no trace at all"))
        }
        if doubts.foreign > 0 {
            report.gaps.append(
                "the past: \(doubts.foreign.counting("change")) of the ledger belong to columns or "
                    + "a key that the settings name no more; their rows count as they are now")
        }
        if doubts.unreadable > 0 {
            report.gaps.append(
                "the past: \(doubts.unreadable.counting("entry")) of the ledger cannot be read; their "
                    + "rows count as they are now")
        }
        if doubts.during > 0 {
            report.gaps.append(
                "the past: \(doubts.during.counting("transaction")) changed rows while this audit "
                    + "counted, so figures may be off by their rows; run it again")
        }
    }
}
