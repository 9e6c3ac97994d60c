import Findings
import Glibc
import Dispatch

// Most failures of a database pass: a lock is released, a server restarts in ten seconds, a cluster
// misses a dead node for five to twenty seconds before the others take over. So an operation that failed is tried
// again, and its failure is thrown only when it has failed for longer than such events last. A number
// of tries would not do: five quick ones are over before a cluster has noticed anything.
//
//   working --failure--> failing since t --success--> working
//                        failing since t --patience is over--> given up
//
// The first failure starts the clock, so a statement that takes long is no reason to try less often.
// Every committed chunk is a new operation with a new clock. Between tries are pauses that grow, with
// jitter. A failure that another try cannot cure (a right, a column) is thrown at once, and so is any
// failure after the run was told to stop. The pauses count as time even where the clock stands still.
//
// After the loss of a server its address may lead to another one that is still a replica or read-only: a
// failover takes some seconds. So both have the whole patience then. At the first connection, and without a
// loss, they are mistakes or maintenance.
//
// A first connection that is refused has less patience (`Pacing.connectPatience`), because nothing is
// in the middle then. Connections of the same run that are opened later have the whole. Once a database
// was given up, the steps that end the run ask it with short patience, until one of them succeeds:
//
//   in use --given up--> given up --an operation succeeds--> in use

/// Whether a database was given up, for all operations over one connection. Confined to its thread.
final class SessionHealth {
    /// Whether the last operation was given up because the database was away.
    var isGivenUp = false
    /// Whether any operation of the run has succeeded, over this connection or another.
    var hasWorked = false
}

/// The time for which one operation has failed without progress.
struct RetryClock {
    private let pacing: Pacing
    private let health: SessionHealth
    /// Whether the operation is the first connection of a run.
    private let isFirstConnection: Bool
    /// The moment of the first failure.
    private var since: Double?
    /// Milliseconds of all pauses.
    private var paused = 0
    private var failures = 0
    /// Whether a connection failed, so that another server may be about to take over.
    private var hasLost = false

    /// Starts without a failure.
    init(_ pacing: Pacing, _ health: SessionHealth, isFirstConnection: Bool = false) {
        self.pacing = pacing
        self.health = health
        self.isFirstConnection = isFirstConnection
    }

    /// Pauses before the next try.
    ///
    /// - Throws: the failure, where another try cannot help or there is no patience left.
    mutating func pause(after failure: SQLFailure, doing: String) throws(StoreFailure) {
        let now = pacing.monotonic()
        let start = since ?? now
        since = start
        failures += 1
        let elapsed = max(now - start, Double(paused))
        hasLost = hasLost || [.lost, .unreachable, .overloaded].contains(failure.kind)
        let left = patience(with: failure) - elapsed
        guard left > 0, !pacing.isStopping() else {
            if failure.needsConnection { health.isGivenUp = true }
            throw StoreFailure(failure, while: doing, triedFor: elapsed, isPassing: isTakenOver)
        }
        // The last try is at the end of the patience, not before it.
        let whole = pacing.pause(after: failures, ofConflict: failure.kind == .conflict)
        let pause = max(1, min(whole, Int(left.rounded(.up))))
        paused += pause
        pacing.sleep(pause)
    }

    /// Whether another server may be about to take over from one that was in use.
    private var isTakenOver: Bool { hasLost && health.hasWorked }

    private var wholePatience: Double {
        health.isGivenUp ? min(Pacing.shortPatience, pacing.patience) : pacing.patience
    }

    private func patience(with failure: SQLFailure) -> Double {
        switch failure.kind {
        case .unreachable where isFirstConnection, .lost where isFirstConnection:
            min(pacing.connectPatience, pacing.patience)
        case .conflict, .lost, .overloaded, .unreachable:
            wholePatience
        // Another node may have become the writable one.
        case .readOnly: isTakenOver ? wholePatience : min(Pacing.shortPatience, pacing.patience)
        case .misplaced where isTakenOver: wholePatience
        case .tooLarge, .untrusted, .misplaced, .permission, .configuration, .refused, .leaseLost,
            .inconsistent, .other:
            0
        }
    }
}

