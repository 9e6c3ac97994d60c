// Applies evidence to rows. The steps are the same for a feed read by this run, one left by an
// earlier run, and one replayed from a file.
//
// Classification comes first and changes nothing. It forecasts the outcome of every token. A dry run
// needs no more, and the guard judges the forecast; feeds that it stops are held. Then, chunk by
// chunk, one transaction judges again under row locks, or changes only rows that are still as it judged
// them, writes the ledger and moves the feed's checkpoint. When a run ends between two chunks, the next
// run continues after the checkpoint. So every tuple is counted once, even though the rows of the first
// half look different by then. The journal records "applied" last.

import APNsProtocol
import Database
import EvidenceJournal
import Foundation
import Synchronization
import TokenHygiene
import TokenTable

/// Applies pending feeds of the journal to the token database.
struct JournalApplier {
    /// Number of tokens above which a second connection gains more than it costs.
    private static let tokensWorthSharing = 5_000

    var journal: EvidenceJournal
    let store: TokenTable
    let plan: SweepPlan
    let context: RunContext
    let run: String
    /// The start of the run, for its records in the database.
    let started: EpochMilliseconds
    /// The lease that fences the changes; nil for dry runs and senders.
    var lease: Lease?
    /// Whether the journal is that of a trial, of which nothing is kept.
    var isTrial = false
    /// The guard's decisions so far.
    let opinions = GuardLog()
    /// The progress of the current feed.
    private let seen = SeenProgress()

    /// What the database records of the run before its end.
    func record(guardResult: String? = nil) -> RunRecord {
        RunRecord(
            id: run, kind: plan.work.kind, started: started, host: context.host,
            operator: context.operator, guardResult: guardResult)
    }

    /// The same for the feeds of another journal.
    func on(_ journal: EvidenceJournal) -> JournalApplier {
        var other = self
        other.journal = journal
        return other
    }

    /// The result of one feed.
    struct Result {
        var entry: FeedReport
        /// The exit code that the feed asks for.
        var status = ExitStatus.done
        /// The failure that left the feed pending, if there was one.
        var failure: RunFailure?

        /// Whether other feeds would fail the same way: the fault is in the database or the journal,
        /// not in this feed.
        var endsRun: Bool {
            guard let failure else { return false }
            return failure.exit != .invariant && failure.stage != .settings
                && failure.stage != .decode
        }
    }

    /// Applies the evidence of one pending feed to the database.
    func apply(_ feed: CapturedFeed) -> Result {
        var result = Result(
            entry: FeedReport(
                feed.partition, source: feed.source, end: feed.end == nil ? .truncated : .clean))
        result.entry.feed = feed.id
        result.entry.state = feed.state.rawValue
        seen.enter(nil)
        do {
            result.status = try apply(feed, into: &result.entry)
        } catch {
            let failure = RunFailure.wrapping(error, at: .apply)
            enterProgress(of: feed, into: &result.entry)
            result.entry.detail = [result.entry.detail, failure.description].compactMap { $0 }
                .joined(separator: "; ")
            (result.status, result.failure) = (failure.exit, failure)
        }
        return result
    }

    /// Enters, after a failure, how much of the feed the database has applied: as it says itself, or as
    /// it was last seen where it does not answer any more.
    private func enterProgress(of feed: CapturedFeed, into entry: inout FeedReport) {
        guard !plan.dryRun else { return }
        store.session.giveUp()
        guard let known = (try? store.progress(of: feed.id)) ?? seen.progress else { return }
        entry.counts = entry.counts.judged(known.counts)
        entry.rowsChanged = known.rowsChanged
    }

    /// The partition of a feed as the rows of the table name it.
    private func partition(of feed: CapturedFeed) throws(RunFailure) -> Partition {
        if let partition = plan.partitions[feed.partition] { return partition }
        throw RunFailure(
            .configuration, .settings,
            "applying feed \(feed.id): the settings no longer name \(feed.partition); name it again "
                + "under apps, then run again")
    }

