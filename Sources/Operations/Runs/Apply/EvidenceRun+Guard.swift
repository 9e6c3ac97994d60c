import Database
import Findings
import Synchronization
import TokenHygiene
import TokenTable

/// The guard's decision to hold a batch.
struct GuardHold {
    let cause: GuardCause
    /// Living rows that would become invalid; nil when the rows were not examined.
    let candidates: Int?
    /// Whether nothing was removed from these rows before, so that many at once are usual.
    var isFirstRemoval = false
    /// Whether rows would go whose grace period has ended.
    var isOfGrace = false

    /// The cause in words, which the batch keeps.
    var words: String { cause.words(isFirstRemoval: isFirstRemoval, isOfGrace: isOfGrace) }
}

extension GuardCause {
    /// The cause in words. A first removal is called what it is: all that died in the years before a
    /// table was ever swept comes at once, and that is no sign of a mistake.
    func words(isFirstRemoval: Bool, isOfGrace: Bool = false) -> String {
        if isOfGrace {
            return "\(self)".replacing(
                "living rows would have become invalid",
                with: "rows would have gone after their grace period"
            ).replacing(
                "would have become invalid", with: "would have gone after their grace period")
        }
        return isFirstRemoval
            ? "this is the first look at an old table, where nothing was removed in 30 days: \(self)"
            : "\(self)"
    }

    /// Whether many removals at once are the whole cause, and no evidence was ever applied to these rows.
    /// Where that is not known, as without a right to read the checkpoints, it is no first look.
    func isFirstRemoval(after history: RemovalHistory) -> Bool {
        [.volume, .partitionShare, .dayShare].contains(gate) && history.isAny == false
    }
}

/// Collects the guard's decisions of one run, as short text for the run's record.
final class GuardLog: Sendable {
    private static let longest = 255

    /// The decisions to hold; nil before the guard was asked.
    private let held = Mutex<[String]?>(nil)

    /// Adds the decision about a batch.
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

/// What a dry run would have done so far, which the guard counts as done: the batches of one run add up.
final class Foretold: Sendable {
    private let removals = Mutex<[Partition: Int]>([:])
    /// The batch that holds back those of an inlet.
    private let holders = Mutex<[[[UInt8]]: String]>([:])

    /// Notes the forecast of a batch for a partition as the rows name it.
    func note(_ batch: ReportBatch, _ candidates: Int, isHeld: Bool, in partition: Partition) {
        if isHeld {
            holders.withLock { holders in
                holders[batch.inletKey] = holders[batch.inletKey] ?? batch.id
            }
        } else {
            removals.withLock { $0[partition, default: 0] += candidates }
        }
    }

    /// The removals from a partition with those that were foretold.
    func adding(to history: RemovalHistory, of partition: Partition) -> RemovalHistory {
        var history = history
        let foretold = removals.withLock { $0[partition] ?? 0 }
        history.thisHour += foretold
        history.day += foretold
        history.month += foretold
        return history
    }

    /// The batch that would hold back those of an inlet; nil where there is none.
    func holder(of batch: ReportBatch) -> String? {
        holders.withLock { $0[batch.inletKey] }.flatMap { $0 == batch.id ? nil : $0 }
    }
}

extension EvidenceRun {
    /// The hold of the batch's inlet by another batch; nil when there is none.
    func holdBehind(_ batch: ReportBatch) throws -> GuardHold? {
        if let holder = foretold.holder(of: batch) {
            return GuardHold(cause: .behind(batch: holder), candidates: nil)
        }
        // An account of a dry run may see the token table alone.
        guard !plan.dryRun || (try? batches.visibility()) == .readable,
            let holder = try batches.holder(of: batch.partition, batch.inlet),
            holder.id != batch.id
        else { return nil }
        return GuardHold(cause: .behind(batch: holder.id), candidates: nil)
    }

