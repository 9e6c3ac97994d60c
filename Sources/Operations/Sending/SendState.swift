// One app's rows on their way from the queue to APNs and back, and every decision about them. A value: it
// touches neither the queue nor the wire and reads no clock, so the order of events alone decides. SendJob
// does the I/O and reports what happened.
//
//   claimed --handed over--> ready --given--> on a connection --outcome--> decided --written--> done
//      |                       |  <--withdrawn--   |
//      +-- sending stops: the row goes back -------+  (what is on the wire keeps its outcome)
//
// A row that is handed over may be on the wire, so a killed sender's are of unknown outcome. A claim is therefore
// handed over a slice at a time, in the order of its keys, and a slice only when all before it are given: twice the
// free streams, and never less than an eighth of all streams, so that a busy gateway does not cost a transaction for
// each few rows. At a rate it is what may be given at once: a twentieth to a tenth of a second's worth. The rest of
// the claim stays held, under a number of its own.

import APNsConnection
import APNsProtocol
import EvidenceJournal
import PushQueue
import TokenHygiene

/// The state of one app's sending.
struct SendState {
    /// Rows of a claim.
    static let batchRows = 1_000

    let partition: Partition
    private let limit: Int?
    private let rate: Double?
    /// The gateway's name in messages.
    let gateway: String

    /// The app's part of the report.
    var entry: SendReport.App
    private(set) var rules: DeliveryRules
    private(set) var load: SendLoad
    private(set) var doubt = GatewayDoubt()
    /// The cause that ends the sending; nil while it goes on.
    private(set) var stop: RunFailure?
    /// Whether `stop` is the gateway's fault, so that a later try may succeed.
    private(set) var isOutage = false
    /// Outages one after the other, without an answer between them.
    private(set) var outages = 0
    /// Suspects whose rows wait for a later run.
    private(set) var deferred = 0
    /// Keys of rows that the gateway did not process while sending went on, and that were not claimed again.
    private(set) var unprocessed: Set<Int64> = []
    /// Rows that wait because they were throttled or refused, by reason.
    private(set) var postponed: [String: Int] = [:]
    /// How many of them got no answer of APNs.
    private(set) var refusedByOthers = 0
    /// Answers with a reason that is not on Apple's list, by reason.
    private(set) var unlisted: [String: Int] = [:]
    /// Milliseconds by which the database's clock is ahead of this host's.
    private var databaseAhead: Int64 = 0
    private var batches: [SendBatch?] = []
    /// Rows of the batches.
    private var openRows = 0
    /// Places of batches that are claimed and not handed over.
    private var claimed: [Int] = []
    /// Notifications of handed-over batches that no connection has.
    private var ready: ArraySlice<PushNotification> = []
    private var claimedRows = 0

    init(
        _ partition: Partition, gateway: String, limit: Int? = nil,
        rate: Double? = nil, resendUnknown: Bool = false, window: SendLoad.Window = .provider
    ) {
        load = SendLoad(window)
        (self.partition, self.gateway, self.limit, self.rate) = (partition, gateway, limit, rate)
        entry = SendReport.App(partition)
        rules = DeliveryRules(partition, resendUnknown: resendUnknown)
    }

    // MARK: Claiming

    /// Whether every row that was claimed has its outcome.
    var isIdle: Bool { load.rows == 0 && ready.isEmpty && claimed.isEmpty }

    /// Whether no batch is on its way.
    var isEmpty: Bool { batches.allSatisfy { $0 == nil } }

    /// Whether no other batch may be claimed.
    var isFull: Bool { openRows >= load.window.openRows }

    private var emptyPlace: Int { batches.firstIndex { $0 == nil } ?? batches.count }

    private mutating func put(_ batch: SendBatch?, at place: Int) {
        while batches.count <= place { batches.append(nil) }
        openRows += (batch?.rows ?? 0) - (batches[place]?.rows ?? 0)
        batches[place] = batch
    }

    /// Whether a short wait for outcomes lets the next claim begin sooner.
    var mayClaimSoon: Bool {
        stop == nil && ready.isEmpty && !isFull && load.rows < load.window.rows / 4
    }

