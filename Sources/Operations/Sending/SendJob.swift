// One app's way from the queue to APNs and back. One thread does it: it claims rows, hands them to
// the gateway's connections, takes outcomes, keeps the evidence in them, and writes results; the
// connections have threads of their own, so that the database and the wire work at the same time.
//
// Order matters in two places. A batch is written down as handed over before any of it is given to
// a connection, so that a killed sender's rows are known to have been on the wire. And what an answer
// says about a token is durable in the log before it is written with the row's result, because the answer
// will not come a second time.

import APNsConnection
import APNsProtocol
import EvidenceJournal
import Dispatch
import Glibc
import PushQueue
import TokenHygiene
import TokenTable

/// Sends one app's notifications: does the I/O that `SendState` decides about.
final class SendJob {
    /// Milliseconds to wait for outcomes before looking around.
    private static let answerWait = 50
    /// Milliseconds until a batch's results are written though some of its rows have none.
    private static let flushAfter = 1_000.0
    /// Seconds after which the other apps send, and evidence is applied.
    private static let turnSeconds = 30.0
    let app: ProviderTarget
    private let plan: SendPlan
    private let context: RunContext
    private let queue: PushQueue
    private var state: SendState
    private let target: ProviderPlan
    private var gateway: Provider
    private var answers: KeptAnswers
    private var cursor = QueueCursor()
    private var limiter: RateLimit?
    private let lease: SenderLease
    /// The place of this app among those of the run.
    private let number: Int
    private var lastFlush = SendJob.clock
    private var interrupted: OpenTurn?
    /// Why the rows are not ours any more.
    private var lossOfLease: RunFailure?
    private var stopBy: Double?
    /// Reports of this turn that are stored and not judged.
    private var unjudged = 0
    /// How many rows were told of, by kind of complaint.
    private var told: [Int] = []
    /// Of the gateways that failed before the present one.
    private var settledTooEarly = 0

    private static var clock: Double { Double(DispatchTime.now().uptimeNanoseconds) / 1e9 }

    /// Opens the gateway's connections; `answers` keeps what the gateway says, and all apps of a run share its `lease`,
    /// each under its `number`.
    init(
        _ app: ProviderTarget, _ plan: SendPlan, queue: PushQueue, gateway: ProviderPlan,
        answers: KeptAnswers, lease: SenderLease, number: Int, _ context: RunContext
    ) throws {
        (self.app, self.plan, self.context) = (app, plan, context)
        (self.queue, self.answers, target) = (queue, answers, gateway)
        (self.lease, self.number) = (lease, number)
        self.gateway = try Provider(gateway) { lease.isValid(for: number) }
        state = SendState(
            app.partition, gateway: target.name, limit: plan.limit, rate: plan.rate,
            resendUnknown: plan.resendUnknown, window: gateway.loadWindow)
        limiter = plan.rate.map { RateLimit(perSecond: $0) }
    }

    /// How a turn ended.
    enum Turn {
        /// Nothing is due, or a limit is reached.
        case exhausted
        /// There is more to send; other apps come first.
        case paused
        /// It goes on after the other apps.
        case waiting
        /// A failure prevents sending more.
        case stopped(RunFailure)
        /// The gateway has failed; it may be tried again later.
        case unserved(RunFailure)
    }

    /// A turn that goes on with the next call.
    private struct OpenTurn {
        let ends: Double
        /// Whether nothing more is due.
        var isExhausted = false
    }

    /// The app's part of the report.
    var entry: SendReport.App {
        var entry = state.entry
        entry.late = late
        return entry
    }

    /// Rows called sent that late error packets proved dropped, at the least.
    private var late: Int { settledTooEarly + gateway.settledTooEarly }

    /// Rows and bytes in memory.
    var load: SendLoad { state.load }
    /// Outages of the gateway one after the other.
    var outages: Int { state.outages }

