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
        self.journal = journal
        self.log = log
        self.run = run
        self.partition = partition
        self.source = source
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
            do {
                try bytes.withUnsafeBytes { try capture.append($0) }
            } catch let error as JournalFailure {
                throw error
            } catch {
                throw JournalFailure(.inputOutput, "keeping answers: \(error)")
            }
        }
    }

    /// Keeps results in the log. They outlast this process when this returns.
    mutating func keep(_ results: [KeptResults]) {
        guard let log, logFailure == nil, !results.isEmpty else { return }
        do throws(JournalFailure) {
            try log.keep(results)
        } catch {
            logFailure = error
        }
    }

    /// Notes that the queue has all results of a claim that the log has, or will never have them.
    mutating func release(_ claim: Int64) {
        guard let log, logFailure == nil else { return }
        do throws(JournalFailure) {
            try log.release(claim)
        } catch {
            logFailure = error
        }
    }

    /// Lets the log outlast a power cut, because its answers have to wait for another run.
    mutating func syncLog() {
        guard let log, logFailure == nil, log.isWaiting else { return }
        do throws(JournalFailure) {
            try log.sync()
        } catch {
            logFailure = error
        }
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

    /// The entry of a feed, less the counts that were added before.
    mutating func news(in entry: FeedReport) -> FeedReport {
        guard let name = entry.feed else { return entry }
        var news = entry
        if let known = waiting[name] { news.counts -= known }
        waiting[name] = entry.isApplied ? nil : entry.counts
        return news
    }
}
