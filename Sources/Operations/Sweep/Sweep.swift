// The main job. Its order follows from one fact: a gateway forgets its list once read.
//
//   1. take the lock and open the journal: without them nothing may be read
//   2. ask the database whether evidence could be applied; a missing grant or column must be found
//      before a feed is spent on it; take the lease, so that no other host does the same
//   3. apply the feeds that an earlier run left pending, oldest first
//   4. gateway by gateway: read into the journal, then apply from the journal
//   5. remove the rows whose grace period has ended, where the settings name one
//   6. store the run's record
//
// After a failure of one gateway, the run continues with the others. A failure of the database or the
// journal ends the reading: lists that cannot be stored or applied must stay with the gateways.

import APNsProtocol
import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import Foundation
import TokenHygiene
import TokenTable

/// One run of the main job.
package struct Sweep: RecordedRun {
    private var plan: SweepPlan
    let context: RunContext
    let run = UUID().uuidString.lowercased()
    private let started: EpochMilliseconds
    var outcome: RunOutcome<SweepReport>
    /// Whether every gateway and pending feed was processed.
    private var isWhole = false
    private let pipe: PipedInput

    private init(_ plan: SweepPlan, _ context: RunContext) {
        self.plan = plan
        self.context = context
        self.plan.pacing = plan.pacing.began(plan.work.kind, context)
        started = context.now()
        pipe = PipedInput(plan.file?.path)
        outcome = RunOutcome(
            report: SweepReport(
                run: run, kind: plan.work.kind, dryRun: plan.dryRun, started: started))
        outcome.report.reason = plan.reason
        if plan.dryRun && plan.policy.action == .delete { outcome.report.untried = true }
    }

    /// Reads all gateways of the plan and applies their feeds.
    package static func run(_ plan: SweepPlan, _ context: RunContext) -> RunOutcome<SweepReport> {
        var sweep = Sweep(plan, context)
        let outcome = sweep.perform()
        if !plan.isTrial, let kept = sweep.pipe.kept(outcome.exit, isList: plan.file?.layout == nil)
        {
            context.log.warning("\(kept)")
        }
        return outcome
    }

    var stage: RunFailure.Stage { .state }
    var metrics: (any JournalPage)? { plan.metrics }

    func openJournal() throws -> OpenedJournal {
        // A folder that the run may not use is told before anything is read into it.
        if plan.file != nil { try StateFolder.examine(plan.state) }
        let given = try plan.file.flatMap { file in
            try pipe.settle(
                GivenSource(file.path, doing: file.doing, at: .read, context.interrupt),
                in: plan.state, unless: refusalOfPipe)
        }
        let folder = try context.interrupt.whileLocked(until: pipe.deadline) {
            try StateFolder(plan.state)
        }
        let trial = try TrialFolder(for: plan, in: folder)
        let journal = try EvidenceJournal(in: trial?.folder ?? folder)
        return OpenedJournal(folder: folder, journal: journal, trial: trial, given: given)
    }

    /// Why the database would not let this run take what a pipe has, asked before its first byte is read.
    /// The lock is held for a moment only, since a run that meets it ends.
    ///
    /// - Throws: failures of the state folder and the journal.
    private func refusalOfPipe() throws -> RunFailure? {
        let store: TokenTable
        do {
            (store, _) = try openStore()
        } catch {
            return .wrapping(error, at: .store)
        }
        let folder = try StateFolder(plan.state)
        _ = try EvidenceJournal(in: folder)
        guard !plan.dryRun else { return nil }
        do {
            try store.respectLease(in: folder)
        } catch {
            return .wrapping(error, at: .store)
        }
        return nil
    }

    /// Makes the exit code nonzero while evidence waits, whatever prevented its application: a stop
    /// signal, a gateway of another app, an earlier run.
    mutating func noteWaiting(in journal: EvidenceJournal) throws {
        // A mistake in what was typed has changed nothing, so what waits has no part in the answer.
        guard !plan.isTrial, outcome.exit != .usage else { return }
        for name in try journal.folder.keptSpools {
            context.log.warning(
                """
                \(journal.folder.file(name)) has bytes of a pipe that no run has taken; name it to pushsweep replay \
                or import, as the pipe was named, which removes it then, or delete it
                """)
        }
        if context.interrupt.isTripped, outcome.exit == .done, !isWhole {
            outcome.fail(.stopped)
        }
        // What the import of a log brought and is held is noted with its feed. The hold of another source says
        // nothing about the file, and would hide that it was not taken.
        let isImport = plan.file.map { $0.layout != nil } ?? false
        try outcome.noteWaiting(in: journal, isAboutHolds: !isImport)
        // A run over everything that waits has said why it could not go on.
        if plan.gateways == nil, !context.interrupt.isTripped { try nameOthers(in: journal) }
    }

    // The exit code of a run tells also of evidence that the run was not about: a replay whose own feed is
    // applied ends with 75 while an older feed waits in the journal, and with 3 while one is held. A person
    // who looks at the results of the run finds no reason for that code. So the feeds are named, and the
    // tuples of those that wait are counted.

    /// Names and counts the evidence that this run was not about.
    private mutating func nameOthers(in journal: EvidenceJournal) throws {
        let own = Set(outcome.report.apps.compactMap(\.feed))
        func names(_ feeds: [CapturedFeed]) -> String {
            let named = feeds.prefix(3).map { "feed \($0.id) of \($0.partition)" }
            let more = feeds.count > 3 ? ["\(feeds.count - 3) more"] : []
            return (named + more).joined(separator: ", ")
        }
        let pending = try journal.feeds(.pending).filter { !own.contains($0.id) }
        // A release has counted what is outside of its digest.
        if outcome.report.waiting == nil, let first = pending.first {
            // A feed that cannot be read has its message in the run that applies it.
            let tuples = pending.filter { $0.kind != .unusable }
                .reduce(0) { $0 + ((try? journal.counts(of: $1).usable) ?? 0) }
            if tuples > 0 { outcome.report.waiting = tuples }
            context.log.warning(
                """
                other evidence waits in the journal: \(names(pending)); the next sweep takes it up, or \
                pushsweep replay --feed \(first.id)
                """)
        }
        let held = try journal.feeds(.held).filter { !own.contains($0.id) }
        guard !held.isEmpty else { return }
        context.log.warning("other evidence is held: \(names(held)); see pushsweep holds list")
    }

    mutating func work(_ opened: OpenedJournal) throws {
        let journal = opened.journal
        let left = try journal.feeds(.pending)
        let store: TokenTable
        do {
            if let refusal = pipe.refusal { throw refusal }
            let findings: [Finding]
            (store, findings) = try openStore()
            logFindings(findings)
            if plan.dryRun, plan.policy.action == .mark, try store.layout().marksNeedTrial {
                outcome.report.untried = true
            }
        } catch {
            return outcome.fail(storeUnusable(error, pending: left.count))
        }
        guard !plan.dryRun else {
            if case .gateways = plan.work { try store.respectLease(in: journal.folder) }
            return try applyAndExpire(opened, store, nil)
        }
        try store.underLease(
            run: run, kind: plan.work.kind, in: journal.folder, context, until: pipe.deadline
        ) { lease in
            try applyAndExpire(opened, store, lease)
            noteMarksBeside(in: store)
            noteEnd(in: store)
        }
    }

    /// The steps that need the lease. In a dry run there is none.
    private mutating func applyAndExpire(
        _ opened: OpenedJournal, _ store: TokenTable, _ lease: Lease?
    ) throws {
        let journal = opened.journal
        let applier = JournalApplier(
            journal: journal, store: store, plan: plan, context: context, run: run,
            started: started, lease: lease, isTrial: plan.isTrial)
        let takesReports = settleIntakes(applier)
        if plan.file?.layout != nil, !takesReports { return }
        do {
            try applyPlanned(opened, applier, takesReports: takesReports)
            isWhole = true
        } catch is CancellationError {
            // Its cause is in the outcome.
        }
        if isWhole { applyAbandonedSenders(applier) }
        if isWhole && !context.interrupt.isTripped { removeExpired(applier) }
    }

    /// Applies the answers that senders had stored when they ended; see `SenderFolders`.
    private mutating func applyAbandonedSenders(_ applier: JournalApplier) {
        guard !plan.dryRun, plan.gateways != nil else { return }
        let problems = SenderFolders.visitAbandoned(in: plan.state, at: context.now) {
            journal throws(JournalFailure) in
            for feed in try journal.feeds(.pending)
            where (try? apply(feed, with: applier.on(journal), resumed: true)) == nil {
                return false
            }
            if try !journal.feeds(.held).isEmpty { outcome.note(.held) }
            return true
        }
        for problem in problems { outcome.fail(.wrapping(problem, at: .state)) }
    }

    /// Removes the rows that have stayed marked for the grace period of the settings.
    private mutating func removeExpired(_ applier: JournalApplier) {
        guard applier.removesExpired else { return }
        do {
            try applier.removeExpired { removal in
                outcome.note(removal.status)
                outcome.report.removals.append(removal)
            }
        } catch {
            outcome.fail(.wrapping(error, at: .apply))
        }
    }

    /// Processes every gateway and pending feed of the plan.
    private mutating func applyPlanned(
        _ opened: OpenedJournal, _ applier: JournalApplier, takesReports: Bool
    ) throws {
        let journal = applier.journal
        switch plan.work {
        case .gateways, .waiting:
            // Every run processes held feeds again until a person has decided about them.
            for feed in try journal.feeds(.held) + journal.feeds(.pending) {
                try apply(feed, with: applier, resumed: true)
            }
            if takesReports { try takeReports(opened, applier) }
            let sources = plan.gateways ?? []
            for source in sources {
                // A run that ends with its last gateway has processed all.
                isWhole = source.partition == sources.last?.partition
                try sweep(source, applier)
            }
        case .file(let file): try apply(file, opened, applier)
        case .journaled(let feed):
            do {
                try apply(journal.feed(feed), with: applier, resumed: true)
            } catch is CancellationError {}
        case .answers: break  // A sender applies them as they come.
        case .release(let digest):
            let (feeds, applier) = try applier.released(by: digest)
            for (index, feed) in feeds.enumerated() {
                do {
                    try apply(feed, with: applier, resumed: true)
                } catch {
                    // Without its first feed the set has another digest.
                    if index == 0, (try? applier.journal.feed(feed.id))?.state == .held {
                        context.log.warning(
                            "what this release has not applied stays held; the same command continues it"
                        )
                    }
                    throw error
                }
            }
            try applier.journal.releaseFollowers()
            try countFollowers(in: applier.journal)
        }
    }

    /// Takes a file into the journal and applies it.
    private mutating func apply(
        _ file: SweepPlan.GivenFile, _ opened: OpenedJournal, _ applier: JournalApplier
    ) throws {
        guard let source = opened.given else { return }
        if let layout = file.layout {
            let (feeds, report) = try taken(file, layout, source, applier)
            if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
            outcome.report.add(report)
            if report.unknownReasons != nil { outcome.note(.quarantined) }
            if report.holds { outcome.note(.held) }
            return try apply(feeds, with: applier)
        }
        let feed = try copy(source, about: file.partition, into: applier.journal)
        if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
        do {
            try apply([feed], with: applier)
        } catch is CancellationError {}
        if !plan.dryRun, (try? applier.journal.feed(feed))?.state == .pending {
            context.log.warning(
                """
                the bytes of \(source.name) are kept as feed \(feed); pushsweep replay --feed \(feed) or the \
                next sweep continues it, and a replay of the same bytes would make a second feed
                """)
        }
    }

    /// Takes a file, or notes how a pipe can be read that was refused.
    private func taken(
        _ file: SweepPlan.GivenFile, _ layout: ReportLayout, _ source: GivenSource,
        _ applier: JournalApplier
    ) throws -> (feeds: [String], report: IntakeReport) {
        do {
            return try applier.take(file, layout, source)
        } catch let refused as RefusedFile {
            pipe.noteRefused(refused.layout)
            if let note = refused.note { context.log.warning("\(note)") }
            throw refused.failure
        }
    }

    /// Applies feeds that this run has taken.
    private mutating func apply(_ feeds: [String], with applier: JournalApplier) throws {
        for feed in feeds {
            try apply(applier.journal.feed(feed), with: applier, resumed: false)
        }
    }

    /// Decides what an earlier run left open between journal and table; false where that failed, so
    /// that no more may be taken. The rest of the run does not depend on it.
    private mutating func settleIntakes(_ applier: JournalApplier) -> Bool {
        guard !plan.dryRun else { return true }
        do {
            if let counts = try applier.settleOpenIntakes() {
                outcome.report.add(IntakeReport(counts))
            }
            return true
        } catch {
            outcome.fail(.wrapping(error, at: .store))
            return false
        }
    }

    /// Takes the reports of other senders and applies them. A missing right concerns the reports alone.
    private mutating func takeReports(
        _ opened: OpenedJournal, _ applier: JournalApplier
    ) throws(CancellationError) {
        do {
            guard try applier.intake.visibility() == .readable else { return }
            if plan.dryRun { return try previewReports(opened, applier) }
            var limit = applier.intake.mostRows
            while !context.interrupt.isTripped,
                let taken = try applier.takeRows(atMost: &limit)
            {
                outcome.report.add(IntakeReport(taken.counts))
                try apply(taken.feeds, with: applier)
                if taken.counts.reports < limit { break }
            }
            try applier.mendNumbers()
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

    /// Judges the waiting reports in a journal of their own, and takes none.
    private mutating func previewReports(
        _ opened: OpenedJournal, _ applier: JournalApplier
    ) throws {
        let trial = try TrialFolder(in: opened.folder)
        var judge = applier.on(try EvidenceJournal(in: trial.folder))
        judge.isTrial = true
        guard let preview = try judge.previewRows() else { return }
        outcome.report.add(preview.report)
        do {
            try apply(preview.feeds, with: judge)
        } catch is CancellationError {}
        withExtendedLifetime(trial) {}
    }

    /// Counts what joined the hold after the look at it: the next sweep judges it.
    private mutating func countFollowers(in journal: EvidenceJournal) throws {
        let released = Set(outcome.report.apps.compactMap(\.feed))
        var waiting: [Partition: Int] = [:]
        for feed in try journal.feeds(.pending)
        where !released.contains(feed.id) && feed.kind != .unusable {
            waiting[feed.partition, default: 0] += try journal.counts(of: feed).usable
        }
        guard !waiting.isEmpty else { return }
        outcome.report.waiting = waiting.values.reduce(0, +)
        for (partition, tuples) in waiting.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            let count = tuples.counting("tuple")
            context.log.warning(
                "\(partition): \(count) outside this digest wait for the next sweep, which judges them"
            )
        }
    }

    /// Says once, with the first marks that no column of the table has, that a sender has to read them.
    private func noteMarksBeside(in store: TokenTable) {
        let marked = outcome.report.apps.reduce(0) { $0 + $1.applied }
        // What cannot be known is told by `check`.
        guard marked > 0, (try? store.areFirstMarks(marked)) == true else { return }
        context.log.warning("the first marks: \(MarksBeside.sentence)")
    }

    /// Records in the database are for people, so a failure to write them does not fail the run.
    private mutating func noteEnd(in store: TokenTable) {
        let hasChanged =
            outcome.report.apps.contains { $0.tuples > 0 }
            || outcome.report.removals.contains { $0.removed > 0 }
        guard hasChanged else { return }
        outcome.stamp(at: context.now())
        do {
            try store.session.record(
                RunRecord(
                    id: run, kind: plan.work.kind, started: started, ended: context.now(),
                    host: context.host, operator: context.operator, counts: outcome.report.jsonLine,
                    guardResult: outcome.report.guardResult))
        } catch {
            context.log.warning("\(error)")
        }
    }

    private func openStore() throws -> (TokenTable, [Finding]) {
        let store = try TokenTable(
            plan.store.used(for: plan.dryRun ? .decisions : .changes).reportingHosts(to: context),
            pacing: plan.pacing)
        let report = try store.require(
            plan.dryRun ? .read : .apply(plan.policy),
            partitions: Array(plan.partitions.values))
        // A mistake in the limits has to show before evidence is taken from anywhere.
        if !plan.dryRun { try store.session.ensureThrottleIsWatched() }
        return (store, report.findings)
    }

    /// When evidence waits, an unreachable database means "continue later", not "nothing read".
    private func storeUnusable(_ error: any Error, pending: Int) -> RunFailure {
        let failure = RunFailure.wrapping(error, at: .store)
        guard pending > 0, failure.exit == .unreachable else { return failure }
        return RunFailure(
            .pending, .store,
            failure.description + "; waiting for it: \(pending.counting("captured feed"))")
    }

    /// Applies one captured feed.
    ///
    /// - Throws: where the database or the journal failed, or a stop signal came.
    mutating func apply(
        _ feed: CapturedFeed, with applier: JournalApplier, resumed: Bool,
        certificateEnds: EpochMilliseconds? = nil
    ) throws(CancellationError) {
        let result = applier.apply(feed)
        var entry = result.entry
        entry.resumed = resumed
        entry.certificateExpires = certificateEnds?.rfc3339
        outcome.report.apps.append(entry)
        if let failure = result.failure {
            outcome.fail(failure)
        } else {
            outcome.note(result.status)
            if let detail = entry.detail {
                context.log.warning("\(feed.partition): \(detail)")
            }
        }
        if result.endsRun || context.interrupt.isTripped { throw CancellationError() }
    }
}

extension RunFailure {
    static let stopped = RunFailure(
        .pending, .read, "the run was told to stop; run again to continue")
}
