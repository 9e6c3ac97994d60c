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
