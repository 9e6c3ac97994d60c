/// Milliseconds since 1970-01-01T00:00:00Z: the one unit in which evidence and registrations are
/// compared. HTTP/2 answers carry it (Apple, "Handling notification response errors"); feedback
/// tuples carry seconds and are converted once, here.
package struct EpochMilliseconds: Hashable, Comparable, Sendable {
    /// Milliseconds since the Unix epoch; negative before it.
    package let rawValue: Int64

    /// Wraps a count of milliseconds since the Unix epoch.
    package init(_ rawValue: Int64) { self.rawValue = rawValue }

    /// The first millisecond of a second.
    package init(_ seconds: EpochSeconds) { rawValue = Int64(seconds.rawValue) * 1000 }

    /// Whether one time is earlier.
    package static func < (left: EpochMilliseconds, right: EpochMilliseconds) -> Bool {
        left.rawValue < right.rawValue
    }

    /// Later (or, negative, earlier) by a number of milliseconds; stays at the end of the range.
    package func advanced(by milliseconds: Int64) -> EpochMilliseconds {
        let (sum, overflow) = rawValue.addingReportingOverflow(milliseconds)
        guard overflow else { return EpochMilliseconds(sum) }
        return EpochMilliseconds(milliseconds > 0 ? .max : .min)
    }
}
