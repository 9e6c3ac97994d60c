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

/// Makes text of unknown origin safe to print: printable ASCII, at most 64 characters, `?` for the
/// rest. Text of peers and databases must not bring control characters to a terminal.
enum PlainASCII {
    static let longest = 64

    static func text(_ text: String) -> String {
        String(decoding: text.utf8.prefix(longest).map(shown), as: UTF8.self)
    }

    static func isPrintable(_ byte: UInt8) -> Bool { byte >= 0x20 && byte < 0x7F }

    static func shown(_ byte: UInt8) -> UInt8 { isPrintable(byte) ? byte : UInt8(ascii: "?") }
}
