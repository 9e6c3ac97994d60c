// Moves one app's rows from the queue to APNs and their results back. One thread claims rows, hands
// them to the provider's connections, takes outcomes, stores their evidence and writes results. The
// connections have threads of their own, so that the database and the wire work at the same time.
//
// Order matters in two places. A batch is recorded as handed over before any of it is given to a
// connection, so that a killed sender's rows are known to have been on the wire. And the evidence of
// an answer is durable in the journal before the row's result is written: a row with a result is
// never sent again, so the answer will not come a second time.

import APNsConnection
import APNsProtocol
import EvidenceJournal
import Foundation
import PushQueue
import TokenHygiene

/// Sends one app's notifications.
final class SendJob {
    /// Number of rows in a claim.
    private static let batchRows = 1_000
    /// Claims in progress at once: one being answered, one on the wire, one being claimed.
    private static let mostBatches = 4
    /// Milliseconds to wait for outcomes between checks of leases, stop signals and failures.
    private static let answerWait = 50
    /// Milliseconds after which a batch's results are written although some of its rows have none.
    private static let flushAfter = 1_000.0
    /// Seconds after which other apps continue, and evidence is applied.
    private static let turnSeconds = 30.0
    /// Seconds that notifications in flight have left after a stop signal.
    private static let graceSeconds = 3.0

    let app: ProviderTarget
    private let plan: SendPlan
    private let context: RunContext
    private let queue: PushQueue
    private var provider: Provider
    private(set) var entry: SendReport.App
    private(set) var answers: AnswerCapture
    private var judge: DeliveryRules
    private var cursor = QueueCursor()
    private var batches: [SendBatch?] = Array(repeating: nil, count: SendJob.mostBatches)
    /// Places of batches that are claimed and not handed over.
    private var claimed: [Int] = []
    /// Notifications of handed-over batches that no connection has.
    private var ready: ArraySlice<ProviderItem> = []
    private(set) var load = SendLoad()
    private var limiter: RateLimit?
    private var claimedSoFar = 0
    private var lastFlush = SendJob.clock
    private var lastRenewal = SendJob.clock
    private var stop: RunFailure?
    /// Whether `stop` is the gateway's fault, so that a later try may succeed.
    private var isOutage = false
    private var stopBy: Double?
    private var silence = GatewaySilence()
    /// Tries in a row at which the gateway failed again.
    private(set) var outages = 0
    /// Number of suspects whose rows wait for a later run.
    private var deferred = 0
    /// Keys of rows that the gateway did not process, that went back while sending continued, and
    /// that were not claimed again.
    private var unprocessed: Set<Int64> = []
    private var words = SendWords()

    private static var clock: Double { Double(DispatchTime.now().uptimeNanoseconds) / 1e9 }

    /// Opens the provider's connections; `answers` stores the evidence of 410 answers.
    init(
        _ app: ProviderTarget, _ plan: SendPlan, _ context: RunContext, _ queue: PushQueue,
        _ provider: ProviderPlan, _ answers: AnswerCapture
    ) throws {
        self.app = app
        self.plan = plan
        self.context = context
        self.queue = queue
        self.answers = answers
        self.provider = try Provider(provider, connections: app.connections)
        entry = SendReport.App(app.partition)
        judge = DeliveryRules(app.partition, resendsUnknown: plan.resendsUnknown)
        limiter = plan.rate.map { RateLimit(perSecond: $0) }
    }

    /// The end of a turn.
    enum Turn {
        /// No row is due, or a limit is reached.
        case exhausted
        /// More rows are due, but other apps continue first.
        case paused
        /// A failure prevents further sending.
        case stopped(RunFailure)
        /// The gateway has failed; it may be tried again later.
        case unserved(RunFailure)
    }