/// Repeats operations that can fail temporarily, with pauses, as long as the patience lasts.
package struct RetryPolicy {
    let connection: any SQLConnection
    let pacing: Pacing
    /// That of the connection.
    var health = SessionHealth()

    /// Runs a transaction or a read until it succeeds; connects again after a loss. Throws
    /// `StoreFailure` where the patience is over.
    package func retrying<R>(
        _ doing: String, _ body: () throws(SQLFailure) -> R
    ) throws(StoreFailure) -> R {
        var clock = RetryClock(pacing, health)
        return try retrying(doing, on: &clock, body)
    }

    /// The same for one expression.
    package func retrying<R>(
        _ doing: String, do body: @autoclosure () throws(SQLFailure) -> R
    ) throws(StoreFailure) -> R {
        try retrying(doing, body)
    }

    /// The same for an operation that may have failed before by another step: `failure` is that of
    /// the earlier step, and the clock may run already.
    func retrying<R>(
        _ doing: String, after failure: SQLFailure? = nil, on clock: inout RetryClock,
        _ body: () throws(SQLFailure) -> R
    ) throws(StoreFailure) -> R {
        var needsConnection = failure?.needsConnection ?? false
        while true {
            do {
                if needsConnection { try connection.connect() }
                needsConnection = false
                let result = try body()
                health.isGivenUp = false
                health.hasWorked = true
                return result
            } catch {
                connection.rollBack()
                needsConnection = needsConnection || error.needsConnection
                try clock.pause(after: error, doing: doing)
            }
        }
    }
}

/// The clock, the pauses and the patience of the store: all its dependence on time, injected so that
/// tests need not wait.
package struct Pacing: Sendable {
    /// The milliseconds after the first failure of an operation for which it is tried again. A session
    /// takes those of its store where none are given.
    package var patience: Double {
        get { givenPatience ?? StoreSettings.usualPatience }
        set { givenPatience = newValue }
    }
    private var givenPatience: Double?
    /// The same for a first connection that nobody answers: a person waits for it, and a database
    /// that is down at the start of a run seldom returns within seconds.
    package var connectPatience = 3_000.0
    /// The number of tokens in the first chunk of a batch.
    package var firstChunk: Int
    /// Milliseconds on a monotonic clock.
    package var monotonic: @Sendable () -> Double
    /// Pauses the thread for a number of milliseconds.
    package var sleep: @Sendable (Int) -> Void
    /// Returns a random number from 0 up to 1.
    package var random: @Sendable () -> Double
    /// Receives the milliseconds for which each committed chunk held its locks; called on the
    /// chunk's thread.
    package var transactionTook: @Sendable (Double) -> Void = { _ in }
    /// The conditions for pausing between chunks and for ending early.
    package var throttle = Throttle()
    /// Whether the run was told to stop, so that no failure is tried again.
    package var isStopping: @Sendable () -> Bool = { false }
    /// Receives a sentence for the run's log, perhaps from several connections.
    package var report: @Sendable (String) -> Void = { _ in }

    /// The patience, in milliseconds, with what need not succeed, and with a server that takes no
    /// changes: a second try may meet another node.
    package static let shortPatience = 1_000.0

    /// Makes pacing; the default tries again for as long as the store's settings say and uses real time.
    package init(
        patience: Double? = nil, firstChunk: Int = 900,
        monotonic: @escaping @Sendable () -> Double = Pacing.uptime,
        sleep: @escaping @Sendable (Int) -> Void = Pacing.pause(milliseconds:),
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        givenPatience = patience
        self.firstChunk = firstChunk
        self.monotonic = monotonic
        self.sleep = sleep
        self.random = random
    }

    /// Milliseconds to pause after a failed try (the first is 1): between half and all of 50, 100,
    /// 200, … 2000. After a conflict they start at 5, because the other transaction is over by then.
    /// Jittered, so that two senders that collided do not collide again at once.
    func pause(after attempt: Int, ofConflict: Bool = false) -> Int {
        let first = ofConflict ? 5.0 : 50.0
        let whole = min(first * Double(1 << min(max(attempt, 1) - 1, 10)), 2_000)
        return Int(whole * (0.5 + random() / 2))
    }

    /// Milliseconds since an unspecified moment in the past.
    package static func uptime() -> Double {
        Double(DispatchTime.now().uptimeNanoseconds) / 1_000_000
    }

    /// Blocks the calling thread for a number of milliseconds.
    package static func pause(milliseconds: Int) {
        usleep(UInt32(clamping: milliseconds) * 1_000)
    }

    /// The same pacing, with the patience of a store where none is given.
    func following(_ settings: StoreSettings) -> Pacing {
        var pacing = self
        pacing.givenPatience = givenPatience ?? settings.patience
        return pacing
    }

    /// The same pacing with at most `patience` milliseconds for tries.
    package func with(patience: Double) -> Pacing {
        var pacing = self
        pacing.patience = min(pacing.patience, patience)
        return pacing
    }
}