    /// Claims that wait to be handed over: the one that is being sliced, and the next.
    private static let mostHeld = 2

    /// The place for another batch; nil where no more rows are of use now. Until the gateway answers, what
    /// was claimed has to be sent first.
    var freePlace: Int? {
        guard stop == nil, load.mayClaim, claimed.count < Self.mostHeld else { return nil }
        if let allowance = doubt.allowance, allowance == 0 || !isIdle { return nil }
        return isFull ? nil : emptyPlace
    }

    /// Rows of the next claim; 0 where a limit is reached.
    var claimSize: Int {
        var rows = rules.detector.allowance ?? Self.batchRows
        if let allowance = doubt.allowance { rows = min(rows, allowance) }
        if let limit { rows = min(rows, limit - claimedRows) }
        // Tokens are looked up when they are claimed, so not long before they are sent.
        if let rate { rows = min(rows, max(1, Int(rate * 2))) }
        return max(0, rows)
    }

    /// Takes a claim in. `suspected` are those of its tokens that APNs called bad before.
    mutating func take(
        _ claim: Batch, at place: Int, now: EpochMilliseconds, suspected: Set<DeviceToken> = []
    ) {
        claimedRows += claim.claimed
        for result in claim.settled { entry.count(result.outcome) }
        guard !claim.notifications.isEmpty else { return }
        if !unprocessed.isEmpty { unprocessed.subtract(claim.notifications.lazy.map(\.row)) }
        let batch = SendBatch(claim, place: place, handedAt: now, suspected: suspected)
        load.claimed(batch.size)
        put(batch, at: place)
        claimed.append(place)
    }

    // MARK: Handing over

    /// The claim of which a slice is to be handed over next, and how many rows; nil where none is, where no stream is
    /// free, where `pace` allows too few, or where the gateway is in doubt. `streams` are those of all connections.
    func nextHandOver(streams: Int, pace: () -> Int?) -> (claim: Batch, rows: Int)? {
        guard stop == nil, ready.isEmpty, let place = claimed.first,
            let claim = batches[place]?.claim,
            case let free = streams - load.rows, free > 0
        else { return nil }
        var rows = min(max(2 * free, streams / 8), load.window.rows - load.rows)
        if let rate, let allowance = pace() {
            guard allowance >= max(1, Int(rate * RateLimit.reserve / 2)) else { return nil }
            rows = min(rows, allowance)
        }
        for allowance in [rules.detector.allowance, doubt.allowance].compactMap({ $0 }) {
            rows = min(rows, allowance - load.rows)
        }
        return rows > 0 ? (claim, rows) : nil
    }

    /// A slice of the next claim is written down as handed over, and its notifications are ready; nil where the claim is
    /// not ours any more. `at` is this host's time.
    mutating func handedOver(_ handOver: PushQueue.HandOver?, at now: EpochMilliseconds) {
        let place = claimed.removeFirst()
        guard var batch = batches[place] else { return }
        guard let handOver else {
            // The lease had ended and others have the rows.
            load.dropped(batch.size)
            return put(nil, at: place)
        }
        databaseAhead = handOver.now.rawValue - now.rawValue
        let restPlace = emptyPlace
        let rest = batch.divide(
            handOver.slice, rest: handOver.rest, at: handOver.now, restPlace: restPlace)
        ready = batch.takeItems()[...]
        put(batch, at: place)
        if let rest {
            put(rest, at: restPlace)
            claimed.insert(restPlace, at: 0)
        }
    }

    /// What the connections get now, as detector, silence and bounds allow and `pace` says; nil is no bound.
    mutating func nextItems(pace: () -> Int?) -> [PushNotification] {
        guard !ready.isEmpty, stop == nil else { return [] }
        var room = load.window.rows
        if let allowance = rules.detector.allowance { room = min(room, allowance - load.rows) }
        if let allowance = doubt.allowance { room = min(room, allowance - load.rows) }
        if let allowance = pace() { room = min(room, allowance) }
        guard room > 0 else { return [] }
        let items = ready.prefix(load.fitting(ready.lazy.map(\.payload.count), rows: room))
        guard !items.isEmpty else { return [] }
        ready = ready.dropFirst(items.count)
        load.given(items.count, Self.size(of: items))
        return Array(items)
    }

