import COpenSSL
import Glibc
import Synchronization

/// A deadline on the monotonic clock.
///
/// The wall clock may jump during a run. CLOCK_MONOTONIC does not (clock_gettime(2)), so changes of
/// the host's time do not move a deadline.
package struct Deadline: Sendable, Comparable {
    /// Nanoseconds of CLOCK_MONOTONIC.
    private let instant: Int64

    private init(instant: Int64) {
        self.instant = instant
    }

    /// A deadline that has passed: do not wait.
    package static let now = Deadline(instant: .min)

    /// A deadline that never passes: wait without a limit.
    package static let never = Deadline(instant: .max)

    /// The deadline after `duration` from now; `never` for a duration beyond the range of the
    /// clock.
    package static func `in`(_ duration: Duration) -> Deadline {
        let (seconds, attoseconds) = duration.components
        let (scaled, overflowed) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflowed {
            return seconds < 0 ? .now : .never
        }
        let whole = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        let due = whole.partialValue.addingReportingOverflow(monotonicNanoseconds())
        return whole.overflow || due.overflow ? .never : Deadline(instant: due.partialValue)
    }

    /// The earlier of two deadlines.
    package static func earlier(of first: Deadline, _ second: Deadline) -> Deadline {
        min(first, second)
    }

    /// Whether the deadline has passed.
    package var hasPassed: Bool {
        instant != .max && instant <= Self.monotonicNanoseconds()
    }

    /// The time left: zero when the deadline has passed, a day for `never`.
    package var remaining: Duration {
        instant == .max ? .seconds(86_400) : .milliseconds(Int64(max(0, remainingMilliseconds)))
    }

    /// The timeout for poll(2): milliseconds, rounded up so that the deadline has passed after the
    /// wait; 0 when it has passed, -1 for `never`.
    package var remainingMilliseconds: Int32 {
        if instant == .max {
            return -1
        }
        let now = Self.monotonicNanoseconds()
        if instant <= now {
            return 0
        }
        let milliseconds = (instant - now - 1) / 1_000_000 + 1
        return Int32(clamping: milliseconds)
    }

    /// Whether `left` is the earlier deadline.
    package static func < (left: Deadline, right: Deadline) -> Bool {
        left.instant < right.instant
    }

    private static func monotonicNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Ends waits from any thread or from a signal handler.
///
/// A wait in poll(2) also watches the interrupt's eventfd(2). The descriptor stays readable once
/// tripped, so one trip ends the waits of all threads, present and future. It cannot be reset.
package final class Interrupt: Sendable {
    /// The descriptor for poll; readable once tripped.
    let descriptor: Int32
    private let tripped = Atomic<Bool>(false)

    /// Makes an interrupt that is not tripped. Throws `io` without free descriptors.
    package init() throws(TransportFailure) {
        descriptor = pushsweep_eventfd()
        guard descriptor >= 0 else {
            throw .system("making an interrupt", errno)
        }
    }

    deinit {
        close(descriptor)
    }

    /// Whether `trip` was called.
    package var isTripped: Bool {
        tripped.load(ordering: .acquiring)
    }

    /// Ends all waits. An atomic store and one write(2), so a signal handler may call it.
    package func trip() {
        tripped.store(true, ordering: .releasing)
        var one: UInt64 = 1
        // EAGAIN means that the counter is full, so the descriptor is readable already.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits until tripped; false when the deadline passed first.
    package func wait(until deadline: Deadline) -> Bool {
        if case .ready = Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: nil) {
            return true
        }
        return false
    }
}

/// Waits with poll(2) for a descriptor, a deadline and an interrupt.
package enum Poll {
    /// The event to wait for.
    package enum Direction: Sendable {
        /// Bytes of the peer, or the end of its stream.
        case reading
        /// Free space for more bytes.
        case writing
        /// Whichever comes first.
        case either

        var events: Int16 {
            switch self {
            case .reading: Int16(POLLIN)
            case .writing: Int16(POLLOUT)
            case .either: Int16(POLLIN | POLLOUT)
            }
        }
    }

    /// The result of a wait.
    package enum Outcome: Sendable {
        /// The descriptor is readable, writable, or has an error that the next call on it returns.
        case ready
        /// The deadline passed first.
        case timedOut
        /// The interrupt was tripped first.
        case interrupted
        /// poll failed with this errno.
        case failed(Int32)
    }

    /// Waits until the descriptor is ready, the deadline passes or the interrupt is tripped.
    package static func wait(
        _ descriptor: Int32, for direction: Direction, deadline: Deadline, interrupt: Interrupt?
    ) -> Outcome {
        var watched = (
            pollfd(fd: descriptor, events: direction.events, revents: 0),
            // poll ignores a negative descriptor.
            pollfd(fd: interrupt?.descriptor ?? -1, events: Int16(POLLIN), revents: 0)
        )
        while true {
            let count = withUnsafeMutableBytes(of: &watched) { bytes in
                poll(
                    bytes.baseAddress?.assumingMemoryBound(to: pollfd.self), 2,
                    deadline.remainingMilliseconds)
            }
            if count < 0 {
                if errno == EINTR {
                    continue
                }
                return .failed(errno)
            }
            if watched.1.revents != 0 {
                return .interrupted
            }
            if watched.0.revents != 0 {
                return .ready
            }
            if deadline.hasPassed {
                return .timedOut
            }
        }
    }
}
