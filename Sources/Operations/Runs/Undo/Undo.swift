// Undoes the changes of runs. An undo holds the lock of the state folder like every run that changes
// rows, so it never meets a sweep half-way. Senders continue, and an undo leaves their newer changes
// alone.
//
// After an undo the batches stay applied, and no later sweep reads them again. So an undone change
// stays undone until new evidence comes. The gateway or APNs reports a token again if it is really
// dead.

import APNsProtocol
import Database
import EvidenceJournal
import FoundationEssentials
import Glibc
import Settings
import TokenHygiene
import TokenTable

/// One run that undoes changes.
package struct Undo: RecordedRun {
    private let settings: Settings
    private let wish: UndoScope
    private let dryRun: Bool
    let metrics: (any JournalPage)?
    let context: RunContext
    var outcome: RunOutcome<UndoReport>

    /// Undoes the requested changes. `page` is written again at the end.
    package static func run(
        _ settings: Settings, _ wish: UndoScope, dryRun: Bool, _ page: (any JournalPage)?,
        _ context: RunContext
    ) -> RunOutcome<UndoReport> {
        let report = UndoReport(
            run: UUIDText.random(), dryRun: dryRun, started: context.now().rfc3339)
        var undo = Undo(
            settings: settings, wish: wish, dryRun: dryRun, metrics: page, context: context,
            outcome: RunOutcome(report: report))
        return undo.perform()
    }

    var stage: RunFailure.Stage { .apply }

    func openJournal() throws -> OpenedJournal {
        let folder = try StateFolder(settings.state)
        return OpenedJournal(folder: folder, journal: try EvidenceJournal(in: folder))
    }

    mutating func work(_ opened: OpenedJournal) throws {
        let store = try RunFailure.at(.store) {
            let store = try TokenTable.open(settings, dryRun: dryRun, for: "undo", context)
            // Our tables have to exist before their records are read.
            try store.require(.undo(actions: [], isDry: true))
            return store
        }
        let selection = try selection(in: store)
        // What an undo that goes on leaves out is compared with the times of changes, which are the database's.
        var record = RunRecord(
            id: outcome.report.run, kind: "undo", started: try store.session.databaseTime(),
            host: context.host, operator: context.operator)
        if !dryRun, let begun = try store.unfinishedUndo(of: selection) {
            record = begun
            outcome.report.run = begun.id
            outcome.report.resumed = true
        }
        // The clocks of hosts differ, so only an undo that goes on leaves out what began after it.
        let plan = try store.planUndo(
            selection, until: outcome.report.resumed ? record.started : EpochMilliseconds(.max),
            excluding: record.id)
        outcome.report.runs = plan.changedRuns
        if case .token(let token) = wish, plan.entries == 0 {
            context.log.warning(
                """
                the ledger has no change of token \(token), which has \
                \(token.count.counting("byte")); a token is given whole
                """)
        }
        _ = try RunFailure.at(.store) {
            try store.require(.undo(actions: plan.actions, isDry: dryRun))
        }
        guard !dryRun else { return try undo(plan, as: record, in: store, nil) }
        try store.underLease(run: record.id, kind: "undo", in: opened.folder, context) { lease in
            try FolderBinding(opened, store, context).bind(adopting: false)
            try undo(plan, as: record, in: store, lease)
        }
    }

    private mutating func undo(
        _ plan: UndoPlan, as record: RunRecord, in store: TokenTable, _ lease: Lease?
    ) throws {
        let context = context
        defer { context.progress.clear() }
        let progress = try store.undo(
            plan, as: record, isDry: dryRun, lease: lease, now: context.now,
            shouldStop: { context.interrupt.isTripped }
        ) { progress in
            // The report is updated after each step, so that it is right for a run that ends early.
            outcome.report.enter(progress)
            context.progress.show("taking back (changes)", progress.entries, of: plan.changes)
        }
        outcome.report.enter(progress)
        guard progress.isDone else {
            throw RunFailure(
                .pending, .apply,
                "taking back changes: stopped after \(progress.entries) of \(plan.changes); what is "
                    + "taken back stays so, run the same command again to continue")
        }
    }

    /// The changes to undo, with the beginning of a run's name resolved to one run.
    private func selection(in store: TokenTable) throws -> UndoScope {
        guard case .run(let name) = wish else { return wish }
        guard let beginning = NameBeginning(name) else {
            throw RunFailure(
                .usage, .settings,
                "looking for run \(SettingText.quoted(name)): \(NameBeginning.refusal); see "
                    + "`pushsweep undo --list`")
        }
        let known = try store.runs().filter { beginning.begins($0.id) }
        if let run = known.first, known.count == 1 { return .run(run.id) }
        throw RunFailure(
            .usage, .settings,
            "looking for run \(name.prefix(64)): "
                + (known.isEmpty
                    ? "the database has no record of it; see `pushsweep undo --list`"
                    : "\(known.count) runs begin like this; give more of its name"))
    }

    /// The runs that changed rows, newest first, for a person to choose from.
    package static func list(_ settings: Settings) throws -> [UndoableRun] {
        try settings.reading { store in
            try store.require(.undo(actions: [], isDry: true))
            let runs = try store.runs()
            return try runs.compactMap { run in
                let changes = try store.changes(of: run.id)
                guard changes > 0 else { return nil }
                return UndoableRun(
                    run: run.id, kind: run.kind, started: run.started.rfc3339, host: run.host,
                    changes: changes,
                    beginning: NameBeginning.shortest(of: run.id, among: runs.map(\.id)))
            }
        }
    }
}

