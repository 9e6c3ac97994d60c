// One notification as APNs requires it over HTTP/2.
//
// Notifications that APNs would certainly refuse are refused here, before they cost a stream: 4xx
// answers make APNs lower the number of streams and finally drop the connection. The common values
// of a batch (topic, type, priority, expiration) are checked and spelled once, in
// `NotificationAttributes`. The values of each notification (path, apns-id) are written into the
// caller's buffer as bytes.

/// The values of the `apns-` headers except `apns-id`, which many notifications share. Source: Apple,
/// "Sending notification requests to APNs".
package struct NotificationAttributes: Hashable, Sendable {
    /// The most bytes of a collapse id that APNs accepts.
    package static let longestCollapseID = 64

    /// The app's bundle id with the suffix of the type.
    package let topic: String
    package let type: PushType
    package let priority: NotificationPriority
    /// Seconds since 1970, 0 for one attempt; nil leaves the choice to APNs.
    package let expiration: UInt32?
    /// Notifications with the same one replace each other on the device.
    package let collapseID: String?

    /// Reads the values of a queue's columns; nil is the default. A bundle id that already ends in the
    /// suffix is used as the topic.
    package init(
        bundleID: String, _ headers: NotificationHeaders
    ) throws(RequestRefusal) {
        type = try Self.type(headers.pushType)
        let suffix = type.topicSuffix
        topic = bundleID.hasSuffix(suffix) ? bundleID : bundleID + suffix
        guard type.takes(topic: topic) else {
            throw RequestRefusal(
                bundleID.isEmpty ? .missingTopic : .badTopic,
                "the topic \"\(PlainASCII.text(bundleID))\" is no bundle id: "
                    + "letters, digits, - and . only, at most \(PushType.longestTopic) bytes")
        }
        priority = try Self.priority(headers.priority) ?? .usual(for: type)
        guard type != .background || priority != .immediate else {
            throw RequestRefusal(
                .badPriority, "a background notification must not have priority 10; use 5 or 1")
        }
        expiration = headers.expiration.map { UInt32(clamping: $0) }
        collapseID = headers.collapseID
        if let collapseID, let why = Self.fault(ofCollapseID: collapseID) {
            throw RequestRefusal(.badCollapseID, "the collapse id " + why)
        }
    }

    private static func type(_ text: String?) throws(RequestRefusal) -> PushType {
        guard let text else { return .alert }
        guard let known = PushType(rawValue: text) else {
            throw RequestRefusal(
                .invalidPushType,
                "\"\(PlainASCII.text(text))\" is no push type; the types are "
                    + PushType.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return known
    }

    private static func priority(_ number: Int?) throws(RequestRefusal) -> NotificationPriority? {
        guard let number else { return nil }
        guard let known = UInt8(exactly: number).flatMap(NotificationPriority.init(rawValue:))
        else { throw RequestRefusal(.badPriority, "priority \(number) is none of 10, 5 and 1") }
        return known
    }

    /// RFC 9113 section 8.2.1 forbids control characters in header values, HTTP libraries treat other
    /// characters differently, and parsers would cut a space at either end.
    private static func fault(ofCollapseID text: String) -> String? {
        let count = text.utf8.count
        guard count > 0 else { return "is empty" }
        guard count <= longestCollapseID else {
            return "has \(count) bytes, the limit is \(longestCollapseID)"
        }
        let isPlain = text.utf8.allSatisfy(PlainASCII.isPrintable)
        return isPlain && text.first != " " && text.last != " "
            ? nil : "has a character other than printable ASCII"
    }

    /// The header fields, names in lower case (RFC 9113 section 8.2). Each states whether the HPACK table
    /// may keep it (RFC 7541 section 6.2): all but those that change too often.
    package var fields: [(name: String, value: String, isIndexed: Bool)] {
        var fields = [
            ("apns-topic", topic, true), ("apns-push-type", type.rawValue, true),
            ("apns-priority", "\(priority.rawValue)", true),
        ]
        if let expiration { fields.append(("apns-expiration", "\(expiration)", false)) }
        if let collapseID { fields.append(("apns-collapse-id", collapseID, false)) }
        return fields
    }

    /// Checks the length of a payload in bytes.
    package func checkPayload(bytes count: Int) throws(RequestRefusal) {
        guard count > 0 else { throw RequestRefusal(.payloadEmpty, "the payload is empty") }
        guard count <= type.payloadLimit else {
            throw RequestRefusal(
                .payloadTooLarge,
                "the payload has \(count) bytes, the limit is \(type.payloadLimit)")
        }
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

/// Why a notification is not sent: APNs would refuse it or its provider token, and every refusal slows
/// the connection down for the others (Apple, "Handling notification responses from APNs").
package struct RequestRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason with which APNs would have refused the notification.
    package let reason: ProviderReason
    /// One clause for messages and reports.
    package let description: String

    init(_ reason: ProviderReason, _ description: String) {
        (self.reason, self.description) = (reason, description)
    }
}