    /// Sends what is due for a turn of `turnSeconds`, and waits for what is in flight. Beside other apps it returns after
    /// `slice` seconds, or once the run is told to stop, with rows under way; the next call goes on with the same turn.
    /// So no gateway, silent or busy, keeps the other apps waiting.
    ///
    /// - Throws: failures of database and journal; rows without a written result are taken over
    ///   when their lease ends.
    func drain(slice: Double? = nil) throws -> Turn {
        var turn = interrupted ?? OpenTurn(ends: Self.clock + Self.turnSeconds)
        interrupted = nil
        let sliceEnds = slice.map { Self.clock + $0 }
        while true {
            if slice != nil, context.interrupt.isTripped { return pause(turn) }
            try lookAround()
            let isOver = turn.isExhausted || Self.clock > turn.ends
            if !isOver, let place = state.freePlace { turn.isExhausted = try !claim(place) }
            try handOver()
            give()
            let isIdle = state.isIdle
            if !isIdle || !state.isEmpty {
                try takeOutcomes(claimsMore: !isOver, slice: slice)
            }
            try flush(all: isIdle, decides: isIdle && (isOver || state.isFull))
            if isIdle, state.isEmpty, isOver || state.stop != nil {
                if let stop = state.stop {
                    return state.isOutage ? .unserved(stop) : .stopped(stop)
                }
                return turn.isExhausted ? .exhausted : .paused
            }
            if let sliceEnds, Self.clock > sliceEnds { return pause(turn) }
        }
    }

    /// Keeps a turn for the next call.
    private func pause(_ turn: OpenTurn) -> Turn {
        interrupted = turn
        return .waiting
    }

    /// Whether rows are under way, or a turn in which more may be due.
    var isUnderWay: Bool {
        !state.isIdle || !state.isEmpty || interrupted.map { !$0.isExhausted } ?? false
    }

    /// Connects anew after the gateway has failed.
    func startAgain() throws {
        gateway.stop()
        settledTooEarly += gateway.settledTooEarly
        let (lease, number) = (lease, number)
        gateway = try Provider(target, hasConnected: gateway.hasConnected) {
            lease.isValid(for: number)
        }
        state.startAgain()
        lossOfLease = nil
        lease.release(number)
    }

    /// Closes the connections; rows still on the wire have their outcome written. Where the database is
    /// lost, the outcomes are kept for the next run.
    func finish(storeIsLost: Bool = false) throws {
        returnUnsent()
        gateway.stop(abruptly: context.interrupt.isTripped)
        try record(gateway.outcomes(within: 0))
        defer { answers.sync() }
        guard storeIsLost else { return try flush(all: true, decides: true) }
        _ = decide(isDue: true, now: true)
        keep()
        // The next run judges them.
        state.entry.evidence.tuples += unjudged + state.unwrittenReports
    }

    /// Whether answers wait for another run, because the database does not take them.
    var hasKeptAnswers: Bool { answers.isWaiting }

    /// Warnings while the run goes on; each count is repeated when it has grown.
    func warnings() -> [String] {
        let complaints = state.complaints(late: late)
        defer { told = complaints.map(\.count) }
        return complaints.enumerated().compactMap { kind, complaint in
            complaint.count > (kind < told.count ? told[kind] : 0) ? complaint.sentence : nil
        }
    }

    /// Failures that end the run without success though the queue was drained.
    func shortcomings() -> [RunFailure] {
        var failures = answers.failure.map { [RunFailure.wrapping($0, at: .state)] } ?? []
        if let lossOfLease, state.stop != lossOfLease { failures.append(lossOfLease) }
        let complaints = state.complaints(late: late)
        told += repeatElement(0, count: max(0, complaints.count - told.count))
        for (kind, complaint) in complaints.enumerated() where complaint.count > 0 {
            guard let exit = complaint.exit else { continue }
            failures.append(RunFailure(exit, .send, complaint.sentence))
            told[kind] = complaint.count
        }
        // A sender that follows has claimed them again.
        if !state.unprocessed.isEmpty, state.stop == nil, !plan.follows {
            failures.append(
                RunFailure(
                    .pending, .send,
                    "sending for \(app.partition): \(target.name) did not process "
                        + "\(state.unprocessed.count.counting("notification")), however often they were "
                        + "sent; they wait in the queue, run again to continue"))
        }
        return failures
    }