    // MARK: Outcomes

    /// Enters an outcome that is heard `at` this host's time; true where it ends the sending, so that unsent rows have
    /// to be returned.
    mutating func record(_ outcome: ProviderOutcome, at now: EpochMilliseconds) -> Bool {
        let (place, index) = SendBatch.position(outcome.key)
        // Not the batch itself: a second holder would make each change copy its results.
        guard let attempts = batches[place]?.claim.notifications[index].attempts,
            let row = batches[place]?.claim.notifications[index].row,
            let handedAt = batches[place]?.handedAt, let size = batches[place]?.sizes[index]
        else { return false }
        load.release(size)
        if outcome.kind == .untouched, stop == nil { unprocessed.insert(row) }
        let request = DeliveryRules.AnsweredRequest(
            handedAt: handedAt, heardAt: now.advanced(by: databaseAhead))
        var judgement = rules.judge(outcome.kind, attempts: attempts, request)
        note(outcome.kind, judgement)
        let ends = judgement.stop.map { halt($0) } ?? false
        if stop != nil, judgement.isSuspect {
            judgement = DeliveryRules.Judgement(.returned)
        }
        batches[place]?.decide(index, judgement, at: request.heardAt)
        return ends
    }

    private mutating func note(
        _ outcome: ProviderOutcome.Kind, _ judgement: DeliveryRules.Judgement
    ) {
        switch judgement.remark {
        case .unlisted(let reason)?: Self.count(reason, in: &unlisted)
        case .impossibleTime?: entry.impossibleTimes += 1
        case nil: break
        }
        if !judgement.isSuspect, judgement.result.state == .retry {
            Self.count(judgement.result.reason ?? "", in: &postponed)
        }
        if let refusal = judgement.refusal {
            if refusal.isForeign { refusedByOthers += 1 }
            if stop == nil {
                doubt.refused(
                    refusal.reason, isOfCredential: refusal.isOfCredential,
                    isForeign: refusal.isForeign)
            }
            return
        }
        switch outcome {
        case .answered, .accepted, .refusedBinary:
            doubt.served()
            outages = 0
        // What is unknown because we ended the connections is not the gateway's doing.
        case .unknown(let why): if stop == nil { doubt.unknown(why, isGarbled: false) }
        case .garbled(let why): if stop == nil { doubt.unknown(why, isGarbled: true) }
        case .untouched, .refused, .unsendable: break
        }
    }

    /// A peer chooses the reasons, and a service runs for weeks, so their number is limited.
    private static func count(_ reason: String, in counts: inout [String: Int]) {
        let isKnown = counts[reason] != nil || counts.count < SendReport.App.mostReasons
        counts[isKnown ? reason : "other", default: 0] += 1
    }

    /// Whether the gateway is in doubt: nothing more may go to it before an answer.
    var isInDoubt: Bool { stop == nil && doubt.allowance == 0 }

    /// The gateway is in doubt and nothing new is on a connection: true where it has failed. `atEnd`:
    /// nothing more is to be sent for now.
    mutating func judgeGateway(atEnd: Bool = false) -> Bool {
        doubt.noteInFlight(load.rows)
        guard stop == nil, let clause = atEnd ? doubt.failureAtEnd : doubt.failure else {
            return false
        }
        return halt(
            RunFailure(
                doubt.exit, .send,
                "sending for \(partition): \(gateway) \(clause); \(doubt.cure)"),
            isOutage: true)
    }

    // MARK: Stopping

    /// Ends the sending; true where it did, so that unsent rows have to be returned.
    mutating func halt(_ failure: RunFailure, isOutage: Bool = false) -> Bool {
        // A wrong setting shows in answers that come while something else has stopped us already.
        if let stop, failure.exit != .configuration || stop.exit == .configuration { return false }
        stop = failure
        self.isOutage = isOutage
        entry.detail = failure.description
        return true
    }

    /// Notifications come back from the connections before any was sent.
    mutating func withdraw(_ items: [PushNotification]) {
        load.withdrawn(items.count, Self.size(of: items))
        if !items.isEmpty { ready = items + ready }
    }

