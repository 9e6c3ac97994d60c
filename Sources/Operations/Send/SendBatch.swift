import APNsConnection
import APNsProtocol
import EvidenceJournal
import PushQueue
import TokenHygiene

/// A claim on its way: which of its rows have had an outcome, and what is to be written about them.
struct SendBatch {
    /// The rows.
    var claim: QueueClaim
    /// When it was handed to the wire, by our clock.
    var handedAt: EpochMilliseconds
    /// Its place among the batches on their way.
    let place: Int
    /// Rows without an outcome.
    private(set) var outstanding: Int
    /// Bytes of the payload of each row.
    let sizes: [Int]
    /// Results to be written.
    private(set) var results: [DeliveryResult] = []
    /// Results that wait for the environment gate.
    private(set) var suspects: [Suspect] = []
    /// What the results say about tokens; kept before they are written.
    private(set) var evidence: [(source: EvidenceSource, record: AnswerRecord)] = []

    /// A result that stands only if the environment gate stays open.
    struct Suspect {
        let result: DeliveryResult
        /// What becomes of the row where the gate has not seen enough to tell.
        let deferred: DeliveryResult.Outcome
    }

    /// What is decided about suspects.
    enum Verdict {
        /// The tokens are bad: the results stand.
        case bad
        /// The settings are wrong, or the gate has not spoken and sending stopped: the rows go back.
        case returned
        /// Nobody can tell yet: the rows are tried again later.
        case deferred
    }

    init(_ claim: QueueClaim, place: Int, handedAt: EpochMilliseconds) {
        self.claim = claim
        self.place = place
        self.handedAt = handedAt
        outstanding = claim.notifications.count
        sizes = claim.notifications.map(\.payload.count)
    }

    /// The key under which a provider knows the row at an index.
    static func key(place: Int, index: Int) -> UInt64 { UInt64(place) << 32 | UInt64(index) }

    /// The place and index of a key.
    static func position(_ key: UInt64) -> (place: Int, index: Int) {
        (Int(key >> 32), Int(key & 0xFFFF_FFFF))
    }

    /// Bytes of all payloads.
    var size: Int { sizes.reduce(0, +) }

    /// The rows as a provider takes them; those that APNs would refuse on sight have their result. The
    /// payloads are the items' from now on.
    mutating func items(_ topic: String) -> [ProviderItem] {
        var items: [ProviderItem] = []
        items.reserveCapacity(claim.notifications.count)
        var last: (row: QueuedNotification, attributes: NotificationAttributes)?
        for (index, row) in claim.notifications.enumerated() {
            do throws(RequestRefusal) {
                let attributes: NotificationAttributes
                if let last, row.hasAttributes(of: last.row) {
                    attributes = last.attributes
                } else {
                    attributes = try NotificationAttributes(
                        bundleID: topic, type: row.pushType, priority: row.priority,
                        expiration: row.expiration.map { UInt32(clamping: $0) },
                        collapseID: row.collapseID)
                    last = (row, attributes)
                }
                try attributes.checkPayload(bytes: row.payload.count)
                items.append(
                    ProviderItem(
                        key: Self.key(place: place, index: index), token: row.token,
                        id: APNsID(high: row.apnsID.high, low: row.apnsID.low),
                        attributes: attributes, payload: row.payload))
                claim.dropPayload(index)
            } catch {
                claim.dropPayload(index)
                decide(index, DeliveryRules.Judgement(result: .failed(reason: "\(error.reason)")))
            }
        }
        return items
    }

    /// Takes what follows for the row at an index.
    mutating func decide(_ index: Int, _ judgement: DeliveryRules.Judgement) {
        let row = claim.notifications[index]
        outstanding -= 1
        let result = DeliveryResult(key: row.key, judgement.result)
        if judgement.isSuspect, case .failed(let reason) = judgement.result {
            suspects.append(
                Suspect(
                    result: result,
                    deferred: DeliveryRules.deferral(reason: reason, attempts: row.attempts)))
        } else {
            results.append(result)
        }
        if let found = judgement.evidence {
            evidence.append(
                (found.source, AnswerRecord(token: row.token, time: found.time)))
        }
    }

    /// Decides about the suspects; gives how many wait for a later run.
    mutating func decide(_ verdict: Verdict) -> Int {
        defer { suspects = [] }
        switch verdict {
        case .bad: results += suspects.map(\.result)
        case .returned:
            results += suspects.map { DeliveryResult(key: $0.result.key, .returned) }
        case .deferred:
            results += suspects.map { DeliveryResult(key: $0.result.key, $0.deferred) }
            return suspects.filter { if case .retry = $0.deferred { true } else { false } }.count
        }
        return 0
    }

    /// Whether nothing of it is left to do.
    var isSettled: Bool {
        outstanding == 0 && suspects.isEmpty && results.isEmpty && evidence.isEmpty
    }

    /// The evidence is in the journal.
    mutating func forgetEvidence() { evidence.removeAll(keepingCapacity: true) }

    /// The results are in the queue.
    mutating func forgetResults() { results.removeAll(keepingCapacity: true) }
}

extension QueuedNotification {
    /// Whether another row has the same headers, token and name aside.
    fileprivate func hasAttributes(of other: QueuedNotification) -> Bool {
        pushType == other.pushType && priority == other.priority
            && expiration == other.expiration && collapseID == other.collapseID
    }
}
