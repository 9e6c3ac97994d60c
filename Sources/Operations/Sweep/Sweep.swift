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
import EvidenceJournal
import Foundation
import TokenHygiene
import TokenTable

/// One run of the main job.
package struct Sweep: RecordedRun {
    private var plan: SweepPlan
    let context: RunContext
    private let run = UUID().uuidString.lowercased()
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
        pipe = PipedInput(plan.givenPath)
        outcome = RunOutcome(
            report: SweepReport(
                run: run, kind: plan.work.kind, dryRun: plan.dryRun, started: started))
        outcome.report.reason = plan.reason
    }

    /// Reads all gateways of the plan and applies their feeds.
    package static func run(_ plan: SweepPlan, _ context: RunContext) -> RunOutcome<SweepReport> {
        var sweep = Sweep(plan, context)
        let outcome = sweep.perform()
        if !plan.isTrial, let kept = sweep.pipe.kept(outcome.exit, isList: plan.isList) {
            context.log.warning("\(kept)")
        }
        return outcome
    }

    var kind: String { plan.work.kind }
    var stage: RunFailure.Stage { .state }
    var metrics: (any JournalPage)? { plan.metrics }

    func openJournal() throws -> OpenedJournal {
        // A folder that the run may not use is told before anything is read into it.
        if plan.givenPath != nil { try StateFolder.examine(plan.state) }
        let given = try plan.givenPath.flatMap { path in
            try pipe.settle(
                GivenSource(path, doing: plan.doing, at: .read, context.interrupt),
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
                or import, as the pipe was named, which removes it then
                """)
        }
        if context.interrupt.isTripped, outcome.exit == .done, !isWhole {
            outcome.fail(.stopped)
        }
        try outcome.noteWaiting(in: journal)
        // A run over everything that waits has said why it could not go on.
        if plan.gateways == nil, !context.interrupt.isTripped { try nameOthers(in: journal) }
    }

    /// Names and counts the evidence that this run was not about.
    private mutating func nameOthers(in journal: EvidenceJournal) throws {
        let own = Set(outcome.report.apps.compactMap(\.feed))
        let others = try WaitingEvidence(besides: own, in: journal)
        // A release has counted what is outside of its digest.
        if outcome.report.waiting == nil {
            if others.tuples > 0 { outcome.report.waiting = others.tuples }
            if let sentence = others.pendingSentence { context.log.warning("\(sentence)") }
        }
        if let sentence = others.heldSentence { context.log.warning("\(sentence)") }
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
            noteEnd(in: store)
        }
    }

    /// The steps that need the lease. In a dry run there is none.
    private mutating func applyAndExpire(
        _ opened: OpenedJournal, _ store: TokenTable, _ lease: Lease?
    ) throws {
        let journal = opened.journal
        let takesReports = settleIntakes(journal, store)
        if case .reports = plan.work, !takesReports { return }
        let applier = JournalApplier(
            journal: journal, store: store, plan: plan, context: context, run: run,
            started: started, lease: lease, isTrial: plan.isTrial)
        isWhole = try applyPlanned(opened, applier, takesReports: takesReports)
        if isWhole { applyAbandonedSenders(applier) }
        if isWhole && !context.interrupt.isTripped { removeExpired(applier) }
    }

    /// Applies the answers that senders had stored when they ended; see `SenderFolders`.
    private mutating func applyAbandonedSenders(_ applier: JournalApplier) {
        guard !plan.dryRun, plan.gateways != nil else { return }
        let problems = SenderFolders.visitAbandoned(in: plan.state, at: context.now) {
            journal throws(JournalFailure) in
            for feed in try journal.feeds(.pending)
            where apply(feed, with: applier.on(journal), resumed: true) { return false }
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

    /// Processes every gateway and pending feed of the plan; false when the run has to end before.
    private mutating func applyPlanned(
        _ opened: OpenedJournal, _ applier: JournalApplier, takesReports: Bool
    ) throws -> Bool {
        let journal = applier.journal
        switch plan.work {
        case .gateways, .waiting:
            // Every run processes held feeds again until a person has decided about them.
            for feed in try journal.feeds(.held) + journal.feeds(.pending)
            where apply(feed, with: applier, resumed: true) { return false }
            if takesReports { guard takeReports(opened, applier) else { return false } }
            let collector = FeedCollector(journal: journal, context: context, run: run)
            let sources = plan.gateways ?? []
            for source in sources where try sweep(source, collector, applier) {
                return source.partition == sources.last?.partition
            }
        case .file(_, let partition):
            guard let source = opened.given else { return true }
            let feed = try FeedCollector(journal: journal, context: context, run: run)
                .copy(source, about: partition)
            if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
            try apply(journal.feed(feed), with: applier, resumed: false)
            if !plan.dryRun, (try? journal.feed(feed))?.state == .pending {
                context.log.warning(
                    """
                    the bytes of \(source.name) are kept as feed \(feed); pushsweep replay --feed \(feed) or the \
                    next sweep continues it, and a replay of the same bytes would make a second feed
                    """)
            }
        case .journaled(let feed):
            try apply(journal.feed(feed), with: applier, resumed: true)
        case .reports(let file):
            guard let source = opened.given else { return true }
            let taken = try reportIntake(journal, applier.store).take(file, source)
            if !plan.isTrial { pipe.noteTaken(in: opened.folder) }
            outcome.report.add(taken.report)
            for feed in taken.feeds
            where try apply(journal.feed(feed), with: applier, resumed: false) { return false }
        case .answers: break  // A sender applies them as they come.
        case .release(let digest):
            let (feeds, applier) = try applier.released(by: digest)
            for (index, feed) in feeds.enumerated()
            where apply(feed, with: applier, resumed: true) {
                // Without its first feed the set has another digest.
                if index == 0, (try? applier.journal.feed(feed.id))?.state == .held {
                    context.log.warning(
                        "what this release has not applied stays held; the same command continues it"
                    )
                }
                return false
            }
            try applier.journal.releaseFollowers()
            try countFollowers(in: applier.journal)
        }
        return true
    }

    private func reportIntake(_ journal: EvidenceJournal, _ store: TokenTable) -> ReportIntake {
        ReportIntake(journal: journal, store: store, plan: plan, context: context, run: run)
    }

    /// Decides what an earlier run left open between journal and table; false where that failed, so
    /// that no more may be taken. The rest of the run does not depend on it.
    private mutating func settleIntakes(
        _ journal: EvidenceJournal, _ store: TokenTable
    ) -> Bool {
        guard !plan.dryRun else { return true }
        do {
            if let counts = try reportIntake(journal, store).settleOpenIntakes() {
                outcome.report.add(IntakeReport(counts))
            }
            return true
        } catch {
            outcome.fail(.wrapping(error, at: .store))
            return false
        }
    }

    /// Takes the reports of other senders and applies them; false when the run has to end before the
    /// gateways are read. A missing right concerns the reports alone.
    private mutating func takeReports(
        _ opened: OpenedJournal, _ applier: JournalApplier
    ) -> Bool {
        let intake = reportIntake(applier.journal, applier.store)
        do {
            guard try intake.hasTable() else { return true }
            if plan.dryRun {
                try previewReports(opened, applier)
                return true
            }
            var limit = EvidenceIntake.mostRows
            while !context.interrupt.isTripped,
                let taken = try intake.takeRows(atMost: &limit)
            {
                outcome.report.add(IntakeReport(taken.counts))
                for feed in taken.feeds
                where try apply(applier.journal.feed(feed), with: applier, resumed: false) {
                    return false
                }
                if taken.counts.reports < limit { break }
            }
            try intake.mendNumbers()
            return true
        } catch {
            let failure = RunFailure.wrapping(error, at: .store)
            outcome.fail(failure)
            // A row that another session locks is no reason to leave a gateway unread.
            return [.permission, .configuration, .pending].contains(failure.exit)
        }
    }

    /// Judges the waiting reports in a journal of their own, and takes none.
    private mutating func previewReports(
        _ opened: OpenedJournal, _ applier: JournalApplier
    ) throws {
        let trial = try TrialFolder(in: opened.folder)
        let journal = try EvidenceJournal(in: trial.folder)
        guard let preview = try reportIntake(journal, applier.store).previewRows() else { return }
        outcome.report.add(preview.report)
        var judge = applier.on(journal)
        judge.isTrial = true
        for feed in preview.feeds
        where try apply(journal.feed(feed), with: judge, resumed: false) { return }
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
        let report = try store.preflight(
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

    /// Whether the next gateway may be read: this run still has the lease, and the throttle permits
    /// it. False after a stop signal. A list once begun is read to its end, since the gateway forgets
    /// it.
    private func mayOpenFeed(_ applier: JournalApplier) throws(StoreFailure) -> Bool {
        let interrupt = context.interrupt
        guard try applier.store.session.waitForThrottle(shouldStop: { interrupt.isTripped })
        else {
            return false
        }
        if let lease = applier.lease { try applier.store.session.renew(lease) }
        return true
    }

    /// Reads and applies one gateway; true when the run has to end.
    private mutating func sweep(
        _ source: GatewayPlan, _ collector: FeedCollector, _ applier: JournalApplier
    ) throws -> Bool {
        if context.interrupt.isTripped {
            outcome.fail(.stopped)
            return true
        }
        do {
            guard try mayOpenFeed(applier) else {
                outcome.fail(.stopped)
                return true
            }
        } catch {
            outcome.fail(.wrapping(error, at: .store))
            return true
        }
        warnOfExpiry(source)
        var entry = FeedReport(source.partition, source: source.name, end: .clean)
        entry.certificateExpires = source.certificateEnds?.rfc3339
        let collected: FeedCollector.Outcome
        do {
            collected = try collector.collect(source)
        } catch {
            // The bytes synced before are in the journal, and the next run applies them.
            let failure = RunFailure.wrapping(error, at: .read)
            entry.end = FeedEnd.truncated.rawValue
            entry.detail = failure.description
            entry.state = FeedState.pending.rawValue
            outcome.report.apps.append(entry)
            outcome.fail(failure)
            return true
        }
        switch collected {
        case .stopped:
            outcome.fail(.stopped)
            return true
        case .unreachable(let failure, let end):
            entry.end = end.rawValue
            entry.asked = failure.stage != .identity
            entry.detail = failure.description
            outcome.fail(failure)
            outcome.report.apps.append(entry)
            return false
        case .empty(let end):
            entry.end = FeedEnd(end, .clean).rawValue
            outcome.report.apps.append(entry)
            return false
        case .misdirected(let id, let failure):
            outcome.fail(failure)
            return try apply(
                applier.journal.feed(id), with: applier, resumed: false,
                certificateEnds: source.certificateEnds)
        case .captured(let id):
            return try apply(
                applier.journal.feed(id), with: applier, resumed: false,
                certificateEnds: source.certificateEnds)
        }
    }

    /// Applies one captured feed; true when the run has to end, because the database or the journal
    /// failed or a stop signal came.
    @discardableResult
    private mutating func apply(
        _ feed: CapturedFeed, with applier: JournalApplier, resumed: Bool,
        certificateEnds: EpochMilliseconds? = nil
    ) -> Bool {
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
        return result.endsRun || context.interrupt.isTripped
    }

    private func warnOfExpiry(_ source: GatewayPlan) {
        guard let ends = source.certificateEnds,
            ends < context.now().advanced(by: GatewayPlan.expiryWarning),
            case .success = source.context
        else { return }
        context.log.warning(
            "the certificate for \(source.partition) ends at \(ends.rfc3339); renew it")
    }
}

extension RunFailure {
    static let stopped = RunFailure(
        .pending, .read, "the run was told to stop; run again to continue")
}
