/// The value of `apns-topic`: the app's bundle id with the suffix of the push type, or for `mdm` the
/// UID in the certificate's subject. Source: Apple, "Sending notification requests to APNs".
package struct APNsTopic: Hashable, Sendable, CustomStringConvertible {
    /// The most bytes accepted. Apple states no limit; bundle ids are at most 155 characters in App
    /// Store Connect.
    package static let longest = 255

    /// The whole topic, suffix included.
    package let description: String

    /// Checks a whole topic. Throws `emptyTopic` or `malformedTopic`.
    package init(_ text: String) throws(RequestRefusal) {
        guard !text.isEmpty else { throw .emptyTopic }
        guard text.utf8.count <= Self.longest, text.utf8.allSatisfy(Self.isAllowed) else {
            throw .malformedTopic(text)
        }
        description = text
    }

    /// The topic of an app for a push type. A bundle id that already ends in the suffix is used as
    /// the topic. Throws `emptyTopic` or `malformedTopic`.
    package init(bundleID: String, for type: PushType) throws(RequestRefusal) {
        let suffix = type.topicSuffix
        try self.init(bundleID.hasSuffix(suffix) ? bundleID : bundleID + suffix)
    }

    /// Whether the topic ends as the push type requires.
    package func suits(_ type: PushType) -> Bool {
        description.utf8.count > type.topicSuffix.utf8.count
            && description.hasSuffix(type.topicSuffix)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"),
            // Not in Apple's rule for bundle ids, but seen in old ones.
            UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

/// The value of `apns-collapse-id`: notifications with the same one replace each other on the
/// device. Source: Apple, "Sending notification requests to APNs".
package struct CollapseID: Hashable, Sendable, CustomStringConvertible {
    /// The most bytes that APNs accepts.
    package static let longest = 64

    /// The text of the header.
    package let description: String

    /// Checks the form. Throws `emptyCollapseID`, `collapseIDTooLong` or `unprintableCollapseID`
    /// (RFC 9113 section 8.2.1 forbids control characters in header values, and HTTP libraries
    /// treat other characters differently).
    package init(_ text: String) throws(RequestRefusal) {
        guard !text.isEmpty else { throw .emptyCollapseID }
        guard text.utf8.count <= Self.longest else {
            throw .collapseIDTooLong(bytes: text.utf8.count)
        }
        // HTTP parsers would cut a space at either end, and two ids would become one.
        guard text.utf8.allSatisfy(PlainASCII.isPrintable), text.first != " ", text.last != " "
        else { throw .unprintableCollapseID }
        description = text
    }
}
