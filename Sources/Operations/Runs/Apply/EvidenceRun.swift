// Judges batches of reports. The steps are the same for a batch that this run took in, one left by an earlier
// run or another host, and one that a person names.
//
// Classification comes first and changes nothing. It forecasts the outcome of every token. A dry run
// needs no more, and the guard judges the forecast; batches that it stops are held. Then, chunk by
// chunk, one transaction judges again under row locks, or changes only rows that are still as it judged
// them, writes the ledger, decides the reports and moves the batch's checkpoint. When a run ends between two
// chunks, the next run continues after the checkpoint. So every report is counted once, even though the rows
// of the first half look different by then.

import APNsProtocol
import Database
import EvidenceJournal
import Findings
import Glibc
import Synchronization
import TokenHygiene
import TokenTable

/// Judges batches of reports.
struct EvidenceRun {
    let store: TokenTable
    let plan: SweepPlan
    let context: RunContext
    let run: String
    /// The start of the run, for its records in the database.
    let started: EpochMilliseconds
    /// The lease that fences the changes; nil for dry runs and senders.
    var lease: Lease?
    /// Whether nothing of it is kept: a dry run, or rows that are looked at and not taken.
    var isTrial = false
    /// How far the database's clock is from this host's, as the run found it at its beginning.
    var clock = ClockDifference()
    /// The guard's decisions so far.
    let opinions = GuardLog()
    /// What a dry run would have done so far.
    let foretold = Foretold()
    /// The progress of the current batch.
    let seen = SeenProgress()

    var batches: Batches { Batches(store) }
    /// The present by the database's clock, which is that of all hosts.
    var now: EpochMilliseconds { context.now().advanced(by: clock.ahead) }

    /// What the database records of the run before its end.
    func record(guardResult: String? = nil) -> RunRecord {
        RunRecord(
            id: run, kind: plan.work.kind, started: started, host: context.host,
            operator: context.operator, guardResult: guardResult)
    }

    /// The result of one batch.
    struct Result {
        var entry: BatchReport
        /// The exit code that the batch asks for.
        var status = ExitStatus.done
        /// The failure that left the batch waiting, if there was one.
        var failure: RunFailure?
        /// Whether the batch changes no row, so that the report has no entry for it, and others do not depend on it.
        var isSilent = false

        /// Whether other batches would fail the same way: the fault is in the database or the disk,
        /// not in this one.
        var endsRun: Bool {
            guard let failure, !isSilent else { return false }
            return failure.exit != .invariant && failure.stage != .settings
                && failure.stage != .decode
        }
    }

    /// Judges a batch: forecast, guard, rows.
    func judge(_ heard: HeardBatch) -> Result {
        var result = Result(entry: BatchReport(heard.batch))
        seen.enter(nil)
        do {
            if heard.batch.source.isAboutSuspects {
                result.isSilent = true
                try noteSuspects(of: heard.batch)
            } else {
                result.status = try decide(heard, into: &result.entry)
            }
        } catch {
            if (error as? StoreFailure)?.code == .evidence,
                enterDecision(about: heard.batch, &result)
            {
                return result
            }
            fail(.wrapping(error, at: .apply), heard.batch.id, &result)
        }
        return result
    }

    /// Enters that somebody held or discarded a batch which this run had in its list, so that no run judges it; false
    /// where nobody did.
    private func enterDecision(about batch: ReportBatch, _ result: inout Result) -> Bool {
        guard !plan.dryRun, [.filling, .waiting, .applying].contains(batch.state),
            let state = try? batches.batch(batch.id)?.state,
            [.held, .discarding, .discarded].contains(state)
        else { return false }
        (result.entry.state, result.isSilent) = (state.reported, false)
        result.entry.detail =
            "batch \(batch.id) is \(state.rawValue) meanwhile, so nothing of it was judged"
        result.status = state == .held ? .held : .done
        return true
    }

    /// Notes that a batch was not judged to its end, and how far it came.
    func fail(_ failure: RunFailure, _ batch: String, _ result: inout Result) {
        enterProgress(of: batch, into: &result.entry)
        result.entry.detail = [result.entry.detail, failure.description].compactMap { $0 }
            .joined(separator: "; ")
        (result.status, result.failure) = (failure.exit, failure)
    }

