import APNsProtocol

/// Why a well-formed feedback tuple is no usable evidence and goes to quarantine.
package enum EvidenceRejection: String, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    /// The tuple named no token.
    case emptyToken = "empty-token"
    /// Time 0: the gateway did not know.
    case zeroTime = "zero-time"
    /// Before push notifications existed.
    case tooEarly = "too-early"
    /// Further ahead of our clock than any honest clock is.
    case future = "future"

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .emptyToken: "a token of zero bytes"
        case .zeroTime: "time 0"
        case .tooEarly: "a time before June 2009, when push notifications began"
        case .future: "a time more than 24 hours ahead of this machine's clock"
        }
    }
}

/// The times at which a token can have been found dead: from June 2009, when Apple opened the
/// service, to a day past now. The only use of the wall clock in judging evidence; a unit mistake
/// (milliseconds read as seconds, or the reverse) falls outside it by decades.
package struct EvidenceBounds: Hashable, Sendable {
    /// 2009-06-01T00:00:00Z.
    package static let earliest = EpochMilliseconds(1_243_814_400_000)
    /// How far APNs' clock may run ahead of ours: 24 hours in milliseconds.
    package static let lead: Int64 = 24 * 3_600_000

    /// The latest time believed.
    package let latest: EpochMilliseconds

    /// Bounds around the present moment.
    package init(now: EpochMilliseconds) { latest = now.advanced(by: Self.lead) }

    /// Why this tuple is unusable, or nil when it is evidence.
    package func rejection(of tuple: FeedbackTuple) -> EvidenceRejection? {
        guard tuple.token != nil else { return .emptyToken }
        guard tuple.time.rawValue != 0 else { return .zeroTime }
        return rejection(of: EpochMilliseconds(tuple.time))
    }

    /// Why this time is unusable, or nil when it is believable.
    package func rejection(of time: EpochMilliseconds) -> EvidenceRejection? {
        if time < Self.earliest { return .tooEarly }
        if time > latest { return .future }
        return nil
    }
}
