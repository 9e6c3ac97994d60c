// Deletes records older than the retention period: the change ledger, which serves undo and audit,
// the checkpoints of applied feeds, and the records of runs. The guard reads the last two, so they stay
// at least as long as it needs them. Purge is a command of its own and not a part of the sweep, so
// that the account of the hourly sweep does not need the right to delete its own traces. A ledger
// that is never purged only costs disk space.

import APNsProtocol
import Database
import EvidenceJournal
import Foundation
import Settings
import TokenHygiene
import TokenTable

/// The result of a purge: one JSON object for scripts. Fields may be added, never renamed.
package struct PurgeReport: PrintedLines, Codable, Hashable, Sendable {
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// Records that began before this time are deleted; RFC 3339 in UTC.
    package var before: String
    /// Number of deleted records of runs; in a dry run, of those that would be.
    package var runs = 0
    /// Number of deleted entries of the change ledger.
    package var changes = 0
    /// Number of deleted checkpoints of applied feeds.
    package var feeds = 0
    /// The exit code.
    package var exit: Int32 = 0

    /// The report as text for people.
    package var lines: [String] {
        [
            "purge: \(dryRun ? "would drop" : "dropped") \(changes.counting("change")) of the ledger, "
                + "\(feeds.counting("feed checkpoint")) and \(runs.counting("run record")) from before "
                + before
        ]
    }
}

/// The report of a purge that failed, for the command of `hooks.after-run`.
package struct FailedPurge: Encodable, Sendable {
    private let exit: Int32
    private let problems: [RunProblem]

    /// Makes the report of a failure.
    package init(_ failure: RunFailure) {
        exit = failure.exit.rawValue
        problems = [
            RunProblem(
                stage: failure.stage.rawValue, message: failure.description,
                why: failure.reason?.rawValue)
        ]
    }
}

/// Deletes old records.
package struct Purge {
    /// Deletes the records of runs that began longer ago than the retention period of the settings.
    ///
    /// - Throws: the failure that ended the purge early. Deleted records stay deleted.
    package static func run(
        _ settings: Settings, dryRun: Bool, _ context: RunContext
    ) throws(RunFailure) -> PurgeReport {
        let kept = settings.keepLedger
        let month = TokenTable.guardDays * 86_400_000
        var report = PurgeReport(
            dryRun: dryRun, before: context.now().advanced(by: -kept).rfc3339)
        defer { context.progress.clear() }
        do {
            let folder = try StateFolder(settings.state)
            let store = try TokenTable(
                StoreSettings(settings, for: dryRun ? .decisions : .changes).reportingHosts(
                    to: context),
                pacing: Pacing(settings).began("purge", context))
            try store.preflight(.purge(isDry: dryRun))
            // A host whose clock is ahead must not delete records that the others need.
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
                // This host's clock wrote the times in its own journals.
                let records = context.now().advanced(by: -max(kept, month))
                try purgeJournals(of: folder, in: settings.state, records, context)
            }
            withExtendedLifetime(folder) {}
        } catch {
            throw .wrapping(error, at: .store)
        }
        return report
    }

    /// Purges the journal of the sweeps and those of senders that are not running. A running sender's
    /// journal is left for a later purge.
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
