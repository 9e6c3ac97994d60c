// Deletes records older than the retention period: the change ledger, which serves undo and audit,
// the checkpoints of applied batches, and the records of runs. The guard reads the last two, so they stay
// at least as long as it needs them. Purge is a command of its own and not a part of the sweep, so
// that the account of the hourly sweep does not need the right to delete its own traces. A ledger
// that is never purged only costs disk space.

import APNsProtocol
import Database
import EvidenceJournal
import Glibc
import Settings
import TokenHygiene
import TokenTable

/// The result of a purge: one JSON object for scripts. Fields may be added, never renamed.
package struct PurgeReport: RunReport, Codable, Hashable {
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// Records that began before this time are deleted; RFC 3339 in UTC.
    package var before: String
    /// Number of deleted records of runs; in a dry run, of those that would be.
    package var runs = 0
    /// Number of deleted entries of the change ledger.
    package var changes = 0
    /// Number of deleted checkpoints of applied batches.
    package var batches = 0
    package var ended = ""
    package var problems: [RunProblem] = []
    package var exit: Int32 = 0

    /// A purge has no record, and so no name.
    package var run: String { "" }
    package var kind: String { "purge" }
    package var closingCounts: ClosingCounts { ClosingCounts() }

    package var lines: [String] {
        [
            "purge: \(dryRun ? "would drop" : "dropped") \(changes.counting("change")) of the ledger, "
                + "\(batches.counting("batch")) and \(runs.counting("run record")) from before "
                + before
        ]
    }
}

/// Drops old records of the database and of the state folder.
package struct Purge {
    /// Deletes the records of runs that began longer ago than the retention period of the settings. Deleted
    /// records stay deleted where it ends early.
    package static func run(
        _ settings: Settings, dryRun: Bool, _ context: RunContext
    ) -> RunOutcome<PurgeReport> {
        var outcome = RunOutcome(
            report: PurgeReport(
                dryRun: dryRun,
                before: context.now().advanced(by: -settings.keepLedger).rfc3339))
        do {
            try purge(settings, &outcome.report, context)
        } catch {
            outcome.fail(.wrapping(error, at: .store))
        }
        context.progress.clear()
        outcome.stamp(at: context.now())
        return outcome
    }

    private static func purge(
        _ settings: Settings, _ report: inout PurgeReport, _ context: RunContext
    ) throws {
        let (kept, dryRun) = (settings.keepLedger, report.dryRun)
        let month = TokenTable.guardDays * 86_400_000
        let folder = try StateFolder(settings.state)
        defer { withExtendedLifetime(folder) {} }
        let store = try TokenTable.open(settings, dryRun: dryRun, for: "purge", context)
        try store.require(.purge(isDry: dryRun))
        // A host whose clock is ahead must not delete records that the others need.
        let now = try store.session.databaseTime()
        let cutoff = now.advanced(by: -kept)
        report.before = cutoff.rfc3339
        let isDone = try store.purge(
            before: cutoff, records: min(cutoff, now.advanced(by: -month)), isDry: dryRun,
            shouldStop: { context.interrupt.isTripped }
        ) { progress in
            context.progress.show("purging (ledger entries)", progress.changes, of: nil)
            (report.runs, report.changes, report.batches) = (
                progress.runs, progress.changes, progress.batches
            )
        }.isDone
        guard isDone else {
            throw RunFailure(
                .pending, .apply,
                "purging: stopped after \(report.changes) ledger entries; run again to continue")
        }
        guard !dryRun else { return }
        // This host's clock wrote the times in its own journals.
        let records = context.now().advanced(by: -max(kept, month))
        try purgeJournals(of: folder, in: settings.state, records, context)
    }

    /// Purges the journal of the sweeps and those of senders that are not running. A running sender's
    /// journal is left for a later purge.
    private static func purgeJournals(
        of own: StateFolder, in state: String, _ records: EpochMilliseconds, _ context: RunContext
    ) throws(JournalFailure) {
        let (senders, problems) = SenderFolders.abandoned(in: state)
        for folder in [own] + senders {
            let journal = try EvidenceJournal(in: folder)
            try folder.purgeLists(at: context.now())
            try journal.forgetRuns(before: records)
        }
        if let problem = problems.first { throw problem }
    }
}
