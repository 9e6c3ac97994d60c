import APNsConnection
import APNsProtocol
import EvidenceJournal
import PushQueue
import TokenHygiene

/// A claim in progress, with the outcomes of its rows so far and the results to write.
struct SendBatch {
    /// The rows.
    var claim: Batch
    /// When it was handed to the wire, by the database's clock.
    var handedAt: EpochMilliseconds
    /// Its index among the batches in progress.
    let place: Int
    /// Number of rows without an outcome.
    private(set) var outstanding: Int
    /// Tokens that APNs called bad before, of which it counts that it accepts them.
    private let suspected: Set<DeviceToken>
    /// Length of each row's payload in bytes.
    private(set) var sizes: [Int]
    /// Results to write into the queue.
    private(set) var results: [DeliveryResult] = []
    /// Results that wait for the mismatch detector.
    private(set) var suspects: [Suspect] = []
    /// Results that wait for an answer about another row.
    private(set) var refusals: [(result: DeliveryResult, postponed: Outcome)] = []
    /// Results that the log of answers does not have yet; of a suspect what follows if nothing more is
    /// known of it.
    private var unkept: [DeliveryResult] = []
    /// What the answers of the results say against tokens. It is written with them.
    private(set) var heard: [HeardReport] = []
    /// Of these, what the log of answers does not have yet.
    private var unkeptReports: [HeardReport] = []

    /// A result that is final only if the mismatch detector finds no mismatch.
    struct Suspect {
        let result: DeliveryResult
        /// The row's result when the detector has too few answers to decide.
        let deferred: Outcome
        /// What is heard with a final result; nil where the token is not what was called bad.
        let report: HeardReport?
    }

    /// The decision about suspects.
    enum SuspectDecision {
        /// The tokens are bad: the results are final.
        case bad
        /// The settings are wrong, or sending stopped before the detector decided: the rows go back.
        case returned
        /// The answers are too few to decide: the rows are tried again later.
        case deferred
    }

    /// Makes a batch. `suspected` are those of its tokens that APNs called bad before.
    init(
        _ claim: Batch, place: Int, handedAt: EpochMilliseconds,
        suspected: Set<DeviceToken> = []
    ) {
        (self.claim, self.suspected) = (claim, suspected)
        self.place = place
        self.handedAt = handedAt
        outstanding = claim.notifications.count
        sizes = claim.notifications.map(\.payload.count)
    }

    /// Keeps the first rows, which are handed over as `slice` at a time. The others, with a claim of their own, become
    /// a batch at another place; nil where there are none.
    mutating func divide(
        _ slice: Batch, rest: Batch?, at handedAt: EpochMilliseconds, restPlace: Int
    ) -> SendBatch? {
        let other = rest.map {
            SendBatch($0, place: restPlace, handedAt: handedAt, suspected: suspected)
        }
        claim = slice
        self.handedAt = handedAt
        outstanding = slice.notifications.count
        sizes = Array(sizes.prefix(outstanding))
        return other
    }

    /// The key by which a provider identifies the row at an index.
    static func key(place: Int, index: Int) -> UInt64 { UInt64(place) << 32 | UInt64(index) }

    /// The place and index of a key.
    static func position(_ key: UInt64) -> (place: Int, index: Int) {
        (Int(key >> 32), Int(key & 0xFFFF_FFFF))
    }

    /// The number of rows that were to be sent.
    var rows: Int { sizes.count }

    /// Length of all payloads in bytes.
    var size: Int { sizes.reduce(0, +) }

    /// The notifications for the connections, with their payloads, which leave the batch.
    mutating func takeItems() -> [PushNotification] {
        var items = claim.takePayloads()
        for index in items.indices { items[index].key = Self.key(place: place, index: index) }
        return items
    }

    /// Adds the consequences of one row's outcome, which was heard at a time of the database's clock; nil for
    /// one that nobody gave.
    mutating func decide(
        _ index: Int, _ judgement: DeliveryRules.Judgement, at heard: EpochMilliseconds?
    ) {
        let row = claim.notifications[index]
        outstanding -= 1
        let result = DeliveryResult(key: row.row, judgement.result)
        let report = judgement.evidence.map {
            HeardReport(
                row: row.row, token: row.token, source: $0.source, time: $0.time, heard: heard)
        }
        if judgement.isSuspect {
            let deferred = DeliveryRules.deferral(
                reason: judgement.result.reason ?? "", attempts: row.attempts)
            suspects.append(Suspect(result: result, deferred: deferred, report: report))
            unkept.append(DeliveryResult(key: row.row, deferred))
        } else if let refusal = judgement.refusal {
            refusals.append((result, refusal.postponed))
            unkept.append(DeliveryResult(key: row.row, .returned))
        } else {
            results.append(result)
            unkept.append(result)
        }
        guard let report, !judgement.isSuspect,
            report.source != .accepted || suspected.contains(row.token)
        else { return }
        hear([report])
    }

    private mutating func hear(_ reports: [HeardReport]) {
        heard += reports
        unkeptReports += reports
    }

    /// Decides about the suspects. Returns how many rows wait for a later run.
    mutating func decide(_ decision: SuspectDecision) -> Int {
        defer { suspects = [] }
        let decided: [DeliveryResult] =
            switch decision {
            case .bad: suspects.map(\.result)
            case .returned: suspects.map { DeliveryResult(key: $0.result.key, .returned) }
            case .deferred: suspects.map { DeliveryResult(key: $0.result.key, $0.deferred) }
            }
        results += decided
        if decision == .bad { hear(suspects.compactMap(\.report)) }
        guard decision == .deferred else {
            unkept += decided
            return 0
        }
        return suspects.count { $0.deferred.state == .retry }
    }

    /// Decides about refused rows: they have had their attempt if the gateway serves others, and keep the
    /// number of their attempts if it does not.
    mutating func decideRefusals(gatewayServes: Bool) {
        let decided = refusals.map {
            gatewayServes ? $0.result : DeliveryResult(key: $0.result.key, $0.postponed)
        }
        refusals = []
        results += decided
        // To the log a row that keeps its attempts is one that waits.
        if gatewayServes { unkept += decided }
    }

    /// The answers that the log does not have yet; it has them from now on.
    mutating func takeUnkept(from origin: ReportOrigin) -> KeptResults? {
        guard !unkept.isEmpty || !unkeptReports.isEmpty else { return nil }
        defer {
            unkept.removeAll(keepingCapacity: true)
            unkeptReports.removeAll(keepingCapacity: true)
        }
        return KeptResults(claim: claim.number, from: origin, unkept, heard: unkeptReports)
    }

    /// Whether a result waits for the mismatch detector or for an answer about another row.
    var isUndecided: Bool { !suspects.isEmpty || !refusals.isEmpty }

    /// Whether every row has its result written.
    var isSettled: Bool { outstanding == 0 && !isUndecided && results.isEmpty }

    /// Drops the results and reports after the database has stored them.
    mutating func forgetResults() {
        results.removeAll(keepingCapacity: true)
        heard.removeAll(keepingCapacity: true)
    }
}
