/// The reason why a well-formed feedback tuple is not usable evidence and goes to quarantine.
package enum EvidenceRejection: String, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    /// The tuple has a token of zero bytes.
    case emptyToken = "empty-token"
    /// Time 0: the gateway did not know the time.
    case zeroTime = "zero-time"
    /// A time before `EvidenceBounds.earliest`, when push notifications did not exist.
    case tooEarly = "too-early"
    /// A time after `EvidenceBounds.latest`, further ahead of the clock that judges it than clocks differ.
    case future = "future"

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .emptyToken: "a token of zero bytes"
        case .zeroTime: "time 0"
        case .tooEarly: "a time before June 2009, when push notifications began"
        case .future: "a time more than 5 minutes ahead of this machine's clock"
        }
    }
}

/// The times at which APNs can have found a token dead: from June 2009, when Apple opened the
/// service, to five minutes from now. Judging evidence uses the wall clock for nothing else. A mistaken
/// unit (milliseconds read as seconds, or the reverse) is out of these bounds by decades, and local time
/// that was written as UTC by hours: a device that registers within them would stay marked.
package struct EvidenceBounds: Hashable, Sendable {
    /// The earliest accepted time: 2009-06-01T00:00:00Z.
    package static let earliest = EpochMilliseconds(1_243_814_400_000)
    /// Milliseconds by which two clocks may differ: that of APNs, of a sender or of the database, and this
    /// host's. From there APNs refuses a provider token.
    package static let lead: Int64 = 300_000

    /// The latest accepted time.
    package let latest: EpochMilliseconds

    /// Bounds that end `lead` milliseconds after `now`.
    package init(now: EpochMilliseconds) { latest = now.advanced(by: Self.lead) }

    /// The reason why the tuple is not usable as evidence; nil when it is.
    package func rejection(of tuple: FeedbackTuple) -> EvidenceRejection? {
        guard tuple.token != nil else { return .emptyToken }
        guard tuple.time.rawValue != 0 else { return .zeroTime }
        return rejection(of: EpochMilliseconds(tuple.time))
    }

    /// The reason why the time is not usable; nil when it is within the bounds.
    package func rejection(of time: EpochMilliseconds) -> EvidenceRejection? {
        if time < Self.earliest { return .tooEarly }
        if time > latest { return .future }
        return nil
    }
}
