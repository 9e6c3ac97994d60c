import Encodings

/// The `reason` of an answer, for which APNs refused a notification.
/// Source: Apple, "Handling notification responses from APNs", all 32 reasons.
package struct ProviderReason: Hashable, Sendable, CustomStringConvertible {
    /// APNs' spelling, as in answers, reports and the queue. Of a reason outside Apple's list printable
    /// ASCII, at most 64 characters.
    package let description: String

    package init(_ text: String) { description = PlainASCII.text(text) }

    /// The status that APNs gives with this reason; nil for a reason outside its list.
    package var status: Int? { Self.statuses[description] }

    /// 400: the collapse id is longer than 64 bytes or malformed.
    package static let badCollapseID = ProviderReason("BadCollapseId")
    /// 400: the token is malformed, or of the other environment.
    package static let badDeviceToken = ProviderReason("BadDeviceToken")
    /// 400: `apns-expiration` is not a valid time.
    package static let badExpirationDate = ProviderReason("BadExpirationDate")
    /// 400: `apns-id` is not a UUID.
    package static let badMessageID = ProviderReason("BadMessageId")
    /// 400: `apns-priority` is not 10, 5 or 1, or it is 10 for `background`.
    package static let badPriority = ProviderReason("BadPriority")
    /// 400: the topic does not exist.
    package static let badTopic = ProviderReason("BadTopic")
    /// 400: the token belongs to another topic.
    package static let deviceTokenNotForTopic = ProviderReason("DeviceTokenNotForTopic")
    /// 400: a header occurred twice.
    package static let duplicateHeaders = ProviderReason("DuplicateHeaders")
    /// 400: the connection was idle too long.
    package static let idleTimeout = ProviderReason("IdleTimeout")
    /// 400: `apns-push-type` is unknown or does not fit the notification.
    package static let invalidPushType = ProviderReason("InvalidPushType")
    /// 400: the path names no token.
    package static let missingDeviceToken = ProviderReason("MissingDeviceToken")
    /// 400: no topic, and the certificate does not imply one.
    package static let missingTopic = ProviderReason("MissingTopic")
    /// 400: no payload.
    package static let payloadEmpty = ProviderReason("PayloadEmpty")
    /// 400: the credential does not cover the topic.
    package static let topicDisallowed = ProviderReason("TopicDisallowed")
    /// 403: the certificate is invalid.
    package static let badCertificate = ProviderReason("BadCertificate")
    /// 403: the certificate is of the other environment.
    package static let badCertificateEnvironment = ProviderReason("BadCertificateEnvironment")
    /// 403: the provider token is older than an hour.
    package static let expiredProviderToken = ProviderReason("ExpiredProviderToken")
    /// 403: the provider token or its signature is invalid.
    package static let invalidProviderToken = ProviderReason("InvalidProviderToken")
    /// 403: neither certificate nor provider token.
    package static let missingProviderToken = ProviderReason("MissingProviderToken")
    /// 403: a key id that is unrelated to the one first used on this connection.
    package static let unrelatedKeyIDInToken = ProviderReason("UnrelatedKeyIdInToken")
    /// 403: the key is bound to the other environment.
    package static let badEnvironmentKeyIDInToken = ProviderReason("BadEnvironmentKeyIdInToken")
    /// 404: not `/3/device/<token>`.
    package static let badPath = ProviderReason("BadPath")
    /// 405: not POST.
    package static let methodNotAllowed = ProviderReason("MethodNotAllowed")
    /// 410: the token has expired.
    package static let expiredToken = ProviderReason("ExpiredToken")
    /// 410: the token is inactive for the topic.
    package static let unregistered = ProviderReason("Unregistered")
    /// 413: more payload than the push type allows.
    package static let payloadTooLarge = ProviderReason("PayloadTooLarge")
    /// 429: the provider token is renewed more often than every 20 minutes.
    package static let tooManyProviderTokenUpdates = ProviderReason("TooManyProviderTokenUpdates")
    /// 429: too many notifications to one token in a row.
    package static let tooManyRequests = ProviderReason("TooManyRequests")
    /// 500: APNs had an internal error.
    package static let internalServerError = ProviderReason("InternalServerError")
    /// 503: APNs is not available.
    package static let serviceUnavailable = ProviderReason("ServiceUnavailable")
    /// 503, or in GOAWAY: the server is shutting down.
    package static let shutdown = ProviderReason("Shutdown")

    private static let byStatus = [
        (400, "BadCollapseId BadDeviceToken BadExpirationDate BadMessageId BadPriority BadTopic"),
        (400, "DeviceTokenNotForTopic DuplicateHeaders IdleTimeout InvalidPushType"),
        (400, "MissingDeviceToken MissingTopic PayloadEmpty TopicDisallowed"),
        (403, "BadCertificate BadCertificateEnvironment ExpiredProviderToken Forbidden"),
        (403, "InvalidProviderToken MissingProviderToken UnrelatedKeyIdInToken"),
        (403, "BadEnvironmentKeyIdInToken"), (404, "BadPath"), (405, "MethodNotAllowed"),
        (410, "ExpiredToken Unregistered"), (413, "PayloadTooLarge"),
        (429, "TooManyProviderTokenUpdates TooManyRequests"), (500, "InternalServerError"),
        (503, "ServiceUnavailable Shutdown"),
    ].flatMap { status, names in names.split(separator: " ").map { (String($0), status) } }
    private static let statuses = Dictionary(uniqueKeysWithValues: byStatus)

    /// Apple's 32 reasons, in the order of its list.
    package static let listed = byStatus.map { ProviderReason($0.0) }
}

