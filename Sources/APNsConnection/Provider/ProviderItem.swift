import APNsProtocol
import SecureTransport

/// A notification given to the connections of a provider.
package struct ProviderItem: Sendable {
    /// The caller's own key, under which the outcome comes back.
    package let key: UInt64
    /// Whom it is for.
    package let token: DeviceToken
    /// Its name, the same at every attempt.
    package let id: APNsID
    /// What it shares with others.
    package let attributes: NotificationAttributes
    /// The JSON, as it goes into the body.
    package let payload: [UInt8]
    /// How often it was put on a stream already.
    var sends = 0

    /// Names a notification; its payload was checked with `attributes.checkPayload`.
    package init(
        key: UInt64, token: DeviceToken, id: APNsID, attributes: NotificationAttributes,
        payload: [UInt8]
    ) {
        self.key = key
        self.token = token
        self.id = id
        self.attributes = attributes
        self.payload = payload
    }
}

/// What one notification came to.
package struct ProviderOutcome: Hashable, Sendable {
    /// The kinds of outcome.
    package enum Kind: Hashable, Sendable {
        /// APNs answered.
        case answered(ProviderAnswer)
        /// It was on the wire and nobody can say what became of it; why, in a few words.
        case unknown(String)
        /// The same, and in place of an answer the gateway broke HTTP/2; how, in a few words.
        case garbled(String)
        /// The gateway refused its stream again and again, and did not process it.
        case refused
        /// It certainly was not processed, however often it was tried.
        case untouched
    }

    /// The caller's key.
    package let key: UInt64
    /// What it came to.
    package let kind: Kind
}

/// Why no connection of a provider can go on.
package struct ProviderFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// What has to change before it can.
    package enum Code: Hashable, Sendable {
        /// The gateway cannot be reached, or ends every connection: later may be better.
        case unreachable
        /// The gateway takes notifications and answers none: later may be better.
        case unanswering
        /// The gateway broke TLS or HTTP/2.
        case protocolBroken
        /// Our certificate, key or clock is wrong.
        case credential
    }

    /// What has to change.
    package let code: Code
    /// One line.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    init(_ failure: TransportFailure) {
        let code: Code =
            switch failure.code {
            case .clientCertificateRefused, .credentialsUnusable: .credential
            case .notTLS, .protocolVersion, .protocolError: .protocolBroken
            default: .unreachable
            }
        self.init(code, failure.description)
    }
}
