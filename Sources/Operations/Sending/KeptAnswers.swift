import EvidenceJournal
import TokenHygiene

/// Keeps the answers of one app in the log of the run until the queue has their results and the database their
/// reports. Sending goes on without the log, because the database has the answers a moment later.
struct KeptAnswers {
    private let log: AnswerLog?
    /// Why the log does not take answers any more.
    private(set) var failure: JournalFailure?

    /// Uses the log that all apps of a run share; nil keeps nothing.
    init(in log: AnswerLog?) { self.log = log }

    private mutating func withLog(_ body: (AnswerLog) throws(JournalFailure) -> Void) {
        guard let log else { return }
        do throws(JournalFailure) { try body(log) } catch { failure = failure ?? error }
    }

    /// Keeps answers by one write. They outlast this process when this returns.
    mutating func keep(_ answers: [KeptResults]) {
        guard !answers.isEmpty, failure == nil else { return }
        withLog { log throws(JournalFailure) in try log.keep(answers) }
    }

    /// Lets what says that a token is dead outlast a power cut.
    mutating func syncReports() {
        withLog { log throws(JournalFailure) in try log.syncReports() }
    }

    /// Notes that the database has all answers of a claim, or will never have its results. Also of a log that has
    /// failed, because what is left in it is written once more by the next run.
    mutating func release(_ claim: Int64) {
        withLog { log throws(JournalFailure) in try log.release(claim) }
    }

    /// Lets the log outlast a power cut, because its answers have to wait for another run.
    mutating func sync() {
        withLog { log throws(JournalFailure) in if log.isWaiting { try log.sync() } }
    }

    /// Whether answers wait in the log for another run.
    var isWaiting: Bool { log?.isWaiting ?? false }
}

/// Counts batches of answers by their present state. A held batch is processed again once it is
/// released, and a failed one in the next round. Its earlier counts must not be added twice.
struct EvidenceTally {
    /// The counts of batches that are not applied.
    private var waiting: [String: Counts] = [:]

    /// The counts of a batch, less those that were added before.
    mutating func news(in entry: BatchReport) -> Counts {
        guard let name = entry.batch else { return entry.counts }
        var news = entry.counts
        if let known = waiting[name] { news -= known }
        waiting[name] = entry.isApplied ? nil : entry.counts
        return news
    }
}
