// One notification as APNs wants it over HTTP/2.
//
// Everything APNs would refuse on sight is refused here, before it costs a stream: 4xx answers make
// APNs lower the number of streams and in the end drop the connection. What all notifications of a
// batch share (topic, type, priority, expiration) is checked and spelled once, in
// `NotificationAttributes`; what differs for each (path, apns-id) is written into the caller's
// buffer as bytes.

/// What many notifications share: the values of the `apns-` headers except `apns-id`.
package struct NotificationAttributes: Hashable, Sendable {
    /// The topic with the suffix of the type.
    package let topic: APNsTopic
    /// The kind of notification.
    package let type: PushType
    /// How urgent it is.
    package let priority: NotificationPriority
    /// How long APNs keeps it; nil leaves the header out and the choice to APNs.
    package let expiration: NotificationExpiration?
    /// What it replaces on the device.
    package let collapseID: CollapseID?

    /// Checks that the values go together; a nil priority is the type's usual one. Throws
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

    /// Reads the values as a queue's columns hold them; nil is the usual value. Throws the refusal
    /// of the first value that is wrong.
    package init(
        bundleID: String, type: String?, priority: Int?, expiration: UInt32?, collapseID: String?
    ) throws(RequestRefusal) {
        let kind = try type.map { (text) throws(RequestRefusal) in
            guard let known = PushType(rawValue: text) else { throw .unknownPushType(text) }
            return known
        }
        let urgency = try priority.map { (number) throws(RequestRefusal) in
            guard let known = UInt8(exactly: number).flatMap(NotificationPriority.init(rawValue:))
            else { throw .unknownPriority(number) }
            return known
        }
        try self.init(
            topic: APNsTopic(bundleID: bundleID, for: kind ?? .alert), type: kind ?? .alert,
            priority: urgency,
            expiration: expiration.map { NotificationExpiration(headerValue: $0) },
            collapseID: collapseID.map { (text) throws(RequestRefusal) in try CollapseID(text) })
    }

    /// The header fields, names in lower case (RFC 9113 section 8.2). Each says whether the HPACK
    /// table should remember it (Apple, "Sending notification requests to APNs": all but
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

    /// Checks a payload of so many bytes. Throws `emptyPayload` or `payloadTooLarge`.
    package func checkPayload(bytes count: Int) throws(RequestRefusal) {
        guard count > 0 else { throw .emptyPayload }
        guard count <= type.payloadLimit else {
            throw .payloadTooLarge(bytes: count, limit: type.payloadLimit)
        }
    }
}

/// One header field.
package struct ProviderField: Hashable, Sendable {
    /// Lower-case name.
    package let name: String
    /// Value, printable ASCII.
    package let value: String
    /// Whether HPACK's dynamic table may remember it (RFC 7541 section 6.2).
    package let isIndexed: Bool

    /// Makes a field.
    package init(_ name: String, _ value: String, isIndexed: Bool = true) {
        self.name = name
        self.value = value
        self.isIndexed = isIndexed
    }
}

/// `:path` of a notification: `/3/device/` and the token in lower-case hex.
package enum ProviderPath {
    /// What comes before the token.
    package static let prefix = "/3/device/"

    /// The bytes of the path to a token.
    package static func length(of token: DeviceToken) -> Int {
        prefix.utf8.count + token.count * 2
    }

    /// Writes the path and says how many bytes it has.
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
