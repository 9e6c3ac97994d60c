// The main job. Its order follows from one fact: a gateway forgets its list once read.
//
//   1. take the lock and open the journal: without them nothing may be read
//   2. ask the database whether evidence could be applied; a missing grant or column must be found
//      before a feed is spent on it; take the lease, so that no other host does the same
//   3. judge the batches that wait in the database, and pour what an earlier run left in the journal
//   4. gateway by gateway: read into the journal, pour it into the database, judge it there
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
        try outcome.noteWaiting(in: journal)
    }

    // The exit code of a run tells also of evidence that the run was not about: a replay whose own batch is
    // applied ends with 75 while an older one waits, and with 3 while one is held. A person who looks at the
    // results of the run finds no reason for that code. So they are named, and the reports of those that wait
    // are counted.

    /// Notes the batches that this run leaves, whoever heard them.
    private mutating func noteOpen(_ evidence: EvidenceRun) throws {
        let open = try evidence.batches.all(.held, .waiting, .applying).filter(evidence.isNamed)
        let waiting = open.filter { $0.state != .held }
        let held = open.filter { $0.state == .held }
        if !waiting.isEmpty { outcome.note(.pending) }
        // What the import of a log brought and is held is noted with it. The hold of another source says
        // nothing about the file, and would hide that it was not taken.
        let isImport = plan.file.map { $0.layout != nil } ?? false
        if !held.isEmpty, !isImport { outcome.note(.held) }
        // A run over everything that waits has said why it could not go on.
        guard plan.gateways == nil, !context.interrupt.isTripped else { return }
        let own = Set(outcome.report.apps.compactMap(\.feed))
        func names(_ batches: [ReportBatch]) -> String {
            let named = batches.prefix(3).map {
                "batch \($0.id) of \(evidence.partition(named: $0))"
            }
            let more = batches.count > 3 ? ["\(batches.count - 3) more"] : []
            return (named + more).joined(separator: ", ")
        }
        let others = waiting.filter { !own.contains($0.id) }
        // A release has counted what is outside of its digest.
        if outcome.report.waiting == nil, let first = others.first {
            let reports = others.reduce(0) { $0 + $1.reports }
            if reports > 0 { outcome.report.waiting = reports }
            context.log.warning(
                """
                other evidence waits: \(names(others)); the next sweep takes it up, or pushsweep replay --feed \
                \(first.id)
                """)
        }
        let otherHeld = held.filter { !own.contains($0.id) }
        guard !otherHeld.isEmpty else { return }
        context.log.warning("other evidence is held: \(names(otherHeld)); see pushsweep holds list")
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
            _ = try applyAndExpire(opened, store, nil)
            return
        }
        try store.underLease(
            run: run, kind: plan.work.kind, in: journal.folder, context, until: pipe.deadline
        ) { lease in
            let evidence = try applyAndExpire(opened, store, lease)
            noteMarksBeside(in: store)
            if let evidence { try noteOpen(evidence) }
            noteEnd(in: store)
        }
    }

    /// The steps that need the lease. In a dry run there is none. Returns what judged the evidence; nil where
    /// nothing could be taken.
    private mutating func applyAndExpire(
        _ opened: OpenedJournal, _ store: TokenTable, _ lease: Lease?
    ) throws -> EvidenceRun? {
        let journal = opened.journal
        let evidence = EvidenceRun(
            store: store, plan: plan, context: context, run: run, started: started, lease: lease,
            isTrial: plan.isTrial)
        let intake = JournalIntake(journal: journal, evidence: evidence)
        let takesReports = settleIntakes(intake)
        if plan.file?.layout != nil, !takesReports { return nil }
        do {
            try applyPlanned(opened, intake, takesReports: takesReports)
            isWhole = true
        } catch is CancellationError {
            // Its cause is in the outcome.
        }
        if isWhole { applyAbandonedSenders(evidence) }
        if isWhole && !context.interrupt.isTripped {
            removeExpired(evidence)
            removeOldReports(evidence)
        }
        return evidence
    }

    /// Applies the answers that senders had stored when they ended; see `SenderFolders`.
    private mutating func applyAbandonedSenders(_ evidence: EvidenceRun) {
        guard !plan.dryRun, plan.gateways != nil else { return }
        let problems = SenderFolders.visitAbandoned(in: plan.state, at: context.now) {
            journal throws(JournalFailure) in
            let pouring = Pouring(journal: journal, isSenders: true, evidence: evidence)
            for feed in try journal.feeds(.held, .pending)
            where (try? settle(feed, pouring, resumed: true)) == nil {
                return false
            }
            return true
        }
        for problem in problems { outcome.fail(.wrapping(problem, at: .state)) }
    }

    /// Removes the reports whose time is over. They would only take room, so a failure fails no run.
    private func removeOldReports(_ evidence: EvidenceRun) {
        guard !plan.dryRun, plan.gateways != nil else { return }
        do {
            try ReportRetention(evidence.store).trim(
                at: evidence.store.session.databaseTime(), lease: evidence.lease,
                shouldStop: { context.interrupt.isTripped })
        } catch {
            context.log.warning("\(error)")
        }
    }

    /// Removes the rows that have stayed marked for the grace period of the settings.
    private mutating func removeExpired(_ evidence: EvidenceRun) {
        guard evidence.removesExpired else { return }
        do {
            try evidence.removeExpired { removal in
                outcome.note(removal.status)
                outcome.report.removals.append(removal)
            }
        } catch {
            outcome.fail(.wrapping(error, at: .apply))
        }
    }

    /// Processes every gateway and everything that waits, as the plan says.
    private mutating func applyPlanned(
        _ opened: OpenedJournal, _ intake: JournalIntake, takesReports: Bool
    ) throws {
        let (journal, evidence) = (intake.journal, intake.evidence)
        let pouring = Pouring(journal: journal, isSenders: false, evidence: evidence)
        if evidence.lease != nil { try evidence.batches.completeMoves() }
        switch plan.work {
        case .gateways, .waiting:
            try settleWaiting(evidence)
            for feed in try journal.feeds(.held, .pending) {
                try settle(feed, pouring, resumed: true)
            }
            if takesReports { try takeReports(opened, intake) }
            let sources = plan.gateways ?? []
            for source in sources {
                // A run that ends with its last gateway has processed all.
                isWhole = source.partition == sources.last?.partition
                try sweep(source, pouring)
            }
        case .file(let file): try apply(file, opened, intake, pouring)
        case .journaled(let feed):
            do {
                try judgeAgain(feed, pouring)
            } catch is CancellationError {}
        case .answers: break  // A sender applies them as they come.
        case .release(let digest): try release(digest, evidence)
        }
    }

    /// Judges the batches that wait in the database, and names those that are held. Batches of an app that
    /// these settings do not name wait for the host whose settings do.
    private mutating func settleWaiting(_ evidence: EvidenceRun) throws {
        guard !plan.dryRun || (try? evidence.batches.visibility()) == .readable else { return }
        if !plan.dryRun { try evidence.batches.releaseFollowers() }
        for batch in try evidence.batches.all(.held, .waiting, .applying) {
            guard evidence.isNamed(batch) || batch.host == context.host else { continue }
            try settle(HeardBatch(batch), evidence, resumed: true)
        }
    }

    /// Judges a batch that a person names: one that waits, is held or was discarded as it is, and the reports
    /// of a decided one as a batch of their own.
    private mutating func judgeAgain(_ name: String, _ pouring: Pouring) throws {
        let evidence = pouring.evidence
        guard let batch = try evidence.batches.batch(name) else {
            return try settle(pouring.journal.feed(name), pouring, resumed: true)
        }
        // The reports may have moved before.
        let all = try [batch] + evidence.batches.successors(of: name)
        guard let last = all.last else { return }
        switch last.state {
        case .filling where last.origin == nil:
            throw RunFailure(
                .pending, .apply,
                "judging batch \(last.id): \(last.host) still inserts its reports; sweep there, then run again"
            )
        case .waiting, .applying, .held: try settle(HeardBatch(last), evidence, resumed: true)
        case .discarded:
            if !plan.dryRun { _ = try evidence.batches.reopen(last.id) }
            try settle(
                HeardBatch(evidence.batches.batch(last.id) ?? last), evidence, resumed: true)
        case .applied, .filling: try settleAgain(all, evidence)
        }
    }

    /// Judges the reports of decided batches again, which are one batch then.
    private mutating func settleAgain(_ all: [ReportBatch], _ evidence: EvidenceRun) throws {
        guard let old = all.last else { return }
        guard !plan.dryRun else {
            // What is decided is read as if it were not.
            var again = HeardBatch(old)
            (again.batch.state, again.decidedToo) = (.waiting, true)
            return try settle(again, evidence, resumed: true)
        }
        var batch = ReportBatch(
            id: UUID().uuidString.lowercased(), run: run, evidence.partition(named: old),
            old.source,
            old.inlet, label: old.label, host: context.host, opened: old.opened)
        (batch.ending, batch.origin) = (old.ending, old.id)
        var moved = 0
        for (place, each) in all.enumerated() {
            moved += try evidence.batches.judgeAgain(
                each, as: batch, isLast: place == all.count - 1, lease: evidence.lease)
        }
        if moved < all[0].reports {
            context.log.warning(
                """
                batch \(all[0].id) had \(all[0].reports.counting("report")); \(moved) of them are still kept and are \
                judged again
                """)
        }
        guard let batch = try evidence.batches.batch(batch.id) else { return }
        try settle(HeardBatch(batch), evidence, resumed: true)
    }

    /// Applies the held batches that a digest names. Where this run ends early, the next sweep goes on with
    /// them.
    private mutating func release(_ digest: String, _ evidence: EvidenceRun) throws {
        let names = try evidence.released(by: digest).map(\.id)
        guard try evidence.batches.release(names) else {
            throw RunFailure(
                .usage, .state,
                "releasing the set with digest \(digest.prefix(12)): somebody has decided about a part of it "
                    + "meanwhile; look again with: pushsweep holds list")
        }
        for name in names {
            guard let batch = try evidence.batches.batch(name) else { continue }
            try settle(HeardBatch(batch), evidence, resumed: true)
        }
        try evidence.batches.releaseFollowers()
        try countFollowers(evidence)
    }

    /// Takes a file into the journal and applies it.
    private mutating func apply(
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
        let feed = try copy(source, about: file.partition, into: journal)
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
    private func taken(
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
    private mutating func settle(_ feeds: [String], _ pouring: Pouring) throws {
        for feed in feeds {
            try settle(pouring.journal.feed(feed), pouring, resumed: false)
        }
    }

    /// Decides what an earlier run left open between journal and table; false where that failed, so
    /// that no more may be taken. The rest of the run does not depend on it.
    private mutating func settleIntakes(_ intake: JournalIntake) -> Bool {
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
    private mutating func takeReports(
        _ opened: OpenedJournal, _ intake: JournalIntake
    ) throws(CancellationError) {
        do {
            guard try intake.intake.visibility() == .readable else { return }
            if plan.dryRun { return try previewReports(opened, intake) }
            let pouring = Pouring(
                journal: intake.journal, isSenders: false, evidence: intake.evidence)
            var limit = intake.intake.mostRows
            while !context.interrupt.isTripped, let taken = try intake.takeRows(atMost: &limit) {
                outcome.report.add(IntakeReport(taken.counts))
                try settle(taken.feeds, pouring)
                if taken.counts.reports < limit { break }
            }
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

    /// Judges the waiting reports in a journal of their own, and takes none.
    private mutating func previewReports(
        _ opened: OpenedJournal, _ intake: JournalIntake
    ) throws {
        let trial = try TrialFolder(in: opened.folder)
        var evidence = intake.evidence
        evidence.isTrial = true
        let journal = try EvidenceJournal(in: trial.folder)
        let judge = JournalIntake(journal: journal, evidence: evidence)
        guard let preview = try judge.previewRows() else { return }
        outcome.report.add(preview.report)
        do {
            try settle(
                preview.feeds, Pouring(journal: journal, isSenders: false, evidence: evidence))
        } catch is CancellationError {}
        withExtendedLifetime(trial) {}
    }

    /// Counts what joined the hold after the look at it: the next sweep judges it.
    private mutating func countFollowers(_ evidence: EvidenceRun) throws {
        let released = Set(outcome.report.apps.compactMap(\.feed))
        var waiting: [Partition: Int] = [:]
        for batch in try evidence.batches.all(.waiting) where !released.contains(batch.id) {
            waiting[batch.partition, default: 0] += batch.reports
        }
        guard !waiting.isEmpty else { return }
        outcome.report.waiting = waiting.values.reduce(0, +)
        for (partition, reports) in waiting.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            let count = reports.counting("report")
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

    /// Pours one captured feed into the database and judges its batch. In a dry run it is judged as it is.
    ///
    /// - Throws: where the database or the journal failed, or a stop signal came.
    mutating func settle(
        _ feed: CapturedFeed, _ pouring: Pouring, resumed: Bool,
        certificateEnds: EpochMilliseconds? = nil
    ) throws(CancellationError) {
        let heard: HeardBatch
        do {
            if feed.kind == .unusable {
                return try note(unusable: feed, in: pouring.journal, resumed: resumed)
            }
            let read = try plan.dryRun ? pouring.read(feed) : pouring.pour(feed)
            outcome.note(.following(read.evidence.captureEnd))
            heard = read.heard
        } catch {
            var result = EvidenceRun.Result(
                entry: FeedReport(
                    feed.partition, source: feed.source,
                    end: feed.end == nil ? .truncated : .clean))
            (result.entry.feed, result.entry.state) = (feed.id, feed.state.rawValue)
            pouring.evidence.fail(.wrapping(error, at: .apply), feed.id, &result)
            return try note(result, resumed: resumed)
        }
        try settle(heard, pouring.evidence, resumed: resumed, certificateEnds: certificateEnds)
    }

    /// Judges one batch.
    ///
    /// - Throws: where the database failed, or a stop signal came.
    mutating func settle(
        _ heard: HeardBatch, _ evidence: EvidenceRun, resumed: Bool,
        certificateEnds: EpochMilliseconds? = nil
    ) throws(CancellationError) {
        var result = evidence.settle(heard)
        result.entry.certificateExpires = certificateEnds?.rfc3339
        try note(result, resumed: resumed)
    }

    private mutating func note(
        _ result: EvidenceRun.Result, resumed: Bool
    ) throws(CancellationError) {
        var entry = result.entry
        entry.resumed = resumed
        outcome.report.apps.append(entry)
        if let failure = result.failure {
            outcome.fail(failure)
        } else {
            outcome.note(result.status)
            if let detail = entry.detail {
                context.log.warning("\(entry.partition): \(detail)")
            }
        }
        if result.endsRun || context.interrupt.isTripped { throw CancellationError() }
    }

    /// Notes lines that could not be used. They stay in the journal.
    private mutating func note(
        unusable feed: CapturedFeed, in journal: EvidenceJournal, resumed: Bool
    ) throws {
        var entry = FeedReport(feed.partition, source: feed.source, end: .clean)
        (entry.feed, entry.resumed, entry.bytes) = (feed.id, resumed, feed.bytes)
        entry.counts = try journal.counts(of: feed)
        if !plan.dryRun { try journal.close(feed.id, as: .applied, at: context.now()) }
        outcome.report.apps.append(entry)
        outcome.note(.quarantined)
    }
}

extension RunFailure {
    static let stopped = RunFailure(
        .pending, .read, "the run was told to stop; run again to continue")
}
