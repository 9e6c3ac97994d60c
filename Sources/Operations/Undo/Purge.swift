// Drops what is older than the retention: the change ledger, which serves undo and audit, the markers
// of applied feeds and the records of runs; these two not before the guard has no more use for them. It
// is a command of its own and no part of the sweep, so that the account that sweeps every hour need not
// have the right to delete its own tracks; and a ledger that nobody purges costs disk, nothing else.

import APNsProtocol
import Database
import EvidenceJournal
import Foundation
import Settings
import TokenHygiene
import TokenTable

/// What a purge did: one JSON object for scripts. Fields may be added, never renamed.
package struct PurgeReport: PrintedLines, Codable, Hashable, Sendable {
    /// Whether nothing was to be changed.
    package var dryRun: Bool
    /// RFC 3339, UTC: what began before it is dropped.
    package var before: String
    /// Records of runs dropped; in a dry run, that would be.
    package var runs = 0
    /// Entries of the change ledger dropped.
    package var changes = 0
    /// Markers of applied feeds dropped.
    package var feeds = 0
    /// What the run ends with.
    package var exit: Int32 = 0

    /// The report for people.
    package var lines: [String] {
        [
            "purge: \(dryRun ? "would drop" : "dropped") \(changes.counting("change")) of the ledger, "
                + "\(feeds.counting("feed marker")) and \(runs.counting("run record")) from before "
                + before
        ]
    }
}

/// Drops what is old.
package struct Purge {
    /// Drops what runs left that began longer ago than the settings say.
    ///
    /// - Throws: what kept the purge from its end; what is dropped stays dropped.
    package static func run(
        _ settings: Settings, dryRun: Bool, _ context: RunContext
    ) throws(RunFailure) -> PurgeReport {
        let kept = settings.policy.keepLedger.wholeMilliseconds
        let month = TokenTable.guardDays * 86_400_000
        var report = PurgeReport(
            dryRun: dryRun, before: context.now().advanced(by: -kept).rfc3339)
        defer { context.progress.clear() }
        do {
            let folder = try StateFolder(settings.state)
            let store = try TokenTable(
                StoreSettings(settings), pacing: StorePacing(settings).began("purge", context))
            try store.preflight(.purge(isDry: dryRun))
            // A host whose clock is ahead must not drop what the others need.
            let now = try store.session.databaseTime()
            let cutoff = now.advanced(by: -kept)
            let records = min(cutoff, now.advanced(by: -month))
            report.before = cutoff.rfc3339
            let progress = try store.purge(
                before: cutoff, records: records, isDry: dryRun,
                shouldStop: { context.interrupt.isTripped }
            ) { context.progress.show("purging (ledger entries)", $0.changes, of: nil) }
            report.runs = progress.runs
            report.changes = progress.changes
            report.feeds = progress.feeds
            guard progress.isDone else {
                throw RunFailure(
                    .pending, .apply,
                    "purging: stopped after \(progress.changes) ledger entries; run again to continue"
                )
            }
            if !dryRun {
                // What lies on this host was written by its clock.
                let records = context.now().advanced(by: -max(kept, month))
                try purgeJournals(of: folder, in: settings.state, records, context)
            }
            withExtendedLifetime(folder) {}
        } catch {
            throw .wrapping(error, at: .store)
        }
        return report
    }

    /// The journal of the sweeps, and those of senders that are not running; who runs comes another day.
    private static func purgeJournals(
        of own: StateFolder, in state: String, _ records: EpochMilliseconds, _ context: RunContext
    ) throws(JournalFailure) {
        let (senders, problems) = SenderFolders.abandoned(in: state)
        for folder in [own] + senders {
            let journal = try EvidenceJournal(in: folder)
            try journal.purge(at: context.now())
            try journal.forgetRuns(before: records)
        }
        if let problem = problems.first { throw problem }
    }
}
