// A run of the sender. Like a sweep it takes its folder and asks the database first, because what
// comes back from APNs has to be kept and applied:
//
//   1. take a folder of senders, open its journal
//   2. ask the database whether rows could be claimed and evidence applied
//   3. apply what senders that are gone have left in their journals, and take over their rows
//   4. app by app: claim, send, write results; apply what the answers said about tokens
//   5. with --follow: wait for new rows and do 3 and 4 again
//
// One app's fault (its certificate, its topic) costs its own turn. A failure of database or journal
// ends the run.

import APNsConnection
import APNsProtocol
import Encodings
import EvidenceJournal
import Foundation
import PushQueue
import SecureTransport
import TokenHygiene
import TokenTable

/// One run of the sender.
package struct Send {
    /// How long a following run waits when the queue is empty.
    private static let idle = Duration.seconds(1)
    /// How long until the next look for rows of senders that are gone, and for evidence that could
    /// not be applied when it came.
    private static let upkeep = Duration.seconds(30)

    private let plan: SendPlan
    private let context: RunContext
    private let run = UUID().uuidString.lowercased()
    private let started: EpochMilliseconds
    private var outcome: RunOutcome<SendReport>
    private var jobs: [SendJob] = []
    private var hasWarnedOfMetrics = false
    private var tally = FeedTally()

    private init(_ plan: SendPlan, _ context: RunContext) {
        self.plan = plan
        self.context = context
        started = context.now()
        outcome = RunOutcome(
            report: SendReport(run: run, dryRun: plan.dryRun, started: started))
    }

    /// Sends what waits in the queue.
    package static func run(_ plan: SendPlan, _ context: RunContext) -> RunOutcome<SendReport> {
        var send = Send(plan, context)
        do {
            if plan.dryRun { try send.preview() } else { try send.work() }
        } catch {
            send.outcome.fail(.wrapping(error, at: .store))
        }
        context.progress.clear()
        send.outcome.stamp(at: context.now())
        return send.outcome
    }

    private mutating func preview() throws {
        let store = try openStore(.read, .preview)
        for app in plan.apps {
            var entry = SendReport.App(app.partition)
            let preview = try store.previewClaims(app.stored, limit: plan.limit ?? .max)
            entry.sent = preview.sendable
            for (reason, count) in preview.skipped { entry.skipped[reason.rawValue] = count }
            entry.claimed = preview.rows
            outcome.report.apps.append(entry)
        }
    }

    private mutating func work() throws {
        let folder = try SenderFolders.takeFree(in: plan.state)
        try folder.ensureRoom()
        let journal = try EvidenceJournal(in: folder)
        for file in try folder.damagedFiles { context.log.warning("\(folder.damage(file))") }
        try journal.beginRun(run, kind: "send", at: started)
        try journal.recoverInterrupted(at: started)
        let store = try openStore(.apply(plan.policy), .send)
        let settlement = settlement(journal, store)
        defer { withExtendedLifetime(folder) {} }
        do {
            try openJobs(store, journal)
            for feed in try journal.feeds(.pending) { settle(feed, settlement) }
            adoptAbandoned(store)
            try rounds(settlement, store)
        } catch {
            outcome.fail(.wrapping(error, at: .send))
        }
        try finish(settlement)
        if try !journal.feeds(.pending).isEmpty { outcome.exit = .worse(outcome.exit, .pending) }
        if try !journal.feeds(.held).isEmpty { outcome.exit = .worse(outcome.exit, .held) }
        try outcome.record(as: run, in: journal, plan.metrics, at: context.now)
        try journal.purge(at: context.now())
    }

    private func settlement(_ journal: EvidenceJournal, _ store: TokenTable) -> FeedSettlement {
        FeedSettlement(
            journal: journal, store: store, plan: plan.settlement, context: context, run: run,
            started: started)
    }

    private func openStore(_ need: StoreNeed, _ queue: QueueNeed) throws -> TokenTable {
        let store = try TokenTable(plan.store)
        let partitions = plan.apps.map(\.stored)
        let report = try store.preflight(need, partitions: partitions)
        let findings = try store.preflightQueue(queue, partitions: partitions)
        for finding in report.findings + findings
        where finding.severity == .warning || finding.severity == .refusedByCheck {
            context.log.notice("\(finding)")
        }
        return store
    }

    /// Applies what senders that are gone have left; see `SenderFolders`.
    private mutating func adoptAbandoned(_ store: TokenTable) {
        let problems = SenderFolders.visitAbandoned(in: plan.state, at: context.now) {
            journal throws(JournalFailure) in
            for feed in try journal.feeds(.pending) {
                settle(feed, settlement(journal, store))
            }
            return true
        }
        // What another sender left cannot be applied; that is no reason not to send.
        for problem in problems {
            context.log.warning("\(problem)")
            outcome.exit = .worse(outcome.exit, .pending)
        }
    }

    private mutating func openJobs(_ store: TokenTable, _ journal: EvidenceJournal) throws {
        let lease = QueueLease(run: run, host: context.host, seconds: plan.leaseSeconds)
        for app in plan.apps {
            switch app.provider {
            case .failure(let failure):
                var entry = SendReport.App(app.partition)
                entry.detail = failure.description
                outcome.report.apps.append(entry)
                outcome.fail(failure)
            case .success(let provider):
                jobs.append(
                    try SendJob(
                        app, plan, context, PushQueue(store, lease), provider,
                        AnswerCapture(
                            journal, run: run, partition: app.partition, source: provider.name)))
            }
        }
    }

    private mutating func rounds(_ settlement: FeedSettlement, _ store: TokenTable) throws {
        var upkeepDue = Deadline.now
        var stopped: Set<Int> = []
        var resting: [Int: Deadline] = [:]
        var isWaiting = false
        let lease = QueueLease(run: run, host: context.host, seconds: plan.leaseSeconds)
        repeat {
            if upkeepDue.hasPassed, let first = jobs.first {
                let reclaimed = try PushQueue(store, lease).reclaimExpired(
                    resendUnknown: plan.resendsUnknown)
                first.count(reclaimed)
                if let words = SendWords.warning(reclaimed) { context.log.warning("\(words)") }
                tellWarnings()
                for feed in try settlement.journal.feeds(.pending) { settle(feed, settlement) }
                try settlement.journal.purge(at: context.now())
                try tellProgress(settlement.journal)
                upkeepDue = .in(Self.upkeep)
            }
            isWaiting = true
            for (number, job) in jobs.enumerated() where !stopped.contains(number) {
                if let rest = resting[number] {
                    guard rest.hasPassed else { continue }
                    resting[number] = nil
                    try job.startAgain()
                }
                switch try job.drain() {
                case .exhausted: break
                case .paused: isWaiting = false
                case .unserved(let failure) where plan.follows:
                    let rest = SendPlan.rest(plan.rest, outages: job.outages)
                    context.log.warning("\(failure); trying again in \(rest.components.seconds) s")
                    resting[number] = .in(rest)
                case .stopped(let failure), .unserved(let failure):
                    outcome.fail(failure)
                    stopped.insert(number)
                }
                try apply(job, settlement)
            }
            guard stopped.count < jobs.count, plan.follows || !isWaiting else { return }
        } while !context.interrupt.wait(until: isWaiting ? .in(Self.idle) : .now)
    }

    private func tellWarnings() {
        for job in jobs { for words in job.warnings() { context.log.warning("\(words)") } }
    }

    /// Writes metrics of a run that goes on. That they cannot be written is told once, and again when
    /// the run ends.
    private mutating func tellProgress(_ journal: EvidenceJournal) throws(JournalFailure) {
        guard plan.follows, let metrics = plan.metrics else { return }
        var report = outcome.report
        report.apps = jobs.map(\.entry)
        try journal.noteProgress(run, summary: report.jsonLine)
        do throws(RunFailure) {
            try metrics.write(from: journal)
        } catch {
            if !hasWarnedOfMetrics { context.log.warning("\(error)") }
            hasWarnedOfMetrics = true
        }
    }

    /// Brings what answers said to the token table.
    private mutating func apply(_ job: SendJob, _ settlement: FeedSettlement) throws {
        guard !job.answers.isEmpty else { return }
        for name in try job.closeAnswers() {
            settle(try settlement.journal.feed(name), settlement, for: job)
        }
    }

    private mutating func settle(
        _ feed: CapturedFeed, _ settlement: FeedSettlement, for job: SendJob? = nil
    ) {
        let result = settlement.settle(feed)
        let owner = job ?? jobs.first { $0.app.partition == feed.partition }
        owner?.count(tally.news(in: result.entry))
        if let failure = result.failure {
            outcome.fail(failure)
        } else {
            outcome.exit = .worse(outcome.exit, result.exit)
        }
    }

    /// Ends the connections, whatever happened, and applies the last answers.
    private mutating func finish(_ settlement: FeedSettlement) throws {
        for job in jobs {
            do {
                try job.finish()
                try apply(job, settlement)
            } catch {
                outcome.fail(.wrapping(error, at: .send))
            }
            for failure in job.shortcomings() { outcome.fail(failure) }
            outcome.report.apps.append(job.entry)
        }
        tellWarnings()
    }
}
