import Database
import Findings
import TokenTable

/// The living tokens that APNs called bad with one reason.
package struct AuditedSuspects: Codable, Hashable, Sendable {
    /// `BadDeviceToken` or `DeviceTokenNotForTopic`.
    package var reason: String
    package var tokens: Int
    /// The first and the last time at which APNs said so, RFC 3339 in UTC.
    package var first: String
    package var last: String
}

extension AuditedSuspects {
    init(_ count: SuspectCount) {
        self.init(
            reason: count.reason, tokens: count.tokens, first: count.first.rfc3339,
            last: count.last.rfc3339)
    }
}

/// How many of the living tokens of one app APNs called bad.
struct SuspectShare {
    let suspects: [AuditedSuspects]
    let living: Int
    /// The app and environment.
    let object: String

    /// A note where they are few, medium from a hundredth of the living on, high from a twentieth on; nil for
    /// none.
    var finding: Finding? {
        let tokens = suspects.reduce(0) { $0 + $1.tokens }
        guard tokens > 0, living > 0, let last = suspects.map(\.last).max() else { return nil }
        let (isMedium, isHigh) = (tokens * 100 >= living, tokens * 20 >= living)
        return Finding(
            isHigh ? .high : isMedium ? .medium : .note, object,
            "APNs called \(tokens) of \(living.counting("living token")) bad, the last at \(last)",
            cause: suspects.map { "\($0.reason): \($0.tokens)" }.joined(separator: ", "),
            cure:
                "either they are of another environment or app, or the credentials are: see docs/evidence.md, "
                + "Bad tokens")
    }
}