    /// Asks the guard about a batch of which nothing is decided yet.
    func ask(
        about heard: HeardBatch, _ forecast: Classification, in partition: Partition
    ) throws -> GuardHold? {
        let batch = heard.batch
        if let hold = try holdBehind(batch) { return hold }
        guard forecast.counts.total > 0 else { return nil }
        let spread = try heard.spread(in: store)
        var proposal = RemovalProposal(
            forecast, of: [batch], tokens: spread.tokens, atOneTime: spread.atOneTime,
            policy(for: batch))
        let judge = RemovalGuard(plan.limits)
        let isOfGrace = batch.source == .grace
        let removed = try store.removals(from: partition, afterGrace: isOfGrace)
        // A dry run foretells rows that become invalid, and those that go are so already.
        let history = isOfGrace ? removed : foretold.adding(to: removed, of: partition)
        let living = store.livingRows(in: partition)
        let due = isOfGrace ? forecast.candidateRows : 0
        func ask() throws(StoreFailure) -> GuardCause? {
            try judge.cause(toHold: proposal, after: history) { limit throws(StoreFailure) in
                try living.count(atMost: limit) + due
            }
        }
        var cause = try ask()
        if cause?.gate == .unknownTokens, batch.inlet == .file, batch.source != .feedback,
            !plan.dryRun || (try? batches.visibility()) == .readable
        {
            proposal.counts.unknown -= try repeated(by: heard, in: partition)
            cause = try ask()
        }
        if cause == nil, let warning = judge.warning(about: proposal, after: history) {
            context.log.warning(
                "\(batch.partition): \(warning); it is not held, since guard.floor is \(plan.limits.floor)"
            )
        }
        return cause.map {
            GuardHold(
                cause: $0, candidates: forecast.candidateRows,
                isFirstRemoval: $0.isFirstRemoval(after: history), isOfGrace: isOfGrace)
        }
    }

    /// Statements of a log about unknown tokens of which earlier imports said as much.
    private func repeated(by heard: HeardBatch, in partition: Partition) throws -> Int {
        var stream = heard.stream(after: nil, in: store)
        return try store.classify(
            &stream, in: partition, policy: policy(for: heard.batch), repeating: heard.batch.id,
            shouldStop: { context.interrupt.isTripped }
        ).repeated
    }

    /// Holds a batch and logs why.
    func keep(_ heard: HeardBatch, _ hold: GuardHold) throws {
        let batch = heard.batch
        if !heard.isStored {
            var held = heard
            held.batch.hold = BatchHold(cause: hold.words, gate: hold.cause.gate, since: now)
            try store(&held)
        } else if try !batches.hold(
            batch.id, BatchHold(cause: hold.words, gate: hold.cause.gate))
        {
            throw RunFailure(
                .pending, .apply,
                "holding batch \(batch.id): another run judges it meanwhile; run again")
        }
        guard hold.cause.gate != .behind else { return }
        context.log.warning(
            """
            \(batch.partition) is held: \(hold.words); nothing of it was applied, look at it with: \
            pushsweep holds show \(batch.id)
            """)
    }
}

extension RemovalProposal {
    /// What the evidence of some batches would do by a forecast. An answer without a time from APNs has the
    /// time of its batch, so only dated evidence shows how many tokens died at one time.
    init(
        _ forecast: Classification, of batches: [ReportBatch], tokens: Int, atOneTime: Int,
        _ policy: RemovalPolicy
    ) {
        var counts = forecast.counts
        // What a person said no to says nothing about clocks.
        counts.newer -= forecast.spared
        if batches.allSatisfy({ $0.inlet == .earlier || $0.source == .grace }) {
            // They were chosen because they found no row, or by the rows.
            (counts.newer, counts.unknown) = (0, 0)
        }
        self.init(
            candidates: forecast.candidateRows, counts: counts,
            tuples: batches.reduce(0) { $0 + $1.counts.tuples },
            outOfBounds: batches.reduce(0) { $0 + $1.outOfBounds }, tokens: tokens,
            tokensAtOneTime: batches.allSatisfy { $0.source == .feedback } ? atOneTime : 0,
            deletes: policy.action == .delete)
    }
}

extension BatchReport {
    /// Copies the guard's reasons for the hold.
    mutating func enter(_ hold: GuardHold) {
        gate = hold.cause.gate.rawValue
        cause = hold.words
        firstLook = hold.isFirstRemoval ? true : nil
        candidates = hold.candidates
    }
}