    /// Sends due rows for at most `turnSeconds`, and takes the outcomes of those in flight.
    ///
    /// - Throws: failures of database and journal. Rows without a written result are taken over when
    ///   their lease ends.
    func drain() throws -> Turn {
        var isExhausted = false
        let turnEnds = Self.clock + Self.turnSeconds
        while true {
            try lookAround()
            let isOver = isExhausted || Self.clock > turnEnds
            if stop == nil, !isOver, mayClaim, let place = batches.firstIndex(where: { $0 == nil })
            {
                isExhausted = try !claim(place)
            }
            try handOver()
            give()
            let isIdle = load.rows == 0 && ready.isEmpty && claimed.isEmpty
            if !isIdle || batches.contains(where: { $0 != nil }) {
                try takeOutcomes(claimsMore: !isOver)
            }
            let isFull = batches.allSatisfy { $0 != nil }
            try flush(all: isIdle, decides: isIdle && (isOver || isFull))
            guard isIdle, batches.allSatisfy({ $0 == nil }), isOver || stop != nil else {
                continue
            }
            if let stop { return isOutage ? .unserved(stop) : .stopped(stop) }
            return isExhausted ? .exhausted : .paused
        }
    }

    /// Opens new connections after the gateway has failed.
    func startAgain() throws {
        provider.stop()
        provider = try Provider(provider.plan, connections: app.connections)
        silence.startAgain()
        outages += 1
        stop = nil
        isOutage = false
        entry.detail = nil
    }

    /// Closes the connections and writes the outcomes of rows still on the wire.
    func finish() throws {
        returnUnsent()
        provider.stop(abruptly: context.interrupt.isTripped)
        try record(provider.outcomes(within: 0))
        try flush(all: true, decides: true)
    }

    /// Warnings while the run continues. Each count is reported when it has grown.
    func warnings() -> [String] {
        words.warnings(entry, deferred: deferred, judge.gate, reason: silence.reason)
    }

    /// Failures of a run that emptied the queue.
    func shortcomings() -> [RunFailure] {
        var failures = words.shortcomings(
            entry, deferred: deferred, judge.gate, exit: silence.exit, reason: silence.reason)
        // A sender with --follow has claimed them again.
        if !unprocessed.isEmpty, stop == nil, !plan.follows {
            failures.append(
                RunFailure(
                    .pending, .send,
                    "sending for \(app.partition): \(provider.plan.name) did not process "
                        + "\(unprocessed.count.counting("notification")), however often they were sent; they "
                        + "wait in the queue, run again to continue"))
        }
        return failures
    }

    /// Closes the open feeds of answers. Returns the names of the feeds to apply.
    func closeAnswers() throws -> [String] { try answers.close(at: context.now()) }

    /// Counts the evidence of this app by outcome.
    func count(_ feed: FeedReport) { entry.count(feed) }

    /// Counts rows taken over from senders that are gone.
    func count(_ reclaimed: ReclaimedRows) {
        entry.reclaimed += reclaimed.returned + reclaimed.resent + reclaimed.unknown
    }

    private func lookAround() throws {
        if Self.clock - lastRenewal > Double(plan.leaseSeconds) / 3 {
            try queue.renewLeases()
            lastRenewal = Self.clock
        }
        if stopBy == nil, context.interrupt.isTripped {
            halt(
                RunFailure(
                    .pending, .send,
                    "sending for \(app.partition): told to stop; the rest "
                        + "waits in the queue, run again to continue"))
            stopBy = Self.clock + Self.graceSeconds
        }
        if stop == nil, let failure = provider.failure {
            halt(
                RunFailure(exit(after: failure), .send, "sending for \(app.partition): \(failure)"),
                isOutage: failure.code != .credential)
        }
        if let stopBy, Self.clock > stopBy, load.rows > 0 { provider.stop(abruptly: true) }
        context.progress.show(
            "sending \(app.partition)", entry.claimed, of: plan.limit)
    }

    /// Stops sending. Rows that no connection has sent go back to the queue.
    private func halt(_ failure: RunFailure, isOutage: Bool = false) {
        // A wrong setting may show in answers that come after another failure has stopped the
        // sending.
        if let stop, failure.exit != .configuration || stop.exit == .configuration { return }
        stop = failure
        self.isOutage = isOutage
        entry.detail = failure.description
        returnUnsent()
    }

    private func exit(after failure: ProviderFailure) -> ExitStatus {
        switch failure.code {
        case .unreachable: .unreachable
        case .unanswering: silence.hasAnswered ? .pending : .unreachable
        case .protocolBroken: .protocolBroken
        case .credential: .configuration
        }
    }

    /// Whether more rows may be claimed. Until the gateway answers, all claimed rows have to be sent
    /// first.
    private var mayClaim: Bool {
        guard load.mayClaim else { return false }
        guard let allowance = silence.allowance else { return true }
        return allowance > 0 && load.rows == 0 && ready.isEmpty && claimed.isEmpty
    }

