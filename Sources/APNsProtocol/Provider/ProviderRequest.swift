// One notification as APNs requires it over HTTP/2.
//
// Notifications that APNs would certainly refuse are refused here, before they cost a stream: 4xx
// answers make APNs lower the number of streams and finally drop the connection. The common values
// of a batch (topic, type, priority, expiration) are checked and spelled once, in
// `NotificationAttributes`. The values of each notification (path, apns-id) are written into the
// caller's buffer as bytes.

/// The values of the `apns-` headers except `apns-id`, which many notifications share.
package struct NotificationAttributes: Hashable, Sendable {
    /// The topic with the suffix of the type.
    package let topic: APNsTopic
    /// The push type.
    package let type: PushType
    /// The value of `apns-priority`.
    package let priority: NotificationPriority
    /// The value of `apns-expiration`; nil leaves the header out and the choice to APNs.
    package let expiration: NotificationExpiration?
    /// The value of `apns-collapse-id`; nil: the notification replaces no other.
    package let collapseID: CollapseID?

    /// Checks that the values fit together; a nil priority is the type's default. Throws
    /// `immediateBackground` or `topicWithoutSuffix`.
    package init(
        topic: APNsTopic, type: PushType = .alert, priority: NotificationPriority? = nil,
        expiration: NotificationExpiration? = nil, collapseID: CollapseID? = nil
    ) throws(RequestRefusal) {
        guard topic.suits(type) else {
            throw .topicWithoutSuffix(topic: topic.description, suffix: type.topicSuffix)
        }
        guard !(type == .background && priority == .immediate) else { throw .immediateBackground }
        self.topic = topic
        self.type = type
        self.priority = priority ?? .usual(for: type)
        self.expiration = expiration
        self.collapseID = collapseID
    }

    /// Reads the values of a queue's columns; nil is the default. Throws the refusal of the first
    /// wrong value.
    package init(
        bundleID: String, _ headers: NotificationHeaders
    ) throws(RequestRefusal) {
        let kind = try headers.pushType.map { (text) throws(RequestRefusal) in
            guard let known = PushType(rawValue: text) else { throw .unknownPushType(text) }
            return known
        }
        let urgency = try headers.priority.map { (number) throws(RequestRefusal) in
            guard let known = UInt8(exactly: number).flatMap(NotificationPriority.init(rawValue:))
            else { throw .unknownPriority(number) }
            return known
        }
        try self.init(
            topic: APNsTopic(bundleID: bundleID, for: kind ?? .alert), type: kind ?? .alert,
            priority: urgency,
            expiration: headers.expiration.map {
                NotificationExpiration(headerValue: UInt32(clamping: $0))
            },
            collapseID: headers.collapseID.map { (text) throws(RequestRefusal) in
                try CollapseID(text)
            })
    }

    /// The header fields, names in lower case (RFC 9113 section 8.2). Each field states whether the
    /// HPACK table may keep it (Apple, "Sending notification requests to APNs": all but
    /// `apns-expiration` and `apns-collapse-id`, which change too often).
    package var fields: [ProviderField] {
        var fields = [
            ProviderField("apns-topic", topic.description),
            ProviderField("apns-push-type", type.rawValue),
            ProviderField("apns-priority", "\(priority.rawValue)"),
        ]
        if let expiration {
            fields.append(
                ProviderField("apns-expiration", "\(expiration.headerValue)", isIndexed: false))
        }
        if let collapseID {
            fields.append(
                ProviderField("apns-collapse-id", collapseID.description, isIndexed: false))
        }
        return fields
    }

    /// Checks the length of a payload in bytes. Throws `emptyPayload` or `payloadTooLarge`.
    package func checkPayload(bytes count: Int) throws(RequestRefusal) {
        guard count > 0 else { throw .emptyPayload }
        guard count <= type.payloadLimit else {
            throw .payloadTooLarge(bytes: count, limit: type.payloadLimit)
        }
    }
}

/// One header field of a request.
package struct ProviderField: Hashable, Sendable {
    /// The name in lower case.
    package let name: String
    /// The value, printable ASCII.
    package let value: String
    /// Whether HPACK's dynamic table may keep it (RFC 7541 section 6.2).
    package let isIndexed: Bool

    /// Makes a field, by default one that HPACK's table may keep.
    package init(_ name: String, _ value: String, isIndexed: Bool = true) {
        self.name = name
        self.value = value
        self.isIndexed = isIndexed
    }
}

