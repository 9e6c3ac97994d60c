import Foundation

/// The clock, the pauses and the number of tries of the store: all its dependence on time, injected
/// so that tests need not wait.
package struct Pacing: Sendable {
    /// The number of tries in a row before the store gives up.
    package var tries: Int
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

    /// Makes pacing; the default tries five times and uses real time.
    package init(
        tries: Int = 5, firstChunk: Int = 900,
        monotonic: @escaping @Sendable () -> Double = Pacing.uptime,
        sleep: @escaping @Sendable (Int) -> Void = Pacing.pause(milliseconds:),
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.tries = tries
        self.firstChunk = firstChunk
        self.monotonic = monotonic
        self.sleep = sleep
        self.random = random
    }

    /// Milliseconds to pause after a failed try (the first is 1): between half and all of 50, 100,
    /// 200, … 2000. Jittered, so that two senders that collided do not collide again at once.
    func pause(after attempt: Int) -> Int {
        let whole = min(50.0 * Double(1 << min(max(attempt, 1) - 1, 10)), 2_000)
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
}
