import COpenSSL
import Glibc
import Synchronization

/// A point on the monotonic clock by which something must have happened.
///
/// The wall clock may jump while a run lasts; CLOCK_MONOTONIC does not (clock_gettime(2)), so a
/// deadline means the same whatever happens to the host's time.
package struct Deadline: Sendable, Comparable {
    /// Nanoseconds of CLOCK_MONOTONIC.
    private let instant: Int64

    private init(instant: Int64) {
        self.instant = instant
    }

    /// Already due: do what can be done without waiting.
    package static let now = Deadline(instant: .min)

    /// Never due: wait as long as it takes.
    package static let never = Deadline(instant: .max)

    /// The point `duration` after this moment; a duration past the clock's range is `never`.
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

    /// Whether the point has come.
    package var hasPassed: Bool {
        instant != .max && instant <= Self.monotonicNanoseconds()
    }

    /// The time left: zero when due, a day for `never` and anything longer.
    package var remaining: Duration {
        instant == .max ? .seconds(86_400) : .milliseconds(Int64(max(0, remainingMilliseconds)))
    }

    /// What poll(2) takes as its timeout: milliseconds rounded up, so that a wait that ran its
    /// time has reached the deadline; 0 when due, -1 for `never`.
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

    /// Whether one point comes first.
    package static func < (left: Deadline, right: Deadline) -> Bool {
        left.instant < right.instant
    }

    private static func monotonicNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Wakes every wait that was given it, from any thread or from a signal handler.
///
/// A wait in poll(2) also watches the interrupt's eventfd(2). The descriptor stays readable once
/// tripped, so one trip ends the waits of all threads, now and later; there is no way back.
package final class Interrupt: Sendable {
    /// What poll watches; readable once tripped.
    let descriptor: Int32
    private let tripped = Atomic<Bool>(false)

    /// Makes an interrupt that has not been tripped. Throws `io` when the process is out of
    /// descriptors.
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

    /// Waits until tripped; false when the deadline came first.
    package func wait(until deadline: Deadline) -> Bool {
        if case .ready = Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: nil) {
            return true
        }
        return false
    }
}

/// The one place that waits: poll(2) on a descriptor, a deadline and an interrupt.
package enum Poll {
    /// What to wait for.
    package enum Direction: Sendable {
        /// Bytes of the peer, or its end.
        case reading
        /// Room for more bytes.
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

    /// How a wait ended.
    package enum Outcome: Sendable {
        /// Readable, writable, or in an error that the next call on the descriptor will report.
        case ready
        /// The deadline came first.
        case timedOut
        /// The interrupt was tripped first.
        case interrupted
        /// poll itself failed, with this errno.
        case failed(Int32)
    }

    /// Waits until the descriptor is ready, the deadline comes or the interrupt is tripped.
    package static func wait(
        _ descriptor: Int32, for direction: Direction, deadline: Deadline, interrupt: Interrupt?
    ) -> Outcome {
        var watched = (
            pollfd(fd: descriptor, events: direction.events, revents: 0),
            // A negative descriptor is one that poll skips.
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
