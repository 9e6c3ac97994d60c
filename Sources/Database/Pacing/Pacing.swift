import Foundation

/// The clock, the pauses and the number of tries of the store: everything about time that decides
/// how it goes on, injected so that tests need not wait.
package struct Pacing: Sendable {
    /// How often a thing is tried in a row before the store gives up.
    package var tries: Int
    /// Tokens in the first chunk of a feed.
    package var firstChunk: Int
    /// Milliseconds on a clock that nobody sets.
    package var monotonic: @Sendable () -> Double
    /// Pauses for a number of milliseconds.
    package var sleep: @Sendable (Int) -> Void
    /// A number from 0 up to 1.
    package var random: @Sendable () -> Double
    /// Hears how many milliseconds each committed chunk held its locks, on the chunk's thread.
    package var transactionTook: @Sendable (Double) -> Void = { _ in }
    /// When to pause between chunks, and when to end early.
    package var throttle = Throttle()

    /// States pacing; the usual one tries five times and really sleeps.
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
    /// 200, … 2000. Jittered, because two senders that collided must not meet again at once.
    func pause(after attempt: Int) -> Int {
        let whole = min(50.0 * Double(1 << min(max(attempt, 1) - 1, 10)), 2_000)
        return Int(whole * (0.5 + random() / 2))
    }

    /// Milliseconds since some moment in the past.
    package static func uptime() -> Double {
        Double(DispatchTime.now().uptimeNanoseconds) / 1_000_000
    }

    /// Blocks the calling thread.
    package static func pause(milliseconds: Int) {
        usleep(UInt32(clamping: milliseconds) * 1_000)
    }
}