    /// Takes back the notifications that no connection has sent.
    private func withdraw() {
        let withdrawn = provider.withdraw()
        load.withdrawn(withdrawn.count, Self.size(of: withdrawn))
        if !withdrawn.isEmpty { ready = withdrawn + ready }
    }

    private func returnUnsent() {
        withdraw()
        for item in ready { give(back: item.key) }
        load.dropped(Self.size(of: ready))
        ready = []
        for place in claimed {
            load.dropped(batches[place]?.size ?? 0)
            for index in 0..<(batches[place]?.claim.notifications.count ?? 0) {
                give(back: SendBatch.key(place: place, index: index))
            }
        }
        claimed = []
    }

    private static func size(of items: some Sequence<ProviderItem>) -> Int {
        items.reduce(0) { $0 + $1.payload.count }
    }

    private func give(back key: UInt64) {
        let (place, index) = SendBatch.position(key)
        batches[place]?.decide(index, DeliveryRules.Judgement(result: .returned))
    }

    /// Claims the next batch; false when no row is due or the limit is reached.
    private func claim(_ place: Int) throws -> Bool {
        var rows = judge.gate.allowance ?? Self.batchRows
        if let allowance = silence.allowance { rows = min(rows, allowance) }
        if let limit = plan.limit { rows = min(rows, limit - claimedSoFar) }
        // Tokens are looked up when rows are claimed, so rows are claimed shortly before they are
        // sent.
        if let rate = plan.rate { rows = min(rows, max(1, Int(rate * 2))) }
        guard rows > 0 else { return false }
        guard
            let claim = try timed(
                "claim", { try queue.claim(app.stored, limit: rows, from: &cursor) })
        else {
            return false
        }
        claimedSoFar += claim.claimed
        for (reason, count) in claim.skipped { entry.count(skipped: count, reason) }
        guard !claim.notifications.isEmpty else { return true }
        if !unprocessed.isEmpty { unprocessed.subtract(claim.notifications.lazy.map(\.key)) }
        let batch = SendBatch(claim, place: place, handedAt: context.now())
        load.claimed(batch.size)
        batches[place] = batch
        claimed.append(place)
        return true
    }

    /// Records the next claimed batch as handed over and makes its notifications ready. This is done
    /// as late as possible: a row that was not handed over never has an unknown outcome.
    private func handOver() throws {
        guard stop == nil, ready.isEmpty, silence.allowance != 0, let place = claimed.first,
            var batch = batches[place]
        else { return }
        let isOurs = try timed("hand-over") { try queue.handOver(batch.claim) }
        // The place is removed only after the call, because after an error the batches in `claimed`
        // are given back.
        claimed.removeFirst()
        guard isOurs else {
            // The lease had ended, and another sender has the rows.
            load.dropped(batch.size)
            batches[place] = nil
            return
        }
        batch.handedAt = context.now()
        let items = batch.items(app.topic)
        load.dropped(batch.size - Self.size(of: items))
        ready = items[...]
        batches[place] = batch
    }

    /// Gives the connections as many notifications as the gate and the rate allow.
    private func give() {
        guard !ready.isEmpty, stop == nil else { return }
        var room = SendLoad.mostRows
        if let allowance = judge.gate.allowance { room = min(room, allowance - load.rows) }
        if let allowance = silence.allowance { room = min(room, allowance - load.rows) }
        if let allowance = limiter?.allowance(at: Self.clock) { room = min(room, allowance) }
        guard room > 0 else { return }
        let items = ready.prefix(load.fitting(ready.lazy.map(\.payload.count), rows: room))
        guard !items.isEmpty else { return }
        ready = ready.dropFirst(items.count)
        load.given(items.count, Self.size(of: items))
        limiter?.spend(items.count)
        provider.give(Array(items))
    }

    private func takeOutcomes(claimsMore: Bool) throws {
        let canClaim = claimsMore && stop == nil && ready.isEmpty && batches.contains { $0 == nil }
        let answerWait = canClaim && load.rows < 500 ? 2 : Self.answerWait
        try record(timed("answers") { provider.outcomes(within: answerWait) })
    }

    /// Runs a body and adds its time to the report.
    private func timed<T>(_ stage: String, _ work: () throws -> T) rethrows -> T {
        let start = Self.clock
        defer { entry.seconds[stage, default: 0] += Self.clock - start }
        return try work()
    }

