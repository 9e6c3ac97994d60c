import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import TokenHygiene
import TokenTable

// The part of a sweep that takes reports in: a file, and the rows of other senders.

extension Sweep {
    /// Takes a file and judges what it says. The bytes of a gateway's list go into a file first.
    mutating func takeFile(
        _ file: SweepPlan.GivenFile, _ opened: OpenedJournal, _ intake: ReportIntake,
        _ pouring: Pouring
    ) throws {
        guard let source = opened.given else { return }
        if let layout = file.layout {
            if !plan.isTrial { try intake.store.require(.change, on: [.intake]) }
            let (batches, report) = try taken(file, layout, source, intake)
            if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
            outcome.report.add(report)
            if report.unknownReasons != nil { outcome.note(.quarantined) }
            if report.holds { outcome.note(.held) }
            if report.known == nil, report.quarantined > 0 { outcome.note(.quarantined) }
            for batch in batches { try judge(batch, intake.evidence, resumed: false) }
            return
        }
        let list = try copy(source, about: file.partition ?? .noApp, pouring)
        if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
        do {
            try pour(pouring.folder.list(list), pouring, resumed: false)
        } catch is CancellationError {}
        let entry = outcome.report.apps.last { $0.batch == list }
        if !plan.dryRun, entry?.state == ListState.pending.rawValue {
            context.log.warning(
                """
                the bytes of \(source.name) are kept as list \(list); pushsweep replay --batch \(list) or the \
                next sweep continues it, and a replay of the same bytes would make a second list
                """)
        }
    }

    /// Takes a file, or notes how a pipe can be read that was refused.
    private func taken(
        _ file: SweepPlan.GivenFile, _ layout: ReportLayout, _ source: GivenSource,
        _ intake: ReportIntake
    ) throws -> (batches: [HeardBatch], report: IntakeReport) {
        do {
            return try intake.take(file, layout, source)
        } catch let refused as RefusedFile {
            pipe.noteRefused(refused.layout)
            if let note = refused.note { context.log.warning("\(note)") }
            throw refused.failure
        }
    }

    /// Takes the reports of other senders and applies them. A missing right concerns the reports alone.
    mutating func takeReports(
        _ intake: ReportIntake
    ) throws(CancellationError) {
        do {
            if plan.dryRun {
                guard try intake.intake.visibility() == .readable else { return }
                return try previewReports(intake)
            }
            guard try intake.intake.decides() else { return }
            try intake.store.requireIntake()
            var (limit, last, left) = (intake.intake.mostRows, Int64?.none, LeftRows())
            let terms = try intake.terms()
            while !context.interrupt.isTripped,
                let taken = try intake.takeRows(terms, after: last, atMost: &limit)
            {
                if taken.counts.reports > 0 { outcome.report.add(IntakeReport(taken.counts)) }
                if taken.counts.quarantined > 0 { outcome.note(.quarantined) }
                for (batch, evidence) in taken.batches {
                    try judge(
                        HeardBatch(batch, .listed(evidence)), intake.evidence, resumed: false)
                }
                last = taken.last
                left += taken.left
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
    private func noteLeft(_ left: LeftRows) {
        let rows = left.count
        guard rows > 0 else { return }
        context.log.warning(
            """
            \(rows.counting("row")) of pushsweep_evidence \(rows == 1 ? "names an app" : "name apps") that these \
            settings do not (\(left.names)); a day after \(rows == 1 ? "it" : "they") came, what no other host has taken goes to \
            quarantine: name the app under apps, or correct the sender
            """)
    }

    /// Judges the waiting reports and takes none.
    private mutating func previewReports(_ intake: ReportIntake) throws {
        guard let preview = try intake.previewRows() else { return }
        noteLeft(preview.left)
        if preview.report.reports > 0 { outcome.report.add(preview.report) }
        if preview.report.quarantined > 0 { outcome.note(.quarantined) }
        var evidence = intake.evidence
        evidence.isTrial = true
        do throws(CancellationError) {
            for batch in preview.batches { try judge(batch, evidence, resumed: false) }
        } catch {}
    }
}