    /// Every row that no connection has goes back to the queue.
    mutating func returnUnsent() {
        for item in ready { giveBack(item.key) }
        load.dropped(Self.size(of: ready))
        ready = []
        for place in claimed {
            load.dropped(batches[place]?.size ?? 0)
            for index in 0..<(batches[place]?.claim.notifications.count ?? 0) {
                giveBack(SendBatch.key(place: place, index: index))
            }
        }
        claimed = []
    }

    private mutating func giveBack(_ key: UInt64) {
        let (place, index) = SendBatch.position(key)
        batches[place]?.decide(index, DeliveryRules.Judgement(.returned), at: nil)
    }

    /// The gateway is tried again after an outage.
    mutating func startAgain() {
        doubt.startAgain()
        outages += 1
        stop = nil
        isOutage = false
        entry.detail = nil
    }

    private static func size(of items: some Sequence<PushNotification>) -> Int {
        items.reduce(0) { $0 + $1.payload.count }
    }
}

// MARK: Results

extension SendState {
    /// Places whose results are to be written: those with all of theirs, and others where `isDue`.
    func placesToWrite(isDue: Bool) -> [Int] {
        batches.indices.filter { place in
            batches[place].map { isDue || $0.outstanding == 0 } ?? false
        }
    }

    /// What is decided now about suspects that do not wait any longer.
    var suspectDecision: SendBatch.SuspectDecision {
        if rules.detector.suspicion != nil || stop?.exit == .configuration { return .returned }
        if hasLooked { return .bad }
        // Cut short before its first look, the detector has not spoken for these tokens.
        if stop != nil { return .returned }
        return rules.detector.vouchesForSettings ? .bad : .deferred
    }

    /// Whether the mismatch detector has seen enough answers to judge.
    var hasLooked: Bool { rules.detector.answers >= MismatchDetector.firstTest }

    /// Decides about the suspects of a batch, if they wait for nothing more.
    mutating func decideSuspects(at place: Int, _ decision: SendBatch.SuspectDecision, now: Bool) {
        guard hasLooked || now || stop != nil else { return }
        deferred += batches[place]?.decide(decision) ?? 0
    }

    /// The batch at a place, with results and reports to be written.
    func batch(at place: Int) -> SendBatch? { batches[place] }

    /// The answers that the log does not have yet; it has them from now on.
    mutating func takeUnkept() -> [KeptResults] {
        let origin = origin
        return batches.indices.compactMap { batches[$0]?.takeUnkept(from: origin) }
    }

    /// Reports that call tokens dead and that the database does not have yet.
    var unwrittenReports: Int { batches.reduce(0) { $0 + ($1?.heard.deadCount ?? 0) } }

    /// Where the reports of this app come from.
    var origin: ReportOrigin { ReportOrigin(partition, gateway: gateway) }

    /// Decides about the refused rows of a batch, once the gateway has served another row or has failed.
    /// With `now` they wait no longer.
    mutating func decideRefusals(at place: Int, now: Bool) {
        guard doubt.isServing || now || stop != nil else { return }
        batches[place]?.decideRefusals(gatewayServes: doubt.isServing || stop == nil)
    }

    /// Whether the queue has all results so far of the batch at a place.
    func isWritten(_ place: Int) -> Bool {
        batches[place].map { $0.results.isEmpty && !$0.isUndecided } ?? true
    }

    /// The numbers of the claims of which some row has no result in the queue.
    var openClaims: Set<Int64> { Set(batches.lazy.compactMap { $0?.claim.number }) }

    /// The batch's results are in the queue, as far as they are still ours.
    mutating func wrote(_ claim: Batch, at place: Int) {
        batches[place]?.claim = claim
        batches[place]?.forgetResults()
    }

    /// Lets a batch go whose every row is done.
    mutating func releaseIfDone(_ place: Int) {
        if let batch = batches[place], batch.isSettled { put(nil, at: place) }
    }

    /// Counts results that were written; `missing` rows are not in the queue any more.
    mutating func count(_ results: [DeliveryResult], missing: Int) {
        entry.missing += missing
        for result in results { entry.count(result.outcome) }
    }
}