    /// Ends a turn; gives the batches of what was heard in it, to be judged.
    func closeBatches() throws -> [ReportBatch] {
        let closed = try queue.closeBatches()
        unjudged = 0
        return closed
    }

    /// Counts what became of this app's evidence.
    func count(_ evidence: Counts) { state.entry.evidence += evidence }

    /// Counts rows taken over from senders that ended.
    func count(reclaimed: Int) { state.entry.reclaimed += reclaimed }

    // MARK: Looking around

    private func lookAround() throws {
        if lease.isDue { try lease.renew { try queue.renewLeases() } }
        if lease.isLost(for: number), lossOfLease == nil {
            let loss = lost("all results")
            lossOfLease = loss
            _ = state.halt(loss, isOutage: true)
            // Nothing more of theirs may reach the gateway.
            gateway.stop(abruptly: true)
            returnUnsent()
        }
        if context.interrupt.isTripped { beginStop() }
        if state.stop == nil, let failure = gateway.failure {
            halt(
                RunFailure(exit(after: failure), .send, "sending for \(app.partition): \(failure)"),
                isOutage: failure.code != .configuration)
        }
        if let stopBy, Self.clock > stopBy, state.load.rows > 0 { gateway.stop(abruptly: true) }
        context.progress.show("sending \(app.partition)", state.entry.claimed, of: plan.limit)
    }

    private func lost(_ what: String) -> RunFailure {
        RunFailure(
            .pending, .send,
            "sending for \(app.partition): the lease of \(plan.leaseSeconds) s ended before "
                + "\(what) were written, and another sender has the rows; raise send.lease")
    }

    /// Sends nothing more, because the run is told to stop, and gives what is on the wire its grace from now on.
    func beginStop() {
        guard stopBy == nil else { return }
        halt(
            RunFailure(
                .pending, .send,
                "sending for \(app.partition): told to stop; the rest "
                    + "waits in the queue, run again to continue"))
        stopBy = Self.clock + target.graceSeconds
    }

    private func exit(after failure: ProviderFailure) -> ExitStatus {
        switch failure.code {
        case .unreachable: .unreachable
        case .unanswering: state.doubt.hasAnswered ? .pending : .unreachable
        case .protocolBroken: .protocolBroken
        case .configuration: .configuration
        }
    }

    /// Sends nothing more: what no connection has sent goes back to the queue.
    private func halt(_ failure: RunFailure, isOutage: Bool = false) {
        if state.halt(failure, isOutage: isOutage) { returnUnsent() }
    }

    private func returnUnsent() {
        state.withdraw(gateway.withdraw())
        state.returnUnsent()
    }

    // MARK: To the wire and back

    /// Claims the next batch; false when nothing is due or the limit is reached.
    private func claim(_ place: Int) throws -> Bool {
        let rows = state.claimSize
        guard rows > 0,
            let claim = try timed(
                "claim",
                {
                    try queue.claim(app.stored, limit: rows, from: &cursor) {
                        context.interrupt.isTripped
                    }
                })
        else { return false }
        // What cannot be asked clears no suspicion, and nothing else depends on it.
        let suspected = timed("claim") { (try? queue.suspected(among: claim)) ?? [] }
        state.take(claim, at: place, now: context.now(), suspected: suspected)
        holdClaims()
        return true
    }

