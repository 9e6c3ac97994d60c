import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import TokenHygiene
import TokenTable

// The part of a sweep that takes reports in: a file, and the rows of other senders.

extension Sweep {
    /// Takes a file into the journal and applies it.
    mutating func apply(
        _ file: SweepPlan.GivenFile, _ opened: OpenedJournal, _ intake: JournalIntake,
        _ pouring: Pouring
    ) throws {
        guard let source = opened.given else { return }
        let journal = pouring.journal
        if let layout = file.layout {
            let (feeds, report) = try taken(file, layout, source, intake)
            if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
            outcome.report.add(report)
            if report.unknownReasons != nil { outcome.note(.quarantined) }
            if report.holds { outcome.note(.held) }
            return try settle(feeds, pouring)
        }
        let feed = try copy(source, about: file.partition ?? .noApp, into: journal)
        if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
        do {
            try settle([feed], pouring)
        } catch is CancellationError {}
        let entry = outcome.report.apps.last { $0.feed == feed }
        if !plan.dryRun, entry?.state == FeedState.pending.rawValue {
            context.log.warning(
                """
                the bytes of \(source.name) are kept as feed \(feed); pushsweep replay --feed \(feed) or the \
                next sweep continues it, and a replay of the same bytes would make a second feed
                """)
        }
    }

    /// Takes a file, or notes how a pipe can be read that was refused.
    func taken(
        _ file: SweepPlan.GivenFile, _ layout: ReportLayout, _ source: GivenSource,
        _ intake: JournalIntake
    ) throws -> (feeds: [String], report: IntakeReport) {
        do {
            return try intake.take(file, layout, source)
        } catch let refused as RefusedFile {
            pipe.noteRefused(refused.layout)
            if let note = refused.note { context.log.warning("\(note)") }
            throw refused.failure
        }
    }

    /// Pours and judges feeds that this run has taken.
    mutating func settle(_ feeds: [String], _ pouring: Pouring) throws {
        for feed in feeds {
            try settle(pouring.journal.feed(feed), pouring, resumed: false)
        }
    }

    /// Decides what an earlier run left open between journal and table; false where that failed, so
    /// that no more may be taken. The rest of the run does not depend on it.
    mutating func settleIntakes(_ intake: JournalIntake) -> Bool {
        guard !plan.dryRun else { return true }
        do {
            if let counts = try intake.settleOpenIntakes() {
                outcome.report.add(IntakeReport(counts))
            }
            return true
        } catch {
            outcome.fail(.wrapping(error, at: .store))
            return false
        }
    }

    /// Takes the reports of other senders and applies them. A missing right concerns the reports alone.
    mutating func takeReports(
        _ opened: OpenedJournal, _ intake: JournalIntake
    ) throws(CancellationError) {
        do {
            guard try intake.intake.visibility() == .readable else { return }
            if plan.dryRun { return try previewReports(opened, intake) }
            var (limit, last, left) = (intake.intake.mostRows, Int64?.none, 0)
            while !context.interrupt.isTripped,
                let taken = try intake.takeRows(after: last, atMost: &limit)
            {
                if taken.counts.reports > 0 { outcome.report.add(IntakeReport(taken.counts)) }
                if taken.counts.quarantined > 0 { outcome.note(.quarantined) }
                for (batch, evidence) in taken.batches {
                    try settle(
                        HeardBatch(batch, .listed(evidence)), intake.evidence, resumed: false)
                }
                (last, left) = (taken.last, left + taken.left)
            }
            noteLeft(left)
            try intake.mendNumbers()
        } catch let end as CancellationError {
            throw end
        } catch {
            let failure = RunFailure.wrapping(error, at: .store)
            outcome.fail(failure)
            // A row that another session locks is no reason to leave a gateway unread.
            guard [.permission, .configuration, .pending].contains(failure.exit) else {
                throw CancellationError()
            }
        }
    }

    /// Tells of rows that another host has to take.
    private func noteLeft(_ rows: Int) {
        guard rows > 0 else { return }
        context.log.warning(
            """
            \(rows.counting("row")) of pushsweep_evidence \(rows == 1 ? "names an app" : "name apps") that these \
            settings do not; a day after \(rows == 1 ? "it" : "they") came, what no other host has taken goes to \
            quarantine: name the app under apps, or correct the sender
            """)
    }

    /// Judges the waiting reports in a journal of their own, and takes none.
    mutating func previewReports(
        _ opened: OpenedJournal, _ intake: JournalIntake
    ) throws {
        let trial = try TrialFolder(in: opened.folder)
        var evidence = intake.evidence
        evidence.isTrial = true
        let journal = try EvidenceJournal(in: trial.folder)
        let judge = JournalIntake(journal: journal, evidence: evidence)
        guard let preview = try judge.previewRows() else { return }
        noteLeft(preview.left)
        if preview.report.reports > 0 { outcome.report.add(preview.report) }
        do {
            try settle(
                preview.feeds, Pouring(journal: journal, isSenders: false, evidence: evidence))
        } catch is CancellationError {}
        withExtendedLifetime(trial) {}
    }
}
