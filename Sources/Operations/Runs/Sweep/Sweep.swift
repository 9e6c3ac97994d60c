// The main job. Its order follows from one fact: a gateway forgets its list once read.
//
//   1. take the lock and open the journal: without them nothing may be read
//   2. ask the database whether evidence could be applied; a missing grant or column must be found
//      before a list is spent on it; take the lease, so that no other host does the same
//   3. judge the batches that wait in the database, and again, under another mapping, what found no row
//   4. pour what an earlier run left in the state folder, and judge it
//   5. take the rows of pushsweep_evidence, and judge them
//   6. gateway by gateway: read into a file, pour it into the database, judge it there
//   7. write what killed senders of this folder have kept, and judge it
//   8. mark the older of two tokens of one device, where the settings say so
//   9. remove the rows whose grace period has ended, where the settings name one, and reports whose time is over
//  10. store the run's record
//
// After a failure of one gateway, the run continues with the others. A failure of the database or the
// state folder ends the reading: lists that cannot be stored or applied must stay with the gateways.

import APNsProtocol
import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import Findings
import TokenHygiene
import TokenTable

/// One run of the main job.
package struct Sweep: RecordedRun {
    private(set) var plan: SweepPlan
    let context: RunContext
    let run = UUIDText.random()
    private let started: EpochMilliseconds
    var outcome: RunOutcome<SweepReport>
    /// Whether every gateway and pending batch was processed.
    var isWhole = false
    let pipe: PipedInput

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

    /// Reads all gateways of the plan and applies their batches.
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
        try outcome.noteWaiting(in: journal.folder)
    }

    // The exit code of a run tells also of evidence that the run was not about: a replay whose own batch is
    // applied ends with 75 while an older one waits, and with 3 while one is held. A person who looks at the
    // results of the run finds no reason for that code. So they are named, and the reports of those that wait
    // are counted.

    mutating func work(_ opened: OpenedJournal) throws {
        let journal = opened.journal
        let left = try journal.folder.lists(.pending)
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
            if !plan.adopts { try FolderBinding(opened, store, context).examine() }
            let gaps = try store.unseen(
                also: [.batch, .hold, .part, .report]
                    + (plan.policy.deletesAfter == nil ? [] : [.change, .commit]))
            if !gaps.isEmpty { outcome.report.gaps = gaps }
            _ = try judgeAndExpire(opened, store, nil)
            return
        }
        try store.underLease(
            run: run, kind: plan.work.kind, in: journal.folder, context, until: pipe.deadline
        ) { lease in
            let binding = FolderBinding(opened, store, context)
            try binding.bind(adopting: plan.adopts)
            if plan.gateways != nil { try binding.tellMissing() }
            let evidence = try judgeAndExpire(opened, store, lease)
            noteMarksBeside(in: store)
            try noteOpen(evidence, journal.folder)
            noteEnd(in: store)
        }
    }

    /// The steps that need the lease. In a dry run there is none. Returns what judged the evidence.
    private mutating func judgeAndExpire(
        _ opened: OpenedJournal, _ store: TokenTable, _ lease: Lease?
    ) throws -> EvidenceRun {
        let journal = opened.journal
        var evidence = EvidenceRun(
            store: store, plan: plan, context: context, run: run, started: started, lease: lease,
            isTrial: plan.isTrial)
        evidence.clock = try ClockDifference(to: store, context.now)
        let intake = ReportIntake(folder: journal.folder, evidence: evidence)
        do {
            try judgePlanned(opened, intake)
            isWhole = true
        } catch is CancellationError {
            // Its cause is in the outcome.
        }
        if isWhole { settleSenders(evidence) }
        if isWhole && !context.interrupt.isTripped {
            endGracePeriods(evidence, in: opened.folder)
            removeOldReports(evidence)
        }
        return evidence
    }

    /// Removes the reports whose time is over, and the suspects whose rows are gone or dead now. They would only
    /// take room, so a failure fails no run.
    private func removeOldReports(_ evidence: EvidenceRun) {
        guard !plan.dryRun else { return }
        do {
            let now = try evidence.store.session.databaseTime()
            let isTripped = { context.interrupt.isTripped }
            if plan.gateways != nil {
                try ReportRetention(evidence.store).trim(
                    at: now, lease: evidence.lease, shouldStop: isTripped)
            }
            var mappings: [Partition: String] = [:]
            for (name, stored) in plan.partitions {
                mappings[stored] = try MappingDigest.of(name, evidence.store.terms(of: stored))
            }
            try Suspects(evidence.store).trim(
                at: now, mappings, lease: evidence.lease, shouldStop: isTripped)
        } catch {
            context.log.warning("\(error)")
        }
    }

    /// Processes what the plan is about.
    private mutating func judgePlanned(
        _ opened: OpenedJournal, _ intake: ReportIntake
    ) throws {
        let evidence = intake.evidence
        let pouring = Pouring(folder: intake.folder, evidence: evidence)
        if evidence.lease != nil { try endLeftFillings(evidence) }
        switch plan.work {
        case .gateways, .waiting: try judgeAll(pouring, intake)
        case .file(let file): try takeFile(file, opened, intake, pouring)
        case .journaled(let batch):
            do {
                try judgeAgain(batch, pouring)
            } catch is CancellationError {}
        case .answers: break  // They settle them as they come.
        case .release(let digest): try release(digest, evidence)
        }
    }

    /// Ends what other runs have begun to fill and fill no more, so that it is judged or gone.
    private func endLeftFillings(_ evidence: EvidenceRun) throws {
        try evidence.batches.completeDiscards(lease: evidence.lease)
        try evidence.batches.dropDrafts(lease: evidence.lease)
        try evidence.batches.completeFilling()
        try evidence.batches.closeAbandonedTurns()
    }

    /// The hourly job, in its order: what waits, what is judged again, what this host has not stored, what senders
    /// report, and each gateway.
    private mutating func judgeAll(_ pouring: Pouring, _ intake: ReportIntake) throws {
        try settleWaiting(pouring.evidence)
        try judgeEarlier(pouring.evidence)
        for batch in try pouring.folder.lists(.held, .pending) {
            try pour(batch, pouring, resumed: true)
        }
        try takeReports(intake)
        let sources = plan.gateways ?? []
        for (place, source) in sources.enumerated() {
            // A run that ends with its last gateway has processed all.
            isWhole = source.partition == sources.last?.partition
            try readGateway(source, among: sources.count - place, pouring)
        }
    }

    /// Says once, with the first marks that no column of the table has, that a sender has to read them.
    private func noteMarksBeside(in store: TokenTable) {
        let marked = outcome.report.apps.filter { $0.grace == nil }.reduce(0) { $0 + $1.applied }
        // What cannot be known is told by `check`.
        guard marked > 0, (try? store.areFirstMarks(marked)) == true else { return }
        context.log.warning("the first marks: \(MarksBeside.sentence)")
    }

    /// Records in the database are for people, so a failure to write them does not fail the run.
    private mutating func noteEnd(in store: TokenTable) {
        let hasChanged =
            outcome.report.apps.contains { $0.tuples > 0 }
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
        if let stranded = try store.strandedMarks(Array(plan.partitions.values)), stranded.isWhole {
            context.log.warning("\(stranded.finding.sentence)")
        }
        return (store, report.findings)
    }

    /// When evidence waits, an unreachable database means "continue later", not "nothing read".
    private func storeUnusable(_ error: any Error, pending: Int) -> RunFailure {
        let failure = RunFailure.wrapping(error, at: .store)
        guard pending > 0, failure.exit == .unreachable else { return failure }
        return RunFailure(
            .pending, .store,
            failure.description + "; waiting for it: \(pending.counting("captured list"))")
    }

}

extension RunFailure {
    /// A signal ended the run between two steps; exit 75, and the next run goes on.
    package static let stopped = RunFailure(
        .pending, .read, "the run was told to stop; run again to continue")
}
