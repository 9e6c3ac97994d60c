// A run of the sender. Like a sweep, it takes its folder and asks the database first, because it has
// to store and apply the answers of APNs:
//
//   1. take a folder of senders, open its journal
//   2. ask the database whether rows could be claimed and evidence applied
//   3. write the answers that senders that are gone left in their folders, then take over their rows
//   4. app by app: claim, send, write results with what they say against tokens; judge that
//   5. with --follow: wait for new rows and do 3 and 4 again
//
// A fault of one app (its certificate, its topic) ends the sending for this app only. A failure of
// database or journal ends the run.

import APNsConnection
import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import Glibc
import PushQueue
import SecureTransport
import TokenHygiene
import TokenTable

/// One run of the sender.
package struct Send: RecordedRun {
    /// The wait of a sender with --follow when the queue is empty.
    private static let idle = Duration.seconds(1)
    /// The time between two looks for rows of senders that are gone, and for evidence that could not
    /// be applied before.
    private static let upkeep = Duration.seconds(30)

    private let plan: SendPlan
    let context: RunContext
    private let run = UUIDText.random()
    private let started: EpochMilliseconds
    var outcome: RunOutcome<SendReport>
    private var jobs: [SendJob] = []
    private var hasWarnedOfMetrics = false
    private var tally = EvidenceTally()
    /// Rows that got the result of an answer that an earlier sender had kept.
    private var settled = 0
    /// Whether the run ends because the database does not answer.
    private var storeIsLost = false

    private init(_ plan: SendPlan, _ context: RunContext) {
        self.plan = plan
        self.context = context
        started = context.now()
        outcome = RunOutcome(
            report: SendReport(run: run, dryRun: plan.dryRun, started: started))
    }

    /// Sends the notifications in the queue that are due.
    package static func run(_ plan: SendPlan, _ context: RunContext) -> RunOutcome<SendReport> {
        var send = Send(plan, context)
        guard !plan.dryRun else { return send.forecast() }
        return send.perform()
    }

    var stage: RunFailure.Stage { .send }
    var metrics: (any JournalPage)? { plan.metrics }

    func openJournal() throws -> OpenedJournal {
        let folder = try SenderFolders.takeFree(in: plan.sweep.state)
        try folder.ensureRoom()
        return OpenedJournal(folder: folder, journal: try EvidenceJournal(in: folder))
    }

    /// Counts what a run would send. It takes no folder and leaves no record, but a folder that the run
    /// would refuse is refused here too.
    private mutating func forecast() -> RunOutcome<SendReport> {
        do {
            try StateFolder.examine(plan.sweep.state)
            try preview()
        } catch {
            outcome.fail(.wrapping(error, at: .store))
        }
        outcome.stamp(at: context.now())
        return outcome
    }

    private mutating func preview() throws {
        let store = try openStore(.read, .preview)
        for app in plan.apps {
            var entry = SendReport.App(app.partition)
            try store.previewClaims(app.stored, limit: plan.limit ?? .max) { batch in
                for result in batch.settled { entry.count(result.outcome) }
                entry.sent += batch.notifications.count
                entry.claimed += batch.notifications.count
            }
            outcome.report.apps.append(entry)
        }
    }

    mutating func work(_ opened: OpenedJournal) throws {
        let journal = opened.journal
        let store: TokenTable
        do {
            store = try openStore(.apply(plan.sweep.policy), .send)
        } catch {
            throw RunFailure.wrapping(error, at: .store)
        }
        let evidence = evidence(store)
        do {
            // Before any row is claimed or called unknown.
            let log = try settleAnswers(in: journal, evidence)
            try openJobs(store, log)
            jobs.first?.count(reclaimed: settled)
            settled = 0
            try adoptAbandoned(store)
            jobs.first?.count(reclaimed: settled)
            try rounds(journal, evidence)
        } catch {
            storeIsLost = (error as? StoreFailure)?.isOfConnection ?? false
            outcome.fail(.wrapping(error, at: stage))
        }
        try finish(evidence)
    }

    /// Writes the answers that a sender of a folder left, and judges what they say against tokens.
    private mutating func settleAnswers(
        in journal: EvidenceJournal, _ evidence: EvidenceRun
    ) throws -> AnswerLog {
        let open = try LeftAnswers.closeTurns(in: journal, evidence)
        let left = try LeftAnswers(
            settling: journal.folder, in: queue(of: evidence.store), context)
        settled += left.written
        for batch in open + left.batches { enter(evidence.judge(HeardBatch(batch))) }
        return left.log
    }

    private func queue(of store: TokenTable) throws -> PushQueue {
        try PushQueue(
            store, QueueLease(run: run, host: context.host, seconds: plan.leaseSeconds),
            newName: UUIDText.random)
    }

    private func evidence(_ store: TokenTable) -> EvidenceRun {
        EvidenceRun(store: store, plan: plan.sweep, context: context, run: run, started: started)
    }

    private func openStore(_ need: TableUse, _ queue: QueueUse) throws -> TokenTable {
        let use: StoreUse = plan.dryRun ? .decisions : .changes
        let store = try TokenTable(plan.sweep.store.used(for: use).reportingHosts(to: context))
        let partitions = plan.apps.map(\.stored)
        let report = try store.require(need, partitions: partitions)
        let findings = try store.requireQueue(queue, partitions: partitions)
        if plan.dryRun {
            let hidden = findings.filter { $0.rule == "queue-claims-not-seen" }.map(\.sentence)
            for gap in try hidden + store.unseenMarks() { context.log.warning("\(gap)") }
        }
        let unowned = try store.unownedRows(Array(plan.sweep.partitions.values))
        logFindings(report.findings + findings + [unowned?.finding].compactMap { $0 })
        return store
    }

    /// Writes the answers of senders that are gone; see `SenderFolders`.
    private mutating func adoptAbandoned(_ store: TokenTable) throws {
        var failure: (any Error)?
        let problems = SenderFolders.visitAbandoned(in: plan.sweep.state) {
            journal throws(JournalFailure) in
            do {
                _ = try settleAnswers(in: journal, evidence(store))
            } catch let error as JournalFailure {
                throw error
            } catch {
                failure = error
                return false
            }
            return true
        }
        // Sending does not depend on another sender's folder, so a failure here does not stop it.
        for problem in problems {
            context.log.warning("\(problem)")
            outcome.note(.pending)
        }
        // Rows of answers that could not be written must not be called unknown.
        if let failure { throw failure }
    }

    private mutating func openJobs(_ store: TokenTable, _ log: AnswerLog) throws {
        let lease = SenderLease(seconds: plan.leaseSeconds)
        for (number, app) in plan.apps.enumerated() {
            switch app.gateway {
            case .failure(let failure):
                var entry = SendReport.App(app.partition)
                entry.detail = failure.description
                outcome.report.apps.append(entry)
                outcome.fail(failure)
            case .success(let gateway):
                jobs.append(
                    try SendJob(
                        app, plan, queue: queue(of: store), gateway: gateway,
                        answers: KeptAnswers(in: log), lease: lease, number: number, context))
            }
        }
    }

    private mutating func rounds(_ journal: EvidenceJournal, _ evidence: EvidenceRun) throws {
        var upkeepDue = Deadline.now
        var stopped: Set<Int> = []
        var resting: [Int: Deadline] = [:]
        var exhausted: [Int: Deadline] = [:]
        var isWaiting = false
        var hasBegun = false
        repeat {
            if upkeepDue.hasPassed, let first = jobs.first {
                // What a sender of this host has left may tell what became of the rows.
                if hasBegun { try adoptAbandoned(evidence.store) }
                hasBegun = true
                let reclaimed = try queue(of: evidence.store).reclaimExpired(
                    resendUnknown: plan.resendUnknown)
                first.count(reclaimed: reclaimed.values.reduce(0, +))
                if let words = SendWords.warning(reclaimed) { context.log.warning("\(words)") }
                tellWarnings()
                try settleWaiting(evidence)
                try tellProgress(journal)
                upkeepDue = .in(Self.upkeep)
            }
            isWaiting = true
            for (number, job) in jobs.enumerated() where !stopped.contains(number) {
                if let rest = resting[number] {
                    guard rest.hasPassed else { continue }
                    resting[number] = nil
                    try job.startAgain()
                }
                // Others may go on at once, and a queue that is empty is asked once a second.
                if let asked = exhausted[number], !asked.hasPassed { continue }
                switch try job.drain(slice: slice(beside: jobs.count - stopped.count)) {
                case .exhausted: exhausted[number] = .in(Self.idle)
                case .paused: isWaiting = false
                case .waiting:
                    isWaiting = false
                    continue
                case .unserved(let failure) where plan.follows:
                    let rest = SendPlan.rest(plan.rest, outages: job.outages)
                    context.log.warning("\(failure); trying again in \(rest.components.seconds) s")
                    resting[number] = .in(rest)
                case .stopped(let failure), .unserved(let failure):
                    outcome.fail(failure)
                    stopped.insert(number)
                    if plan.follows, stopped.count < jobs.count {
                        context.log.warning(
                            "\(failure); this app rests until the sender is started again, the others go on"
                        )
                    }
                }
                try judge(job, evidence)
            }
            guard stopped.count < jobs.count, plan.follows || !isWaiting else { return }
        } while !context.interrupt.wait(until: isWaiting ? .in(Self.idle) : .now)
        // What is due to an app of which no turn has ended is not known.
        let ended = plan.follows ? Set(jobs.indices) : Set(exhausted.keys)
        try stopJobs(stopped, ended: ended)
    }

    /// How long a turn of one of so many apps lasts before the others go on, in seconds; nil for a single one. Together
    /// they take no longer than a rate limit saves up.
    private func slice(beside apps: Int) -> Double? {
        apps > 1 ? max(0.002, RateLimit.reserve / 2 / Double(apps)) : nil
    }

    /// The run is told to stop. What is on the wire of several apps has one grace, from now on.
    private mutating func stopJobs(_ stopped: Set<Int>, ended: Set<Int>) throws {
        let open = jobs.enumerated().filter { number, job in
            !stopped.contains(number) && (job.isUnderWay || !ended.contains(number))
        }
        for (_, job) in open { job.beginStop() }
        for (_, job) in open {
            switch try job.drain() {
            case .stopped(let failure), .unserved(let failure): outcome.fail(failure)
            case .exhausted, .paused, .waiting: break
            }
        }
    }

    private func tellWarnings() {
        for job in jobs { for words in job.warnings() { context.log.warning("\(words)") } }
    }

    /// Writes the report so far and the metrics while the run continues. A failure to write metrics
    /// is logged once, and again when the run ends.
    private mutating func tellProgress(_ journal: EvidenceJournal) throws(JournalFailure) {
        guard plan.follows, let metrics = plan.metrics else { return }
        var report = outcome.report
        report.apps = jobs.map(\.entry)
        try journal.noteProgress(run, summary: report.jsonLine)
        do throws(RunFailure) {
            try metrics.write(from: journal, at: context.now())
        } catch {
            if !hasWarnedOfMetrics { context.log.warning("\(error)") }
            hasWarnedOfMetrics = true
        }
    }

    /// Judges what an app's answers of the last turn say against tokens.
    private mutating func judge(_ job: SendJob, _ evidence: EvidenceRun) throws {
        // What a person began to discard is noted before anything is judged.
        try evidence.batches.completeDiscards()
        for batch in try job.closeBatches() { enter(evidence.judge(HeardBatch(batch)), for: job) }
    }

    /// Judges the batches of senders that wait.
    private mutating func settleWaiting(_ evidence: EvidenceRun) throws {
        try evidence.batches.completeDiscards()
        try evidence.batches.releaseFollowers()
        try evidence.batches.closeAbandonedTurns()
        for batch in try evidence.batches.all(.waiting, .applying)
        where batch.inlet == .sender && evidence.isNamed(batch) {
            enter(evidence.judge(HeardBatch(batch)))
        }
    }

    private mutating func enter(_ result: EvidenceRun.Result, for job: SendJob? = nil) {
        // What makes tokens suspect is no evidence against rows.
        let owner =
            result.isSilent
            ? nil : job ?? jobs.first { $0.app.partition == result.entry.partition }
        owner?.count(tally.news(in: result.entry))
        if let failure = result.failure {
            outcome.fail(failure)
        } else {
            outcome.note(result.status)
        }
    }

    /// Ends the connections, also after a failure, and applies the last answers.
    private mutating func finish(_ evidence: EvidenceRun) throws {
        for job in jobs {
            do {
                try job.finish(storeIsLost: storeIsLost)
                if storeIsLost {
                    // The next run writes them.
                    if job.hasKeptAnswers { outcome.note(.pending) }
                } else {
                    try judge(job, evidence)
                }
            } catch {
                storeIsLost = storeIsLost || (error as? StoreFailure)?.isOfConnection ?? false
                outcome.fail(.wrapping(error, at: .send))
            }
            for failure in job.shortcomings() { outcome.fail(failure) }
            outcome.report.apps.append(job.entry)
        }
        tellWarnings()
    }
}

extension StoreFailure {
    /// Whether the database did not answer or took no changes, so that another statement would wait as
    /// long again.
    fileprivate var isOfConnection: Bool {
        switch code {
        case .busy, .unreachable, .readOnly, .commitUnknown: true
        case .untrusted, .permission, .configuration, .evidence, .stopped, .inconsistent: false
        }
    }
}