    private func apply(
        _ feed: CapturedFeed, into entry: inout FeedReport
    ) throws -> ExitStatus {
        let isHeld = feed.state == .held && !plan.releases(feed.id)
        if plan.isRelease, feed.state == .held {
            entry.heldSince = (feed.closedAt ?? feed.opened).rfc3339
            entry.heldCause = feed.cause
        }
        let evidence = try journal.evidence(of: feed, sorting: !isHeld)
        entry.end = evidence.end.rawValue
        entry.detail = evidence.detail
        entry.bytes = feed.bytes
        entry.quarantinedBytes = evidence.quarantinedBytes
        entry.counts = evidence.counts
        if isHeld {
            entry.held = evidence.counts.usable
            entry.gate = feed.gate?.rawValue
            entry.cause = feed.cause
            return .held
        }
        // Its app may be one that the settings do not name.
        if feed.kind == .unusable {
            if !plan.dryRun { try journal.close(feed.id, as: .applied, at: context.now()) }
            entry.state = nil
            return .quarantined
        }
        let judged = try judge(evidence, in: partition(of: feed))
        if let hold = judged.hold {
            entry.enter(hold)
            if !plan.dryRun {
                try keep(feed, hold)
                entry.state = FeedState.held.rawValue
                entry.held = evidence.counts.usable
                return .held
            }
        }
        entry.counts = evidence.counts.judged(judged.progress.counts)
        entry.rowsChanged = judged.progress.rowsChanged
        let status = ExitStatus.following(evidence, entry.counts)
        if plan.dryRun {
            let guarded = judged.hold == nil ? ExitStatus.done : .held
            guard isTrial else { return .worse(guarded, .pending) }
            entry.state = nil
            return .worse(guarded, status)
        }
        try ensureWhole(feed, judged.progress, entry.counts)
        try journal.close(feed.id, as: .applied, at: context.now())
        entry.refusals = judged.refusals
        entry.state = FeedState.applied.rawValue
        return status
    }

    /// Throws unless all of a feed was applied and every tuple is accounted for.
    private func ensureWhole(
        _ feed: CapturedFeed, _ progress: FeedProgress, _ counts: Counts
    ) throws(RunFailure) {
        guard progress.isApplied else {
            throw RunFailure(
                .pending, .apply,
                "applying feed \(feed.id): stopped after \(counts.total) of \(counts.usable) tuples; "
                    + "run again to continue")
        }
        if let imbalance = counts.imbalance {
            throw RunFailure(
                .invariant, .apply,
                "accounting for feed \(feed.id): \(imbalance); the feed stays in the journal, "
                    + "please report this")
        }
    }

    /// What became of the evidence of a feed.
    private struct Judged {
        var progress = FeedProgress(counts: Counts())
        var hold: GuardHold?
        /// The first rows that refused the changes; nil where none did.
        var refusals: [String]?
    }

    /// Logs the first rows that refused the changes of a feed, which the ledger knows as `name`. The
    /// applied changes are kept, whether or not these rows can be read.
    private func refusals(
        _ name: String, _ feed: CapturedFeed, _ progress: FeedProgress
    ) -> [String]? {
        guard progress.isApplied, progress.rowsRefused > 0 else { return nil }
        let limit = FeedReport.mostRefusals
        let named = (try? store.refusedChanges(ofFeed: name, limit: limit)) ?? []
        let first = named.first.map { ", the first is \($0.refusalInWords)" } ?? ""
        let what = progress.rowsRefused == 1 ? "1 row stays" : "\(progress.rowsRefused) rows stay"
        context.log.warning(
            """
            \(feed.partition): \(what) as before although the token is dead\(first); correct the rows, \
            then run pushsweep replay --feed \(feed.id)
            """)
        return named.map(\.refusalInWords)
    }

