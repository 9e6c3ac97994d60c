import APNsProtocol
import Database
import Foundation
import Synchronization
import TokenHygiene

// A feed can be divided among connections. The parts are cut by token, at bounds that follow from
// their number alone. So a run that continues another's work finds the same parts without storing
// the bounds. Tokens are practically random, so parts cut by first byte are about equal; where they
// are not, only speed is lost.

/// One part of a feed: the tokens in a range.
package struct TokenRange: Hashable, Sendable {
    /// The index of the part, from 0.
    package let index: Int
    /// The number of parts of the feed, 1 to 256.
    package let count: Int

    /// The only part of an undivided feed.
    package static let whole = TokenRange(index: 0, count: 1)

    /// All parts of a feed divided into `count`, limited to 1 to 256.
    package static func parts(_ count: Int) -> [TokenRange] {
        let count = min(max(count, 1), 256)
        return (0..<count).map { TokenRange(index: $0, count: count) }
    }

    /// The least token of the part; nil for the first part.
    package var lowerBound: DeviceToken? { Self.bound(index, of: count) }

    /// The least token after the part; nil for the last part.
    package var upperBound: DeviceToken? { Self.bound(index + 1, of: count) }

    private static func bound(_ index: Int, of count: Int) -> DeviceToken? {
        index == 0 || index >= count ? nil : DeviceToken([UInt8(256 * index / count)])
    }
}

// On one connection client and server wait for each other in turn. Two connections on disjoint
// tokens keep both busy. Each has its own thread, its own store and its own checkpoint row; they share
// only a flag to stop and the reported counts. A feed is applied when all of its parts are.
//
// The first worker is the run's own thread with its own connection, so one connection is always enough. A
// further one that cannot be opened, or that a limit of the account takes away, leaves its parts to the
// others.
//
// SQLite has one writer at a time, so there a single worker does all the work.