/// What APNs answered to one notification.
package struct ProviderAnswer: Hashable, Sendable {
    /// The HTTP status; 200 for accepted.
    package let status: Int
    /// The parsed body; empty for an accepted notification.
    package let body: AnswerBody
    /// The seconds to wait from a `retry-after` header; nil without a usable one.
    package let retryAfter: UInt32?
    /// Whether the body shows that another program than APNs wrote it; see `AnswerBody.isForeign`.
    package let isForeign: Bool

    /// Parses an answer. `body` is the bytes of the response body, `retryAfter` the value of the
    /// header of that name, `hasContentType` whether the answer says what its body is, and `now` the time of the
    /// answer, by its own `date` where it has one, for a `retry-after` that holds a date.
    package init(
        status: Int, body: UnsafeRawBufferPointer, hasContentType: Bool = false,
        retryAfter: (value: [UInt8], now: EpochSeconds)? = nil
    ) {
        self.init(
            status: status, body: AnswerBody(body),
            retryAfter: retryAfter.flatMap { RetryAfter.seconds($0.value, now: $0.now) },
            isForeign: AnswerBody.isForeign(body, hasContentType: hasContentType))
    }

    package init(
        status: Int, body: AnswerBody = AnswerBody(), retryAfter: UInt32? = nil,
        isForeign: Bool = false
    ) {
        (self.status, self.body) = (status, body)
        (self.retryAfter, self.isForeign) = (retryAfter, isForeign)
    }

    /// Makes the answer with a listed reason, under its own status; 500 for a reason that has none.
    package init(_ reason: ProviderReason, timestamp: Int64? = nil) {
        self.init(
            status: reason.status ?? 500,
            body: AnswerBody(reason: reason, timestamp: timestamp))
    }
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
    /// When APNs last confirmed that the token of a 410 was no longer valid for the topic: milliseconds
    /// since the Unix epoch, at least `leastMilliseconds`; nil where the body has none of that unit.
    package let timestamp: Int64?
    /// Whether the body names a time, of whatever form.
    package let namesTime: Bool

    package init(reason: ProviderReason? = nil, timestamp: Int64? = nil, namesTime: Bool? = nil) {
        (self.reason, self.timestamp) = (reason, timestamp)
        self.namesTime = namesTime ?? (timestamp != nil)
    }

    /// Parses a body. One of a form that APNs does not send has no reason and no timestamp: not a JSON
    /// object, a used key twice, or too long.
    package init(_ bytes: UnsafeRawBufferPointer) {
        let object = bytes.count <= Self.longest ? JSONObject(bytes) : nil
        guard let object, !object.isAmbiguous("reason"), !object.isAmbiguous("timestamp") else {
            self.init()
            return
        }
        var (reason, timestamp): (ProviderReason?, Int64?)
        if case .text(let text) = object["reason"] { reason = ProviderReason(text) }
        let named = object["timestamp"]
        if case .integer(let number) = named, number >= Self.leastMilliseconds {
            timestamp = number
        }
        self.init(reason: reason, timestamp: timestamp, namesTime: named != nil)
    }

    /// Whether bytes are what something between us and APNs sends with a 200: a page, a value of JSON, or a body
    /// whose type is told. APNs sends none. Bytes that say nothing of themselves do not count: to send a
    /// notification twice is worse than to believe a 200 with noise behind it.
    package static func isForeign(
        _ bytes: UnsafeRawBufferPointer, hasContentType: Bool
    ) -> Bool {
        guard !bytes.isEmpty else { return false }
        let first = bytes.first { $0 > UInt8(ascii: " ") } ?? 0
        return hasContentType || "<{[\"".utf8.contains(first)
    }

    /// Parses a body; see the form for raw buffers.
    package init(_ bytes: [UInt8]) {
        self = bytes.withUnsafeBytes { AnswerBody($0) }
    }
}

// `Retry-After` is either seconds or a date (RFC 9110 section 10.2.3). Apple's documents do not mention the header, but gateways in front of APNs
// send it, and a wait that is too short makes the overload worse.

/// Reads the value of a `Retry-After` header.
package enum RetryAfter {
    /// The seconds from `now`; 0 for a date that has passed, nil where the value has neither form.
    package static func seconds(_ value: [UInt8], now: EpochSeconds) -> UInt32? {
        guard value.count <= 64 else { return nil }
        let text = String(decoding: value, as: UTF8.self)
        if let first = value.first, DecimalDigits.isDigit(first) {
            return value.allSatisfy(DecimalDigits.isDigit) ? UInt32(text) ?? .max : nil
        }
        guard let time = HTTPDate.seconds(text) else { return nil }
        return UInt32(clamping: max(0, time - Int64(now.rawValue)))
    }
}
