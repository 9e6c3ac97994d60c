/// Whole seconds since 1970-01-01T00:00:00Z as in feedback tuples: unsigned, so valid until 2106. A
/// type of its own, because the 410 answer of HTTP/2 counts milliseconds, and a confusion of the
/// two makes every token look stale, or none.
package struct EpochSeconds: Hashable, Comparable, Sendable {
    /// Seconds since the Unix epoch.
    package let rawValue: UInt32

    /// Wraps a count of seconds since the Unix epoch.
    package init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// Whether `left` is the earlier time.
    package static func < (left: EpochSeconds, right: EpochSeconds) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z: the only unit in which evidence and registrations are
/// compared. HTTP/2 answers have this unit (Apple, "Handling notification response errors");
/// feedback tuples have seconds and are converted once, here.
package struct EpochMilliseconds: Hashable, Comparable, Sendable {
    /// Milliseconds since the Unix epoch; negative before it.
    package let rawValue: Int64

    /// Wraps a count of milliseconds since the Unix epoch.
    package init(_ rawValue: Int64) { self.rawValue = rawValue }

    /// The first millisecond of a second.
    package init(_ seconds: EpochSeconds) { rawValue = Int64(seconds.rawValue) * 1000 }

    /// Whether `left` is the earlier time.
    package static func < (left: EpochMilliseconds, right: EpochMilliseconds) -> Bool {
        left.rawValue < right.rawValue
    }

    /// The time `milliseconds` later, or earlier if negative; limited to the range of Int64.
    package func advanced(by milliseconds: Int64) -> EpochMilliseconds {
        let (sum, overflow) = rawValue.addingReportingOverflow(milliseconds)
        guard overflow else { return EpochMilliseconds(sum) }
        return EpochMilliseconds(milliseconds > 0 ? .max : .min)
    }
}