/// Several connections that classify or apply one feed together. Each call opens those that it needs
/// besides the caller's, and closes them again.
package struct StoreWorkers: Sendable {
    private let settings: StoreSettings
    private var pacing: Pacing
    /// The number of connections that work at the same time.
    package let count: Int

    /// Prepares `count` connections; two are about twice as fast as one on a server with idle
    /// cores.
    package init(_ settings: StoreSettings, count: Int = 2, pacing: Pacing = Pacing()) {
        self.settings = settings
        // They connect while a run is at work, which is worth waiting for, but not for a limit.
        self.pacing = pacing
        self.pacing.connectPatience = .infinity
        self.pacing.isSpare = true
        if case .sqlite = settings.location { self.count = 1 } else { self.count = max(1, count) }
    }

    /// Classifies evidence, as `TokenTable.classify`. `own` is the caller's connection. `evidence` is called
    /// once on every worker's thread and makes the stream of a part; entries outside of the part are
    /// skipped.
    ///
    /// - Throws: the first failure of any worker.
    package func classify<Evidence: EvidenceStream & SendableMetatype>(
        over own: TokenTable, in partition: Partition, policy: RemovalPolicy,
        evidence: @escaping @Sendable (TokenRange) throws -> Evidence,
        shouldStop: @escaping @Sendable () -> Bool = { false }
    ) throws(StoreFailure) -> Classification {
        let shares = try perform(TokenRange.parts(count), over: own, shouldStop) {
            (store, part, isStopping) throws(StoreFailure) in
            var stream = RangeEvidence(whole: try Self.open(part, evidence), part: part)
            return try store.classify(
                &stream, in: partition, policy: policy, shouldStop: isStopping)
        }
        return shares.reduce(into: Classification(isComplete: true)) { $0 += $1 }
    }

    /// Applies a feed, as `TokenTable.apply`. A feed that was begun in a number of parts continues
    /// in these parts, whatever the number of workers is now. `own` is the caller's connection. `evidence` is
    /// called once for every part and may omit entries up to the given token. `report` receives the total
    /// progress of all parts, from any thread. `isBegun` is false where the caller knows that nobody has
    /// begun the feed.
    ///
    /// - Throws: the first failure of any worker; committed chunks stay applied.
    package func apply<Evidence: EvidenceStream & SendableMetatype>(
        _ application: FeedApplication, over own: TokenTable, isBegun: Bool = true,
        evidence: @escaping @Sendable (TokenRange, DeviceToken?) throws -> Evidence,
        shouldStop: @escaping @Sendable () -> Bool = { false },
        report: @escaping @Sendable (FeedProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> FeedProgress {
        let begun = isBegun ? try own.parts(of: application.feed) : nil
        let parts = TokenRange.parts(begun ?? count)
        let known = Mutex<[Int: FeedProgress]>([:])
        let shares = try perform(parts, over: own, shouldStop) {
            (store, part, isStopping) throws(StoreFailure) in
            var application = application
            application.part = part
            let position = try store.progress(of: application.feed, part: part)?.position
            var stream = RangeEvidence(
                whole: try Self.open(part) { try evidence($0, position) }, part: part)
            return try store.apply(&stream, application, shouldStop: isStopping) { progress in
                let together = known.withLock { known in
                    known[part.index] = progress
                    return FeedProgress(of: parts.map { known[$0.index] })
                }
                report(together)
            }
        }
        return FeedProgress(of: shares)
    }

    private static func open<Evidence>(
        _ part: TokenRange, _ evidence: (TokenRange) throws -> Evidence
    ) throws(StoreFailure) -> Evidence {
        do {
            return try evidence(part)
        } catch {
            throw StoreFailure(.evidence, "opening evidence: \(error); run again")
        }
    }

    /// The work on one part, over a connection, until it is done or the function says to stop.
    private typealias PartWork<Share> =
        @Sendable (TokenTable, TokenRange, () -> Bool) throws(StoreFailure) -> Share

    /// Runs a body for every part, with at most one part per worker at a time, and returns the
    /// results in the order of the parts.
    private func perform<Share: Sendable>(
        _ parts: [TokenRange], over own: TokenTable,
        _ shouldStop: @escaping @Sendable () -> Bool, _ body: @escaping PartWork<Share>
    ) throws(StoreFailure) -> [Share] {
        let work = SharedWork<Share>(parts, shouldStop)
        let group = DispatchGroup()
        let (settings, pacing) = (settings, pacing)
        for _ in 1..<max(1, min(count, parts.count)) {
            group.enter()
            let thread = Thread {
                defer { group.leave() }
                do throws(StoreFailure) {
                    let store = try TokenTable(settings, pacing: pacing)
                    work.perform(over: store, isSpare: true, body)
                } catch {
                    // What is wrong with the database is for the others to find.
                    pacing.report(
                        "goes on with fewer connections than store.connections says, because another "
                            + "could not be opened: \(error.sentence)")
                }
            }
            thread.start()
        }
        repeat {
            work.perform(over: own, isSpare: false, body)
            group.wait()
        } while work.isWaiting
        return try work.result()
    }
}

/// The parts of a change that wait for a worker, and the results of finished ones.
private final class SharedWork<Share: Sendable>: Sendable {
    private struct State {
        var waiting: ArraySlice<TokenRange>
        var shares: [Int: Share] = [:]
        var failure: StoreFailure?
    }

    private let parts: [TokenRange]
    private let shouldStop: @Sendable () -> Bool
    private let state: Mutex<State>

    init(_ parts: [TokenRange], _ shouldStop: @escaping @Sendable () -> Bool) {
        (self.parts, self.shouldStop) = (parts, shouldStop)
        state = Mutex(State(waiting: parts[...]))
    }

    /// Whether a part waits, and no worker has failed.
    var isWaiting: Bool { state.withLock { $0.failure == nil && !$0.waiting.isEmpty } }

    /// The results in the order of the parts.
    ///
    /// - Throws: the first failure of any worker.
    func result() throws(StoreFailure) -> [Share] {
        let state = state.withLock { $0 }
        if let failure = state.failure { throw failure }
        return parts.compactMap { state.shares[$0.index] }
    }

    /// Works on parts until none waits or a worker has failed. A spare worker whose connection falls to a
    /// limit gives its part back, where the checkpoint shows how far it came.
    func perform(
        over store: TokenTable, isSpare: Bool,
        _ body: (TokenTable, TokenRange, () -> Bool) throws(StoreFailure) -> Share
    ) {
        while let part = next() {
            do throws(StoreFailure) {
                let share = try body(store, part) {
                    shouldStop() || state.withLock { $0.failure != nil }
                }
                state.withLock { $0.shares[part.index] = share }
            } catch {
                guard isSpare, error.isOfLimit else {
                    return state.withLock { $0.failure = $0.failure ?? error }
                }
                return state.withLock { $0.waiting.append(part) }
            }
        }
    }

    private func next() -> TokenRange? {
        state.withLock { $0.failure == nil ? $0.waiting.popFirst() : nil }
    }
}

/// The evidence of one part, filtered from the stream of all evidence.
struct RangeEvidence<Whole: EvidenceStream>: EvidenceStream {
    var whole: Whole
    let part: TokenRange
    var isEnded = false

    mutating func next(_ limit: Int) throws -> [TokenEvidence] {
        while !isEnded {
            var batch = try whole.next(limit)
            if batch.isEmpty { isEnded = true }
            if let upper = part.upperBound, let last = batch.last, last.token >= upper {
                isEnded = true
                batch.removeAll { $0.token >= upper }
            }
            if let lower = part.lowerBound, let first = batch.first, first.token < lower {
                batch.removeAll { $0.token < lower }
            }
            if !batch.isEmpty { return batch }
        }
        return []
    }
}