    /// Judges the evidence: first a forecast, then the rows themselves, unless the guard holds the
    /// feed or this is a dry run. A feed that was begun continues without asking the guard: half a
    /// feed applied is no safer than a whole one, and the rest would be held because of the number of
    /// the first half.
    private func judge(
        _ evidence: FeedEvidence, in partition: Partition
    ) throws -> Judged {
        let feed = evidence.feed
        // A dry run needs only the right to read the token table.
        var known = plan.dryRun ? nil : try store.progress(of: feed.id)
        seen.enter(known)
        var name = feed.id
        if let done = known, done.isApplied {
            // A person who names a feed again wants the rows that refused it. Its checkpoint is at the
            // end, so the feed is applied again under a new name. All other tuples change nothing a
            // second time.
            guard case .journaled(feed.id) = plan.work, done.rowsRefused > 0 else {
                // A run that was killed after its last commit has told nobody.
                return Judged(progress: done, refusals: refusals(name, feed, done))
            }
            (known, name) = (nil, UUID().uuidString.lowercased())
        }
        let isBegun =
            try known != nil || plan.dryRun && store.progressIfVisible(of: feed.id) != nil
        let asksGuard = !isBegun && !plan.isRelease
        if asksGuard, !plan.dryRun, let hold = try holdBehind(feed) {
            return Judged(hold: hold)
        }
        let workers = StoreWorkers(
            store.settings,
            count: evidence.tokens.count < Self.tokensWorthSharing ? 1 : plan.store.connections,
            pacing: plan.pacing)
        let forecast = try forecast(evidence, in: partition, workers)
        context.log.debug(
            "feed judged",
            metadata: [
                "partition": "\(feed.partition)", "tokens": "\(evidence.tokens.count)",
                "candidates": "\(forecast.counts.applied)",
            ])
        guard forecast.isComplete else {
            throw RunFailure(
                .pending, .apply,
                "comparing feed \(feed.id) with the table: stopped before its end; run again")
        }
        let hold = asksGuard ? try ask(about: evidence, forecast, in: partition) : nil
        if plan.dryRun {
            return Judged(progress: FeedProgress(counts: forecast.counts), hold: hold)
        }
        if evidence.tokens.count > 0 {
            opinions.note(hold, about: feed.partition, asked: asksGuard)
            try store.session.record(
                record(guardResult: opinions.summary))
        }
        if let hold { return Judged(hold: hold) }
        let application = FeedApplication(
            run: run, feed: name, partition: partition, policy: plan.policy,
            source: feed.kind, lease: lease, isReleased: plan.isRelease)
        let applied = try apply(application, evidence, workers, isBegun: known != nil)
        return Judged(progress: applied, refusals: refusals(name, feed, applied))
    }

    private func forecast(
        _ evidence: FeedEvidence, in partition: Partition, _ workers: StoreWorkers
    ) throws -> Classification {
        let (tokens, context) = (evidence.tokens, context)
        guard workers.count > 1 else {
            var stream = tokens.stream()
            return try store.classify(
                &stream, in: partition, policy: plan.policy,
                shouldStop: { context.interrupt.isTripped })
        }
        return try workers.classify(
            over: store, in: partition, policy: plan.policy,
            evidence: { tokens.stream(from: $0.lowerBound) },
            shouldStop: { context.interrupt.isTripped })
    }

    /// Applies the evidence. A feed that was begun continues in its original parts, which the workers
    /// know.
    private func apply(
        _ application: FeedApplication, _ evidence: FeedEvidence, _ workers: StoreWorkers,
        isBegun: Bool
    ) throws -> FeedProgress {
        let (tokens, context) = (evidence.tokens, context)
        let (partition, tuples) = (evidence.feed.partition, evidence.counts.tuples)
        let seen = seen
        let report: @Sendable (FeedProgress) -> Void = { progress in
            seen.enter(progress)
            context.progress.show(
                "applying \(partition) (tuples)", progress.counts.total, of: tuples)
        }
        defer { context.progress.clear() }
        try store.renewLayout(for: application.policy)
        guard workers.count > 1 || isBegun else {
            var stream = tokens.stream()
            return try store.apply(
                &stream, application, shouldStop: { context.interrupt.isTripped }, report: report)
        }
        return try workers.apply(
            application, over: store, isBegun: isBegun,
            evidence: { tokens.stream(from: $0.lowerBound, after: $1) },
            shouldStop: { context.interrupt.isTripped }, report: report)
    }
}

/// The progress of a feed as it was last reported, perhaps by several connections.
private final class SeenProgress: Sendable {
    private let last = Mutex<FeedProgress?>(nil)

    var progress: FeedProgress? { last.withLock { $0 } }

    func enter(_ progress: FeedProgress?) { last.withLock { $0 = progress } }
}
