import APNsProtocol
import EvidenceJournal
import TokenHygiene

/// Stores the evidence of answers in the journal, one feed per reason. A feed is opened with its
/// first record and closed when it is to be applied. Keeps the results of all answers in the log until
/// the queue has them.
struct AnswerCapture {
    private let journal: EvidenceJournal
    private let run: String
    private let partition: Partition
    private let source: String
    private var captures: [EvidenceSource: FeedCapture] = [:]
    /// The log of answers, shared by all apps of the run; nil where nothing is kept.
    private let log: AnswerLog?
    /// Why the log does not take answers any more. Sending goes on, because the queue has the results
    /// a moment later.
    private(set) var logFailure: JournalFailure?

    init(
        _ journal: EvidenceJournal, run: String, partition: Partition, source: String,
        log: AnswerLog? = nil
    ) {
        (self.journal, self.run, self.log) = (journal, run, log)
        (self.partition, self.source) = (partition, source)
    }

    /// Whether no record was stored since the last `close`.
    var isEmpty: Bool { captures.isEmpty }

    /// Stores records. They are durable when this returns.
    mutating func keep(
        _ records: [(source: EvidenceSource, record: AnswerRecord)], at now: EpochMilliseconds
    ) throws(JournalFailure) {
        var bytes: [EvidenceSource: [UInt8]] = [:]
        for (source, record) in records { record.encode(into: &bytes[source, default: []]) }
        for (source, bytes) in bytes {
            let capture = try open(source, at: now)
            try bytes.span.bytes.withUnsafeBytes { (bytes) throws(JournalFailure) in
                try capture.append(bytes)
            }
        }
    }

    /// Uses the log. What it keeps outlasts this process.
    private mutating func withLog(_ body: (AnswerLog) throws(JournalFailure) -> Void) {
        guard let log, logFailure == nil else { return }
        do throws(JournalFailure) { try body(log) } catch { logFailure = error }
    }

    /// Keeps results in the log, by one write. They outlast this process when this returns.
    mutating func keep(_ results: [KeptResults]) {
        guard !results.isEmpty else { return }
        withLog { log throws(JournalFailure) in
            try log.keep(results.map { ($0.claim, $0.encoded) })
        }
    }

    /// Notes that the queue has all results of a claim that the log has, or will never have them.
    mutating func release(_ claim: Int64) {
        withLog { log throws(JournalFailure) in try log.release(claim) }
    }

    /// Lets the log outlast a power cut, because its answers have to wait for another run.
    mutating func syncLog() {
        withLog { log throws(JournalFailure) in if log.isWaiting { try log.sync() } }
    }

    private mutating func open(
        _ source: EvidenceSource, at now: EpochMilliseconds
    ) throws(JournalFailure) -> FeedCapture {
        if let known = captures[source] { return known }
        let capture = try journal.beginFeed(
            run: run, partition: partition, source: self.source, kind: source, at: now)
        captures[source] = capture
        return capture
    }

    /// Closes the open feeds, so that they can be applied. Returns their names.
    mutating func close(at now: EpochMilliseconds) throws(JournalFailure) -> [String] {
        var names: [String] = []
        for capture in captures.values {
            try capture.close(.file, at: now)
            names.append(capture.id)
        }
        captures = [:]
        return names.sorted()
    }
}

/// Counts feeds of answers by their present state. A held feed is processed again once it is
/// released, and a failed one in the next round. Its earlier counts must not be added twice.
struct EvidenceTally {
    /// The counts of feeds that are not applied.
    private var waiting: [String: Counts] = [:]

    /// The counts of a feed, less those that were added before.
    mutating func news(in entry: FeedReport) -> Counts {
        guard let name = entry.feed else { return entry.counts }
        var news = entry.counts
        if let known = waiting[name] { news -= known }
        waiting[name] = entry.isApplied ? nil : entry.counts
        return news
    }
}

