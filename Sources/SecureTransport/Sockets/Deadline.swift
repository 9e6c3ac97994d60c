import Glibc

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
