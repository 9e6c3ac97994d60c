/// The `reason` of an answer, for which APNs refused a notification.
/// Source: Apple, "Handling notification responses from APNs", all 32 reasons.
package enum ProviderReason: Hashable, Sendable {
    /// 400: the collapse id is longer than 64 bytes or malformed.
    case badCollapseID
    /// 400: the token is malformed, or of the other environment.
    case badDeviceToken
    /// 400: `apns-expiration` is not a valid time.
    case badExpirationDate
    /// 400: `apns-id` is not a UUID.
    case badMessageID
    /// 400: `apns-priority` is not 10, 5 or 1, or it is 10 for `background`.
    case badPriority
    /// 400: the topic does not exist.
    case badTopic
    /// 400: the token belongs to another topic.
    case deviceTokenNotForTopic
    /// 400: a header occurred twice.
    case duplicateHeaders
    /// 400: the connection was idle too long.
    case idleTimeout
    /// 400: `apns-push-type` is unknown or does not fit the notification.
    case invalidPushType
    /// 400: the path names no token.
    case missingDeviceToken
    /// 400: no topic, and the certificate does not imply one.
    case missingTopic
    /// 400: no payload.
    case payloadEmpty
    /// 400: the credential does not cover the topic.
    case topicDisallowed
    /// 403: the certificate is invalid.
    case badCertificate
    /// 403: the certificate is of the other environment.
    case badCertificateEnvironment
    /// 403: the provider token is older than an hour.
    case expiredProviderToken
    /// 403: the action is not allowed.
    case forbidden
    /// 403: the provider token or its signature is invalid.
    case invalidProviderToken
    /// 403: neither certificate nor provider token.
    case missingProviderToken
    /// 403: a key id that is unrelated to the one first used on this connection.
    case unrelatedKeyIDInToken
    /// 403: the key is bound to the other environment.
    case badEnvironmentKeyIDInToken
    /// 404: not `/3/device/<token>`.
    case badPath
    /// 405: not POST.
    case methodNotAllowed
    /// 410: the token has expired.
    case expiredToken
    /// 410: the token is inactive for the topic.
    case unregistered
    /// 413: more payload than the push type allows.
    case payloadTooLarge
    /// 429: the provider token is renewed more often than every 20 minutes.
    case tooManyProviderTokenUpdates
    /// 429: too many notifications to one token in a row.
    case tooManyRequests
    /// 500: APNs had an internal error.
    case internalServerError
    /// 503: APNs is not available.
    case serviceUnavailable
    /// 503, or in GOAWAY: the server is shutting down.
    case shutdown
    /// A reason outside Apple's list: printable ASCII, at most 64 characters.
    case other(String)

    /// The reason with APNs' spelling. Any other text is `other`, cut to 64 characters and with `?`
    /// for characters other than printable ASCII.
    package init(_ text: String) {
        self = Self.bySpelling[text] ?? .other(PlainASCII.text(text))
    }

    /// The status that APNs gives with this reason; nil for a reason outside its list.
    package var status: Int? {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority,
            .badTopic, .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType,
            .missingDeviceToken, .missingTopic, .payloadEmpty, .topicDisallowed:
            400
        case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden,
            .invalidProviderToken, .missingProviderToken, .unrelatedKeyIDInToken,
            .badEnvironmentKeyIDInToken:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .shutdown: 503
        case .other: nil
        }
    }
}

extension ProviderReason: CustomStringConvertible {
    /// Every reason of Apple's list with its spelling, in that list's order.
    private static let spellings: [(ProviderReason, String)] = [
        (.badCollapseID, "BadCollapseId"),
        (.badDeviceToken, "BadDeviceToken"),
        (.badExpirationDate, "BadExpirationDate"),
        (.badMessageID, "BadMessageId"),
        (.badPriority, "BadPriority"),
        (.badTopic, "BadTopic"),
        (.deviceTokenNotForTopic, "DeviceTokenNotForTopic"),
        (.duplicateHeaders, "DuplicateHeaders"),
        (.idleTimeout, "IdleTimeout"),
        (.invalidPushType, "InvalidPushType"),
        (.missingDeviceToken, "MissingDeviceToken"),
        (.missingTopic, "MissingTopic"),
        (.payloadEmpty, "PayloadEmpty"),
        (.topicDisallowed, "TopicDisallowed"),
        (.badCertificate, "BadCertificate"),
        (.badCertificateEnvironment, "BadCertificateEnvironment"),
        (.expiredProviderToken, "ExpiredProviderToken"),
        (.forbidden, "Forbidden"),
        (.invalidProviderToken, "InvalidProviderToken"),
        (.missingProviderToken, "MissingProviderToken"),
        (.unrelatedKeyIDInToken, "UnrelatedKeyIdInToken"),
        (.badEnvironmentKeyIDInToken, "BadEnvironmentKeyIdInToken"),
        (.badPath, "BadPath"),
        (.methodNotAllowed, "MethodNotAllowed"),
        (.expiredToken, "ExpiredToken"),
        (.unregistered, "Unregistered"),
        (.payloadTooLarge, "PayloadTooLarge"),
        (.tooManyProviderTokenUpdates, "TooManyProviderTokenUpdates"),
        (.tooManyRequests, "TooManyRequests"),
        (.internalServerError, "InternalServerError"),
        (.serviceUnavailable, "ServiceUnavailable"),
        (.shutdown, "Shutdown"),
    ]

    private static let bySpelling = Dictionary(
        uniqueKeysWithValues: spellings.map { ($0.1, $0.0) })
    private static let toSpelling = Dictionary(uniqueKeysWithValues: spellings)

    /// Apple's 32 reasons, in the order of its list.
    package static let listed = spellings.map(\.0)

    /// APNs' spelling, as in answers, reports and the queue.
    package var description: String {
        if case .other(let text) = self { return text }
        return Self.toSpelling[self] ?? ""
    }
}
