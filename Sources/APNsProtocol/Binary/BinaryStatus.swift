/// The status in an error packet of the binary provider interface. Every value names one
/// notification by its identifier; that notification and all before it were read, and all after it
/// were discarded and must be sent again on a new connection. Source: Apple, "Binary Provider API"
/// (archived), "Codes in error-response packet".
package enum BinaryStatus: Hashable, Sendable {
    /// 0: no errors. Gateways do not send it for a good notification; success has no answer.
    case noErrors
    /// 1: the gateway failed to process the notification.
    case processingError
    /// 2: no device token.
    case missingToken
    /// 3: the certificate names no topic.
    case missingTopic
    /// 4: no payload.
    case missingPayload
    /// 5: the token has a wrong number of bytes.
    case invalidTokenSize
    /// 6: the topic has a wrong number of bytes.
    case invalidTopicSize
    /// 7: the payload has too many bytes.
    case invalidPayloadSize
    /// 8: the token is malformed, of another app, or of the other environment.
    case invalidToken
    /// 10: the gateway closes for maintenance. The identifier names the last notification that it
    /// accepted.
    case shutdown
    /// 128: the gateway could not parse the notification.
    case protocolError
    /// 255: unknown.
    case unknown
    /// A number that Apple's table does not have.
    case other(UInt8)

    /// Apple's numbers.
    private static let numbers: [(BinaryStatus, UInt8)] = [
        (.noErrors, 0), (.processingError, 1), (.missingToken, 2), (.missingTopic, 3),
        (.missingPayload, 4), (.invalidTokenSize, 5), (.invalidTopicSize, 6),
        (.invalidPayloadSize, 7), (.invalidToken, 8), (.shutdown, 10), (.protocolError, 128),
        (.unknown, 255),
    ]
    private static let byNumber = Dictionary(uniqueKeysWithValues: numbers.map { ($0.1, $0.0) })
    private static let toNumber = Dictionary(uniqueKeysWithValues: numbers)

    /// The statuses of Apple's table, in its order.
    package static let listed = numbers.map(\.0)

    /// The status of a number. Each number has one.
    package init(_ number: UInt8) {
        self = Self.byNumber[number] ?? .other(number)
    }

    /// The number on the wire.
    package var number: UInt8 {
        if case .other(let number) = self { return number }
        return Self.toNumber[self] ?? 0
    }

    /// The part of the notification, or of its way, at which the status points.
    package enum Subject: Hashable, Sendable {
        /// The device token. This is no proof that a device is gone: no status of this interface
        /// has a time, and a token of the other environment has the same status.
        case token
        /// The payload.
        case payload
        /// The topic, so the certificate.
        case topic
        /// The frame, so the sender's program.
        case frame
        /// The gateway: nothing is known about the notification.
        case gateway
    }

    /// The part at which the status points.
    package var subject: Subject {
        switch self {
        case .missingToken, .invalidTokenSize, .invalidToken: .token
        case .missingPayload, .invalidPayloadSize: .payload
        case .missingTopic, .invalidTopicSize: .topic
        case .protocolError: .frame
        case .noErrors, .processingError, .shutdown, .unknown, .other: .gateway
        }
    }

    /// Whether the gateway accepted the notification that the packet names. Only status 10 does; with
    /// all others it is the first one that was not accepted.
    package var acceptsNamed: Bool { self == .shutdown }

    /// Whether the notification that the packet names can be accepted later without a change. Apple
    /// says that a rejected notification must be corrected first, so this is false for each status
    /// that points at the notification, and for status 10, which accepted it. It is true where the
    /// gateway told nothing about the notification: 0, 1, 255 and unknown numbers. Repeat those a
    /// few times at most.
    package var isRetryable: Bool { subject == .gateway && !acceptsNamed }
}

extension BinaryStatus: CustomStringConvertible {
    /// Apple's words with the number, as in "invalid token (8)".
    package var description: String { "\(words) (\(number))" }

    private var words: String {
        switch self {
        case .noErrors: "no errors"
        case .processingError: "processing error"
        case .missingToken: "missing device token"
        case .missingTopic: "missing topic"
        case .missingPayload: "missing payload"
        case .invalidTokenSize: "invalid token size"
        case .invalidTopicSize: "invalid topic size"
        case .invalidPayloadSize: "invalid payload size"
        case .invalidToken: "invalid token"
        case .shutdown: "shutdown"
        case .protocolError: "protocol error"
        case .unknown: "none (unknown)"
        case .other: "a status outside Apple's list"
        }
    }
}
