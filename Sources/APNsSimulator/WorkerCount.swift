import Foundation

/// The number of connection threads at work, to be waited on.
// Unchecked because the compiler cannot see that every access below holds the condition's lock.
final class WorkerCount: @unchecked Sendable {
    private let changed = NSCondition()
    private var working = 0

    /// A thread is about to start.
    func began() {
        changed.withLock { working += 1 }
    }

    /// A thread is about to end.
    func left() {
        changed.withLock {
            working -= 1
            changed.broadcast()
        }
    }

    /// Waits until none is at work.
    func waitUntilIdle() {
        changed.withLock {
            while working > 0 {
                changed.wait()
            }
        }
    }
}
