import Database
import EvidenceJournal
import Synchronization
import TokenHygiene
import TokenTable

/// The guard's decision to hold a feed.
struct GuardHold {
    let cause: GuardCause
    /// Living rows that would become invalid; nil when the rows were not examined.
    let candidates: Int?
}

/// Collects the guard's decisions of one run, as short text for the run's record.
final class GuardLog: Sendable {
    private static let longest = 255

    /// The decisions to hold; nil before the guard was asked.
    private let held = Mutex<[String]?>(nil)

    /// Adds the decision about a feed.
    func note(_ hold: GuardHold?, about partition: Partition, asked: Bool) {
        held.withLock { held in
            if asked { held = held ?? [] }
            guard let hold else { return }
            let text = "\(partition) \(hold.cause.gate.rawValue)"
            if held?.contains(text) == false { held?.append(text) }
        }
    }

    /// `passed`, or `held` with the partitions and gates; nil when the guard was not asked.
    var summary: String? { held.withLock { $0.map(Self.summary) } }

    /// The same text for partitions and the gates that hold them.
    static func summary(_ held: [String]) -> String {
        held.isEmpty
            ? "passed" : String("held: \(held.joined(separator: ", "))".prefix(longest))
    }
}

extension JournalApplier {
    /// The hold of the feed's partition by another feed; nil when there is none.
    func holdBehind(_ feed: CapturedFeed) throws -> GuardHold? {
        guard let holder = try journal.holder(of: feed.partition), holder.id != feed.id else {
            return nil
        }
        return GuardHold(cause: .behind(feed: holder.id), candidates: nil)
    }

    /// Asks the guard about a feed of which nothing is applied yet.
    func ask(
        about evidence: FeedEvidence, _ forecast: Classification, in partition: Partition
    ) throws -> GuardHold? {
        if let hold = try holdBehind(evidence.feed) { return hold }
        guard forecast.counts.total > 0 else { return nil }
        var proposal = RemovalProposal(
            candidates: forecast.candidateRows, counts: forecast.counts,
            tuples: evidence.counts.tuples, outOfBounds: evidence.outOfBounds,
            tokens: evidence.tokens.count, deletes: plan.policy.action == .delete)
        // An answer without a time from APNs has the time of its batch.
        if evidence.feed.kind == .feedback {
            proposal.tokensAtOneTime = try evidence.tokens.tokensAtOneTime()
        }
        let judge = RemovalGuard(plan.limits)
        let history = try store.removals(from: partition)
        let living = store.livingRows(in: partition)
        let cause = try judge.cause(toHold: proposal, after: history) {
            limit throws(StoreFailure) in
            try living.count(atMost: limit)
        }
        if cause == nil, let warning = judge.warning(about: proposal, after: history) {
            context.log.warning(
                "\(evidence.feed.partition): \(warning); it is not held, since guard.floor is \(plan.limits.floor)"
            )
        }
        return cause.map { GuardHold(cause: $0, candidates: forecast.candidateRows) }
    }

    /// Holds a feed in the journal and logs why.
    func keep(_ feed: CapturedFeed, _ hold: GuardHold) throws {
        try journal.close(
            feed.id, as: .held, cause: "\(hold.cause)", gate: hold.cause.gate, at: context.now())
        guard hold.cause.gate != .behind else { return }
        context.log.warning(
            """
            \(feed.partition) is held: \(hold.cause); nothing of it was applied, look at it with: \
            pushsweep holds show \(feed.id)
            """)
    }
}

extension FeedReport {
    /// Copies the guard's reasons for the hold.
    mutating func enter(_ hold: GuardHold) {
        gate = hold.cause.gate.rawValue
        cause = "\(hold.cause)"
        candidates = hold.candidates
    }
}