/// `:path` of a notification: `/3/device/` and the token in lower-case hex.
package enum ProviderPath {
    /// The part of the path before the token.
    package static let prefix = "/3/device/"

    /// The number of bytes in the path to a token.
    package static func length(of token: DeviceToken) -> Int {
        prefix.utf8.count + token.count * 2
    }

    /// Writes the path and returns its number of bytes.
    ///
    /// - Precondition: the buffer has room for `length(of:)` bytes.
    @discardableResult
    package static func write(
        _ token: DeviceToken, into buffer: UnsafeMutableRawBufferPointer
    ) -> Int {
        let start = prefix.utf8.count
        precondition(buffer.count >= length(of: token))
        for (index, byte) in prefix.utf8.enumerated() { buffer[index] = byte }
        token.writeHex(into: UnsafeMutableRawBufferPointer(rebasing: buffer[start...]))
        return length(of: token)
    }
}

/// The reason why a notification is not sent: APNs would refuse it, and every refusal slows the
/// connection down for the others (Apple, "Handling notification responses from APNs").
package enum RequestRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// No payload. APNs answers PayloadEmpty.
    case emptyPayload
    /// More bytes than the push type allows. APNs answers PayloadTooLarge.
    case payloadTooLarge(bytes: Int, limit: Int)
    /// A `background` notification with priority 10. APNs answers BadPriority.
    case immediateBackground
    /// A priority other than 10, 5 and 1. APNs answers BadPriority.
    case unknownPriority(Int)
    /// A push type outside Apple's list. APNs answers InvalidPushType.
    case unknownPushType(String)
    /// An empty collapse id. APNs answers BadCollapseId.
    case emptyCollapseID
    /// A collapse id over 64 bytes. APNs answers BadCollapseId.
    case collapseIDTooLong(bytes: Int)
    /// A collapse id with a character that a header value cannot have. APNs answers BadCollapseId.
    case unprintableCollapseID
    /// No topic. APNs answers MissingTopic.
    case emptyTopic
    /// A topic with a character that topics cannot have. APNs answers BadTopic.
    case malformedTopic(String)
    /// A topic without the suffix that the push type requires. APNs answers BadTopic.
    case topicWithoutSuffix(topic: String, suffix: String)

    /// The reason with which APNs would have refused the notification.
    package var reason: ProviderReason {
        switch self {
        case .emptyPayload: .payloadEmpty
        case .payloadTooLarge: .payloadTooLarge
        case .immediateBackground, .unknownPriority: .badPriority
        case .unknownPushType: .invalidPushType
        case .emptyCollapseID, .collapseIDTooLong, .unprintableCollapseID: .badCollapseID
        case .emptyTopic: .missingTopic
        case .malformedTopic, .topicWithoutSuffix: .badTopic
        }
    }

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .emptyPayload: "the payload is empty"
        case .payloadTooLarge(let bytes, let limit):
            "the payload has \(bytes) bytes, the limit is \(limit)"
        case .immediateBackground: "a background notification must not have priority 10; use 5 or 1"
        case .unknownPriority(let number): "priority \(number) is none of 10, 5 and 1"
        case .unknownPushType(let text):
            "\"\(PlainASCII.text(text))\" is no push type; the types are "
                + PushType.allCases.map(\.rawValue).joined(separator: ", ")
        case .emptyCollapseID: "the collapse id is empty"
        case .collapseIDTooLong(let bytes):
            "the collapse id has \(bytes) bytes, the limit is \(CollapseID.longest)"
        case .unprintableCollapseID: "the collapse id has a character other than printable ASCII"
        case .emptyTopic: "the topic is empty"
        case .malformedTopic(let topic):
            "the topic \"\(PlainASCII.text(topic))\" is no bundle id: "
                + "letters, digits, - and . only, at most \(APNsTopic.longest) bytes"
        case .topicWithoutSuffix(let topic, let suffix):
            "the topic \(topic) must end in \(suffix) for this push type"
        }
    }
}