    /// Writes the next slice of a claim down as handed over. Done as late as can be: a row that was not handed over
    /// has no unknown outcome, whatever happens.
    private func handOver() throws {
        guard isOurs,
            let (claim, rows) = state.nextHandOver(
                streams: gateway.streams, pace: { limiter?.allowance(at: Self.clock) })
        else { return }
        let slice = try timed("hand-over") { try queue.handOver(claim, rows: rows) }
        state.handedOver(slice, at: context.now())
        holdClaims()
    }

    private var isOurs: Bool { lease.isValid(for: number) }

    private func holdClaims() { lease.hold(state.openClaims, for: number) }

    /// Gives the connections what the detector and the rate allow.
    private func give() {
        guard isOurs else { return }
        let items = state.nextItems { limiter?.allowance(at: Self.clock) }
        guard !items.isEmpty else { return }
        limiter?.spend(items.count)
        gateway.submit(items)
    }

    private func takeOutcomes(claimsMore: Bool, slice: Double?) throws {
        let most = slice.map { max(1, Int($0 * 1_000)) } ?? Self.answerWait
        let wait = claimsMore && state.mayClaimSoon ? min(2, most) : most
        try record(timed("answers") { gateway.outcomes(within: wait) })
    }

    private func record(_ outcomes: [ProviderOutcome]) throws {
        let now = context.now()
        for outcome in outcomes where state.record(outcome, at: now) { returnUnsent() }
        if !outcomes.isEmpty { keep() }
        guard state.isInDoubt else { return }
        // What is on no connection yet must not follow into the silence.
        state.withdraw(gateway.withdraw())
        if state.judgeGateway() { returnUnsent() }
    }

    // MARK: Writing

    /// Writes the results of batches that have all of theirs, and once a second of the others. With
    /// `decides` the results that wait for the detector do not wait any longer.
    private func flush(all: Bool, decides: Bool) throws {
        let isDue = all || (Self.clock - lastFlush) * 1_000 > Self.flushAfter
        if isDue { lastFlush = Self.clock }
        if decides, state.judgeGateway(atEnd: true) { returnUnsent() }
        let places = decide(isDue: isDue, now: decides)
        keep()
        timed("evidence") { answers.syncReports() }
        for place in places {
            if let lost = try write(place) { halt(lost) }
            state.releaseIfDone(place)
        }
        if !places.isEmpty { holdClaims() }
    }

    /// Decides about the rows that wait in the batches whose results are to be written; gives their places.
    private func decide(isDue: Bool, now: Bool) -> [Int] {
        let decision = state.suspectDecision
        let places = state.placesToWrite(isDue: isDue)
        for place in places {
            state.decideSuspects(at: place, decision, now: now)
            state.decideRefusals(at: place, now: now)
        }
        return places
    }

    /// Keeps all answers in the log. It is done before any result is written, so that a database that takes none
    /// loses none.
    private func keep() {
        timed("evidence") { answers.keep(state.takeUnkept()) }
    }

    /// Writes a batch's results. The failure if another sender has its rows.
    private func write(_ place: Int) throws -> RunFailure? {
        guard var batch = state.batch(at: place) else { return nil }
        // Forgotten only after they are written, so that a failure leaves them for the next try.
        let results = batch.results
        guard !results.isEmpty else { return nil }
        let missing = try timed("results") {
            try queue.record(
                results, of: &batch.claim, heard: batch.heard, from: state.origin)
        }
        unjudged += batch.heard.deadCount
        state.wrote(batch.claim, at: place)
        if state.isWritten(place) { answers.release(batch.claim.number) }
        guard let missing else {
            return lost(results.count.counting("result"))
        }
        state.count(results, missing: missing)
        return nil
    }

    /// Does something and adds its time to the report.
    private func timed<T>(_ stage: String, _ work: () throws -> T) rethrows -> T {
        let start = Self.clock
        defer { state.entry.seconds[stage, default: 0] += Self.clock - start }
        return try work()
    }
}

extension Sequence<HeardReport> {
    /// How many call a token dead.
    var deadCount: Int { count { !$0.source.isAboutSuspects } }
}