/// A run that changed rows, as `undo --list` prints it.
package struct UndoableRun: PrintedLines, Codable, Hashable, Sendable {
    package let run: String
    /// The kind of run, such as `sweep`, `send` or `undo`.
    package let kind: String
    /// The start of the run, RFC 3339 in UTC.
    package let started: String
    /// The name of the host that ran it.
    package let host: String
    /// Number of its changes in the ledger, each device once.
    package let changes: Int
    /// As many characters of the name as tell it from the others, at least eight. Not in JSON.
    var beginning = ""

    private enum CodingKeys: CodingKey { case run, kind, started, host, changes }

    package var lines: [String] {
        ["\(beginning)  \(started)  \(kind) on \(host): \(changes.counting("change"))"]
    }
}

/// The result of an undo: one JSON object for scripts. Fields may be added, never renamed.
package struct UndoReport: RunReport, Codable, Hashable {
    /// The run's name, a UUID. A continued undo has the name of its first attempt.
    package var run: String
    package var kind = "undo"
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// The start of the run, RFC 3339 in UTC.
    package var started: String
    /// The end of the run, RFC 3339 in UTC.
    package var ended = ""
    /// Whether the run continued an undo that was interrupted.
    package var resumed = false
    /// The runs whose changes were examined, newest first.
    package var runs: [String] = []
    /// Examined changes of the ledger, each device once: the sum of the next four.
    package var entries = 0
    /// Changes that were undone; in a dry run, those that would be.
    package var restored = 0
    /// In a dry run: changes that would be tried, because only that shows whether the table takes the row.
    package var untried = 0
    /// Changes whose row had its earlier state already.
    package var already = 0
    /// Changes that were not undone, by reason.
    package var kept: [String: Int] = [:]
    /// Number of changed rows, each with the time beside it once.
    package var rowsChanged = 0
    /// Number of removed rows that were inserted again.
    package var inserted = 0
    /// Number of rows removed again, by the undo of an undo.
    package var removed = 0
    /// The failures of the run, in order.
    package var problems: [RunProblem] = []
    package var exit: Int32 = 0

    mutating func enter(_ progress: UndoProgress) {
        entries = progress.entries
        restored = progress.restored
        untried = progress.untried ?? 0
        already = progress.already
        kept = progress.kept
        rowsChanged = progress.devicesChanged
        inserted = progress.inserted
        removed = progress.removed
    }

    package var lines: [String] {
        guard entries > 0 else {
            return [
                "undo: "
                    + (exit == 0
                        ? "there is nothing to take back"
                        : "nothing \(resumed ? "more " : "")was taken back")
            ]
        }
        let would = dryRun ? "would be " : ""
        var outcomes: [String] = []
        if restored > 0 || untried == 0 { outcomes.append("\(restored) \(would)taken back") }
        if untried > 0 { outcomes.append("\(untried) would be tried") }
        outcomes.append("\(already) back already")
        var lines = [
            "undo \(run)\(resumed ? ", continued" : ""): \(entries.counting("change")) by "
                + "\(runs.count.counting("run")), " + outcomes.joined(separator: ", ")
        ]
        lines.append(
            "  \(rowsChanged.counting("row")) \(would)changed, \(inserted) of them inserted again, \(removed) "
                + "removed again")
        if untried > 0 {
            lines.append(
                "  \(untried) not tried: nothing in the rows is against it, but whether the table takes them "
                    + "back shows only when it is done")
        }
        for obstacle in UndoObstacle.allCases {
            guard let count = kept[obstacle.rawValue], count > 0 else { continue }
            lines.append("  \(count) left as they are: \(obstacle.words)")
        }
        if dryRun { lines.append("  no row was changed") }
        return lines
    }

    /// The counts of ledger entries.
    package var closingCounts: ClosingCounts { ClosingCounts(applied: dryRun ? 0 : restored) }
}