    /// Enters, after a failure, how much of the batch the database has applied: as it says itself, or as
    /// it was last seen where it does not answer any more.
    private func enterProgress(of batch: String, into entry: inout BatchReport) {
        guard !plan.dryRun else { return }
        store.session.giveUp()
        guard let known = (try? store.progress(of: batch)) ?? seen.progress else { return }
        entry.counts = entry.counts.judged(known.counts)
        entry.rowsChanged = known.rowsChanged
    }

    // MARK: Partitions

    /// Whether the settings name the app and environment of a batch.
    func isNamed(_ batch: ReportBatch) -> Bool { plan.partitions[batch.partition] != nil }

    /// The partition of a batch as the rows of the table name it.
    private func partition(of batch: ReportBatch) throws(RunFailure) -> Partition {
        if let partition = plan.partitions[batch.partition] { return partition }
        throw RunFailure(
            .configuration, .settings,
            "judging batch \(batch.id): the settings no longer name \(batch.partition); name it again under apps "
                + "and run again, or give it up: pushsweep holds discard \(batch.id) --reason TEXT")
    }

    // MARK: Terms

    /// The policy for a batch. What is judged again by nobody's wish counts only beyond doubt.
    func policy(for batch: ReportBatch) -> RemovalPolicy {
        var policy = plan.policy
        policy.onlyBeyondDoubt = batch.isJudgedByItself
        return policy
    }

    /// When a batch was heard. What a person names counts from now on; a dry run cannot note that.
    func hearing(of batch: ReportBatch) -> Hearing {
        if plan.dryRun, plan.isAboutOneBatch || batch.isAsked {
            return .asked(EpochMilliseconds(.max))
        }
        return batch.hearing
    }

    // MARK: Judging

    private func decide(
        _ heard: HeardBatch, into entry: inout BatchReport
    ) throws -> ExitStatus {
        var heard = heard
        let batch = heard.batch
        guard batch.source != .unusable else { throw try unknownKind(of: batch) }
        if batch.isReleased, let hold = batch.hold {
            entry.heldSince = (hold.since ?? batch.opened).rfc3339
            entry.heldCause = hold.cause
        }
        if batch.state == .held {
            guard plan.isAboutOneBatch else {
                entry.held = batch.reports
                entry.gate = batch.hold?.gate?.rawValue
                entry.cause = batch.hold?.cause
                return .held
            }
            if !plan.dryRun {
                guard try batches.reopen(batch.id, atWordOf: true) else {
                    throw RunFailure(
                        .pending, .apply,
                        "judging batch \(batch.id): another run has decided about it meanwhile")
                }
                heard.batch.state = .waiting
            }
        }
        if plan.isAboutOneBatch, !plan.dryRun {
            try batches.ask(for: batch.id)
            heard.batch.asked = try batches.batch(batch.id)?.asked
        }
        let stored = try partition(of: batch)
        if batch.isReleased, batch.state == .waiting, try !isReleased(batch, stored) {
            return try holdAgain(batch, &entry)
        }
        let judged = try judgement(of: heard, in: stored)
        if let hold = judged.hold {
            entry.enter(hold)
            if !plan.dryRun {
                try keep(heard, hold)
                entry.state = ListState.held.rawValue
                entry.held = batch.reports
                return .held
            }
        }
        entry.counts = batch.counts.judged(judged.progress.counts)
        entry.rowsChanged = judged.progress.rowsChanged
        let spared = min(judged.spared, entry.newer)
        entry.spared = spared > 0 ? spared : nil
        let status = ExitStatus.following(batch, entry.counts)
        if plan.dryRun {
            let guarded = judged.hold == nil ? ExitStatus.done : .held
            guard isTrial else { return .worse(guarded, .pending) }
            entry.state = nil
            return .worse(guarded, status)
        }
        try ensureWhole(batch, judged.progress, entry.counts)
        entry.refusals = judged.refusals
        entry.state = BatchState.applied.reported
        return status
    }

