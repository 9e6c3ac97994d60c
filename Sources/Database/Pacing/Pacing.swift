import Foundation

/// The clock, the pauses and the patience of the store: all its dependence on time, injected so that
/// tests need not wait.
package struct Pacing: Sendable {
    /// The milliseconds after the first failure of an operation for which it is tried again.
    package var patience: Double
    /// The same for a first connection that nobody answers: a person waits for it, and a database
    /// that is down at the start of a run seldom returns within seconds.
    package var connectPatience = 3_000.0
    /// The number of tokens in the first chunk of a feed.
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

    /// Makes pacing; the default tries again for 30 seconds and uses real time.
    package init(
        patience: Double = 30_000, firstChunk: Int = 900,
        monotonic: @escaping @Sendable () -> Double = Pacing.uptime,
        sleep: @escaping @Sendable (Int) -> Void = Pacing.pause(milliseconds:),
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.patience = patience
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

    /// The same pacing with at most `patience` milliseconds for tries.
    package func with(patience: Double) -> Pacing {
        var pacing = self
        pacing.patience = min(pacing.patience, patience)
        return pacing
    }
}
