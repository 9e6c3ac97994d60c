import Encodings

/// What APNs answered to one notification.
package struct ProviderAnswer: Hashable, Sendable {
    /// The HTTP status; 200 for accepted.
    package let status: Int
    /// The parsed body; empty for an accepted notification.
    package let body: AnswerBody
    /// The seconds to wait from a `retry-after` header; nil without a usable one.
    package let retryAfter: UInt32?

    /// Parses an answer. `body` is the bytes of the response body, `retryAfter` the value of the
    /// header of that name, and `now` the wall clock, for a header that holds a date.
    package init(
        status: Int, body: UnsafeRawBufferPointer,
        retryAfter: (value: [UInt8], now: EpochSeconds)? = nil
    ) {
        self.init(
            status: status, body: AnswerBody(body),
            retryAfter: retryAfter.flatMap { RetryAfter.seconds($0.value, now: $0.now) })
    }

    /// Makes an answer from parsed parts.
    package init(status: Int, body: AnswerBody = AnswerBody(), retryAfter: UInt32? = nil) {
        self.status = status
        self.body = body
        self.retryAfter = retryAfter
    }

    /// Makes the answer with a listed reason, under its own status; 500 for a reason that has none.
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
    /// The body had no timestamp.
    case absent
    /// Milliseconds since the Unix epoch, at least `AnswerBody.leastMilliseconds`.
    case milliseconds(Int64)
    /// The body had a timestamp that cannot be a number of milliseconds.
    case unusable
}

/// The body of an answer or the debug data of a GOAWAY: `{"reason": ..., "timestamp": ...}`.
package struct AnswerBody: Hashable, Sendable {
    /// The most bytes of a body that are parsed. APNs' bodies have under 100.
    package static let longest = 16_384
    /// 10^11: fewer milliseconds end in March 1973, so a smaller number is seconds or meaningless.
    /// As seconds it is the year 5138, so no number is plausible as both.
    package static let leastMilliseconds: Int64 = 100_000_000_000

    /// The reason; nil where the body has none.
    package let reason: ProviderReason?
    /// The time of a 410, where the body has one.
    package let timestamp: AnswerTimestamp
    /// Whether there was a body of a form that APNs does not send: not a JSON object, a used key
    /// twice, or too long. No value is taken from such a body.
    package let isMalformed: Bool

    /// Makes a body from its parts.
    package init(reason: ProviderReason? = nil, timestamp: AnswerTimestamp = .absent) {
        self.reason = reason
        self.timestamp = timestamp
        isMalformed = false
    }

    /// Parses a body. Never fails: an unreadable body has no reason and no timestamp.
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

    /// Parses a body; see the form for raw buffers.
    package init(_ bytes: [UInt8]) {
        self = bytes.withUnsafeBytes { AnswerBody($0) }
    }
}