    /// Holds a batch of a kind that only another build knows, so that a person can give it up.
    private func unknownKind(of batch: ReportBatch) throws -> RunFailure {
        let cause = "it is of a kind that this build does not know"
        if !plan.dryRun { _ = try batches.hold(batch.id, BatchHold(cause: cause, gate: nil)) }
        return RunFailure(
            .configuration, .settings,
            "judging batch \(batch.id) of \(batch.partition): \(cause), so nothing of it is applied; give it up: "
                + "pushsweep holds discard \(batch.id) --reason TEXT")
    }

    /// Moves the reports of a batch that calls tokens bad, or accepts suspected ones, into the suspects; a dry run
    /// changes nothing.
    private func noteSuspects(of batch: ReportBatch) throws {
        let stored = try partition(of: batch)
        guard !plan.dryRun, batch.state != .applied else { return }
        defer { context.progress.clear() }
        let progress = try store.noteSuspects(
            BatchApplication(
                run: run, batch: batch.id, partition: stored, policy: plan.policy,
                source: batch.source, lease: lease,
                mapping: MappingDigest.of(batch.partition, store.terms(of: stored)),
                hearing: .unknown),
            shouldStop: { context.interrupt.isTripped }
        ) {
            context.progress.show(
                "suspects of \(batch.partition) (reports)", $0.counts.total, of: batch.reports)
        }
        try ensureWhole(batch, progress, batch.counts.judged(progress.counts))
    }

    /// Holds a batch whose release would do something else than the person saw.
    private func holdAgain(
        _ batch: ReportBatch, _ entry: inout BatchReport
    ) throws -> ExitStatus {
        guard !plan.dryRun else { return .held }
        _ = try batches.holdAgain(batch.id)
        context.log.warning(
            """
            \(batch.partition): batch \(batch.id) was released under other settings than those of this run, so \
            it is held again; look at it with: pushsweep holds show \(batch.id)
            """)
        entry.state = BatchState.held.reported
        (entry.held, entry.gate) = (batch.reports, batch.hold?.gate?.rawValue)
        entry.cause = batch.hold?.cause
        return .held
    }

    /// Whether a release would do what the person saw who released the batch.
    private func isReleased(_ batch: ReportBatch, _ stored: Partition) throws -> Bool {
        let policy = policy(for: batch)
        let digest = try HoldDigest(
            batch.partition, policy, terms: store.terms(of: stored))
        return batch.terms == digest.heading
    }

    /// Throws unless all of a batch was judged and every report is accounted for.
    private func ensureWhole(
        _ batch: ReportBatch, _ progress: BatchProgress, _ counts: Counts
    ) throws(RunFailure) {
        guard progress.isApplied else {
            throw RunFailure(
                .pending, .apply,
                "judging batch \(batch.id): stopped after \(counts.total) of \(counts.usable) reports; "
                    + "run again to continue")
        }
        if let imbalance = counts.imbalance {
            throw RunFailure(
                .invariant, .apply,
                "accounting for batch \(batch.id): \(imbalance); its reports stay in pushsweep_report, "
                    + "please report this")
        }
    }
}

/// The progress of a batch as it was last reported.
final class SeenProgress: Sendable {
    private let last = Mutex<BatchProgress?>(nil)

    var progress: BatchProgress? { last.withLock { $0 } }

    func enter(_ progress: BatchProgress?) { last.withLock { $0 = progress } }
}

extension BatchState {
    /// The word in reports, which have that of a list.
    var reported: String {
        switch self {
        case .filling, .waiting, .applying: ListState.pending.rawValue
        case .applied, .held, .discarded: rawValue
        case .discarding: BatchState.discarded.rawValue
        }
    }
}

extension BatchReport {
    /// The entry of a batch that is not judged yet.
    init(_ batch: ReportBatch) {
        self.init(batch.partition, source: batch.label, end: batch.ending)
        self.batch = batch.id
        state = batch.state.reported
        detail = batch.detail
        bytes = batch.bytes
        quarantinedBytes = batch.quarantinedBytes
        grace = batch.source == .grace ? true : nil
        counts = batch.counts.judged(Counts())
    }
}
