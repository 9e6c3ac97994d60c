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
    /// Whether nothing was removed from these rows before, so that many at once are usual.
    var isFirstLook = false

    /// The cause in words, which the journal keeps.
    var words: String { cause.words(isFirstLook: isFirstLook) }
}

extension GuardCause {
    /// The cause in words. A first removal is called what it is: all that died in the years before a
    /// table was ever swept comes at once, and that is no sign of a mistake.
    func words(isFirstLook: Bool) -> String {
        isFirstLook
            ? "this is the first look at an old table, where nothing was removed in 30 days: \(self)"
            : "\(self)"
    }

    /// Whether many removals at once are the whole cause, and no evidence was ever applied to these rows.
    /// Where that is not known, as without a right to read the checkpoints, it is no first look.
    func isFirstLook(after history: RemovalHistory) -> Bool {
        [.volume, .partitionShare, .dayShare].contains(gate) && history.isAny == false
    }
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
        let proposal = try RemovalProposal(
            forecast, tuples: evidence.counts.tuples, outOfBounds: evidence.outOfBounds,
            evidence.tokens, areDated: evidence.feed.kind == .feedback, plan.policy)
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
        return cause.map {
            GuardHold(
                cause: $0, candidates: forecast.candidateRows,
                isFirstLook: $0.isFirstLook(after: history))
        }
    }

    /// Holds a feed in the journal and logs why.
    func keep(_ feed: CapturedFeed, _ hold: GuardHold) throws {
        try journal.close(
            feed.id, as: .held, cause: hold.words, gate: hold.cause.gate, at: context.now())
        guard hold.cause.gate != .behind else { return }
        context.log.warning(
            """
            \(feed.partition) is held: \(hold.words); nothing of it was applied, look at it with: \
            pushsweep holds show \(feed.id)
            """)
    }
}

extension RemovalProposal {
    /// What some evidence would do by a forecast. An answer without a time from APNs has the time of its
    /// batch, so only dated evidence shows how many tokens died at one time.
    init(
        _ forecast: Classification, tuples: Int, outOfBounds: Int, _ tokens: SortedEvidence,
        areDated: Bool, _ policy: RemovalPolicy
    ) throws {
        self.init(
            candidates: forecast.candidateRows, counts: forecast.counts, tuples: tuples,
            outOfBounds: outOfBounds, tokens: tokens.count,
            tokensAtOneTime: areDated ? try tokens.tokensAtOneTime() : 0,
            deletes: policy.action == .delete)
    }
}

extension FeedReport {
    /// Copies the guard's reasons for the hold.
    mutating func enter(_ hold: GuardHold) {
        gate = hold.cause.gate.rawValue
        cause = hold.words
        firstLook = hold.isFirstLook ? true : nil
        candidates = hold.candidates
    }
}
