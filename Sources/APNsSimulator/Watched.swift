import Glibc
import SecureTransport

/// A value that threads change, and for whose changes a caller can wait.
// Unchecked because the compiler cannot see that every access below holds the lock.
final class Watched<Value: Sendable>: @unchecked Sendable {
    // A lock and a condition of POSIX may not move, so they stay where they were allocated until `deinit`.
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value

    init(_ value: Value) {
        self.value = value
        pthread_mutex_init(lock, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // The wall clock may jump during a wait (pthread_condattr_setclock(3)).
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(lock)
        changed.deallocate()
        lock.deallocate()
    }

    private func locked<Result>(_ body: () -> Result) -> Result {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return body()
    }

    var present: Value { locked { value } }

    @discardableResult
    func change<Result>(_ body: (inout Value) -> Result) -> Result {
        locked {
            defer { pthread_cond_broadcast(changed) }
            return body(&value)
        }
    }

    /// Waits until the value is as wanted, at most until the deadline.
    @discardableResult
    func wait(until deadline: Deadline, _ isWanted: (Value) -> Bool) -> Value {
        locked {
            while !isWanted(value), !deadline.hasPassed {
                // Short waits, because the deadline may be never.
                var end = timespec()
                clock_gettime(CLOCK_MONOTONIC, &end)
                let soon = end.tv_nsec + 200_000_000
                end.tv_sec += soon / 1_000_000_000
                end.tv_nsec = soon % 1_000_000_000
                pthread_cond_timedwait(changed, lock, &end)
            }
            return value
        }
    }
}
