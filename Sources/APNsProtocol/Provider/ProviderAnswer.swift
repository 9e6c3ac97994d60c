import Encodings

/// What APNs answered to one notification.
package struct ProviderAnswer: Hashable, Sendable {
    /// The HTTP status; 200 for accepted.
    package let status: Int
    /// What the body said; empty for an accepted notification.
    package let body: AnswerBody
    /// How many seconds to wait, where a `retry-after` header said so.
    package let retryAfter: UInt32?

    /// Takes down an answer. `body` is the bytes of the response body, `retryAfter` the value of
    /// the header of that name, `now` the wall clock, for a header that holds a date.
    package init(
        status: Int, body: UnsafeRawBufferPointer,
        retryAfter: (value: [UInt8], now: EpochSeconds)? = nil
    ) {
        self.init(
            status: status, body: AnswerBody(body),
            retryAfter: retryAfter.flatMap { RetryAfter.seconds($0.value, now: $0.now) })
    }

    /// States an answer.
    package init(status: Int, body: AnswerBody = AnswerBody(), retryAfter: UInt32? = nil) {
        self.status = status
        self.body = body
        self.retryAfter = retryAfter
    }

    /// States the answer with a listed reason, under its own status; 500 for one that has none.
    package init(_ reason: ProviderReason, timestamp: Int64? = nil) {
        self.init(
            status: reason.status ?? 500,
            body: AnswerBody(
                reason: reason, timestamp: timestamp.map(AnswerTimestamp.milliseconds) ?? .absent))
    }
}

/// The `timestamp` of a 410: when APNs last confirmed that the token was no longer valid for the
/// topic. Source: Apple, "Handling notification responses from APNs".
package enum AnswerTimestamp: Hashable, Sendable {
    /// The body had none.
    case absent
    /// Milliseconds since the Unix epoch, at least `AnswerBody.leastMilliseconds`.
    case milliseconds(Int64)
    /// There was one, but it cannot be a number of milliseconds.
    case unusable
}

/// The body of an answer or the debug data of a GOAWAY: `{"reason": ..., "timestamp": ...}`.
package struct AnswerBody: Hashable, Sendable {
    /// Bytes beyond which a body is not looked at. APNs' bodies have under 100.
    package static let longest = 16_384
    /// 10^11: fewer milliseconds end in March 1973, so a smaller number is seconds or nonsense. As
    /// seconds it is the year 5138, so no number is good as both.
    package static let leastMilliseconds: Int64 = 100_000_000_000

    /// Why, or nil where the body does not say.
    package let reason: ProviderReason?
    /// Since when.
    package let timestamp: AnswerTimestamp
    /// Whether there was a body and it is not what APNs sends: no JSON object, a key of ours
    /// twice, or too long. Nothing is taken from such a body.
    package let isMalformed: Bool

    /// States a body.
    package init(reason: ProviderReason? = nil, timestamp: AnswerTimestamp = .absent) {
        self.reason = reason
        self.timestamp = timestamp
        isMalformed = false
    }

    /// Reads a body. Never fails: what cannot be read says nothing.
    package init(_ bytes: UnsafeRawBufferPointer) {
        let object = bytes.count <= Self.longest ? JSONObject(bytes) : nil
        guard let object, !object.isAmbiguous("reason"), !object.isAmbiguous("timestamp") else {
            reason = nil
            timestamp = .absent
            isMalformed = !bytes.isEmpty
            return
        }
        reason = if case .text(let text) = object["reason"] { ProviderReason(text) } else { nil }
        timestamp = Self.timestamp(object["timestamp"])
        isMalformed = false
    }

    private static func timestamp(_ value: JSONScalar?) -> AnswerTimestamp {
        switch value {
        case nil: .absent
        case .integer(let number) where number >= leastMilliseconds: .milliseconds(number)
        default: .unusable
        }
    }

    /// Reads a body. Never fails: what cannot be read says nothing.
    package init(_ bytes: [UInt8]) {
        self = bytes.withUnsafeBytes { AnswerBody($0) }
    }
}
