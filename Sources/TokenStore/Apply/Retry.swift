import Foundation

/// How often and after which pause something is tried again. Pauses are jittered: two senders that
/// collided must not meet again at the same moment.
package struct RetrySchedule: Sendable {
    /// How often a thing is tried in all.
    package let tries: Int
    /// Pauses for a number of milliseconds.
    package let sleep: @Sendable (Int) -> Void
    /// A number from 0 up to 1.
    package let random: @Sendable () -> Double

    /// States a schedule; the usual one tries five times and really sleeps.
    package init(
        tries: Int = 5, sleep: @escaping @Sendable (Int) -> Void = RetrySchedule.pause(milliseconds:),
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.tries = tries
        self.sleep = sleep
        self.random = random
    }

    /// Milliseconds to pause after a failed try (the first is 1): between half and all of 50, 100,
    /// 200, … 2000.
    func pause(after attempt: Int) -> Int {
        let whole = min(50.0 * Double(1 << min(attempt - 1, 10)), 2_000)
        return Int(whole * (0.5 + random() / 2))
    }
}

extension RetrySchedule {
    /// Blocks the calling thread.
    package static func pause(milliseconds: Int) {
        usleep(UInt32(clamping: milliseconds) * 1_000)
    }
}