// The results of a claim as the log of answers has them: one record for each claim and write.
//
//   1 byte   the form, 1
//   8 bytes  the claim, big-endian
//   and for each result
//   8 bytes  the row's key, big-endian
//   1 byte   the outcome
//   4 bytes  the seconds to wait, big-endian; of a retry only
//   1 byte   the length of the reason, and the reason; of those that have one only
//
// A suspect's result waits for the mismatch detector. Its record says what follows if the detector never
// speaks: the row is tried again later. A decision adds another record, and the last one counts.

/// Results of rows of one claim.
struct KeptResults: Hashable, Sendable {
    private static let form: UInt8 = 1
    /// The most results of a record.
    static let most = 4_096

    /// The claim's number.
    let claim: Int64
    /// The results, in the order in which they became known.
    let results: [DeliveryResult]

    init(claim: Int64, _ results: [DeliveryResult]) {
        (self.claim, self.results) = (claim, results)
    }

    /// The states of results by their codes. Those before `gone` have no reason.
    private static let states: [DeliveryState] = [
        .sent, .pending, .gone, .failed, .unknown, .retry, .skipped,
    ]

    /// The content of a record.
    var encoded: [UInt8] {
        var bytes = [Self.form]
        bytes.reserveCapacity(9 + results.count * 9)
        Self.append(claim, to: &bytes)
        for result in results {
            let (outcome, code) = (
                result.outcome, Self.states.firstIndex(of: result.outcome.state) ?? 1
            )
            Self.append(result.key, to: &bytes)
            bytes.append(UInt8(code))
            if outcome.state == .retry {
                Self.append(UInt32(clamping: outcome.wait ?? 0), to: &bytes)
            }
            guard code >= 2 else { continue }
            let reason = outcome.reason ?? ""
            bytes.append(UInt8(reason.utf8.count))
            bytes += reason.utf8
        }
        return bytes
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// Decodes a record; nil where it has another form.
    init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        guard rest.popFirst() == Self.form, let claim = Self.number(&rest, as: Int64.self) else {
            return nil
        }
        var results: [DeliveryResult] = []
        while !rest.isEmpty {
            guard let key = Self.number(&rest, as: Int64.self), let outcome = Self.outcome(&rest)
            else { return nil }
            results.append(DeliveryResult(key: key, outcome))
        }
        self.init(claim: claim, results)
    }

    private static func outcome(_ rest: inout ArraySlice<UInt8>) -> Outcome? {
        guard let code = rest.popFirst(), code < states.count else { return nil }
        let state = states[Int(code)]
        var wait: Int?
        if state == .retry {
            guard let seconds = number(&rest, as: UInt32.self) else { return nil }
            wait = Int(seconds)
        }
        guard code >= 2 else { return Outcome(state) }
        guard let count = rest.popFirst(), rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        let reason = String(decoding: rest.prefix(Int(count)), as: UTF8.self)
        return Outcome(state, reason: reason, wait: wait)
    }

    private static func number<N: FixedWidthInteger>(
        _ rest: inout ArraySlice<UInt8>, as type: N.Type
    ) -> N? {
        let count = N.bitWidth / 8
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | N(truncatingIfNeeded: $1) }
    }
}

extension AnswerLog {
    /// The results that a sender of this folder has left, by claim in the order of the file, up to a
    /// record that is damaged.
    func leftResults() throws(JournalFailure) -> (results: [KeptResults], isDamaged: Bool) {
        var order: [Int64] = []
        var results: [Int64: [DeliveryResult]] = [:]
        let read = try records()
        var isDamaged = read.isDamaged
        for content in read.records {
            guard let kept = KeptResults(content) else {
                isDamaged = true
                break
            }
            if results[kept.claim] == nil { order.append(kept.claim) }
            results[kept.claim, default: []] += kept.results
        }
        return (order.map { KeptResults(claim: $0, results[$0] ?? []) }, isDamaged)
    }
}