    private func record(_ outcomes: [ProviderOutcome]) throws {
        for outcome in outcomes {
            let (place, index) = SendBatch.position(outcome.key)
            // The batch itself is not copied here: with a second reference, each change would copy
            // its results.
            guard let attempts = batches[place]?.claim.notifications[index].attempts,
                let key = batches[place]?.claim.notifications[index].key,
                let handedAt = batches[place]?.handedAt, let size = batches[place]?.sizes[index]
            else { continue }
            load.release(size)
            if outcome.kind == .untouched, stop == nil { unprocessed.insert(key) }
            note(outcome.kind)
            var judgement = judge.judge(outcome.kind, attempts: attempts, handedAt: handedAt)
            if let failure = judgement.stop { halt(failure) }
            if stop != nil, judgement.isSuspect {
                judgement = DeliveryRules.Judgement(result: .returned)
            }
            batches[place]?.decide(index, judgement)
        }
        guard stop == nil, silence.allowance == 0 else { return }
        // Notifications that no connection has sent must not go to the silent gateway too.
        withdraw()
        silence.noteInFlight(load.rows)
        if let clause = silence.failure { halt(unanswered(clause), isOutage: true) }
    }

    private func note(_ outcome: ProviderOutcome.Kind) {
        switch outcome {
        case .answered:
            silence.answered()
            outages = 0
        // An outcome is not the gateway's fault when we ended the connections.
        case .unknown(let why): if stop == nil { silence.unknown(why, isGarbled: false) }
        case .garbled(let why): if stop == nil { silence.unknown(why, isGarbled: true) }
        case .untouched, .refused: break
        }
    }

    private func unanswered(_ clause: String) -> RunFailure {
        RunFailure(
            silence.exit, .send,
            "sending for \(app.partition): \(provider.plan.name) \(clause); what was not on the wire "
                + "is back in the queue; run again once the gateway answers")
    }

    /// Writes the results of batches whose rows all have results, and at intervals those of the
    /// others. With `decides`, the results that wait for the gate are decided now.
    private func flush(all: Bool, decides: Bool) throws {
        let isDue = all || (Self.clock - lastFlush) * 1_000 > Self.flushAfter
        if isDue { lastFlush = Self.clock }
        let hasLooked = judge.gate.answers >= EnvironmentGate.firstLook
        let verdict = verdict(hasLooked)
        for place in batches.indices {
            guard let outstanding = batches[place]?.outstanding, isDue || outstanding == 0 else {
                continue
            }
            if hasLooked || decides || stop != nil {
                deferred += batches[place]?.decide(verdict) ?? 0
            }
            if let lost = try write(place) { halt(lost) }
            if let batch = batches[place], batch.isSettled { batches[place] = nil }
        }
    }

    /// The decision about suspects that do not wait any longer.
    private func verdict(_ hasLooked: Bool) -> SendBatch.Verdict {
        if judge.gate.suspicion != nil || stop?.exit == .configuration { return .returned }
        if hasLooked { return .bad }
        // Sending stopped before the gate's first look, so the gate has not decided about these
        // tokens.
        if stop != nil { return .returned }
        return judge.gate.vouchesForSettings ? .bad : .deferred
    }

    /// Stores a batch's evidence, then writes its results. Returns a failure when another sender has
    /// its rows.
    private func write(_ place: Int) throws -> RunFailure? {
        guard var batch = batches[place] else { return nil }
        // They are dropped only after the write, so that the next try after a failure still has them.
        let (records, results) = (batch.evidence, batch.results)
        if !records.isEmpty {
            try timed("evidence") { try answers.keep(records, at: context.now()) }
            batches[place]?.forgetEvidence()
        }
        guard !results.isEmpty else { return nil }
        let written = try timed("results") { try queue.record(results, of: &batch.claim) }
        batches[place]?.claim = batch.claim
        batches[place]?.forgetResults()
        switch written {
        case .recorded(let missing):
            entry.missing += missing
            for result in results { entry.count(result.outcome) }
            return nil
        case .leaseLost:
            return RunFailure(
                .pending, .send,
                "sending for \(app.partition): the lease of \(plan.leaseSeconds) s ended before "
                    + "\(results.count) results were written, and another sender has the rows; "
                    + "raise send.lease")
        }
    }
}
