import Database
import Synchronization

/// A clock that only pauses move, so that tests of patience take no time.
package final class VirtualTime: Sendable {
    private let passed = Mutex(0.0)

    package init() {}

    /// Milliseconds since the start.
    package var now: Double { passed.withLock { $0 } }

    /// Moves the clock.
    package func pass(_ milliseconds: Double) { passed.withLock { $0 += milliseconds } }

    /// Pacing by this clock, with the usual patience and chunks of 90 tokens at first.
    package var pacing: Pacing {
        Pacing(
            firstChunk: 90, monotonic: { self.now }, sleep: { self.pass(Double($0)) },
            random: { 0.5 })
    }
}
